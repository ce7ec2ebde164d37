"""CoNLL-U: malformed sentences are refused by line, and words lie where the text has them."""

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


PLAIN = """# text = Who rang, "Ann"?
1\tWho\twho\tPRON\t_\t_\t2\tnsubj\t_\t_
2\trang\tring\tVERB\t_\t_\t0\troot\t_\tSpaceAfter=No
3\t,\t,\tPUNCT\t_\t_\t2\tpunct\t_\t_
4\t"\t"\tPUNCT\t_\t_\t5\tpunct\t_\tSpaceAfter=No
5\tAnn\tAnn\tPROPN\t_\t_\t2\tvocative\t_\tSpaceAfter=No
6\t"\t"\tPUNCT\t_\t_\t5\tpunct\t_\tSpaceAfter=No
7\t?\t?\tPUNCT\t_\t_\t2\tpunct\t_\t_
"""
#: "du" stands for "de le"; a node that is not in the text stands between two words.
FRENCH = """# text = le chat du roi
1\tle\tle\tDET\t_\t_\t2\tdet\t_\t_
2\tchat\tchat\tNOUN\t_\t_\t0\troot\t_\t_
2.1\tdort\tdormir\tVERB\t_\t_\t_\t_\t_\t_
3-4\tdu\t_\t_\t_\t_\t_\t_\t_\t_
3\tde\tde\tADP\t_\t_\t5\tcase\t_\t_
4\tle\tle\tDET\t_\t_\t5\tdet\t_\t_
5\troi\troi\tNOUN\t_\t_\t2\tnmod\t_\t_
"""
#: Both pronouns depend on the verb that they are written together with.
SPANISH = """1-3\tdámelo\t_\t_\t_\t_\t_\t_\t_\t_
1\tda\tdar\tVERB\t_\t_\t0\troot\t_\t_
2\tme\tyo\tPRON\t_\t_\t1\tiobj\t_\t_
3\tlo\tél\tPRON\t_\t_\t1\tobj\t_\t_
4\tya\tya\tADV\t_\t_\t1\tadvmod\t_\t_
"""


def read_tree(sentence):
    (document,) = read_conllu(io.StringIO(sentence), "it", annotated=True)
    text, annotation = document.text, document.annotation
    assert annotation is not None
    words = [text[word.start : word.stop] for word in annotation.words]
    links = [
        (text[link.source.start : link.source.stop], link.label, text[link.target.start : link.target.stop])
        for link in annotation.links
    ]
    return text, words, links


def test_words_without_blanks_between():
    text, words, links = read_tree(PLAIN)
    assert text == 'Who rang, "Ann"?'
    assert words == ["Who", "rang", ",", '"', "Ann", '"', "?"]
    assert ("Ann", "vocative", "rang") in links
    assert len(links) == 6  # the root depends on nothing


def test_words_of_a_multi_word_token_cover_the_whole_of_it():
    _, words, links = read_tree(FRENCH)
    assert words == ["le", "chat", "du", "roi"]
    assert links == [
        ("le", "det", "chat"),
        ("du", "case", "roi"),
        ("du", "det", "roi"),
        ("roi", "nmod", "chat"),
    ]


def parts_of_speech(sentence):
    (document,) = read_conllu(io.StringIO(sentence), "it", annotated=True)
    annotation = document.annotation
    return [
        (document.text[word.start : word.stop], annotation.parts_of_speech.get(word))
        for word in annotation.words
    ]


def test_parts_of_speech():
    """A token for several words is what the first of them is that depends on none of the others."""
    assert parts_of_speech(PLAIN)[:3] == [("Who", "PRON"), ("rang", "VERB"), (",", "PUNCT")]
    french = [("le", "DET"), ("chat", "NOUN"), ("du", "ADP"), ("roi", "NOUN")]
    assert parts_of_speech(FRENCH) == french
    assert parts_of_speech(SPANISH) == [("dámelo", "VERB"), ("ya", "ADV")]
    turned = SPANISH.replace("\t0\troot", "\t2\tx").replace("PRON\t_\t_\t1\tiobj", "PRON\t_\t_\t0\troot")
    assert parts_of_speech(turned)[0] == ("dámelo", "PRON")
    without = SPANISH.replace("\t0\troot", "\t_\t_").replace("\t1\t", "\t_\t")
    assert parts_of_speech(without)[0] == ("dámelo", "VERB")


@pytest.mark.parametrize("comment", ["", "# text = something else\n", '# text = Who rang, "Ann" ?!\n'])
def test_a_text_that_does_not_hold_the_words_is_made_of_them(comment):
    text, words, _ = read_tree(comment + PLAIN.partition("\n")[2])
    assert text == 'Who rang, "Ann"?'
    assert words[4] == "Ann"


@pytest.mark.parametrize(
    ("text", "forms"),
    [
        (
            "\u05e9\u05dc\u05d5\u05dd \u05dc\u05da.",
            ["\u05e9\u05dc\u05d5\u05dd", "\u05dc\u05da", "."],
        ),  # from right to left
        (
            "Vi\u1ec7t Nam \u0111\u1eb9p l\u1eafm",
            ["Vi\u1ec7t Nam", "\u0111\u1eb9p", "l\u1eafm"],
        ),  # a blank inside a word
        ("a  a\u00a0a", ["a", "a", "a"]),  # several blanks, and one that does not break
    ],
)
@pytest.mark.parametrize("stated", [True, False])
def test_words_of_many_scripts(text, forms, stated):
    rows = [f"{place}\t{form}" + "\t_" * 8 + "\n" for place, form in enumerate(forms, start=1)]
    comment = f"# text = {text}\n" if stated else ""
    result, words, _ = read_tree(comment + "".join(rows))
    assert result == (text if stated else " ".join(forms))
    assert words == forms
