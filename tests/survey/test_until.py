"""Rounds of documents and looks at a table, against widths computed by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from attnprobe.corpus.sources.document import Document
from attnprobe.corpus.sources.order import Order
from attnprobe.corpus.tokenization import Reading
from attnprobe.errors import AttnprobeError, NothingToMeasureError
from attnprobe.run.options import CorpusOptions
from attnprobe.run.preparation import Corpus
from attnprobe.run.progress import SilentProgress
from attnprobe.sums.documents import Sketch
from attnprobe.sums.groups import Clustered
from attnprobe.survey.until import Round, find_targets, measure_widths, read_until_enough, take_look
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

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
    table = tabulate([1.0, 2.0, math.nan, 3.0], [0.1, 0.2, math.nan, math.nan])
    expected = stats.t.ppf(0.975, 127) * np.array([0.1, 0.2])
    assert measure_widths(table, "entropy", 128).tolist() == pytest.approx([*expected, 0.0, math.inf])
    assert measure_widths(table, "entropy", 900)[0] == pytest.approx(stats.t.ppf(0.975, 499) * 0.1)
    assert measure_widths(table, "entropy", 900, 64)[0] == pytest.approx(stats.t.ppf(0.975, 63) * 0.1)
    assert measure_widths(table, "rare", 128)[0] == pytest.approx(stats.t.ppf(0.975, 8) * 0.1)


def test_a_look_is_at_the_widest_interval_of_each_column():
    table = tabulate([1.0, 2.0, math.nan], [0.1, 0.2, math.nan])
    look, places = take_look(table, {"entropy": 0.5, "rare": 0.2}, 128)
    assert (look.widest["entropy"].row, look.widest["entropy"].reached) == (1, True)
    assert places["entropy"] == {"layer": 0, "head": 1}
    assert not look.reached
    assert look.worst[0] == "rare"


def test_a_column_without_a_number_is_no_reason_to_read_on():
    table = tabulate([1.0], [0.1], rare=math.nan, rare_error=math.nan, rare_n=0)
    look, places = take_look(table, {"entropy": 0.5, "rare": 0.2}, 128)
    assert look.reached
    assert "rare" not in places
    end, _ = read(VALUES, 9)
    some = replace(end, looks=[look], places=[places], targets={"entropy": 0.5, "rare": 0.2})
    assert next(some.notes()) == (
        "128 of 5,000 documents were enough: the widest 95 % interval of entropy is ±0.2 (asked: ±0.5) and "
        "of rare none, as no row has a number (asked: ±0.2). They were read in a random order."
    )


def test_a_table_without_rows_may_come_to_have_some():
    """Such as of labels, which are shown from so many links on."""
    look, _ = take_look(tabulate([], []), {"entropy": 9.0}, 128)
    assert not look.reached
    assert look.estimate is None


def test_one_document_has_no_interval():
    end, _ = read(VALUES[:1])
    assert next(end.notes()) == (
        "1 document, all there was to read, is not enough: the widest 95 % interval of entropy is unknown "
        "(asked: ±0.1)."
    )


def test_targets_are_columns_with_errors():
    table = tabulate([1.0], [0.1])
    assert find_targets(table, {"": 0.05}) == {"entropy": 0.05, "rare": 0.05}
    assert find_targets(table, {"rare": 0.1}) == {"rare": 0.1}
    for name, said in {
        "entropi": "no column 'entropi'; did you mean entropy\\? It has errors of entropy and rare",
        "zzz": "no column 'zzz'; it has errors of entropy and rare",
        "offset": "offset has no error that could get smaller; --until takes .* entropy and rare",
        "n": "n has no error",
        "entropy_se": "entropy_se has no error",
    }.items():
        with pytest.raises(AttnprobeError, match=said):
            find_targets(table, {"entropy": 0.1, name: 0.1})
    bare = HeadTable("heads", COLUMNS[:4], {one.name: [0] for one in COLUMNS[:4]})
    with pytest.raises(AttnprobeError, match="No column of this table has an error"):
        find_targets(bare, {"": 0.1})


def read(values, target=0.1, *, sample=None, limit=None, strict=False, empty=(), counted=False):
    """Read documents of known numbers, in the order of a seed; give the end, and what came in rounds."""
    rounds = []

    def measure(documents, number, title):
        texts = [document.text for document in documents]
        rounds.append((number, title, texts))
        numbers = [values[int(text)] for text in texts if int(text) not in empty]
        if not numbers:
            raise NothingToMeasureError("None of them.")
        corpus = {"sequences": len(numbers), "clusters": len(numbers), "spelled_token": "", "texts": [number]}
        corpus["sketch"] = Sketch.of(np.arange(len(numbers)) + 1000 * number).pack()
        kept = Corpus([], Reading(documents=len(texts)), 8)
        return Round(Clustered.of(np.array(numbers)[:, None]), {"corpus": corpus}, kept)

    def table(found):
        return tabulate(found.sums.average, found.sums.standard_error)

    documents = (Document(str(place)) for place in range(len(values)))
    options = CorpusOptions(until={"entropy": target}, strict=strict, sample=sample, limit=limit)
    order = Order(42, counted=counted)
    end = read_until_enough(documents, options, order, measure, table, progress=SilentProgress())
    return end, rounds


VALUES = np.random.default_rng(0).normal(3.0, 1.0, 5000)


def test_it_ends_at_the_first_look_that_is_precise_enough():
    end, rounds = read(VALUES)
    texts = [text for *_, some in rounds for text in some]
    numbers = VALUES[[int(text) for text in texts]]
    widths = [stats.t.ppf(0.975, min(n, 500) - 1) * numbers[:n].std(ddof=1) / n**0.5 for n in (128, 256, 512)]
    assert widths[1] > 0.1 > widths[2]
    assert [len(some) for *_, some in rounds] == [128, 128, 256]
    assert [look.widest["entropy"].half_width for look in end.looks] == pytest.approx(widths)
    assert (end.reached, end.order.total, len(set(texts))) == (True, 5000, 512)
    assert end.found.sums.average[0] == pytest.approx(numbers.mean())
    assert end.found.record["corpus"]["sequences"] == end.found.corpus.reading.documents == 512
    assert end.found.record["corpus"]["texts"] == [0, 1, 2]
    first, *_ = end.notes()
    assert first.startswith(
        "512 of 5,000 documents were enough: the widest 95 % interval of entropy is ±0.08"
    )
    needed = math.ceil(128 * (widths[0] / 0.1) ** 2)
    assert [title for _, title, _ in rounds[:2]] == [
        "",
        f"entropy ±{widths[0]:.2g} (±0.1), some {-(-needed // 10) * 10} documents",
    ]
    assert [look["documents"] for look in end.record["looks"]] == [128, 256, 512]
    assert end.record["looks"][2]["widest"]["entropy"]["head"] == 0


def test_strictly_it_reads_twice_as_much():
    end, _ = read(VALUES, strict=True)
    assert [look.documents for look in end.looks] == [128, 256, 512, 1024]
    assert "1,024 of 5,000 documents were enough, at two looks in a row" in next(end.notes())


@pytest.mark.parametrize(
    ("more", "number", "total"),
    [({}, 300, 300), ({"sample": 200}, 200, 300), ({"limit": 150}, 150, 150), ({"limit": 256}, 256, 256)],
)
def test_it_ends_where_the_text_ends(more, number, total):
    end, rounds = read(VALUES[:300], 0.01, **more)
    assert sum(len(some) for *_, some in rounds) == end.looks[-1].documents == number
    assert (end.reached, end.order.total) == (False, total)
    drawn, every = f"of {total} documents, drawn at random,", "documents, all there were to read,"
    assert next(end.notes()).startswith(f"{number} {drawn if number < total else every} are not enough: ")
    assert "limit" not in more or all(int(text) < more["limit"] for *_, some in rounds for text in some)


def test_rounds_without_a_token_are_passed_over_and_only_such_are_refused():
    order = [int(text) for *_, some in read(VALUES)[1] for text in some]
    end, _ = read(VALUES, empty=set(order[:128]))
    assert [look.documents for look in end.looks] == [256, 512, 1024]
    with pytest.raises(NothingToMeasureError):
        read(VALUES[:150], empty=set(range(150)))


def test_where_errors_are_about_one_corpus_documents_run_out():
    """Widths by hand, at the looks of a run that is not told so; at the end, nothing is left to chance."""
    usual, _ = read(VALUES[:600], 1e-9)
    end, _ = read(VALUES[:600], 1e-9, counted=True)
    assert [look.documents for look in end.looks] == [look.documents for look in usual.looks]
    for one, other in zip(end.looks, usual.looks, strict=True):
        expected = other.widest["entropy"].half_width * math.sqrt(1 - one.documents / 600)
        assert one.widest["entropy"].half_width == pytest.approx(expected)
    assert (end.looks[-1].documents, end.reached, end.error_factor) == (600, True, 0.0)
    assert (usual.reached, usual.error_factor, usual.total) == (False, 1.0, None)
    early, _ = read(VALUES[:600], 0.06, counted=True)
    assert early.record["population"] == "corpus"
    assert early.record["error_factor"] == pytest.approx(math.sqrt(1 - 512 / 600))
    assert any("about the 600 documents of this corpus alone" in note for note in early.notes())
    assert "population" not in usual.record
    assert read(VALUES[:1], counted=True)[0].reached
