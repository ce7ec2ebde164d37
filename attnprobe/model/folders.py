"""Folders of checkpoints: weights, adapters, modules of sentence-transformers; and which are free for one."""

import hashlib
import json
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any

from attnprobe.errors import AttnprobeError, ModelError, UsageError, first_line
from attnprobe.table.cells import clean
from attnprobe.table.naming import join_names

#: What describes an adapter in its folder.
ADAPTER = "adapter_config.json"
#: How the weights of an adapter begin, which are none of a whole model.
_ADAPTER_WEIGHTS = "adapter_model"
#: Kinds that add tokens which no tokenizer gives, and those that mix several models or layers of their own.
_PROMPTS = {"PROMPT_TUNING", "MULTITASK_PROMPT_TUNING", "P_TUNING", "PREFIX_TUNING", "CPT", "CARTRIDGE"}
_OTHERS = {"ADAPTION_PROMPT", "XLORA", "SHADOW"}


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


def damage_error(path: Path, name: str, error: object) -> ModelError:
    """Say which file of a checkpoint is damaged, and how, as far as the file itself or an error tells."""
    reason = first_line(error) if isinstance(error, BaseException) else str(error)
    if path.suffix == ".json" and path.is_file():
        try:
            whole = path.name == MODULES or isinstance(json.loads(path.read_bytes()), dict)
        except (OSError, ValueError, RecursionError):
            reason = "it is not valid JSON"
        else:
            reason = reason if whole else "it holds no JSON object"
    return ModelError(f"{path.name} of {name} is damaged: {reason}.")


def check_object(path: Path, name: str) -> None:
    """Refuse a json file that is there and holds no object."""
    if path.is_file() and not isinstance(read_json(path), dict):
        raise damage_error(path, name, "it holds no JSON object")


def acts_outside_layers(config: Any) -> bool:
    """Tell whether an adapter acts beside the layers of its base, so that the base is not the whole model."""
    kind = getattr(config.peft_type, "value", config.peft_type)
    return bool(getattr(config, "is_prompt_learning", False)) or kind in _PROMPTS | _OTHERS


