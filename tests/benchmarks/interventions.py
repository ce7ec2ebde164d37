"""What gradients, relevance, ablation and pruning cost and gain, in forward passes of the same batches."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from figures import Figure
from ratios import CASES, Case, as_figure, paired_ratios
from shapes import DEVICE, MINILM, RandomTexts, Shape, word_tokenizer
from transformers import BertForSequenceClassification

from attnprobe.corpus.batch import Batch
from attnprobe.corpus.tokens import Reading
from attnprobe.intervention.gradient import gradient_importance, head_relevance
from attnprobe.intervention.objectives.classification import Classification
from attnprobe.intervention.pruning.orders import mask_heads, order_at_random
from attnprobe.intervention.task import TaskData, TaskModel
from attnprobe.intervention.trials import keep_each_head, mask_each_head, run_trials
from attnprobe.model.check.gates import Gating
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.removing import remove_heads
from attnprobe.run.corpus import Corpus
from attnprobe.run.passes import Run

MINILM_CASE = Case("MiniLM-L6, 128 tokens", MINILM, 8, 128)


def gradient_costs(*, quick: bool) -> Iterator[Figure]:
    """Compare one backward pass for all heads with the bare forward pass, shape by shape."""
    yield from _backward("gradient importance", gradient_importance, (2.6, 2.1), quick=quick)


def relevance_costs(*, quick: bool) -> Iterator[Figure]:
    """Compare one backward pass by the rules of relevance with the bare forward pass, shape by shape."""
    yield from _backward("relevance", head_relevance, (2.3, 2.05), quick=quick)


def _backward(
    name: str, attribute: Callable[..., object], goals: tuple[float, float], *, quick: bool
) -> Iterator[Figure]:
    for case in CASES:
        data = _draw(case)
        ratios = paired_ratios(_bare(data), partial(attribute, data), 3 if quick else 9)
        yield as_figure(f"{name} of all heads, {case.name}", ratios, *goals)


def ablation_costs(*, quick: bool) -> Iterator[Figure]:
    """Compare one trial a head with as many bare forward passes."""
    data = _draw(MINILM_CASE)
    for name, list_masks in (("ablation", mask_each_head), ("keep-one", keep_each_head)):
        masks = list_masks(*data.model.shape)
        run = partial(run_trials, data, masks, ["accuracy"])
        ratios = [ratio / len(masks) for ratio in paired_ratios(_bare(data), run, 1 if quick else 5)]
        yield as_figure(f"{name} of all {len(masks)} heads over as many passes", ratios, 0.65, 0.55)


def pruning_gains(*, quick: bool) -> Iterator[Figure]:
    """Compare the whole model with a smaller one, half of whose heads were cut out at random."""
    data = _draw(MINILM_CASE)
    shape = data.model.shape
    keep = mask_heads(shape, order_at_random(np.ones(shape, bool), 0), shape[0] * shape[1] // 2)
    smaller = remove_heads(data.model.checkpoint, keep, physical=True)
    batch = _batch(data)
    gains = paired_ratios(partial(smaller.forward, batch.inputs), _bare(data), 5 if quick else 15)
    yield as_figure(f"throughput without half of the heads, {MINILM_CASE.name}, gain", gains)


def set_up(shape: Shape, texts: RandomTexts) -> TaskData:
    """Bind a classifier with random weights to texts."""
    model: Any = BertForSequenceClassification(shape.model().config).eval().to(DEVICE)
    checkpoint = Checkpoint("random", model.requires_grad_(False), word_tokenizer(["a b"]))
    task = TaskModel(checkpoint, shape.architecture(), Gating(True, ""), "classification")
    corpus = Corpus(texts, Reading(), len(texts.documents))
    return TaskData(task, corpus, Classification(checkpoint, corpus), Run())


def _draw(case: Case) -> TaskData:
    return set_up(case.shape, RandomTexts([(case.sequences, case.length)]))


def _batch(data: TaskData) -> Batch:
    return next(iter(data.corpus.batches))


def _bare(data: TaskData) -> Callable[[], object]:
    return partial(data.model.checkpoint.forward, _batch(data).inputs)
