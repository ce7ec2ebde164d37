"""Importance and ablation go on with half of a batch that does not fit."""

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch

from attnprobe.errors import AttnprobeError, AttnprobeWarning
from attnprobe.intervention.gradient import gradient_importance
from attnprobe.intervention.trials import mask_each_head, run_trials
from attnprobe.model.checkpoint import Checkpoint

Headed = Callable[..., Checkpoint]
TASKS = [
    ("bert", "classification", ("loss", "prediction", "label")),
    ("bert", "representation", ("similarity",)),
    ("t5", "seq2seq", ("loss", "accuracy")),
]
each_task = pytest.mark.parametrize(("name", "kind", "needs"), TASKS)


@contextmanager
def narrow(encoder: torch.nn.Module, most: int, *, behind: int = 0):
    """Let passes over more than ``most`` sequences run out of memory, but for the first ``behind``."""
    tried: list[int] = []

    def refuse(_, arguments, options):
        given = options.get("input_ids", arguments[0] if arguments else None)
        tried.append(len(given))
        if len(given) > most and len(tried) > behind:
            raise torch.OutOfMemoryError("CUDA out of memory.")

    hook = encoder.register_forward_pre_hook(refuse, with_kwargs=True)
    try:
        yield tried
    finally:
        hook.remove()


@each_task
def test_gradient(headed: Headed, documents: Any, task_data: Any, name: str, kind: str, needs: Any):
    checkpoint = headed(name, kind, double=True)
    with task_data(checkpoint, documents(kind) * 3, kind, batch_tokens=None) as data:
        sizes = [len(batch.ids) for batch in data.corpus.batches]
        whole = gradient_importance(data)
        with narrow(checkpoint.body, max(sizes) - 1) as tried, pytest.warns(AttnprobeWarning) as halved:
            parts = gradient_importance(data)
        assert len(tried) > len(sizes)
        assert 1 <= len(halved) < len(tried)
        assert all("memory" in str(warning.message) for warning in halved)
        with narrow(checkpoint.body, 0), pytest.raises(AttnprobeError, match="single sequence"):
            gradient_importance(data)
    for key, array in whole.arrays().items():
        np.testing.assert_allclose(parts.arrays()[key], array, rtol=1e-6, atol=1e-12, err_msg=key)


@pytest.mark.parametrize("behind", [0, 4])
@each_task
def test_trials(
    headed: Headed, documents: Any, task_data: Any, name: str, kind: str, needs: Any, behind: int
):
    """Also where the memory runs out in the middle of the masks, with the pass before on record."""
    checkpoint = headed(name, kind, double=True)
    with task_data(checkpoint, documents(kind) * 3, kind, batch_tokens=None) as data:
        masks = mask_each_head(*data.model.shape)[::3]
        sizes = [len(batch.ids) for batch in data.corpus.batches]
        whole, most = run_trials(data, masks, needs), max(sizes) - 1
        with narrow(checkpoint.body, most, behind=behind) as tried, pytest.warns(AttnprobeWarning) as halved:
            parts = run_trials(data, masks, needs)
        assert len(tried) > len(sizes) * (1 + len(masks))
        assert all("memory" in str(warning.message) for warning in halved)
        with narrow(checkpoint.body, 0), pytest.raises(AttnprobeError, match="single sequence"):
            run_trials(data, masks, needs)
    pairs = zip([whole.untouched, *whole.masked], [parts.untouched, *parts.masked], strict=True)
    for expected, halved in pairs:
        assert expected.keys() == halved.keys()
        for need in needs:
            np.testing.assert_allclose(halved[need], expected[need], rtol=1e-6, atol=1e-12)
