"""What a census costs, in forward passes of the same batches."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from unittest.mock import patch

import torch
from figures import Figure
from shapes import BERT_BASE, DEBERTA_BASE, DEVICE, MINILM, Shape, random_batch, word_tokenizer

from attnprobe.corpus.batch import Batch
from attnprobe.findings.partners import SharedHeads
from attnprobe.model.check.projections import find_output_factors, find_output_weights
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.reading.ways import Way
from attnprobe.run.corpus import BATCH_TOKENS_ACCELERATOR
from attnprobe.statistics import Statistic, census_statistics, select_statistics
from attnprobe.statistics.distance import ALL_PAIRS
from attnprobe.statistics.rank import MAP_RANK
from attnprobe.statistics.statistic import apply_weights
from attnprobe.survey import measure
from attnprobe.survey.comparison import describe_heads
from attnprobe.survey.measure import open_evaluator
from attnprobe.survey.pairing import open_pair

Goals = tuple[float, float] | tuple[()]


@dataclass(frozen=True)
class Case:
    """A model and a batch that takes it one to two seconds."""

    name: str
    shape: Shape
    sequences: int
    length: int

    def build(self) -> tuple[Checkpoint, Batch]:
        sequences = self.sequences if DEVICE.type == "cpu" else BATCH_TOKENS_ACCELERATOR // self.length
        return self.shape.checkpoint(), random_batch(sequences, self.length)


CASES = (
    Case("BERT-base, 128 tokens", BERT_BASE, 8, 128),
    Case("BERT-base, 512 tokens", BERT_BASE, 2, 512),
    Case("MiniLM-L6, 128 tokens", MINILM, 32, 128),
    Case("MiniLM-L6, 512 tokens", MINILM, 8, 512),
)
TAPPED = (
    Case("DeBERTa-like of BERT-base shape, 128 tokens", DEBERTA_BASE, 8, 128),
    Case("DeBERTa-like of BERT-base shape, 512 tokens", DEBERTA_BASE, 2, 512),
)
#: Bars and aims, case by case: of the census, of mixing of logits, of the census of both weights.
CENSUS = ((1.05, 1.02), (1.13, 1.07), (1.20, 1.12), (1.35, 1.28))
LOGITS = ((1.15, 1.05), (1.25, 1.12), (1.20, 1.08), (1.50, 1.35))
NORMS = ((1.35, 1.20), (1.45, 1.30), (1.50, 1.35), (2.00, 1.70))
#: Of two models over two bare passes: heads of one number, and all pairs of heads.
COMPARED = ((1.25, 1.10), (1.70, 1.40))


def census_costs(*, quick: bool) -> Iterator[Figure]:
    """Compare the census with the bare forward pass, shape by shape."""
    for case, goals in zip(CASES, CENSUS, strict=True):
        yield _cost("census", case, census_statistics(), goals, quick=quick)


def tap_costs(*, quick: bool) -> Iterator[Figure]:
    """Compare the census through the softmax tap with the model's own bare pass."""
    for case in TAPPED:
        yield _cost(
            "census through the tap", case, census_statistics(), (1.60, 1.20), quick=quick, way=Way.TAP
        )


def all_pairs_costs(*, quick: bool) -> Iterator[Figure]:
    """Add the divergence of every two heads of the model."""
    statistics = [*census_statistics(), ALL_PAIRS]
    yield _cost("census with all 10,296 pairs", CASES[0], statistics, (1.60, 1.30), quick=quick)


def rank_costs(*, quick: bool) -> Iterator[Figure]:
    """Compare the ranks of logits, and those of whole maps beside them, with the bare forward pass."""
    of_logits = [one for one in select_statistics("rank") if one is not MAP_RANK]
    of_logits = [one for one in of_logits if one.scope != "parameters"]
    for case in CASES:
        yield _cost("rank", case, of_logits, (1.10, 1.05), quick=quick)
        yield _cost("rank --map-rank", case, [*of_logits, MAP_RANK], quick=quick)


def mixing_costs(*, quick: bool) -> Iterator[Figure]:
    """Compare the logits of heads, and what they add, with the bare forward pass."""
    every = select_statistics("mixing")
    logits = [one for one in every if one.needs == {"scores"}]
    others = [one for one in every if one not in logits]
    for case, goals in zip(CASES, LOGITS, strict=True):
        yield _cost("mixing, logits", case, logits, goals, quick=quick)
        yield _cost("mixing, contributions", case, others, (1.30, 1.15), quick=quick)
        yield _cost("mixing", case, every, quick=quick)


