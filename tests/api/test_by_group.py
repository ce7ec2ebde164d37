"""Groups of documents in one pass: each as a run over it alone has it, all as a run without groups has it."""

import json

import numpy as np
import pytest
from scipy.stats import ttest_ind

import attnprobe
from attnprobe.errors import AttnprobeError
from attnprobe.statistics.links import SYNTAX
from attnprobe.sums.base import Measurement, unpack
from attnprobe.sums.documents import BLOCKS
from attnprobe.sums.links import LinkCounts
from attnprobe.table.kinds import ALL_GROUPS

pytestmark = pytest.mark.filterwarnings("ignore::attnprobe.errors.AttnprobeWarning")
WORDS = (
    "the", "a", "of", "river", "bank", "house", "dog", "cat", "bird", "parcel", "came", "late", "early",
    "ran", "walk", "slow", "quick", "red", "green",
)  # fmt: skip
GROUPS = ("fiction", "law", "news")


def draw_rows(number=36):
    """Draw texts of three groups, of documents that lie in one of them each."""
    draw = np.random.default_rng(0)
    rows = []
    for _ in range(number):
        group, length = int(draw.integers(3)), int(draw.integers(1, 24))
        document = f"{GROUPS[group]} {draw.integers(7)}"
        rows.append((" ".join(draw.choice(WORDS, length)), GROUPS[group], document))
    return rows


ROWS = draw_rows()


def columns_of(rows):
    return dict(zip(("t", "genre", "of"), map(list, zip(*rows, strict=True)), strict=True))


def rows_of(table, group):
    """Give the rows of a group, without what says so."""
    there = [row for row, name in enumerate(table.data["group"]) if name == group]
    return {name: [cells[row] for row in there] for name, cells in table.data.items() if name != "group"}


def assert_same(found, alone, left_out=(), **tolerance):
    for name, cells in alone.data.items():
        if name in left_out:
            continue
        if any(isinstance(cell, str | None) for cell in cells):
            assert found[name] == list(cells), name
        else:
            np.testing.assert_allclose(found[name], cells, err_msg=name, **tolerance)


CALLS = [
    ("census", {}),
    ("distance", {"by": "pair"}),
    *(
        pytest.param(*call, marks=pytest.mark.slow)
        for call in (
            ("positional", {"control": True}),
            ("special", {"weights": "both"}),
            ("distance", {"by": "layer"}),
            ("mixing", {"by": "head"}),
            ("rank", {}),
        )
    ),
]


@pytest.mark.parametrize(
    "documents", [pytest.param(None, id="a row", marks=pytest.mark.slow), pytest.param("of", id="a column")]
)
@pytest.mark.parametrize(("command", "options"), CALLS)
def test_each_group_is_as_it_is_alone(command, options, documents):
    """In float64, where the size of a batch changes the last digits alone."""
    ask = getattr(attnprobe, command)
    given = {"text_column": "t", "document_column": documents, "dtype": "float64", **options}
    table = ask("demo", columns_of(ROWS), by_group="genre", **given)
    assert list(table.data)[:3] == ["model", "dataset", "group"]
    assert list(dict.fromkeys(table.data["group"])) == [ALL_GROUPS, *GROUPS]
    rare = [name for name in table.data if name.startswith("rare")]  # counted in all groups together
    # Blocks of documents go by what a document is called, for which the first row of its file counts too.
    blocks = [name for name in table.data if command == "mixing" and documents and name.endswith("_se")]
    for group in GROUPS:
        alone = ask("demo", columns_of([row for row in ROWS if row[1] == group]), **given)
        assert_same(rows_of(table, group), alone, rare, rtol=1e-9, atol=1e-12)
        assert blocks or not documents or command != "mixing"
    whole = ask("demo", columns_of(ROWS), **given)
    assert_same(rows_of(table, ALL_GROUPS), whole, rtol=0, atol=0)
    assert not [name for name in whole.provenance["dataset"] if name == "group_column"]


