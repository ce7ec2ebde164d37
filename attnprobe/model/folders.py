"""Folders of checkpoints: which hold one, what lies beside it (adapters, modules), which are free for one."""

import json
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from attnprobe.corpus.tokens.tokenization import Tokenizer
from attnprobe.errors import AttnprobeError, first_line
from attnprobe.model.refusals import BadCheckpointError
from attnprobe.table.cleaning import clean
from attnprobe.table.naming import join_names

#: What describes an adapter in its folder.
ADAPTER = "adapter_config.json"
#: How the weights of an adapter begin, which are none of a whole model.
WEIGHTS = "adapter_model"
#: Kinds that add tokens which no tokenizer gives, and those that mix several models or layers of their own.
_PROMPTS = {"PROMPT_TUNING", "MULTITASK_PROMPT_TUNING", "P_TUNING", "PREFIX_TUNING", "CPT", "CARTRIDGE"}
_OTHERS = {"ADAPTION_PROMPT", "XLORA"}


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


def read_object(path: Path) -> dict[str, Any]:
    """Read a json file that holds an object; an empty one where it is missing, broken or something else."""
    found = _read_json(path)
    return found if isinstance(found, dict) else {}


def acts_outside_layers(config: Any) -> bool:
    """Tell whether an adapter acts beside the layers of its base, so that the base is not the whole model."""
    kind = getattr(config.peft_type, "value", config.peft_type)
    return bool(getattr(config, "is_prompt_learning", False)) or kind in _PROMPTS | _OTHERS


def check_adapter(folder: Path, name: str, *, base: bool) -> None:
    """Refuse a folder with an adapter that would not be read."""
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
    if find_spec("peft") is None:
        raise BadCheckpointError(
            f"{name} holds an adapter ({kind}) beside the weights of its base, and without peft the base "
            f"would be read alone; pip install peft, or take {ADAPTER} away to ask the base."
            if base
            else f"{name} is an adapter ({kind}) of {of}, and needs peft: pip install peft."
        )
    if not base and (folder / "config.json").is_file():
        raise BadCheckpointError(
            f"{name} holds an adapter ({kind}) of {of} beside a config.json without its weights; take the "
            "config.json away to read the adapter on its base."
        )


def choose_adapter(folder: Path, name: str, adapter: str | None) -> Path:
    """Choose the folder of the adapter that is named, or else the folder itself."""
    inside = sorted(path.parent.name for path in folder.glob(f"*/{ADAPTER}"))
    named = join_names(list(map(clean, inside))) if inside else ""
    if adapter is not None:
        if adapter not in inside:
            there = f"it holds {named or 'no named adapters'}"
            raise AttnprobeError(f"--adapter {clean(adapter)}: {name} has no such adapter; {there}.")
        return folder / adapter
    if inside and not (folder / ADAPTER).is_file() and not (folder / "config.json").is_file():
        raise AttnprobeError(f"{name} holds the adapters {named}; choose one with --adapter.")
    return folder


#: What lists the modules of a model, one after the other.
_MODULES = "modules.json"
#: Modules that keep what the mean over tokens is, but for its length.
_HARMLESS = {"Transformer", "Pooling", "Normalize", "Dropout"}
#: Letters by which a tokenizer that ignores case is known.
_CASED = "The Parcel Came Late"


def check_transformer_folder(folder: Path, name: str, *, weights: bool) -> None:
    """Refuse a folder whose transformer lies in a folder of its own, and say where."""
    place = next((one["path"] for one in _list_modules(folder)), "")
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


def compare_with_encode(folder: Path, tokenizer: Tokenizer, longest: int | None) -> tuple[str, ...]:
    """Say what ``encode`` of sentence-transformers does to texts, and attnprobe does not.

    Returns:
        One sentence without its full stop, or none where texts are read alike.
    """
    root = _find_root(folder)
    if root is None:
        return ()
    model, own = read_object(root / "config_sentence_transformers.json"), _read_settings(folder)
    done, advice = [], []
    prompts = model.get("prompts")
    prompts = prompts if isinstance(prompts, dict) else {}
    usual = prompts.get(str(model.get("default_prompt_name")))
    if isinstance(usual, str) and usual:
        done.append(f"puts the prompt {_quote(usual)} before each text")
        advice.append("write it into the texts")
    elif named := [key for key, prompt in prompts.items() if isinstance(prompt, str) and prompt]:
        done.append(f"knows prompts ({', '.join(clean(str(key)) for key in named)}) to put before texts")
        advice.append("write the one you use into the texts")
    limit = own.get("max_seq_length")
    if type(limit) is int and limit > 0 and (longest is None or limit < longest):
        done.append(f"cuts texts after {limit} tokens")
        advice.append(f"pass --max-length {limit} --truncate")
    tokenize = cast(Any, tokenizer).tokenize
    if own.get("do_lower_case") is True and tokenize(_CASED) != tokenize(_CASED.lower()):
        done.append("writes texts in lower case")
        advice.append("write them so")
    if not done:
        return ()
    return (
        f"with encode(), sentence-transformers {join_names(done)}, and attnprobe does not; to read what it "
        f"reads, {join_names(advice)}",
    )


