"""Question answering: the loss of transformers' own interface, and answers by a search of every stretch."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from attnprobe.corpus.document import Asked, Document
from attnprobe.intervention.objectives.question_answering import (
    LONGEST,
    answer_f1,
    exact_match,
    find_best_spans,
)
from attnprobe.model.checkpoint import Checkpoint

Headed = Callable[..., Checkpoint]
KIND = "question-answering"
ARCHITECTURES = ("bert", "modernbert", "roberta")


def by_the_books(
    checkpoint: Checkpoint, document: Document
) -> tuple[dict[str, Tensor], list[int | None], Any]:
    """Tokenise as run_qa does; give first and last token of the first answer, or of none."""
    said = document.label
    assert isinstance(said, Asked)
    encoded: Any = checkpoint.tokenizer(document.text, said.context, return_offsets_mapping=True)
    ids = encoded["input_ids"]
    first = getattr(checkpoint.tokenizer, "cls_token_id", None)
    start = end = 0 if first is None else ids.index(first)
    offsets = [
        tuple(pair) if side == 1 else None
        for pair, side in zip(encoded["offset_mapping"], encoded.sequence_ids(0), strict=True)
    ]
    if said.answers:
        begin, stop = said.starts[0], said.starts[0] + len(said.answers[0])
        inside = [n for n, ends in enumerate(offsets) if ends and ends[1] > begin and ends[0] < stop]
        start, end = inside[0], inside[-1]
    inputs = {"input_ids": torch.tensor([ids])}
    if "token_type_ids" in checkpoint.tokenizer.model_input_names:
        inputs["token_type_ids"] = torch.tensor([encoded["token_type_ids"]])
    return inputs, [start, end], offsets


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_loss_and_answers(headed: Headed, documents: Any, benched: Any, name: str):
    checkpoint, some = headed(name, KIND), documents(KIND)
    seen = 0
    with benched(checkpoint, some) as bench:
        assert bench.objective.name == KIND
        assert bench.objective.abstains
        for batch in bench.corpus.batches:
            answer = bench.objective.answer(batch)
            for row, member in enumerate(batch.members):
                document = some[member]
                inputs, (start, end), offsets = by_the_books(checkpoint, document)
                assert batch.ids[row].tolist() == inputs["input_ids"][0].tolist()
                given = checkpoint.model(
                    **inputs, start_positions=torch.tensor([start]), end_positions=torch.tensor([end])
                )
                assert answer.loss[row].item() == pytest.approx(given.loss.item(), rel=1e-5, abs=1e-6)
                begins, ends = given.start_logits[0], given.end_logits[0]
                stretches = [
                    (float(begins[one] + ends[other]), one, other)
                    for one in range(len(offsets))
                    for other in range(one, min(one + LONGEST, len(offsets)))
                    if offsets[one] is not None and offsets[other] is not None
                ]
                best, one, other = max(stretches)
                first = getattr(checkpoint.tokenizer, "cls_token_id", None)
                none = 0 if first is None else inputs["input_ids"][0].tolist().index(first)
                text = document.label.context[offsets[one][0] : offsets[other][1]]
                if float(begins[none] + ends[none]) > best:
                    text = ""
                assert answer.value("f1")[row] == pytest.approx(answer_f1(text, document.label.answers))
                right = exact_match(text, document.label.answers)
                assert answer.value("exact_match")[row] == right
                seen += 1
    assert seen == len(some)


def test_best_spans():
    start = torch.tensor([[9.0, 1, 5, 0, 8], [0, 1, 0, 4, 0]])
    end = torch.tensor([[9.0, 7, 0, 3, 9], [5, 0, 2, 0, 0]])
    inside = torch.tensor([[False, True, True, True, True], [True] * 5])
    first, last, best = find_best_spans(start, end, inside, longest=2)
    assert first.tolist() == [4, 0]
    assert last.tolist() == [4, 0]
    assert best.tolist() == [17, 5]
    first, last, _ = find_best_spans(start - 9 * (torch.arange(5) == 4), end, inside, longest=3)
    assert (first[0].item(), last[0].item()) == (2, 4)
    first, last, _ = find_best_spans(start - 9 * (torch.arange(5) == 4), end, inside, longest=2)
    assert (first[0].item(), last[0].item()) == (3, 4)
