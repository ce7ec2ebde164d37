"""What kind of token each id is, and which types are rare."""

import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnprobe.corpus.tokenizer import Frame, TokenKinds, is_punctuation, rank_types, read_frequencies
from attnprobe.errors import AttnprobeError


@pytest.fixture(scope="session")
def tokenizer(tiny):
    return lambda name: tiny(name)[1]


@pytest.fixture
def marked(tokenizer):
    """Name the tokens of a text that are first, separators, punctuation."""

    def ask(name, *text):
        tiny = tokenizer(name)
        kinds = TokenKinds(tiny, Frame.of(tiny))
        ids = np.array([tiny(*text)["input_ids"]], np.int32)
        names = np.array([tiny.convert_ids_to_tokens(ids[0].tolist())])
        return {
            kind: names[getattr(kinds, kind)(ids)].tolist() for kind in ("first", "separator", "punctuation")
        }

    return ask


@pytest.mark.parametrize(("text", "expected"), [
    (",", True), ("?!", True), ("。", True), ("$", True), ("_", True),
    ("", False), ("a.", False), ("3", False), ("€", False), (". .", False), ("東", False),
])  # fmt: skip
def test_is_punctuation(text, expected):
    assert is_punctuation(text) is expected


class TestKinds:
    """First, separator, punctuation."""

    def test_bert(self, marked):
        kinds = marked("bert", "the dog's, [MASK] ... [UNK] 3 $", "(a bird!)")
        assert kinds["first"] == ["[CLS]"]
        assert kinds["separator"] == ["[SEP]", "[SEP]"]
        assert kinds["punctuation"] == ["'", ",", ".", ".", ".", "$", "(", "!", ")"]

    @pytest.mark.parametrize(("name", "framing"), [
        ("bert", {"[CLS]", "[SEP]", "[PAD]"}), ("roberta", {"<s>", "</s>", "<pad>"}),
        ("t5", {"</s>", "<pad>"}), ("bert-unframed", {"[CLS]", "[SEP]", "[PAD]"}),
    ])  # fmt: skip
    def test_framing(self, tokenizer, name, framing):
        """Neither the mask nor the unknown token frames a text: they stand for words."""
        tiny = tokenizer(name)
        kinds = TokenKinds(tiny, Frame.of(tiny))
        assert {tiny.convert_ids_to_tokens(token) for token in kinds.framing} == framing


NOTHING = frozenset[int]()
counted = st.lists(st.integers(0, 50), min_size=1, max_size=30).map(np.array)


def rare(counts, special=NOTHING, known=None):
    given = None if known is None else np.array(known)
    return pytest.approx(rank_types(np.array(counts), special, given).rare.tolist(), abs=1e-6)


def rank(counts, special=NOTHING, known=None):
    given = None if known is None else np.array(known)
    return rank_types(np.array(counts), special, given).rank.tolist()


class TestRank:
    """The most frequent type has rank 0."""

    def test_equals_share_a_rank_and_have_a_place_each(self):
        assert rank([4, 7, 4, 4, 1]) == [1, 0, 1, 1, 4]
        assert rank_types(np.array([4, 7, 4, 4, 1]), NOTHING).order.tolist() == [1, 0, 2, 3, 4]

    def test_special_tokens_are_no_candidates(self):
        assert rank([100, 2, 3], frozenset({0})) == [-1, 1, 0]
        assert rank([1, 2], frozenset({0, 1, 99})) == [-1, -1]

    def test_known_frequencies_go_first_and_counts_break_ties(self):
        assert rank([1, 9, 3, 4], known=[0.5, 0, 7, 0]) == [1, 2, 0, 3]
        assert rank([5, 5, 5], known=[1, 2, 1]) == [1, 0, 1]


class TestRare:
    """The rarest types that together make up a tenth; those that cross the line count in part."""

    def test_a_type_that_does_not_fit_counts_in_part(self):
        assert rare([89, 6, 3, 2]) == [0, 5 / 6, 1, 1]

    def test_equals_share_what_is_left(self):
        """Whatever their ids: once two of three were rare, and the first was not."""
        assert rare([85, 5, 5, 5]) == [0, 2 / 3, 2 / 3, 2 / 3]
        assert rare([50, 50]) == [0.1, 0.1]
        assert rare([80, 1, 6, 6, 6, 1]) == [0, 1, 8 / 18, 8 / 18, 8 / 18, 1]

    def test_special_tokens_count_neither_as_types_nor_as_occurrences(self):
        assert rare([9000, 90, 5, 5, 4000], frozenset({0, 4})) == [0, 0, 1, 1, 0]

    def test_known_frequencies_decide_the_order_and_the_corpus_the_share(self):
        assert rare([10, 45, 45], known=[9, 1, 1]) == [0, 1 / 9, 1 / 9]
        assert rare([45, 10, 45], known=[9, 1, 5]) == [0, 1, 0]
        assert rare([10, 45, 45], known=[1, 9, 5]) == [1, 0, 0]

    @given(counted)
    def test_a_tenth_of_the_occurrences_whatever_the_ties(self, counts):
        rarity = rank_types(counts, NOTHING)
        assert counts @ rarity.rare == pytest.approx(counts.sum() / 10, rel=1e-5)
        assert (np.diff(rarity.rare[np.argsort(rarity.order)]) >= 0).all()


class TestFile:
    """Frequencies from a file."""

    @pytest.fixture
    def read(self, tmp_path, tokenizer):
        def ask(content, model="bert", name="list.tsv"):
            raw = content.encode() if isinstance(content, str) else content
            path = tmp_path / name
            path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
            tiny = tokenizer(model)
            frequencies = read_frequencies(path, tiny, len(tiny))
            return {tiny.convert_ids_to_tokens(int(i)): frequencies[i] for i in np.flatnonzero(frequencies)}

        return ask

    def test_a_piece_is_not_the_word_that_is_spelled_alike(self, read):
        """``s`` is a word of its own; ``##s`` has no frequency unless the file gives it."""
        assert read("s\t7\n") == {"s": 7}

    @pytest.mark.parametrize("line", ["dog", "dog\tmany", "dog\t-1", "dog\tnan", "dog\tinf", "\t5"])
    def test_a_line_that_is_none(self, read, line):
        with pytest.raises(AttnprobeError, match=r"line 3: expected a token, a tab and a frequency"):
            read(f"the\t1\ncat\t2\n{line}\n")

    @pytest.mark.parametrize(("content", "name", "pattern"), [
        ("qqqq\t4\n", "list.tsv", "none of its words is a token"),
        (b"\xff\xfe\t1\n", "list.tsv", "is not UTF-16"),
        (b"\xff\t1\n", "list.tsv", "is not UTF-8"),
    ])  # fmt: skip
    def test_the_wrong_file(self, read, content, name, pattern):
        with pytest.raises(AttnprobeError, match=pattern):
            read(content, name=name)
