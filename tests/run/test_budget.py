"""A budget of memory changes the size of blocks and batches, what a run takes, and no number."""

import ctypes
import gc
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from attnprobe.corpus.batches import plan_batches
from attnprobe.corpus.sources.document import Document
from attnprobe.errors import AttnprobeError
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.gates import gate_attention
from attnprobe.model.reading.blocks import (
    BLOCK_CPU,
    LEAST_QUERIES,
    count_query_bytes,
    iterate_blocks,
    limit_block_memory,
)
from attnprobe.model.reading.capture import capture_attention
from attnprobe.model.verifying.dry_run import inspect
from attnprobe.run.memory import (
    FIXED,
    Budget,
    Price,
    count_copies,
    fit_to_memory,
    limit_cells,
    price_gradients,
    price_statistics,
)
from attnprobe.run.options import CorpusOptions
from attnprobe.run.passes import Workers, open_single_run
from attnprobe.run.preparation import tokenise
from attnprobe.run.progress import SilentProgress
from attnprobe.statistics import all_statistics, select_statistics
from attnprobe.statistics.distance import ALL_PAIRS
from attnprobe.statistics.norm import apply_weights
from attnprobe.sums.base import Measurement
from attnprobe.survey.measure import open_meter
from attnprobe.survey.survey import CorpusRequest, TableRequest, survey_corpora

#: Of every scope and shape that every way of reading attention shows.
EVERY = [
    all_statistics()[name]
    for name in (
        "entropy", "entropy_first", "confidence", "offset_share", "attention_distance_ratio", "first",
        "rare_lift", "rarest_share", "jsd_mean", "jsd", "jsd_layer", "jsd_all_pairs", "induction", "map_rank",
        "logit_correlation", "logit_correlation_null",
    )
]  # fmt: skip
STATISTICS = [statistic for statistic in EVERY if statistic.scope not in {"model", "map"}]
Loaded = Callable[[str], Checkpoint]


class TestSize:
    """What a user may say."""

    @pytest.mark.parametrize(
        ("said", "size"),
        [
            ("256MiB", 256 << 20), ("2GB", 2 * 10**9), ("1.5GiB", 3 << 29), ("64 kb", 64_000),
            ("1tib", 1 << 40), (".5MiB", 1 << 19), (" 3 gib ", 3 << 30),
        ],
    )  # fmt: skip
    def test_read(self, said: str, size: int):
        assert Budget.of(CorpusOptions(memory=said)) == Budget(size, said)

    @pytest.mark.parametrize(
        "said", ["256", "", "MiB", "-1GB", "0MiB", "1e3MB", "2 gigs", "512M", "1,5GB", "٣GB", "nanMB", "1.GB"]
    )
    def test_refused(self, said: str):
        with pytest.raises(AttnprobeError, match="size with its unit, such as 256MiB or 2GB, not"):
            CorpusOptions(memory=said)

    def test_none(self):
        assert Budget.of(CorpusOptions()) is None


