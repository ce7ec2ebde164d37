"""Folders of sentence-transformers: their modules, settings and prompts, read without importing it."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from attnprobe.errors import AttnprobeError
from attnprobe.model.folders import ADAPTER, choose_adapter, read_json, read_object
from attnprobe.model.refusals import BadCheckpointError
from attnprobe.table.cells import clean
from attnprobe.table.naming import join_names

#: What lists the modules of a model, one after the other, and what describes the whole.
MODULES, WHOLE = "modules.json", "config_sentence_transformers.json"
#: How the settings of the transformer are called, which old folders name after its type.
_SETTINGS = "sentence_*_config.json"
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
            raise AttnprobeError(f"--prompt {clean(chosen)}: {model} has no such prompt; {there}.")
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
        return read_settings(self.transformer)

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
        BadCheckpointError: When a module lies outside of the folder.
    """
    modules = [Module(find_kind(one["type"]), one["path"]) for one in _list_modules(root)]
    if not modules:
        return None
    for module in modules:
        if not is_inside(root, module.path):
            raise BadCheckpointError(
                f"The {MODULES} of {name} names {clean(module.path)}, which is not inside the folder; take "
                "it from where the model comes from."
            )
    return SentenceFolder(root, tuple(modules), read_object(root / WHOLE))


def _list_modules(root: Path) -> list[dict[str, Any]]:
    """List the modules, as the file describes each; none where there is no such list."""
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
        raise BadCheckpointError(
            f"{name} is a folder of sentence-transformers, and its transformer, {clean(place)}, is not "
            f"there; download all of {name}."
        )
    described = any((found.transformer / one).is_file() for one in (DESCRIPTION, ADAPTER))
    if kind != "Transformer" and not described:
        raise BadCheckpointError(
            f"{name} is a folder of sentence-transformers whose first module is {clean(kind)}, which has no "
            "attention that attnprobe could read."
        )
    return found.transformer if adapter is None else choose_adapter(found.transformer, name, adapter)


def check_prompt(root: Path, name: str, prompt: str | None) -> None:
    """Refuse a prompt that a model does not know, before it is loaded."""
    if prompt is not None:
        found = read_folder(root, name)
        (found.prompts if found else Prompts()).choose(prompt, name)


def read_settings(folder: Path) -> dict[str, Any]:
    """Read the settings of a transformer, whose file is named after its type in old folders."""
    paths = [folder / "sentence_bert_config.json", *sorted(folder.glob(_SETTINGS))]
    return next((found for path in paths if (found := read_object(path))), {})


def list_settings_files(folder: Path) -> list[Path]:
    """List the files with the settings of a transformer."""
    return sorted(path for path in folder.glob(_SETTINGS) if path.is_file())


def copy_modules(folder: SentenceFolder, target: Path) -> None:
    """Copy all but the transformer, which lies at the root of ``target`` already, whatever its path was.

    What lies in the folders that ``modules.json`` names is copied, and nothing else. A link that leads out of
    the folder is not followed.
    """
    listed = _list_modules(folder.root)
    listed[0] = {**listed[0], "path": ""}
    (target / MODULES).write_text(json.dumps(listed, indent=2) + "\n", encoding="utf-8")
    for path in [folder.root / WHOLE, *list_settings_files(folder.transformer)]:
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
