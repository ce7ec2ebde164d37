"""Errors over documents; groups of documents in one pass, each as a run over it alone has it."""

import numpy as np
import pytest
from scipy.stats import ttest_ind

import attnprobe
from attnprobe.corpus.document import Document
from attnprobe.table.kinds import ALL_GROUPS

pytestmark = pytest.mark.filterwarnings("ignore::attnprobe.errors.AttnprobeWarning")
WORDS = (
    "the", "a", "of", "river", "bank", "house", "dog", "cat", "bird", "parcel", "came", "late", "early",
    "ran", "walk", "slow", "quick", "red", "green",
)  # fmt: skip
GROUPS = ("fiction", "law", "news")


def draw_rows(number=36):
    """Draw texts of three groups, of documents that lie in one of them each."""
    draw = np.random.default_rng(0)
    rows = []
    for _ in range(number):
        group, length = int(draw.integers(3)), int(draw.integers(1, 24))
        document = f"{GROUPS[group]} {draw.integers(7)}"
        rows.append((" ".join(draw.choice(WORDS, length)), GROUPS[group], document))
    return rows


ROWS = draw_rows()


def columns_of(rows):
    return dict(zip(("t", "genre", "of"), map(list, zip(*rows, strict=True)), strict=True))


def rows_of(table, group):
    """Give the rows of a group, without what says so."""
    there = [row for row, name in enumerate(table.data["group"]) if name == group]
    return {name: [cells[row] for row in there] for name, cells in table.data.items() if name != "group"}


def assert_same(table, alone, left_out=(), **tolerance):
    for name, cells in alone.data.items():
        if name in left_out:
            continue
        if any(isinstance(cell, str | None) for cell in cells):
            assert table[name] == list(cells), name
        else:
            np.testing.assert_allclose(table[name], cells, err_msg=name, **tolerance)


CALLS = [
    ("census", {}),
    ("distance", {"by": "pair"}),
    *(
        pytest.param(*call, marks=pytest.mark.slow)
        for call in (
            ("special", {"weights": "both"}),
            ("mixing", {"by": "head"}),
            ("rank", {}),
        )
    ),
]


@pytest.mark.parametrize(
    "documents", [pytest.param(None, id="a row", marks=pytest.mark.slow), pytest.param("of", id="a column")]
)
@pytest.mark.parametrize(("command", "options"), CALLS)
def test_each_group_is_as_it_is_alone(command, options, documents):
    """In float64, where the size of a batch changes the last digits alone."""
    ask = getattr(attnprobe, command)
    given = {"text_column": "t", "document_column": documents, "dtype": "float64", **options}
    table = ask("demo", columns_of(ROWS), by_group="genre", **given)
    assert list(table.data)[:3] == ["model", "dataset", "group"]
    assert list(dict.fromkeys(table.data["group"])) == [ALL_GROUPS, *GROUPS]
    rare = [name for name in table.data if name.startswith("rare")]  # counted in all groups together
    # Blocks of documents go by what a document is called, for which the first row of its file counts too.
    blocks = [name for name in table.data if command == "mixing" and documents and name.endswith("_se")]
    for group in GROUPS:
        alone = ask("demo", columns_of([row for row in ROWS if row[1] == group]), **given)
        assert_same(rows_of(table, group), alone, rare, rtol=1e-9, atol=1e-12)
        assert blocks or not documents or command != "mixing"
    whole = ask("demo", columns_of(ROWS), **given)
    assert_same(rows_of(table, ALL_GROUPS), whole, rtol=0, atol=0)
    assert "group_column" not in whole.provenance["dataset"]


def test_tests_are_those_of_the_rows():
    """Of two groups whose texts are documents, Q is the square of Welch's t, and p is adjusted over heads."""
    rows = [row for row in ROWS if row[1] != "law"][:14]
    table = attnprobe.entropy("demo", columns_of(rows), text_column="t", by_group="genre")
    sides = [
        np.array([attnprobe.entropy("demo", [text])["entropy"] for text, genre, _ in rows if genre == group])
        for group in ("fiction", "news")
    ]
    expected = ttest_ind(*sides, equal_var=False)
    all_groups = rows_of(table, ALL_GROUPS)
    np.testing.assert_allclose(all_groups["entropy_q"], expected.statistic**2, rtol=1e-3)
    np.testing.assert_allclose(all_groups["entropy_q_p"], expected.pvalue, rtol=1e-2)
    order = np.sort(all_groups["entropy_q_p"])
    stepped = np.maximum.accumulate(order * np.arange(len(order), 0, -1)).clip(max=1)
    np.testing.assert_allclose(np.sort(all_groups["entropy_q_p_adjusted"]), stepped)
    assert np.isnan(rows_of(table, "news")["entropy_q"]).all()
    assert "2 groups, with their documents: fiction (" in table.notes[0]
    five_and_four = [(text, "ab"[place > 4], None) for place, (text, *_) in enumerate(rows[:9])]
    few = attnprobe.entropy("demo", columns_of(five_and_four), text_column="t", by_group="genre")
    assert "Groups of fewer than 5 documents do not count in Q: b." in few.notes


TEXTS = [
    f"The {noun} {rest}." for noun in ("dog", "old miller", "parcel") for rest in ("came", "rang at noon")
]
#: Rows of one document need not follow each other; the last is one of its own.
OF = ["a", "b", "a", "c", "b", "d"]


@pytest.fixture(scope="module")
def by_hand():
    """Mean and standard error of the entropy of a head, from each text by itself."""
    of_text = np.array([attnprobe.entropy("demo", [text])["entropy"] for text in TEXTS])
    mean, documents = of_text.mean(0), sorted(set(OF))
    left = []
    for document in documents:
        rest = [place for place, of in enumerate(OF) if of != document]
        left.append(of_text[rest].mean(0))
    number = len(documents)
    return mean, (np.square(np.array(left) - mean).sum(0) * (number - 1) / number) ** 0.5


def rows(folder, separator=","):
    path = folder / "it.csv"
    path.write_text(
        "of,text\n" + "".join(f"{of}{separator}{text}\n" for of, text in zip(OF, TEXTS, strict=True))
    )
    return str(path)


def test_errors_over_documents_of_a_column(tmp_path, by_hand):
    """A file, columns at hand, and documents that say so themselves."""
    mean, error = by_hand
    alone = attnprobe.entropy("demo", TEXTS)
    given = {
        "a file": attnprobe.entropy("demo", rows(tmp_path), document_column="of"),
        "columns": attnprobe.entropy("demo", {"t": TEXTS, "of": OF}, text_column="t", document_column="of"),
        "documents": attnprobe.entropy(
            "demo", [Document(text, part_of=of) for of, text in zip(OF, TEXTS, strict=True)]
        ),
    }
    for name, table in given.items():
        np.testing.assert_allclose(table["entropy"], mean, rtol=1e-5, err_msg=name)
        np.testing.assert_allclose(table["entropy_se"], error, rtol=1e-3, atol=1e-6, err_msg=name)
        assert set(table["n"]) == {6}  # n counts sequences
        assert table.provenance["corpus"]["clusters"] == 4
    assert given["a file"].provenance["dataset"]["document_column"] == "of"
    assert not np.allclose(alone["entropy_se"], error, rtol=0.01)
