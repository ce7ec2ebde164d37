"""What differs between a checkpoint on record and the one that is found; the hub is stood in for."""

from pathlib import Path

import pytest

from attnprobe.errors import AttnprobeError
from attnprobe.model.hub import CheckpointFiles
from attnprobe.model.location import LoadOptions
from attnprobe.run.record import compare_checkpoint


@pytest.fixture
def hub(monkeypatch):
    """Let every name be a checkpoint of the hub at one commit."""

    def at(name, options):
        if name == "org/gone":
            raise AttnprobeError("'org/gone' is neither a folder here nor a checkpoint on the hub.")
        return CheckpointFiles(name, options, Path("nowhere"), "abc123")

    monkeypatch.setattr(CheckpointFiles, "read", at)


@pytest.mark.parametrize(
    ("name", "recorded", "said"),
    [
        ("org/model", {"commit": "abc123"}, []),
        ("org/model", {"commit": "def\x1b[2J456"}, ["commit abc123 on the hub, and at def456 on record"]),
        (
            "org/model",
            {"weights": {"model.safetensors": "0"}},
            ["is a checkpoint of the hub here, and a folder"],
        ),
        ("org/gone", {"commit": "abc123"}, ["neither a folder here nor a checkpoint on the hub"]),
    ],
)
def test_commits(hub, name, recorded, said):
    found = list(compare_checkpoint(recorded, name, LoadOptions()))
    assert len(found) == bool(said)
    assert all(one.decisive for one in found)
    assert all(part in one.sentence for one, part in zip(found, said, strict=True))
