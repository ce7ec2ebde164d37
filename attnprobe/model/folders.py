"""The files of a checkpoint's folder: descriptions, weights and modules, without heavy imports."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from attnprobe.errors import ModelError, UsageError, first_line
from attnprobe.files import lies_in, try_writing
from attnprobe.table.cells import clean
from attnprobe.table.naming import join_names

#: The name of the encoder that ships inside the package.
DEMO = "demo"
#: Files that describe a checkpoint or a module, and an adapter.
CONFIG, ADAPTER = "config.json", "adapter_config.json"
#: Files that hold a JSON object.
_OBJECTS = {CONFIG, "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json"}
#: The file of a pruned checkpoint that lists the heads removed from it.
RECORD = "attnprobe.json"
#: Files that list the modules of a folder of sentence-transformers, and that describe the folder.
MODULES, WHOLE = "modules.json", "config_sentence_transformers.json"
#: The settings of its transformer, which old folders name after the type.
_SETTINGS = "sentence_*_config.json"
#: Kinds of adapters that add virtual tokens or layers, or mix several models.
OUTSIDE = {"PROMPT_TUNING", "MULTITASK_PROMPT_TUNING", "P_TUNING", "PREFIX_TUNING", "CPT", "CARTRIDGE"}
OUTSIDE |= {"ADAPTION_PROMPT", "XLORA", "SHADOW"}


def read_json(path: Path) -> Any:
    """Read a JSON file; None where it is missing or broken."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file; an empty one where it is missing or broken."""
    content = read_json(path)
    return content if isinstance(content, dict) else {}


def check_object(path: Path, name: str) -> dict[str, Any]:
    """Read a JSON object from a file, an empty one where it is missing; refuse a file that holds none."""
    content = read_json(path) if path.is_file() else {}
    if not isinstance(content, dict):
        raise ModelError(f"{path.name} of {name} is damaged: it holds no JSON object.")
    return content


def refuse_damaged(folder: Path, name: str) -> None:
    """Refuse a checkpoint with a file that can't be read, naming the first one."""
    from safetensors import safe_open
    from tokenizers import Tokenizer

    for file in sorted(folder.iterdir()):
        if file.name in _OBJECTS:
            check_object(file, name)
        try:
            if file.suffix == ".safetensors":
                safe_open(file, "pt")
            elif file.name == "tokenizer.json":
                Tokenizer.from_file(str(file))
        except Exception as damage:
            raise ModelError(f"{file.name} of {name} is damaged: {first_line(damage)}.") from damage


def weights_error(folder: Path, name: str, error: Exception) -> ModelError:
    """Make the error for weights that can't be loaded, or raise that of a damaged file."""
    refuse_damaged(folder, name)
    reason = first_line(error)
    return ModelError(f"The weights of {name} can't be loaded as its config.json describes them: {reason}.")


def find_local_folder(name: str) -> Path | None:
    """Find the folder of a checkpoint, or refuse a path without one; None for a name on the hub."""
    if name == DEMO:
        return Path(__file__).parents[1] / DEMO
    folder = os.path.expanduser(name)  # noqa: PTH111 - pathlib raises errors for odd names
    if os.path.isdir(folder):  # noqa: PTH112
        return Path(folder)
    if os.path.isfile(folder):  # noqa: PTH113
        raise UsageError(f"{name} is a file; give a folder with config.json and weights, and texts with -d.")
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise UsageError(f"There is no folder {name}.")
    return None


def check_config(folder: Path, name: str) -> None:
    if not (folder / CONFIG).is_file():
        raise ModelError(f"{name} holds no config.json of a transformer, which attnprobe could read.")


def find_weights(folder: Path, name: str, *, allow_bin: bool) -> list[Path]:
    """List the weight files of a folder; refuse pickles, and folders that are no checkpoint."""
    safe = sorted(path for path in folder.glob("*.safetensors") if path.stem.count(".") == 0)
    pickled, begin = sorted(folder.glob("pytorch_model*.bin")), "*"
    has_base = any(not path.name.startswith("adapter_model") for path in (*safe, *pickled))
    if adapts := (folder / ADAPTER).is_file():  # which must not be overlooked beside a base
        kind, reason = clean(str(check_object(folder / ADAPTER, name).get("peft_type"))), ""
        if kind in OUTSIDE:
            parts = "virtual tokens or other parts outside of its base's layers"
            reason = f"which adds {parts}; give the base alone"
        elif find_spec("peft") is None:
            reason = "which needs peft: pip install peft"
        elif not has_base and (folder / CONFIG).is_file():
            reason = "beside a config.json without its weights; take it away to read the adapter on its base"
        if reason:
            raise ModelError(f"{name} holds an adapter ({kind}), {reason}.")
    if has_base or not adapts:
        check_config(folder, name)
    else:  # for files of other names, peft would ask the hub
        begin = "adapter_model"
        safe, pickled = ([*folder.glob(begin + end)] for end in (".safetensors", ".bin"))
    if safe or (pickled and allow_bin):
        return safe or pickled
    if pickled:
        raise ModelError(
            f"{name} holds only pickled weights ({pickled[0].name}), which can run code when they are "
            "loaded; pass --allow-bin if you trust them."
        )
    raise ModelError(f"{name} holds no weights ({begin}.safetensors).")


