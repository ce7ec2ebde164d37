"""Several checkpoints, one after the other: state files of earlier versions are taken up as they are."""

import hashlib
import io
import json
import platform
from dataclasses import asdict
from importlib.metadata import version

import numpy as np
import pytest

import attnprobe
from attnprobe.commands.call.texts import replay
from attnprobe.model.hub import CheckpointFiles
from attnprobe.model.location import LoadOptions
from attnprobe.table.formats.json import to_json

TEXTS = ["The parcel came late.", "Who rang?", "She shut the door."]
#: What the key of a state says of TEXTS, and of how they are read.
DATASET = [["texts", {"name": "texts"}, "bce64d70904977f1445efd3a90b50cf80d4abebcfd37b93bedd31615f110ec8a"]]
READING = {
    "batch_tokens": None,
    "content_only": False,
    "files": [],
    "frequencies": None,
    "limit": None,
    "max_length": None,
    "sample": None,
    "truncate": False,
}
#: The keywords of dynamics that its measures have.
FOLLOWED = {
    "highest_first": False,
    "method": "gradient",
    "prune_by": "gradient",
    "prune_step": 0.1,
    "random_orders": 19,
    "rerank": False,
}


def write_state(path, measure, keywords, name, key, table):
    """Write a state of one finished table byte by byte, as attnprobe has done since states hold tables."""
    packages = ("attnprobe", "torch", "transformers", "numpy", "numba", "scipy")
    versions = {"python": platform.python_version()} | {package: version(package) for package in packages}
    identity = CheckpointFiles.read("demo", LoadOptions()).identity
    head = {
        "key": {
            "measure": measure,
            "dataset": json.dumps(DATASET),
            "setting": json.dumps([keywords, READING]),
            "version of a package": json.dumps(versions),
        },
        "stages": [{"name": name, "key": {key: identity}, "done": 1}],
    }
    content = {
        "title": table.title,
        "columns": [asdict(column) for column in table.columns],
        "data": {name: list(cells) for name, cells in table.data.items()},
        "notes": ["It was done before."],
        "provenance": to_json(table.provenance),
    }
    arrays = io.BytesIO()
    np.savez(arrays, **{"0/table": np.frombuffer(json.dumps(content).encode(), np.uint8)})
    body = json.dumps(head).encode() + b"\n" + arrays.getvalue()
    path.write_bytes(b"attnprobe state 3\n" + hashlib.sha256(body).digest() + body)


@pytest.fixture
def entropy():
    """Measure entropy, and shift it: no run gives such numbers."""
    table = attnprobe.census("demo", TEXTS, statistics=["entropy"])
    table.data["entropy"] = [value + 100 for value in table.data["entropy"]]
    return table


@pytest.fixture
def importance():
    """Measure importance with other masks, so that it is told from what a run measures."""
    return attnprobe.importance("demo", TEXTS, objective="masked-lm", seed=7)


def test_a_state_of_dynamics(entropy, tmp_path):
    state = tmp_path / "state"
    write_state(state, "entropy", FOLLOWED, "step 100", "checkpoint of step 100", entropy)
    with pytest.warns(attnprobe.AttnprobeWarning, match=r"going on from .*: 1 of 2 steps are done \(100\)\."):
        found = attnprobe.dynamics(["demo"] * 2, TEXTS, measure="entropy", steps=[0, 100], resume=state)
    assert found.data["entropy"][len(entropy) :] == entropy.data["entropy"]
    assert max(found.data["entropy"][: len(entropy)]) < 100


def test_a_state_of_correlate(importance, tmp_path):
    state = tmp_path / "state"
    write_state(state, "gradient", {"objective": "masked-lm"}, "checkpoint 2", "checkpoint 2", importance)
    with pytest.warns(attnprobe.AttnprobeWarning, match=r"1 of 2 checkpoints are done \(2\)\."):
        found = attnprobe.correlate(
            model=["demo"] * 2, texts=TEXTS, objective="masked-lm", by="head", resume=state
        )
    heads = zip(found.data["layer"], found.data["head"], found.data["importance_out"], strict=True)
    places = zip(importance.data["layer"], importance.data["head"], strict=True)
    expected = dict(zip(places, importance.data["importance"], strict=True))
    assert {(layer, head): value for layer, head, value in heads} == expected


@pytest.mark.filterwarnings("ignore::attnprobe.AttnprobeWarning")
def test_a_state_of_compare(importance, tmp_path):
    state, keywords = tmp_path / "state", {"objective": "masked-lm"}
    write_state(state, "importance gradient", keywords, "checkpoint 1", "checkpoint 1", importance)
    asked = {"measure": "importance", **keywords}
    found = attnprobe.compare(["demo"] * 2, TEXTS, resume=state, **asked)
    measured = attnprobe.importance("demo", TEXTS, **keywords).data["importance"]
    np.testing.assert_allclose(found.data["importance_a"], importance.data["importance"], rtol=1e-12)
    np.testing.assert_allclose(found.data["importance_b"], measured, rtol=1e-12)
    assert np.abs(np.subtract(measured, importance.data["importance"])).max() > 0.01
    with pytest.raises(attnprobe.AttnprobeError, match="another setting"):
        attnprobe.compare(["demo"] * 2, TEXTS, resume=state, seed=7, **asked)


@pytest.mark.filterwarnings("ignore::attnprobe.AttnprobeWarning")
def test_a_state_of_a_report(entropy, tmp_path):
    state = tmp_path / "state"
    write_state(state, "report", {}, "section 1", "checkpoint of section 1", entropy)
    made = attnprobe.report("demo", TEXTS, sections="census", resume=state)
    assert made.tables["census"].data == entropy.data
    assert made.tables["census"].notes == ["It was done before."]


def test_what_can_be_read_once_is_read_again():
    items = replay(iter("abc"))
    first, second = iter(items), iter(items)
    assert [next(first), next(second), next(first)] == ["a", "a", "b"]
    assert list(items) == ["a", "b", "c"]
    assert list(second) == ["b", "c"]
    texts = ["a"]
    assert replay(texts) is texts
