"""Configuration and tokenizers of a checkpoint, and which file is wrong where transformers stumbles."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from safetensors import safe_open
from tokenizers import Tokenizer as TokenizerFile
from torch import nn
from transformers import (
    CONFIG_MAPPING,
    MODEL_MAPPING,
    AutoConfig,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
)

from attnprobe.corpus.tokenizer import Tokenizer
from attnprobe.errors import ModelError, first_line
from attnprobe.model.folders import CONFIG, check_object, damage_error
from attnprobe.model.quirks import (
    AHEAD,
    AHEAD_COUNTS,
    NOT_TOGETHER,
    PLACEHOLDERS,
    UnsupportedModelError,
)
from attnprobe.table.naming import join_names

_ATTENTION = re.compile(r"att(entio)?n", re.IGNORECASE)
_TOKENIZER = "tokenizer.json"
#: What can be told to be damaged by itself where transformers stumbles.
_OBJECTS = {CONFIG, "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json"}


def read_config(folder: Path, name: str, *, trust_remote_code: bool = False) -> Any:
    """Read the configuration of a checkpoint."""
    try:
        return AutoConfig.from_pretrained(folder, trust_remote_code=trust_remote_code, local_files_only=True)
    except Exception as error:
        kind = check_object(folder / CONFIG, name).get("model_type")
        if isinstance(kind, str) and kind not in CONFIG_MAPPING:
            raise ModelError(f"The config.json of {name} can't be used: {first_line(error)}.") from error
        raise damage_error(folder / CONFIG, name, error) from error


def refuse_damaged(folder: Path, name: str) -> None:
    """Refuse a checkpoint with a file that can't be read by itself, the first of them by name."""
    for file in sorted(folder.iterdir()):
        if file.name in _OBJECTS:
            check_object(file, name)
        try:
            if file.suffix == ".safetensors":
                safe_open(file, "pt")
            elif file.name == _TOKENIZER:
                TokenizerFile.from_file(str(file))
        except Exception as damage:
            raise damage_error(file, name, damage) from damage


def weights_error(folder: Path, name: str, error: Exception) -> ModelError:
    """Say why weights can't be loaded."""
    refuse_damaged(folder, name)
    return ModelError(
        f"The weights of {name} can't be loaded as its config.json describes them: {first_line(error)}."
    )


def load_tokenizers(
    folder: Path, name: str, model_type: str, *, trust_remote_code: bool
) -> tuple[Tokenizer, Tokenizer | None]:
    """Load a checkpoint's tokenizer, and that of targets where it is another."""
    targets = folder / "target_tokenizer"
    options: dict[str, Any] = {"trust_remote_code": trust_remote_code, "local_files_only": True}
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, **options)
        other = AutoTokenizer.from_pretrained(targets, **options) if targets.is_dir() else None
        if len(tokenizer) <= len(set(tokenizer.all_special_ids)):  # which transformers makes up
            raise ValueError("such as tokenizer.json or vocab.txt")
        int(tokenizer.model_max_length)  # which is compared with
    except Exception as error:
        refuse_damaged(folder, name)
        raise UnsupportedModelError(
            model_type,
            f"{name} holds no tokenizer that loads ({first_line(error)}); copy the files of the one that the "
            "model was trained with into the folder",
        ) from error
    return tokenizer, other


def describe_unread_layers(model: PreTrainedModel, unexpected: Iterable[str]) -> tuple[str, ...]:
    """Say which layers of attention the weights hold and the model has not, a sentence for each stack.

    Layers that predict several tokens ahead are left out.
    """
    prefix, config, sentences = f"{model.base_model_prefix}.", model.config.get_text_config(), []
    ahead = max(int(getattr(config, name, 0) or 0) for name in AHEAD_COUNTS)
    keys = [key.removeprefix(prefix) for key in unexpected]
    for path, stack in model.named_modules():
        if not isinstance(stack, nn.ModuleList):
            continue
        place = re.compile(rf"{re.escape(path.removeprefix(prefix))}\.(\d{{1,6}})\..+")
        extra = [match for match in map(place.fullmatch, keys) if match and int(match[1]) >= len(stack)]
        attending = {int(match[1]) for match in extra if _ATTENTION.search(match[0])}
        beyond = sorted(attending - {int(match[1]) for match in extra if AHEAD.search(match[0])})
        if len(beyond) > ahead:
            side = path.partition(".")[0]
            kind = f"{side} " if model.config.is_encoder_decoder and side in {"encoder", "decoder"} else ""
            sentences.append(
                f"the weights hold {beyond[-1] + 1} {kind}layers, of which the config leaves out "
                f"{join_names(list(map(str, beyond)))} (counted from 0)"
            )
    return tuple(sentences)


def find_placeholder(config: PreTrainedConfig) -> int | None:
    """Find the id of the token in whose place the model puts the image; None where it states none."""
    stated = (getattr(config, name, None) for name in PLACEHOLDERS)
    return next((token for token in stated if isinstance(token, int)), None)


def reads_both(config: PreTrainedConfig) -> bool:
    """Tell whether a model reads an image and a text as one sequence, by its configuration."""
    if config.is_encoder_decoder or config.model_type in NOT_TOGETHER:
        return False
    return find_placeholder(config) is not None and MODEL_MAPPING.get(type(config), None) is not None
