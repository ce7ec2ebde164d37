"""Where a checkpoint lies: in the package, in a folder, or on the hub; and what its files say of it.

Nothing is imported that is heavy, so that a checkpoint is compared with the one on record at once.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from glob import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from attnprobe.errors import ModelError, UsageError, first_line
from attnprobe.model.folders import (
    ADAPTER,
    CONFIG,
    DEMO,
    SentenceFolder,
    check_config,
    find_local_folder,
    find_transformer,
    find_weights,
    hash_file,
    list_descriptions,
    read_object,
    read_sentence_folder,
)
from attnprobe.table.cells import clean

#: A device for each part of a model, or how to choose them.
DeviceMap = str | dict[str, Any]
#: What describes a checkpoint, and is fetched from the top level of a hub repository beside its weights.
_WANTED = ["*.json", "*.txt", "*.model"]
_SHARDS_OF_OTHERS = "*.*.safetensors"
#: How the files of tokenizers begin or end.
_SPELLING = ("tokenizer", "vocab", "merges", "tokenization", "spiece", "sentencepiece", "tekken", "bpe")
_MODELS = {".model", ".spm", ".tiktoken", ".bpe"}
#: What must be alike in the configurations of one training run, and what a person calls it.
_SHAPE = {
    "model_type": "type",
    "num_hidden_layers": "layers",
    "num_attention_heads": "heads a layer",
    "hidden_size": "size",
}


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
class Adapter:
    """An adapter without its weights: its folder, what is said of it, and what it was trained on."""

    folder: Path
    described: dict[str, Any]
    base: str
    revision: str | None

    @property
    def kind(self) -> str:
        """Its method, such as "LORA"."""
        return clean(str(self.described.get("peft_type")))


@dataclass(frozen=True)
class CheckpointFiles:
    """What is known of a checkpoint from its files, before its weights are loaded.

    Attributes:
        name: What the user calls it.
        options: How it is loaded.
        folder: That of its transformer, or of its adapter.
        origin: Where it came from, for the record.
        sentences: The folder of sentence-transformers that this is the transformer of.
        adapter: What is said of it, if it is one.
        base: What the adapter was trained on.
    """

    name: str
    options: LoadOptions
    folder: Path
    origin: dict[str, Any]
    sentences: SentenceFolder | None = None
    adapter: Adapter | None = None
    base: "CheckpointFiles | None" = None

    @property
    def commit(self) -> str:
        """That on the hub, empty for a folder."""
        return self.origin.get("commit", "")

    @property
    def full_name(self) -> str:
        """Its name in sentences, with its revision."""
        return f"{self.name} at {self.options.revision}" if self.options.revision else self.name

    @property
    def label(self) -> str:
        """Its id on the hub, or the name of the folder that was named."""
        root = self.folder if self.sentences is None else self.sentences.root
        return self.name if self.commit else root.resolve().name

    @property
    def modules(self) -> dict[str, Path]:
        """What beside its transformer decides what an embedding is, by its path in the folder."""
        return {} if self.sentences is None else self.sentences.list_files()

    @cached_property
    def weights(self) -> list[Path]:
        return find_weights(self.folder, self.name, allow_bin=self.options.allow_bin)

    @cached_property
    def identity(self) -> str:
        """What tells it from any other: the commit on the hub, or the SHA-256 of its files."""
        on_base = "" if self.base is None else f" on {self.base.identity}"
        if self.commit:
            return f"{self.name} {self.commit}{on_base}"
        return hashlib.sha256(f"{self.hashes}{on_base}".encode()).hexdigest()

    @property
    def hashes(self) -> dict[str, dict[str, str]]:
        """The SHA-256 of each file, for the record."""
        kinds = {"weights": self.weights, "files": list_descriptions(self.folder)}
        paths = {
            kind: {file.relative_to(self.folder).as_posix(): file for file in files}
            for kind, files in kinds.items()
        }
        paths |= {"modules": self.modules} if self.modules else {}
        return {
            kind: {name: hash_file(path) for name, path in files.items()} for kind, files in paths.items()
        }

    @property
    def tokenizer_folder(self) -> Path:
        """That of an adapter's base where the adapter has no tokenizer."""
        return self.folder if self.base is None or list_tokenizer_files(self.folder) else self.base.folder

    @cached_property
    def config(self) -> Any:
        """Its configuration; of an adapter, that of its base."""
        if self.base is not None:
            return self.base.config
        import transformers

        from attnprobe.model.configuration import read_config

        transformers.logging.set_verbosity_error()
        return read_config(self.folder, self.full_name, trust_remote_code=self.options.trust_remote_code)

    @cached_property
    def vocabulary(self) -> dict[str, int]:
        from attnprobe.model.load import load_tokenizers

        trust = self.options.trust_remote_code
        place = (self.tokenizer_folder, self.full_name, self.config.model_type)
        tokenizer: Any = load_tokenizers(*place, trust_remote_code=trust, local_files_only=True)[0]
        return tokenizer.get_vocab()


def locate(name: str, options: LoadOptions, *, weights: bool = True) -> CheckpointFiles:
    """Find the folder of a checkpoint, and of an adapter's base, fetching them from the hub if need be.

    ``name`` is ``demo``, a local folder, or a hub id. Without ``weights``, only what describes it is fetched.

    Raises:
        AttnprobeError: When there is none, or it is no checkpoint.
    """
    try:
        name.encode()
    except UnicodeEncodeError:  # bytes of the command line that are no UTF-8
        raise UsageError(
            f"The name {name!r} is no UTF-8, and tokenizers open no such folder; rename it."
        ) from None
    folder, origin, sentences = _find(name, options, weights=weights)
    adapter = _find_adapter(folder, name, options.base, hub="hub" in origin)
    base = None
    if weights or "folder" in origin:
        find_weights(folder, name, allow_bin=options.allow_bin)
    elif adapter is None:
        check_config(folder, name)
    if adapter is not None:
        theirs = replace(options, revision=adapter.revision, base=None, adapter=None)
        base = CheckpointFiles(adapter.base, theirs, *_find(adapter.base, theirs, weights=weights))
        check_config(base.folder, adapter.base)
    return CheckpointFiles(name, options, folder, origin, sentences, adapter, base)


