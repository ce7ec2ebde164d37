"""Losses and answers of every objective against transformers' own interface, one text at a time."""

import copy
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from attnprobe.corpus.document import Asked, Document, Tagged
from attnprobe.intervention.objectives.objective import Answer
from attnprobe.intervention.objectives.question_answering import (
    LONGEST,
    answer_f1,
    exact_match,
    find_best_spans,
)
from attnprobe.intervention.task import TaskData
from attnprobe.model.checkpoint import Checkpoint

Headed = Callable[..., Checkpoint]
WORDS = "the river bank was slow and a bird ran over red house water light".split()  # noqa: SIM905
NUMBERS = {"rel": 2e-5, "abs": 1e-5}


def each_answer(data: TaskData) -> Iterator[tuple[int, Any, Callable[[str], Any]]]:
    """Give the number of every example, its loss, and what looks up another of its values."""
    for batch in data.corpus.batches:
        answer = data.objective.answer(batch)
        for row, member in enumerate(batch.members.tolist()):
            loss = answer.loss[row].item()
            yield member, loss, lambda name, row=row, answer=answer: answer.value(name)[row]


def answer_by_hand(kind: str, checkpoint: Checkpoint, document: Document, inputs: Any) -> dict[str, Any]:
    """Work out the loss and the other values of a text by transformers' own interface."""
    label: Any = document.label
    if kind == "classification":
        given = checkpoint.model(**inputs, labels=torch.tensor([label]))
        guess = given.logits.argmax().item()
        return {"loss": given.loss.item(), "prediction": guess, "accuracy": guess == label}
    if kind == "multi-label":
        right = torch.zeros(1, 3)
        right[0, list(label)] = 1
        given = checkpoint.model(**inputs, labels=right)
        predicted = given.logits.sigmoid() > 0.5
        return {
            "loss": given.loss.item(),
            "prediction": predicted[0].numpy(),
            "accuracy": torch.equal(predicted, right.bool()),
        }
    if kind == "regression":
        given = checkpoint.model(**inputs, labels=torch.tensor([float(label)]))
        return {"loss": given.loss.item(), "mse": given.loss.item(), "prediction": given.logits.item()}
    causal = kind == "causal-lm"
    ids = inputs["input_ids"] if causal else checkpoint.tokenizer(label, return_tensors="pt")["input_ids"]
    given = checkpoint.model(**inputs, labels=ids)
    guesses = given.logits[0].argmax(-1)
    right = guesses[:-1] == ids[0, 1:] if causal else guesses == ids[0]
    return {"loss": given.loss.item(), "accuracy": right.double().mean().item()}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("bert", "classification"), ("bert", "multi-label"), ("bert", "regression"), ("gpt2", "causal-lm"),
        ("llama", "causal-lm"), ("t5", "seq2seq"),
    ],
)  # fmt: skip
def test_loss(headed: Headed, documents: Any, task_data: Any, inputs_of: Any, name: str, kind: str):
    checkpoint, texts, seen = headed(name, kind), documents(kind), []
    with task_data(checkpoint, texts) as data:
        assert data.objective.name == kind  # chosen by the head and the labels
        for member, loss, value in each_answer(data):
            inputs = inputs_of(checkpoint.tokenizer, texts[member])
            expected = answer_by_hand(kind, checkpoint, texts[member], inputs)
            assert loss == pytest.approx(expected.pop("loss"), **NUMBERS)
            for key, wanted in expected.items():
                assert value(key) == pytest.approx(np.asarray(wanted, float), **NUMBERS)
            seen.append(member)
    alone = [
        member for member, text in enumerate(texts)
        if kind == "causal-lm" and len(checkpoint.tokenizer(text.text)["input_ids"]) == 1
    ]  # fmt: skip
    assert sorted([*seen, *alone]) == [*range(len(texts))]  # a single token has nothing to predict


def test_half_precision_gives_a_precise_loss(headed: Headed, documents: Any, task_data: Any):
    checkpoint = headed("bert", "classification")
    model = copy.deepcopy(checkpoint.model).to(torch.bfloat16)
    with task_data(replace(checkpoint, model=model), documents("classification")) as data:
        answer = data.objective.answer(next(iter(data.corpus.batches)))
    assert answer.loss.dtype == torch.float32


def test_generation_has_no_loss(headed: Headed, documents: Any, task_data: Any):
    with task_data(headed("t5", "seq2seq"), documents("seq2seq")[:3], generate=True) as data:
        for _, loss, value in each_answer(data):
            assert np.isnan(loss)
            assert value("ngrams").shape == (10,)


