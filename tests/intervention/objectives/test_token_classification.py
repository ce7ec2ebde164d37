"""Token classification: the loss of transformers' own interface, at the first token of each word."""

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from attnprobe.corpus.document import Document, Tagged
from attnprobe.errors import AttnprobeError
from attnprobe.model.checkpoint import Checkpoint

Headed = Callable[..., Checkpoint]
KIND = "token-classification"
#: Tokenizers that part words in other ways: WordPiece, SentencePiece's Unigram, byte-level BPE.
ARCHITECTURES = ("bert", "modernbert", "roberta")


def by_the_books(checkpoint: Checkpoint, label: Tagged) -> tuple[dict[str, torch.Tensor], list[int]]:
    """Tokenise as run_ner does: words one by one, -100 at all but the first token of each."""
    tokenizer = copy.deepcopy(checkpoint.tokenizer)
    spelled = " ".join(label.words)
    encoded = tokenizer(spelled, return_offsets_mapping=True, return_special_tokens_mask=True)
    plain = tokenizer(list(label.words), is_split_into_words=True)
    if encoded["input_ids"] == plain["input_ids"]:
        words = plain.word_ids()
    else:  # byte-level without a blank before the first word: words apart would be spelled otherwise
        place = np.cumsum([0, *(len(word) + 1 for word in label.words)])
        words = [
            None if special else int(np.searchsorted(place, start, side="right")) - 1
            for (start, _), special in zip(
                encoded["offset_mapping"], encoded["special_tokens_mask"], strict=True
            )
        ]
    names = checkpoint.model.config.label2id
    seen, targets = set(), []
    for word in words:
        tag = None if word is None or word in seen else label.tags[word]
        seen.add(word)
        targets.append(-100 if tag is None else names[tag])
    return {"input_ids": torch.tensor([encoded["input_ids"]])}, targets


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_loss(headed: Headed, documents: Any, benched: Any, name: str):
    checkpoint, some = headed(name, KIND), documents(KIND)
    some = [
        *some,
        Document("x", label=Tagged(("unlikely", "zyx", "東京", ",", "12"), ("O", "B-LOC", "O", "O", "O"))),
    ]
    with benched(checkpoint, some) as bench:
        assert bench.objective.name == KIND
        seen = 0
        for batch in bench.corpus.batches:
            answer = bench.objective.answer(batch)
            for row, member in enumerate(batch.members):
                inputs, targets = by_the_books(checkpoint, some[member].label)
                assert batch.ids[row].tolist() == inputs["input_ids"][0].tolist()
                labels = torch.tensor([targets])
                given = checkpoint.model(**inputs, labels=labels)
                assert answer.loss[row].item() == pytest.approx(given.loss.item(), rel=1e-5, abs=1e-6)
                scored = labels != -100
                right = (given.logits.argmax(-1) == labels)[scored].sum().item()
                assert answer.value("words")[row].tolist() == [right, scored.sum().item()]
                seen += 1
    assert seen == len(some)


def test_entities_are_those_of_seqeval(headed: Headed, documents: Any, benched: Any):
    metrics = pytest.importorskip("seqeval.metrics")
    checkpoint, some = headed("bert", KIND), documents(KIND)
    names = checkpoint.model.config.id2label
    ours, gold = [[] for _ in some], [[] for _ in some]
    counts = np.zeros(3)
    with benched(checkpoint, some, batch_tokens=12) as bench:
        for batch in bench.corpus.batches:
            counts += bench.objective.answer(batch).value("entities").sum(0)
            for member in batch.members:
                inputs, targets = by_the_books(checkpoint, some[member].label)
                said = checkpoint.model(**inputs).logits.argmax(-1)[0].tolist()
                ours[member] = [names[n] for n, t in zip(said, targets, strict=True) if t != -100]
                gold[member] = [names[t] for t in targets if t != -100]
    right, predicted, there = counts
    assert predicted > 3
    assert right > 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert metrics.f1_score(gold, ours) == pytest.approx(2 * right / (predicted + there))


def test_words_behind_the_last_token_are_counted(headed: Headed, benched: Any):
    """Of a word that is cut in two, the first token is there."""
    label = Tagged(("the", "zyx", "river", "\u200b", "bank"), ("O", "B-PER", "O", "O", "B-LOC"))
    told: list[str] = []

    class Told:
        def stage(self, *_: Any) -> None: ...
        def advance(self, *_: Any) -> None: ...
        def say(self, sentence: str) -> None:
            told.append(sentence)

    some = [Document("a", label=label), Document("b", label=Tagged(("\u200b", "\u200b"), ("O", "O")))]
    with benched(headed("bert", KIND), some, max_length=4, progress=Told()) as bench:
        assert bench.corpus.sequences == 1
        assert bench.objective.targets[0].tolist() == [[1, 2], [0, 1]]
        reading = bench.corpus.reading
        assert (reading.words, reading.words_lost, reading.truncated) == (7, 5, 1)
    assert "5 of 7 labelled words left out: they give no token, or lie behind 4 tokens." in told


@pytest.mark.parametrize("tag", ["B-ORG", "NOUN", 5])
def test_a_label_that_the_model_does_not_know(headed: Headed, benched: Any, tag: Any):
    some = [Document("stone", label=Tagged(("stone",), (tag,)))]
    with (
        pytest.raises(
            AttnprobeError, match=rf"The label '{tag}' is not one that bert knows: 0 \(O\), 1 \(B-PER\)"
        ),
        benched(headed("bert", KIND), some),
    ):
        pass
