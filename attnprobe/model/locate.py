"""Where a checkpoint lies, and what its files say of it, without heavy imports."""

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from glob import escape
from pathlib import Path
from typing import Any

from attnprobe.errors import ModelError, UsageError, first_line
from attnprobe.model.folders import (
    ADAPTER,
    CONFIG,
    DEMO,
    SentenceFolder,
    check_config,
    check_object,
    find_local_folder,
    find_transformer,
    find_weights,
    hash_file,
    list_descriptions,
    read_sentence_folder,
    refuse_damaged,
)
from attnprobe.table.cells import clean

#: A device for each part of a model, or how to choose them.
DeviceMap = str | dict[str, Any]
#: What describes a checkpoint, and is fetched from the top level of a hub repository beside its weights.
_WANTED = ["*.json", "*.txt", "*.model"]
_SHARDS_OF_OTHERS = "*.*.safetensors"
#: What must be alike in the configurations of one training run.
_SHAPE = ("model_type", "num_hidden_layers", "num_attention_heads", "hidden_size")


@dataclass(frozen=True)
class LoadOptions:
    """How to load: the options of the command line of the same names; see ``attnprobe.options``."""

    revision: str | None = None
    trust_remote_code: bool = False
    allow_bin: bool = False
    device: str = "auto"
    device_map: DeviceMap | None = None
    dtype: str = "float32"
    base: str | None = None
    adapter: str | None = None
    prompt: str | None = None
    random_weights: int | None = None


@dataclass(frozen=True)
class CheckpointFiles:
    """What is known of a checkpoint from its files, before its weights are loaded.

    The ``folder`` is that of its transformer, or of its adapter, whose description is ``adapter``, and which
    was trained on ``base``; ``sentences`` is the folder of sentence-transformers around the transformer.
    """

    name: str
    options: LoadOptions
    folder: Path
    origin: dict[str, Any]
    sentences: SentenceFolder | None = None
    adapter: Mapping[str, Any] = field(default_factory=dict)
    base: "CheckpointFiles | None" = None

    @property
    def full_name(self) -> str:
        """Its name in sentences, with its revision."""
        return f"{self.label} at {self.options.revision}" if self.options.revision else self.label

    @property
    def label(self) -> str:
        """Its id on the hub, or the name of the folder that was named."""
        root = self.folder if self.sentences is None else self.sentences.root
        return self.origin.get("hub", root.resolve().name)

    @cached_property
    def weights(self) -> list[Path]:
        return find_weights(self.folder, self.name, allow_bin=self.options.allow_bin)

    @cached_property
    def identity(self) -> str:
        """What tells it from any other: the commit on the hub, or the SHA-256 of its files."""
        on_base = "" if self.base is None else f" on {self.base.identity}"
        if "commit" in self.origin:
            return f"{self.name} {self.origin['commit']}{on_base}"
        return hashlib.sha256(f"{self.hashes}{on_base}".encode()).hexdigest()

    @property
    def hashes(self) -> dict[str, dict[str, str]]:
        """The SHA-256 of each file, for the record."""
        listed = {"weights": self.weights, "files": list_descriptions(self.folder)}
        hashes = {
            kind: {path.relative_to(self.folder).as_posix(): hash_file(path) for path in paths}
            for kind, paths in listed.items()
        }
        if self.sentences is not None:
            hashes["modules"] = {name: hash_file(path) for name, path in self.sentences.list_files().items()}
        return hashes

    @cached_property
    def config(self) -> Any:
        """Its configuration; of an adapter, that of its base."""
        if self.base is not None:
            return self.base.config
        import transformers

        transformers.logging.set_verbosity_error()
        try:
            return transformers.AutoConfig.from_pretrained(self.folder, **self.trust)
        except Exception as error:
            check_object(self.folder / CONFIG, self.full_name)
            reason = f"The config.json of {self.full_name} can't be used: {first_line(error)}."
            raise ModelError(reason) from error

    @cached_property
    def tokenizers(self) -> tuple[Any, Any]:
        """Its tokenizer, or that of an adapter's base; and that of targets, where it is another."""
        from transformers import AutoTokenizer

        is_there = (self.folder / "tokenizer_config.json").is_file()
        folder = self.folder if self.base is None or is_there else self.base.folder
        targets = folder / "target_tokenizer"
        try:
            tokenizer: Any = AutoTokenizer.from_pretrained(folder, **self.trust)
            other = AutoTokenizer.from_pretrained(targets, **self.trust) if targets.is_dir() else None
            if len(tokenizer) <= len(set(tokenizer.all_special_ids)):  # which transformers makes up
                raise ValueError("such as tokenizer.json or vocab.txt")
            int(tokenizer.model_max_length)  # which is compared with
        except Exception as error:
            refuse_damaged(folder, self.full_name)
            raise ModelError(
                f"{self.full_name} holds no tokenizer that loads ({first_line(error)}); copy the files of "
                "the one that the model was trained with into the folder."
            ) from error
        return tokenizer, other

    @property
    def trust(self) -> dict[str, Any]:
        """The options of ``from_pretrained`` that guard against files of strangers."""
        return {"trust_remote_code": self.options.trust_remote_code, "local_files_only": True}


