"""Cross-encoders: how they make one score of two texts, as sentence-transformers does."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnprobe.model.sentence_folders import Prompts, SentenceFolder
from attnprobe.model.task_heads import CLASSIFICATION, find_stated_head, infer_head
from attnprobe.table.cells import clean

#: What is made of a logit, by the last name of the class; the usual one first.
_ACTIVATIONS = {"Sigmoid": torch.sigmoid, "Identity": torch.clone, "Tanh": torch.tanh}
_USUAL = next(iter(_ACTIVATIONS))
#: Under which a configuration names it, since version 4 and before.
_SECTION, _OLD = "sentence_transformers", "sbert_ce_default_activation_function"


@dataclass(frozen=True)
class PairScoring:
    """How a cross-encoder scores two texts, as ``CrossEncoder.predict`` does.

    Attributes:
        activation: What is made of the logit, by the name of its class.
        limit: Most tokens that are read of both texts; None where only the model limits it.
        folder: Where what is beside the transformer lies; None where nothing is.
        unread: Why the score can't be made, a clause; "" where it can.
    """

    activation: str = _USUAL
    limit: int | None = None
    folder: SentenceFolder | None = None
    unread: str = ""

    @classmethod
    def read(cls, folder: SentenceFolder, config: Any) -> "PairScoring | None":
        """Read how a folder scores two texts; None where it is no cross-encoder."""
        if not folder.scores_pairs:
            return None
        further = [module.kind for module in folder.modules[1:]]
        return cls.build(config, folder.described, folder.settings, further, folder)

    @classmethod
    def build(
        cls,
        config: Any,
        described: Mapping[str, Any],
        settings: Mapping[str, Any],
        further: Sequence[str],
        folder: SentenceFolder | None = None,
    ) -> "PairScoring":
        """Read it off a configuration, and off what is said of the whole, its transformer and the rest."""
        activation, limit = _find_activation(config, described), settings.get("max_seq_length")
        shown = settings.get("modality_config")
        labels, prompt = config.num_labels, Prompts.parse(described).choose(None, "")[1]
        unread = ""
        if further:
            unread = f"it is made by {clean(further[0])}"
        elif find_stated_head(config) not in (None, CLASSIFICATION):
            unread = "its transformer is no sequence classifier"
        elif labels != 1:
            unread = f"it predicts {labels} labels, and a score is one number"
        elif activation not in _ACTIVATIONS:
            unread = f"its activation is {clean(activation)}"
        elif prompt or settings.get("do_lower_case") is True or "message" in (shown or ()):
            unread = "texts are changed first (a prompt, a chat template or lower case)"
        return cls(activation, limit if type(limit) is int and limit > 0 else None, folder, unread)

    def describe(self) -> str:
        """Say how a score is made, or why it is not."""
        return self.unread or f"the {self.activation} of the logit of two texts"

    def __call__(self, logits: Tensor) -> Tensor:
        return _ACTIVATIONS[self.activation](logits)


def find_scoring(model: Any) -> PairScoring | None:
    """Find how a model alone scores two texts: a sequence classifier of one label; None for others."""
    config = model.config
    if (infer_head(model) or find_stated_head(config)) is not CLASSIFICATION or config.num_labels != 1:
        return None
    return PairScoring.build(config, {}, {}, ())


def _find_activation(config: Any, described: Mapping[str, Any]) -> str:
    """Find the activation that is named first; names that torch does not own stand for the usual one."""
    section = getattr(config, _SECTION, None)
    own = section.get("activation_fn") if isinstance(section, Mapping) else getattr(config, _OLD, None)
    for named in (described.get("activation_fn"), own):
        if isinstance(named, str) and named.startswith("torch."):
            return named.rpartition(".")[2]
    return _USUAL
