"""Errors are over documents, whichever command asks and whatever says what a document is."""

import numpy as np
import pytest

import attnprobe
from attnprobe.corpus.document import Document

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
