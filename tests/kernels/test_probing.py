"""Probes against numpy: codes, maps between words, most attended words, scores, gradients."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import log_softmax

from attnprobe.kernels.probing import (
    WordQuestions,
    add_variances,
    answer,
    choose_words,
    decode,
    encode,
    read_word_maps,
)

HEADS, SIZES = 3, (4, 6)


def make_questions(
    seed: int = 0,
) -> tuple[WordQuestions, list[tuple[np.ndarray, int, list[int], list[bool]]]]:
    """Make questions about two sentences, some with several right answers and few candidates."""
    draw = np.random.default_rng(seed)
    maps = [draw.dirichlet(np.ones(size), (HEADS, size)) for size in SIZES]
    codes = [encode(np.moveaxis(one, 0, 2).reshape(-1, HEADS)) for one in maps]
    seen = [
        np.moveaxis(decode(one).reshape(size, size, HEADS), 2, 0)
        for one, size in zip(codes, SIZES, strict=True)
    ]
    asked = [
        (0, 1, [0, 2, 3], [True, False, False]),
        (1, 0, [1, 2, 3, 4, 5], [False, True, False, False, True]),
        (1, 4, [0, 2], [False, True]),
        (0, 3, [0, 1, 2], [False, False, True]),
    ]
    questions = WordQuestions(
        np.concatenate(codes),
        np.array([0 if at == 0 else 16 for at, *_ in asked]),
        np.array([SIZES[at] for at, *_ in asked]),
        np.array([i for _, i, *_ in asked]),
        np.concatenate([[0], np.cumsum([len(some) for *_, some, _ in asked])]),
        np.concatenate([some for *_, some, _ in asked]).astype(np.int32),
        np.concatenate([right for *_, right in asked]),
    )
    return questions, [(seen[at], i, some, right) for at, i, some, right in asked]


def features_of(maps: Any, i: int, some: list[int]) -> np.ndarray:
    return np.concatenate([maps[:, i, some], maps[:, some, i]]).T


def test_answers_by_definition():
    questions, by_hand = make_questions()
    weights = np.random.default_rng(1).normal(size=2 * HEADS) * 5
    found = answer(questions, weights)
    total = 0.0
    for number, (maps, i, some, right) in enumerate(by_hand):
        logs = log_softmax(features_of(maps, i, some) @ weights)
        assert found.hit[number] == right[int(logs.argmax())]
        total += logs[right].mean()
    assert found.objective == pytest.approx(total, abs=1e-12)
    some = answer(questions, weights, which=np.array([2, 0]))
    assert some.hit.tolist() == found.hit[[2, 0]].tolist()


def test_derivatives_are_finite_differences():
    questions, _ = make_questions(3)
    weights = np.random.default_rng(4).normal(size=2 * HEADS) * 3
    derived, step = answer(questions, weights, derive=True).derivative, 1e-6
    for place, moved in enumerate(step * np.eye(len(weights))):
        up, down = (answer(questions, weights + sign * moved).objective for sign in (1, -1))
        assert derived[place] == pytest.approx((up - down) / (2 * step), abs=1e-8)


def test_variances_over_candidates():
    questions, by_hand = make_questions()
    expected = sum(features_of(maps, i, some).var(0) for maps, i, some, _ in by_hand)
    np.testing.assert_allclose(add_variances(questions), expected, rtol=1e-9)


def test_maps_between_words_are_sums_to_and_means_from():
    """Also where queries come in pieces, words overlap, and sequences have unlike numbers of words."""
    draw = torch.Generator().manual_seed(0)
    p = torch.rand(2, 3, 7, 7, generator=draw).softmax(-1)
    spans = torch.tensor([[[1, 2], [2, 5], [5, 6]], [[1, 4], [3, 6], [0, 0]]])
    whole = read_word_maps(p, spans)
    for s in range(2):
        for i, (a, b) in enumerate(spans[s].tolist()):
            for j, (c, d) in enumerate(spans[s].tolist()):
                expected = p[s, :, a:b, c:d].double().sum(-1).mean(-1) if b > a and d > c else torch.zeros(3)
                torch.testing.assert_close(whole[s, :, i, j], expected.double(), atol=1e-12, rtol=0)
    pieces = [read_word_maps(p[:, :, q : q + 2], spans, q) for q in range(0, 7, 2)]
    torch.testing.assert_close(sum(pieces), whole, atol=1e-12, rtol=0)
    p[0, 1, 3] = torch.nan
    assert torch.isfinite(read_word_maps(p, spans)).all()


def test_most_attended_words():
    draw = np.random.default_rng(5)
    maps = draw.random((2, HEADS, 5, 5))
    maps[0, 0, 1] = 0.5  # a tie: the first counts
    sequence, asker = np.array([0, 1, 0]), np.array([1, 3, 4])
    starts, candidates = np.array([0, 4, 6, 9]), np.array([0, 2, 3, 4, 0, 1, 0, 1, 2], np.int32)
    right = draw.random(9) < 0.4
    found = choose_words(maps, sequence, asker, starts, candidates, right)
    for q in range(3):
        some = candidates[starts[q] : starts[q + 1]]
        for h in range(HEADS):
            one, other = maps[sequence[q], h, asker[q], some], maps[sequence[q], h, some, asker[q]]
            assert found[q, h].tolist() == [
                right[starts[q] + one.argmax()],
                right[starts[q] + other.argmax()],
            ]
