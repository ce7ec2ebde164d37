"""Parts of a corpus: each document in one of them, all of it in it, and nothing read ahead."""

import pytest

from attnprobe.corpus.document import Document
from attnprobe.corpus.order import select
from attnprobe.errors import AttnprobeError


def documents():
    """Ten documents: some whole, some of several texts, which need not follow each other."""
    groups = [None, "a", "a", None, "b", "a", None, "c", "b", None, "d", None, None, "d"]
    return [Document(str(place), part_of=group) for place, group in enumerate(groups)]


@pytest.mark.parametrize("of", [1, 2, 3, 7, 10])
def test_each_document_is_in_one_part_with_all_its_texts(of):
    parts = [list(select(documents(), None, None, 0, (number, of))) for number in range(1, of + 1)]
    assert sorted((one for part in parts for one in part), key=lambda one: int(one.text)) == documents()
    names = [{one.part_of or one.text for one in part} for part in parts]
    assert sum(map(len, names)) == len(set().union(*names)) == 10
    sizes = list(map(len, names))
    assert max(sizes) - min(sizes) <= 1
    for part in parts:
        assert [one.text for one in part] == sorted((one.text for one in part), key=int)


def test_parts_are_of_what_limit_and_sample_leave():
    chosen = [one.text for one in select(documents(), 12, 5, 3)]
    parts = [[one.text for one in select(documents(), 12, 5, 3, (number, 2))] for number in (1, 2)]
    assert sorted(parts[0] + parts[1]) == sorted(chosen)
    assert all(parts)


def test_a_part_without_documents_is_refused():
    with pytest.raises(AttnprobeError, match="Part 11/12 holds nothing: there are only 10 documents; give"):
        list(select(documents(), None, None, 0, (11, 12)))
    with pytest.raises(AttnprobeError, match="Part 2/2 holds nothing: there is only 1 document;"):
        list(select([Document("a")], None, None, 0, (2, 2)))
