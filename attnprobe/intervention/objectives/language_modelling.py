"""Language modelling, masked and causal: cross-entropy of tokens."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from attnprobe.corpus.batch import Batch
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.objectives.objective import (
    Answer,
    Objective,
    compute_margin,
    mean_by_example,
    upcast,
)
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.task_heads import CAUSAL_LM, MASKED_LM
from attnprobe.run.preparation import Corpus

#: Share of a sequence's ordinary tokens that is hidden, at least one.
HIDDEN = 0.15


class MaskedLanguageModel(Objective):
    """Which token stood where a mask stands.

    Of each sequence 15 % of the ordinary tokens are hidden, all of them behind the mask token. Which
    ones depends on the seed and the place of the sequence in the corpus, not on its batch.
    """

    name = "masked-lm"
    about = "Masked language modelling: cross-entropy of hidden tokens, the same ones in every run."
    head = MASKED_LM
    explains = "the mean over hidden tokens of the best logit less that of the runner-up"

    def __init__(self, checkpoint: Checkpoint, seed: int) -> None:
        super().__init__(checkpoint)
        mask = getattr(checkpoint.tokenizer, "mask_token_id", None)
        if mask is None:
            raise AttnprobeError(
                f"The tokenizer of {checkpoint.name} has no mask token; use --objective representation."
            )
        self._mask, self._seed = int(mask), seed
        self._special = list(getattr(checkpoint.tokenizer, "all_special_ids", ()))

    @classmethod
    def bind(cls, checkpoint: Checkpoint, corpus: Corpus, *, seed: int, generate: bool) -> Objective:
        return cls(checkpoint, seed)

    def answer(self, batch: Batch, untouched: Answer | None = None) -> Answer:
        """Compute the mean cross-entropy over each example's hidden tokens, and the share guessed right."""
        hidden = self.hidden(batch)
        ids = batch.ids.masked_fill(hidden, self._mask)
        with narrow_head(self.checkpoint.model, hidden):
            inputs = self.checkpoint.inputs({**batch.inputs, "input_ids": ids})
            logits = self.checkpoint.model(**inputs).logits
        if logits.ndim == 3:  # its head did not let itself be narrowed
            logits = logits[hidden.to(logits.device)]
        right = batch.ids[hidden].to(logits.device)
        example = hidden.nonzero()[:, 0].to(logits.device)
        loss = cross_entropy(upcast(logits), right, reduction="none")
        correct = (logits.argmax(-1) == right).to(loss.dtype)
        mean = mean_by_example(example, len(batch.ids))
        return Answer(
            mean(loss), {"accuracy": mean(correct)}, margin=lambda: mean(compute_margin(upcast(logits)))
        )

    def hidden(self, batch: Batch) -> Tensor:
        """Choose the tokens to hide: True at (batch, position)."""
        assert batch.tokens is not None
        special = batch.tokens.special.cpu().numpy()
        ordinary = ~(special | np.isin(batch.ids.cpu().numpy(), self._special))
        chosen = np.zeros_like(ordinary)
        for row, member in enumerate(batch.members):
            places = np.flatnonzero(ordinary[row])
            if not len(places):  # nothing but special tokens: hide the last of them
                places = np.array([ordinary.shape[1] - 1])
            number = max(1, round(HIDDEN * len(places)))
            draw = np.random.default_rng((self._seed, int(member)))
            chosen[row, draw.choice(places, number, replace=False)] = True
        return torch.from_numpy(chosen)


@contextmanager
def narrow_head(model: Any, places: Tensor) -> Iterator[None]:
    """Pass only the tokens at some places (batch, position) to the last layer of the head: it is wide."""
    last = model.get_output_embeddings()
    if not isinstance(last, nn.Linear):
        yield
        return
    asking = get_ident()

    def narrow(_: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        if get_ident() != asking:  # another thread's pass, with hidden tokens of its own
            return given
        states = given[0]
        fits = states.shape[:2] == places.shape and states.ndim == 3
        return (states[places.to(states.device)], *given[1:]) if fits else given

    hook = last.register_forward_pre_hook(narrow)
    try:
        yield
    finally:
        hook.remove()


class CausalLanguageModel(Objective):
    """Which token comes next, at every place of a text.

    The loss of an example is the mean over its tokens after the first, in nats: the logarithm of its
    perplexity.
    """

    name = "causal-lm"
    about = "Causal language modelling: cross-entropy of every token after the first, given those before it."
    head = CAUSAL_LM
    explains = "the mean over tokens after the first of the best logit less that of the runner-up"
    least = 2

    def answer(self, batch: Batch, untouched: Answer | None = None) -> Answer:
        """Compute the mean cross-entropy over each example's next tokens, and the share named right."""
        logits = self.checkpoint.model(**self.checkpoint.inputs(batch.inputs)).logits[:, :-1]
        right = batch.ids[:, 1:].to(logits.device)
        loss = cross_entropy(upcast(logits).transpose(1, 2), right, reduction="none").mean(-1)
        correct = (logits.argmax(-1) == right).to(torch.float32)
        return Answer(
            loss, {"accuracy": correct.mean(-1)}, margin=lambda: compute_margin(upcast(logits)).mean(-1)
        )
