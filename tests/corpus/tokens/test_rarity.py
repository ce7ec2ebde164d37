"""Which types are rare: the last tenth of the occurrences, counted from the rarest up."""

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from attnprobe.corpus.tokens.rarity import rank_types, read_frequencies
from attnprobe.errors import AttnprobeError

NOTHING = frozenset[int]()
counted = st.lists(st.integers(0, 50), min_size=1, max_size=30).map(np.array)


def rare(counts: list[int], special: frozenset[int] = NOTHING, known: list[float] | None = None) -> list[int]:
    given = None if known is None else np.array(known)
    return np.flatnonzero(rank_types(np.array(counts), special, given).rare).tolist()


def rank(counts: list[int], special: frozenset[int] = NOTHING, known: list[float] | None = None) -> list[int]:
    given = None if known is None else np.array(known)
    return rank_types(np.array(counts), special, given).rank.tolist()


class TestRank:
    """The most frequent type has rank 0."""

    def test_by_count(self):
        assert rank([5, 9, 1]) == [1, 0, 2]

    def test_of_equals_the_higher_id_is_rarer(self):
        assert rank([4, 7, 4, 4]) == [1, 0, 2, 3]

    def test_special_tokens_are_no_candidates(self):
        assert rank([100, 2, 3], frozenset({0})) == [-1, 1, 0]
        assert rank([1, 2], frozenset({0, 1, 99})) == [-1, -1]

    def test_known_frequencies_go_first_and_counts_break_ties(self):
        assert rank([1, 9, 3, 4], known=[0.5, 0, 7, 0]) == [1, 2, 0, 3]

    @given(counted)
    def test_ranks_are_a_permutation(self, counts: np.ndarray):
        found = rank_types(counts, NOTHING)
        assert sorted(found.rank.tolist()) == list(range(len(counts)))
        assert (np.diff(counts[np.argsort(found.rank)]) <= 0).all()


class TestRare:
    """The rarest types that together make up no more than a tenth."""

    def test_a_tenth_exactly(self):
        assert rare([90, 5, 3, 2]) == [1, 2, 3]

    def test_a_type_that_does_not_fit_ends_it(self):
        """The next type that would fit is more frequent, and is not rare either."""
        assert rare([89, 6, 3, 2]) == [2, 3]
        assert rare([50, 50]) == []

    def test_of_equals_those_that_fit_from_the_higher_id(self):
        assert rare([85, 5, 5, 5]) == [2, 3]

    def test_special_tokens_count_neither_as_types_nor_as_occurrences(self):
        assert rare([9000, 90, 5, 5, 4000], frozenset({0, 4})) == [2, 3]
        assert rare([9000, 90, 5, 5, 1], frozenset({0, 4})) == [2, 3]

    def test_types_that_do_not_occur_take_no_room(self):
        assert rare([90, 0, 10, 0]) == [1, 2, 3]

    def test_known_frequencies_decide_the_order_and_the_corpus_the_share(self):
        assert rare([10, 45, 45], known=[9, 1, 1]) == []
        assert rare([45, 10, 45], known=[9, 1, 5]) == [1]
        assert rare([10, 45, 45], known=[1, 9, 5]) == [0]

    def test_nothing_occurs(self):
        assert rank_types(np.zeros(3, np.int64), frozenset({0, 1, 2})).rare.tolist() == [False] * 3

    @given(counted)
    def test_definition(self, counts: np.ndarray):
        """As many of the rarest as fit a tenth, and not one more."""
        found = rank_types(counts, NOTHING)
        order = np.argsort(-found.rank)
        marks = found.rare[order]
        number = int(marks.sum())
        assert marks[:number].all()
        assert 10 * counts[order[:number]].sum() <= counts.sum()
        if number < len(counts):
            assert 10 * counts[order[: number + 1]].sum() > counts.sum()

    def test_the_order_of_the_corpus_plays_no_part(self):
        counts = np.bincount([3, 1, 1, 2, 1], minlength=5)
        assert rank_types(counts, NOTHING).rank.tolist() == [3, 0, 1, 2, 4]


