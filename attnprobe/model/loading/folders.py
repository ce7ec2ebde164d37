"""Checkpoints in folders: those of transformers, adapters of peft, folders of sentence-transformers."""

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from attnprobe.corpus.tokens.tokenization import Tokenizer
from attnprobe.errors import AttnprobeError
from attnprobe.model.loading.support import BadCheckpointError
from attnprobe.table.cleaning import clean
from attnprobe.table.naming import listed

#: What describes an adapter in its folder.
ADAPTER = "adapter_config.json"
#: How the weights of an adapter begin, which are none of a whole model.
WEIGHTS = "adapter_model"
#: Kinds that add tokens which no tokenizer gives, and those that mix several models or layers of their own.
_PROMPTS = {"PROMPT_TUNING", "MULTITASK_PROMPT_TUNING", "P_TUNING", "PREFIX_TUNING", "CPT", "CARTRIDGE"}
_OTHERS = {"ADAPTION_PROMPT", "XLORA"}


def reads_beside(config: Any) -> bool:
    """Tell whether an adapter acts beside the layers of its base, so that the base is not the whole model."""
    kind = getattr(config.peft_type, "value", config.peft_type)
    return bool(getattr(config, "is_prompt_learning", False)) or kind in _PROMPTS | _OTHERS


def check_adapter(folder: Path, name: str, *, base: bool) -> None:
    """Refuse a folder with an adapter that would not be read.

    Args:
        folder: Of the checkpoint.
        name: What the user calls it.
        base: Whether it holds the weights of the base model too.

    Raises:
        BadCheckpointError: With the way out.
    """
    path = folder / ADAPTER
    if not path.is_file():
        return
    try:
        described = json.loads(path.read_text(encoding="utf-8"))
        kind, of = str(described.get("peft_type")), described.get("base_model_name_or_path")
    except (ValueError, AttributeError, OSError) as error:
        raise BadCheckpointError(f"The {ADAPTER} of {name} can't be read as json.") from error
    of = of or "its base model"
    if kind in _PROMPTS | _OTHERS:
        raise BadCheckpointError(
            f"{name} holds an adapter ({kind}) that adds virtual tokens or other parts outside of the base "
            f"model's layers, which attnprobe does not read; give {of} to ask the base without it."
        )
    if not base:
        raise BadCheckpointError(
            f"{name} is an adapter ({kind}) of {of}, and no whole model; merge it first: load the base with "
            f"AutoModel...from_pretrained({of!r}), then PeftModel.from_pretrained(base, {name!r})"
            ".merge_and_unload().save_pretrained(FOLDER), and give FOLDER with the base's tokenizer."
        )
    if find_spec("peft") is None:
        raise BadCheckpointError(
            f"{name} holds an adapter ({kind}) beside the weights of its base, and without peft the base "
            f"would be read alone; pip install peft, or take {ADAPTER} away to ask the base."
        )


#: What lists the modules of a model, one after the other.
_MODULES = "modules.json"
#: Modules that keep what the mean over tokens is, but for its length.
_HARMLESS = {"Transformer", "Pooling", "Normalize", "Dropout"}
#: Letters by which a tokenizer that ignores case is known.
_CASED = "The Parcel Came Late"


def check_place(folder: Path, name: str, *, weights: bool) -> None:
    """Refuse a folder whose transformer lies in a folder of its own, and say where.

    Args:
        folder: Of the checkpoint.
        name: What the user calls it.
        weights: Whether the folder itself holds weights.

    Raises:
        BadCheckpointError: Naming that folder.
    """
    place = next((one["path"] for one in _modules(folder)), "")
    if weights or not place:
        return
    if (folder / place / "config.json").is_file():
        raise BadCheckpointError(
            f"{name} is a folder of sentence-transformers, and its transformer lies in a folder of its own; "
            f"give {name.rstrip('/')}/{clean(place)}."
        )
    raise BadCheckpointError(
        f"{name} is of sentence-transformers, and its transformer lies in a folder of its own, "
        f"{clean(place)}; download all of {name}, and give that folder."
    )


