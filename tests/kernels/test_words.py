"""The most attended word, compiled and in torch, against loops."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnprobe.kernels.words import Rows, add_up_queries, choose_candidates, find_most_attended

KEYS, QUERIES, BATCH, HEADS = 9, 7, 3, 4


def spans(length: int) -> st.SearchStrategy[tuple[int, int]]:
    return st.tuples(st.integers(0, length - 1), st.integers(1, length)).map(
        lambda s: (s[0], max(s[1], s[0] + 1))
    )


@st.composite
def questions(draw: st.DrawFn) -> Rows:
    """Draw rows whose candidates overlap, of which some exclude all or none."""
    candidates = draw(st.lists(spans(KEYS), min_size=1, max_size=8))
    number = draw(st.integers(1, 12))
    rows = [
        (
            draw(st.integers(0, BATCH - 1)),
            *draw(spans(QUERIES)),
            *(ends := draw(spans(len(candidates)))),
            *draw(st.sampled_from([(0, 0), (ends[0], ends[0] + 1), ends])),
        )
        for _ in range(number)
    ]
    table = np.array(rows, np.int64)
    return Rows(table[:, 0], table[:, 1:3], table[:, 3:5], table[:, 5:7], np.array(candidates, np.int64))


def by_loops(p: np.ndarray, rows: Rows) -> np.ndarray:
    chosen = np.full((len(rows), p.shape[1]), -1)
    for row in range(len(rows)):
        first, stop = rows.queries[row]
        for head in range(p.shape[1]):
            mean = p[rows.sequence[row], head, first:stop].astype(np.float64).mean(0)
            best = -1.0
            for candidate in range(*rows.candidates[row]):
                if rows.itself[row, 0] <= candidate < rows.itself[row, 1]:
                    continue
                mass = mean[slice(*rows.spans[candidate])].sum()
                if mass > best + 1e-12:
                    best, chosen[row, head] = mass, candidate
    return chosen


def drawn(seed: int) -> torch.Tensor:
    random = np.random.default_rng(seed)
    return torch.from_numpy(random.dirichlet(np.full(KEYS, 0.3), (BATCH, HEADS, QUERIES)).astype(np.float32))


@given(rows=questions(), seed=st.integers(0, 99))
def test_compiled_and_torch_agree_with_loops(rows: Rows, seed: int):
    p = drawn(seed)
    expected = by_loops(p.numpy(), rows)
    assert (find_most_attended(p, rows) == expected).all()
    assert (find_most_attended(p.double(), rows) == expected).all()  # which the loops don't take
    assert (choose_candidates(add_up_queries(p, rows), rows) == expected).all()


@given(rows=questions())
def test_the_first_of_a_tie(rows: Rows):
    """Attention that prefers nothing: of equally long candidates, the first wins."""
    p = torch.full((BATCH, HEADS, QUERIES, KEYS), 1 / 8)  # exact in binary
    expected = by_loops(p.numpy(), rows)
    assert (find_most_attended(p, rows) == expected).all()
    assert (find_most_attended(p.double(), rows) == expected).all()
