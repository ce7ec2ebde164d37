"""Rounds of documents and looks at a table, against widths computed by hand."""

import math

import numpy as np
import pytest
from scipy import stats

from attnprobe.corpus.document import Document
from attnprobe.corpus.source import Order
from attnprobe.errors import AttnprobeError
from attnprobe.run.options import CorpusOptions
from attnprobe.statistics.entropy import ENTROPY
from attnprobe.sums.clustered import Clustered
from attnprobe.survey.measure import SequentialRun, find_targets, measure_width, split_rounds
from attnprobe.table.table import Column, HeadTable

COLUMNS = [
    Column("model", role="key"), Column("dataset", role="key"), Column("layer", role="key"),
    Column("head", role="key"), Column("n", role="count"), Column("entropy", "nats"),
    Column("entropy_se", "nats", "error"), Column("offset", role="count"), Column("rare"),
    Column("rare_se", role="error"), Column("rare_n", role="count"),
]  # fmt: skip


def tabulate(entropy, errors, rare=0.5, rare_error=0.1, rare_n=9, n=500):
    rows = len(entropy)
    cells = ["m", "d", 0, None, n, None, None, -1, rare, rare_error, rare_n]
    data = {column.name: [cell] * rows for column, cell in zip(COLUMNS, cells, strict=True)}
    data |= {"head": list(range(rows)), "entropy": list(entropy), "entropy_se": list(errors)}
    return HeadTable("heads", COLUMNS, data)


def test_widths_are_of_documents_or_of_fewer_observations():
    table = tabulate([1.0, 2.0, math.nan], [0.1, 0.2, math.nan])
    assert measure_width(table, "entropy", 128) == pytest.approx(stats.t.ppf(0.975, 127) * 0.2)
    assert measure_width(table, "entropy", 900) == pytest.approx(stats.t.ppf(0.975, 499) * 0.2)
    assert measure_width(table, "entropy", 900, 64) == pytest.approx(stats.t.ppf(0.975, 63) * 0.2)
    assert measure_width(table, "rare", 128) == pytest.approx(stats.t.ppf(0.975, 8) * 0.1)
    assert measure_width(tabulate([1.0], [math.nan]), "entropy", 128) == math.inf


def test_targets_are_columns_with_errors():
    table = tabulate([1.0], [0.1])
    assert find_targets(table, {"": 0.05}) == {"entropy": 0.05, "rare": 0.05}
    assert find_targets(table, {"rare": 0.1}) == {"rare": 0.1}
    for name in ("entropi", "n", "entropy_se"):
        with pytest.raises(AttnprobeError, match=f"not '{name}': entropy and rare"):
            find_targets(table, {"entropy": 0.1, name: 0.1})


def test_a_table_without_errors_is_refused():
    bare = HeadTable("heads", COLUMNS[:4], {one.name: [0] for one in COLUMNS[:4]})
    with pytest.raises(AttnprobeError, match="No column of this table has an error"):
        find_targets(bare, {"": 0.1})


def read(values, target=0.1, *, sample=None, limit=None):
    """Read documents of known numbers in the order of a seed; give the looks, and what came in each round."""
    documents = (Document(str(place)) for place in range(len(values)))
    options = CorpusOptions(until={"entropy": target}, sample=sample, limit=limit)
    looks, rounds, total = SequentialRun(Order(42), options.targets, [ENTROPY]), [], None
    for part in split_rounds(documents, options, looks.order):
        rounds.append([int(document.text) for document in part])
        new = Clustered.of(values[rounds[-1]][:, None])
        total = new if total is None else total + new
        corpus = dict.fromkeys(("sequences", "clusters"), int(total.count[0]))
        if looks.look(tabulate(total.average, total.standard_error), corpus):
            break
    return looks, rounds


VALUES = np.random.default_rng(0).normal(3.0, 1.0, 5000)


def test_it_ends_at_the_first_look_that_is_precise_enough():
    looks, rounds = read(VALUES)
    numbers = VALUES[[number for part in rounds for number in part]]
    widths = [stats.t.ppf(0.975, min(n, 500) - 1) * numbers[:n].std(ddof=1) / n**0.5 for n in (128, 256, 512)]
    assert widths[1] > 0.1 > widths[2]
    assert list(map(len, rounds)) == [128, 128, 256]
    record = looks.record
    assert [look["half_widths"]["entropy"] for look in record["looks"]] == pytest.approx(widths)
    assert [look["documents"] for look in record["looks"]] == [128, 256, 512]
    assert (record["reached"], record["of"], len(np.unique(numbers))) == (True, 5000, 512)
    assert looks.note.startswith("512 of 5,000 documents were read in a random order, which is enough: ")


@pytest.mark.parametrize(
    ("more", "number", "total"),
    [({}, 300, 300), ({"sample": 200}, 200, 300), ({"limit": 150}, 150, 150), ({"limit": 256}, 256, 256)],
)
def test_it_ends_where_the_text_ends(more, number, total):
    looks, rounds = read(VALUES[:300], 0.01, **more)
    assert sum(map(len, rounds)) == looks.record["documents"] == number
    assert (looks.record["reached"], looks.record["of"]) == (False, total)
    assert "limit" not in more or all(one < more["limit"] for part in rounds for one in part)
