"""Texts however a program holds them, and the keywords that stand beside them."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from attnprobe import AttnprobeError, Source
from attnprobe.corpus.document import Document
from attnprobe.session.texts import open_texts

TEXTS = ["The parcel came late.", "Who rang?", "It was raining, again."]


def open_with(texts, labels=None, *, label_column=None, find_labels=False, **options):
    return open_texts(texts, {**options, "label_column": label_column}, labels, find_labels=find_labels)


def read(*arguments, **options):
    """Give text, pair and label of every document."""
    documents = open_with(*arguments, **options).documents
    return [(document.text, document.pair, document.label) for document in documents]


def plain(texts):
    return [(text, None, None) for text in texts]


class Column:
    """A column of a dataset, as the package datasets gives it: read when it is asked."""

    def __init__(self, cells):
        self.cells = cells

    def __iter__(self):
        return iter(self.cells)

    def __len__(self):
        return len(self.cells)

    def __getitem__(self, place):
        return self.cells[place]


class Dataset:
    """A dataset, as that package gives it; notes which columns were read."""

    def __init__(self, columns):
        self._columns, self.read = columns, []

    @property
    def column_names(self):
        return list(self._columns)

    def __len__(self):
        return len(next(iter(self._columns.values())))

    def __iter__(self):
        return (
            dict(zip(self._columns, row, strict=True)) for row in zip(*self._columns.values(), strict=True)
        )

    def __getitem__(self, name):
        self.read.append(name)
        return Column(self._columns[name])


COLUMNS = {
    "list": list,
    "generator": lambda texts: (text for text in texts),
    "Series": pd.Series,
    "Series of arrow": lambda texts: pd.Series(texts, dtype=pd.ArrowDtype(pa.string())),
    "Array": pa.array,
    "ChunkedArray": lambda texts: pa.chunked_array([texts[:1], texts[1:]]),
    "numpy": np.array,
    "column of a dataset": lambda texts: Dataset({"review": texts})["review"],
}

TABLES = {
    "DataFrame": pd.DataFrame,
    "Table": pa.table,
    "dict of arrays": lambda columns: {name: np.array(cells) for name, cells in columns.items()},
    "Dataset": Dataset,
}


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_columns(column):
    assert read(column(TEXTS)) == plain(TEXTS)
    source = open_with(column(TEXTS))
    assert (source.name, source.kind) == ("texts", "text")


def test_pairs():
    assert read([("a", "b"), ["c", "d"], "e"]) == [("a", "b", None), ("c", "d", None), ("e", None, None)]
    assert read(pd.Series([("a", "b")])) == [("a", "b", None)]
    assert read([Document("a", "b", "c"), Document("d")]) == [("a", "b", "c"), ("d", None, None)]


def test_columns_of_files(reviews):
    rows = [tuple(line.split("\t")) for line in reviews.read_text().splitlines()[1:]]
    expected = [(review, None, stars or None) for review, stars in rows]
    named = {"text_column": "review", "label_column": "stars"}
    assert read(reviews, **named) == expected
    assert read(Source(str(reviews), text_column="review", label_column="stars")) == expected
    # What is named beside a source wins.
    assert read(Source(str(reviews), text_column="stars"), **named) == expected
    assert read(reviews, text_column="stars", text_pair_column="review")[0] == ("bad", rows[0][0], None)


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_column_of_a_table(table):
    columns = {"review": TEXTS, "other": ["x", "y", "z"], "stars": [1, 2, 3]}
    assert read(table(columns), text_column="review") == plain(TEXTS)
    assert read(table(columns), text_column="other", text_pair_column="review", label_column="stars") == [
        *zip("xyz", TEXTS, (1, 2, 3), strict=True)
    ]
    # A column of a usual name is taken where labels are looked for.
    usual = table({"review": TEXTS, "Label": ["a", "b", "c"], "n": [1, 2, 3]})
    assert read(usual, text_column="review", find_labels=True) == [
        *zip(TEXTS, [None] * 3, "abc", strict=True)
    ]
    assert read(usual, text_column="review") == plain(TEXTS)


@pytest.mark.parametrize(
    "texts",
    [
        np.array(["a", np.nan], dtype=object), pa.array(["a", None]),
        ["a", 3], ["a", b"b"], ["a", ("b",)], ["a", ["b", None]], ["a", {"text": "b"}],
    ],
)  # fmt: skip
def test_what_is_no_text(texts):
    with pytest.raises(AttnprobeError, match="text 1 is"):
        read(texts)


# Keywords
