"""What a reader has to know is in the notes of the table."""

from pathlib import Path

import numpy as np
import pytest

import attnprobe
from attnprobe.table.head_table import HeadTable

WORDS = "the dog saw a cat in my house and then ran"


def of(words: str, text: str) -> list[str]:
    return [note for note in _table(words, text).notes if "Trend" not in note]


def _table(words: str, text: str) -> HeadTable:
    return getattr(attnprobe, words)("demo", [text])


class TestRare:
    """How many types the text can't tell apart, and from how much text the columns mean something."""

    def test_a_text_that_is_too_small(self):
        tie, small, two = of("rare", WORDS)
        assert tie.startswith("11 of 11 types occur once and tie for the last place among the rare: each")
        assert tie.endswith("counts as 0.1 of a rare type.")
        assert small.startswith("The text is too small to say what is rare: 100% of its tokens")
        assert two.startswith("rarest_two_share is empty")
        assert "11 types occur" in two

    def test_frequencies_that_list_little(self, tmp_path: Path):
        (tmp_path / "list.tsv").write_text("the\t10\nof\t5\n")
        found = attnprobe.rare("demo", [WORDS], frequencies=tmp_path / "list.tsv").notes
        assert found[0].startswith("10 of 11 types occur once and tie")
        assert found[1].startswith("The file of frequencies does not tell these types apart")
        assert not any("too small" in note for note in found)

    def test_a_tie_above_one_occurrence(self):
        notes = of("rare", f"{WORDS} {WORDS}")
        assert "11 of 11 types occur 2 times and tie" in notes[0]
        assert not any("too small" in note for note in notes)

    def test_of_equal_types_any_is_the_rarest(self):
        """Every ordinary token is: what is left are the queries that look at a special token."""
        sinks = attnprobe.special("demo", [WORDS])["separator"]
        rare = _table("rare", WORDS)
        assert np.allclose(rare["rare_mass"], 0.1 * (1 - sinks - attnprobe.special("demo", [WORDS])["first"]))

    @pytest.mark.parametrize("words", ["entropy", "positional", "special", "distance"])
    def test_not_beside_other_columns(self, words: str):
        assert of(words, WORDS) == []

    def test_in_the_census_too(self):
        assert len(of("census", WORDS)) == 3


class TestTies:
    """Rounding makes ties among the most attended keys."""

    @pytest.mark.parametrize(("words", "names"), [
        ("special", "moves sink_share"), ("rare", "moves rarest_share and rarest_two_share"),
        ("positional", "moves offset_share"), ("entropy", None),
        ("census", "moves offset_share, sink_share, rarest_share and rarest_two_share"),
    ])  # fmt: skip
    def test_bfloat16(self, words: str, names: str | None):
        found = getattr(attnprobe, words)("demo", [WORDS], dtype="bfloat16").notes
        said = [note for note in found if "In bfloat16" in note]
        assert len(said) == (names is not None)
        assert all(names is not None and names in note for note in said)
        moved = [note for note in said if "may move offset by a token" in note]
        assert len(moved) == (words in {"positional", "census"})

    def test_not_in_float32(self):
        assert not any("float" in note for note in of("census", WORDS))


def test_the_unit_says_which_queries():
    (column,) = (c for c in _table("positional", WORDS).columns if c.name == "offset_share")
    assert column.unit == "share of queries with such a key"
