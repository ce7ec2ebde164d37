"""A checkpoint ready to be asked: an encoder, its tokenizer, and where they came from."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from attnprobe.errors import AttnprobeError
from attnprobe.model.heads import TaskHead
from attnprobe.model.spreading import devices_of, running_device
from attnprobe.text.tokenization import Tokenizer

#: Tokenizers without a limit of their own report an absurdly large number.
NO_LIMIT = 1_000_000
#: Where neither tokenizer nor configuration sets a limit (T5), windows are this long by default.
WITHOUT_LIMIT = 512


@dataclass(frozen=True)
class Checkpoint:
    """An encoder and its tokenizer.

    Attributes:
        name: What the user calls it; the ``model`` column of every table.
        model: The checkpoint as it was loaded or handed over.
        tokenizer: Its tokenizer.
        origin: Where the weights came from: folder, hub commit, hashes.
        unused: Weights that the encoder does not use, such as those of a trained head.
        missing: Weights of the encoder that the checkpoint lacks.
        folder: Where its files lie, or None for a model that was handed over.
        head: The task head that was loaded along, every weight of it from the checkpoint, or forced.
        target_tokenizer: The tokenizer of targets, where they are spelled differently: a folder of that
            name inside the checkpoint.
    """

    name: str
    model: PreTrainedModel
    tokenizer: Tokenizer
    origin: dict[str, Any] = field(default_factory=dict)
    unused: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    folder: Path | None = None
    head: TaskHead | None = None
    target_tokenizer: Tokenizer | None = None

    @property
    def encoder(self) -> PreTrainedModel:
        """The part that is asked: no task head; of an encoder-decoder model, its encoder."""
        body = cast(PreTrainedModel, self.model.base_model)
        if self.model.config.is_encoder_decoder:
            body = cast(PreTrainedModel, body.get_encoder())
        return body

    @property
    def device(self) -> torch.device:
        """Where token ids are looked up; the rest of a model that is spread may be elsewhere."""
        try:
            table = self.encoder.get_input_embeddings()
        except NotImplementedError:  # in code that comes with a checkpoint
            return self.encoder.device
        return running_device(table, self.encoder.device)

    @property
    def devices(self) -> str:
        """Every device that the model is on."""
        return ", ".join(devices_of(self.model)) or str(self.device)

    @property
    def model_type(self) -> str:
        """The architecture, as ``config.model_type`` names it."""
        return self.model.config.model_type

    @property
    def longest(self) -> int | None:
        """Most tokens the encoder takes, or None without a limit."""
        return longest_input(self.model, self.tokenizer)

    @property
    def embeddings(self) -> int | None:
        """How many tokens the encoder has embeddings for, or None where it does not tell."""
        try:
            table = self.encoder.get_input_embeddings()
        except NotImplementedError:  # in code that comes with a checkpoint
            return None
        weight = getattr(table, "weight", None)  # I-BERT's table is quantised, and no nn.Embedding
        return weight.shape[0] if isinstance(weight, Tensor) else None

    def forward(self, ids: Tensor, types: Tensor | None = None) -> Tensor:
        """Run the encoder on unpadded sequences (batch, position).

        Returns:
            The last hidden state (batch, position, width).
        """
        with torch.inference_mode():
            return self.encoder(**self.inputs(ids, types))[0]

    def inputs(self, ids: Tensor, types: Tensor | None = None) -> dict[str, Tensor]:
        """Name what the model is given for unpadded sequences (batch, position)."""
        device = self.device
        inputs = {"input_ids": ids.to(device)}
        if types is not None and "token_type_ids" in self.tokenizer.model_input_names:
            self._check_types(types)
            inputs["token_type_ids"] = types.to(device)
        return inputs

    def _check_types(self, types: Tensor) -> None:
        known = getattr(self.encoder.config, "type_vocab_size", None)
        if not known:  # DeBERTa is given types and has no use for them: separators part its pairs
            return
        if isinstance(known, int) and int(types.max()) >= known:
            raise AttnprobeError(
                f"{self.name} was not made for pairs: it knows {known} token type; leave out the second text."
            )


def longest_input(model: PreTrainedModel, tokenizer: Tokenizer) -> int | None:
    """Find the most tokens a model takes: the least of what tokenizer and positions allow."""
    limits = []
    stated = getattr(tokenizer, "model_max_length", None)
    if stated is not None and stated < NO_LIMIT:
        limits.append(int(stated))
    config = model.config.get_text_config()
    for name in ("max_position_embeddings", "max_encoder_position_embeddings"):
        positions = getattr(config, name, None)
        if isinstance(positions, int) and positions > 0:
            limits.append(positions - _reserved_positions(model))
    return min(limits, default=None)


def _reserved_positions(model: PreTrainedModel) -> int:
    """Count positions a table keeps for padding: RoBERTa numbers tokens from ``padding_idx + 1``."""
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            return 0 if module.padding_idx is None else module.padding_idx + 1
    return 0


def check_window(requested: int | None, checkpoint: Checkpoint) -> int:
    """Settle the length of windows: what was asked for, or what the model takes."""
    longest = checkpoint.longest
    if requested is None:
        return longest or WITHOUT_LIMIT
    if longest is not None and requested > longest:
        raise AttnprobeError(
            f"--max-length {requested} is more than the {longest} tokens that {checkpoint.name} takes."
        )
    return requested