def test_tests_are_those_of_the_rows():
    """Of two groups whose texts are documents, Q is the square of Welch's t, and p is adjusted over heads."""
    rows = [row for row in ROWS if row[1] != "law"][:14]
    table = attnprobe.entropy("demo", columns_of(rows), text_column="t", by_group="genre")
    sides = [
        np.array([attnprobe.entropy("demo", [text])["entropy"] for text, genre, _ in rows if genre == group])
        for group in ("fiction", "news")
    ]
    expected = ttest_ind(*sides, equal_var=False)
    all_groups = rows_of(table, ALL_GROUPS)
    np.testing.assert_allclose(all_groups["entropy_q"], expected.statistic**2, rtol=1e-3)
    np.testing.assert_allclose(all_groups["entropy_q_p"], expected.pvalue, rtol=1e-2)
    order = np.sort(all_groups["entropy_q_p"])
    stepped = np.maximum.accumulate(order * np.arange(len(order), 0, -1)).clip(max=1)
    np.testing.assert_allclose(np.sort(all_groups["entropy_q_p_adjusted"]), stepped)
    assert np.isnan(rows_of(table, "news")["entropy_q"]).all()
    assert "2 groups, with their documents: fiction (" in table.notes[0]


def sentence(draw):
    """Draw a sentence of CoNLL-U, each word of which depends on the one before, or on the first."""
    words = draw.choice(WORDS, int(draw.integers(3, 9)))
    lines = []
    for place, word in enumerate(words, start=1):
        head = 0 if place == 1 else 1 if draw.integers(2) else place - 1
        relation = "root" if not head else ("obj" if head == 1 else "det")
        lines.append(f"{place}\t{word}\t_\tNOUN\t_\t_\t{head}\t{relation}\t_\t_")
    return "\n".join(lines)


@pytest.fixture(scope="module")
def treebank(tmp_path_factory):
    """Write a treebank of three genres, and one of each; by ``whole`` or the name of the genre."""
    folder, draw = tmp_path_factory.mktemp("genres"), np.random.default_rng(1)
    content = dict.fromkeys(("whole", *GROUPS), "")
    for number in range(40):
        genre = GROUPS[int(draw.integers(3))]
        text = "".join(
            ("" if place else f"# newdoc id = {number}\n# genre = {genre}\n") + f"{sentence(draw)}\n\n"
            for place in range(int(draw.integers(1, 4)))
        )
        for name in ("whole", genre):
            content[name] += text
    for name, text in content.items():
        (folder / f"{name}.conllu").write_text(text)
    return {name: str(folder / f"{name}.conllu") for name in content}


@pytest.mark.parametrize("options", [{"by": "head"}, {"trees": True}], ids=["by head", "trees"])
@pytest.mark.slow
def test_links_of_each_head_are_as_they_are_alone(treebank, options):
    few = {} if "trees" in options else {"min_links": 1}
    table = attnprobe.syntax("demo", treebank["whole"], by_group="genre", dtype="float64", **few, **options)
    # A row is named by its relation; of equally many links, another may come first in a group.
    for group, file in [(ALL_GROUPS, "whole"), *zip(GROUPS, GROUPS, strict=True)]:
        alone = attnprobe.syntax("demo", treebank[file], dtype="float64", **few, **options)
        keys = [one.name for one in alone.columns if one.role == "key" and one.name != "dataset"]
        found = rows_of(table, group)
        ours, theirs = (
            sorted(range(len(side["layer"])), key=lambda row, side=side: [side[key][row] for key in keys])
            for side in (found, alone.data)
        )
        for name in ("n", *(one.name for one in alone.columns if one.role in {"measure", "error"})):
            np.testing.assert_allclose(
                [found[name][row] for row in ours],
                [alone.data[name][row] for row in theirs],
                rtol=1e-9, atol=1e-12, err_msg=name,
            )  # fmt: skip


