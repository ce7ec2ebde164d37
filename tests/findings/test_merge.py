"""However a corpus is cut into measurements, batches, blocks and threads, the numbers stay."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import pairwise

import numpy as np
import pytest
import torch

from attnprobe.corpus.batches.text import Batches
from attnprobe.corpus.sources.document import Document
from attnprobe.corpus.tokens.rarity import rank_types
from attnprobe.corpus.tokens.side import Side
from attnprobe.corpus.tokens.store import SequenceStore
from attnprobe.corpus.tokens.tokenization import SequenceReader
from attnprobe.corpus.tokens.vocabulary import TokenKinds
from attnprobe.errors import AttnprobeError
from attnprobe.model.loading.checkpoint import Checkpoint
from attnprobe.model.reading import blocks
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.model.verifying.dry_run import inspect
from attnprobe.run.input.corpus import CorpusOptions
from attnprobe.statistics import statistics_of
from attnprobe.statistics.registry import FAMILIES
from attnprobe.survey.measurement import ALL_PAIRS, Measurement, measure
from attnprobe.survey.survey import survey

Text = str | tuple[str, str]
EXACT, CLOSE = 1e-12, 1e-5
STATISTICS = statistics_of(*FAMILIES)

both_ways = pytest.mark.parametrize("content_only", [False, True], ids=["plain", "content-only"])


@pytest.fixture(scope="module")
def documents(texts: list[Text]) -> list[Document]:
    return [Document(text) if isinstance(text, str) else Document(*text) for text in texts]


@pytest.fixture(scope="module")
def model(checkpoint: Callable[[str], Checkpoint]) -> Checkpoint:
    return checkpoint("bert")


@pytest.fixture(scope="module")
def architecture(model: Checkpoint) -> Architecture:
    return inspect(model)


@pytest.fixture
def store() -> Iterator[Callable[..., SequenceStore]]:
    """Open stores that are closed after the test."""
    with ExitStack() as stack:
        yield lambda size: stack.enter_context(SequenceStore(size))


@pytest.fixture
def parts(
    model: Checkpoint, documents: list[Document], store: Callable[..., SequenceStore]
) -> Callable[..., list[Batches]]:
    """Cut the corpus into parts that share the ranks of the whole, and plan each one's batches."""

    def cut(*cuts: int, budget: int = 1, content_only: bool = False, reverse: bool = False) -> list[Batches]:
        reader = SequenceReader(model.tokenizer, 20)  # many windows of equal length
        sequences = list(reader.read(documents))
        if reverse:
            sequences.reverse()
        kinds, size = TokenKinds(model.tokenizer, reader.frame), len(model.tokenizer)
        whole = store(size).extend(sequences)
        rarity = rank_types(whole.counts, kinds.framing)
        return [
            Batches(Side(store(size).extend(sequences[a:b]), kinds, rarity, content_only), budget=budget)
            for a, b in pairwise((0, *cuts, len(sequences)))
        ]

    return cut


@pytest.fixture
def measured(model: Checkpoint, architecture: Architecture) -> Callable[..., Measurement]:
    return lambda batches: measure(model, architecture, batches, STATISTICS, all_pairs=True)


def same(found: Measurement, expected: Measurement, tolerance: float):
    """Compare every moment of every cell."""
    assert (found.sequences, found.tokens) == (expected.sequences, expected.tokens)
    assert found.moments.keys() == expected.moments.keys() == {s.name for s in STATISTICS} | {ALL_PAIRS}
    for name, moments in expected.moments.items():
        np.testing.assert_array_equal(found.moments[name].count, moments.count, err_msg=name)
        for field in ("mean", "squares"):
            np.testing.assert_allclose(
                getattr(found.moments[name], field), getattr(moments, field),
                rtol=tolerance, atol=tolerance * 10, err_msg=f"{name}: {field}",
            )  # fmt: skip


