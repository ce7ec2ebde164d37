"""A batch that does not fit is halved, the user is told once, and the numbers stay."""

from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np
import pytest
import torch

from attnprobe.attention.tokens import TokenFeatures
from attnprobe.corpus.batch import Batch, BatchReader
from attnprobe.corpus.document import Document
from attnprobe.errors import AttnprobeError, out_of_memory
from attnprobe.model.check.dry_run import inspect
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.run.options import CorpusOptions
from attnprobe.run.passes import Halving, Run
from attnprobe.run.preparation import tokenise
from attnprobe.session.session import forward_warnings
from attnprobe.statistics import census_statistics
from attnprobe.statistics.distance import ALL_PAIRS
from attnprobe.sums.base import Measurement
from attnprobe.survey.measure import open_evaluator

CUDA = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
CPU = RuntimeError(
    "[enforce fail at alloc_cpu.cpp:118] err == 0. DefaultCPUAllocator: can't allocate memory: "
    "you tried to allocate 9 bytes. Error code 12 (Cannot allocate memory)"
)
HEAP = MemoryError("Unable to allocate 9 GiB for an array")
ERRORS = [CUDA, CPU, HEAP]


class Counted(BatchReader):
    """Sequences whose tokens are their numbers."""

    lengths = np.full(200, 3, np.int32)

    def gather(self, members: np.ndarray) -> Batch:
        ids = torch.from_numpy(members)[:, None].expand(-1, 3)
        tokens = TokenFeatures(*[ids % k == 0 for k in range(2, 8)], rank=ids, order=ids)
        return Batch({"input_ids": ids}, tokens, members, self)


def batch_of(sequences: int) -> Batch:
    return Counted().read(np.arange(sequences) + 100)


class TestHalving:
    """The mechanism by itself."""

    @staticmethod
    def limited(most: int, error: BaseException) -> tuple[Callable[[Batch], list[int]], list[int]]:
        tried: list[int] = []

        def work(batch: Batch) -> list[int]:
            tried.append(len(batch.ids))
            if len(batch.ids) > most:
                raise error
            return batch.members.tolist()

        return work, tried

    @pytest.mark.parametrize("error", ERRORS, ids=["cuda", "cpu", "heap"])
    def test_order_and_memory(self, error: BaseException):
        """Sequences stay in order; what failed once is not tried again, smaller batches stay whole."""
        work, tried = self.limited(2, error)
        halving, sentences = Halving(), []
        with forward_warnings(sentences.append):
            assert list(chain(*halving.run(batch_of(8), work))) == list(range(100, 108))
            assert tried == [8, 4, 2, 2, 2, 2]
            tried.clear()
            assert list(chain(*halving.run(batch_of(8), work))) == list(range(100, 108))
            assert list(chain(*halving.run(batch_of(2), work))) == [100, 101]
        assert tried == [2, 2, 2, 2, 2]
        assert sentences == [
            "batch of 8 sequences of 3 tokens does not fit the memory; going on with half of it.",
            "batch of 4 sequences of 3 tokens does not fit the memory; going on with half of it.",
        ]

    def test_alone(self):
        work, _ = self.limited(0, CUDA)
        refusal = r"single sequence of 3 tokens .*--max-length.*--batch-tokens.*--dtype"
        with pytest.raises(AttnprobeError, match=refusal):
            Halving().run(batch_of(4), work)

    @pytest.mark.parametrize("error", [RuntimeError("shapes do not fit"), ValueError("out of memory")])
    def test_other_errors_pass(self, error: BaseException):
        work, tried = self.limited(0, error)
        with pytest.raises(type(error)):
            Halving().run(batch_of(4), work)
        assert tried == [4]
        assert not out_of_memory(error)

    def test_lets_go_of_the_failed_batch(self):
        """What the failed pass held is free before its halves are tried."""
        import weakref

        held: list[weakref.ref] = []

        def work(batch: Batch) -> bool:
            large = torch.zeros(len(batch.ids), 1000)
            alive = [reference() is not None for reference in held]
            held.append(weakref.ref(large))
            if len(batch.ids) > 2:
                raise torch.OutOfMemoryError("no")
            return any(alive)

        assert Halving().run(batch_of(8), work) == [False] * 4


@pytest.mark.parametrize("name", ["bert", "t5"])
def test_survey(checkpoint: Callable[[str], Checkpoint], limited_memory: Any, name: str):
    """Sums are the same, and every batch is one batch."""
    loaded, architecture = checkpoint(name), inspect(checkpoint(name))
    documents = [Document("the river bank was slow , and the dog ran .")] * 12
    length = len(loaded.tokenizer(documents[0].text)["input_ids"])
    with tokenise(loaded, documents, CorpusOptions(batch_tokens=6 * length)) as corpus:
        batches, statistics = list(corpus.batches), [*census_statistics(), ALL_PAIRS]
        assert [len(batch.ids) for batch in batches] == [6, 6]
        with open_evaluator(loaded, architecture, statistics) as measure:
            expected = [measure.measurement(batch) for batch in batches]
        sentences: list[str] = []
        with (
            forward_warnings(sentences.append),
            limited_memory(loaded.body, 3) as tried,
            open_evaluator(loaded, architecture, statistics) as measure,
        ):
            parts = [measure.measurement(batch) for batch in batches]
        assert tried == [6, 3, 3, 3, 3]
        assert sentences == [
            f"batch of 6 sequences of {length} tokens does not fit the memory; going on with half of it."
        ]
        with limited_memory(loaded.body, 1), open_evaluator(loaded, architecture, statistics) as measure:
            whole = Run().total("measuring", corpus.batches, measure.measurement, Measurement.from_arrays)
        with (
            limited_memory(loaded.body, 0),
            open_evaluator(loaded, architecture, statistics) as measure,
            pytest.raises(AttnprobeError, match="single sequence"),
        ):
            measure.measurement(batches[0])
    assert whole.sequences == 12
    for values, ours in zip(expected, parts, strict=True):
        assert (ours.sequences, ours.tokens) == (values.sequences, values.tokens)
        for key, cells in values.arrays().items():
            np.testing.assert_allclose(ours.arrays()[key], cells, rtol=1e-6, atol=1e-6, err_msg=key)
