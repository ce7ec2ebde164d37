"""However a corpus is cut into measurements, batches, blocks and threads, the numbers stay."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import cache, partial, reduce
from itertools import pairwise
from operator import add
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from attnprobe.corpus.batch import TokenisedTexts
from attnprobe.corpus.batches import Batches
from attnprobe.corpus.document import Document
from attnprobe.corpus.store import SequenceStore
from attnprobe.corpus.tokens import SequenceReader
from attnprobe.corpus.vocabulary import TokenKinds, rank_types
from attnprobe.model.check.architecture import Architecture
from attnprobe.model.check.dry_run import inspect
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.run.passes import Run, Workers, open_single_run
from attnprobe.statistics.registry import all_statistics
from attnprobe.statistics.statistic import Statistic
from attnprobe.sums.base import Constant, Measurement
from attnprobe.sums.blocked import Blocked
from attnprobe.survey.measure import open_evaluator

Text = str | tuple[str, str]
EXACT = 1e-12
#: Of every scope, every kind of row and every kind of sum; what each of the others says is tested elsewhere.
STATISTICS = [
    all_statistics()[name]
    for name in (
        "entropy", "entropy_first", "previous", "offset_share", "first", "rare_lift", "rarest_share",
        "jsd_mean", "jsd", "jsd_layer", "jsd_all_pairs", "norm_total", "induction", "previous_shuffled",
        "longer",         "logit_rank", "qk_rank", "map_rank", "logit_correlation", "logit_correlation_null",
        "contribution_norm", "contribution_cosine", "cancellation",
    )
]  # fmt: skip


@pytest.fixture(scope="module")
def documents(texts: list[Text]) -> list[Document]:
    return [Document(text) if isinstance(text, str) else Document(*text) for text in texts]


@pytest.fixture(scope="module")
def model(checkpoint: Callable[[str], Checkpoint]) -> Checkpoint:
    return checkpoint("bert")


@pytest.fixture(scope="module")
def architecture(model: Checkpoint) -> Architecture:
    return inspect(model)


@pytest.fixture(scope="module")
def store() -> Iterator[Callable[..., SequenceStore]]:
    """Open stores that are closed after the tests."""
    with ExitStack() as stack:
        yield lambda size: stack.enter_context(SequenceStore(size))


@pytest.fixture(scope="module")
def parts(
    model: Checkpoint, documents: list[Document], store: Callable[..., SequenceStore]
) -> Callable[..., list[Batches]]:
    """Cut the corpus into parts that share the ranks of the whole, and plan each one's batches."""

    def cut(*cuts: int, budget: int = 1, content_only: bool = False) -> list[Batches]:
        reader = SequenceReader(model.tokenizer, 20)  # many windows of equal length
        sequences = list(reader.read(documents))
        kinds, size = TokenKinds(model.tokenizer, reader.frame), len(model.tokenizer)
        whole = store(size).extend(sequences)
        rarity = rank_types(whole.counts, kinds.framing)
        return [
            Batches(
                TokenisedTexts(store(size).extend(sequences[a:b]), kinds, rarity, content_only), budget=budget
            )
            for a, b in pairwise((0, *cuts, len(sequences)))
        ]

    return cut


@pytest.fixture(scope="module")
def measured(model: Checkpoint, architecture: Architecture) -> Callable[..., Measurement]:
    def measure(
        batches: Batches,
        statistics: Sequence[Statistic] = STATISTICS,
        run: Run | None = None,
        workers: int = 1,
    ) -> Measurement:
        restore = partial(Measurement.from_arrays, kinds={one.name: one.sums for one in statistics})
        with open_evaluator(model, architecture, statistics) as ready:
            return (run or open_single_run()).total(
                "measuring", batches, ready.measurement, restore,
                workers=Workers(workers, torch.get_num_threads()), thread_context=ready.thread_context,
            )  # fmt: skip

    return measure


@pytest.fixture(scope="module")
def whole(
    parts: Callable[..., list[Batches]], measured: Callable[..., Measurement]
) -> Callable[[bool], tuple[Batches, Measurement]]:
    """Give the corpus in one part, each sequence a batch of its own, and what is measured on it."""

    @cache
    def measure(content_only: bool) -> tuple[Batches, Measurement]:
        (batches,) = parts(content_only=content_only)
        assert len(batches) == len(batches.source.store)
        return batches, measured(batches)

    return measure


Whole = Callable[[bool], tuple[Batches, Measurement]]


def sum_of(measurements: Iterable[Measurement]) -> Measurement:
    return reduce(add, measurements)


def same(found: Measurement, expected: Measurement, tolerance: float):
    """Compare every sum of every cell; only the names of documents depend on the corpus they are in."""
    assert (found.sequences, found.tokens) == (expected.sequences, expected.tokens)
    assert found.sums.keys() == expected.sums.keys()
    # Positions of some can't be made alike.
    assert found.sums.keys() >= {s.name for s in STATISTICS}

    def close(one: NDArray[Any], other: NDArray[Any], name: str):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * 10, err_msg=name)

    for name, wanted in expected.sums.items():
        one = found.sums[name]
        if isinstance(wanted, Constant):
            np.testing.assert_array_equal(one.values, wanted.values, err_msg=name)
            continue
        np.testing.assert_array_equal(one.count, wanted.count, err_msg=name)
        if isinstance(wanted, Blocked):
            np.testing.assert_array_equal(one.counts, wanted.counts, err_msg=name)
            close(one.totals, wanted.totals, f"{name}: totals")
            continue
        np.testing.assert_array_equal(one.clusters, wanted.clusters, err_msg=name)
        np.testing.assert_array_equal(one.alone.count, wanted.alone.count, err_msg=name)
        assert len(one.groups) == len(wanted.groups) > 0
        for field in ("mean", "squares"):
            close(getattr(one.alone, field), getattr(wanted.alone, field), f"{name}: {field}")
        for field in ("count", "total"):
            sides = (np.sort(getattr(side.groups, field), 0) for side in (one, wanted))
            close(*sides, f"{name}: {field} of documents")
        close(one.average, wanted.average, f"{name}: average")
        close(one.standard_error**2, wanted.standard_error**2, f"{name}: standard error")


@pytest.mark.parametrize(("cuts", "content_only"), [((8,), False), ((1,), True), ((4, 6, 13), False)])
def test_parts_add_up_to_the_whole(
    parts: Callable[..., list[Batches]], measured: Callable[..., Measurement], whole: Whole,
    cuts: Sequence[int], content_only: bool,
):  # fmt: skip
    """A budget of one token puts each sequence in a batch of its own, so that rounding is the same."""
    total = sum_of(map(measured, parts(*cuts, content_only=content_only)))
    same(total, whole(content_only)[1], EXACT)
