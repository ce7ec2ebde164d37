"""Folders of checkpoints: which hold one, what lies beside it (adapters), which are free for one."""

import hashlib
import json
import tempfile
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from attnprobe.errors import AttnprobeError, first_line
from attnprobe.model.refusals import BadCheckpointError
from attnprobe.table.cells import clean
from attnprobe.table.naming import join_names

#: What describes an adapter in its folder.
ADAPTER = "adapter_config.json"
#: How the weights of an adapter begin, which are none of a whole model.
WEIGHTS = "adapter_model"
#: Kinds that add tokens which no tokenizer gives, and those that mix several models or layers of their own.
_PROMPTS = {"PROMPT_TUNING", "MULTITASK_PROMPT_TUNING", "P_TUNING", "PREFIX_TUNING", "CPT", "CARTRIDGE"}
_OTHERS = {"ADAPTION_PROMPT", "XLORA"}


def read_json(path: Path) -> Any:
    """Read a json file; None where it is missing or broken."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


def read_object(path: Path) -> dict[str, Any]:
    """Read a json file that holds an object; an empty one where it is missing, broken or something else."""
    found = read_json(path)
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


def list_descriptions(folder: Path) -> list[Path]:
    """List what beside the weights decides what a checkpoint does: configuration and tokenizers."""
    skipped = ("README", "attnprobe.json", "model.safetensors.index.json")
    return sorted(
        path
        for path in (*folder.glob("*"), *folder.glob("target_tokenizer/*"))
        if path.suffix in {".json", ".txt", ".model"} and path.is_file() and not path.name.startswith(skipped)
    )


def hash_file(path: Path) -> str:
    """Compute the SHA-256 of a file; once where several checkpoints share it, as adapters share a base."""
    stat = path.stat()
    return _hash(path, stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


@lru_cache(64)
def _hash(path: Path, *_: int) -> str:
    with path.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()