# Masked language models


def list_hidden(data: TaskData) -> dict[int, list[int]]:
    places: dict[int, list[int]] = {}
    for batch in data.corpus.batches:
        for member, row in zip(batch.members.tolist(), data.objective.choose_hidden(batch), strict=True):
            places[member] = row.nonzero()[:, 0].tolist()
    return dict(sorted(places.items()))


def test_masked_loss(headed: Headed, documents: Any, task_data: Any, inputs_of: Any):
    """Labels stand where a token is hidden, -100 elsewhere."""
    checkpoint = headed("bert", "masked-lm")
    texts = [*documents("masked-lm"), Document(" ".join(WORDS * 2))]  # more than one hidden
    with task_data(checkpoint, texts) as data:
        assert data.objective.name == "masked-lm"
        hidden = list_hidden(data)
        assert max(map(len, hidden.values())) >= 4
        answers = list(each_answer(data))
    assert len(answers) == len(texts)
    for member, loss, value in answers:
        inputs, places = inputs_of(checkpoint.tokenizer, texts[member]), hidden[member]
        labels = torch.full_like(inputs["input_ids"], -100)
        labels[0, places] = inputs["input_ids"][0, places]
        inputs["input_ids"] = inputs["input_ids"].clone()
        inputs["input_ids"][0, places] = checkpoint.tokenizer.mask_token_id
        given = checkpoint.model(**inputs, labels=labels)
        assert loss == pytest.approx(given.loss.item(), **NUMBERS)
        right = given.logits[0, places].argmax(-1) == labels[0, places]
        assert value("accuracy") == pytest.approx(right.double().mean().item())


def test_pad_tokens_in_a_text(headed: Headed, task_data: Any, inputs_of: Any):
    """XLM is given the mask of ones that its tokenizer gives, and so the loss is that of transformers."""
    checkpoint, texts = headed("xlm", "masked-lm"), [Document("the river [PAD] bank [PAD] was slow")]
    with task_data(checkpoint, texts) as data:
        (batch,) = data.corpus.batches
        inputs, hidden = inputs_of(checkpoint.tokenizer, texts[0]), data.objective.choose_hidden(batch)
        ids = inputs["input_ids"].clone()
        inputs["input_ids"] = ids.masked_fill(hidden, checkpoint.tokenizer.mask_token_id)
        labels, ones = ids.masked_fill(~hidden, -100), torch.ones_like(ids)
        expected = checkpoint.model(**inputs, attention_mask=ones, labels=labels).loss.item()
        assert abs(checkpoint.model(**inputs, labels=labels).loss.item() - expected) > 1e-3
        assert data.objective.answer(batch).loss.item() == pytest.approx(expected, rel=2e-5)


def test_seed_and_place_decide_what_is_hidden(headed: Headed, task_data: Any):
    text, places = Document(" ".join(WORDS * 3)), []
    for seed in (42, 42, 43):
        with task_data(headed("bert", "masked-lm"), [text] * 4, seed=seed) as data:
            places.append(list_hidden(data))
    assert places[0] == places[1] != places[2]
    assert len({tuple(chosen) for chosen in places[0].values()}) == 4  # every example its own


def test_share_that_is_hidden(headed: Headed, task_data: Any):
    """15 % of the ordinary tokens, at least one, never a special one."""
    checkpoint = headed("bert", "masked-lm")
    special = {getattr(checkpoint.tokenizer, f"{kind}_token_id") for kind in ("cls", "sep", "pad")}
    texts = [Document(" ".join((WORDS * 5)[:length])) for length in range(1, 60)]
    texts += [Document("the dog", "a cat ran"), Document("!"), Document("is it [SEP] late now")]
    with task_data(checkpoint, texts) as data:
        for member, chosen in list_hidden(data).items():
            ids = data.corpus.batches.source.store.ids(member)
            ordinary = [place for place, token in enumerate(ids) if int(token) not in special]
            assert set(chosen) <= set(ordinary)
            assert len(chosen) == max(1, round(0.15 * len(ordinary)))


# Answers to questions


