"""Trials against the untouched model with columns of its output projections zeroed, one example at a time."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.nn.functional import cosine_similarity

from attnprobe.errors import AttnprobeError
from attnprobe.intervention.metrics.score import CLUSTER, count_ngrams
from attnprobe.intervention.objectives.objective import Answer
from attnprobe.intervention.request import TaskOptions
from attnprobe.intervention.trials import keep_each_head, mask_each_head, run_trials
from attnprobe.model.check.gates import Gating
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.run.options import CorpusOptions
from attnprobe.run.passes import Run
from attnprobe.sums.documents import in_second_half

LAYERS, HEADS = 3, 4
SHAPE = LAYERS, HEADS

Headed = Callable[..., Checkpoint]
Mask = NDArray[np.bool_]


def without(*heads: tuple[int, int]) -> Mask:
    mask = np.ones(SHAPE, bool)
    for head in heads:
        mask[head] = False
    return mask


def with_decoder(mask: Mask) -> Mask:
    """Mask the four layers of self-attention and cross-attention of a decoder too."""
    return np.concatenate([mask, np.roll(mask, 1, 1), mask[:1]])


ARBITRARY = [
    without((0, 1), (2, 3)),
    without((1, 0), (1, 2), (2, 0), (2, 1), (2, 2), (2, 3)),
    without(*np.ndindex(SHAPE)),
    without(),
    without((2, 0), (0, 0), (1, 0)),
]
MASKS = [
    *mask_each_head(*SHAPE)[::5],
    keep_each_head(*SHAPE)[1],
    keep_each_head(*SHAPE)[10],
    *ARBITRARY,
]


@pytest.mark.parametrize("name", ["bert", "t5"])
def test_representation(
    headed: Headed, documents: Any, task_data: Any, scale_heads: Any, inputs_of: Any, name: str
):
    checkpoint = headed(name, "representation")
    texts = [document for document in documents("representation") if document.pair is None]
    with task_data(checkpoint, texts) as data:
        masks = [with_decoder(mask) for mask in MASKS] if checkpoint.decodes else MASKS
        run = run_trials(data, masks, ("similarity",))
    np.testing.assert_allclose(run.untouched["similarity"], 1, atol=1e-6)

    def pooled(model: Any, document: Any) -> torch.Tensor:
        inputs = inputs_of(checkpoint.tokenizer, document)
        if checkpoint.decodes:
            ids = inputs["input_ids"][0].tolist()
            inputs["decoder_input_ids"] = torch.tensor([checkpoint.shift_right(ids)])
        return model(**inputs)[0].mean(1)

    whole = [pooled(checkpoint.model, document) for document in texts]
    for mask, masked in zip(masks, run.masked, strict=True):
        model = scale_heads(checkpoint.model, mask)
        expected = [cosine_similarity(pooled(model, d), h).item() for d, h in zip(texts, whole, strict=True)]
        np.testing.assert_allclose(masked["similarity"], expected, atol=3e-6)
        assert mask.all() or masked["similarity"].max() < 1 - 1e-5


@pytest.mark.parametrize(
    ("kind", "needs"),
    [
        ("classification", ("loss", "label", "prediction", "accuracy")),
        ("token-classification", ("loss", "words", "entities")),
        ("question-answering", ("loss", "f1", "exact_match")),
        ("regression", ("label", "prediction", "mse")),
        ("multi-label", ("loss", "label", "prediction", "accuracy")),
    ],
)
def test_heads_off_by_hand(
    headed: Headed, documents: Any, task_data: Any, task_session: Any, scale_heads: Any, kind: str, needs: Any
):
    """Against models with columns zeroed and no gates; that their losses are right is tested elsewhere."""
    checkpoint, texts = headed("bert", kind), documents(kind)
    with task_data(checkpoint, texts) as data:
        run = run_trials(data, MASKS, needs)
    for mask, masked in zip(MASKS, run.masked, strict=True):
        by_hand = replace(checkpoint, model=scale_heads(checkpoint.model, mask))
        model = replace(data.model, checkpoint=by_hand)
        session = task_session(by_hand, TaskOptions(kind), CorpusOptions(batch_tokens=1))
        with session.bind(model, texts, Run()) as by_hand_data:
            expected = run_trials(by_hand_data, [], needs).untouched
        for name in needs:
            np.testing.assert_allclose(masked[name], expected[name], rtol=3e-5, atol=3e-6)
    loss = "mse" if kind == "regression" else "loss"
    assert len({masked[loss].tobytes() for masked in run.masked}) == len(MASKS)


def test_generated_text(headed: Headed, documents: Any, task_data: Any, scale_heads: Any, inputs_of: Any):
    checkpoint, texts = headed("t5", "seq2seq"), documents("seq2seq")[:4]
    masks = [with_decoder(mask) for mask in (without((0, 1), (2, 3)), without(*np.ndindex(SHAPE)))]
    masks.append(np.concatenate([without(), masks[0][3:]]))  # of the decoder only
    with task_data(checkpoint, texts, generate=True) as data:
        longest = 2 * max(map(len, data.objective.targets))
        run = run_trials(data, masks, ("ngrams",))
    for mask, predictions in zip(
        [with_decoder(without()), *masks], [run.untouched, *run.masked], strict=True
    ):
        model = scale_heads(checkpoint.model, mask)
        for counts, document in zip(predictions["ngrams"], texts, strict=True):
            inputs = inputs_of(checkpoint.tokenizer, document)
            inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
            ids = model.generate(**inputs, max_new_tokens=longest, do_sample=False, num_beams=1)
            text = checkpoint.tokenizer.decode(ids[0], skip_special_tokens=True)
            assert counts.tolist() == count_ngrams(text, document.label)


def test_windows_say_which_document_they_are_of(headed: Headed, documents: Any, task_data: Any):
    """Those of a document share a name, in either half too; a document's only one has none."""
    with task_data(headed("bert", "masked-lm"), documents("masked-lm"), "masked-lm", max_length=7) as data:
        numbers = data.corpus.batches.documents
        run = run_trials(data, ARBITRARY[:1], ("loss",))
        halves = [run_trials(data.half(second), [], ("loss",)) for second in (False, True)]
    many = np.bincount(numbers)[numbers] > 1
    assert 0 < many.sum() < len(many)
    for predictions in (run.untouched, *run.masked):
        names = predictions[CLUSTER]
        np.testing.assert_array_equal(names < 0, ~many)
        assert len(set(zip(names[many], numbers[many], strict=True))) == len(set(numbers[many]))
        assert len(set(names[many])) == len(set(numbers[many]))
    second = in_second_half(numbers)
    for kept, half in zip((~second, second), halves, strict=True):
        np.testing.assert_array_equal(half.untouched[CLUSTER], run.untouched[CLUSTER][kept])
        np.testing.assert_allclose(half.untouched["loss"], run.untouched["loss"][kept], rtol=1e-5)


