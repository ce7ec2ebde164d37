"""Documents become framed sequences: nothing is lost, doubled or too long, with a prompt or without."""

from itertools import pairwise

import pytest
from tokenizers import Tokenizer as RawTokenizer
from tokenizers import models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from attnprobe.corpus import tokens as reading
from attnprobe.corpus.document import Annotation, Document, Link
from attnprobe.corpus.links import find_words
from attnprobe.corpus.tokenizer import Frame, tokenize
from attnprobe.corpus.tokens import SequenceReader
from attnprobe.errors import AttnprobeError

WORDS = "the dog ran to the water and the cat walked over the river , slow and late , under a blue house ."
NAMES = ("bert", "bert-unframed", "roberta", "t5")


@pytest.fixture(scope="session")
def tokenizer(tiny):
    return lambda name: tiny(name)[1]


def read(tokenizer, texts, length, **options):
    reader = SequenceReader(tokenizer, length, **options)
    documents = [Document(text) if isinstance(text, str) else Document(*text) for text in texts]
    return list(reader.read(documents)), reader


def bare(tokenizer, text):
    return tokenizer(text, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize(("name", "before", "after"), [
    ("bert", ["[CLS]"], ["[SEP]"]), ("roberta", ["<s>"], ["</s>"]), ("t5", [], ["</s>"]),
    ("bert-unframed", [], []),
])  # fmt: skip
def test_frame(tokenizer, name, before, after):
    frame = Frame.of(tokenizer(name))
    names = tokenizer(name).convert_ids_to_tokens
    assert (names(list(frame.before)), names(list(frame.after))) == (before, after)
    assert len(frame) == len(before) + len(after)
    assert frame.around([7, 8]) == [*frame.before, 7, 8, *frame.after]


def make_tokenizer(vocabulary, template, unknown=None, bpe=False):
    """Make a tokenizer that knows these tokens alone and frames a text by the template."""
    ids = {token: place for place, token in enumerate(vocabulary)}
    raw = RawTokenizer(models.BPE(ids, []) if bpe else models.WordLevel(ids, unk_token=unknown or "none"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = [(token, ids[token]) for token in vocabulary if token.startswith("[")]
    raw.post_processor = processors.TemplateProcessing(single=template, special_tokens=special)
    return PreTrainedTokenizerFast(
        tokenizer_object=raw,
        cls_token="[CLS]",
        sep_token="[SEP]",
        **({"unk_token": unknown} if unknown else {}),
    )


DNA = ("[CLS]", "[SEP]", *"ACGT")
CATS = ("[CLS]", "[SEP]", "the", "cat", "sat")


@pytest.mark.parametrize(("tokenizer", "text"), [
    (make_tokenizer(DNA, "[CLS] $A [SEP]", bpe=True), "GATTACA"),
    (make_tokenizer(DNA, "[CLS] [CLS] $A", bpe=True), "GATTACA"),
    (make_tokenizer(CATS, "[CLS] $A [SEP]"), "the cat sat"),
    (make_tokenizer(CATS, "$A [SEP]"), "the cat sat"),
    # What it does not know is what a text begins with, or ends with.
    (make_tokenizer(CATS, "[CLS] $A [SEP]", unknown="[CLS]"), "the dog sat"),
    (make_tokenizer(CATS, "[CLS] $A [SEP]", unknown="[SEP]"), "the dog sat"),
], ids=["drops letters", "two before", "no unknown token", "after alone", "first", "last"])  # fmt: skip
def test_the_frame_of_a_tokenizer_that_does_not_know_the_usual_probe(tokenizer, text):
    [sequence] = read(tokenizer, [text], 20)[0]
    assert sequence.ids == tokenizer(text)["input_ids"]


class Fake:
    """Letters are tokens, with 0 around them."""

    all_special_ids = (0,)

    def __len__(self):
        return 128

    def decode(self, ids):
        return chr(ids[0])

    def frame(self, ids):
        return [0, *ids, 0]

    def __call__(self, texts, *, add_special_tokens=True, **_):
        if not isinstance(texts, str):
            return {
                "input_ids": [
                    self(text, add_special_tokens=add_special_tokens)["input_ids"] for text in texts
                ]
            }
        ids = list(map(ord, texts))
        return {"input_ids": self.frame(ids) if add_special_tokens else ids}


def test_a_tokenizer_that_fails():
    def fail(*_, **__):
        raise RuntimeError("boom")

    with pytest.raises(AttnprobeError, match=r"The tokenizer fails on the texts: .*boom"):
        tokenize(fail, "a")  # type: ignore[arg-type]


class Interleaving(Fake):
    def frame(self, ids):
        return [token for pair in ids for token in (pair, 0)]


def test_a_tokenizer_that_does_something_else_is_refused():
    with pytest.raises(AttnprobeError, match="does not frame a text"):
        Frame.of(Interleaving())  # type: ignore[arg-type]


class Doubling(Fake):
    """Frames long texts in another way."""

    def frame(self, ids):
        return [0, *ids, 0] if len(ids) < 5 else [0, 0, *ids, 0]


def test_first_texts_are_held_against_the_tokenizer():
    documents = [Document("abc"), Document("abcdef")]
    with pytest.raises(AttnprobeError, match="does not put"):
        list(SequenceReader(Doubling(), 20).read(documents))  # type: ignore[arg-type]
    assert [one.ids for one in SequenceReader(Fake(), 20).read(documents[:1])] == [[0, 97, 98, 99, 0]]  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
class TestWindows:
    """A long document is cut into windows."""

    @pytest.mark.parametrize("room", [1, 7, 500])
    def test_no_token_is_lost(self, tokenizer, name, room):
        frame, ids = Frame.of(tokenizer(name)), bare(tokenizer(name), WORDS)
        sequences, reader = read(tokenizer(name), [WORDS], room + len(frame))
        inside = []
        for sequence in sequences:
            assert sequence.second == 0
            assert sequence.ids[: len(frame.before)] == list(frame.before)
            end = len(sequence.ids) - len(frame.after)
            assert sequence.ids[end:] == list(frame.after)
            inside.append(sequence.ids[len(frame.before) : end])
        assert [token for window in inside for token in window] == ids
        assert all(len(window) == room for window in inside[:-1])  # whole windows, then what is left
        assert 1 <= len(inside[-1]) <= room
        cut = len(ids) > room
        assert len(inside) == -(-len(ids) // room)
        assert (reader.reading.cut, reader.reading.windows) == (int(cut), len(inside) if cut else 0)
        assert (reader.reading.documents, reader.reading.truncated, reader.reading.empty) == (1, 0, 0)

    @pytest.mark.parametrize("room", [7, 500])
    def test_truncate_keeps_the_first_window(self, tokenizer, name, room):
        frame, ids = Frame.of(tokenizer(name)), bare(tokenizer(name), WORDS)
        (sequence,), reader = read(tokenizer(name), [WORDS], room + len(frame), truncate=True)
        assert sequence.ids == frame.around(ids[:room])
        assert reader.reading.truncated == int(len(ids) > room)
        assert (reader.reading.cut, reader.reading.windows) == (0, 0)

    def test_no_room_for_text(self, tokenizer, name):
        special = len(Frame.of(tokenizer(name)))
        with pytest.raises(
            AttnprobeError, match=rf"{special} special tokens; give at least {special + 1}\.$"
        ):
            SequenceReader(tokenizer(name), special)
        SequenceReader(tokenizer(name), special + 1)


@pytest.mark.parametrize("name", NAMES)
class TestPairs:
    """Two texts that the model reads together."""

    PAIR = ("is it late ?", "it is not late ; the parcel came by day")

    def test_as_the_tokenizer_does(self, tokenizer, name):
        (sequence,), reader = read(tokenizer(name), [self.PAIR], 100)
        encoded = tokenizer(name)(*self.PAIR, return_token_type_ids=True)
        assert sequence.ids == encoded["input_ids"]
        kinds = encoded["token_type_ids"]
        assert sequence.second == (kinds.index(1) if 1 in kinds else 0)
        assert (reader.reading.documents, reader.reading.truncated) == (1, 0)

    @pytest.mark.parametrize("length", [6, 9, 12])
    def test_too_long_is_truncated_longest_first(self, tokenizer, name, length):
        (sequence,), reader = read(tokenizer(name), [self.PAIR], length)
        assert len(sequence.ids) == length
        assert reader.reading.truncated == 1
        expected = tokenizer(name)(*self.PAIR, truncation="longest_first", max_length=length)
        assert sequence.ids == expected["input_ids"]


def test_reading_is_lazy(tokenizer, monkeypatch):
    monkeypatch.setattr(reading, "CHUNK_DOCUMENTS", 2)
    taken = []

    def documents():
        for number in range(100):
            taken.append(number)
            yield Document("stone")

    reader = SequenceReader(tokenizer("bert"), 10).read(documents())
    next(reader)
    assert len(taken) == 2


class TestSpelledOut:
    """Special tokens in a user's text become special tokens, as everywhere, and are counted."""

    @pytest.mark.parametrize(("name", "token"), [("bert", "[SEP]"), ("bert", "[MASK]"), ("roberta", "</s>")])
    def test_counted(self, tokenizer, name, token):
        tiny = tokenizer(name)
        text = f"the dog {token} ran"
        (sequence,), reader = read(tiny, [text], 40)
        assert sequence.ids == tiny(text)["input_ids"]
        assert (reader.reading.spelled, reader.reading.spelled_token) == (1, token)

    def test_in_pairs(self, tokenizer):
        tiny = tokenizer("bert")
        for pair in (("the dog", "a [SEP] cat"), ("the [SEP] dog", "a cat")):
            (sequence,), reader = read(tiny, [pair], 40)
            assert sequence.ids == tiny(*pair)["input_ids"]
            assert reader.reading.spelled == 1


LONG = "the river bank was slow , unlikely kindness of dogs ran — quickly by the house"
SPANS = find_words(LONG)
LINKS = tuple(Link(one, other, "next") for one, other in pairwise(SPANS))


@pytest.fixture(params=["bert", "roberta", "t5"])
def fast(request, tiny):
    return tiny(request.param)[1]


def spell(fast, sequence, spans):
    return [fast.decode(sequence.ids[one.start : one.stop]).strip() for one in spans]


def spell_links(fast, sequence):
    ends = [(link.source, link.target) for link in sequence.annotation.links]
    return [tuple(spell(fast, sequence, pair)) for pair in ends]


@pytest.mark.parametrize("prompt", ["the red house by ", "stop:"])
class TestPrompts:
    def test_words_and_links(self, fast, prompt):
        document = Document(LONG, annotation=Annotation(SPANS, LINKS))
        (plain,) = SequenceReader(fast, 100).read([document])
        (prompted,) = SequenceReader(fast, 100, prompts={"": prompt}).read([document])
        assert prompted.ids == fast(prompt + LONG)["input_ids"]
        assert prompted.name == plain.name  # of the text, whatever stands before it
        expected, spelled = (spell(fast, one, one.annotation.words) for one in (plain, prompted))
        assert spelled[1:] == expected[1:]  # the first may be one token with the end of the prompt
        assert len(spelled) == len(SPANS)
        assert spell_links(fast, prompted)[1:] == spell_links(fast, plain)[1:]

    def test_windows(self, fast, prompt):
        room = 3
        bare = fast(prompt, add_special_tokens=False)["input_ids"]
        framed = len(fast("a")["input_ids"]) - len(fast("a", add_special_tokens=False)["input_ids"])
        reader = SequenceReader(fast, len(bare) + framed + room, prompts={"": prompt})
        sequences = list(reader.read([Document(LONG, annotation=Annotation(SPANS, LINKS))]))
        before = len(reader.frame.before)
        whole = fast(prompt + LONG, add_special_tokens=False)["input_ids"]
        same = sum(1 for one, other in zip(whole, bare, strict=False) if one == other)
        assert all(one.ids[before : before + same] == whole[:same] for one in sequences)
        texts = [one.ids[before + same : len(one.ids) - len(reader.frame.after)] for one in sequences]
        assert [token for text in texts for token in text] == whole[same:]
        words = [word for one in sequences for word in spell(fast, one, one.annotation.words)]
        assert set(words) <= {fast.decode(fast.encode(word, add_special_tokens=False)).strip()
                              for word in LONG.split()}  # fmt: skip
        assert len(words) > 3
        (first,) = SequenceReader(fast, reader.max_length, truncate=True, prompts={"": prompt}).read(
            [Document(LONG)]
        )
        cut = fast(prompt + LONG, truncation=True, max_length=reader.max_length)["input_ids"]
        assert first.ids == sequences[0].ids == cut
