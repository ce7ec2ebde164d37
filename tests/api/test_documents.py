"""Errors are over documents, whichever command asks and whatever says what a document is."""

import numpy as np
import pytest

import attnprobe
from attnprobe.corpus.document import Document
from attnprobe.errors import AttnprobeError

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


def test_errors_over_documents_of_a_treebank(tmp_path, by_hand):
    """Adjacent sentences, as a treebank has them, by newdoc and by newpar; census and entropy alike."""
    order = sorted(range(len(OF)), key=lambda place: OF[place])
    for begin in ("# newdoc id = {}", "# newpar id = {}"):
        path = tmp_path / "it.conllu"
        lines = []
        for before, place in zip([None, *order], order, strict=False):
            if before is None or OF[before] != OF[place]:
                lines.append(begin.format(OF[place]))
            words = TEXTS[place].split()
            lines += [f"# text = {TEXTS[place]}"]
            lines += [f"{n}\t{word}" + "\t_" * 4 + "\t0\troot\t_\t_" for n, word in enumerate(words, 1)] + [
                ""
            ]
        path.write_text("\n".join([*lines, ""]))
        for ask in (attnprobe.entropy, attnprobe.census):
            found = ask("demo", str(path))
            np.testing.assert_allclose(found["entropy_se"], by_hand[1], rtol=1e-3, atol=1e-6)


def test_a_column_where_there_is_none(tmp_path):
    with pytest.raises(AttnprobeError, match="one by one have no columns; leave out document_column"):
        attnprobe.entropy("demo", TEXTS, document_column="of")
    with pytest.raises(AttnprobeError, match="has no column 'from'; its columns are 'of', 'text'"):
        attnprobe.entropy("demo", rows(tmp_path), document_column="from")


def test_examples_of_a_task_are_over_documents_too(tmp_path):
    """Importance of words that are hidden, over the rows of two columns."""
    path = rows(tmp_path)
    tables = [attnprobe.importance("demo", path, **options) for options in ({}, {"document_column": "of"})]
    alone, over = (
        next(cells for name, cells in table.data.items() if name.endswith("_se")) for table in tables
    )
    assert not np.allclose(alone, over, rtol=0.01)
    assert [any("are of 4 documents" in note for note in table.notes) for table in tables] == [False, True]