@pytest.mark.parametrize(("name", "kind"), [("bert", "classification"), ("t5", "seq2seq")])
def test_whole_passes_agree(headed: Headed, documents: Any, task_data: Any, name: str, kind: str):
    """Masks whose passes resume from one another give bit for bit what each gives by itself."""
    draw = np.random.default_rng(0)
    with task_data(headed(name, kind), documents(kind), kind) as data:
        masks = [draw.random(data.model.shape) < share for share in np.repeat([0.95, 0.5, 0.1], 3)]
        fast = run_trials(data, masks, ("loss",))
        object.__setattr__(data.model, "gating", Gating(False, ""))
        alone = [run_trials(data, [mask], ("loss",)).masked[0]["loss"] for mask in masks]
    for masked, expected in zip(fast.masked, alone, strict=True):
        np.testing.assert_array_equal(masked["loss"], expected)


def test_nan(headed: Headed, documents: Any, task_data: Any, monkeypatch: pytest.MonkeyPatch):
    with task_data(headed("bert", "classification"), documents("classification")) as data:
        right = data.objective.answer

        def spoilt(batch: Any, untouched: Any = None) -> Answer:
            return Answer(right(batch).loss / 0)

        monkeypatch.setattr(data.objective, "answer", spoilt)
        with pytest.raises(AttnprobeError, match="gives NaN or infinite classification losses; try --dtype"):
            run_trials(data, [], ("loss",))
