"""A statistic more is one function and one ``Statistic``: the rest of the house finds them by themselves."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import attnprobe
from attnprobe import statistics
from attnprobe.statistics.registry import all_statistics, all_tabulations, choose

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


def test_a_file_of_ones_own_is_found(added: None):
    """It has its columns in the census, by name and by family, and its entry on the page of statistics."""
    from pages import statistics as document_statistics

    assert [one.name for one in choose(["runners"])] == [one.name for one in choose(["runner_up"])]
    assert "runner_up" in attnprobe.census("demo", ["The parcel came late."]).data
    assert "#### `runner_up`" in document_statistics()