@pytest.mark.slow
def test_each_fold_of_a_group_is_scored_with_what_the_others_of_all_groups_chose(treebank):
    """A loop over folds and blocks of documents; right answers of the groups add up to those of all."""
    table = attnprobe.syntax("demo", treebank["whole"], by_group="genre", min_links=1)
    whole = attnprobe.syntax("demo", treebank["whole"], min_links=1)
    assert_same(rows_of(table, ALL_GROUPS), whole, rtol=0, atol=0)
    every, alone = read_tally(whole), {}
    for group in GROUPS:
        alone[group] = read_tally(attnprobe.syntax("demo", treebank[group], min_links=1))
    fold = np.arange(BLOCKS) * 5 // BLOCKS
    differ = 0
    for row, place in enumerate(zip(whole.data["relation"], whole.data["direction"], strict=True)):
        if whole.data["layer"][row] is None:
            continue
        hits = every.hits[every.keys.index(place)].reshape(-1, BLOCKS)
        chosen = [int(hits[:, fold != one].sum(1).argmax()) for one in range(5)]
        differ += len(set(chosen)) > 1
        total = 0
        for group, tally in alone.items():
            found = {name: cells[row] for name, cells in rows_of(table, group).items()}
            assert (found["layer"], found["head"]) == (whole.data["layer"][row], whole.data["head"][row])
            if place not in tally.keys:
                assert found["n"] == 0
                continue
            key = tally.keys.index(place)
            right = tally.hits[key].reshape(-1, BLOCKS)
            number = sum(int(right[who, fold == one].sum()) for one, who in enumerate(chosen))
            assert found["n"] == tally.number[key, 0].sum()
            assert found["accuracy"] == pytest.approx(number / found["n"])
            total += number
        assert total == round(whole.data["accuracy"][row] * whole.data["n"][row])
    assert differ > 1


def read_tally(table) -> LinkCounts:
    sums = unpack(table.provenance["measurement"]["sums"])
    return Measurement.from_arrays(sums, {SYNTAX.name: LinkCounts}).sums[SYNTAX.name]


@pytest.mark.slow
def test_batches_of_any_size_and_parts_of_a_run_add_up():
    """However sequences share batches, and in whatever order groups come."""
    given = {"text_column": "t", "by_group": "genre", "dtype": "float64"}
    table = attnprobe.census("demo", columns_of(ROWS), **given)
    small = attnprobe.census("demo", columns_of(ROWS), batch_tokens=1, **given)
    turned = attnprobe.census("demo", columns_of(ROWS[::-1]), **given)
    for other in (small, turned):
        assert_same(dict(other.data), table, ["rarest_two_share"], rtol=1e-9, atol=1e-12)
    sums = unpack(table.provenance["measurement"]["sums"])
    again = Measurement.from_arrays(sums, _kinds(table))
    assert sorted(again.groups) == list(GROUPS)
    both = again + again
    assert both.groups["law"].sequences == 2 * again.groups["law"].sequences
    assert json.loads(json.dumps([*both.groups])) == [*again.groups]


def _kinds(table):
    from attnprobe.statistics.registry import find_statistic

    names = [one.partition("@")[0] for one in table.provenance["measurement"]["statistics"]]
    return {name: find_statistic(name).sums for name in names}


def test_one_group_and_groups_of_one_document():
    texts = {"t": ["a dog", "a bird ran", "stone"], "g": ["a", "a", "a"]}
    table = attnprobe.entropy("demo", texts, text_column="t", by_group="g")
    assert "There is one group only, a (3), and nothing to compare it with." in table.notes
    assert np.isnan(table["entropy_q"].astype(float)).all()
    texts["g"] = ["a", "a", "b"]
    table = attnprobe.entropy("demo", texts, text_column="t", by_group="g")
    assert "Groups of fewer than 5 documents do not count in Q: a and b." in table.notes
    with pytest.raises(AttnprobeError, match="by_group"):
        attnprobe.entropy("demo", ["a dog"], by_group="g")