def ask_by_hand(checkpoint: Checkpoint, document: Document) -> tuple[dict[str, Tensor], list[int], Any]:
    """Tokenise as run_qa does; give first and last token of the first answer, or of none."""
    label = document.label
    assert isinstance(label, Asked)
    encoded: Any = checkpoint.tokenizer(document.text, label.context, return_offsets_mapping=True)
    offsets = [
        tuple(pair) if side == 1 else None
        for pair, side in zip(encoded["offset_mapping"], encoded.sequence_ids(0), strict=True)
    ]
    ends = [0, 0]
    if label.answers:
        begin, stop = label.starts[0], label.starts[0] + len(label.answers[0])
        inside = [n for n, pair in enumerate(offsets) if pair and pair[1] > begin and pair[0] < stop]
        ends = [inside[0], inside[-1]]
    inputs = {"input_ids": torch.tensor([encoded["input_ids"]])}
    if "token_type_ids" in checkpoint.tokenizer.model_input_names:
        inputs["token_type_ids"] = torch.tensor([encoded["token_type_ids"]])
    return inputs, ends, offsets


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_questions(headed: Headed, documents: Any, task_data: Any, name: str):
    checkpoint, texts = headed(name, "question-answering"), documents("question-answering")
    with task_data(checkpoint, texts) as data:
        assert data.objective.abstains
        answers = list(each_answer(data))
    assert len(answers) == len(texts)
    for member, loss, value in answers:
        inputs, (start, end), offsets = ask_by_hand(checkpoint, texts[member])
        given = checkpoint.model(
            **inputs, start_positions=torch.tensor([start]), end_positions=torch.tensor([end])
        )
        assert loss == pytest.approx(given.loss.item(), **NUMBERS)
        begins, ends = given.start_logits[0], given.end_logits[0]
        best, first, last = max(
            (float(begins[first] + ends[last]), first, last)
            for first in range(len(offsets))
            for last in range(first, min(first + LONGEST, len(offsets)))
            if offsets[first] is not None and offsets[last] is not None
        )
        text = texts[member].label.context[offsets[first][0] : offsets[last][1]]
        if float(begins[0] + ends[0]) > best:
            text = ""
        assert value("f1") == pytest.approx(answer_f1(text, texts[member].label.answers))
        assert value("exact_match") == exact_match(text, texts[member].label.answers)


def test_best_spans():
    start = torch.tensor([[9.0, 1, 5, 0, 8], [0, 1, 0, 4, 0]])
    end = torch.tensor([[9.0, 7, 0, 3, 9], [5, 0, 2, 0, 0]])
    inside = torch.tensor([[False, True, True, True, True], [True] * 5])
    first, last, best = find_best_spans(start, end, inside, longest=2)
    assert (first.tolist(), last.tolist(), best.tolist()) == ([4, 0], [4, 0], [17, 5])
    lower = start - 9 * (torch.arange(5) == 4)
    for longest, expected in ((3, (2, 4)), (2, (3, 4))):
        first, last, _ = find_best_spans(lower, end, inside, longest=longest)
        assert (first[0].item(), last[0].item()) == expected


# Labels of words


def tag_by_hand(checkpoint: Checkpoint, label: Tagged) -> tuple[dict[str, Tensor], list[int]]:
    """Tokenise as run_ner does: words one by one, -100 at all but the first token of each."""
    text = " ".join(label.words)
    encoded = checkpoint.tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True)
    plain = checkpoint.tokenizer(list(label.words), is_split_into_words=True)
    if encoded["input_ids"] == plain["input_ids"]:
        words = plain.word_ids()
    else:  # byte-level without a blank before the first word: words apart would be spelled otherwise
        places = np.cumsum([0, *(len(word) + 1 for word in label.words)])
        pairs = zip(encoded["offset_mapping"], encoded["special_tokens_mask"], strict=True)
        words = [
            None if special else int(np.searchsorted(places, start, side="right")) - 1
            for (start, _), special in pairs
        ]
    seen: set[int | None] = set()
    targets = []
    for word in words:
        tag = None if word is None or word in seen else label.tags[word]
        seen.add(word)
        targets.append(-100 if tag is None else checkpoint.model.config.label2id[tag])
    return {"input_ids": torch.tensor([encoded["input_ids"]])}, targets


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_words(headed: Headed, documents: Any, task_data: Any, name: str):
    """The loss and the right words, and of all texts the entities that seqeval counts."""
    metrics = pytest.importorskip("seqeval.metrics")
    checkpoint, texts = headed(name, "token-classification"), documents("token-classification")
    label = Tagged(("unlikely", "zyx", "東京", ",", "12"), ("O", "B-LOC", "O", "O", "O"))
    texts = [*texts, Document("x", label=label)]
    with task_data(checkpoint, texts) as data:
        answers = list(each_answer(data))
    assert len(answers) == len(texts)
    names, predicted, gold = checkpoint.model.config.id2label, [], []
    for member, loss, value in answers:
        inputs, targets = tag_by_hand(checkpoint, texts[member].label)
        labels = torch.tensor([targets])
        given, scored = checkpoint.model(**inputs, labels=labels), labels != -100
        assert loss == pytest.approx(given.loss.item(), **NUMBERS)
        guesses, right = given.logits.argmax(-1)[scored].tolist(), labels[scored].tolist()
        assert value("words").tolist() == [
            sum(map(int.__eq__, guesses, right)), len(right)
        ]  # fmt: skip
        predicted.append([names[guess] for guess in guesses])
        gold.append([names[target] for target in right])
    hits, *named = np.sum([value("entities") for *_, value in answers], 0)
    assert hits > 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert metrics.f1_score(gold, predicted) == pytest.approx(2 * hits / sum(named))