def _find(
    name: str, options: LoadOptions, *, weights: bool
) -> tuple[Path, dict[str, Any], SentenceFolder | None]:
    if name == DEMO:
        for option in ("adapter", "revision"):
            if getattr(options, option) is not None:
                raise UsageError(f"{DEMO} is within attnprobe and has no {option}; leave out --{option}.")
        return Path(str(files("attnprobe") / DEMO)), {"folder": "attnprobe/demo"}, None
    if (root := find_local_folder(name)) is not None:
        origin = {"folder": root.resolve().name}
    else:
        root = _download(name, options, weights=weights)
        origin = {"hub": name, "commit": root.name}
    return find_transformer(root, name, options.adapter), origin, read_sentence_folder(root, name)


def find_checkpoints(run: Iterable[tuple[str, str | None]], options: LoadOptions) -> list[CheckpointFiles]:
    """Read the files of checkpoints, each a name and a revision, or None for that of the options."""
    return [
        locate(name, options if revision is None else replace(options, revision=revision), weights=False)
        for name, revision in run
    ]


def check_one_run(checkpoints: Sequence[CheckpointFiles]) -> None:
    """Refuse checkpoints that can't be of one training run: other shapes, other tokenizers."""
    first, *others = checkpoints
    for other in others:
        configs = [files.config.get_text_config() for files in (first, other)]
        for key, words in _SHAPE.items():
            ours, theirs = (getattr(config, key, None) for config in configs)
            if ours != theirs:
                raise UsageError(
                    f"{first.full_name} and {other.full_name} differ in their {words} ({ours} and {theirs}); "
                    "give checkpoints of one training run."
                )
        if other.vocabulary != first.vocabulary:
            raise UsageError(
                f"{first.full_name} and {other.full_name} have different tokenizers, which read the texts "
                "differently; give checkpoints with one tokenizer."
            )


def _find_adapter(folder: Path, name: str, base: str | None, *, hub: bool) -> Adapter | None:
    """Read the description of an adapter; None for a folder that holds a whole model.

    ``base`` is what the user names as its base, None for what the adapter names. An adapter of the ``hub``
    may name a folder of somebody else's machine, or by chance one that is here: it may choose none.
    """
    described = read_object(folder / ADAPTER)
    if not described or (folder / CONFIG).is_file():
        return None
    named = base or described.get("base_model_name_or_path")
    if not isinstance(named, str) or not named:
        raise ModelError(f"The adapter {name} names no base model; name it with --base.")
    trained_on = f"The adapter {name} was trained on {clean(named)}"
    if base is None and named != DEMO:
        try:
            is_here = Path(named).expanduser().is_dir()
        except (OSError, RuntimeError, ValueError):  # a name too long, or with a NUL in it
            is_here = False
        if named.startswith(("/", ".", "~")) or named.count("/") > 1:
            if hub or not is_here:
                machine = "another machine" if hub else "its own machine, and not here"
                raise ModelError(f"{trained_on}, which is a folder of {machine}; name its base with --base.")
        elif hub and is_here:
            raise ModelError(
                f"{trained_on}, and a folder here has this name, too; name its base with --base."
            )
    revision = described.get("revision") if base is None else None
    return Adapter(folder, described, named, revision if isinstance(revision, str) else None)


def _download(name: str, options: LoadOptions, *, weights: bool) -> Path:
    """Fetch a checkpoint, or its adapter; of sentence-transformers, only the folders of its modules."""
    wanted = [
        *_WANTED,
        *(["*.safetensors"] if weights else []),
        *(["*.bin"] if weights and options.allow_bin else []),
        *(["*.py"] if options.trust_remote_code else []),
    ]
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
    from huggingface_hub import constants, errors, snapshot_download

    try:
        folder = snapshot_download(
            name, revision=options.revision, allow_patterns=wanted, ignore_patterns=ignored
        )
    except errors.HFValidationError as error:
        raise UsageError(f"{name!r} is neither a folder here nor a possible name on the hub.") from error
    except errors.GatedRepoError as error:
        raise UsageError(
            f"{name} is gated: ask for access on its page, then set HF_TOKEN or run `hf auth login`."
        ) from error
    except errors.RevisionNotFoundError as error:
        raise UsageError(f"{name} has no revision {options.revision!r}.") from error
    except errors.RepositoryNotFoundError as error:
        raise UsageError(
            f"{name!r} is neither a folder here nor a checkpoint on the hub (for a private one set HF_TOKEN)."
        ) from error
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled) as error:
        reason = "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else "the hub can't be reached"
        raise UsageError(
            f"{name!r} is neither a folder here nor in the local cache, and {reason}."
        ) from error
    except (errors.HfHubHTTPError, OSError, ValueError) as error:
        raise UsageError(f"{name} can't be fetched from the hub: {first_line(error)}.") from error
    return Path(folder)


def list_tokenizer_files(folder: Path) -> list[Path]:
    return sorted(
        path for path in folder.iterdir() if path.name.startswith(_SPELLING) or path.suffix in _MODELS
    )
