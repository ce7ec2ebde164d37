"""Locating checkpoints in the package, in folders and on the hub, without heavy imports."""

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from glob import escape
from pathlib import Path
from typing import Any

from attnprobe.errors import ModelError, UsageError, first_line
from attnprobe.files import hash_file
from attnprobe.model import folders
from attnprobe.model.folders import ADAPTER, CONFIG, MODULES, WHOLE, SentenceFolder, check_object
from attnprobe.table.cells import clean

#: Extensions of the files that describe a checkpoint.
_DESCRIBING = (".json", ".txt", ".model")
#: Weights of other formats, such as model.fp16.safetensors.
_SHARDS_OF_OTHERS = "*.*.safetensors"
#: Entries that are the same in all configurations of a training run.
_SHAPE = ("model_type", "num_hidden_layers", "num_attention_heads", "hidden_size")


@dataclass(frozen=True)
class LoadOptions:
    """Options for loading, as on the command line; see ``attnprobe.options``."""

    revision: str | None = None
    trust_remote_code: bool = False
    allow_bin: bool = False
    device: str = "auto"
    device_map: str | dict[str, Any] | None = None
    dtype: str = "float32"
    base: str | None = None
    adapter: str | None = None
    prompt: str | None = None
    random_weights: int | None = None


@dataclass(frozen=True)
class CheckpointFiles:
    """The files of a checkpoint, before its weights are loaded."""

    name: str
    options: LoadOptions
    folder: Path  # of its transformer, or of its adapter
    origin: dict[str, Any]
    sentences: SentenceFolder | None = None  # the folder of sentence-transformers around the transformer
    adapter: Mapping[str, Any] = field(default_factory=dict)  # the description of the adapter
    base: "CheckpointFiles | None" = None  # that the adapter was trained on

    @property
    def full_name(self) -> str:
        """Its name with its revision."""
        return f"{self.label} at {self.options.revision}" if self.options.revision else self.label

    @property
    def label(self) -> str:
        """Its id on the hub, or the name of its folder."""
        root = self.folder if self.sentences is None else self.sentences.root
        return self.origin.get("hub", root.resolve().name)

    @cached_property
    def weights(self) -> list[Path]:
        return folders.find_weights(self.folder, self.name, allow_bin=self.options.allow_bin)

    @cached_property
    def identity(self) -> str:
        """Its commit on the hub, or the SHA-256 of its files."""
        on_base = "" if self.base is None else f" on {self.base.identity}"
        if "commit" in self.origin:
            return f"{self.name} {self.origin['commit']}{on_base}"
        return hashlib.sha256(f"{self.hashes}{on_base}".encode()).hexdigest()

    @property
    def hashes(self) -> dict[str, dict[str, str]]:
        """The SHA-256 of weights, describing files and modules, for the record: kind, path, hash."""
        skipped = ("README", folders.RECORD, "model.safetensors.index.json")
        listed = sorted((*self.folder.glob("*"), *self.folder.glob("target_tokenizer/*")))
        files = [path for path in listed if path.suffix in _DESCRIBING and not path.name.startswith(skipped)]
        kinds = {"weights": (self.folder, self.weights), "files": (self.folder, files)}
        if (around := self.sentences) is not None:
            parts = (CONFIG, "model.safetensors", "pytorch_model.bin")
            inner = [around.root / path / name for _, path in around.modules[1:] if path for name in parts]
            kinds["modules"] = around.root, [around.root / MODULES, around.root / WHOLE, *inner]
        return {
            kind: {path.relative_to(root).as_posix(): hash_file(path) for path in paths if path.is_file()}
            for kind, (root, paths) in kinds.items()
        }

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
            name = self.full_name
            check_object(self.folder / CONFIG, name)
            raise ModelError(f"The config.json of {name} can't be used: {first_line(error)}.") from error

    @cached_property
    def tokenizers(self) -> tuple[Any, Any]:
        """Its tokenizer, or that of an adapter's base; and another one for targets, if there is one."""
        from transformers import AutoTokenizer

        is_there = (self.folder / "tokenizer_config.json").is_file()
        folder = self.folder if self.base is None or is_there else self.base.folder
        targets = folder / "target_tokenizer"
        try:
            tokenizer: Any = AutoTokenizer.from_pretrained(folder, **self.trust)
            other = AutoTokenizer.from_pretrained(targets, **self.trust) if targets.is_dir() else None
            if len(tokenizer) <= len(set(tokenizer.all_special_ids)):  # made up by transformers
                raise ValueError("such as tokenizer.json or vocab.txt")
            int(tokenizer.model_max_length)  # which a file may spell in any way
        except Exception as error:
            folders.refuse_damaged(folder, self.full_name)
            raise ModelError(
                f"{self.full_name} holds no tokenizer that loads ({first_line(error)}); copy the files of "
                "the one that the model was trained with into the folder."
            ) from error
        return tokenizer, other

    @property
    def trust(self) -> dict[str, Any]:
        """The options of ``from_pretrained`` that keep remote code and downloads away."""
        return {"trust_remote_code": self.options.trust_remote_code, "local_files_only": True}


