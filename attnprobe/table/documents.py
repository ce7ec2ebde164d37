"""Of how many documents the numbers of a table are."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.table.table import HeadTable


def count_documents(table: HeadTable, name: str) -> NDArray[np.float64]:
    """Count the documents that each number of a column is made of, as far as the table tells.

    They are those on record, or the sequences that the row counts, or the column, where these are fewer;
    infinite where neither is known.
    """
    known = min(_list_documents(table.provenance), default=np.inf)
    documents = np.full(len(table), known, np.float64)
    for count in ("n", f"{name}_n"):
        if count in table.data:
            cells = [np.inf if cell is None else cell for cell in table.data[count]]
            documents = np.fmin(documents, np.array(cells, np.float64))
    return documents


def _list_documents(record: Mapping[str, Any]) -> list[int]:
    corpus = record.get("corpus")
    if isinstance(corpus, Mapping):
        return [corpus["clusters"]] if isinstance(corpus.get("clusters"), int) else []
    parts = [part for value in record.values() for part in (value if isinstance(value, list) else [value])]
    return [number for part in parts if isinstance(part, Mapping) for number in _list_documents(part)]
