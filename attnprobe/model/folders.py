"""Folders of checkpoints, read without torch and transformers, so that what is wrong is refused at once."""

import hashlib
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
#: What describes a checkpoint or a module, and what an adapter.
CONFIG, ADAPTER = "config.json", "adapter_config.json"
#: What is known to hold an object.
_OBJECTS = {CONFIG, "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json"}
#: What marks a folder as a pruned checkpoint, and says which heads are gone.
RECORD = "attnprobe.json"
#: What lists the modules of a folder of sentence-transformers, and what describes the whole.
MODULES, WHOLE = "modules.json", "config_sentence_transformers.json"
#: How the weights of an adapter begin, which are none of a whole model.
_ADAPTER_WEIGHTS = "adapter_model"
#: Adapters that add tokens which no tokenizer gives, or that mix several models or layers of their own.
OUTSIDE = {"PROMPT_TUNING", "MULTITASK_PROMPT_TUNING", "P_TUNING", "PREFIX_TUNING", "CPT", "CARTRIDGE"}
OUTSIDE |= {"ADAPTION_PROMPT", "XLORA", "SHADOW"}


def read_json(path: Path) -> Any:
    """Read a json file; None where it is missing or broken."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


def read_object(path: Path) -> dict[str, Any]:
    """Read a json file that holds an object; an empty one where it is missing, broken or something else."""
    content = read_json(path)
    return content if isinstance(content, dict) else {}


def damage_error(path: Path, name: str, error: object) -> ModelError:
    """Say which file of a checkpoint is damaged, and how."""
    reason = first_line(error) if isinstance(error, BaseException) else error
    return ModelError(f"{path.name} of {name} is damaged: {reason}.")


def check_object(path: Path, name: str) -> dict[str, Any]:
    """Read a json file, if it is there; refuse one that holds no object."""
    content = read_json(path) if path.is_file() else {}
    if not isinstance(content, dict):
        raise damage_error(path, name, "it holds no JSON object")
    return content


def refuse_damaged(folder: Path, name: str) -> None:
    """Refuse a checkpoint with a file that can't be read by itself, the first of them by name."""
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
            raise damage_error(file, name, damage) from damage


def weights_error(folder: Path, name: str, error: Exception) -> ModelError:
    """Say why weights can't be loaded."""
    refuse_damaged(folder, name)
    return ModelError(
        f"The weights of {name} can't be loaded as its config.json describes them: {first_line(error)}."
    )


def find_local_folder(name: str) -> Path | None:
    """Find the folder of a checkpoint, or None where the name is one of the hub."""
    if name == DEMO:
        return Path(__file__).parents[1] / DEMO
    folder = os.path.expanduser(name)  # noqa: PTH111 - which takes any name, as its neighbours do
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
    """List the weight files of a folder; refuse a folder that is no checkpoint, and pickles."""
    safe = sorted(path for path in folder.glob("*.safetensors") if path.stem.count(".") == 0)
    pickled, begin = sorted(folder.glob("pytorch_model*.bin")), "*"
    has_base = any(not path.name.startswith(_ADAPTER_WEIGHTS) for path in (*safe, *pickled))
    if (folder / ADAPTER).is_file():
        _check_adapter(folder, name, has_base=has_base)
    if has_base or not (folder / ADAPTER).is_file():
        check_config(folder, name)
    else:  # of other names, peft would read none, and ask the hub for what the folder is called
        begin = _ADAPTER_WEIGHTS
        safe, pickled = ([*folder.glob(begin + end)] for end in (".safetensors", ".bin"))
    if safe or (pickled and allow_bin):
        return safe or pickled
    if pickled:
        raise ModelError(
            f"{name} holds only pickled weights ({pickled[0].name}), which can run code when they are "
            "loaded; pass --allow-bin if you trust them."
        )
    raise ModelError(f"{name} holds no weights ({begin}.safetensors).")


def _check_adapter(folder: Path, name: str, *, has_base: bool) -> None:
    """Refuse an adapter that would not be read, but its base alone."""
    kind = clean(str(check_object(folder / ADAPTER, name).get("peft_type")))
    if kind in OUTSIDE:
        reason = "which adds virtual tokens or other parts outside of its base's layers; give the base alone"
    elif find_spec("peft") is None:
        reason = "which needs peft: pip install peft"
    elif not has_base and (folder / CONFIG).is_file():
        reason = "beside a config.json without its weights; take it away to read the adapter on its base"
    else:
        return
    raise ModelError(f"{name} holds an adapter ({kind}), {reason}.")