class TestFile:
    """Frequencies from a file."""

    @pytest.fixture
    def tokenizer(
        self, tiny: Callable[[str], tuple[PreTrainedModel, PreTrainedTokenizerFast]]
    ) -> Callable[[str], PreTrainedTokenizerFast]:
        return lambda name: tiny(name)[1]

    @pytest.fixture
    def read(
        self, tmp_path: Path, tokenizer: Callable[[str], PreTrainedTokenizerFast]
    ) -> Callable[..., dict[str, float]]:
        def ask(content: str | bytes, model: str = "bert", name: str = "list.tsv") -> dict[str, float]:
            raw = content.encode() if isinstance(content, str) else content
            path = tmp_path / name
            path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
            tiny = tokenizer(model)
            found = read_frequencies(path, tiny, len(tiny))
            return {tiny.convert_ids_to_tokens(int(i)): found[i] for i in np.flatnonzero(found)}

        return ask

    def test_tokens_as_the_tokenizer_names_them(self, read: Callable[..., dict[str, float]]):
        assert read("the\t10\n##ing\t3\n,\t2.5\n") == {"the": 10, "##ing": 3, ",": 2.5}

    def test_a_piece_is_not_the_word_that_is_spelled_alike(self, read: Callable[..., dict[str, float]]):
        """``s`` is a word of its own; ``##s`` has no frequency unless the file gives it."""
        assert read("s\t7\n") == {"s": 7}

    @pytest.mark.parametrize(("model", "name"), [("t5", "▁dog"), ("roberta", "Ġthe")])
    def test_tokens_as_they_are_spelled(self, read: Callable[..., dict[str, float]], model: str, name: str):
        assert read(f"{name[1:]}\t5\n", model)[name] == 5
        assert read(f"{name}\t6\n{name[1:]}\t5\n", model)[name] == 6

    def test_a_header_may_stand_first(self, read: Callable[..., dict[str, float]]):
        assert read("word\tfrequency\nthe\t1\n") == {"the": 1}

    @pytest.mark.parametrize("line", ["dog", "dog\tmany", "dog\t-1", "dog\tnan", "dog\tinf", "\t5"])
    def test_a_line_that_is_none(self, read: Callable[..., dict[str, float]], line: str):
        with pytest.raises(AttnprobeError, match=r"line 3: expected a token, a tab and a frequency"):
            read(f"the\t1\ncat\t2\n{line}\n")

    def test_windows_files(self, read: Callable[..., dict[str, float]]):
        assert read(b"\xef\xbb\xbfthe\t10\r\ndog\t4\r\n\r\n") == {"the": 10, "dog": 4}

    def test_compressed(self, read: Callable[..., dict[str, float]]):
        assert read("the\t10\n", name="list.tsv.gz") == {"the": 10}

    def test_of_two_lines_the_higher_counts(self, read: Callable[..., dict[str, float]]):
        assert read("the\t3\nthe\t10\nthe\t4\n") == {"the": 10}

    @pytest.mark.parametrize(("content", "name", "pattern"), [
        ("", "list.tsv", "none of its words is a token"),
        ("qqqq\t4\n", "list.tsv", "none of its words is a token"),
        (b"\xff\xfe\t1\n", "list.tsv", "can't be read"),
    ])  # fmt: skip
    def test_the_wrong_file(
        self, read: Callable[..., dict[str, float]], content: str | bytes, name: str, pattern: str
    ):
        with pytest.raises(AttnprobeError, match=pattern):
            read(content, name=name)

    def test_not_there_or_cut_short(
        self, tmp_path: Path, tokenizer: Callable[[str], PreTrainedTokenizerFast]
    ):
        cut = tmp_path / "cut.tsv.gz"
        cut.write_bytes(gzip.compress(b"the\t10\n" * 1000)[:-12])
        plain = tmp_path / "plain.gz"
        plain.write_bytes(b"the\t10\n")
        for path in (tmp_path / "none.tsv", cut, plain, tmp_path):
            with pytest.raises(AttnprobeError, match="can't be read"):
                read_frequencies(path, tokenizer("bert"), 10)
