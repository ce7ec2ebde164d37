"""Importance and ablation go on with half of a batch that does not fit."""

from typing import Any

import numpy as np
import pytest

from attnprobe.errors import AttnprobeError, AttnprobeWarning
from attnprobe.intervention.gradient import gradient_importance
from attnprobe.intervention.trials import mask_each_head, run_trials

TASKS = [
    ("bert", "classification", ("loss", "prediction", "label")),
    ("bert", "representation", ("similarity",)),
    ("t5", "seq2seq", ("loss", "accuracy")),
]


@pytest.fixture(params=TASKS, ids=[f"{name} {kind}" for name, kind, _ in TASKS])
def task(request: Any, headed: Any, documents: Any, task_data: Any) -> Any:
    """Bind a task to texts; yield it, what its metric needs, and the sizes of its batches."""
    name, kind, needs = request.param
    with task_data(headed(name, kind, double=True), documents(kind) * 3, kind, batch_tokens=None) as data:
        yield data, needs, [len(batch.ids) for batch in data.corpus.batches]


def test_gradient(task: Any, limited_memory: Any):
    data, _, sizes = task
    body, whole = data.model.checkpoint.body, gradient_importance(data)
    with limited_memory(body, max(sizes) - 1) as tried, pytest.warns(AttnprobeWarning) as halved:
        parts = gradient_importance(data)
    assert len(tried) > len(sizes)
    assert 1 <= len(halved) < len(tried)
    assert all("memory" in str(warning.message) for warning in halved)
    with limited_memory(body, 0), pytest.raises(AttnprobeError, match="single sequence"):
        gradient_importance(data)
    for key, array in whole.arrays().items():
        np.testing.assert_allclose(parts.arrays()[key], array, rtol=1e-6, atol=1e-12, err_msg=key)


@pytest.mark.parametrize("behind", [0, 4])
def test_trials(task: Any, limited_memory: Any, behind: int):
    """Also where the memory runs out in the middle of the masks, with the pass before on record."""
    data, needs, sizes = task
    body, masks = data.model.checkpoint.body, mask_each_head(*data.model.shape)[::3]
    whole = run_trials(data, masks, needs)
    limit = limited_memory(body, max(sizes) - 1, behind=behind)
    with limit as tried, pytest.warns(AttnprobeWarning) as halved:
        parts = run_trials(data, masks, needs)
    assert len(tried) > len(sizes) * (1 + len(masks))
    assert all("memory" in str(warning.message) for warning in halved)
    with limited_memory(body, 0), pytest.raises(AttnprobeError, match="single sequence"):
        run_trials(data, masks, needs)
    pairs = zip([whole.untouched, *whole.masked], [parts.untouched, *parts.masked], strict=True)
    for expected, halves in pairs:
        assert expected.keys() == halves.keys()
        for need in needs:
            np.testing.assert_allclose(halves[need], expected[need], rtol=1e-6, atol=1e-12)