@dataclass(frozen=True)
class SentenceFolder:
    """A folder of sentence-transformers."""

    root: Path
    modules: tuple[tuple[str, str], ...]  # the class and the path of each, the transformer first
    described: Mapping[str, Any]
    settings: Mapping[str, Any]  # how the transformer reads texts

    @property
    def transformer(self) -> Path:
        return self.root / self.modules[0][1]

    @property
    def scores_pairs(self) -> bool:
        """Whether it is a cross-encoder, which scores two texts and embeds none."""
        task = self.settings.get("transformer_task")
        return self.described.get("model_type") == "CrossEncoder" or task == "sequence-classification"

    def copy_modules(self, target: Path) -> None:
        """Copy the modules around a transformer to ``target``; files there and outside links are skipped."""
        listed = read_json(self.root / MODULES)
        listed[0]["path"] = ""
        (target / MODULES).write_text(json.dumps(listed, indent=2) + "\n", encoding="utf-8")
        copies = dict.fromkeys((self.root / WHOLE, *sorted(self.transformer.glob(_SETTINGS))), target)
        for _, place in self.modules[1:]:
            if place:
                copies |= dict.fromkeys(sorted((self.root / place).glob("*")), target / place)
        for path, folder in copies.items():
            inside = path.is_file() and is_inside(self.root, path.relative_to(self.root))
            if inside and not (folder / path.name).exists():
                folder.mkdir(parents=True, exist_ok=True)
                (folder / path.name).write_bytes(path.read_bytes())


def read_sentence_folder(root: Path, name: str) -> SentenceFolder | None:
    """Read a folder of sentence-transformers; None for any other folder."""
    if not (root / MODULES).is_file():
        return None
    listed = read_json(root / MODULES)
    entries = listed if isinstance(listed, list) and all(isinstance(entry, dict) for entry in listed) else []
    modules = tuple((entry.get("type"), entry.get("path")) for entry in entries)
    if not modules or not all(isinstance(text, str) for module in modules for text in module):
        raise ModelError(f"{MODULES} of {name} is damaged: it lists no modules, each with a type and a path.")
    if outside := [clean(path) for _, path in modules if not is_inside(root, path)]:
        raise ModelError(f"The {MODULES} of {name} names {outside[0]}, which is not inside the folder.")
    # Refused if damaged: without these, texts would have other prompts or lengths.
    settings = [check_object(path, name) for path in sorted((root / modules[0][1]).glob(_SETTINGS))]
    described = check_object(root / WHOLE, name)
    return SentenceFolder(root, modules, described, next(filter(None, settings), {}))


def is_inside(root: Path, path: str | Path) -> bool:
    """Tell whether a path with its links stays inside a folder, or the ``blobs`` of the hub's cache."""
    home = root.resolve()
    blobs = home.parents[1] / "blobs" if home.parent.name == "snapshots" else home
    return any(lies_in(root / path, folder) for folder in (home, blobs))


def find_transformer(root: Path, name: str, adapter: str | None = None) -> tuple[Path, SentenceFolder | None]:
    """Find the folder of the transformer, or of an adapter, and the folder of sentence-transformers."""
    sentences = read_sentence_folder(root, name)
    folder = root if sentences is None else sentences.transformer
    described = any((folder / file).is_file() for file in (CONFIG, ADAPTER))
    inside = sorted(path.parent.name for path in folder.glob(f"*/{ADAPTER}"))
    if adapter not in inside and (adapter is not None or (inside and not described)):
        named = join_names(list(map(clean, inside))) if inside else "none"
        raise UsageError(f"--adapter: choose one of the adapters in {name}, which are {named}.")
    return folder if adapter is None else folder / adapter, sentences


def check_free(folder: Path, *, overwrite: bool) -> Path:
    """Resolve a folder to write, or refuse it; of full ones, only pruned checkpoints can be overwritten."""
    try:
        target = folder.expanduser().resolve()
        if not target.exists():
            try_writing(next(parent for parent in target.parents if parent.exists()))
        elif any(target.iterdir()):
            if not overwrite:
                raise UsageError(f"{folder} exists; choose another folder or pass --overwrite.")
            if not (target / RECORD).is_file():  # nobody meant to lose anything else
                raise UsageError(f"{folder} is no pruned checkpoint and stays; choose another folder.")
    except (OSError, RuntimeError) as error:
        raise write_error(folder, error) from error
    return target


def write_error(folder: Path, error: Exception) -> UsageError:
    reason = (getattr(error, "strerror", None) or first_line(error)).lower()
    return UsageError(f"{folder} can't be written ({reason}); choose another folder.")