def locate(
    name: str, options: LoadOptions, *, weights: bool = True, is_base: bool = False
) -> CheckpointFiles:
    """Find the folder of a checkpoint, and of an adapter's base; what is not here is fetched from the hub.

    Without ``weights``, only descriptions are fetched. The base of an adapter can't be an adapter.
    """
    if (root := folders.find_local_folder(name)) is not None:
        origin = {"folder": root.resolve().name}
    else:
        root = _download(name, options, weights=weights)
        origin = {"hub": name, "commit": root.name}
    folder, sentences = folders.find_transformer(root, name, options.adapter)
    files = CheckpointFiles(name, options, folder, origin, sentences)
    if weights or "folder" in origin:
        folders.find_weights(folder, name, allow_bin=options.allow_bin)
    if is_base or (folder / CONFIG).is_file() or not (folder / ADAPTER).is_file():
        folders.check_config(folder, name)
        return files
    files = replace(files, adapter=check_object(folder / ADAPTER, name))
    return replace(files, base=_locate_base(files, weights=weights))


def _locate_base(files: CheckpointFiles, *, weights: bool) -> CheckpointFiles:
    """Locate the base of an adapter: the one that the user names, or else the one that the adapter names."""
    hub, name, revision = "hub" in files.origin, files.options.base, None
    if name is None:
        name, revision = (files.adapter.get(key) for key in ("base_model_name_or_path", "revision"))
        if not isinstance(name, str) or not name:
            raise ModelError(f"The adapter {files.name} names no base model; name it with --base.")
        is_path = Path(name).is_absolute() or name.startswith((".", "~")) or name.count("/") > 1
        is_here = os.path.isdir(os.path.expanduser(name))  # noqa: PTH111, PTH112 - which take any name
        # An adapter of the hub chooses no folder, be it of somebody else's machine or here by chance.
        if name != folders.DEMO and ((hub and (is_path or is_here)) or (is_path and not is_here)):
            raise ModelError(
                f"The adapter {files.name} was trained on {clean(name)}, which is or may be a folder of "
                "another machine; name its base with --base."
            )
    revision = revision if isinstance(revision, str) else None
    options = replace(files.options, revision=revision, base=None, adapter=None)
    return locate(name, options, weights=weights, is_base=True)


def find_run(run: Iterable[tuple[str, str | None]], options: LoadOptions) -> list[CheckpointFiles]:
    """Find the checkpoints of a training run by name and revision; refuse other shapes or tokenizers."""
    first, *others = checkpoints = [
        locate(name, replace(options, revision=revision or options.revision), weights=False)
        for name, revision in run
    ]
    for other in others:
        configs = [files.config.get_text_config() for files in (first, other)]
        shapes = [[getattr(config, name, None) for name in _SHAPE] for config in configs]
        if shapes[0] != shapes[1] or first.tokenizers[0].get_vocab() != other.tokenizers[0].get_vocab():
            raise UsageError(
                f"{first.full_name} and {other.full_name} differ in their shapes or tokenizers; give "
                "checkpoints of one training run."
            )
    return checkpoints


def _download(name: str, options: LoadOptions, *, weights: bool) -> Path:
    """Fetch a checkpoint or its adapter; of subfolders, only those of sentence-transformers' modules."""
    wanted = [f"*{end}" for end in _DESCRIBING] + ["*.safetensors"] * weights
    wanted += ["*.bin"] * (weights and options.allow_bin) + ["*.py"] * options.trust_remote_code
    if options.adapter is not None:
        return _fetch(name, options, [f"{escape(options.adapter)}/{pattern}" for pattern in wanted], [])
    root = _fetch(name, options, wanted, ["*/*", _SHARDS_OF_OTHERS])
    sentences = folders.read_sentence_folder(root, name)
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
        reason = f"is neither a folder here nor to be had from the hub ({first_line(error)})"
        if isinstance(error, errors.RepositoryNotFoundError):  # gated ones, too
            reason += "; for a private or gated checkpoint, set HF_TOKEN"
        elif isinstance(error, (errors.OfflineModeIsEnabled, errors.LocalEntryNotFoundError)):
            reason = "is not here, nor in the local cache; the hub is away, or HF_HUB_OFFLINE is set"
        raise UsageError(f"{name!r} {reason}.") from error