def locate(
    name: str, options: LoadOptions, *, weights: bool = True, is_base: bool = False
) -> CheckpointFiles:
    """Find the folder of a checkpoint, and of an adapter's base, fetching them from the hub if need be.

    ``name`` is ``demo``, a local folder, or a hub id. Without ``weights``, only what describes it is fetched.
    The base of an adapter is no adapter itself.

    Raises:
        AttnprobeError: When there is none, or it is no checkpoint.
    """
    if (root := find_local_folder(name)) is not None:
        origin = {"folder": root.resolve().name}
    else:
        root = _download(name, options, weights=weights)
        origin = {"hub": name, "commit": root.name}
    folder, sentences = find_transformer(root, name, options.adapter)
    files = CheckpointFiles(name, options, folder, origin, sentences)
    if weights or "folder" in origin:
        find_weights(folder, name, allow_bin=options.allow_bin)
    if is_base or (folder / CONFIG).is_file() or not (folder / ADAPTER).is_file():
        check_config(folder, name)
        return files
    files = replace(files, adapter=check_object(folder / ADAPTER, name))
    return replace(files, base=_locate_base(files, weights=weights))


def _locate_base(files: CheckpointFiles, *, weights: bool) -> CheckpointFiles:
    """Locate what an adapter was trained on: what the user names, or else what the adapter names."""
    hub, name, revision = "hub" in files.origin, files.options.base, None
    if name is None:
        name, revision = (files.adapter.get(key) for key in ("base_model_name_or_path", "revision"))
        if not isinstance(name, str) or not name:
            raise ModelError(f"The adapter {files.name} names no base model; name it with --base.")
        is_path = Path(name).is_absolute() or name.startswith((".", "~")) or name.count("/") > 1
        is_here = os.path.isdir(os.path.expanduser(name))  # noqa: PTH111, PTH112 - which take any name
        # An adapter of the hub chooses no folder, be it of somebody else's machine or here by chance.
        if name != DEMO and ((hub and (is_path or is_here)) or (is_path and not is_here)):
            raise ModelError(
                f"The adapter {files.name} was trained on {clean(name)}, which is or may be a folder of "
                "another machine; name its base with --base."
            )
    revision = revision if isinstance(revision, str) else None
    options = replace(files.options, revision=revision, base=None, adapter=None)
    return locate(name, options, weights=weights, is_base=True)


def find_run(run: Iterable[tuple[str, str | None]], options: LoadOptions) -> list[CheckpointFiles]:
    """Find the checkpoints of a training run, each a name and a revision, or None for that of the options.

    Raises:
        UsageError: When their shapes or their tokenizers differ.
    """
    first, *others = checkpoints = [
        locate(name, options if revision is None else replace(options, revision=revision), weights=False)
        for name, revision in run
    ]
    for other in others:
        configs = [files.config.get_text_config() for files in (first, other)]
        differing = [name for name in _SHAPE if len({getattr(config, name, None) for config in configs}) > 1]
        vocabularies = [files.tokenizers[0].get_vocab() for files in (first, other)]
        if not differing and vocabularies[0] != vocabularies[1]:
            differing = ["tokenizers, which read the texts differently"]
        if differing:
            raise UsageError(
                f"{first.full_name} and {other.full_name} differ in their {differing[0]}; give checkpoints "
                "of one training run."
            )
    return checkpoints


def _download(name: str, options: LoadOptions, *, weights: bool) -> Path:
    """Fetch a checkpoint, or its adapter; of sentence-transformers, only the folders of its modules."""
    wanted = [*_WANTED, *["*.safetensors"] * weights, *["*.bin"] * (weights and options.allow_bin)]
    wanted += ["*.py"] * options.trust_remote_code
    if options.adapter is not None:
        return _fetch(name, options, [f"{escape(options.adapter)}/{pattern}" for pattern in wanted], [])
    root = _fetch(name, options, wanted, ["*/*", _SHARDS_OF_OTHERS])
    sentences = read_sentence_folder(root, name)
    if paths := [escape(path.strip("/")) for _, path in (sentences.modules if sentences else ()) if path]:
        inside = [f"{path}/{pattern}" for path in paths for pattern in wanted]
        deeper = [f"{path}/*/*" for path in paths]
        _fetch(name, replace(options, revision=root.name), inside, [*deeper, _SHARDS_OF_OTHERS])
    return root


def _fetch(name: str, options: LoadOptions, wanted: list[str], ignored: list[str]) -> Path:
    from huggingface_hub import errors, snapshot_download

    how: dict[str, Any] = {"allow_patterns": wanted, "ignore_patterns": ignored}
    try:
        return Path(snapshot_download(name, revision=options.revision, **how))
    except (errors.HfHubHTTPError, OSError, ValueError) as error:
        reason = f"is neither a folder here nor to be had from the hub: {first_line(error)}"
        if isinstance(error, errors.GatedRepoError):
            reason = "is gated: ask for access on its page, then set HF_TOKEN or run `hf auth login`"
        elif isinstance(error, errors.RevisionNotFoundError):
            reason = f"has no revision {options.revision!r}"
        elif isinstance(error, errors.RepositoryNotFoundError):
            reason = "is neither a folder here nor on the hub (for a private checkpoint, set HF_TOKEN)"
        elif isinstance(error, (errors.OfflineModeIsEnabled, errors.LocalEntryNotFoundError)):
            reason = "is not here, nor in the local cache; the hub is away, or HF_HUB_OFFLINE is set"
        raise UsageError(f"{name!r} {reason}.") from error
