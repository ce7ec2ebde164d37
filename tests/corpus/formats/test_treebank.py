"""CoNLL-U that breaks the rules of the format is refused, with the place and what is wrong there."""

import io

import pytest

from attnprobe.corpus.formats.treebank import read_conllu
from attnprobe.corpus.sources.streams import decode_lines
from attnprobe.errors import AttnprobeError

REST = "\t_\t_\t_\t_"


def row(number, form, head="0", label="root"):
    return f"{number}\t{form}{REST}\t{head}\t{label}\t_\t_"


GOOD = [row(1, "The", 2, "det"), row(2, "dog")]


def read(lines, *, annotated=True, end="\n"):
    content = end.join([*lines, "", ""]).encode()
    return list(read_conllu(decode_lines(io.BytesIO(content), "it.conllu"), "it.conllu", annotated=annotated))


def refusal(lines, *, annotated):
    with pytest.raises(AttnprobeError) as caught:
        read(["# a sentence before", *GOOD, "", *lines], annotated=annotated)
    said = str(caught.value)
    assert said.startswith("the sentence at line 5 of it.conllu is not CoNLL-U (")
    return said.partition("(")[2].partition(")")[0]


MALFORMED = {
    "blanks for tabs": ([GOOD[0].replace("\t", " "), GOOD[1]], "line 5 has no tabs between its columns"),
    "two blanks for tabs": ([GOOD[0].replace("\t", "  "), GOOD[1]], "line 5 has no tabs between its columns"),
    "too few columns": ([GOOD[0], "2\tdog\tdog"], "line 6 has 3 columns, not 10"),
    "too many columns": (["# text = x", GOOD[0] + "\t_", GOOD[1]], "line 6 has 11 columns, not 10"),
    "a number twice": ([GOOD[0], row(1, "dog")], "word 1 stands where word 2 should"),
    "a number left out": ([GOOD[0], row(3, "dog")], "word 3 stands where word 2 should"),
    "no form": ([row(1, "", 2), GOOD[1]], "word 1 has no form"),
    "a range too late": ([*GOOD, row("1-2", "Thedog", "_")], "the range 1-2 stands before word 3"),
    "a range too long": ([row("1-3", "Thedog", "_"), *GOOD], "a range ends at word 3 of 2"),
    "an empty node out of place": ([row("2.1", "x", "_"), *GOOD], "the empty node 2.1 stands after word 0"),
}
BAD_HEADS = {
    "a head that is not there": ([row(1, "The", 9), GOOD[1]], "word 1 depends on word 9, which is not there"),
    "a word of its own head": ([row(1, "The", 1), GOOD[1]], "the heads of word 1 lead in a circle"),
    "a circle": ([row(1, "The", 2), row(2, "dog", 1)], "the heads of word 1 lead in a circle"),
    "a head left out": ([row(1, "The", "_"), GOOD[1]], "word 1 has no head, and others have one"),
}


@pytest.mark.parametrize("annotated", [False, True])
@pytest.mark.parametrize("what", MALFORMED)
def test_malformed_lines(what, annotated):
    lines, says = MALFORMED[what]
    assert refusal(lines, annotated=annotated) == says


@pytest.mark.parametrize("what", BAD_HEADS)
def test_heads_that_make_no_tree_are_refused_where_they_are_wanted(what):
    lines, says = BAD_HEADS[what]
    assert refusal(lines, annotated=True) == says
    assert [one.text for one in read(lines, annotated=False)] == ["The dog"]


def test_a_file_without_any_heads_gives_words():
    (found,) = read([row(1, "The", "_", "_"), row(2, "dog", "_", "_")])
    assert (found.text, len(found.annotation.words), found.annotation.links) == ("The dog", 2, ())


def test_ranges_and_empty_nodes_in_their_places():
    lines = [row("1-2", "du", "_"), row(1, "de"), row(2, "le", 1), row("2.1", "x", "_"), row(3, "roi", 1)]
    assert [one.text for one in read(["# first", *lines])] == ["du roi"]
    assert [one.text for one in read([row("0.1", "x", "_"), *GOOD])] == ["The dog"]


def sentence(form, *comments):
    return [*comments, row(1, form, 0), ""]


@pytest.mark.parametrize("annotated", [False, True])
class TestDocuments:
    """A document begins with newdoc, else with newpar, else it is a sentence; by either reader."""

    def groups(self, lines, annotated):
        found = [one.group for one in read(lines, annotated=annotated)]
        return [None if group is None else found.index(group) for group in found], found

    def test_newdoc(self, annotated):
        lines = [
            *sentence("Early"),
            *sentence("A", "# newdoc id = a", "# newpar id = 1"),
            *sentence("Then", "# newpar id = 2"),
            *["#newdoc", ""],  # comments of their own belong to what follows
            *sentence("B"),
            *sentence("C", "# newdocs"),
        ]
        assert self.groups(lines, annotated)[0] == [None, 1, 1, 3, 3]

    def test_newpar_where_there_is_no_newdoc(self, annotated):
        lines = [*sentence("Early"), *sentence("A", "# newpar"), *sentence("B"), *sentence("C", "# newpar")]
        assert self.groups(lines, annotated)[0] == [None, 1, 1, 3]

    def test_names_are_the_same_in_a_part_of_the_file(self, annotated):
        first, second = ([*sentence(form, f"# newdoc id = {form}"), *sentence("So")] for form in ("A", "B"))
        _, whole = self.groups([*first, *second], annotated)
        assert self.groups(second, annotated)[1] == whole[2:]

    def test_one_name_in_two_files_is_two_documents(self, annotated):
        one, other = (sentence(form, "# newdoc id = 1") for form in ("A", "B"))
        assert self.groups(one, annotated)[1] != self.groups(other, annotated)[1]
