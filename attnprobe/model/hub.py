"""Checkpoints by name: what their files say before weights are loaded, and what a run downloaded."""

import contextlib
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

import transformers

from attnprobe.errors import AttnprobeError
from attnprobe.model.adapters import find_adapter
from attnprobe.model.configuration import read_config
from attnprobe.model.folders import DEMO, check_config, find_local_folder, find_weights
from attnprobe.model.load import (
    LoadOptions,
    hash_file,
    list_descriptions,
    list_tokenizer_files,
    load_tokenizers,
    locate,
)
from attnprobe.model.transformers_private import HF_HUB_CACHE, repo_folder_name

#: What must be alike in the configurations of one training run, and what a person calls it.
_SHAPE = {
    "num_hidden_layers": "layers",
    "num_attention_heads": "heads a layer",
    "hidden_size": "numbers a token",
}


@dataclass(frozen=True)
class CheckpointFiles:
    """A checkpoint without its weights.

    Attributes:
        name: What the user calls it.
        options: How it is loaded.
        folder: Where its files lie.
        commit: On the hub; empty for a folder.
        base: What an adapter was trained on; None for a whole model.
    """

    name: str
    options: LoadOptions
    folder: Path
    commit: str = ""
    base: "CheckpointFiles | None" = None

    @classmethod
    def read(cls, name: str, options: LoadOptions) -> "CheckpointFiles":
        """Find a checkpoint; of one on the hub, fetch what describes it.

        Raises:
            AttnprobeError: When it is not there, or a folder that is no checkpoint.
        """
        if name == DEMO:
            return cls(name, options, Path(str(files("attnprobe") / "demo")))
        folder, origin = locate(name, options, weights=False)
        adapter = find_adapter(folder, name, options.base, hub="hub" in origin)
        if not origin.get("commit"):
            find_weights(folder, name, allow_bin=options.allow_bin)
        elif adapter is None:
            check_config(folder, name)
        base = None
        if adapter is not None:
            of = replace(options, revision=adapter.revision, base=None, adapter=None)
            base = cls.read(adapter.base, of)
        return cls(name, options, folder, origin.get("commit", ""), base)

    @property
    def said(self) -> str:
        """How a sentence names it."""
        return f"{self.name} at {self.options.revision}" if self.options.revision else self.name

    @cached_property
    def identity(self) -> str:
        """What tells it from any other: the commit on the hub, or the SHA-256 of its files."""
        if self.commit:
            return f"{self.name} {self.commit}{f' on {self.base.identity}' if self.base else ''}"
        weights = find_weights(self.folder, self.name, allow_bin=self.options.allow_bin)
        every = hashlib.sha256()
        for path in (*weights, *list_descriptions(self.folder)):
            every.update(f"{path.name} {hash_file(path)}\n".encode())
        if self.base is not None:
            every.update(self.base.identity.encode())
        return every.hexdigest()

    @cached_property
    def config(self) -> Any:
        """Its configuration; of an adapter, that of its base."""
        if self.base is not None:
            return self.base.config
        transformers.logging.set_verbosity_error()
        return read_config(self.folder, self.said, trust_remote_code=self.options.trust_remote_code)

    @property
    def label(self) -> str:
        """What a table calls it."""
        return self.name if self.commit or self.name == DEMO else self.folder.resolve().name

    @property
    def shapes(self) -> dict[str, tuple[int, int]]:
        """Layers, and heads in each, of its encoder and of its decoder; of any other, under no name.

        Nothing where its configuration does not say.
        """
        names = {"": ("num_hidden_layers", "num_attention_heads")}
        if self.config.is_encoder_decoder:
            names = {"encoder": names[""], "decoder": ("decoder_layers", "decoder_attention_heads")}
        config = self.config.get_text_config()
        found = {
            part: tuple(number for name in both if isinstance(number := getattr(config, name, None), int))
            for part, both in names.items()
        }
        shapes = {part: (both[0], both[1]) for part, both in found.items() if len(both) == 2}
        return shapes if len(shapes) == len(found) else {}

    @property
    def stated(self) -> tuple[str, ...]:
        """The classes of models that it says it was saved from."""
        return tuple(map(str, getattr(self.config, "architectures", None) or ()))

    def shares_tokenizer(self, other: "CheckpointFiles") -> bool:
        """Whether it has the tokenizer of another one."""
        return self.spelling == other.spelling or self.vocabulary == other.vocabulary

    @cached_property
    def spelling(self) -> dict[str, str]:
        """The SHA-256 of each file of its tokenizer."""
        own = {path.name: hash_file(path) for path in list_tokenizer_files(self.folder) if path.is_file()}
        return self.base.spelling if self.base is not None and not own else own

    @cached_property
    def vocabulary(self) -> dict[str, int]:
        """The number of each token."""
        shared = {"trust_remote_code": self.options.trust_remote_code, "local_files_only": True}
        if self.base is not None and not list_tokenizer_files(self.folder):
            return self.base.vocabulary
        tokenizer: Any = load_tokenizers(self.folder, self.said, self.config.model_type, **shared)[0]
        return tokenizer.get_vocab()