def test_words_behind_the_last_token_are_counted(headed: Headed, task_data: Any):
    """Of a word that is cut in two, the first token is there."""
    label = Tagged(("the", "zyx", "river", "\u200b", "bank"), ("O", "B-PER", "O", "O", "B-LOC"))
    texts = [Document("a", label=label), Document("b", label=Tagged(("\u200b", "\u200b"), ("O", "O")))]
    with task_data(headed("bert", "token-classification"), texts, max_length=4) as data:
        assert data.corpus.sequences == 1
        assert data.objective.targets[0].tolist() == [[1, 2], [0, 1]]
        reading = data.corpus.reading
        assert (reading.words, reading.words_lost, reading.truncated) == (7, 5, 1)


# The pooled state


@pytest.mark.parametrize("name", ["bert", "t5"])
def test_representation(headed: Headed, documents: Any, task_data: Any, inputs_of: Any, name: str):
    checkpoint = headed(name, "representation")
    texts = [document for document in documents("representation") if document.pair is None]
    with task_data(checkpoint, texts) as data:
        assert data.objective.name == "representation"
        for batch in data.corpus.batches:
            answer = data.objective.answer(batch)
            directions = data.objective.draw_directions(batch, answer.state.shape[-1])
            np.testing.assert_allclose((directions**2).sum(-1), 1)
            for row, member in enumerate(batch.members):
                inputs = inputs_of(checkpoint.tokenizer, texts[member])
                if name == "t5":  # the decoder reads the text too, behind its first token
                    start = torch.tensor([[checkpoint.model.config.decoder_start_token_id]])
                    inputs["decoder_input_ids"] = torch.cat([start, inputs["input_ids"][:, :-1]], 1)
                state = checkpoint.model(**inputs)[0][0].mean(0)
                torch.testing.assert_close(answer.state[row], state, rtol=1e-4, atol=1e-5)
                expected = float(directions[row] @ state.double().numpy())
                assert answer.loss[row].item() == pytest.approx(expected, abs=1e-4)
            for turned, cosine in ((answer, 1), (Answer(answer.loss, state=-2 * answer.state), -1)):
                similarity = data.objective.answer(batch, turned).scores["similarity"]
                torch.testing.assert_close(similarity, cosine * torch.ones(len(batch.ids)))


def collect_directions(data: Any, width: int = 32) -> np.ndarray:
    directions = np.zeros((data.corpus.sequences, width))
    for batch in data.corpus.batches:
        directions[batch.members] = data.objective.draw_directions(batch, width)
    return directions


def test_directions(headed: Headed, documents: Any, task_data: Any):
    """Depend on the seed and the example, not on the batch; uniform on the sphere."""
    checkpoint, drawn = headed("bert", "representation"), []
    for seed, batch_tokens in ((42, 1), (42, 4096), (43, 4096)):
        with task_data(checkpoint, documents("representation"), seed=seed, batch_tokens=batch_tokens) as data:
            drawn.append(collect_directions(data))
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert np.abs(drawn[0] - drawn[2]).max(1).min() > 0.01
    with task_data(checkpoint, [Document("a bird")] * 800) as data:
        many = collect_directions(data)
    np.testing.assert_allclose(many.T @ many / len(many), np.eye(32) / 32, atol=6 / 32 / np.sqrt(800))
    assert np.abs(many.mean(0)).max() < 5 / np.sqrt(32 * 800)