@both_ways
@pytest.mark.parametrize("cuts", [(8,), (1,), (3, 5, 12)])
def test_parts_add_up_to_the_whole(
    parts: Callable[..., list[Batches]], measured: Callable[..., Measurement], cuts: Sequence[int],
    content_only: bool,
):  # fmt: skip
    """A budget of one token puts each sequence in a batch of its own, so that rounding is the same."""
    (whole,) = parts(content_only=content_only)
    assert len(whole) == len(whole.source.store)
    total, *others = [measured(part) for part in parts(*cuts, content_only=content_only)]
    for other in others:
        total = total + other
    same(total, measured(whole), EXACT)


def test_addition_does_not_depend_on_order(
    parts: Callable[..., list[Batches]], measured: Callable[..., Measurement]
):
    a, b, c = [measured(part) for part in parts(4, 9)]
    same(c + (b + a), (a + b) + c, EXACT)


def test_only_the_same_statistics_add_up(
    model: Checkpoint, architecture: Architecture, parts: Callable[..., list[Batches]]
):
    a, b = parts(8)
    one, other = (
        measure(model, architecture, a, STATISTICS[:3]),
        measure(model, architecture, b, STATISTICS[1:4]),
    )
    with pytest.raises(ValueError, match="same statistics"):
        one + other


@both_ways
@pytest.mark.parametrize("budget", [64, 4096])
def test_batches_do_not_matter(
    parts: Callable[..., list[Batches]], measured: Callable[..., Measurement], budget: int, content_only: bool
):
    (alone,), (together,) = parts(content_only=content_only), parts(budget=budget, content_only=content_only)
    assert len(together) < len(alone)
    same(measured(together), measured(alone), CLOSE)


def test_input_order_does_not_matter(
    parts: Callable[..., list[Batches]], measured: Callable[..., Measurement]
):
    (forward,), (backward,) = parts(budget=256), parts(budget=256, reverse=True)
    same(measured(backward), measured(forward), CLOSE)


def test_threads_do_not_matter(parts: Callable[..., list[Batches]], measured: Callable[..., Measurement]):
    batches, _ = parts(6, budget=4096)
    before = torch.get_num_threads()
    try:
        found = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(measured(batches))
    finally:
        torch.set_num_threads(before)
    same(found[1], found[0], CLOSE)


@pytest.mark.parametrize("name", ["bert", "t5", "modernbert", "eurobert"])
@pytest.mark.parametrize(("cells", "rows"), [(1, 1), (1, 7), (4000, 1)])
def test_blocks_do_not_matter(
    checkpoint: Callable[[str], Checkpoint], documents: list[Document], monkeypatch: pytest.MonkeyPatch,
    name: str, cells: int, rows: int,
):  # fmt: skip
    """Blocks of single queries, of seven, of several sequences: biases and masks are cut alike."""

    def ask() -> Measurement:
        options = CorpusOptions(max_length=40, batch_tokens=200)
        return survey(
            checkpoint(name), documents, options, STATISTICS, dataset="texts", facts={}, all_pairs=True
        ).measurement

    expected = ask()
    monkeypatch.setattr(blocks, "BLOCK_CPU", cells)
    monkeypatch.setattr(blocks, "LEAST_QUERIES", rows)
    same(ask(), expected, CLOSE)


def test_the_same_twice(parts: Callable[..., list[Batches]], measured: Callable[..., Measurement]):
    (batches,) = parts(budget=256)
    same(measured(batches), measured(batches), 0)


def test_progress_counts_tokens(
    model: Checkpoint, architecture: Architecture, parts: Callable[..., list[Batches]]
):
    (batches,), told = parts(budget=64), []
    found = measure(model, architecture, batches, STATISTICS[:1], progress=told.append)
    assert len(told) == len(batches)
    assert sum(told) == found.tokens == batches.source.store.tokens


def test_nothing_to_measure_is_refused(model: Checkpoint, architecture: Architecture):
    with pytest.raises(AttnprobeError, match="not a single sequence"):
        measure(model, architecture, [], STATISTICS)
