"""Configuration and tokenizers of a checkpoint, and which file is wrong where transformers stumbles."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from tokenizers import Tokenizer as TokenizerFile
from torch import nn
from transformers import (
    CONFIG_MAPPING,
    MODEL_MAPPING,
    AutoConfig,
    AutoModel,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
)

from attnprobe.corpus.tokenizer import Tokenizer
from attnprobe.errors import ModelError, first_line
from attnprobe.model.folders import CONFIG, check_object, damage_error, holds_tokenizer, read_object
from attnprobe.model.quirks import (
    AHEAD,
    AHEAD_COUNTS,
    NOT_TOGETHER,
    PLACEHOLDERS,
    READS_ANOTHER_TEXT,
    UnsupportedModelError,
)
from attnprobe.table.naming import join_names

_ATTENTION = re.compile(r"att(entio)?n", re.IGNORECASE)
_TOKENIZER, _TOKENIZER_CONFIG = "tokenizer.json", "tokenizer_config.json"


def read_config(folder: Path, name: str, *, trust_remote_code: bool = False) -> Any:
    """Read the configuration of a checkpoint."""
    try:
        return AutoConfig.from_pretrained(folder, trust_remote_code=trust_remote_code, local_files_only=True)
    except Exception as error:
        kind = read_object(folder / CONFIG).get("model_type")
        if isinstance(kind, str) and kind not in CONFIG_MAPPING:
            raise ModelError(f"The config.json of {name} can't be used: {first_line(error)}.") from error
        raise damage_error(folder / CONFIG, name, error) from error


def weights_error(folder: Path, name: str, error: Exception) -> ModelError:
    """Say why weights can't be loaded: a file of them, or a configuration that no model can be built from."""
    for file in sorted(folder.glob("*.safetensors")):
        try:
            safe_open(file, "pt")
        except (SafetensorError, OSError) as damage:
            return damage_error(file, name, damage)
    try:
        with torch.device("meta"):
            AutoModel.from_config(read_config(folder, name))
    except Exception as damage:
        return damage_error(folder / CONFIG, name, damage)
    return ModelError(
        f"The weights of {name} can't be loaded as its config.json describes them: {first_line(error)}."
    )


def load_tokenizers(
    folder: Path, name: str, model_type: str, *, trust_remote_code: bool
) -> tuple[Tokenizer, Tokenizer | None]:
    """Load a checkpoint's tokenizer, and that of targets where it is another."""
    targets, tokenizer, other = folder / "target_tokenizer", None, None
    options: dict[str, Any] = {"trust_remote_code": trust_remote_code, "local_files_only": True}
    if holds_tokenizer(folder):
        try:
            tokenizer = AutoTokenizer.from_pretrained(folder, **options)
            other = AutoTokenizer.from_pretrained(targets, **options) if targets.is_dir() else None
        except Exception as error:
            raise _explain_tokenizer(folder, name, model_type, error) from error
    # Transformers makes one up where there is no vocabulary.
    if tokenizer is None or len(tokenizer) <= len(set(tokenizer.all_special_ids)):
        raise ModelError(
            f"{name} holds no tokenizer (such as tokenizer.json or vocab.txt), so it can't be given text; "
            "copy the files of the tokenizer that the model was trained with into the folder."
        )
    if not isinstance(tokenizer.model_max_length, int | float):
        stated = f"model_max_length is {tokenizer.model_max_length!r}, and must be a number"
        raise damage_error(folder / _TOKENIZER_CONFIG, name, stated)
    return tokenizer, other


def _explain_tokenizer(folder: Path, name: str, model_type: str, error: Exception) -> ModelError:
    """Say which file of a tokenizer is damaged; or what else keeps it from loading, such as a package."""
    for file in (_TOKENIZER_CONFIG, "special_tokens_map.json", "added_tokens.json", "vocab.json"):
        check_object(folder / file, name)
    if isinstance(error, ImportError) or not (folder / _TOKENIZER).is_file():
        reason = f"{name} holds no tokenizer that loads ({first_line(error)})"
        return UnsupportedModelError(model_type, reason)
    try:
        TokenizerFile.from_file(str(folder / _TOKENIZER))
    except Exception as damage:
        return damage_error(folder / _TOKENIZER, name, damage)
    return damage_error(folder / _TOKENIZER_CONFIG, name, error)


def describe_unread_layers(model: PreTrainedModel, unexpected: Iterable[str]) -> tuple[str, ...]:
    """Say which layers of attention the weights hold and the model has not, a sentence for each stack.

    Layers that predict several tokens ahead are left out.
    """
    keys, sentences, config = sorted(unexpected), [], model.config.get_text_config()
    ahead = max(int(getattr(config, name, 0) or 0) for name in AHEAD_COUNTS)
    for path, stack in _iterate_stacks(model):
        inner = path.removeprefix(f"{model.base_model_prefix}.")
        place = re.compile(rf"(?:{model.base_model_prefix}\.)?{re.escape(inner)}\.(\d{{1,6}})\.(.+)")
        extra: dict[int, list[str]] = {}
        for match in filter(None, map(place.fullmatch, keys)):
            if int(match[1]) >= len(stack):
                extra.setdefault(int(match[1]), []).append(match[2])
        beyond = sorted(
            number
            for number, names in extra.items()
            if any(map(_ATTENTION.search, names)) and not any(map(AHEAD.search, names))
        ) or (sorted(extra) if _ATTENTION.search(path) else [])
        if len(beyond) > ahead:
            side = path.partition(".")[0] if model.config.is_encoder_decoder else ""
            kind = f"{side} " if side in {"encoder", "decoder"} else ""
            numbers = join_names([str(number) for number in beyond])
            named = f"layers {numbers} are" if len(beyond) > 1 else f"layer {numbers} is"
            sentences.append(
                f"the weights hold {beyond[-1] + 1} {kind}layers, the config reads {len(stack)}: {named} not "
                "measured"
            )
    return tuple(sentences)


def _iterate_stacks(model: nn.Module) -> Iterator[tuple[str, nn.ModuleList]]:
    """Go through the outermost lists of layers with attention."""
    outer: list[str] = []
    for path, module in model.named_modules():
        if not isinstance(module, nn.ModuleList) or any(path.startswith(f"{other}.") for other in outer):
            continue
        if any(_ATTENTION.search(type(part).__name__) for part in module.modules()):
            outer.append(path)
            yield path, module


def find_placeholder(config: PreTrainedConfig) -> int | None:
    """Find the id of the token in whose place the model puts the image; None where it states none."""
    stated = (getattr(config, name, None) for name in PLACEHOLDERS)
    return next((token for token in stated if isinstance(token, int)), None)


def reads_both(config: PreTrainedConfig) -> bool:
    """Tell whether a model reads an image and a text as one sequence, by its configuration."""
    if config.is_encoder_decoder or config.model_type in NOT_TOGETHER:
        return False
    return find_placeholder(config) is not None and MODEL_MAPPING.get(type(config), None) is not None


def refuse_unseeing(name: str, config: PreTrainedConfig) -> None:
    """Refuse a model that does not read an image and a text as one sequence."""
    if reads_both(config):
        return
    reason = (
        f"{name} states no token in whose place an image is put (image_token_id); give text, or a folder of "
        "images"
    )
    reason = READS_ANOTHER_TEXT if config.is_encoder_decoder else reason
    raise UnsupportedModelError(config.model_type, NOT_TOGETHER.get(config.model_type, reason))