def check_one_run(checkpoints: Sequence[CheckpointFiles]) -> None:
    """Refuse checkpoints that can't be of one training run: other shapes, other tokenizers.

    Raises:
        AttnprobeError: With the first that differs from the one before it.
    """
    first, *others = checkpoints
    for one in others:
        if one.config.model_type != first.config.model_type:
            raise AttnprobeError(
                f"{first.said} is of type {first.config.model_type} and {one.said} of type "
                f"{one.config.model_type}; give checkpoints of one training run."
            )
        ours, theirs = (each.config.get_text_config() for each in (first, one))
        for name, words in _SHAPE.items():
            mine, other = getattr(ours, name, None), getattr(theirs, name, None)
            if mine != other:
                raise AttnprobeError(
                    f"{first.said} has {mine} {words} and {one.said} {other}; give checkpoints of one "
                    "training run."
                )
        if not one.shares_tokenizer(first):
            raise AttnprobeError(
                f"{first.said} and {one.said} have different tokenizers, which read the texts differently; "
                "give checkpoints with one tokenizer."
            )


class Downloads:
    """What a run adds to the hub's cache, so that it can be taken away again."""

    def __init__(self, names: Iterable[str], cache: Path | None) -> None:
        """Note what is there before, of some models of the hub."""
        root = Path(cache or HF_HUB_CACHE).expanduser()
        there = {name for name in names if name != DEMO and find_local_folder(name) is None}
        self._folders = {name: root / repo_folder_name(repo_id=name, repo_type="model") for name in there}
        self._before = {path for folder in self._folders.values() for path in folder.rglob("*")}
        self._before |= {folder for folder in self._folders.values() if folder.is_dir()}

    def drop(self, checkpoint: CheckpointFiles) -> None:
        """Take away what was added for a checkpoint, as far as no other one of the cache shares it."""
        folder = self._folders.get(checkpoint.name)
        if folder is None or not checkpoint.commit:
            return
        snapshot, absent = (folder / part / checkpoint.commit for part in ("snapshots", ".no_exist"))
        blobs = {path.resolve() for path in self._added(snapshot) if path.is_symlink()}
        reference = folder / "refs" / (checkpoint.options.revision or "main")
        added = [*self._added(snapshot), *self._added(absent)]
        added += [reference] if reference.is_file() and reference not in self._before else []
        _unlink(added)
        shared = {path.resolve() for path in (folder / "snapshots").rglob("*") if path.is_symlink()}
        inside = (folder / "blobs").resolve()
        _unlink(
            blob
            for blob in blobs - shared
            if blob.parent == inside and folder / "blobs" / blob.name not in self._before
        )
        every = [path for path in folder.rglob("*") if path.is_dir()] if folder.is_dir() else []
        for empty in sorted([*every, folder], reverse=True):
            if empty not in self._before:
                with contextlib.suppress(OSError):  # not empty, or gone
                    empty.rmdir()

    def _added(self, folder: Path) -> list[Path]:
        found = folder.rglob("*") if folder.is_dir() else ()
        return [path for path in found if path not in self._before and (path.is_symlink() or path.is_file())]


def _unlink(paths: Iterable[Path]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink()


def find_checkpoints(run: Iterable[tuple[str, str | None]], options: LoadOptions) -> list[CheckpointFiles]:
    """Look at every checkpoint, each a name and a revision or None for the one that the options name."""
    return [
        CheckpointFiles.read(name, options if revision is None else replace(options, revision=revision))
        for name, revision in run
    ]
