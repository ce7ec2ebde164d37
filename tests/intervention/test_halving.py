"""Importance and ablation go on with half of a batch that does not fit."""

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch

from attnprobe.corpus.document import find_gold
from attnprobe.corpus.source import OpenSource
from attnprobe.errors import AttnprobeError, AttnprobeWarning
from attnprobe.intervention.gradient import gradient_importance
from attnprobe.intervention.request import TaskOptions
from attnprobe.intervention.task import TaskSession
from attnprobe.intervention.trials import mask_each_head, run_trials
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.run.options import CorpusOptions
from attnprobe.run.passes import Run
from attnprobe.run.progress import SilentProgress

Headed = Callable[..., Checkpoint]
TASKS = [
    ("bert", "classification", ("loss", "prediction", "label")),
    ("bert", "representation", ("similarity",)),
    ("t5", "seq2seq", ("loss", "accuracy")),
]
each_task = pytest.mark.parametrize(("name", "kind", "needs"), TASKS)


@contextmanager
def narrow(encoder: torch.nn.Module, most: int, *, behind: int = 0):
    """Let passes over more than so many sequences run out of memory, after the first ``behind``."""
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


@contextmanager
def set_up(checkpoint: Checkpoint, some: Any, kind: str):
    source, task = OpenSource([], "", {}), TaskOptions(objective=kind)
    session = TaskSession(lambda *_: checkpoint, source, CorpusOptions(), task, SilentProgress())
    model = session.choose(find_gold(some[0].label))
    with session.bind(model, some, Run()) as data:
        yield data


@each_task
def test_gradient(headed: Headed, documents: Any, name: str, kind: str, needs: Any):
    checkpoint = headed(name, kind, double=True)
    with set_up(checkpoint, documents(kind) * 3, kind) as bench:
        sizes = [len(batch.ids) for batch in bench.corpus.batches]
        whole = gradient_importance(bench)
        with narrow(checkpoint.body, max(sizes) - 1) as tried, pytest.warns(AttnprobeWarning) as halved:
            parts = gradient_importance(bench)
        assert len(tried) > len(sizes)
        assert 1 <= len(halved) < len(tried)
        assert all("memory" in str(warning.message) for warning in halved)
        with narrow(checkpoint.body, 0), pytest.raises(AttnprobeError, match="single sequence"):
            gradient_importance(bench)
    for key, array in whole.arrays().items():
        np.testing.assert_allclose(parts.arrays()[key], array, rtol=1e-6, atol=1e-12, err_msg=key)


@pytest.mark.parametrize("behind", [0, 4])
@each_task
def test_trials(headed: Headed, documents: Any, name: str, kind: str, needs: Any, behind: int):
    """Also where the memory runs out in the middle of the cuts, with the pass before on record."""
    checkpoint = headed(name, kind, double=True)
    with set_up(checkpoint, documents(kind) * 3, kind) as bench:
        cuts = mask_each_head(*bench.model.shape)[::3]
        sizes = [len(batch.ids) for batch in bench.corpus.batches]
        whole, most = run_trials(bench, cuts, needs), max(sizes) - 1
        with narrow(checkpoint.body, most, behind=behind) as tried, pytest.warns(AttnprobeWarning) as halved:
            parts = run_trials(bench, cuts, needs)
        assert len(tried) > len(sizes) * (1 + len(cuts))
        assert all("memory" in str(warning.message) for warning in halved)
        with narrow(checkpoint.body, 0), pytest.raises(AttnprobeError, match="single sequence"):
            run_trials(bench, cuts, needs)
    pairs = zip([whole.untouched, *whole.masked], [parts.untouched, *parts.masked], strict=True)
    for one, other in pairs:
        assert one.keys() == other.keys()
        for need in needs:
            np.testing.assert_allclose(one[need], other[need], rtol=1e-6, atol=1e-12)
