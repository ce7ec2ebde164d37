"""Which links are asked about: by their names, each of several, subtypes folded or not."""

import pytest

from attnprobe.corpus.sources.document import Annotation, Document, Link, Span
from attnprobe.corpus.sources.links import filter_links
from attnprobe.errors import AttnprobeError

LABELS = ("pronoun|feminine", "pronoun|masculine", "nsubj:pass|old", "")


def document(*labels):
    links = tuple(Link(Span(0, 1), Span(1, 2), label) for label in labels)
    return Document("ab", annotation=Annotation(links=links))


def left(**how):
    (found,) = filter_links([document(*LABELS)], "it", **how)
    return [link.label for link in found.annotation.links]


def test_all_of_them():
    assert left() == list(LABELS)
    assert left(fold=True) == [*LABELS[:2], "nsubj|old", ""]


def test_a_link_has_each_of_its_labels():
    assert left(labels=["pronoun"]) == ["pronoun", "pronoun"]
    assert left(labels=["masculine", "pronoun"]) == ["pronoun", "pronoun|masculine"]
    assert left(labels=["nsubj"], fold=True) == ["nsubj"]


def test_refused():
    with pytest.raises(AttnprobeError, match="no link called 'noun'; it has feminine, masculine, nsubj:pass"):
        left(labels=["noun"])
    with pytest.raises(AttnprobeError, match=r"'nsubj:pass'; it has .*, and --subtypes tells"):
        left(labels=["nsubj:pass"], fold=True)
    with pytest.raises(AttnprobeError, match="it has only links without a label"):
        list(filter_links([document("")], "it", labels=["x"]))
    with pytest.raises(AttnprobeError, match="it can't be asked about: it holds no links"):
        list(filter_links([document()], "it"))
