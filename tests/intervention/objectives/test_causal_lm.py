"""Next tokens, against the loss of transformers, one example at a time."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from attnprobe.corpus.sources.document import Document
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.request import TaskOptions
from attnprobe.intervention.task import bind_task, choose_subject
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.run.options import CorpusOptions
from attnprobe.run.passes import open_single_run
from attnprobe.run.progress import SilentProgress
from attnprobe.tasks import Gold

Headed = Callable[..., Checkpoint]


@pytest.mark.parametrize("name", ["gpt2", "llama"])
@pytest.mark.parametrize("batch_tokens", [1, 4096])
def test_loss(headed: Headed, documents: Any, benched: Any, inputs_of: Any, name: str, batch_tokens: int):
    checkpoint, some, seen = headed(name, "causal-lm"), documents("causal-lm"), 0
    with benched(checkpoint, some, batch_tokens=batch_tokens) as bench:
        assert bench.objective.name == "causal-lm"
        for batch in bench.corpus.batches:
            answer = bench.objective.answer(batch)
            for row, member in enumerate(batch.members):
                inputs = inputs_of(checkpoint.tokenizer, some[member])
                ids = inputs["input_ids"]
                given = checkpoint.model(**inputs, labels=ids)
                assert answer.loss[row].item() == pytest.approx(given.loss.item(), rel=2e-5)
                right = (given.logits[0, :-1].argmax(-1) == ids[0, 1:]).double().mean().item()
                assert answer.value("accuracy")[row] == pytest.approx(right)
                seen += 1
    alone = sum(len(checkpoint.tokenizer(d.text)["input_ids"]) == 1 for d in some)
    assert seen == len(some) - alone
    assert (alone > 0) == (name == "gpt2")


class Heard(SilentProgress):
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, sentence: str) -> None:
        self.said.append(sentence)


def test_too_short(headed: Headed):
    """GPT-2's tokenizer adds nothing, so that a word can be a text of one token."""
    heard, checkpoint = Heard(), headed("gpt2", "causal-lm")
    subject = choose_subject(lambda *_: checkpoint, TaskOptions(), labelled=Gold.NONE, progress=heard)
    texts = [Document("stone"), Document("the dog ran"), Document("stone")]
    with bind_task(subject, texts, CorpusOptions(), run=open_single_run(heard)) as bench:
        assert bench.corpus.batches.members.tolist() == [1]
        assert torch.isfinite(bench.objective.answer(next(iter(bench.corpus.batches))).loss).all()
    assert "2 sequences are left out: they have less than 2 tokens." in heard.said
    with (
        pytest.raises(AttnprobeError, match="causal-lm needs texts of 2 tokens or more"),
        bind_task(subject, texts[:1], CorpusOptions(), run=open_single_run(heard)),
    ):
        pass
