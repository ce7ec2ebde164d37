"""What kind of token each id is, for tokenizers of every make."""

from collections.abc import Callable

import numpy as np
import pytest
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from attnprobe.corpus.tokenization import Frame
from attnprobe.corpus.vocabulary import TokenKinds, is_punctuation, spell_token

Tokenizers = Callable[[str], PreTrainedTokenizerFast]


@pytest.fixture(scope="session")
def tokenizer(tiny: Callable[[str], tuple[PreTrainedModel, PreTrainedTokenizerFast]]) -> Tokenizers:
    return lambda name: tiny(name)[1]


@pytest.fixture
def marked(tokenizer: Tokenizers) -> Callable[..., dict[str, list[str]]]:
    """Name the tokens of a text that are first, separators, punctuation."""

    def ask(name: str, *text: str) -> dict[str, list[str]]:
        tiny = tokenizer(name)
        kinds = TokenKinds(tiny, Frame.of(tiny))
        ids = np.array([tiny(*text)["input_ids"]], np.int32)
        names = np.array([tiny.convert_ids_to_tokens(ids[0].tolist())])
        return {
            kind: names[getattr(kinds, kind)(ids)].tolist() for kind in ("first", "separator", "punctuation")
        }

    return ask


@pytest.mark.parametrize(("text", "expected"), [
    (",", True), ("...", True), ("?!", True), ("—", True), ("«", True), ("。", True), ("¿", True),
    ("“", True), ("$", True), ("+", True), ("`", True), ("~", True), ("^", True), ("_", True), ("'", True),
    ("", False), (" ", False), ("a", False), ("a.", False), ("3", False), ("€", False), ("½", False),
    (". .", False), ("東", False), ("\ufffd", False),
])  # fmt: skip
def test_is_punctuation(text: str, expected: bool):
    assert is_punctuation(text) is expected


@pytest.mark.parametrize(("name", "token", "expected"), [
    ("bert", "dog", "dog"), ("bert", "##ing", "ing"), ("bert", "##!", "!"), ("bert", "#", "#"),
    ("t5", "▁dog", "dog"), ("t5", "▁", ""), ("t5", ",", ","), ("t5", "▁,", ","),
    ("roberta", "Ġthe", "the"), ("roberta", "Ġ,", ","), ("roberta", "Ġ", ""),
])  # fmt: skip
def test_surface(tokenizer: Tokenizers, name: str, token: str, expected: str):
    tiny = tokenizer(name)
    assert spell_token(tiny, tiny.convert_tokens_to_ids(token)) == expected


class TestKinds:
    """First, separator, punctuation."""

    def test_bert(self, marked: Callable[..., dict[str, list[str]]]):
        found = marked("bert", "the dog's, [MASK] ... [UNK] 3 $", "(a bird!)")
        assert found["first"] == ["[CLS]"]
        assert found["separator"] == ["[SEP]", "[SEP]"]
        assert found["punctuation"] == ["'", ",", ".", ".", ".", "$", "(", "!", ")"]

    def test_roberta(self, marked: Callable[..., dict[str, list[str]]]):
        found = marked("roberta", "walk under the train-stop at night!", "a bird , late")
        assert found["first"] == ["<s>"]
        assert found["separator"] == ["</s>"] * 3
        assert found["punctuation"] == ["-", "!", "Ġ,"]

    def test_t5(self, marked: Callable[..., dict[str, list[str]]]):
        found = marked("t5", "the dog , ran.", "a bird")
        assert found["first"] == []
        assert found["separator"] == ["</s>", "</s>"]
        assert found["punctuation"] == ["▁,", "."]

    def test_unframed(self, marked: Callable[..., dict[str, list[str]]]):
        found = marked("bert-unframed", "the dog , ran .")
        assert found == {"first": [], "separator": [], "punctuation": [",", "."]}

    def test_special_tokens_spelled_out_in_the_text(self, marked: Callable[..., dict[str, list[str]]]):
        found = marked("bert", "the [SEP] dog [CLS] ran")
        assert found["first"] == ["[CLS]"]  # the leading one only
        assert found["separator"] == ["[SEP]", "[SEP]"]
        assert found["punctuation"] == []

    @pytest.mark.parametrize(("name", "framing"), [
        ("bert", {"[CLS]", "[SEP]", "[PAD]"}), ("roberta", {"<s>", "</s>", "<pad>"}),
        ("t5", {"</s>", "<pad>"}), ("bert-unframed", {"[CLS]", "[SEP]", "[PAD]"}),
    ])  # fmt: skip
    def test_framing(self, tokenizer: Tokenizers, name: str, framing: set[str]):
        """Neither the mask nor the unknown token frames a text: they stand for words."""
        tiny = tokenizer(name)
        kinds = TokenKinds(tiny, Frame.of(tiny))
        assert {tiny.convert_ids_to_tokens(token) for token in kinds.framing} == framing

    def test_batches_of_any_shape(self, tokenizer: Tokenizers):
        tiny = tokenizer("bert")
        kinds = TokenKinds(tiny, Frame.of(tiny))
        ids = np.array([tiny("the dog .")["input_ids"], tiny("a , bird")["input_ids"]], np.int32)
        expected = [[False, False, False, True, False], [False, False, True, False, False]]
        for _ in range(2):  # first spelled out, then remembered
            assert kinds.punctuation(ids).tolist() == expected
        assert kinds.first(ids)[:, 0].all()
        assert not kinds.first(ids)[:, 1:].any()

    def test_each_id_is_spelled_out_once(self, tokenizer: Tokenizers, monkeypatch: pytest.MonkeyPatch):
        tiny, asked = tokenizer("bert"), []
        kinds = TokenKinds(tiny, Frame.of(tiny))
        monkeypatch.setattr(
            "attnprobe.corpus.vocabulary.spell_token", lambda _, token: asked.append(token) or "x"
        )
        ids = np.array([[2, 9, 9, 3], [2, 9, 8, 3]], np.int32)
        kinds.punctuation(ids)
        kinds.punctuation(ids)
        assert sorted(asked) == [2, 3, 8, 9]
