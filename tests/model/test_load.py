"""Devices are named where there are some."""

import hashlib

import pytest
import torch

from attnprobe import AttnprobeError
from attnprobe.model.folders import hash_file
from attnprobe.model.load import find_device


@pytest.mark.parametrize(
    ("there", "expected"), [(0, "use auto or cpu."), (2, "use auto or cpu or cuda:0 or cuda:1.")]
)
@pytest.mark.parametrize("asked", ["cuda:7", "tpu", "meta"])
def test_a_device_that_is_not_there(monkeypatch: pytest.MonkeyPatch, asked: str, there: int, expected: str):
    """Nothing is suggested that there is not."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: there)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(AttnprobeError) as caught:
        find_device(asked)
    assert str(caught.value).endswith(expected)


def test_a_file_that_changes_is_hashed_anew(tmp_path):
    path = tmp_path / "model.safetensors"
    found = []
    for content in (b"one", b"one", b"two"):
        path.write_bytes(content)
        found.append(hash_file(path) == hashlib.sha256(content).hexdigest())
    assert all(found)
