"""Masked language modelling: which tokens are hidden, and the loss of transformers' own interface."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from attnprobe.corpus.document import Document
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.objectives import language_modelling
from attnprobe.intervention.objectives.language_modelling import MaskedLanguageModel
from attnprobe.intervention.task import TaskData
from attnprobe.model.checkpoint import Checkpoint

Headed = Callable[..., Checkpoint]
ARCHITECTURES = ("bert", "modernbert", "roberta")
WORDS = "the river bank was slow and a bird ran over red house water light".split()  # noqa: SIM905


def places(bench: TaskData) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for batch in bench.corpus.batches:
        for member, row in zip(batch.members, bench.objective.hidden(batch), strict=True):
            found[int(member)] = row.nonzero()[:, 0].tolist()
    return dict(sorted(found.items()))


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_loss(headed: Headed, documents: Any, benched: Any, inputs_of: Any, name: str):
    """One text at a time, with labels where a token is hidden and -100 elsewhere."""
    checkpoint, some = headed(name, "masked-lm"), documents("masked-lm")
    some = [*some, Document(" ".join(WORDS * 2))]  # more than one hidden
    mask, seen = checkpoint.tokenizer.mask_token_id, 0
    with benched(checkpoint, some) as bench:
        assert bench.objective.name == "masked-lm"
        hidden = places(bench)
        assert max(map(len, hidden.values())) >= 4
        for batch in bench.corpus.batches:
            answer = bench.objective.answer(batch)
            for row, member in enumerate(batch.members):
                inputs = inputs_of(checkpoint.tokenizer, some[member])
                labels = torch.full_like(inputs["input_ids"], -100)
                for place in hidden[member]:
                    labels[0, place] = inputs["input_ids"][0, place]
                inputs["input_ids"] = inputs["input_ids"].clone()
                inputs["input_ids"][0, hidden[member]] = mask
                given = checkpoint.model(**inputs, labels=labels)
                assert answer.loss[row].item() == pytest.approx(given.loss.item(), rel=2e-5, abs=1e-5)
                logits = given.logits.view(-1, given.logits.shape[-1])
                guesses = logits[-labels.numel() :].argmax(-1) if len(logits) == labels.numel() else None
                if guesses is not None:
                    right = [(guesses[place] == labels[0, place]).item() for place in hidden[member]]
                    assert answer.value("accuracy")[row] == pytest.approx(np.mean(right))
                seen += 1
    assert seen == len(some)


def test_pad_tokens_in_a_text(headed: Headed, benched: Any, inputs_of: Any):
    """XLM is given the mask of ones that its tokenizer gives, and so the loss is that of transformers."""
    checkpoint, some = headed("xlm", "masked-lm"), [Document("the river [PAD] bank [PAD] was slow")]
    with benched(checkpoint, some) as bench:
        (batch,) = bench.corpus.batches
        inputs = inputs_of(checkpoint.tokenizer, some[0])
        ids = inputs["input_ids"].clone()
        assert (ids == checkpoint.model.config.pad_index).sum() == 2
        hidden = bench.objective.hidden(batch)
        inputs["input_ids"] = ids.masked_fill(hidden, checkpoint.tokenizer.mask_token_id)
        labels = ids.masked_fill(~hidden, -100)
        guessed = checkpoint.model(**inputs, labels=labels).loss.item()
        ones = torch.ones_like(ids)
        expected = checkpoint.model(**inputs, attention_mask=ones, labels=labels).loss.item()
        assert abs(guessed - expected) > 1e-3
        assert bench.objective.answer(batch).loss.item() == pytest.approx(expected, rel=2e-5)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_narrowed_head_gives_the_same(
    headed: Headed, documents: Any, benched: Any, monkeypatch: pytest.MonkeyPatch, name: str
):
    checkpoint = headed(name, "masked-lm")
    rows: list[int] = []
    last = checkpoint.model.get_output_embeddings()
    with benched(checkpoint, documents("masked-lm")) as bench:
        hook = last.register_forward_hook(lambda _, given, found: rows.append(found[..., 0].numel()))
        narrowed = [bench.objective.answer(batch) for batch in bench.corpus.batches]
        hook.remove()
        monkeypatch.setattr(language_modelling, "narrow_head", lambda *_: nullcontext())
        whole = [bench.objective.answer(batch) for batch in bench.corpus.batches]
        hidden = [int(bench.objective.hidden(batch).sum()) for batch in bench.corpus.batches]
    for one, other in zip(narrowed, whole, strict=True):
        torch.testing.assert_close(one.loss, other.loss, rtol=2e-5, atol=1e-5)
        assert torch.equal(one.scores["accuracy"], other.scores["accuracy"])
    assert not last._forward_pre_hooks
    if name != "mobilebert":  # multiplies by the weights of its head without calling it
        assert rows == hidden


class TestHidden:
    def test_seed_and_place_decide(self, headed: Headed, benched: Any):
        text = Document(" ".join(WORDS * 3))
        found = []
        for seed in (42, 42, 43):
            with benched(headed("bert", "masked-lm"), [text] * 4, seed=seed) as bench:
                found.append(places(bench))
        assert found[0] == found[1]
        assert found[0] != found[2]
        assert len({tuple(chosen) for chosen in found[0].values()}) == 4  # every example its own

    @pytest.mark.parametrize("name", ["bert", "roberta", "bert-unframed"])
    def test_share(self, headed: Headed, benched: Any, name: str):
        """15 % of the ordinary tokens, at least one, never a special one."""
        checkpoint = headed(name, "masked-lm")
        special = {
            getattr(checkpoint.tokenizer, f"{kind}_token_id") for kind in ("cls", "sep", "pad", "bos", "eos")
        }
        some = [Document(" ".join((WORDS * 5)[:length])) for length in range(1, 60)]
        some += [Document("the dog", "a cat ran"), Document("!"), Document("is it [SEP] late </s> now")]
        with benched(checkpoint, some) as bench:
            hidden = places(bench)
            store = bench.corpus.batches.source.store
            for member, chosen in hidden.items():
                ids = store.ids(member)
                ordinary = [place for place, token in enumerate(ids) if int(token) not in special]
                assert set(chosen) <= set(ordinary)
                assert len(chosen) == max(1, round(0.15 * len(ordinary)))
        assert sum(map(len, hidden.values())) > 100

    def test_input_is_masked_there_and_nowhere_else(self, headed: Headed, documents: Any, benched: Any):
        checkpoint = headed("bert", "masked-lm")
        with benched(checkpoint, documents("masked-lm")) as bench:
            given: list[Tensor] = []
            hook = checkpoint.model.register_forward_pre_hook(
                lambda _, __, options: given.append(options["input_ids"]), with_kwargs=True
            )
            batches = list(bench.corpus.batches)
            for batch in batches:
                bench.objective.answer(batch)
            hook.remove()
            for batch, ids in zip(batches, given, strict=True):
                hidden = bench.objective.hidden(batch)
                assert (ids[hidden] == checkpoint.tokenizer.mask_token_id).all()
                assert torch.equal(ids[~hidden], batch.ids[~hidden])


def test_no_mask(headed: Headed):
    with pytest.raises(AttnprobeError, match=r"t5 .* its tokenizer has no mask token"):
        MaskedLanguageModel.check(headed("t5", "representation"))
