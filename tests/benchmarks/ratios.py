"""What a census costs, in forward passes of the same batches."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from unittest.mock import patch

import by_hand
import torch
from figures import Figure
from shapes import BERT_BASE, DEBERTA_BASE, MINILM, Shape, random_batch, word_tokenizer

from attnprobe.corpus.batch import Batch
from attnprobe.findings.partners import SharedHeads
from attnprobe.model.check.architecture import Architecture
from attnprobe.model.check.observed import find_output_factors, find_output_weights
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.reading.ways import Way
from attnprobe.statistics import Statistic, census_statistics, select_statistics
from attnprobe.statistics.distance import ALL_PAIRS
from attnprobe.statistics.rank import MAP_RANK
from attnprobe.statistics.statistic import apply_weights
from attnprobe.survey import measure
from attnprobe.survey.comparison import describe_heads
from attnprobe.survey.measure import open_evaluator
from attnprobe.survey.pairing import open_pair


@dataclass(frozen=True)
class Case:
    """A model and a batch that takes it one to two seconds."""

    name: str
    shape: Shape
    sequences: int
    length: int
    bar: float | None = None
    aim: float | None = None


CASES = (
    Case("BERT-base, 128 tokens", BERT_BASE, 8, 128, 1.05, 1.02),
    Case("BERT-base, 512 tokens", BERT_BASE, 2, 512, 1.13, 1.07),
    Case("MiniLM-L6, 128 tokens", MINILM, 32, 128, 1.20, 1.12),
    Case("MiniLM-L6, 512 tokens", MINILM, 8, 512, 1.35, 1.28),
)
TAPPED = (
    Case("DeBERTa-like of BERT-base shape, 128 tokens", DEBERTA_BASE, 8, 128, 1.60, 1.20),
    Case("DeBERTa-like of BERT-base shape, 512 tokens", DEBERTA_BASE, 2, 512, 1.60, 1.20),
)
PAIRS = (1.60, 1.30)
#: Bars and aims of the census of attention as it is and weighted by norm, case by case.
#: Bars and aims of mixing: of logits for each case, of contributions for all.
LOGITS = ((1.15, 1.05), (1.25, 1.12), (1.20, 1.08), (1.50, 1.35))
CONTRIBUTIONS = (1.30, 1.15)
#: Of two models over two bare passes: heads of one number, and all pairs of heads.
COMPARED = ((1.25, 1.10), (1.70, 1.40))
NORMS = ((1.35, 1.20), (1.45, 1.30), (1.50, 1.35), (2.00, 1.70))


def census_costs(*, quick: bool) -> Iterator[Figure]:
    """Compare the census with the bare forward pass, shape by shape."""
    for case in CASES:
        batch, checkpoint = random_batch(case.sequences, case.length), case.shape.checkpoint()
        bare, census = _bare(checkpoint, batch), build_census(checkpoint, case.shape, batch)
        ratios = paired_ratios(bare, census, 5 if quick else 15)
        yield as_figure(f"census, {case.name}", ratios, case.bar, case.aim)


def tap_costs(*, quick: bool) -> Iterator[Figure]:
    """Compare the census through the softmax tap with the model's own bare pass."""
    for case in TAPPED:
        batch, checkpoint = random_batch(case.sequences, case.length), case.shape.checkpoint()
        bare = _bare(checkpoint, batch)
        census = build_census(checkpoint, case.shape, batch, way=Way.TAP)
        ratios = paired_ratios(bare, census, 5 if quick else 15)
        yield as_figure(f"census through the tap, {case.name}", ratios, case.bar, case.aim)


def all_pairs_costs(*, quick: bool) -> Iterator[Figure]:
    """Add the divergence of every two heads of the model."""
    case = CASES[0]
    batch, checkpoint = random_batch(case.sequences, case.length), case.shape.checkpoint()
    census = build_census(checkpoint, case.shape, batch, [*census_statistics(), ALL_PAIRS])
    ratios = paired_ratios(_bare(checkpoint, batch), census, 3 if quick else 9)
    yield as_figure(f"census with all 10,296 pairs, {case.name}", ratios, *PAIRS)


def rank_costs(*, quick: bool) -> Iterator[Figure]:
    """Compare the ranks of logits, and those of whole maps beside them, with the bare forward pass."""
    every = select_statistics("rank")
    of_logits = [one for one in every if one is not MAP_RANK and one.scope != "parameters"]
    for case in CASES:
        batch, checkpoint = random_batch(case.sequences, case.length), case.shape.checkpoint()
        bare = _bare(checkpoint, batch)
        for name, statistics, goals in (
            ("rank", of_logits, (1.10, 1.05)),
            ("rank --map-rank", [*of_logits, MAP_RANK], ()),
        ):
            asked = build_census(checkpoint, case.shape, batch, statistics)
            ratios = paired_ratios(bare, asked, 5 if quick else 15)
            yield as_figure(f"{name}, {case.name}", ratios, *goals)


