"""Where a checkpoint lies, and what its files say of it, without heavy imports: refused at once if wrong."""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from glob import escape
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
#: What the settings of the transformer are called, which old folders name after its type.
_SETTINGS = "sentence_*_config.json"
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


def check_object(path: Path, name: str) -> dict[str, Any]:
    """Read a json file, if it is there; refuse one that holds no object."""
    content = read_json(path) if path.is_file() else {}
    if not isinstance(content, dict):
        raise ModelError(f"{path.name} of {name} is damaged: it holds no JSON object.")
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
            raise ModelError(f"{file.name} of {name} is damaged: {first_line(damage)}.") from damage


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


def _check_config(folder: Path, name: str) -> None:
    if not (folder / CONFIG).is_file():
        raise ModelError(f"{name} holds no config.json of a transformer, which attnprobe could read.")


def find_weights(folder: Path, name: str, *, allow_bin: bool) -> list[Path]:
    """List the weight files of a folder; refuse a folder that is no checkpoint, and pickles."""
    safe = sorted(path for path in folder.glob("*.safetensors") if path.stem.count(".") == 0)
    pickled, begin = sorted(folder.glob("pytorch_model*.bin")), "*"
    has_base = any(not path.name.startswith("adapter_model") for path in (*safe, *pickled))
    if adapts := (folder / ADAPTER).is_file():  # which would not be read, but its base alone
        kind, reason = clean(str(check_object(folder / ADAPTER, name).get("peft_type"))), ""
        if kind in OUTSIDE:
            reason = (
                "which adds virtual tokens or other parts outside of its base's layers; give the base alone"
            )
        elif find_spec("peft") is None:
            reason = "which needs peft: pip install peft"
        elif not has_base and (folder / CONFIG).is_file():
            reason = "beside a config.json without its weights; take it away to read the adapter on its base"
        if reason:
            raise ModelError(f"{name} holds an adapter ({kind}), {reason}.")
    if has_base or not adapts:
        _check_config(folder, name)
    else:  # of other names, peft would read none, and ask the hub for what the folder is called
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
    """A folder of sentence-transformers: the class and the path of each module, the transformer first."""

    root: Path
    modules: tuple[tuple[str, str], ...]
    described: Mapping[str, Any]
    settings: Mapping[str, Any]  # how the transformer reads texts

    @property
    def transformer(self) -> Path:
        return self.root / self.modules[0][1]

    @property
    def scores_pairs(self) -> bool:
        """Whether it is a cross-encoder, which gives a score of two texts and no embedding of one."""
        task = self.settings.get("transformer_task")
        return self.described.get("model_type") == "CrossEncoder" or task == "sequence-classification"

    def copy_modules(self, target: Path) -> None:
        """Copy all but the transformer, which is at the root of ``target``, and links out of the folder."""
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
    """Read a folder of sentence-transformers, all inside of it; None for any other folder."""
    if not (root / MODULES).is_file():
        return None
    listed = read_json(root / MODULES)
    entries = listed if isinstance(listed, list) and all(isinstance(entry, dict) for entry in listed) else []
    modules = tuple((entry.get("type"), entry.get("path")) for entry in entries)
    if not modules or not all(isinstance(text, str) for module in modules for text in module):
        raise ModelError(f"{MODULES} of {name} is damaged: it lists no modules, each with a type and a path.")
    if outside := [clean(path) for _, path in modules if not is_inside(root, path)]:
        raise ModelError(f"The {MODULES} of {name} names {outside[0]}, which is not inside the folder.")
    # Without these, texts would be read without their prompt, or to another length.
    settings = [check_object(path, name) for path in sorted((root / modules[0][1]).glob(_SETTINGS))]
    described = check_object(root / WHOLE, name)
    return SentenceFolder(root, modules, described, next(filter(None, settings), {}))


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


#: How files end that describe a checkpoint, and are fetched from the top level of a hub repository.
_DESCRIBING = (".json", ".txt", ".model")
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
    device_map: str | dict[str, Any] | None = None
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
        skipped = ("README", RECORD, "model.safetensors.index.json")
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

    Without ``weights``, only what describes it is fetched. The base of an adapter is no adapter itself.
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
        _check_config(folder, name)
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
    """Find the checkpoints of a training run, of one shape: a name, and a revision or that of the options."""
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
    """Fetch a checkpoint, or its adapter; of sentence-transformers, only the folders of its modules."""
    wanted = [f"*{end}" for end in _DESCRIBING] + ["*.safetensors"] * weights
    wanted += ["*.bin"] * (weights and options.allow_bin) + ["*.py"] * options.trust_remote_code
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
        reason = f"is neither a folder here nor to be had from the hub ({first_line(error)})"
        if isinstance(error, errors.RepositoryNotFoundError):  # gated ones, too
            reason += "; for a private or gated checkpoint, set HF_TOKEN"
        elif isinstance(error, (errors.OfflineModeIsEnabled, errors.LocalEntryNotFoundError)):
            reason = "is not here, nor in the local cache; the hub is away, or HF_HUB_OFFLINE is set"
        raise UsageError(f"{name!r} {reason}.") from error
