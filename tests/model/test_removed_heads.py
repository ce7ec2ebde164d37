"""Checkpoints whose heads transformers 4 removed."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from attnprobe.errors import AttnprobeError
from attnprobe.model.load import load_checkpoint


def test_removed_heads_are_refused_by_name(saved: Callable[[str], Path], tmp_path: Path):
    shutil.copytree(saved("bert"), tmp_path / "cut")
    path = tmp_path / "cut" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"pruned_heads": {"0": [1]}}))
    with pytest.raises(AttnprobeError, match="pruned_heads"):
        load_checkpoint(str(tmp_path / "cut"))
