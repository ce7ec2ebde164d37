"""Documents become framed sequences: nothing lost, nothing twice, nothing too long."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tokenizers import Tokenizer as RawTokenizer
from tokenizers import models, pre_tokenizers, processors
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from attnprobe.corpus import tokens as reading
from attnprobe.corpus.document import Document
from attnprobe.corpus.tokenizer import Frame, tokenize
from attnprobe.corpus.tokens import SequenceReader
from attnprobe.errors import AttnprobeError

Tokenizers = Callable[[str], PreTrainedTokenizerFast]
Text = str | tuple[str, str]

WORDS = "the dog ran to the water and the cat walked over the river , slow and late , under a blue house ."
NAMES = ("bert", "bert-unframed", "roberta", "t5")


@pytest.fixture(scope="session")
def tokenizer(tiny: Callable[[str], tuple[PreTrainedModel, PreTrainedTokenizerFast]]) -> Tokenizers:
    return lambda name: tiny(name)[1]


def read(tokenizer: PreTrainedTokenizerFast, texts: Sequence[Text], length: int, **options: bool):
    reader = SequenceReader(tokenizer, length, **options)
    documents = [Document(text) if isinstance(text, str) else Document(*text) for text in texts]
    return list(reader.read(documents)), reader


def bare(tokenizer: PreTrainedTokenizerFast, text: str) -> list[int]:
    return tokenizer(text, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize(("name", "before", "after"), [
    ("bert", ["[CLS]"], ["[SEP]"]), ("roberta", ["<s>"], ["</s>"]), ("t5", [], ["</s>"]),
    ("bert-unframed", [], []),
])  # fmt: skip
def test_frame(tokenizer: Tokenizers, name: str, before: list[str], after: list[str]):
    frame = Frame.of(tokenizer(name))
    names = tokenizer(name).convert_ids_to_tokens
    assert (names(list(frame.before)), names(list(frame.after))) == (before, after)
    assert len(frame) == len(before) + len(after)
    assert frame.around([7, 8]) == [*frame.before, 7, 8, *frame.after]


def make_tokenizer(
    vocabulary: Sequence[str], template: str, unknown: str | None = None, bpe: bool = False
) -> PreTrainedTokenizerFast:
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
def test_the_frame_of_a_tokenizer_that_does_not_know_the_usual_probe(
    tokenizer: PreTrainedTokenizerFast, text: str
):
    [sequence] = read(tokenizer, [text], 20)[0]
    assert sequence.ids == tokenizer(text)["input_ids"]


class Fake:
    """Letters are tokens, with 0 around them."""

    all_special_ids = (0,)

    def __len__(self) -> int:
        return 128

    def decode(self, ids: Sequence[int]) -> str:
        return chr(ids[0])

    def frame(self, ids: list[int]) -> list[int]:
        return [0, *ids, 0]

    def __call__(
        self, texts: str | list[str], *, add_special_tokens: bool = True, **_: Any
    ) -> dict[str, Any]:
        if not isinstance(texts, str):
            return {
                "input_ids": [
                    self(text, add_special_tokens=add_special_tokens)["input_ids"] for text in texts
                ]
            }
        ids = list(map(ord, texts))
        return {"input_ids": self.frame(ids) if add_special_tokens else ids}


def test_a_tokenizer_that_fails():
    def fail(*_: Any, **__: Any):
        raise RuntimeError("boom")

    with pytest.raises(AttnprobeError, match=r"The tokenizer fails on the texts: .*boom"):
        tokenize(fail, "a")  # type: ignore[arg-type]


class Interleaving(Fake):
    def frame(self, ids: list[int]) -> list[int]:
        return [token for pair in ids for token in (pair, 0)]


def test_a_tokenizer_that_does_something_else_is_refused():
    with pytest.raises(AttnprobeError, match="does not frame a text"):
        Frame.of(Interleaving())  # type: ignore[arg-type]


class Doubling(Fake):
    """Frames long texts in another way."""

    def frame(self, ids: list[int]) -> list[int]:
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
    def test_no_token_is_lost(self, tokenizer: Tokenizers, name: str, room: int):
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
    def test_truncate_keeps_the_first_window(self, tokenizer: Tokenizers, name: str, room: int):
        frame, ids = Frame.of(tokenizer(name)), bare(tokenizer(name), WORDS)
        (sequence,), reader = read(tokenizer(name), [WORDS], room + len(frame), truncate=True)
        assert sequence.ids == frame.around(ids[:room])
        assert reader.reading.truncated == int(len(ids) > room)
        assert (reader.reading.cut, reader.reading.windows) == (0, 0)

    def test_no_room_for_text(self, tokenizer: Tokenizers, name: str):
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

    def test_as_the_tokenizer_does(self, tokenizer: Tokenizers, name: str):
        (sequence,), reader = read(tokenizer(name), [self.PAIR], 100)
        encoded = tokenizer(name)(*self.PAIR, return_token_type_ids=True)
        assert sequence.ids == encoded["input_ids"]
        kinds = encoded["token_type_ids"]
        assert sequence.second == (kinds.index(1) if 1 in kinds else 0)
        assert (reader.reading.documents, reader.reading.truncated) == (1, 0)

    @pytest.mark.parametrize("length", [6, 9, 12])
    def test_too_long_is_truncated_longest_first(self, tokenizer: Tokenizers, name: str, length: int):
        (sequence,), reader = read(tokenizer(name), [self.PAIR], length)
        assert len(sequence.ids) == length
        assert reader.reading.truncated == 1
        expected = tokenizer(name)(*self.PAIR, truncation="longest_first", max_length=length)
        assert sequence.ids == expected["input_ids"]


def test_reading_is_lazy(tokenizer: Tokenizers, monkeypatch: pytest.MonkeyPatch):
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
    def test_counted(self, tokenizer: Tokenizers, name: str, token: str):
        tiny = tokenizer(name)
        text = f"the dog {token} ran"
        (sequence,), reader = read(tiny, [text], 40)
        assert sequence.ids == tiny(text)["input_ids"]
        assert (reader.reading.spelled, reader.reading.spelled_token) == (1, token)

    def test_in_pairs(self, tokenizer: Tokenizers):
        tiny = tokenizer("bert")
        for pair in (("the dog", "a [SEP] cat"), ("the [SEP] dog", "a cat")):
            (sequence,), reader = read(tiny, [pair], 40)
            assert sequence.ids == tiny(*pair)["input_ids"]
            assert reader.reading.spelled == 1
