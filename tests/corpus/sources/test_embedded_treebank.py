"""The treebank in the package: trees after Universal Dependencies, of our own sentences."""

from collections import Counter

import conllu
import pytest

from attnprobe.corpus.sources.text import Embedded, open_embedded, read_embedded

#: The relations of UD v2 that are there in English, with the subtypes of EWT.
RELATIONS = {
    "acl",
    "acl:relcl",
    "advcl",
    "advcl:relcl",
    "advmod",
    "amod",
    "appos",
    "aux",
    "aux:pass",
    "case",
    "cc",
    "cc:preconj",
    "ccomp",
    "compound",
    "compound:prt",
    "conj",
    "cop",
    "csubj",
    "det",
    "det:predet",
    "discourse",
    "expl",
    "fixed",
    "flat",
    "iobj",
    "mark",
    "nmod",
    "nmod:desc",
    "nmod:poss",
    "nmod:unmarked",
    "nsubj",
    "nsubj:pass",
    "nummod",
    "obj",
    "obl",
    "obl:agent",
    "obl:unmarked",
    "orphan",
    "parataxis",
    "punct",
    "root",
    "vocative",
    "xcomp",
}
#: Which parts of speech a relation takes, without its subtype.
TAKES = {
    "det": {"DET"},
    "case": {"ADP", "PART", "SYM", "VERB"},  # "3-1"; "according to"
    "aux": {"AUX"},
    "cop": {"AUX"},
    "nummod": {"NUM"},
    "cc": {"CCONJ"},
    "punct": {"PUNCT"},
    "mark": {"SCONJ", "PART", "VERB"},  # "provided that"
    "amod": {"ADJ", "VERB"},
    "advmod": {"ADV", "PART", "ADJ"},  # "fewer than 90"
    "nsubj": {"NOUN", "PROPN", "PRON", "NUM", "ADJ", "DET"},
    "expl": {"PRON"},
}
#: Relations whose words have nothing below them, and what may be there all the same.
LEAVES = {
    "punct": set(),
    "det": set(),
    "cc": set(),
    "aux": set(),
    "cop": set(),
    "case": {"fixed", "obl"},  # "according to"; "90 days before the hearing"
    "mark": {"fixed"},  # "so that"
    "fixed": set(),
}
#: Words that depend on one behind a word that is not below it: the English of it, not a slip.
CROSSING = {
    ("narrative-023", "that", "burned"),  # the letters that her mother had sworn were burned
    ("technical-011", "patients", "fewer"),  # fewer relapses than patients
    ("technical-017", "which", "settle"),  # on which lichens have begun to settle
}


def relation(word):
    return word["deprel"].partition(":")[0]


def words(sentence):
    return [token for token in sentence if isinstance(token["id"], int)]


def links(kind=None):
    """Give each dependent, of a relation, with its head and the sentence."""
    for sentence in SENTENCES:
        its = words(sentence)
        for word in its:
            if word["head"] and kind in (None, relation(word)):
                yield word, its[word["head"] - 1], sentence


def read():
    text = "".join(stream.read().decode() for stream, _ in open_embedded(Embedded.TREEBANK))
    return conllu.parse(text)


SENTENCES = read()


def test_the_sentences_are_the_first_of_each_file_of_the_package():
    plain = {
        name.removesuffix(".txt"): stream.read().decode().splitlines()
        for stream, name in open_embedded(Embedded.SENTENCES)
    }
    found = {name: [] for name in plain}
    for sentence in SENTENCES:
        name, _, number = sentence.metadata["sent_id"].rpartition("-")
        found[name].append(sentence.metadata["text"])
        assert int(number) == len(found[name])
    for name, sentences in found.items():
        assert len(sentences) >= 60
        assert sentences == plain[name][: len(sentences)]


def test_forms_spell_the_text():
    for sentence in SENTENCES:
        covered, spelled = 0, ""
        for token in sentence:
            if isinstance(token["id"], int):
                if token["id"] <= covered:
                    continue
            else:
                covered = token["id"][2]
                parts = [word["form"] for word in words(sentence)[token["id"][0] - 1 : covered]]
                assert "".join(parts) == token["form"]
            blank = "" if token["misc"] == {"SpaceAfter": "No"} else " "
            spelled += token["form"] + blank
        assert spelled.rstrip() == sentence.metadata["text"]


def test_every_sentence_is_one_tree():
    for sentence in SENTENCES:
        its = words(sentence)
        assert [word["id"] for word in its] == list(range(1, len(its) + 1))
        assert [word["head"] for word in its].count(0) == 1
        assert all((word["head"] == 0) == (word["deprel"] == "root") for word in its)
        assert all(above(sentence, word)[-1] == 0 for word in its)


