"""Causal language modelling: cross-entropy of every token after the first, given those before it."""

import torch
from torch.nn.functional import cross_entropy

from attnprobe.corpus.batches.batch import Batch
from attnprobe.intervention.objectives.objective import Answer, Objective, ahead, precise
from attnprobe.model.loading.task_heads import CAUSAL_LM


class CausalLanguageModel(Objective):
    """Which token comes next, at every place of a text.

    The loss of an example is the mean over its tokens after the first, in nats: the logarithm of its
    perplexity.
    """

    name = "causal-lm"
    head = CAUSAL_LM
    metrics = ("loss", "accuracy")
    explains = "the mean over tokens after the first of the best logit less that of the runner-up"
    least = 2

    def answer(self, batch: Batch, untouched: Answer | None = None) -> Answer:
        """Give the mean cross-entropy over each example's next tokens, and the share named right."""
        logits = self.checkpoint.model(**self.checkpoint.inputs(batch.inputs)).logits[:, :-1]
        right = batch.ids[:, 1:].to(logits.device)
        loss = cross_entropy(precise(logits).transpose(1, 2), right, reduction="none").mean(-1)
        correct = (logits.argmax(-1) == right).to(torch.float32)
        return Answer(loss, {"accuracy": correct.mean(-1)}, margin=lambda: ahead(precise(logits)).mean(-1))
