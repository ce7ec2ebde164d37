"""Annotation by tokens: the right tokens, in every window, and nothing that was cut."""

from itertools import pairwise

import numpy as np
import pytest

from attnprobe.attention.annotation import TokenAnnotation, TokenLink, TokenSpan
from attnprobe.corpus.sources.annotation import Annotation, Link, Span
from attnprobe.corpus.sources.document import Document
from attnprobe.corpus.tokens.store import SequenceStore
from attnprobe.corpus.tokens.tokenization import SequenceReader
from attnprobe.errors import AttnprobeError

TEXT = "the river bank was slow , unlikely kindness of 東京 dogs ran — quickly"


def words_of(text, where="text"):
    spans, place = [], 0
    for word in text.split():
        place = text.index(word, place)
        spans.append(Span(place, place + len(word), where))
        place += len(word)
    return tuple(spans)


def chained(text):
    """Link every word to the next."""
    words = words_of(text)
    return Annotation(words, tuple(Link(a, b, "next") for a, b in pairwise(words)))


def spelled(tokenizer, ids, span):
    return tokenizer.decode(ids[span.start : span.stop]).replace(" ", "").lower()


@pytest.fixture(scope="session")
def tokenizer(tiny):
    return lambda name: tiny(name)[1]


@pytest.fixture(params=["bert", "roberta", "gpt2", "llama"])
def name(request):
    return request.param


def test_words_are_their_tokens(tokenizer, name):
    fast = tokenizer(name)
    (sequence,) = SequenceReader(fast, 100).read([Document(TEXT, annotation=chained(TEXT))])
    found = [spelled(fast, sequence.ids, word) for word in sequence.annotation.words]
    expected = [word.lower() for word in TEXT.split()]
    known = [place for place, word in enumerate(found) if "[unk]" not in word]
    assert len(known) >= len(expected) - 2
    assert [found[place] for place in known] == [expected[place] for place in known]
    covered = sorted(place for word in sequence.annotation.words for place in range(word.start, word.stop))
    assert len(set(covered)) == len(covered)  # no token is in two words
    assert len(sequence.annotation.links) == len(expected) - 1


@pytest.mark.parametrize("room", [4, 6, 9])
def test_windows_hold_what_is_whole(tokenizer, name, room):
    fast = tokenizer(name)
    reader = SequenceReader(fast, room + len(fast("a")["input_ids"]) - 1)
    whole = next(iter(SequenceReader(fast, 100).read([Document(TEXT, annotation=chained(TEXT))])))
    windows = list(reader.read([Document(TEXT, annotation=chained(TEXT))]))
    assert len(windows) > 1
    length, at = reader.max_length - len(reader.frame), len(reader.frame.before)

    def inside(span, number):
        return number * length <= span.start - at and span.stop - at <= (number + 1) * length

    for number, window in enumerate(windows):
        kept = [word for word in whole.annotation.words if inside(word, number)]
        assert [(w.start - at, w.stop - at) for w in window.annotation.words] == [
            (word.start - at - number * length, word.stop - at - number * length) for word in kept
        ]
        links = [
            one for one in whole.annotation.links if inside(one.source, number) and inside(one.target, number)
        ]
        assert len(window.annotation.links) == len(links)
    found = sum(len(window.annotation.links) for window in windows)
    assert reader.reading.links == len(TEXT.split()) - 1
    assert reader.reading.links_lost == reader.reading.links - found > 0


def test_pairs(tokenizer):
    fast, first, second = tokenizer("bert"), "the old dog ran", "a cat ran slowly"
    words = words_of(first) + words_of(second, "pair")
    annotation = Annotation(words, (Link(words[2], words[5], "rival", (words[4], words[5])),))
    (sequence,) = SequenceReader(fast, 100).read([Document(first, second, annotation=annotation)])
    (link,) = sequence.annotation.links
    assert spelled(fast, sequence.ids, link.source) == "dog"
    assert spelled(fast, sequence.ids, link.target) == "cat"
    assert [spelled(fast, sequence.ids, one) for one in link.candidates] == ["a", "cat"]


def test_a_word_of_a_pair_that_was_cut_in_two_is_gone(tokenizer):
    fast, first = tokenizer("bert"), "the dog ran unlikely"  # three pieces at least
    whole = fast(first, "a")["input_ids"]
    for longest in range(6, len(whole) + 1):
        annotation = Annotation(words_of(first))
        (sequence,) = SequenceReader(fast, longest).read([Document(first, "a", annotation=annotation)])
        for word in sequence.annotation.words:
            assert spelled(fast, sequence.ids, word) in first.split()


def test_a_store_gives_back_what_it_was_given(tokenizer):
    fast = tokenizer("bert")
    documents = [
        Document(TEXT, annotation=chained(TEXT)),
        Document("a dog"),
        Document("x", annotation=Annotation()),
    ]
    sequences = list(SequenceReader(fast, 8).read(documents))
    with SequenceStore(len(fast)).extend(sequences) as store:
        for place, sequence in enumerate(sequences):
            assert store.annotation(place) == sequence.annotation
            np.testing.assert_array_equal(store.ids(place), sequence.ids)
        assert store.annotated
        assert store.documents.tolist() == [sequence.document for sequence in sequences]
        assert store.documents[-1] == 2


def test_packing():
    link = TokenLink(TokenSpan(1, 3), TokenSpan(4, 5), "é|", (TokenSpan(4, 5),))
    one = TokenAnnotation((TokenSpan(1, 3),), (link,))
    assert TokenAnnotation.unpacked(one.packed()) == one


def test_a_slow_tokenizer_is_refused(tokenizer):
    class Slow:
        def __init__(self, fast):
            self.fast, self.is_fast = fast, False

        def __call__(self, *texts, **options):
            return self.fast(*texts, **options)

    reader = SequenceReader(Slow(tokenizer("bert")), 20)
    assert len(list(reader.read([Document("the dog")]))) == 1
    with pytest.raises(AttnprobeError, match="fast tokenizer"):
        list(reader.read([Document("the dog", annotation=Annotation())]))
