"""A loaded checkpoint: a model, its tokenizer or processor, and their origin."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import MODEL_MAPPING, PreTrainedConfig, PreTrainedModel

from attnprobe.corpus.media import BOTH
from attnprobe.corpus.tokenizer import Tokenizer
from attnprobe.errors import UsageError
from attnprobe.model.embedding import NO_LIMIT, Embedding
from attnprobe.model.folders import SentenceFolder
from attnprobe.model.private import list_execution_devices
from attnprobe.model.processing import Processor, SeeingProcessor
from attnprobe.model.quirks import GUESS_PADDING, UnsupportedModelError, make_defaults, reads_both
from attnprobe.model.task_heads import TaskHead

#: The names of models' inputs, by modality.
INPUTS = {"text": {"input_ids"}, "image": {"pixel_values"}, "sound": {"input_values", "input_features"}}
TEXT = "text"
#: The length of windows where neither tokenizer nor configuration sets a limit.
WITHOUT_LIMIT = 512


def list_devices(model: nn.Module) -> list[str]:
    """List the devices that a model is spread over, with "disk"; empty if it is on one."""
    placed = (getattr(model, "hf_device_map", None) or {}).values()
    devices = {"disk" if device == "disk" else str(torch.device(device)): None for device in placed}
    return list(devices) if len(devices) > 1 or "disk" in devices else []


@cache
def list_forward_parameters(kind: type) -> frozenset[str]:
    """List the parameters of the forward pass of a class of models."""
    return frozenset(inspect.signature(kind.forward).parameters)  # type: ignore[attr-defined]


def list_modalities(kind: type) -> list[str]:
    """List which of text, image and sound a class of models reads."""
    return [modality for modality, names in INPUTS.items() if names & list_forward_parameters(kind)]


@dataclass(frozen=True)
class Checkpoint:
    """A model and its tokenizer or processor."""

    name: str
    model: PreTrainedModel
    tokenizer: Tokenizer
    origin: dict[str, Any] = field(default_factory=dict)
    unused: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    folder: Path | None = None
    head: TaskHead | None = None
    target_tokenizer: Tokenizer | None = None
    encoder_only: bool = False
    modality: str = "text"  # or "image" or "sound", or "image+text" where both are read together
    processor: Processor | SeeingProcessor | None = None
    tower: str = ""  # the submodule that is read, of a model with one for each modality
    kept: NDArray[np.bool_] | None = None  # (layer, head) of the weights of a pruned checkpoint
    embedding: Embedding | None = None
    quantisation: str = ""
    scores_pairs: bool = False  # a cross-encoder of sentence-transformers, a classifier of two texts
    sentences: SentenceFolder | None = None
    remarks: tuple[str, ...] = ()  # warnings, as sentences without full stops

    @property
    def body(self) -> PreTrainedModel:
        """The part that is read: the model without its task head, its encoder only, or one tower."""
        body: Any = strip_head(self.model).get_submodule(self.tower)
        return body.get_encoder() if self.model.config.is_encoder_decoder and self.encoder_only else body

    @property
    def removed(self) -> tuple[tuple[int, int], ...]:
        """The heads (layer, head) that its weights lack."""
        lost: Any = () if self.kept is None else np.argwhere(~self.kept).tolist()
        return tuple(map(tuple, lost))

    @property
    def forward_model(self) -> PreTrainedModel:
        """The model whose forward pass is run: the body, or the one around it that reads images first."""
        return strip_head(self.model) if self.modality == BOTH else self.body

    @property
    def decodes(self) -> bool:
        """Whether a decoder beside an encoder is read, with a text of its own."""
        return bool(self.model.config.is_encoder_decoder) and not (self.encoder_only or self.tower)

    @property
    def device(self) -> torch.device:
        """The device of the table of embeddings; other parts of a spread model may be elsewhere."""
        usual = torch.device("cpu") if self.body.device.type == "meta" else self.body.device
        return (
            usual
            if self._embedding_table is None
            else next(list_execution_devices(self._embedding_table), usual)
        )

    @property
    def devices(self) -> str:
        return ", ".join(list_devices(self.model)) or str(self.device)

    @property
    def model_type(self) -> str:
        return self.model.config.model_type

    @property
    def longest(self) -> int | None:
        """The most tokens that tokenizer and positions of the model allow; None without a limit."""
        stated = getattr(self.tokenizer, "model_max_length", None)
        limits = [] if stated is None or stated >= NO_LIMIT else [int(stated)]
        modules = self.model.named_modules()
        tables = (module for name, module in modules if name.endswith("position_embeddings"))
        padding = next((table.padding_idx for table in tables if isinstance(table, nn.Embedding)), None)
        reserved = 0 if padding is None else padding + 1  # from where RoBERTa numbers tokens
        config = self.model.config.get_text_config()
        for name in ("max_position_embeddings", "max_encoder_position_embeddings"):
            positions = getattr(config, name, None)
            if isinstance(positions, int) and positions > 0:
                limits.append(positions - reserved)
        return min(limits, default=None)

    @property
    def prompts(self) -> Mapping[str, str]:
        """The prompts before texts, by role; "" for texts without one."""
        return {"": ""} if self.embedding is None else self.embedding.prompts

    @property
    def embedded_length(self) -> int | None:
        """The most tokens of a text that an embedding model reads; None of any other model."""
        limits = () if self.embedding is None else (self.embedding.limit, self.longest)
        return min((limit for limit in limits if limit is not None), default=None)

    @property
    def longest_target(self) -> int | None:
        """The most tokens that a decoder beside an encoder takes; None without a limit."""
        names = ("max_decoder_position_embeddings", "max_target_positions")
        stated = (getattr(self.model.config, name, None) for name in names)
        return min((limit for limit in stated if isinstance(limit, int)), default=self.longest)

    @property
    def embeddings(self) -> int | None:
        """The number of tokens that the model has embeddings for; None where it is not known."""
        weight = getattr(self._embedding_table, "weight", None)  # I-BERT's table is no nn.Embedding
        return weight.shape[0] if isinstance(weight, Tensor) else None

    @property
    def _embedding_table(self) -> Any:
        try:
            return self.body.get_input_embeddings()
        except NotImplementedError:  # in code that comes with a checkpoint
            return None

    @property
    def start(self) -> int | None:
        """The token that a decoder beside an encoder begins with; None if that is the target's last one."""
        configs = (self.model.config, getattr(self.model, "generation_config", None))
        stated = (getattr(config, "decoder_start_token_id", None) for config in configs)
        return next((start for start in stated if start is not None), None)

    def shift_right(self, target: Sequence[int]) -> list[int]:
        """Give the input of a decoder that is to answer with ``target``: each token's predecessor."""
        return [target[-1] if self.start is None else self.start, *target[:-1]]

    def forward(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Run the model on unpadded sequences; returns the last hidden state (batch, position, width)."""
        with torch.inference_mode():
            return self.forward_model(**self.inputs(inputs))[0]

    def inputs(self, given: Mapping[str, Tensor]) -> dict[str, Any]:
        """Make the keyword arguments of a forward pass from a batch, or refuse a pair of texts."""
        device, dtype = self.device, self.body.dtype
        inputs: dict[str, Any] = {
            name: tensor.to(device, dtype if tensor.is_floating_point() else tensor.dtype)
            for name, tensor in given.items()
        }
        models = self.model, self.forward_model
        if all("use_cache" in list_forward_parameters(type(model)) for model in models):
            inputs["use_cache"] = False
        if self.modality == BOTH:
            return inputs
        types = inputs.pop("token_type_ids", None)
        if types is not None and "token_type_ids" in self.tokenizer.model_input_names:
            known = getattr(self.body.config, "type_vocab_size", None)
            # Models without types read pairs as well, by their separators.
            if isinstance(known, int) and 0 < known <= int(types.max()):
                raise UsageError(f"{self.name} was not made for pairs of texts; leave out the second one.")
            inputs["token_type_ids"] = types
        if not self.decodes:
            inputs.pop("decoder_input_ids", None)
        if self.model_type in GUESS_PADDING and "input_ids" in inputs:
            inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
        wanted = list_forward_parameters(type(self.body)) - inputs.keys()
        return inputs | make_defaults(self.body, wanted, inputs)


def strip_head(model: PreTrainedModel) -> PreTrainedModel:
    """Get a model without its task head."""
    base: Any = model.base_model  # of DINOv3 its layers, which take no image
    return base if list_modalities(type(base)) else model


def resolve_max_length(max_length: int | None, checkpoint: Checkpoint) -> int:
    """Find the most tokens of a sequence: those asked for (if it takes them), or those it embeds or takes."""
    longest = checkpoint.longest
    if max_length is not None and longest is not None and max_length > longest:
        raise UsageError(
            f"--max-length {max_length} is more than the {longest} tokens that {checkpoint.name} takes."
        )
    return max_length or checkpoint.embedded_length or longest or WITHOUT_LIMIT


def is_cut_short(max_length: int | None, checkpoint: Checkpoint) -> bool:
    """Tell whether texts are cut after their first window, as embedding models do by default."""
    return max_length is None and checkpoint.embedded_length is not None


def find_tower(model: PreTrainedModel, modality: str) -> str:
    """Name the submodule that reads only one modality; "" if the whole model is read."""
    base = strip_head(model)
    if len(list_modalities(type(base))) > 1 and not model.config.is_encoder_decoder:
        for path, part in base.named_modules():
            if path and isinstance(part, PreTrainedModel) and list_modalities(type(part)) == [modality]:
                return path
    return ""


def check_modality(name: str, config: PreTrainedConfig, modality: str) -> None:
    """Refuse a checkpoint that does not read a modality, as far as its type tells."""
    if modality == BOTH and not reads_both(config):
        raise UnsupportedModelError(config.model_type, f"{name} reads no image in a text; give either alone")
    kind: Any = MODEL_MAPPING.get(type(config), None)
    if kind is None or modality == BOTH:  # without a class, it has code of its own
        return
    modalities = list_modalities(kind[0] if isinstance(kind, tuple) else kind)
    if not modalities:
        raise UnsupportedModelError(config.model_type, f"{name} reads neither text nor images nor sound")
    if modality not in modalities:
        read = ["images" if each == "image" else each for each in modalities]
        raise UsageError(f"{name} reads {' and '.join(read)}; give {read[0]} with -d.")
