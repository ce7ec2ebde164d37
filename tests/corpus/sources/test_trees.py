"""Words and dependencies of CoNLL-U: every word is where its text says, whatever the lines look like."""

import io

import pytest

from attnprobe.corpus.sources.text import Source, read_documents
from attnprobe.corpus.sources.treebank import conllu_sentences

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
JAPANESE = """# text = 猫が寝る
1\t猫\t猫\tNOUN\t_\t_\t3\tnsubj\t_\tSpaceAfter=No
2\tが\tが\tADP\t_\t_\t1\tcase\t_\tSpaceAfter=No
3\t寝る\t寝る\tVERB\t_\t_\t0\troot\t_\tSpaceAfter=No
"""


def read(sentence):
    ((text, annotation),) = conllu_sentences(io.BytesIO(sentence.encode()), "it", annotated=True)
    assert annotation is not None
    words = [text[word.start : word.stop] for word in annotation.words]
    links = [
        (text[one.source.start : one.source.stop], one.label, text[one.target.start : one.target.stop])
        for one in annotation.links
    ]
    return text, words, links


def test_words_without_blanks_between():
    text, words, links = read(PLAIN)
    assert text == 'Who rang, "Ann"?'
    assert words == ["Who", "rang", ",", '"', "Ann", '"', "?"]
    assert ("Ann", "vocative", "rang") in links
    assert len(links) == 6  # the root depends on nothing


def test_words_of_a_multi_word_token_cover_the_whole_of_it():
    _, words, links = read(FRENCH)
    assert words == ["le", "chat", "du", "du", "roi"]
    assert links == [
        ("le", "det", "chat"),
        ("du", "case", "roi"),
        ("du", "det", "roi"),
        ("roi", "nmod", "chat"),
    ]


def test_a_language_without_blanks():
    assert read(JAPANESE)[1:] == (["猫", "が", "寝る"], [("猫", "nsubj", "寝る"), ("が", "case", "猫")])


@pytest.mark.parametrize("said", ["# text = something else\n", ""], ids=["other words", "none"])
def test_a_text_that_does_not_hold_the_words_is_made_of_them(said):
    text, words, _ = read(said + PLAIN.partition("\n")[2])
    assert text == 'Who rang, "Ann"?'
    assert words[4] == "Ann"


def test_nobody_asked(tmp_path):
    path = tmp_path / "trees.conllu"
    path.write_text(f"{PLAIN}\n{FRENCH}\n")
    plain = list(read_documents(Source(str(path))))
    annotated = list(read_documents(Source(str(path), annotated=True)))
    assert [document.annotation for document in plain] == [None, None]
    assert [document.text for document in plain] == [document.text for document in annotated]
    assert all(document.annotation for document in annotated)
