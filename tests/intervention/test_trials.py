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
Cut = NDArray[np.bool_]


def without(*heads: tuple[int, int]) -> Cut:
    cut = np.ones(SHAPE, bool)
    for head in heads:
        cut[head] = False
    return cut


def with_decoder(cut: Cut) -> Cut:
    """Cut a decoder's two layers of self-attention and two of cross-attention too, in turns."""
    return np.concatenate([cut, np.roll(cut, 1, 1), cut[:1]])


ARBITRARY = [
    without((0, 1), (2, 3)),
    without((1, 0), (1, 2), (2, 0), (2, 1), (2, 2), (2, 3)),
    without(*np.ndindex(SHAPE)),
    without(),
    without((2, 0), (0, 0), (1, 0)),
]
SOME = [
    *mask_each_head(*SHAPE)[::5],
    keep_each_head(*SHAPE)[1],
    keep_each_head(*SHAPE)[10],
    *ARBITRARY,
]


def test_classification(headed: Headed, documents: Any, benched: Any, cut_by_hand: Any, inputs_of: Any):
    checkpoint, some = headed("bert", "classification"), documents("classification")
    with benched(checkpoint, some) as bench:
        found = run_trials(bench, SOME, ("label", "prediction", "accuracy", "loss"))
    for cut, outcome in zip([without(), *SOME], [found.untouched, *found.masked], strict=True):
        model = cut_by_hand(checkpoint.model, cut)
        for example, document in enumerate(some):
            given = model(**inputs_of(checkpoint.tokenizer, document), labels=torch.tensor([document.label]))
            assert outcome["loss"][example] == pytest.approx(given.loss.item(), rel=2e-5, abs=2e-6)
            assert outcome["prediction"][example] == given.logits.argmax().item()
            assert outcome["accuracy"][example] == (given.logits.argmax().item() == document.label)
            assert outcome["label"][example] == document.label
    losses = np.stack([outcome["loss"] for outcome in [found.untouched, *found.masked]])
    assert len({row.tobytes() for row in losses}) == len(SOME)  # one cut leaves all on, the others differ


@pytest.mark.parametrize("name", ["bert", "t5"])
def test_representation(
    headed: Headed, documents: Any, benched: Any, cut_by_hand: Any, inputs_of: Any, name: str
):
    checkpoint = headed(name, "representation")
    some = [d for d in documents("representation") if d.pair is None]
    with benched(checkpoint, some) as bench:
        cuts = [with_decoder(cut) for cut in SOME] if checkpoint.decodes else SOME
        found = run_trials(bench, cuts, ("similarity",))
    np.testing.assert_allclose(found.untouched["similarity"], 1, atol=1e-6)

    def pooled(model: Any, document: Any) -> torch.Tensor:
        inputs = inputs_of(checkpoint.tokenizer, document)
        if checkpoint.decodes:
            ids = inputs["input_ids"][0].tolist()
            inputs["decoder_input_ids"] = torch.tensor([checkpoint.shift_right(ids)])
        return model(**inputs)[0].mean(1)

    whole = [pooled(checkpoint.model, document) for document in some]
    for cut, outcome in zip(cuts, found.masked, strict=True):
        model = cut_by_hand(checkpoint.model, cut)
        expected = [cosine_similarity(pooled(model, d), h).item() for d, h in zip(some, whole, strict=True)]
        np.testing.assert_allclose(outcome["similarity"], expected, atol=3e-6)
        assert cut.all() or outcome["similarity"].max() < 1 - 1e-5


@pytest.mark.parametrize(
    ("kind", "needs"),
    [
        ("token-classification", ("loss", "words", "entities")),
        ("question-answering", ("loss", "f1", "exact_match")),
        ("regression", ("label", "prediction", "mse")),
        ("multi-label", ("loss", "label", "prediction", "accuracy")),
    ],
)
def test_heads_off_by_hand(
    headed: Headed, documents: Any, benched: Any, sessions: Any, cut_by_hand: Any, kind: str, needs: Any
):
    """What the model says with columns zeroed and no gates; that its loss is right is tested elsewhere."""
    checkpoint, some = headed("bert", kind), documents(kind)
    with benched(checkpoint, some) as bench:
        found = run_trials(bench, SOME, needs)
    for cut, outcome in zip(SOME, found.masked, strict=True):
        by_hand = replace(checkpoint, model=cut_by_hand(checkpoint.model, cut))
        model = replace(bench.model, checkpoint=by_hand)  # all its heads off would do nothing to check
        session = sessions(by_hand, TaskOptions(kind), CorpusOptions(batch_tokens=1))
        with session.bind(model, some, Run()) as cut_bench:
            expected = run_trials(cut_bench, [], needs).untouched
        for one in needs:
            np.testing.assert_allclose(outcome[one], expected[one], rtol=3e-5, atol=3e-6)