def above(sentence, word):
    """List the heads of a word up to 0; a circle is as long as the sentence at most."""
    its, path = words(sentence), [word["head"]]
    while path[-1] and len(path) <= len(its):
        path.append(its[path[-1] - 1]["head"])
    return path


def test_arcs_do_not_cross():
    crossing = set()
    for word, head, sentence in links():
        first, last = sorted((word["id"], head["id"]))
        between = words(sentence)[first : last - 1]
        if any(head["id"] not in above(sentence, one) for one in between):
            crossing.add((sentence.metadata["sent_id"], word["form"], head["form"]))
    assert crossing == CROSSING


def test_relations_are_those_of_english():
    assert {word["deprel"] for sentence in SENTENCES for word in words(sentence)} <= RELATIONS


@pytest.mark.parametrize("kind", TAKES)
def test_a_relation_takes_its_parts_of_speech(kind):
    assert {word["upos"] for word, _, _ in links(kind)} <= TAKES[kind]


@pytest.mark.parametrize(
    ("tag", "kinds"),
    [
        ("DET", {"det", "nsubj", "obl", "nmod"}),  # "each convinced that"; "at all"
        ("AUX", {"aux", "cop", "parataxis"}),  # "calcite cannot"
        ("CCONJ", {"cc"}),
        ("PUNCT", {"punct"}),
        ("SCONJ", {"mark", "fixed"}),
        ("ADP", {"case", "compound", "fixed"}),
    ],
)
def test_a_part_of_speech_stands_in_its_relations(tag, kinds):
    assert {relation(word) for word, _, _ in links() if word["upos"] == tag} <= kinds


@pytest.mark.parametrize("kind", LEAVES)
def test_leaves(kind):
    below = {relation(word) for word, head, _ in links() if relation(head) == kind}
    assert below <= LEAVES[kind]


def test_the_copula_is_be():
    assert {word["lemma"] for word, _, _ in links("cop")} == {"be"}


def test_determiners_depend_on_what_can_stand_for_a_noun():
    assert {head["upos"] for _, head, _ in links("det")} <= {"NOUN", "PROPN", "PRON", "NUM", "ADJ"}
    adjectives = {head["form"] for _, head, _ in links("det") if head["upos"] == "ADJ"}
    assert adjectives == {"other", "best", "little", "last", "third", "lowest", "strongest"}


def test_adnominal_relations_depend_on_nominals():
    for kind in ("nmod", "amod", "nummod", "appos", "acl"):
        assert {head["upos"] for _, head, _ in links(kind)} <= {"NOUN", "PROPN", "PRON", "NUM", "SYM", "ADJ"}


def test_what_follows_its_head():
    for kind in ("conj", "appos", "fixed", "flat", "acl"):
        assert all(word["id"] > head["id"] for word, head, _ in links(kind))


def test_what_a_head_has_once():
    once = ("nsubj", "csubj", "obj", "iobj", "cop", "expl")
    found = Counter(
        (sentence.metadata["sent_id"], head["id"], relation(word))
        for word, head, sentence in links()
        if relation(word) in once
    )
    assert set(found.values()) == {1}


def test_the_passive_has_both_its_signs():
    passive = {"nsubj:pass", "aux:pass"}
    for sentence in SENTENCES:
        below = {word["id"]: set() for word in words(sentence)}
        for word in words(sentence):
            if word["head"]:
                below[word["head"]].add(word["deprel"])
        for kinds in below.values():
            assert "nsubj:pass" not in kinds or "aux:pass" in kinds
            assert not (kinds & passive and "nsubj" in kinds)


def test_a_preposition_tells_obliques_from_what_has_none():
    cased = {(sentence.metadata["sent_id"], head["id"]) for _, head, sentence in links("case")}
    for word, _, sentence in links():
        has = (sentence.metadata["sent_id"], word["id"]) in cased
        if word["deprel"] in ("obl", "nmod", "obl:agent"):
            assert has, word
        if word["deprel"] in ("obl:unmarked", "nmod:unmarked", "obj", "iobj", "nsubj"):
            assert not has, word


def test_the_reader_finds_every_link():
    documents = list(read_embedded(Embedded.TREEBANK))
    assert [document.text for document in documents] == [one.metadata["text"] for one in SENTENCES]
    for document, sentence in zip(documents, SENTENCES, strict=True):
        assert document.group is None  # each sentence is a document of its own
        inside = sum(token["id"][2] - token["id"][0] for token in sentence if token not in words(sentence))
        assert len(document.annotation.words) == len(words(sentence)) - inside  # "I'm" is one
        assert len(document.annotation.links) == len(words(sentence)) - 1
