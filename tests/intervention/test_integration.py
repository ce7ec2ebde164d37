"""Integrated gradients of gates: quadrature by hand, what adds up, ties, batches and states."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import fixed_quad

from attnprobe.intervention.gradient import find_nodes, integrate_gradients
from attnprobe.intervention.trials import run_trials

SHAPE = LAYERS, HEADS = 3, 4
STEP = 1e-4


def integrate_by_hand(
    losses: Any, layers: list[int], head: int, at: NDArray[Any], nodes: int
) -> NDArray[np.float64]:
    """Integrate differences of losses by the masks of a head, all of the layers scaled by t: (example,)."""

    def slope(t: float) -> NDArray[np.float64]:
        sides = []
        for step in (STEP, -STEP):
            masks = np.asarray(at, float).copy()
            masks[layers] *= t
            masks[layers, head] += step * at[layers, head]
            sides.append(losses(masks))
        return (sides[0] - sides[1]) / (2 * STEP)

    return np.asarray(fixed_quad(lambda ts: np.stack([slope(t) for t in ts], -1), 0, 1, n=nodes)[0])


@pytest.mark.parametrize("number", [1, 2, 4, 7])
def test_nodes_are_exact_for_polynomials(number: int):
    places, weights = find_nodes(number)
    assert ((places > 0) & (places < 1)).all()
    for power in range(2 * number):
        assert weights @ places**power == pytest.approx(1 / (power + 1))
    assert weights @ places ** (2 * number) != pytest.approx(1 / (2 * number + 1), rel=1e-9)


@pytest.mark.parametrize("nodes", [2, 4])
def test_by_hand(headed: Any, documents: Any, task_data: Any, losses: Any, nodes: int):
    with task_data(headed("bert", "classification", double=True), documents("classification")) as data:
        sums = integrate_gradients(data, nodes)
    at = np.ones(SHAPE)
    for layer, head in [(0, 1), (1, 3), (2, 0)]:
        expected = integrate_by_hand(losses, [layer], head, at, nodes)
        assert sums.signed.average[layer, head] == pytest.approx(expected.mean(), abs=1e-8)
        assert sums.size.average[layer, head] == pytest.approx(np.abs(expected).mean(), abs=1e-8)
        error = expected.std(ddof=1) / np.sqrt(len(expected))
        assert sums.signed.standard_error[layer, head] == pytest.approx(error, abs=1e-8)


def test_some_heads_are_off(headed: Any, documents: Any, task_data: Any, losses: Any):
    at = np.ones(SHAPE, bool)
    at[0, 1] = at[1, 0] = at[1, 2] = False
    at[2] = False
    with task_data(headed("bert", "classification", double=True), documents("classification")) as data:
        sums = integrate_gradients(data, 4, at)
    assert (sums.signed.average[~at] == 0).all()
    for layer, head in [(0, 3), (1, 1)]:
        expected = integrate_by_hand(losses, [layer], head, at.astype(float), 4)
        assert sums.signed.average[layer, head] == pytest.approx(expected.mean(), abs=1e-8)


@pytest.mark.parametrize(
    ("name", "kind"), [("gpt2", "causal-lm"), ("t5", "seq2seq"), ("bert", "token-classification")]
)
def test_it_adds_up_everywhere(headed: Any, documents: Any, task_data: Any, name: str, kind: str):
    texts = [
        text for text in documents(kind)[:6] if text.text != "stone" and not (name == "t5" and text.pair)
    ]
    with task_data(headed(name, kind, double=True), texts, kind) as data:
        summed = integrate_gradients(data, 10).signed.average.sum(-1)
        closed = [np.arange(len(summed))[:, None] != layer for layer in range(len(summed))]
        masks = [np.broadcast_to(mask, data.model.shape).copy() for mask in closed]
        trials = run_trials(data, masks, ("loss",), "closed layers")
    changes = np.array([(trials.untouched["loss"] - masked["loss"]).mean() for masked in trials.masked])
    # T5's ReLU has kinks, which no quadrature takes at once; all others are smooth.
    tolerance = np.abs(changes).max() * (0.03 if name == "t5" else 2e-3)
    np.testing.assert_allclose(summed, changes, rtol=0, atol=tolerance)