def test_generated_text(headed: Headed, documents: Any, benched: Any, cut_by_hand: Any, inputs_of: Any):
    checkpoint, some = headed("t5", "seq2seq"), documents("seq2seq")[:4]
    cuts = [with_decoder(cut) for cut in (without((0, 1), (2, 3)), without(*np.ndindex(SHAPE)))]
    cuts.append(np.concatenate([without(), cuts[0][3:]]))  # of the decoder only
    with benched(checkpoint, some, generate=True) as bench:
        longest = 2 * max(map(len, bench.objective.targets))
        found = run_trials(bench, cuts, ("ngrams",))
    for cut, outcome in zip([with_decoder(without()), *cuts], [found.untouched, *found.masked], strict=True):
        model = cut_by_hand(checkpoint.model, cut)
        for counts, document in zip(outcome["ngrams"], some, strict=True):
            inputs = inputs_of(checkpoint.tokenizer, document)
            inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
            ids = model.generate(**inputs, max_new_tokens=longest, do_sample=False, num_beams=1)
            text = checkpoint.tokenizer.decode(ids[0], skip_special_tokens=True)
            assert counts.tolist() == count_ngrams(text, document.label)


def test_windows_say_which_document_they_are_of(headed: Headed, documents: Any, benched: Any):
    """Those of a document share a name, in either half too; a document's only one has none."""
    with benched(headed("bert", "masked-lm"), documents("masked-lm"), "masked-lm", max_length=7) as bench:
        of = bench.corpus.batches.documents
        found = run_trials(bench, ARBITRARY[:1], ("loss",))
        halves = [run_trials(bench.half(which), [], ("loss",)) for which in (False, True)]
    for outcome in (found.untouched, *found.masked):
        names = outcome[CLUSTER]
        many = np.bincount(of)[of] > 1
        assert many.any()
        assert not many.all()
        np.testing.assert_array_equal(names < 0, ~many)
        assert len(set(zip(names[many], of[many], strict=True))) == len(set(of[many]))
        assert len(set(names[many])) == len(set(of[many]))
    second = in_second_half(of)
    for kept, half in zip((~second, second), halves, strict=True):
        np.testing.assert_array_equal(half.untouched[CLUSTER], found.untouched[CLUSTER][kept])
        np.testing.assert_allclose(half.untouched["loss"], found.untouched["loss"][kept], rtol=1e-5)


@pytest.mark.parametrize(("name", "kind"), [("bert", "classification"), ("t5", "seq2seq")])
def test_whole_passes_agree(headed: Headed, documents: Any, benched: Any, name: str, kind: str):
    """Cuts that go on from one another give bit for bit what each gives by itself."""
    draw = np.random.default_rng(0)
    with benched(headed(name, kind), documents(kind), kind) as bench:
        cuts = [draw.random(bench.model.shape) < share for share in np.repeat([0.95, 0.5, 0.1], 3)]
        fast = run_trials(bench, cuts, ("loss",))
        object.__setattr__(bench.model, "gating", Gating(False, ""))
        alone = [run_trials(bench, [cut], ("loss",)).masked[0]["loss"] for cut in cuts]
    for outcome, expected in zip(fast.masked, alone, strict=True):
        np.testing.assert_array_equal(outcome["loss"], expected)


def test_nan(headed: Headed, documents: Any, benched: Any, monkeypatch: pytest.MonkeyPatch):
    with benched(headed("bert", "classification"), documents("classification")) as bench:
        right = bench.objective.answer

        def spoilt(batch: Any, untouched: Any = None) -> Answer:
            return Answer(right(batch).loss / 0)

        monkeypatch.setattr(bench.objective, "answer", spoilt)
        with pytest.raises(AttnprobeError, match="gives NaN or infinite classification losses; try --dtype"):
            run_trials(bench, [], ("loss",))
