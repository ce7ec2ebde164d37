"""The gold alignment of one pair of texts, against the table of `links`."""

import pytest

import attnprobe
from attnprobe.errors import AttnprobeError

TEXT, TARGET = "the unlikely river was slow", "a cat walks quickly"
LINE = "0-0 1-1 2p1 2-3 4-2"


@pytest.mark.parametrize(
    ("name", "given"),
    [("bart", {"target": TARGET}), ("bert", {"text_pair": TARGET}), ("llama", {"text_pair": TARGET})],
)
def test_it_is_what_links_tabulates(name, given, saved):
    """One pair of texts is a corpus too: the same numbers, in the same columns."""
    folder = saved(name)
    view = attnprobe.view(folder, TEXT, alignment=LINE, **given)
    (maps,) = [one for one in view.sequence.maps if one.alignment is not None]
    given = {"alignments": [LINE], "metric": "aer", "by": "head", "targets": [TARGET]}
    table = attnprobe.links(str(folder), [TEXT], **given).to_pandas()
    names = {
        "where the decoder predicts a word": ("target_to_source", "output"),
        "where the decoder reads a word": ("target_to_source", "input"),
        "from the second text to the first": ("target_to_source", ""),
        "from the first text to the second": ("source_to_target", ""),
    }
    compared = 0
    for way in maps.alignment.directions:
        direction, position = names[way.name]
        rows = table[table.direction == direction]
        rows = rows[rows.position == position] if position else rows
        for _, row in rows.iterrows():
            place = maps.layers.index(row.layer), row["head"]
            assert way.rates[place] == pytest.approx([row.aer, row.precision, row.recall], abs=1e-12)
            compared += 1
    assert compared == len(table)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("bart", {"target": TARGET, "alignment": "0-4"}),
        ("bart", {"target": TARGET, "alignment": "0x0"}),
        ("bart", {"target": TARGET, "alignment": " "}),
        ("bart", {"alignment": "0-0"}),
        ("bert", {"alignment": "0-0", "target": TARGET}),
        ("bert", {"alignment": "0-0", "text_pair": TARGET, "attention": "cross"}),
        ("bert", {"alignment": "0-0", "text_pair": TARGET, "max_length": 5}),
    ],
)
def test_what_can_not_be_aligned_is_refused(name, given, saved):
    with pytest.raises(AttnprobeError):
        attnprobe.view(saved(name), TEXT, **given)