def mixing_costs(*, quick: bool) -> Iterator[Figure]:
    """Compare the logits of heads, and what they add, with the bare forward pass."""
    every = select_statistics("mixing")
    logits = [one for one in every if one.needs == {"scores"}]
    for case, bars in zip(CASES, LOGITS, strict=True):
        batch, checkpoint = random_batch(case.sequences, case.length), case.shape.checkpoint()
        found = find_output_weights(_readable(checkpoint))
        for name, statistics, goals in (
            ("mixing, logits", logits, bars),
            ("mixing, contributions", [one for one in every if one not in logits], CONTRIBUTIONS),
            ("mixing", every, ()),
        ):
            with patch.object(measure, "find_output_weights", lambda _, found=found: found):
                asked = build_census(checkpoint, case.shape, batch, statistics)
                ratios = paired_ratios(_bare(checkpoint, batch), asked, 5 if quick else 15)
            yield as_figure(f"{name}, {case.name}", ratios, *goals)


def norm_costs(*, quick: bool) -> Iterator[Figure]:
    """Measure everything again about attention that is weighted by norm: ``census --weights both``."""
    every = apply_weights([*census_statistics(), *select_statistics("norm")], "both")
    for case, bars in zip(CASES, NORMS, strict=True):
        batch, checkpoint = random_batch(case.sequences, case.length), case.shape.checkpoint()
        factors = find_output_factors(_readable(checkpoint))
        with patch.object(measure, "find_output_factors", lambda _, found=factors: found):
            census = build_census(checkpoint, case.shape, batch, every)
            ratios = paired_ratios(_bare(checkpoint, batch), census, 5 if quick else 15)
        yield as_figure(f"census, weights both, {case.name}", ratios, *bars)


def comparison_costs(*, quick: bool) -> Iterator[Figure]:
    """Compare two models: their columns, and the divergence of heads of one number or of all pairs."""
    for case in CASES[:1] if quick else CASES:
        batch = random_batch(case.sequences, case.length)
        pair = case.shape.checkpoint(), case.shape.checkpoint()
        first, second = (_bare(checkpoint, batch) for checkpoint in pair)
        architecture = case.shape.architecture(pair[0].model_type, Way.REGISTRY)
        heads = describe_heads(architecture)
        shared, _ = SharedHeads.of(("a", "b"), heads, heads)
        for pairs, goals in zip((False, True), COMPARED, strict=True):
            asked = partial(_compared, [(one, architecture) for one in pair], shared, batch, pairs=pairs)
            ratios = paired_ratios(partial(_both, first, second), asked, 5 if quick else 15)
            of = "all pairs" if pairs else "one number"
            yield as_figure(
                f"compare, heads of {of}, {case.name}", ratios, *(goals if case is CASES[0] else ())
            )


def _both(first: Callable[[], object], second: Callable[[], object]) -> None:
    first()
    second()


def _compared(
    models: list[tuple[Checkpoint, Architecture]], shared: SharedHeads, batch: Batch, *, pairs: bool
) -> object:
    with open_pair(models, census_statistics(), shared, pairs=pairs) as asked:
        return asked.measurement(batch)


def _readable(checkpoint: Checkpoint) -> Checkpoint:
    """Give a tokenizer: output projections are found in two texts, once in a run, which is not counted."""
    return replace(checkpoint, tokenizer=word_tokenizer(["a b c d"]))


def today_costs(*, quick: bool) -> Iterator[Figure]:
    """Measure what users write today, on the same batches."""
    for case in CASES:
        batch, checkpoint = random_batch(case.sequences, case.length), case.shape.checkpoint()
        today = partial(by_hand.per_layer, case.shape.model("eager"), batch.ids)
        ratios = paired_ratios(_bare(checkpoint, batch), today, 1 if quick else 3)
        yield as_figure(f"today (output_attentions + numpy), {case.name}", ratios)
    if quick:
        return
    case = CASES[0]
    batch, checkpoint = random_batch(case.sequences, case.length), case.shape.checkpoint()
    today = partial(by_hand.all_pairs, case.shape.model("eager"), batch.ids)
    ratios = paired_ratios(_bare(checkpoint, batch), today, 1)
    yield as_figure(f"today, all 10,296 pairs, {case.name}", ratios)


def paired_ratios(bare: Callable[[], object], other: Callable[[], object], repetitions: int) -> list[float]:
    """Run both in turns and compare neighbours, so that a slow spell of the machine hits both."""
    bare(), other()  # compile, load, fill caches
    ratios, before = [], _seconds(bare)
    for _ in range(repetitions):
        spent, after = _seconds(other), _seconds(bare)
        ratios.append(2 * spent / (before + after))
        before = after
    return ratios


def _seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def as_figure(name: str, ratios: list[float], bar: float | None = None, aim: float | None = None) -> Figure:
    """Give the median of ratios, and how far they scattered."""
    note = f"{min(ratios):.2f} to {max(ratios):.2f} in {len(ratios)} pairs of runs" if len(ratios) > 1 else ""
    return Figure(name, median(ratios), bar=bar, aim=aim, note=note)


def _bare(checkpoint: Checkpoint, batch: Batch) -> Callable[[], torch.Tensor]:
    return partial(checkpoint.forward, batch.inputs)


def build_census(
    checkpoint: Checkpoint,
    shape: Shape,
    batch: Batch,
    statistics: Sequence[Statistic] | None = None,
    *,
    way: Way = Way.REGISTRY,
) -> Callable[[], object]:
    architecture = shape.architecture(checkpoint.model_type, way)
    statistics = census_statistics() if statistics is None else statistics

    def census() -> object:
        with open_evaluator(checkpoint, architecture, statistics) as asked:
            return asked.measurement(batch)

    return census