class TestBlocks:
    """How attention is cut."""

    SHAPES = ((1, 12, 8192, 8192), (7, 4, 30, 30), (1, 1, 5, 5), (3, 16, 512, 700))

    @staticmethod
    def cells(shape: tuple[int, int, int, int], like: torch.Tensor) -> int:
        """Check that every query is there once; give the cells of the largest block."""
        batch, heads, queries, keys = shape
        seen, largest = np.zeros((batch, queries), int), 0
        for some, span in iterate_blocks(*shape, like):
            seen[some, span] += 1
            largest = max(largest, (some.stop - some.start) * heads * (span.stop - span.start) * keys)
        assert (seen == 1).all()
        return largest

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
    @pytest.mark.parametrize("size", [1, 100_000, 5_000_000, 1 << 40])
    @pytest.mark.parametrize("shape", SHAPES)
    def test_processor(self, shape: tuple[int, int, int, int], size: int, dtype: torch.dtype):
        """A block fits the budget, or is a single query; it is never larger than without one."""
        like = torch.empty(0, dtype=dtype)
        one = count_query_bytes(shape[1], shape[3], max(4, dtype.itemsize))
        with limit_block_memory(size):
            found = self.cells(shape, like)
        usual = self.cells(shape, like)
        assert found <= usual
        assert one * found // (shape[1] * shape[3]) <= max(size, one)
        if size == 1:
            assert found == shape[1] * shape[3]
        if size == 1 << 40:
            assert found == usual
        assert usual <= max(BLOCK_CPU, LEAST_QUERIES * shape[1] * shape[3])

    @pytest.mark.parametrize("shape", SHAPES)
    def test_accelerator(self, shape: tuple[int, int, int, int]):
        """There blocks grow with the budget, too."""
        batch, heads, queries, keys = shape
        like = torch.empty(0, device="meta")
        with limit_block_memory(1 << 50):
            assert self.cells(shape, like) == batch * heads * queries * keys
        with limit_block_memory(3 * count_query_bytes(heads, keys)):
            assert self.cells(shape, like) <= 3 * heads * keys
        with limit_block_memory(1):
            assert self.cells(shape, like) == heads * keys

    def test_over_when_it_ends(self):
        like = torch.empty(0)
        usual = self.cells((4, 4, 64, 64), like)
        with pytest.raises(ZeroDivisionError), limit_block_memory(1):
            raise ZeroDivisionError
        assert self.cells((4, 4, 64, 64), like) == usual

    @pytest.mark.parametrize("name", ["bert", "deberta-v2", "t5"])
    def test_reach_the_observer(self, checkpoint: Loaded, name: str):
        """The registry and the tap show single queries under a budget of nothing."""
        found = checkpoint(name)
        sizes: list[int] = []
        way = inspect(found).way
        watch = capture_attention(found.body, lambda piece: sizes.append(piece.probabilities.shape[2]), way)
        with limit_block_memory(1), watch:
            found.forward({"input_ids": torch.full((2, 9), 7), "decoder_input_ids": torch.full((2, 5), 7)})
        assert set(sizes) == {1}
        # A decoder beside the encoder has two layers, which attend to themselves and to the encoder's.
        assert len(sizes) == 2 * 9 * 3 + (2 * 5 * 2 * 2 if found.decodes else 0)


class TestPrice:
    """What is kept of a batch."""

    def test_of_weights(self, checkpoint: Loaded):
        """Both take values, lengths, a copy of each block, and maps of their own."""
        architecture = inspect(checkpoint("bert"))
        for statistics in (select_statistics("entropy"), [ALL_PAIRS]):
            plain, norm, both = (
                price_statistics(architecture, apply_weights(statistics, weights), 4)
                for weights in ("attention", "norm", "both")
            )
            values = 4 * architecture.heads * (2 * architecture.head_width + 2)
            assert norm.token >= plain.token + values
            assert norm.pair == plain.pair
            assert both.pair == 2 * plain.pair
            assert both.sequence == 2 * plain.sequence
            assert count_copies(apply_weights(statistics, "both")) == count_copies(statistics) + 1
        alone, twice = (
            limit_cells(architecture, apply_weights([ALL_PAIRS], weights)) for weights in ("norm", "both")
        )
        assert alone is not None
        assert twice == alone // 2
        assert limit_cells(architecture, apply_weights(select_statistics("entropy"), "both")) is None

    @pytest.mark.parametrize("all_pairs", [False, True])
    def test_of_statistics(self, checkpoint: Loaded, all_pairs: bool):
        """More heads, statistics and sequences cost more, and a batch is paid for."""
        architecture = inspect(checkpoint("bert"))
        whole = price_statistics(architecture, EVERY if all_pairs else STATISTICS, 4)
        part = price_statistics(architecture, select_statistics("entropy"), 4)
        assert 0 < part.sequence < whole.sequence
        assert 0 < part.token < whole.token
        assert (whole.pair > 0) == all_pairs == (whole.alone > 0)
        assert price_statistics(architecture, STATISTICS, 8).token == 2 * whole.token
        for length in (1, 10, 500):
            for size in (0, 10**5, 10**7, 10**9):
                most = whole.sequences(length, size)
                assert most == 1 or whole.batch(most, length) <= size < whole.batch(most + 1, length)

    def test_covers_what_is_kept(self, checkpoint: Loaded):
        """The price of a batch is above the numbers that come out of it, which are held at least twice."""
        found = checkpoint("bert")
        architecture = inspect(found)
        price = price_statistics(architecture, STATISTICS, 4)
        cells = sum(
            one.count.size
            for one in measured(found, [Document("a bird ran")], None).measurement.sums.values()
        )
        assert price.sequence >= 16 * cells

    def test_of_gradients(self, checkpoint: Loaded):
        """What autograd really keeps of a pass, weights aside, is no more than the estimate."""
        for name in ("bert", "modernbert", "distilbert"):
            found = checkpoint(name)
            kept: dict[int, int] = {}
            weights = {weight.untyped_storage().data_ptr() for weight in found.body.parameters()}

            def keep(given: torch.Tensor, kept: dict = kept, weights: set = weights) -> torch.Tensor:
                storage = given.untyped_storage()
                if storage.data_ptr() not in weights:
                    kept[storage.data_ptr()] = storage.nbytes()
                return given

            with (
                gate_attention(found.body) as gates,
                torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t),
            ):
                gates.set(torch.ones(1, 3, 4, requires_grad=True))
                found.body(input_ids=torch.full((4, 30), 7))
            price = price_gradients(found, inspect(found)).batch(4, 30)
            assert 0.3 * price < sum(kept.values()) <= price


