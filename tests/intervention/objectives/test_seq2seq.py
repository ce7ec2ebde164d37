"""Sequence to sequence: the loss of transformers' own interface, one pair of texts at a time."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from attnprobe.errors import AttnprobeError
from attnprobe.intervention.objectives.language_modelling import SequenceToSequence
from attnprobe.model.checkpoint import Checkpoint

Headed = Callable[..., Checkpoint]


@pytest.mark.parametrize("name", ["bart", "t5"])
@pytest.mark.parametrize("batch_tokens", [1, 4096])
def test_loss(headed: Headed, documents: Any, benched: Any, inputs_of: Any, name: str, batch_tokens: int):
    checkpoint, some = headed(name, "seq2seq"), documents("seq2seq")
    seen = 0
    with benched(checkpoint, some, batch_tokens=batch_tokens) as bench:
        assert bench.objective.name == "seq2seq"
        sizes = [len(batch.members) for batch in bench.corpus.batches]
        if name != "bart":
            assert (max(sizes) > 1) == (batch_tokens > 1)
        for batch in bench.corpus.batches:
            answer = bench.objective.answer(batch)
            for row, member in enumerate(batch.members):
                document = some[member]
                targets = checkpoint.tokenizer(document.label, return_tensors="pt")["input_ids"]
                assert bench.objective.targets[member] == targets[0].tolist()
                given = checkpoint.model(**inputs_of(checkpoint.tokenizer, document), labels=targets)
                assert answer.loss[row].item() == pytest.approx(given.loss.item(), rel=2e-5, abs=2e-6)
                right = (given.logits[0].argmax(-1) == targets[0]).double().mean().item()
                assert answer.value("accuracy")[row] == pytest.approx(right)
                seen += 1
    assert seen == len(some)


def test_targets_have_their_own_tokenizer(headed: Headed, tiny: Any, labelled: Any):
    checkpoint = headed("bart", "seq2seq")
    other = tiny("t5")[1]
    found = SequenceToSequence(replace(checkpoint, target_tokenizer=other), labelled("a dog ran"))
    assert found.targets == [other("a dog ran")["input_ids"]]
    assert found.targets != SequenceToSequence(checkpoint, labelled("a dog ran")).targets


def test_empty_target(headed: Headed, tiny: Any, labelled: Any):
    unframed = tiny("bert-unframed")[1]
    checkpoint = replace(headed("bart", "seq2seq"), target_tokenizer=unframed)
    with pytest.raises(AttnprobeError, match="The target '' gives not a single token"):
        SequenceToSequence(checkpoint, labelled("a dog", ""))


def test_generation_has_no_loss(headed: Headed, documents: Any, benched: Any):
    with benched(headed("t5", "seq2seq"), documents("seq2seq")[:3], generate=True) as bench:
        for batch in bench.corpus.batches:
            answer = bench.objective.answer(batch)
            assert torch.isnan(answer.loss).all()
            assert answer.value("ngrams").shape == (len(batch.members), 10)
