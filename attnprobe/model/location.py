"""Where a checkpoint lies: in the package, in a folder, or on the hub; and what an adapter was trained on.

Nothing here takes torch or transformers, so a checkpoint is compared with the one on record at once.
"""

from dataclasses import dataclass, replace
from glob import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from attnprobe.errors import ModelError, UsageError, first_line
from attnprobe.model.folders import (
    ADAPTER,
    DEMO,
    SentenceFolder,
    find_local_folder,
    find_transformer,
    list_module_paths,
    read_folder,
    read_object,
)
from attnprobe.table.cells import clean

#: A device for each part of a model, or how to choose them.
DeviceMap = str | dict[str, Any]
#: What describes a checkpoint, and is fetched from the top level of a hub repository beside its weights.
_WANTED = ["*.json", "*.txt", "*.model"]
_IGNORED = ["*/*", "*.*.safetensors"]
#: How the files of tokenizers begin or end.
_SPELLING = ("tokenizer", "vocab", "merges", "tokenization", "spiece", "sentencepiece", "tekken", "bpe")
_MODELS = {".model", ".spm", ".tiktoken", ".bpe"}


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
class Location:
    """Where a checkpoint lies.

    Attributes:
        folder: That of its transformer, or of its adapter.
        origin: Where it came from, for the record.
        sentences: The folder of sentence-transformers that this is the transformer of.
    """

    folder: Path
    origin: dict[str, Any]
    sentences: SentenceFolder | None = None

    @property
    def name(self) -> str:
        """Its id on the hub, or the name of the folder that was named."""
        root = self.folder if self.sentences is None else self.sentences.root
        return self.origin.get("hub", root.resolve().name)


def locate(name: str, options: LoadOptions, *, weights: bool = True) -> Location:
    """Find the folder of a checkpoint, fetching it from the hub if need be.

    ``name`` is ``demo``, a local folder, or a hub id. Without ``weights``, only what describes it is fetched.
    """
    try:
        name.encode()
    except UnicodeEncodeError:  # bytes of the command line that are no UTF-8
        raise UsageError(
            f"The name {name!r} is no UTF-8, and tokenizers open no such folder; rename it."
        ) from None
    if name == DEMO:
        for option in ("adapter", "revision"):
            if getattr(options, option) is not None:
                raise UsageError(f"{DEMO} is within attnprobe and has no {option}; leave out --{option}.")
        folder = Path(str(files("attnprobe") / DEMO))
        return Location(folder, {"folder": "attnprobe/demo"})
    root = find_local_folder(name)
    if root is None:
        root, origin = _download(name, options, weights=weights)
    else:
        origin = {"folder": root.resolve().name}
    return Location(find_transformer(root, name, options.adapter), origin, read_folder(root, name))


@dataclass(frozen=True)
class Adapter:
    """An adapter without its weights.

    Attributes:
        folder: Where it lies.
        kind: Its method, such as "LORA".
        base: What it was trained on.
        revision: Which of that.
        task: What peft calls its task.
        trained_in: The class of models that it was trained in.
    """

    folder: Path
    kind: str
    base: str
    revision: str | None = None
    task: str = ""
    trained_in: str = ""


def find_adapter(folder: Path, name: str, base: str | None, *, hub: bool) -> Adapter | None:
    """Read the description of an adapter; None for a folder that holds a whole model.

    ``base`` is what the user names as its base, None for what the adapter names. An adapter of the ``hub``
    may name a folder of somebody else's machine.
    """
    described = read_object(folder / ADAPTER)
    if not described or (folder / "config.json").is_file():
        return None
    named = base or described.get("base_model_name_or_path")
    if not isinstance(named, str) or not named:
        raise ModelError(f"The adapter {name} names no base model; name it with --base.")
    local = Path(named).expanduser()
    is_path = local.is_absolute() or named.startswith((".", "~")) or named.count("/") > 1
    if base is None and named != DEMO and is_path and (hub or not _is_folder(local)):
        raise ModelError(
            f"The adapter {name} was trained on {clean(named)}, which is a folder of "
            f"{'another machine' if hub else 'its own machine, and not here'}; name its base with --base."
        )
    if base is None and hub and named != DEMO and _is_folder(local):  # a stranger's adapter may choose none
        raise ModelError(
            f"The adapter {name} was trained on {clean(named)}, and a folder here has this name, too; name "
            "its base with --base."
        )
    revision = described.get("revision") if base is None else None
    trained_in = described.get("auto_mapping")
    return Adapter(
        folder,
        clean(str(described.get("peft_type"))),
        named,
        revision if isinstance(revision, str) else None,
        str(described.get("task_type")),
        str(trained_in.get("base_model_class")) if isinstance(trained_in, dict) else "",
    )


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # a name too long, or with a NUL in it
        return False


def choose_base_options(adapter: Adapter, options: LoadOptions) -> LoadOptions:
    """Choose how to load what an adapter was trained on."""
    return replace(options, revision=adapter.revision, base=None, adapter=None)


def _download(name: str, options: LoadOptions, *, weights: bool) -> tuple[Path, dict[str, Any]]:
    wanted = [
        *_WANTED,
        *(["*.safetensors"] if weights else []),
        *(["*.bin"] if weights and options.allow_bin else []),
        *(["*.py"] if options.trust_remote_code else []),
    ]
    if options.adapter is not None:
        inside = [f"{escape(options.adapter)}/{pattern}" for pattern in wanted]
        folder = _fetch(name, options, inside, [])
    else:
        folder = _fetch(name, options, wanted, _IGNORED)
        if paths := list_module_paths(folder, name):
            found = replace(options, revision=folder.name)
            inside = [f"{escape(path)}/{pattern}" for path in paths for pattern in wanted]
            deeper = [f"{escape(path)}/*/*" for path in paths]
            _fetch(name, found, inside, [*deeper, "*.*.safetensors"])
    return folder, {"hub": name, "commit": folder.name}


def _fetch(name: str, options: LoadOptions, wanted: list[str], ignored: list[str]) -> Path:
    from huggingface_hub import constants, errors, snapshot_download

    try:
        folder = snapshot_download(
            name,
            revision=options.revision,
            allow_patterns=wanted,
            ignore_patterns=ignored,
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
