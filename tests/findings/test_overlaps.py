from itertools import combinations

import numpy as np
import pytest

from attnprobe.errors import AttnprobeError
from attnprobe.findings.overlaps import (
    Content,
    check_overlaps,
    describe_overlap,
    list_pairs_to_compare,
    refuse_whole,
)
from attnprobe.sums.documents import LEAST_NAME, SIZE, Overlap, Sketch


def make_sketch(rng: np.random.Generator, size: int, share: float = 1.0) -> Sketch:
    """Draw names of documents, below a share of all that there could be."""
    return Sketch.of(rng.integers(LEAST_NAME, LEAST_NAME + int(share * LEAST_NAME), size))


def make_content(name: str, sketch: Sketch, texts: str = "", files: str = "") -> Content:
    return Content(name, frozenset(texts.split() or [name]), frozenset(files.split()), sketch)


@pytest.fixture
def sketches():
    """Whole ones and cut ones; some share names, some are of corpora far larger than others."""
    rng = np.random.default_rng(0)
    found = [make_sketch(rng, size) for size in (3, 50, 50, SIZE + 500, SIZE + 500, 2)]
    found += [make_sketch(rng, SIZE + 10, 1e-6), make_sketch(rng, SIZE + 10, 1e-3)]
    found.append(Sketch.of(np.concatenate([found[1].names[:20], found[3].names[:7], found[6].names[5:9]])))
    found.append(found[2])
    return found


def test_pairs_to_compare_are_those_of_which_something_is_to_be_said(sketches):
    """Every pair compared with every other, one by one."""
    expected = []
    for one, other in combinations(range(len(sketches)), 2):
        overlap = sketches[one].compare(sketches[other])
        if overlap.seen or (not overlap.exact and overlap.compared < 10):
            expected.append((one, other))
    found = list_pairs_to_compare(sketches)
    assert set(expected) <= set(found)
    # A name that only one of two sketches is known to hold is no document in common.
    spare = set(found) - set(expected)
    assert all(set(sketches[a].names.tolist()) & set(sketches[b].names.tolist()) for a, b in spare)
    assert 5 < len(expected) < 40


def test_a_thousand_that_have_nothing_in_common():
    rng = np.random.default_rng(1)
    assert list_pairs_to_compare([make_sketch(rng, 20) for _ in range(1000)]) == []


def test_what_is_read_twice_is_refused():
    empty = Sketch.of(np.empty(0, np.int64))
    with pytest.raises(AttnprobeError, match=r"^c is about a text that is there already"):
        check_overlaps([make_content("a", empty), make_content("b", empty), make_content("c", empty, "x a")])
    contents = [make_content(name, empty, files=f"1 {name}" if name in "ac" else "") for name in "abc"]
    with pytest.raises(AttnprobeError, match=r"^a and c read the same file, which would count twice"):
        check_overlaps(contents)


def test_of_many_pairs_the_number_is_said():
    rng = np.random.default_rng(2)
    common = rng.integers(LEAST_NAME, 2 * LEAST_NAME, 2)
    contents = [
        make_content(f"t{number}", Sketch.of(np.append(make_sketch(rng, 20).names, common)))
        for number in range(5)
    ]
    notes = check_overlaps(contents)
    assert notes[0] == "2 documents are both in t0 and in t1, and count twice."
    assert len(notes) == 4
    assert notes[-1] == "7 more pairs of tables have documents in common, which count twice."


@pytest.mark.parametrize(
    ("overlap", "says"),
    [
        (Overlap(80.0, 1, 4, exact=False), "is not known: only 4 can be compared, of which 1 is."),
        (Overlap(0.0, 0, 0, exact=False), "is not known: none can be compared."),
        (Overlap(0.0, 0, 10, exact=False), ""),
        (Overlap(400.0, 20, 20, exact=False), "About 400 documents are both in a and in b"),
        (Overlap(3.0, 3, 5, exact=True), "3 documents are both in a and in b"),
    ],
)
def test_what_is_said_of_an_estimate(overlap, says):
    said = describe_overlap(overlap, "a", "b")
    assert says in said
    assert bool(says) == bool(said)


def test_an_estimate_that_refuses():
    with pytest.raises(AttnprobeError, match="all 30 documents of one of them that can be compared"):
        refuse_whole(Overlap(900.0, 30, 30, exact=False), "a", "b")
    refuse_whole(Overlap(900.0, 29, 29, exact=False), "a", "b")