def describe_pooling(folder: Path | None) -> str | None:
    """Say how sentence-transformers makes one vector of a text, where it is not the mean over all tokens."""
    root = None if folder is None else _find_root(folder)
    if root is None:
        return None
    done = []
    for module in _list_modules(root):
        kind = module["type"].rpartition(".")[2]
        if kind == "Pooling":
            config = read_object(root / module["path"] / "config.json")
            modes = [*_iterate_modes(config)]
            if not config:
                done.append(f"pools as {clean(module['path'])} says")
            elif modes != ["mean"]:
                done.append(f"pools by {join_names(modes)}")
        elif kind not in _HARMLESS:
            done.append(f"applies {clean(kind)}")
    if not done:
        return None
    return (
        f"sentence-transformers {join_names(done)}; the representation measured here is the mean of the last "
        "states over all tokens."
    )


def _find_root(folder: Path) -> Path | None:
    """Find the folder that lists the modules: that of the transformer, or the one around it."""
    if _list_modules(folder):
        return folder
    around = folder.resolve().parent
    return around if any(one["path"] == folder.resolve().name for one in _list_modules(around)) else None


def _list_modules(folder: Path) -> list[dict[str, str]]:
    """List the modules: the folder and the class of each, as "path" and "type"."""
    found = _read_json(folder / _MODULES)
    return [
        one
        for one in (found if isinstance(found, list) else ())
        if isinstance(one, dict) and isinstance(one.get("path"), str) and isinstance(one.get("type"), str)
    ]


def _read_settings(folder: Path) -> dict[str, Any]:
    """Read the settings of the transformer, whose file is named after its kind in old folders."""
    paths = [folder / "sentence_bert_config.json", *sorted(folder.glob("sentence_*_config.json"))]
    return next((found for path in paths if (found := read_object(path))), {})


def _iterate_modes(config: dict[str, Any]) -> Iterator[str]:
    """Name the kinds of pooling: a list of names, or a switch for each in old folders."""
    stated = config.get("pooling_mode")
    if stated is not None:
        yield from (clean(str(one)) for one in (stated if isinstance(stated, list) else [stated]))
        return
    for name, on in config.items():
        if name.startswith("pooling_mode_") and on is True:
            yield clean(name.removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token"))


def _quote(prompt: str, most: int = 60) -> str:
    shown = clean(prompt)
    return f"'{shown}'" if len(shown) <= most else f"'{shown[:most]}...'"


#: The name of the encoder that ships inside the package.
DEMO = "demo"
#: What marks a folder as a pruned checkpoint, and says which heads are gone.
RECORD = "attnprobe.json"


def find_local_folder(name: str) -> Path | None:
    """Find the folder of a checkpoint, or None where the name is one of the hub."""
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    if folder.exists():
        raise AttnprobeError(f"{name} is a file; give the folder that holds config.json and the weights.")
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise AttnprobeError(f"There is no folder {name}.")
    return None


def check_config(folder: Path, name: str) -> None:
    if not (folder / "config.json").is_file():
        raise BadCheckpointError(f"{name} holds no config.json, so it is not a Hugging Face checkpoint.")


def find_weights(folder: Path, name: str, *, allow_bin: bool) -> list[Path]:
    """List the weight files of a folder; refuse a folder that is no checkpoint, and pickles."""
    safe = sorted(path for path in folder.glob("*.safetensors") if path.stem.count(".") == 0)
    pickled = sorted(folder.glob("pytorch_model*.bin"))
    has_base = any(not path.name.startswith(WEIGHTS) for path in (*safe, *pickled))
    check_adapter(folder, name, base=has_base)
    check_transformer_folder(folder, name, weights=bool(safe or pickled))
    if has_base or not (folder / ADAPTER).is_file():
        check_config(folder, name)
    else:
        pickled = sorted(folder.glob(f"{WEIGHTS}*.bin"))
    if safe or (pickled and allow_bin):
        return safe or pickled
    if pickled:
        raise BadCheckpointError(
            f"{name} holds only pickled weights ({pickled[0].name}), which can run code when they are "
            "loaded; pass --allow-bin if you trust them."
        )
    raise BadCheckpointError(f"{name} holds no weights (*.safetensors).")


def check_free(folder: Path, *, overwrite: bool) -> Path:
    """Refuse a folder that is not free, before anything is computed for it.

    Returns:
        The folder, behind links.
    """
    try:
        found = folder.expanduser().resolve()
        if not found.exists():
            _check_writable(folder, next(parent for parent in found.parents if parent.exists()))
            return found
        if not found.is_dir():
            raise AttnprobeError(f"{folder} is a file; name a folder for the pruned checkpoint.")
        if not any(found.iterdir()):
            return found
    except (OSError, RuntimeError) as error:
        raise write_error(folder, error) from error
    if not overwrite:
        raise AttnprobeError(f"{folder} exists; choose another folder or pass --overwrite.")
    if not (found / RECORD).is_file():  # nobody meant to lose anything else
        raise AttnprobeError(
            f"{folder} holds no {RECORD}, so it is no pruned checkpoint and is not replaced; "
            "choose another folder."
        )
    return found


def _check_writable(folder: Path, parent: Path) -> None:
    if not parent.is_dir():
        raise AttnprobeError(f"{folder} can't be made: {parent} is a file.")
    try:
        tempfile.TemporaryFile(dir=parent).close()
    except OSError as error:
        raise write_error(folder, error) from error


def write_error(folder: Path, error: OSError | RuntimeError) -> AttnprobeError:
    reason = (getattr(error, "strerror", None) or first_line(error)).lower()
    return AttnprobeError(f"{folder} can't be written ({reason}); choose another folder.")
