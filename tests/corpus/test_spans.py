"""Annotation by tokens: the right tokens, in every window, and nothing that was cut."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from attnprobe.attention.tokens import TokenLink, TokenSpan
from attnprobe.corpus.document import Annotation, Document, Link, Span
from attnprobe.corpus.links import find_words
from attnprobe.corpus.spans import Alignment, annotate_shifted, annotate_target, convert_link
from attnprobe.corpus.store import SequenceStore
from attnprobe.corpus.tokenizer import Frame
from attnprobe.corpus.tokens import SequenceReader

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


def sentencepiece():
    """Build a tokenizer like those of SentencePiece: ▁ before words, NFKC, bytes for what is not known."""
    pieces = [
        ("<pad>", 0.0),
        ("</s>", 0.0),
        ("<unk>", 0.0),
        *((f"<0x{byte:02X}>", -9.0) for byte in range(256)),
    ]
    pieces += [("▁", -3.0), ("▁dog", -4.0), ("s", -4.0), ("▁東京", -4.0), ("京は", -5.0), ("▁caf", -4.0)]
    pieces += [(letter, -6.0) for letter in "abcdefghijklmnopqrtuvwxyz東京はé.,"]
    fast = Tokenizer(models.Unigram(pieces, unk_id=2, byte_fallback=True))
    fast.normalizer = normalizers.NFKC()
    fast.pre_tokenizer = pre_tokenizers.Metaspace()
    fast.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=fast, eos_token="</s>", pad_token="<pad>", unk_token="<unk>"
    )


@pytest.fixture(scope="session")
def tokenizer(tiny):
    built = sentencepiece()
    return lambda name: built if name == "sentencepiece" else tiny(name)[1]


@pytest.fixture(params=["bert", "roberta"])
def name(request):
    return request.param


#: Accents, marks that combine, emoji of several characters, scripts without blanks and from right to left.
WORDS = [
    "dog", "dogs", "café", "cafe\u0301", "nai\u0308ve", "東京は雨", "東京", "हिन्दी", "שָׁלוֹם", "می\u200cخواهم",  # noqa: RUF001
    "👩\u200d👧", "👍🏽", "ﬁne", "½", "Ⅷ", "ａｂ", "...", ",", "—", "x", "\u0301", "<s>", "[SEP]", "İ",  # noqa: RUF001
    "Straße", "한국어", "\ufeff",
]  # fmt: skip
STRANGE = st.lists(
    st.tuples(st.sampled_from(WORDS) | st.text(max_size=4), st.sampled_from(["", " ", "  "])),
    min_size=1,
    max_size=12,
).map(lambda parts: "".join(word + blanks for word, blanks in parts))
TOKENIZERS = ["bert", "roberta", "sentencepiece"]
#: How many texts are drawn for each.
TRIES = settings(max_examples=30)


def covering(offsets, word):
    """Give the tokens that have a character in common with a word, by definition."""
    return [
        place for place, (start, stop) in enumerate(offsets) if max(start, word.start) < min(stop, word.stop)
    ]


@pytest.mark.parametrize("name", TOKENIZERS)
@TRIES
@given(text=STRANGE, room=st.integers(1, 9))
@example(text="dogs café 東京は雨 👩\u200d👧 שָׁלוֹם", room=3)
def test_words_are_the_tokens_of_their_characters(tokenizer, name, text, room):
    """Against the characters of every token, window by window."""
    fast, words = tokenizer(name), find_words(text)
    bare = fast(text, add_special_tokens=False, return_offsets_mapping=True)
    frame = Frame.of(fast)
    reader = SequenceReader(fast, room + len(frame))
    windows = list(reader.read([Document(text, annotation=Annotation(words))]))
    assert len(windows) == -(-len(bare["input_ids"]) // room)
    for number, window in enumerate(windows):
        here = range(number * room, (number + 1) * room)
        expected = {
            (tokens[0] - here.start + len(frame.before), tokens[-1] + 1 - here.start + len(frame.before))
            for word in words
            if (tokens := covering(bare["offset_mapping"], word)) and tokens[0] in here and tokens[-1] in here
        }
        assert [(word.start, word.stop) for word in window.annotation.words] == sorted(
            expected, key=lambda ends: ends[::-1]
        )


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("side", ["right", "left"])
@TRIES
@given(first=STRANGE, second=STRANGE, longest=st.integers(6, 40))
@example(first="👩\u200d👧 dogs", second="👍🏽 東京は雨", longest=9)
def test_pairs_that_are_truncated(tokenizer, name, side, first, second, longest):
    """A word is there if all of its tokens are; a link if both of its words are, or it is counted."""
    fast = tokenizer(name)
    fast.truncation_side = side
    try:
        words = find_words(first) + find_words(second, where="pair")
        links = tuple(Link(one, other, "") for one, other in zip(words, reversed(words), strict=True))
        reader = SequenceReader(fast, longest)
        sequences = list(reader.read([Document(first, second, annotation=Annotation(words, links))]))
        cut = fast(first, second, truncation="longest_first", max_length=longest).sequence_ids(0)
    finally:
        fast.truncation_side = "right"
    whole = fast(first, second, return_offsets_mapping=True)
    sides, offsets = whole.sequence_ids(0), whole["offset_mapping"]
    before = {
        word: [p for p in covering(offsets, word) if sides[p] == (word.where == "pair")] for word in words
    }
    if not sequences:
        assert set(cut) == {None}
        return
    (sequence,) = sequences
    left = []
    for part in (None, 0, 1):
        tokens = [place for place, one in enumerate(sides) if one == part]
        left += tokens[: cut.count(part)] if side == "right" else tokens[len(tokens) - cut.count(part) :]
    left.sort()
    assert sequence.ids == [whole["input_ids"][place] for place in left]
    position = {token: place for place, token in enumerate(left)}
    spans = {
        word: TokenSpan(position[tokens[0]], position[tokens[-1]] + 1)
        for word, tokens in before.items()
        if tokens and all(token in position for token in tokens)
    }
    assert set(sequence.annotation.words) == set(spans.values())
    expected = [
        (spans[link.source], spans[link.target])
        for link in links
        if link.source in spans and link.target in spans and spans[link.source] != spans[link.target]
    ]
    assert [(link.source, link.target) for link in sequence.annotation.links] == expected
    assert (reader.reading.links, reader.reading.links_lost) == (len(links), len(links) - len(expected))


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
            assert store.annotations(place)[0] == sequence.annotation
            np.testing.assert_array_equal(store.ids(place), sequence.ids)
        assert store.annotated
        assert store.documents.tolist() == [sequence.document for sequence in sequences]
        assert store.documents[-1] == 2


TAGS = ["DET", "NOUN", "NOUN", "AUX", "ADJ", "PUNCT", "ADV", "NOUN", "ADP", "PROPN", "NOUN", "VERB", "PUNCT"]


def tagged(text):
    """Say of every word of a text but the last what it is."""
    annotation = chained(text)
    return replace(annotation, parts_of_speech=dict(zip(annotation.words, TAGS, strict=False)))


@pytest.mark.parametrize("room", [6, 100])
def test_parts_of_speech_go_with_their_words(tokenizer, name, room):
    fast = tokenizer(name)
    reader = SequenceReader(fast, room + len(fast("a")["input_ids"]) - 1)
    known = dict(zip([word.lower() for word in TEXT.split()], [*TAGS, ""], strict=True))
    sequences = list(reader.read([Document(TEXT, annotation=tagged(TEXT))]))
    tagged_words = [
        (spelled(fast, sequence.ids, word), part)
        for sequence in sequences
        for word, part in zip(sequence.annotation.words, sequence.annotation.parts_of_speech, strict=True)
    ]
    assert len(tagged_words) > 8
    assert all(known[word] == part for word, part in tagged_words if "[unk]" not in word)
    with SequenceStore(len(fast)).extend(sequences) as store:
        assert [store.annotations(place)[0] for place in range(len(sequences))] == [
            sequence.annotation for sequence in sequences
        ]


def test_parts_of_speech_of_a_decoder(tokenizer):
    """It reads the words of the encoder, or a text of its own."""
    fast = tokenizer("bert")
    (sequence,) = SequenceReader(fast, 100).read([Document(TEXT, annotation=tagged(TEXT))])
    encoder = sequence.annotation
    decoder, cross = annotate_shifted(encoder, 6)
    assert 3 < len(decoder.words) < len(encoder.words)
    assert decoder.parts_of_speech == encoder.parts_of_speech[: len(decoder.words)]
    assert cross.parts_of_speech == decoder.parts_of_speech
    assert cross.key_parts_of_speech == encoder.parts_of_speech

    words = words_of("le chien", "target")
    extended = replace(tagged(TEXT), words=(*words_of(TEXT), *words))
    extended = replace(extended, parts_of_speech={**extended.parts_of_speech, words[1]: "NOUN"})
    (sequence,) = SequenceReader(fast, 100).read([Document(TEXT, annotation=extended)])
    offsets = Alignment({"target": [(0, 2), (3, 8)]})
    decoder, cross = annotate_target(sequence.annotation, sequence.awaited, "le chien", offsets, 3)
    assert decoder.parts_of_speech == cross.parts_of_speech == ("", "NOUN")
    assert cross.key_parts_of_speech == encoder.parts_of_speech


class TestLinks:
    """What is left of a link where not everything is there."""

    LINK = Link(
        Span(0, 1),
        Span(2, 3),
        "x",
        (Span(2, 3), Span(4, 5), Span(6, 7)),
        (Span(4, 5),),
        (("last", Span(6, 7)),),
    )

    @staticmethod
    def there(*places):
        return lambda span: TokenSpan(span.start, span.stop) if span.start in places else None

    def test_all(self):
        tokens = convert_link(self.LINK, self.there(0), self.there(2, 4, 6))
        assert tokens == TokenLink(
            TokenSpan(0, 1), TokenSpan(2, 3), "x", (TokenSpan(2, 3), TokenSpan(4, 5), TokenSpan(6, 7)),
            (TokenSpan(4, 5),), (("last", TokenSpan(6, 7)),),
        )  # fmt: skip

    @pytest.mark.parametrize(
        ("source", "target"), [((), (2, 4, 6)), ((0,), (6,)), ((0,), (2, 4)), ((0,), (2,))]
    )
    def test_nothing_is_asked(self, source, target):
        """Without the source, without a right answer, or without a wrong one."""
        assert convert_link(self.LINK, self.there(*source), self.there(*target)) is None


def test_a_character_that_lost_a_byte_is_gone():
    """An emoji is of four tokens of a byte each; all of them cover the same character."""
    whole = Alignment({"text": [(0, 1), (1, 2), (1, 2), (1, 2), (1, 2)]})
    cut = Alignment({"text": [(0, 1), (1, 2), (1, 2)]}, whole)
    assert whole.tokens(Span(1, 2)) == TokenSpan(1, 5)
    assert cut.tokens(Span(1, 2)) is None
    assert cut.tokens(Span(0, 1)) == TokenSpan(0, 1)