@dataclass(frozen=True)
class SentenceFolder:
    """A folder of sentence-transformers: the class and the path of each module, the transformer first."""

    root: Path
    modules: tuple[tuple[str, str], ...]
    described: Mapping[str, Any]

    @property
    def transformer(self) -> Path:
        return self.root / self.modules[0][1]

    @property
    def settings(self) -> dict[str, Any]:
        """How the transformer reads texts."""
        return next(filter(None, map(read_object, self.list_settings())), {})

    @property
    def scores_pairs(self) -> bool:
        """Whether it is a cross-encoder, which gives a score of two texts and no embedding of one."""
        task = self.settings.get("transformer_task")
        return self.described.get("model_type") == "CrossEncoder" or task == "sequence-classification"

    def list_settings(self) -> list[Path]:
        """List the settings of the transformer, which old folders name after its type."""
        return sorted(self.transformer.glob("sentence_*_config.json"))

    def list_files(self) -> dict[str, Path]:
        """List what beside the transformer decides what an embedding is, by its path in the folder."""
        described = (CONFIG, "model.safetensors", "pytorch_model.bin")
        inner = [f"{path}/{name}" for _, path in self.modules[1:] if path for name in described]
        return {name: self.root / name for name in (MODULES, WHOLE, *inner) if (self.root / name).is_file()}

    def copy_modules(self, target: Path) -> None:
        """Copy all but the transformer, which is at the root of ``target``, and links out of the folder."""
        listed = read_json(self.root / MODULES)
        listed[0]["path"] = ""
        (target / MODULES).write_text(json.dumps(listed, indent=2) + "\n", encoding="utf-8")
        copies = dict.fromkeys((self.root / WHOLE, *self.list_settings()), target)
        for _, place in self.modules[1:]:
            if place:
                copies |= dict.fromkeys(sorted((self.root / place).glob("*")), target / place)
        for path, folder in copies.items():
            inside = path.is_file() and is_inside(self.root, path.relative_to(self.root))
            if inside and not (folder / path.name).exists():
                folder.mkdir(parents=True, exist_ok=True)
                (folder / path.name).write_bytes(path.read_bytes())


def read_sentence_folder(root: Path, name: str) -> SentenceFolder | None:
    """Read a folder of sentence-transformers, all inside of it; None for any other folder."""
    if not (root / MODULES).is_file():
        return None
    listed = read_json(root / MODULES)
    entries = listed if isinstance(listed, list) and all(isinstance(entry, dict) for entry in listed) else []
    modules = tuple((entry.get("type"), entry.get("path")) for entry in entries)
    if not modules or not all(isinstance(text, str) for module in modules for text in module):
        raise damage_error(root / MODULES, name, "it lists no modules, each with a type and a path")
    if outside := [clean(path) for _, path in modules if not is_inside(root, path)]:
        raise ModelError(f"The {MODULES} of {name} names {outside[0]}, which is not inside the folder.")
    # Without these, texts would be read without their prompt, or to another length.
    folder = SentenceFolder(root, modules, check_object(root / WHOLE, name))
    for path in folder.list_settings():
        check_object(path, name)
    return folder


def is_inside(root: Path, path: str | Path) -> bool:
    """Tell whether a path in a folder stays inside it, or in the hub's ``blobs``, links included."""
    home = root.resolve()
    blobs = home.parents[1] / "blobs" if home.parent.name == "snapshots" else home
    return any(lies_in(root / path, folder) for folder in (home, blobs))


def find_transformer(root: Path, name: str, adapter: str | None = None) -> tuple[Path, SentenceFolder | None]:
    """Find the folder of a checkpoint's transformer or of an adapter, and that of sentence-transformers."""
    sentences = read_sentence_folder(root, name)
    folder = root if sentences is None else sentences.transformer
    described = any((folder / file).is_file() for file in (CONFIG, ADAPTER))
    inside = sorted(path.parent.name for path in folder.glob(f"*/{ADAPTER}"))
    if adapter not in inside and (adapter is not None or (inside and not described)):
        named = join_names(list(map(clean, inside))) if inside else "none"
        raise UsageError(f"--adapter: choose one of the adapters in {name}, which are {named}.")
    return folder if adapter is None else folder / adapter, sentences


def list_descriptions(folder: Path) -> list[Path]:
    """List what beside the weights decides what a checkpoint does: configuration and tokenizers."""
    skipped = ("README", RECORD, "model.safetensors.index.json")
    return sorted(
        path
        for path in (*folder.glob("*"), *folder.glob("target_tokenizer/*"))
        if path.suffix in {".json", ".txt", ".model"} and path.is_file() and not path.name.startswith(skipped)
    )


def hash_file(path: Path) -> str:
    """Compute the SHA-256 of a file."""
    with path.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


def check_free(folder: Path, *, overwrite: bool) -> Path:
    """Refuse a folder that is not free, or can't be written, before anything is computed for it."""
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
