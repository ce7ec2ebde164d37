"""Sequence to sequence: cross-entropy of the target text, and the text that is generated."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy

from attnprobe.corpus.batch import Batch
from attnprobe.corpus.sources.document import Label
from attnprobe.intervention.metrics.score import Score
from attnprobe.intervention.metrics.scores import bleu
from attnprobe.intervention.objectives.objective import Answer, Objective, compute_margin, upcast
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.task_heads import SEQ2SEQ, SPEECH
from attnprobe.run.examples import tokenise_targets
from attnprobe.run.preparation import Corpus


class SequenceToSequence(Objective):
    """Which text answers a text: a translation, a summary. The label is the target text.

    ``targets`` are the token ids of every example's target; those of a batch agree in their length.
    """

    name = "seq2seq"
    about = "Sequence to sequence: cross-entropy of the target text, and the text that is generated."
    head = SEQ2SEQ
    has_targets = True
    other_heads: ClassVar = {"sound": SPEECH}
    explains = "the mean over target tokens of the best logit less that of the runner-up"

    def __init__(
        self, checkpoint: Checkpoint, labels: Mapping[int, Label], examples: int, *, generate: bool = False
    ) -> None:
        """Tokenise the targets; with ``generate``, answers carry generated text."""
        super().__init__(checkpoint)
        self.references = [str(labels[example]) for example in range(examples)]
        self.known = {"reference": np.array(self.references, dtype=object)}
        self._generate = generate
        self.resumable = not generate
        self._tokenizer: Any = checkpoint.target_tokenizer or checkpoint.tokenizer
        self.targets = tokenise_targets(checkpoint, self.references)
        self._longest = max(map(len, self.targets))

    @classmethod
    def bind(cls, checkpoint: Checkpoint, corpus: Corpus, *, seed: int, generate: bool) -> Objective:
        return cls(checkpoint, corpus.batches.labels, corpus.sequences, generate=generate)

    def build_metric(self, name: str, examples: NDArray[np.int64]) -> Score:
        return bleu() if name == "bleu" else super().build_metric(name, examples)

    def answer(self, batch: Batch, untouched: Answer | None = None) -> Answer:
        """Compute the mean cross-entropy over each example's target, and the share of tokens right."""
        inputs = self.checkpoint.inputs(batch.inputs)
        inputs.pop("decoder_input_ids", None)  # made from the labels, or generated
        if self._generate:
            return Answer(torch.full((len(batch),), torch.nan), texts=self._generate_texts(inputs))
        chosen = [self.targets[member] for member in batch.members]
        targets = torch.tensor(chosen, device=self.checkpoint.device)
        logits = upcast(self.checkpoint.model(**inputs, labels=targets).logits)
        targets = targets.to(logits.device)
        loss = cross_entropy(logits.transpose(1, 2), targets, reduction="none").mean(-1)
        accuracy = (logits.argmax(-1) == targets).to(loss.dtype).mean(-1)
        return Answer(loss, {"accuracy": accuracy}, margin=lambda: compute_margin(logits).mean(-1))

    def _generate_texts(self, inputs: dict[str, torch.Tensor]) -> list[str]:
        """Generate greedily, up to twice the longest target."""
        model: Any = self.checkpoint.model
        inputs.pop("use_cache", None)
        ids = model.generate(
            **inputs,
            **({"attention_mask": torch.ones_like(inputs["input_ids"])} if "input_ids" in inputs else {}),
            max_new_tokens=2 * self._longest,
            do_sample=False,
            num_beams=1,
        )
        return self._tokenizer.batch_decode(ids, skip_special_tokens=True)
