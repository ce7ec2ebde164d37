"""What a report says in sentences is borne out by its tables."""

from attnprobe.reports.report_page.measures import Heads
from attnprobe.reports.report_page.report import Contents
from attnprobe.reports.report_page.text import describe_heads, describe_inputs
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

HEADS = Heads([("", 0, head) for head in range(3)])


def table(documents, **options):
    provenance = {"corpus": {"documents": documents, "tokens": 7 * documents}, "options": options}
    return HeadTable("heads", [Column("model")], {"model": ["m"]}, provenance=provenance)


def test_sections_that_read_as_much_as_it_takes_are_not_said_to_have_read_the_same():
    tables = {"census": {"census": table(256)}, "roles": {"roles": table(1_128)}}
    assert describe_heads(Contents(tables), HEADS).endswith(" Each section read 256 to 1,128 texts.")
    tables["roles"]["roles"] = table(256)
    assert describe_heads(Contents(tables), HEADS).endswith(" They read 256 texts, 1,792 tokens.")


def test_options_are_those_of_the_sections_that_had_them():
    tables = {"census": {"census": table(9, sample=9)}, "roles": {"roles": table(8, sample=8)}}
    asked = dict(describe_inputs(Contents({**tables, "distance": {"distance": table(9, sample=9)}})))
    assert asked["Options of census and distance"] == ["sample: 9"]
    assert asked["Options of roles"] == ["sample: 8"]
    alone = dict(describe_inputs(Contents({"census": {"census": table(9, sample=9, limit=None)}})))
    assert alone["Options"] == ["sample: 9"]