def check_adapter(folder: Path, name: str, *, base: bool) -> None:
    """Refuse a folder with an adapter that would not be read."""
    if not (folder / ADAPTER).is_file():
        return
    if not (described := read_object(folder / ADAPTER)):
        raise damage_error(folder / ADAPTER, name, "it holds no JSON object")
    kind, of = str(described.get("peft_type")), described.get("base_model_name_or_path") or "its base model"
    if kind in _PROMPTS | _OTHERS:
        raise ModelError(
            f"{name} holds an adapter ({kind}) that adds virtual tokens or other parts outside of the base "
            f"model's layers, which attnprobe does not read; give {of} to ask the base without it."
        )
    if find_spec("peft") is None:
        raise ModelError(
            f"{name} holds an adapter ({kind}) beside the weights of its base, and without peft the base "
            f"would be read alone; pip install peft, or take {ADAPTER} away to ask the base."
            if base
            else f"{name} is an adapter ({kind}) of {of}, and needs peft: pip install peft."
        )
    if not base and (folder / "config.json").is_file():
        raise ModelError(
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
            raise UsageError(f"--adapter {clean(adapter)}: {name} has no such adapter; {there}.")
        return folder / adapter
    if inside and not (folder / ADAPTER).is_file() and not (folder / "config.json").is_file():
        raise UsageError(f"{name} holds the adapters {named}; choose one with --adapter.")
    return folder


#: The name of the encoder that ships inside the package.
DEMO = "demo"
#: What marks a folder as a pruned checkpoint, and says which heads are gone.
RECORD = "attnprobe.json"


def find_local_folder(name: str) -> Path | None:
    """Find the folder of a checkpoint, or None where the name is one of the hub."""
    if not name.strip():
        raise UsageError("The name of the model is blank; give a folder, or an id of the hub.")
    try:
        folder = Path(name).expanduser()
        if folder.is_dir():
            return folder
        if folder.exists():
            raise UsageError(f"{name} is a file; give the folder that holds config.json and the weights.")
        if folder.is_symlink():
            raise UsageError(f"{name} is a link that leads nowhere.")
    except (OSError, RuntimeError) as error:  # such as a name too long
        reason = getattr(error, "strerror", None) or first_line(error)
        raise UsageError(f"{name} can't be the name of a folder: {reason.lower()}.") from error
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise UsageError(f"There is no folder {name}.")
    return None


def check_config(folder: Path, name: str) -> None:
    if not (folder / "config.json").is_file():
        raise ModelError(f"{name} holds no config.json, so it is not a Hugging Face checkpoint.")


def find_weights(folder: Path, name: str, *, allow_bin: bool) -> list[Path]:
    """List the weight files of a folder; refuse a folder that is no checkpoint, and pickles."""
    safe = sorted(path for path in folder.glob("*.safetensors") if path.stem.count(".") == 0)
    pickled = sorted(folder.glob("pytorch_model*.bin"))
    has_base = any(not path.name.startswith(_ADAPTER_WEIGHTS) for path in (*safe, *pickled))
    check_adapter(folder, name, base=has_base)
    if has_base or not (folder / ADAPTER).is_file():
        check_config(folder, name)
    else:  # of other names, peft would read none, and ask the hub for what the folder is called
        safe, pickled = ([*folder.glob(_ADAPTER_WEIGHTS + end)] for end in (".safetensors", ".bin"))
    if safe or (pickled and allow_bin):
        return safe or pickled
    if pickled:
        raise ModelError(
            f"{name} holds only pickled weights ({pickled[0].name}), which can run code when they are "
            "loaded; pass --allow-bin if you trust them."
        )
    begin = "*" if (folder / "config.json").is_file() else _ADAPTER_WEIGHTS
    raise ModelError(f"{name} holds no weights ({begin}.safetensors).")


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
            raise UsageError(f"{folder} is a file; name a folder for the pruned checkpoint.")
        if not any(found.iterdir()):
            return found
    except (OSError, RuntimeError) as error:
        raise write_error(folder, error) from error
    if not overwrite:
        raise UsageError(f"{folder} exists; choose another folder or pass --overwrite.")
    if not (found / RECORD).is_file():  # nobody meant to lose anything else
        raise UsageError(
            f"{folder} holds no {RECORD}, so it is no pruned checkpoint and is not replaced; "
            "choose another folder."
        )
    return found


def _check_writable(folder: Path, parent: Path) -> None:
    if not parent.is_dir():
        raise UsageError(f"{folder} can't be made: {parent} is a file.")
    try:
        tempfile.TemporaryFile(dir=parent).close()
    except OSError as error:
        raise write_error(folder, error) from error


def write_error(folder: Path, error: Exception) -> AttnprobeError:
    reason = (getattr(error, "strerror", None) or first_line(error)).lower()
    return UsageError(f"{folder} can't be written ({reason}); choose another folder.")


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


#: What lists the modules of a model, one after the other, and what describes the whole.
MODULES, WHOLE = "modules.json", "config_sentence_transformers.json"
#: How the settings of the transformer are called, which old folders name after its type.
_SETTINGS, _USUAL_SETTINGS = "sentence_*_config.json", "sentence_bert_config.json"
#: Whose classes are known by their last name.
_OWN = "sentence_transformers."
#: What a module's own folder holds.
DESCRIPTION, WEIGHTS, PICKLED = "config.json", "model.safetensors", "pytorch_model.bin"
#: What stands for no prompt at all.
NO_PROMPT = "none"
#: Modules, prompts and letters of a prompt that anybody means.
_MOST_MODULES, _MOST_PROMPTS, _MOST_LETTERS = 64, 1000, 100_000
#: How messages may show a prompt.
_SHOWN = 60


@dataclass(frozen=True)
class Module:
    """A module: its class, as sentence-transformers calls it or in full, and the folder it lies in."""

    kind: str
    path: str


#: What the prompts are called that sentence-transformers puts before queries, and before what they look for.
_ROLES = {"query": ("query",), "document": ("document", "passage", "corpus")}


@dataclass(frozen=True)
class Prompts:
    """The prompts of a model by their names, and which is put before texts where none is named."""

    texts: Mapping[str, str] = field(default_factory=dict)
    usual: str | None = None

    @classmethod
    def parse(cls, described: Mapping[str, Any]) -> "Prompts":
        """Read what describes a model; what is no prompt is left out."""
        found = described.get("prompts")
        listed = list(found.items())[:_MOST_PROMPTS] if isinstance(found, Mapping) else []
        texts = {
            str(name): text for name, text in listed if isinstance(text, str) and len(text) <= _MOST_LETTERS
        }
        usual = described.get("default_prompt_name")
        return cls(texts, usual if isinstance(usual, str) and usual in texts else None)

    def choose(self, name: str | None, model: str) -> tuple[str | None, str]:
        """Choose a prompt: the one of a name, or what ``encode`` puts before texts by itself.

        Returns:
            Its name, or None where there is none, and its text.

        Raises:
            AttnprobeError: When there is no prompt of that name.
        """
        chosen = self.usual if name is None else name
        if chosen is None or (chosen == NO_PROMPT and NO_PROMPT not in self.texts):
            return None, ""
        if chosen not in self.texts:
            known = join_names([clean(one) for one in self.texts]) if self.texts else ""
            there = f"it knows {known}, or {NO_PROMPT}" if known else f"it has no prompts ({WHOLE})"
            raise UsageError(f"--prompt {clean(chosen)}: {model} has no such prompt; {there}.")
        return chosen, self.texts[chosen]

    def choose_by_role(self, name: str | None) -> dict[str, str]:
        """Choose the prompts of queries and of passages: those that are called so, not the usual one.

        So do ``encode_query`` and ``encode_document`` of sentence-transformers, but that these take no prompt
        for passages which is called "passage" or "corpus". A prompt that is named is that of queries; where
        none is wanted, there is none for either.
        """
        if name == NO_PROMPT and NO_PROMPT not in self.texts:
            return dict.fromkeys(_ROLES, "")
        known = {
            role: next(filter(None, (self.texts.get(one) for one in names)), "")
            for role, names in _ROLES.items()
        }
        return known if name is None else known | {"query": self.texts[name]}


@dataclass(frozen=True)
class SentenceFolder:
    """A folder of sentence-transformers.

    Attributes:
        root: The folder.
        modules: Its modules, the transformer first.
        described: What is said of the whole model.
    """

    root: Path
    modules: tuple[Module, ...]
    described: Mapping[str, Any]

    @property
    def transformer(self) -> Path:
        """The folder of its transformer."""
        return self.root / self.modules[0].path

    @property
    def settings(self) -> dict[str, Any]:
        """How the transformer reads texts."""
        return next(filter(None, map(read_object, _list_settings_files(self.transformer))), {})

    @property
    def prompts(self) -> Prompts:
        return Prompts.parse(self.described)

    @property
    def scores_pairs(self) -> bool:
        """Whether it is a cross-encoder, which gives a score of two texts and no embedding of one."""
        task = self.settings.get("transformer_task")
        return self.described.get("model_type") == "CrossEncoder" or task == "sequence-classification"

    def list_files(self) -> dict[str, Path]:
        """List what beside the transformer decides what an embedding is, by its path in the folder."""
        names = [MODULES, WHOLE]
        own = (DESCRIPTION, WEIGHTS, PICKLED)
        names += [f"{module.path}/{name}" for module in self.modules[1:] if module.path for name in own]
        return {name: path for name in names if (path := self.root / name).is_file()}


def read_folder(root: Path, name: str) -> SentenceFolder | None:
    """Read a folder of sentence-transformers; None for any other.

    Raises:
        ModelError: When a module lies outside of the folder, or a file that describes it is damaged.
    """
    if not (root / MODULES).is_file():
        return None
    listed = _list_modules(root)
    if not listed or listed != read_json(root / MODULES)[:_MOST_MODULES]:
        raise damage_error(root / MODULES, name, "it lists no modules, each with a type and a path")
    modules = [Module(find_kind(one["type"]), one["path"]) for one in listed]
    for module in modules:
        if not is_inside(root, module.path):
            raise ModelError(
                f"The {MODULES} of {name} names {clean(module.path)}, which is not inside the folder; take "
                "it from where the model comes from."
            )
    # Without these, texts would be read without their prompt, to another length, or pooled in another way.
    check_object(root / WHOLE, name)
    for module in modules[1:]:
        path = root / module.path / DESCRIPTION
        check_object(path, name)
        for key, value in read_object(path).items():
            if key.startswith("pooling_mode_") and type(value) is not bool:
                raise damage_error(path, name, f"{key} is {value!r}, and must be true or false")
    for path in _list_settings_files(root / modules[0].path):
        check_object(path, name)
        longest = read_object(path).get("max_seq_length")
        if longest is not None and (type(longest) is not int or longest < 1):
            raise damage_error(path, name, f"max_seq_length is {longest!r}, and must be at least 1")
    return SentenceFolder(root, tuple(modules), read_object(root / WHOLE))


def _list_modules(root: Path) -> list[dict[str, Any]]:
    listed = read_json(root / MODULES)
    return [
        one
        for one in (listed if isinstance(listed, list) else [])[:_MOST_MODULES]
        if isinstance(one, dict) and isinstance(one.get("path"), str) and isinstance(one.get("type"), str)
    ]


def is_inside(root: Path, path: str) -> bool:
    """Tell whether the path of a module stays in its folder, links included.

    Of a snapshot in the hub's cache, files are links into the folder ``blobs`` beside all snapshots.
    """
    parts = PurePosixPath(path).parts
    if path.startswith("/") or ".." in parts or re.search(r"[\\:\0]", path):
        return False
    try:
        home, found = root.resolve(), (root / path).resolve()
    except (OSError, RuntimeError, ValueError):
        return False
    allowed = [home, *([home.parents[1] / "blobs"] if home.parent.name == "snapshots" else [])]
    return any(found.is_relative_to(one) for one in allowed)


def find_transformer(root: Path, name: str, adapter: str | None = None) -> Path:
    """Find the folder of a checkpoint's transformer, or of its adapter: itself, or that of the first module.

    Raises:
        AttnprobeError: When the first module is not there, or is no transformer.
    """
    found = read_folder(root, name)
    if found is None:
        return choose_adapter(root, name, adapter)
    kind, place = found.modules[0].kind, found.modules[0].path
    if place and not found.transformer.is_dir():
        raise ModelError(
            f"{name} is a folder of sentence-transformers, and its transformer, {clean(place)}, is not "
            f"there; download all of {name}."
        )
    described = any((found.transformer / one).is_file() for one in (DESCRIPTION, ADAPTER))
    if kind != "Transformer" and not described:
        raise ModelError(
            f"{name} is a folder of sentence-transformers whose first module is {clean(kind)}, which has no "
            "attention that attnprobe could read."
        )
    return found.transformer if adapter is None else choose_adapter(found.transformer, name, adapter)


def check_prompt(root: Path, name: str, prompt: str | None) -> None:
    """Refuse a prompt that a model does not know, before it is loaded."""
    if prompt is not None:
        found = read_folder(root, name)
        (found.prompts if found else Prompts()).choose(prompt, name)


def _list_settings_files(folder: Path) -> list[Path]:
    found = (path for path in folder.glob(_SETTINGS) if path.is_file())
    return sorted(found, key=lambda path: (path.name != _USUAL_SETTINGS, path))


def copy_modules(folder: SentenceFolder, target: Path) -> None:
    """Copy all but the transformer, which lies at the root of ``target`` already, whatever its path was.

    What lies in the folders that ``modules.json`` names is copied, and nothing else. A link that leads out of
    the folder is not followed.
    """
    listed = _list_modules(folder.root)
    listed[0] = {**listed[0], "path": ""}
    (target / MODULES).write_text(json.dumps(listed, indent=2) + "\n", encoding="utf-8")
    for path in [folder.root / WHOLE, *_list_settings_files(folder.transformer)]:
        _copy(folder.root, path, target / path.name)
    for module in folder.modules[1:]:
        if not module.path:
            continue
        place = target / module.path
        place.mkdir(parents=True, exist_ok=True)
        for path in sorted((folder.root / module.path).glob("*")):
            _copy(folder.root, path, place / path.name)


def _copy(root: Path, path: Path, target: Path) -> None:
    """Copy a file that is there, lies in the folder, and would take no other's place."""
    if path.is_file() and is_inside(root, path.relative_to(root).as_posix()) and not target.exists():
        target.write_bytes(path.read_bytes())


def list_module_paths(root: Path, name: str) -> list[str]:
    """List the folders within a folder that its modules lie in."""
    found = read_folder(root, name)
    return list(dict.fromkeys(one.path.strip("/") for one in (found.modules if found else ()) if one.path))


def quote(prompt: str) -> str:
    """Quote a prompt, or how it begins."""
    shown = clean(prompt)
    return f"'{shown}'" if len(shown) <= _SHOWN else f"'{shown[:_SHOWN]}...'"


def find_kind(name: str) -> str:
    """Find what sentence-transformers calls a class; of any other, its whole name."""
    return name.rpartition(".")[2] if name.startswith(_OWN) else clean(name)
