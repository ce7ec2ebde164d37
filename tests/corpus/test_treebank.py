"""CoNLL-U that breaks the rules of the format is refused, with the place and what is wrong there."""

import io

import pytest

from attnprobe.corpus.conllu import read_conllu
from attnprobe.corpus.streams import decode_lines
from attnprobe.errors import AttnprobeError

REST = "\t_\t_\t_\t_"


def row(number, form, head="0", label="root"):
    return f"{number}\t{form}{REST}\t{head}\t{label}\t_\t_"


GOOD = [row(1, "The", 2, "det"), row(2, "dog")]


def read(lines, *, annotated=True, end="\n"):
    content = end.join([*lines, "", ""]).encode()
    return list(read_conllu(decode_lines(io.BytesIO(content), "it.conllu"), "it.conllu", annotated=annotated))


def refusal(lines, *, annotated):
    with pytest.raises(AttnprobeError, match=r"the sentence at line 5 of it\.conllu is not CoNLL-U"):
        read(["# a sentence before", *GOOD, "", *lines], annotated=annotated)


MALFORMED = {
    "blanks for tabs": [GOOD[0].replace("\t", " "), GOOD[1]],
    "too few columns": [GOOD[0], "2\tdog\tdog"],
    "too many columns": ["# text = x", GOOD[0] + "\t_", GOOD[1]],
    "a number twice": [GOOD[0], row(1, "dog")],
    "a number left out": [GOOD[0], row(3, "dog")],
    "no form": [row(1, "", 2), GOOD[1]],
    "a range too late": [*GOOD, row("1-2", "Thedog", "_")],
    "a range too long": [row("1-3", "Thedog", "_"), *GOOD],
    "an empty node out of place": [row("2.1", "x", "_"), *GOOD],
}
BAD_HEADS = {
    "a head that is not there": [row(1, "The", 9), GOOD[1]],
    "a word of its own head": [row(1, "The", 1), GOOD[1]],
    "a circle": [row(1, "The", 2), row(2, "dog", 1)],
    "a head left out": [row(1, "The", "_"), GOOD[1]],
}


@pytest.mark.parametrize("what", MALFORMED)
def test_malformed_lines(what):
    for annotated in (False, True):
        refusal(MALFORMED[what], annotated=annotated)


@pytest.mark.parametrize("what", BAD_HEADS)
def test_heads_that_make_no_tree_are_refused_where_they_are_wanted(what):
    refusal(BAD_HEADS[what], annotated=True)
    assert [one.text for one in read(BAD_HEADS[what], annotated=False)] == ["The dog"]


def sentence(form, *comments):
    return [*comments, row(1, form, 0), ""]


@pytest.mark.parametrize("annotated", [False, True])
class TestDocuments:
    """A document begins with newdoc, else with newpar, else it is a sentence; by either reader."""

    def groups(self, lines, annotated):
        names = [one.part_of for one in read(lines, annotated=annotated)]
        return [None if group is None else names.index(group) for group in names], names

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
        first, other = (sentence(form, "# newdoc id = 1") for form in ("A", "B"))
        assert self.groups(first, annotated)[1] != self.groups(other, annotated)[1]
