"""Of how many documents the numbers of a table are."""

import numpy as np

from attnprobe.table.documents import count_documents
from attnprobe.table.table import Column, HeadTable


def make(record, **data):
    return HeadTable("t", [Column(name) for name in data], data, provenance=record)


def test_each_column_has_its_own_number():
    record = {"corpus": {"clusters": 12, "sequences": 40}}
    table = make(record, n=[40, 40], entropy=[0.1, 0.2], separator=[0.1, 0.2], separator_n=[30, 3])
    assert count_documents(table, "entropy").tolist() == [12, 12]
    assert count_documents(table, "separator").tolist() == [12, 3]


def test_of_several_runs_the_fewest():
    record = {"tables": [{"provenance": {"corpus": {"clusters": number}}} for number in (9, 7)]}
    assert count_documents(make(record, jsd=[0.1]), "jsd").tolist() == [7]


def test_without_a_record_rows_count_or_nothing_is_known():
    assert count_documents(make({}, n=[5, None], x=[0.1, 0.2]), "x").tolist() == [5, np.inf]
    assert count_documents(make({}, x=[0.1]), "x").tolist() == [np.inf]
