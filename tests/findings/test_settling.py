"""The band of the step from which on the order of heads is settled: runs whose step is known."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import spearmanr

from attnprobe.attention.kinds import Place
from attnprobe.findings.dynamics import stack_steps
from attnprobe.findings.noise import block_record
from attnprobe.findings.rank_noise import disattenuate_ranks
from attnprobe.findings.settling import estimate_settling, find_settled_step, tabulate_orders
from attnprobe.sums.groups import Blocks
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

LAYERS, HEADS = 6, 12
STEPS = [0, 100, 200, 300, 400, 500, 600]
#: How much of the last order each step has.
SHARES = [0.0, 0.5, 0.8, 0.88, 0.95, 0.99, 1.0]


def table(values):
    """Make the table of importance of some examples, (example, head)."""
    blocks = Blocks.of(values.reshape(-1, LAYERS, HEADS), np.arange(len(values)))
    mean = values.mean(0).reshape(LAYERS, HEADS)
    record = block_record("importance", [Place(layer) for layer in range(LAYERS)], blocks, mean)
    data = {
        "model": ["m"] * mean.size,
        "dataset": ["d"] * mean.size,
        "layer": np.repeat(np.arange(LAYERS), HEADS).tolist(),
        "head": np.tile(np.arange(HEADS), LAYERS).tolist(),
        "importance": mean.ravel().tolist(),
    }
    columns = [Column(name, role="key") for name in list(data)[:4]]
    columns.append(Column("importance", "loss", headline=True))
    return HeadTable("importance", columns, data, (), record)


def run(draw, noise, examples):
    """Make a run whose steps read the same examples, with noise that they share in part; give its truth."""
    first, last = draw.normal(size=(2, LAYERS * HEADS))
    truths = [np.exp(0.5 * (share * last + (1 - share**2) ** 0.5 * first)) for share in SHARES]
    common = draw.normal(size=(examples, LAYERS * HEADS)) * draw.exponential(size=(examples, 1))
    found = []
    for step, truth in zip(STEPS, truths, strict=True):
        own = draw.normal(size=common.shape)
        found.append((step, table(truth * (1 + noise * (0.8 * common + 0.6 * own)))))
    rho = [spearmanr(truth, truths[-1]).statistic for truth in truths]
    true = find_settled_step(STEPS, rho)
    return found, STEPS[-1] if true is None else true, rho


def held(noise, examples, runs, seed=0):
    draw, inside, late = np.random.default_rng(seed), 0, 0
    for _ in range(runs):
        steps, true, _ = run(draw, noise, examples)
        found = estimate_settling(steps, "importance", None)
        low, high = found.band
        inside += low <= true <= high
        late += found.settled > true
    return inside, late


@pytest.mark.slow
def test_the_band_holds_the_step():
    """As it is measured, the order seems to settle late in most runs."""
    inside, late = held(1.5, 60, 20)
    assert inside >= 18
    assert late >= 10


@pytest.mark.parametrize(("noise", "examples"), [(0.5, 60), (1.5, 200), (4.0, 60)])
@pytest.mark.exhaustive
def test_coverage(noise, examples):
    assert held(noise, examples, 60, seed=1)[0] >= 55


def test_columns_and_notes_say_the_same():
    steps, _, _ = run(np.random.default_rng(0), 1.0, 100)
    found = tabulate_orders(steps, {})
    wanted = [disattenuate_ranks(*_samples(steps, place), shared=True) for place in range(len(STEPS))]
    np.testing.assert_array_equal(found["spearman_last_true"], [one.spearman for one in wanted])
    lows, highs = ([getattr(one, end) for one in wanted] for end in ("low", "high"))
    np.testing.assert_array_equal(found["spearman_last_true_low"], lows)
    np.testing.assert_array_equal(found["spearman_last_true_high"], highs)
    low, high = find_settled_step(STEPS, highs), find_settled_step(STEPS, lows)
    high = STEPS[-1] if high is None else high
    assert low < high
    assert set(found["settled_low"].tolist()) == {low}
    assert set(found["settled_high"].tolist()) == {high}
    assert set(found["settled"].tolist()) == {
        find_settled_step(STEPS, found["spearman_last"].tolist()) or STEPS[-1]
    }
    note = f"(95 %: from a step between {low} and {high} on)."
    for notes in (found.notes, stack_steps(steps, {}).notes):
        assert sum(one.endswith(note) for one in notes) == 1


def _samples(steps, place):
    from attnprobe.findings.noise import read_sample

    found = []
    for _, one in (steps[place], steps[-1]):
        names = list(zip(one.data["layer"], one.data["head"], strict=True))
        values = dict(zip(names, one.data["importance"], strict=True))
        found.append(read_sample(one.provenance, "importance", values, "x"))
    return found


def test_without_blocks_there_is_no_band():
    steps, _, _ = run(np.random.default_rng(0), 1.0, 100)
    bare = [(step, replace(one, provenance={})) for step, one in steps]
    found = tabulate_orders(bare, {})
    for name in ("spearman_last_true", "spearman_last_true_low"):
        assert np.isnan(found[name].astype(float)).all()
    for name in ("settled_true", "settled_low", "settled_high"):
        assert set(found.data[name]) == {None}
    assert None not in found.data["settled"]
    assert not any("noise" in note for note in found.notes)


def test_too_few_documents_have_no_band():
    steps, _, _ = run(np.random.default_rng(0), 1.0, 5)
    found = estimate_settling(steps, "importance", None)
    assert found.band is None
    assert np.isfinite(found.true).all()


def test_what_is_not_settled_before_the_last_step():
    steps, _, _ = run(np.random.default_rng(0), 0.2, 100)
    unsettled = [steps[0], steps[1], (200, steps[-1][1])]
    found = estimate_settling(unsettled, "importance", None)
    assert (found.settled, found.settled_true, found.band) == (200, 200, (200, 200))
    (first, second) = tabulate_orders(unsettled, {}).notes
    assert "is not settled before the last step" in first
    assert "would be settled not before the last step (95 %: from a step between 200 and 200 on)" in second