def passed_over(folder: Path, tokenizer: Tokenizer, longest: int | None) -> tuple[str, ...]:
    """Say what ``encode`` of sentence-transformers does to texts, and attnprobe does not.

    Args:
        folder: Of the transformer.
        tokenizer: Its tokenizer.
        longest: Most tokens that it takes, as attnprobe reads it.

    Returns:
        One sentence without its full stop, or none where texts are read alike.
    """
    root = _root(folder)
    if root is None:
        return ()
    model, own = _read(root / "config_sentence_transformers.json"), _settings(folder)
    done, advice = [], []
    prompts = model.get("prompts")
    prompts = prompts if isinstance(prompts, dict) else {}
    usual = prompts.get(str(model.get("default_prompt_name")))
    if isinstance(usual, str) and usual:
        done.append(f"puts the prompt {_quoted(usual)} before each text")
        advice.append("write it into the texts")
    elif named := [key for key, prompt in prompts.items() if isinstance(prompt, str) and prompt]:
        done.append(f"knows prompts ({', '.join(clean(str(key)) for key in named)}) to put before texts")
        advice.append("write the one you use into the texts")
    limit = own.get("max_seq_length")
    if type(limit) is int and limit > 0 and (longest is None or limit < longest):
        done.append(f"cuts texts after {limit} tokens")
        advice.append(f"pass --max-length {limit} --truncate")
    spell: Any = tokenizer
    if own.get("do_lower_case") is True and spell.tokenize(_CASED) != spell.tokenize(_CASED.lower()):
        done.append("writes texts in lower case")
        advice.append("write them so")
    if not done:
        return ()
    return (
        f"with encode(), sentence-transformers {listed(done)}, and attnprobe does not; to read what it "
        f"reads, {listed(advice)}",
    )


def pooled_otherwise(folder: Path | None) -> str | None:
    """Say how sentence-transformers makes one vector of a text, where it is not the mean over all tokens."""
    root = None if folder is None else _root(folder)
    if root is None:
        return None
    done = []
    for module in _modules(root):
        kind, place = module["type"].rpartition(".")[2], root / module["path"]
        if kind == "Pooling":
            config = _read(place / "config.json")
            modes = [*_modes(config)] if config else [f"as {clean(module['path'])} says"]
            if modes != ["mean"]:
                done.append(f"pools by {listed(modes)}" if config else f"pools {modes[0]}")
        elif kind not in _HARMLESS:
            done.append(f"applies {clean(kind)}")
    if not done:
        return None
    return (
        f"sentence-transformers {listed(done)}; the representation measured here is the mean of the last "
        "states over all tokens."
    )


def _root(folder: Path) -> Path | None:
    """Find the folder that lists the modules: that of the transformer, or the one around it."""
    if _modules(folder):
        return folder
    around = folder.resolve().parent
    return around if any(one["path"] == folder.resolve().name for one in _modules(around)) else None


def _modules(folder: Path) -> list[dict[str, str]]:
    """List the modules: the folder and the class of each."""
    listed = _json(folder / _MODULES)
    found = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    return [
        {"path": one["path"], "type": one["type"]}
        for one in found
        if isinstance(one.get("path"), str) and isinstance(one.get("type"), str)
    ]


def _settings(folder: Path) -> dict[str, Any]:
    """Read the settings of the transformer, whose file is named after its kind in old folders."""
    paths = [folder / "sentence_bert_config.json", *sorted(folder.glob("sentence_*_config.json"))]
    return next((found for path in paths if (found := _read(path))), {})


def _modes(config: dict[str, Any]) -> Iterator[str]:
    """Name the kinds of pooling: a list of names, or a switch for each in old folders."""
    stated = config.get("pooling_mode")
    if stated is not None:
        yield from (clean(str(one)) for one in (stated if isinstance(stated, list) else [stated]))
        return
    for name, on in config.items():
        if name.startswith("pooling_mode_") and on is True:
            yield clean(name.removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token"))


def _read(path: Path) -> dict[str, Any]:
    found = _json(path)
    return found if isinstance(found, dict) else {}


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def _quoted(prompt: str, most: int = 60) -> str:
    shown = clean(prompt)
    return f"'{shown}'" if len(shown) <= most else f"'{shown[:most]}...'"


#: The name of the encoder that ships inside the package.
DEMO = "demo"
#: What marks a folder as a pruned checkpoint, and says which heads are gone.
RECORD = "attnprobe.json"


def local_folder(name: str) -> Path | None:
    """Find the folder of a checkpoint, or None where the name is one of the hub.

    Raises:
        AttnprobeError: When it is neither.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    if folder.exists():
        raise AttnprobeError(f"{name} is a file; give the folder that holds config.json and the weights.")
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise AttnprobeError(f"There is no folder {name}.")
    return None


def find_weights(folder: Path, name: str, *, allow_bin: bool) -> list[Path]:
    """List the weight files of a folder; refuse a folder that is no checkpoint, and pickles."""
    safe = sorted(path for path in folder.glob("*.safetensors") if path.stem.count(".") == 0)
    pickled = sorted(folder.glob("pytorch_model*.bin"))
    check_adapter(folder, name, base=any(not path.name.startswith(WEIGHTS) for path in (*safe, *pickled)))
    check_place(folder, name, weights=bool(safe or pickled))
    if not (folder / "config.json").is_file():
        raise BadCheckpointError(f"{name} holds no config.json, so it is not a Hugging Face checkpoint.")
    if safe:
        return safe
    if pickled and allow_bin:
        return pickled
    if pickled:
        raise BadCheckpointError(
            f"{name} holds only pickled weights ({pickled[0].name}), which can run code when they are "
            "loaded; pass --allow-bin if you trust them."
        )
    raise BadCheckpointError(f"{name} holds no weights (*.safetensors).")