def measured(checkpoint: Checkpoint, documents: list[Document], memory: str | None, **options):
    corpus = CorpusRequest(documents, EVERY, CorpusOptions(memory=memory, **options))
    (found,) = survey_corpora(checkpoint, [TableRequest([corpus], "texts", {})], progress=SilentProgress())
    return found


class TestNumbers:
    """They do not depend on the budget."""

    @pytest.mark.parametrize(
        ("name", "content_only"),
        [("bert", False), ("t5", True), ("modernbert", False), ("deberta-v2", True)],
    )
    def test_same(self, checkpoint: Loaded, texts: list, name: str, content_only: bool):
        found = checkpoint(name)
        documents = [Document(text) if isinstance(text, str) else Document(*text) for text in texts] * 3
        options = {"max_length": 40, "content_only": content_only}
        expected = measured(found, documents, None, **options).measurement
        with pytest.raises(AttnprobeError) as refused:
            measured(found, documents, "1MiB", **options)
        least = str(refused.value).partition("at least ")[2].partition(" ")[0]
        for memory in (least, "40MiB"):
            other = measured(found, documents, memory, **options).measurement
            assert (other.sequences, other.tokens) == (expected.sequences, expected.tokens)
            for key, one in expected.sums.items():
                ours = other.sums[key]
                np.testing.assert_array_equal(ours.count, one.count)
                np.testing.assert_allclose(ours.average, one.average, rtol=1e-6, atol=1e-6, err_msg=key)

    def test_single_queries(self, checkpoint: Loaded, texts: list):
        found = checkpoint("bert")
        documents = [Document(text) for text in texts if isinstance(text, str)]
        with (
            tokenise(found, documents, CorpusOptions()) as corpus,
            open_meter(found, inspect(found), STATISTICS) as measure,
        ):
            given = ("measuring", corpus.batches, measure.measurement, Measurement.from_arrays)
            expected = open_single_run().total(*given)
            with limit_block_memory(1):
                other = open_single_run().total(*given)
        for key, one in expected.sums.items():
            np.testing.assert_allclose(other.sums[key].average, one.average, rtol=1e-6, atol=1e-6)


