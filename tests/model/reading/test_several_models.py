"""One model in several threads, and never one model twice."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from attnprobe.corpus.document import Document
from attnprobe.model.check.dry_run import examine
from attnprobe.model.check.trace import run_twice
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.reading.capture import capture_attention
from attnprobe.model.reading.gates import gate_attention
from attnprobe.run.options import CorpusOptions
from attnprobe.run.preparation import tokenise
from attnprobe.statistics import census_statistics
from attnprobe.survey.measure import open_evaluator

DOCUMENTS = [Document(text) for text in (
    "the river bank was slow , and the dog ran", "stone", "a bird ran over the water",
    "not early , not late .", "he walks slowly over the road", "the dog",
    "red house blue house", "night and day and night",
)]  # fmt: skip


@pytest.mark.parametrize("name", ["bert", "deberta-v2"])
def test_one_model_in_several_threads(copied, name):
    checkpoint, architecture = examine(Checkpoint(name, *copied(name)))
    assert architecture.threaded
    with (
        tokenise(checkpoint, DOCUMENTS * 3, CorpusOptions(batch_tokens=16)) as corpus,
        open_evaluator(checkpoint, architecture, census_statistics()) as measure,
    ):
        batches = list(corpus.batches)
        expected = [measure.evaluate(batch) for batch in batches]

        def values(batch):
            with measure.thread_context():
                return measure.evaluate(batch)

        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(values, batches))
    for ours, theirs in zip(results, expected, strict=True):
        for key in theirs:
            np.testing.assert_array_equal(ours[key], theirs[key])


def test_a_model_is_read_once_at_a_time(copied):
    model, _ = copied("bert")
    with (
        capture_attention(model, lambda _: None),
        pytest.raises(RuntimeError, match="is being read already"),
        capture_attention(model, lambda _: None),
    ):
        pass
    with capture_attention(model, lambda _: None):
        pass
    with gate_attention(model), pytest.raises(RuntimeError, match="already"), gate_attention(model):
        pass


class TestModelsThatKeepSomething:
    def test_anything_at_all(self, copied):
        model, tokenizer = copied("bert")
        checkpoint = Checkpoint("bert", model, tokenizer)
        inputs = {"input_ids": torch.tensor([tokenizer("the dog ran to the river")["input_ids"]])}
        assert run_twice(checkpoint, inputs)[1]
        for keep in (
            lambda module, given, _: setattr(module, "seen", given[0].shape[1]),
            lambda module, given, _: module.held.append(1),
            lambda module, given, _: module.table.add_(1),
        ):
            layer = model.encoder.layer[0].attention.output.dense
            layer.held = []
            layer.register_buffer("table", torch.zeros(1), persistent=False)
            hook = layer.register_forward_hook(keep)
            assert not run_twice(checkpoint, inputs)[1]
            hook.remove()
