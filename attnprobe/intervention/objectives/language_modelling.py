"""Language modelling, masked, causal and from sequence to sequence: cross-entropy of tokens."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import get_ident
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from attnprobe.corpus.batch import Batch
from attnprobe.errors import ModelError
from attnprobe.intervention.metrics.score import TEXT_METRICS, count_ngrams
from attnprobe.intervention.objectives.objective import (
    Answer,
    Objective,
    compute_margin,
    list_labels,
    mean_by_example,
    upcast,
)
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.task_heads import CAUSAL_LM, MASKED_LM, SEQ2SEQ, SPEECH
from attnprobe.run.corpus import Corpus
from attnprobe.run.examples import tokenise_targets

#: Share of a sequence's ordinary tokens that is hidden, at least one.
HIDDEN = 0.15


def fills_masks(checkpoint: Checkpoint) -> bool:
    """Tell whether a checkpoint is an encoder that fills masks."""
    mask = getattr(checkpoint.tokenizer, "mask_token_id", None)
    return mask is not None and not checkpoint.model.config.is_encoder_decoder


class MaskedLanguageModel(Objective):
    """Masked language modelling: cross-entropy of hidden tokens, the same ones in every run.

    Of each sequence 15 % of the ordinary tokens are hidden behind the mask token. Which ones depends on the
    seed and the place of the sequence in the corpus, not on its batch.
    """

    name = "masked-lm"
    head = MASKED_LM
    explains = "the mean over hidden tokens of the best logit less that of the runner-up"

    @classmethod
    def check(cls, checkpoint: Checkpoint) -> None:
        if not fills_masks(checkpoint):
            why = "fills masks with its decoder, or its tokenizer has no mask token"
            raise ModelError(f"{checkpoint.name} {why}; choose --objective seq2seq or representation.")

    def answer(self, batch: Batch, untouched: Answer | None = None) -> Answer:
        hidden = self.choose_hidden(batch)
        tokenizer: Any = self.checkpoint.tokenizer
        masked = {**batch.inputs, "input_ids": batch.ids.masked_fill(hidden, tokenizer.mask_token_id)}
        logits = upcast(read_tokens(self.checkpoint, masked, hidden))
        right = batch.ids[hidden].to(logits.device)
        mean = mean_by_example(hidden.nonzero()[:, 0].to(logits.device), len(batch.ids))
        loss = cross_entropy(logits, right, reduction="none")
        correct = (logits.argmax(-1) == right).to(loss.dtype)
        return Answer(mean(loss), {"accuracy": mean(correct)}, margin=lambda: mean(compute_margin(logits)))

    def choose_hidden(self, batch: Batch) -> Tensor:
        """Choose the tokens to hide: True at (batch, position)."""
        assert batch.tokens is not None
        special = [*getattr(self.checkpoint.tokenizer, "all_special_ids", ())]
        ordinary = ~(batch.tokens.special.cpu().numpy() | np.isin(batch.ids.cpu().numpy(), special))
        chosen = np.zeros_like(ordinary)
        for row, member in enumerate(batch.members):
            places = np.flatnonzero(ordinary[row])
            if not len(places):  # nothing but special tokens: hide the last of them
                places = np.array([ordinary.shape[1] - 1])
            number = max(1, round(HIDDEN * len(places)))
            draw = np.random.default_rng((self.seed, int(member)))
            chosen[row, draw.choice(places, number, replace=False)] = True
        return torch.from_numpy(chosen)


def read_tokens(checkpoint: Checkpoint, inputs: Mapping[str, Tensor], places: Tensor) -> Tensor:
    """Run a language model, and return its logits at the chosen places (batch, position): (place, class)."""
    with narrow_head(checkpoint.model, places):
        logits = checkpoint.model(**checkpoint.inputs(inputs)).logits
    return logits[places.to(logits.device)] if logits.ndim == 3 else logits  # some heads are not narrowed


@contextmanager
def narrow_head(model: Any, places: Tensor) -> Iterator[None]:
    """Give a linear output layer only the states that ``places`` (batch, position) marks."""
    last = model.get_output_embeddings()
    if not isinstance(last, nn.Linear):
        yield
        return
    thread = get_ident()

    def narrow(_: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        if get_ident() != thread:  # another thread's pass, with other hidden tokens
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
    """Causal language modelling: cross-entropy of every token after the first, given those before it.

    The loss of an example is the mean over tokens, in nats: the logarithm of its perplexity.
    """

    name = "causal-lm"
    head = CAUSAL_LM
    explains = "the mean over tokens after the first of the best logit less that of the runner-up"
    least = 2

    def answer(self, batch: Batch, untouched: Answer | None = None) -> Answer:
        return _answer_tokens(self.ask(batch).logits[:, :-1], batch.ids[:, 1:])


class SequenceToSequence(Objective):
    """Sequence to sequence: cross-entropy of the target text, and the text that is generated.

    The label is the target text: a translation, a summary. ``targets`` are the token ids of each; those of a
    batch agree in their length.
    """

    name = "seq2seq"
    head = SEQ2SEQ
    has_targets = True
    other_heads: ClassVar = {"sound": SPEECH}
    builders = TEXT_METRICS
    explains = "the mean over target tokens of the best logit less that of the runner-up"

    def read_labels(self, corpus: Corpus) -> None:
        self.references = [str(label) for label in list_labels(corpus)]
        self.targets = tokenise_targets(self.checkpoint, self.references)

    def answer(self, batch: Batch, untouched: Answer | None = None) -> Answer:
        """Answer by the target, or, where text is generated, with ``ngrams``, the counts of BLEU."""
        if not self.resumable:
            pairs = zip(self.generate(batch), batch.members, strict=True)
            counts = [count_ngrams(text, self.references[member]) for text, member in pairs]
            return Answer(torch.full((len(batch),), torch.nan), {"ngrams": torch.tensor(counts)})
        targets = torch.tensor([self.targets[member] for member in batch.members])
        given = self.ask(batch, labels=targets.to(self.checkpoint.device))
        return _answer_tokens(given.logits, targets)

    def generate(self, batch: Batch) -> list[str]:
        """Generate greedily for a batch, up to twice as many tokens as the longest target of all examples."""
        model: Any = self.checkpoint.model
        tokenizer: Any = self.checkpoint.target_tokenizer or self.checkpoint.tokenizer
        inputs = self.checkpoint.inputs(batch.inputs)
        for name in ("decoder_input_ids", "use_cache"):
            inputs.pop(name, None)
        if "input_ids" in inputs:
            inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
        longest = 2 * max(map(len, self.targets))
        ids = model.generate(**inputs, max_new_tokens=longest, do_sample=False, num_beams=1)
        return tokenizer.batch_decode(ids, skip_special_tokens=True)


def _answer_tokens(logits: Tensor, right: Tensor) -> Answer:
    """Answer with means over the tokens of each example, from logits (batch, token, class)."""
    logits, right = upcast(logits), right.to(logits.device)
    loss = cross_entropy(logits.transpose(1, 2), right, reduction="none").mean(-1)
    accuracy = (logits.argmax(-1) == right).to(loss.dtype).mean(-1)
    return Answer(loss, {"accuracy": accuracy}, margin=lambda: compute_margin(logits).mean(-1))