class TestPlan:
    """Batches within the budget."""

    def test_most(self):
        lengths = np.array([4] * 10 + [2] * 10, np.int32)
        planned = plan_batches(lengths, 1000, most=lambda length: 12 // length)
        assert [len(batch) for batch in planned] == [3, 3, 3, 1, 6, 4]
        assert [len(batch) for batch in plan_batches(lengths, 8, most=lambda _: 3)] == [2] * 5 + [3, 3, 3, 1]

    def test_batches_are_paid_for(self, checkpoint: Loaded):
        found = checkpoint("bert")
        architecture = inspect(found)
        price = price_statistics(architecture, STATISTICS, 4)
        documents = [Document("stone water light")] * 200
        counts = []
        for memory in ("36MiB", "48MiB", "1GiB", None):
            options = CorpusOptions(memory=memory, batch_tokens=4096)
            budget = Budget.of(options)
            most = budget.most(price) if budget else None
            with tokenise(found, documents, options, most=most) as corpus:
                counts.append(len(corpus.batches))
                if budget:
                    left = budget.compute_rest_for_blocks(price, corpus.batches, 4, 4)
                    largest = max(price.batch(len(members), 5) for members in corpus.batches.plan)
                    assert left + largest + FIXED == budget.size
                    assert largest <= (budget.size - FIXED) / 2
        assert counts[0] > counts[1] > counts[2] == counts[3] == 1

    def test_too_little(self, checkpoint: Loaded):
        """The sentence names a size that is enough, and one MiB less is not."""
        found = checkpoint("bert")
        documents = [Document(" ".join(["stone"] * 150))]
        with pytest.raises(
            AttnprobeError, match=r"--memory 2MB is too little: a sequence of 152 tokens"
        ) as refused:
            measured(found, documents, "2MB")
        least = int(str(refused.value).partition("at least ")[2].partition("MiB")[0])
        measured(found, documents, f"{least}MiB")
        with pytest.raises(AttnprobeError, match=f"at least {least}MiB"):
            measured(found, documents, f"{least - 1}MiB")

    def test_fewer_at_a_time(self, checkpoint: Loaded):
        """As many batches are in flight as fit; one must."""
        found, said = checkpoint("bert"), []
        architecture, price = inspect(found), price_statistics(inspect(found), STATISTICS, 4)
        with tokenise(found, [Document(" ".join(["stone"] * 150))] * 2, CorpusOptions()) as corpus:

            def shared(size: int, number: int) -> Workers:
                budget = Budget(size, "so much")
                given = (found, architecture, corpus.batches, budget, price, Workers(number, 2))
                with fit_to_memory(*given, say=said.append) as workers:
                    assert (
                        budget.each(workers.number).compute_rest_for_blocks(price, corpus.batches, 4, 4) > 0
                    )
                    return workers

            huge = Budget(1 << 40, "huge")
            kept = huge.size - FIXED - huge.compute_rest_for_blocks(price, corpus.batches, 4, 4)
            each = kept + count_query_bytes(4, 152, 4)  # of the longest sequence, a single query
            for room in (1, 2, 3, 5):
                assert shared(FIXED + room * each, 3) == Workers(3, 2).for_batches(room)
                assert shared(FIXED + (room + 1) * each - 1, 8) == Workers(8, 2).for_batches(room)
            with pytest.raises(AttnprobeError, match="--memory so much is too little"):
                shared(FIXED + each - 1, 3)
        assert said == []

    def test_each(self):
        """What is there once is not shared out; the rest is."""
        budget = Budget(FIXED + 1000, "so much")
        assert [budget.each(number).size - FIXED for number in (1, 2, 3, 8)] == [1000, 500, 333, 125]
        assert Budget(10, "little").each(4).size == FIXED

    def test_price_of_nothing(self):
        assert Price().sequences(5, 100) == 100
        assert Price(sequence=10).sequences(5, -100) == 1


class TestCommands:
    """Resuming and merging."""

    @pytest.fixture
    def many(self, tmp_path: Path) -> Path:
        path = tmp_path / "many.txt"
        path.write_text("The parcel came late.\n" * 300 + "Who rang?\n")
        return path

    def run(self, *words: object) -> int:
        from attnprobe.cli.app import run

        return run([str(word) for word in words])

    def test_provenance(self, many: Path, tmp_path: Path):
        assert self.run("entropy", "demo", "-d", many, "--memory", "1GiB", "-o", tmp_path / "a.csv") == 0
        assert json.loads((tmp_path / "a.csv.json").read_text())["provenance"]["options"]["memory"] == "1GiB"

    @pytest.mark.parametrize("command", ["census", "importance", "ablate", "doctor", "prune"])
    def test_every_command(self, many: Path, command: str, capfd: pytest.CaptureFixture):
        asked = (command, "demo", "-d", many, "-L", "4")
        if command == "prune":
            asked = (*asked, "--random-orders", "0", "--step", "1")
        assert self.run(*asked, "--memory", "1GiB") == 0
        assert self.run(*asked, "--memory", "1MiB") == 2
        assert "--memory 1MiB is too little" in capfd.readouterr().err
        assert self.run(*asked, "--memory", "64") == 2
        assert "size with its unit" in capfd.readouterr().err

    def test_resumed(self, many: Path, tmp_path: Path, capfd: pytest.CaptureFixture):
        """With another budget a run goes on if its batches are the same, and is refused if they are not."""
        state = tmp_path / "state"
        words = ("census", "demo", "-d", many, "-q", "--resume", state, "--batch-tokens", "4096")
        assert self.run(*words) == 0
        capfd.readouterr()
        assert self.run(*words[:4], *words[5:], "--memory", "4GiB") == 0
        assert "2 of 2 batches are done" in capfd.readouterr().err
        assert self.run(*words, "--memory", "48MiB") == 2
        assert "another plan of batches" in capfd.readouterr().err

    def test_merged(self, tmp_path: Path):
        made = []
        for name, memory in (("a", []), ("b", ["--memory", "64MiB"])):
            (tmp_path / f"{name}.txt").write_text(f"The {name} parcel came late.\nWho rang?\n")
            made.append(tmp_path / f"{name}.csv")
            text = tmp_path / f"{name}.txt"
            assert self.run("entropy", "demo", "-d", text, *memory, "-o", made[-1]) == 0
        assert self.run("merge", *made, "-o", tmp_path / "both.csv") == 0


#: Where Linux tells how much memory a process takes, and forgets the peak when asked to.
STATUS, FORGET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def trim() -> bool:
    """Give memory that is not in use back to the system; False where the C library can't."""
    gc.collect()
    give_back = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if give_back is not None:
        give_back(0)
    return give_back is not None


@pytest.mark.skipif(not (os.access(FORGET, os.W_OK) and trim()), reason="asks Linux for peaks of memory")
class TestPeak:
    """What a run takes at most, in MiB, above what the process had before."""

    @staticmethod
    def mebibytes(name: str) -> float:
        found = re.search(rf"{name}:\s+(\d+) kB", STATUS.read_text())
        assert found is not None
        return int(found[1]) / 1024

    def peak(self, *words: object, threads: int) -> float:
        from attnprobe.cli.app import run

        trim()
        FORGET.write_text("5")
        before = self.mebibytes("VmRSS")
        assert run([*map(str, words), "--threads", str(threads), "-q"]) == 0
        return self.mebibytes("VmHWM") - before

    @pytest.mark.parametrize(
        ("command", "sentences", "lines", "threads"),
        [(("census",), 1, 1000, 1), (("census",), 1, 1000, 3), (("distance", "--all-pairs"), 8, 80, 1)],
        ids=["census", "several batches at a time", "all pairs"],
    )
    @pytest.mark.slow
    def test_within(self, tmp_path: Path, command: tuple[str, ...], sentences: int, lines: int, threads: int):
        short, many = tmp_path / "short.txt", tmp_path / "many.txt"
        short.write_text("Who rang?\n")
        many.write_text(("The parcel came late, and she signed for it. " * sentences + "\n") * lines)
        words = (command[0], "demo", *command[1:], "-d")
        self.peak(*words, short, threads=threads)  # what is loaded once, and stays
        # Batches far too large, so that what is kept of them is what counts.
        large = (*words, many, "--batch-tokens", "100000")
        assert self.peak(*large, "--memory", "64MiB", threads=threads) < 64
        assert self.peak(*large, threads=threads) > 128
