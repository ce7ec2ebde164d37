"""What gradients, relevance, ablation and pruning cost and gain, in forward passes of the same batches."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from figures import Figure
from ratios import CASES, Case, as_figure, paired_ratios
from shapes import MINILM, Shape, random_batch, word_tokenizer
from transformers import BertForSequenceClassification

from attnprobe.corpus.batch import Batch
from attnprobe.corpus.batches import BatchReader
from attnprobe.corpus.document import Label
from attnprobe.corpus.tokens import Reading
from attnprobe.intervention.gradient import gradient_importance, head_relevance
from attnprobe.intervention.objectives.classification import Classification
from attnprobe.intervention.pruning.orders import mask_heads, order_at_random
from attnprobe.intervention.request import TaskOptions
from attnprobe.intervention.task import TaskData, TaskModel
from attnprobe.intervention.trials import cut_single_heads, keep_single_heads, run_trials
from attnprobe.model.check.gates import Gating
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.removing import remove_heads
from attnprobe.run.corpus import Corpus
from attnprobe.run.passes import Workers, open_single_run

GRADIENT = (2.6, 2.1)
RELEVANCE = (2.3, 2.05)
ABLATION = (0.65, 0.55)
MINILM_CASE = Case("MiniLM-L6, 128 tokens", MINILM, 8, 128)
SHARE = 0.5


def gradient_costs(*, quick: bool) -> Iterator[Figure]:
    """Compare one backward pass for all heads with the bare forward pass, shape by shape."""
    for case in CASES:
        bench = _bench(case)
        ratios = paired_ratios(_bare(bench), partial(gradient_importance, bench), 3 if quick else 9)
        yield as_figure(f"gradient importance of all heads, {case.name}", ratios, *GRADIENT)


def relevance_costs(*, quick: bool) -> Iterator[Figure]:
    """Compare one backward pass by the rules of relevance with the bare forward pass, shape by shape."""
    for case in CASES:
        bench = _bench(case)
        ratios = paired_ratios(_bare(bench), partial(head_relevance, bench), 3 if quick else 9)
        yield as_figure(f"relevance of all heads, {case.name}", ratios, *RELEVANCE)


def ablation_costs(*, quick: bool) -> Iterator[Figure]:
    """Compare one trial a head with as many bare forward passes."""
    bench = _bench(MINILM_CASE)
    for name, cuts in (("ablation", cut_single_heads), ("keep-one", keep_single_heads)):
        trials = cuts(*bench.model.shape)
        run = partial(run_trials, bench, trials, ["accuracy"])
        ratios = [ratio / len(trials) for ratio in paired_ratios(_bare(bench), run, 1 if quick else 5)]
        yield as_figure(f"{name} of all {len(trials)} heads over as many passes", ratios, *ABLATION)


def pruning_gains(*, quick: bool) -> Iterator[Figure]:
    """Compare the whole model with a smaller one, half of whose heads were cut out at random."""
    bench = _bench(MINILM_CASE)
    shape = bench.model.shape
    keep = mask_heads(shape, order_at_random(np.ones(shape, bool), 0), round(SHARE * shape[0] * shape[1]))
    smaller = remove_heads(bench.model.checkpoint, keep, physical=True)
    batch = _batch(bench)
    gains = paired_ratios(partial(smaller.forward, batch.inputs), _bare(bench), 5 if quick else 15)
    yield as_figure(f"throughput without half of the heads, {MINILM_CASE.name}, gain", gains)


class _Single(BatchReader):
    """Stands where a corpus would: one batch."""

    digest = rarity_digest = ""

    def __init__(self, batch: Batch) -> None:
        super().__init__([batch.members])
        self.labels: Mapping[int, Label] = {int(member): int(member) % 2 for member in batch.members}
        self._batch = batch

    @property
    def lengths(self) -> np.ndarray:
        return np.full(len(self._batch), self._batch.length, np.int32)

    @property
    def documents(self) -> np.ndarray:
        return self._batch.members

    def gather(self, members: np.ndarray) -> Batch:
        return self._batch


def _bench(case: Case) -> TaskData:
    batch = random_batch(case.sequences, case.length)
    checkpoint = _classifier(case.shape)
    subject = TaskModel(
        checkpoint, case.shape.architecture(), Gating(True, ""), "classification", TaskOptions()
    )
    corpus = Corpus(_Single(batch), Reading(), len(batch), 0)
    objective = Classification(checkpoint, corpus)
    return TaskData(subject, corpus, objective, open_single_run(), Workers())


def _classifier(shape: Shape) -> Checkpoint:
    bare = shape.checkpoint()
    model: Any = BertForSequenceClassification(bare.model.config).eval().requires_grad_(False)
    return Checkpoint("random", model, word_tokenizer(["a b"]))


def _batch(bench: TaskData) -> Batch:
    return next(iter(bench.corpus.batches))


def _bare(bench: TaskData) -> Callable[[], object]:
    return partial(bench.model.checkpoint.forward, _batch(bench).inputs)
