"""A statistic more is one function and one ``Statistic``: the rest of the house finds them by themselves."""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import attnprobe
from attnprobe import statistics
from attnprobe.statistics.registry import all_statistics, all_tabulations, choose, families

TEXTS = ["The parcel came late.", "Who rang?"]
#: What somebody writes who adds one.
ADDED = '''

def runner_up(block):
    """Probability of the second most attended key, the second largest p_j.

    Limits: 0 to 1/2.

    Source: this test.
    """
    return block.probabilities.topk(2, -1).values[..., 1]


RUNNER_UP = Statistic("runner_up", "share", runner_up, family=FAMILY, order=98)
'''
ON_ITS_OWN = """from attnprobe.statistics.statistic import Family, Statistic

FAMILY = Family("runners", "runners-up", 98)
"""


@pytest.fixture
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put a file into the folder of the statistics."""
    (tmp_path / "runners.py").write_text(ON_ITS_OWN + ADDED)
    found = (all_statistics, all_tabulations)
    monkeypatch.setattr(statistics, "__path__", [*statistics.__path__, str(tmp_path)])
    for one in found:
        one.cache_clear()
    yield
    for one in found:
        one.cache_clear()
    sys.modules.pop("attnprobe.statistics.runners", None)
    vars(statistics).pop("runners", None)


def test_a_file_of_ones_own_is_found(added: None, tmp_path: Path):
    """It has its columns in the census, by name and by family; its sums are kept, merged and resumed."""
    from pages import statistics as document_statistics

    assert [one.name for one in choose(["runners"])] == [one.name for one in choose(["runner_up"])]
    assert families()[-1].name in {"runners", "mixing", "rank"}
    assert "runner_up" in attnprobe.census("demo", TEXTS).data
    parts = []
    for number, text in enumerate(TEXTS):
        path = tmp_path / f"part-{number}.csv"
        attnprobe.census("demo", [text], statistics=["entropy", "runner_up"]).save(path)
        parts.append(path)
    whole = attnprobe.census("demo", TEXTS, statistics=["runner_up"])
    np.testing.assert_allclose(attnprobe.merge(parts)["runner_up"], whole["runner_up"], atol=1e-6)
    assert "#### `runner_up`" in document_statistics()