def norm_costs(*, quick: bool) -> Iterator[Figure]:
    """Measure everything again about attention that is weighted by norm: ``census --weights both``."""
    every = apply_weights([*census_statistics(), *select_statistics("norm")], "both")
    for case, goals in zip(CASES, NORMS, strict=True):
        yield _cost("census, weights both", case, every, goals, quick=quick)


def _cost(
    name: str,
    case: Case,
    statistics: Sequence[Statistic],
    goals: Goals = (),
    *,
    quick: bool,
    way: Way = Way.REGISTRY,
) -> Figure:
    """Compare statistics with the bare forward pass; output projections are found once, and not counted."""
    checkpoint, batch = case.build()
    readable = replace(checkpoint, tokenizer=word_tokenizer(["a b c d"]))
    weights = find_output_weights(readable) if any("projection" in one.reads for one in statistics) else ()
    factors = find_output_factors(readable) if any(one.weights == "norm" for one in statistics) else ()
    census = build_census(checkpoint, case.shape, batch, statistics, way=way)
    with (
        patch.object(measure, "find_output_weights", lambda _: weights),
        patch.object(measure, "find_output_factors", lambda _: factors),
    ):
        ratios = paired_ratios(partial(checkpoint.forward, batch.inputs), census, 5 if quick else 15)
    return as_figure(f"{name}, {case.name}", ratios, *goals)


def comparison_costs(*, quick: bool) -> Iterator[Figure]:
    """Compare two models: their columns, and the divergence of heads of one number or of all pairs."""
    for case in CASES[:1] if quick else CASES:
        (first, batch), (second, _) = case.build(), case.build()
        architecture = case.shape.architecture(first.model_type, Way.REGISTRY)
        heads = describe_heads(architecture)
        shared, _ = SharedHeads.of(("a", "b"), heads, heads)

        def bare(pair: tuple[Checkpoint, ...] = (first, second), batch: Batch = batch) -> None:
            for checkpoint in pair:
                checkpoint.forward(batch.inputs)

        for pairs, goals in zip((False, True), COMPARED, strict=True):
            models = [(first, architecture), (second, architecture)]

            def compare(models=models, shared=shared, batch=batch, pairs=pairs) -> None:
                with open_pair(models, census_statistics(), shared, pairs=pairs) as pair:
                    pair.measurement(batch)

            ratios = paired_ratios(bare, compare, 5 if quick else 15)
            name = f"compare, heads of {'all pairs' if pairs else 'one number'}, {case.name}"
            yield as_figure(name, ratios, *(goals if case is CASES[0] else ()))


def paired_ratios(
    bare: Callable[[], object], other: Callable[[], object], repetitions: int, *, warm: bool = False
) -> list[float]:
    """Run both in turns and compare neighbours, so that a slow spell of the machine hits both.

    Both run once before that, to compile, load, and fill caches; ``other`` does not if it is ``warm``.
    """
    bare()
    if not warm:
        other()
    ratios, before = [], _seconds(bare)
    for _ in range(repetitions):
        spent, after = _seconds(other), _seconds(bare)
        ratios.append(2 * spent / (before + after))
        before = after
    return ratios


def _seconds(work: Callable[[], object]) -> float:
    """Time some work: the processor's time, or, on a GPU, the time on the wall until it is idle again."""
    if DEVICE.type == "cpu":
        start = time.process_time()
        work()
        return time.process_time() - start
    torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def as_figure(name: str, ratios: list[float], bar: float | None = None, aim: float | None = None) -> Figure:
    """Give the median of ratios, and how far they scattered."""
    note = f"{min(ratios):.2f} to {max(ratios):.2f} in {len(ratios)} pairs of runs" if len(ratios) > 1 else ""
    return Figure(name, median(ratios), bar=bar, aim=aim, note=note)


def build_census(
    checkpoint: Checkpoint,
    shape: Shape,
    batch: Batch,
    statistics: Sequence[Statistic],
    *,
    way: Way = Way.REGISTRY,
) -> Callable[[], object]:
    architecture = shape.architecture(checkpoint.model_type, way)

    def census() -> object:
        with open_evaluator(checkpoint, architecture, statistics) as evaluator:
            return evaluator.measurement(batch)

    return census
