import math
import tracemalloc

import numpy as np

from attnprobe.corpus.document import Document
from attnprobe.corpus.order import draw_documents, select


def texts(number):
    return (Document(str(place)) for place in range(number))


def test_each_item_and_each_pair_is_as_likely_as_any_other():
    """Against the binomial of 4,000 seeds: 4 of 9 items, pairs with 4 * 3 / (9 * 8)."""
    seeds, size, number = 4000, 9, 4
    drawn = np.zeros((seeds, size))
    for seed in range(seeds):
        drawn[seed, draw_documents(range(size), number, seed)] = 1
    assert (drawn.sum(1) == number).all()
    together = drawn.T @ drawn / seeds
    single, pair = number / size, number * (number - 1) / (size * (size - 1))
    off = together[~np.eye(size, dtype=bool)]
    for found, expected in ((np.diag(together), single), (off, pair)):
        error = math.sqrt(expected * (1 - expected) / seeds)
        assert np.abs(found - expected).max() < 4.5 * error


def test_no_more_is_held_than_is_drawn():
    tracemalloc.start()
    try:
        draw_documents((bytes(10_000) for _ in range(3000)), 10, 0)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_sample_is_of_what_the_limit_leaves():
    everything = [document.text for document in select(texts(50), None, 10, 3)]
    first = [document.text for document in select(texts(50), 20, 10, 3)]
    assert len(everything) == len(first) == 10
    assert max(map(int, first)) < 20 < max(map(int, everything))
    assert [document.text for document in select(texts(50), 3, None, 3)] == ["0", "1", "2"]
    assert len(list(select(texts(5), 10**30, 10**30, 3))) == 5


def test_the_parts_of_a_document_are_drawn_together():
    def part(place, group):
        return Document(str(place), part_of=group)

    groups = ["0", "0", "0", "1", "2", "2", None, None, "3", "0"]
    parts = [part(place, group) for place, group in enumerate(groups)]
    whole = [{0, 1, 2, 9}, {3}, {4, 5}, {6}, {7}, {8}]
    drawn = np.zeros(len(whole))
    for seed in range(600):
        found = [int(document.text) for document in select(parts, None, 3, seed)]
        there = [bool(one & set(found)) for one in whole]
        assert found == sorted(set().union(*(one for one, some in zip(whole, there, strict=True) if some)))
        assert sum(there) == 3
        drawn += there
    assert np.abs(drawn / 600 - 0.5).max() < 4.5 * math.sqrt(0.25 / 600)
