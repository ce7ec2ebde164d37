"""Loading a checkpoint from the package, a folder or the hub, and what guards against files of strangers."""

import hashlib
import os
from dataclasses import dataclass
from functools import partial
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import torch
import transformers
from huggingface_hub import snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel
from transformers import AutoConfig, AutoTokenizer, PreTrainedModel

from attnprobe.corpus.tokens.tokenization import NoTokenizer, Tokenizer
from attnprobe.errors import AttnprobeError, first_line
from attnprobe.model.loading.checkpoint import TEXT, Checkpoint, check_modality, find_tower, longest_input
from attnprobe.model.loading.configuration import layers_left_out, say_many_tokens, unusable_config
from attnprobe.model.loading.devices import DeviceMap, spreading
from attnprobe.model.loading.folders import DEMO, find_weights, local_folder, passed_over, reads_beside
from attnprobe.model.loading.processing import Processor
from attnprobe.model.loading.pruned import load_plainly, physical_record, quiet
from attnprobe.model.loading.support import (
    BadCheckpointError,
    UnsupportedModelError,
    packed_as,
    refuse_by_name,
)
from attnprobe.model.loading.task_heads import TaskHead, Weights, head_of, read_weights

#: Where torch's wrappers of training hold the model.
_TRAINING = (DataParallel, DistributedDataParallel)


def take(model: nn.Module, tokenizer: Tokenizer) -> Checkpoint:
    """Make a checkpoint of a model that comes loaded, without what wraps it.

    Of a PeftModel, the base with its adapter in place is asked; its name ends in those of the active
    adapters, as in "bert-base-uncased + lora default".

    Raises:
        AttnprobeError: When the model is none of transformers, or its adapter acts outside of its modules.
    """
    model, adapters = _unwrapped(model)
    config: Any = getattr(model, "config", None)
    if config is None or not hasattr(config, "model_type"):
        inner = next((part for part in model.modules() if isinstance(part, PreTrainedModel)), None)
        there = f"; give the {type(inner).__name__} inside it" if inner is not None else ""
        raise AttnprobeError(f"The loaded {type(model).__name__} is no model of transformers{there}.")
    base = getattr(config, "name_or_path", "") or type(model).__name__
    loaded = {"loaded": type(model).__name__} | ({"adapters": adapters} if adapters else {})
    return Checkpoint(" + ".join([base, *adapters]), model, tokenizer, loaded)  # type: ignore[arg-type]


def _unwrapped(model: nn.Module) -> tuple[Any, list[str]]:
    """Take a model out of its wrappers, and name the adapters that are active in it."""
    found: Any = model
    while True:
        compiled = vars(found).get("_modules", {}).get("_orig_mod")
        if isinstance(found, _TRAINING):
            found = found.module
        elif compiled is not None:
            found = compiled
        elif not getattr(found, "peft_config", None):
            return found, []
        elif hasattr(found, "get_base_model"):
            return found.get_base_model(), _active(found)
        else:  # transformers put the adapter on
            return found, _active(found)


def _active(model: Any) -> list[str]:
    """Name the active adapters of a model.

    Raises:
        AttnprobeError: When one of them is no part of the base's modules.
    """
    known, stated = model.peft_config, model.active_adapters
    active: Any = stated() if callable(stated) else stated
    for name in active:
        config = known[name]
        if reads_beside(config):
            raise AttnprobeError(
                f"The adapter {name} ({_kind(config)}) adds virtual tokens or other parts outside of the "
                "base model's layers, which attnprobe does not read; give model.get_base_model() to ask the "
                "base without it."
            )
    switched = [part.disable_adapters for part in model.modules() if hasattr(part, "disable_adapters")]
    return [] if switched and all(switched) else [f"{_kind(known[name]).lower()} {name}" for name in active]


def _kind(config: Any) -> str:
    """Name the kind of an adapter, such as LORA."""
    kind: Any = config.peft_type
    return str(getattr(kind, "value", kind))


#: What describes a checkpoint, and is fetched from the top level of a hub repository beside its weights.
_WANTED = ["*.json", "*.txt", "*.model"]
_IGNORED = ["*/*", "*.*.safetensors"]
#: How the files of tokenizers begin or end.
_SPELLING = ("tokenizer", "vocab", "merges", "tokenization", "spiece", "sentencepiece", "tekken", "bpe")
_MODELS = {".model", ".spm", ".tiktoken", ".bpe"}


@dataclass(frozen=True)
class LoadOptions:
    """How to load; the fields are the options of the command line.

    Attributes:
        revision: Branch, tag or commit on the hub.
        cache_dir: Folder of the hub's cache.
        token: Access token for gated and private repositories.
        offline: Use the cache only, no network.
        trust_remote_code: Run Python code from the repository.
        allow_bin: Read pickled weights (``.bin``) where there are no safetensors.
        device: "auto", "cpu", "cuda", "cuda:0", "mps".
        device_map: How accelerate spreads a model that is too large for one device, as
            ``from_pretrained`` takes it: "auto", or a device for each part; None to have it on ``device``.
        dtype: Of the weights: "float32", "float64", "bfloat16", "float16".
    """

    revision: str | None = None
    cache_dir: Path | None = None
    token: str | None = None
    offline: bool = False
    trust_remote_code: bool = False
    allow_bin: bool = False
    device: str = "auto"
    device_map: DeviceMap | None = None
    dtype: str = "float32"


def load_checkpoint(
    name: str,
    options: LoadOptions | None = None,
    heads: tuple[TaskHead, ...] = (),
    *,
    force_head: bool = False,
    modality: str = TEXT,
) -> Checkpoint:
    """Load a model, and its tokenizer or its processor of images or sound.

    Args:
        name: ``demo``, a local folder, or a hub id.
        options: How to load.
        heads: Task heads to look for; the first whose weights are all there is loaded along.
        force_head: Make the first of them up if its weights are missing.
        modality: What it will be given: "text", "image" or "sound".

    Raises:
        AttnprobeError: With one sentence on what is wrong and what to do.
    """
    options = options or LoadOptions()
    spread = spreading(options.device_map, options.device)
    device, dtype = find_device(options.device), find_dtype(options.dtype)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    load = partial(
        _load_folder,
        options=options,
        spread=spread,
        device=device,
        dtype=dtype,
        heads=heads,
        force=force_head,
        modality=modality,
    )
    if name == DEMO:
        with as_file(files("attnprobe") / "demo") as folder:
            origin = {"folder": "attnprobe/demo"}
            return load(name, folder, origin)
    folder, origin = locate(name, options)
    label = origin.get("hub", folder.resolve().name)
    return load(label, folder, origin)


def find_device(name: str) -> torch.device:
    """Resolve "auto" and refuse devices that are not there."""
    if name == "auto":
        if torch.cuda.is_available():
            # Each process that torchrun starts on a machine takes a GPU of its own.
            local = int(os.environ.get("LOCAL_RANK", "0"))
            return torch.device("cuda", local % torch.cuda.device_count())
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise AttnprobeError(f"There is no device {name!r} on this machine; use {_devices()}.") from error
    if device.type == "meta":
        raise AttnprobeError(f"The device 'meta' computes nothing; use {_devices()}.")
    return device


def _devices() -> str:
    """Name the devices that there are."""
    gpus = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    apple = ["mps"] if torch.backends.mps.is_available() else []
    return " or ".join(["auto", "cpu", *gpus, *apple])


def find_dtype(name: str) -> torch.dtype:
    """Resolve the name of a floating-point type."""
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise AttnprobeError(
            f"{name!r} is no floating-point type; use float32, bfloat16, float16 or float64."
        )
    return dtype


def locate(name: str, options: LoadOptions, *, weights: bool = True) -> tuple[Path, dict[str, Any]]:
    """Find the folder of a checkpoint, fetching it from the hub if need be.

    Args:
        name: A local folder, or a hub id.
        options: How to load.
        weights: Whether the weights are fetched too, or only what describes them.

    Returns:
        The folder, and where it came from for the record.
    """
    folder = local_folder(name)
    if folder is None:
        return _from_hub(name, options, weights=weights)
    return folder, {"folder": folder.resolve().name}


def _from_hub(name: str, options: LoadOptions, *, weights: bool) -> tuple[Path, dict[str, Any]]:
    wanted = [
        *_WANTED,
        *(["*.safetensors"] if weights else []),
        *(["*.bin"] if weights and options.allow_bin else []),
        *(["*.py"] if options.trust_remote_code else []),
    ]
    try:
        folder = snapshot_download(
            name,
            revision=options.revision,
            cache_dir=options.cache_dir,
            token=options.token,
            local_files_only=options.offline,
            allow_patterns=wanted,
            ignore_patterns=_IGNORED,
        )
    except HFValidationError as error:
        raise AttnprobeError(f"{name!r} is neither a folder here nor a possible name on the hub.") from error
    except GatedRepoError as error:
        raise AttnprobeError(
            f"{name} is gated: ask for access on its page, then pass --token or run `hf auth login`."
        ) from error
    except RevisionNotFoundError as error:
        raise AttnprobeError(f"{name} has no revision {options.revision!r}.") from error
    except RepositoryNotFoundError as error:
        raise AttnprobeError(
            f"{name!r} is neither a folder here nor a checkpoint on the hub (for a private one pass --token)."
        ) from error
    except (LocalEntryNotFoundError, OfflineModeIsEnabled) as error:
        reason = "--offline was given" if options.offline else "the hub can't be reached"
        raise AttnprobeError(
            f"{name!r} is neither a folder here nor in the local cache, and {reason}."
        ) from error
    except (HfHubHTTPError, OSError, ValueError) as error:
        raise AttnprobeError(f"{name} can't be fetched from the hub: {first_line(error)}.") from error
    return Path(folder), {"hub": name, "commit": Path(folder).name}


def _load_folder(
    name: str,
    folder: Path,
    origin: dict[str, Any],
    *,
    options: LoadOptions,
    spread: dict[str, Any],
    device: torch.device,
    dtype: torch.dtype,
    heads: tuple[TaskHead, ...],
    force: bool,
    modality: str,
) -> Checkpoint:
    weights = find_weights(folder, name, allow_bin=options.allow_bin)
    pruning = physical_record(folder, name)
    shared = {"trust_remote_code": options.trust_remote_code, "local_files_only": True}
    try:
        config = AutoConfig.from_pretrained(folder, **shared)
    except Exception as error:
        raise unusable_config(folder, name, error) from error
    refuse_by_name(config.model_type)
    check_modality(name, config, modality)
    processor, tokenizer, target_tokenizer = None, None, None
    if modality == TEXT:
        tokenizer, target_tokenizer = load_tokenizers(folder, name, config.model_type, **shared)
    else:
        processor = Processor.load(modality, folder, **shared)
    if pruning is None:
        read = read_weights(
            folder,
            name,
            config,
            heads,
            force=force,
            dtype=dtype,
            use_safetensors=weights[0].suffix == ".safetensors",
            **shared,
            **spread,
        )
    else:
        if spread:
            raise AttnprobeError(
                f"{name} is physically pruned, and can't be spread over devices; leave out --device-map."
            )
        read = _read_pruned(folder, name, dtype, heads, force=force)
    _check_numbers(name, read.model)
    origin = {
        **origin,
        "model_type": config.model_type,
        "dtype": options.dtype,
        "trust_remote_code": options.trust_remote_code,
        "weights": {path.name: digest_of(path) for path in weights},
        "files": {path.relative_to(folder).as_posix(): digest_of(path) for path in descriptions(folder)},
    }
    model: Any = read.model
    if not spread:
        model = model.to(device)
    model = model.eval().requires_grad_(False)
    tower = find_tower(name, model, modality)
    remarks = passed_over(folder, tokenizer, longest_input(model, tokenizer)) if tokenizer else ()
    if tokenizer is None:
        encoder_decoder = config.is_encoder_decoder and not tower
        tokenizer = load_tokenizers(folder, name, config.model_type, **shared)[0] if encoder_decoder else None
    return Checkpoint(
        name,
        model,
        tokenizer or NoTokenizer(name),
        origin,
        read.unused,
        read.missing,
        folder,
        read.head,
        target_tokenizer,
        modality=modality,
        processor=processor,
        tower=tower,
        pruning=pruning,
        remarks=(*layers_left_out(read.model, read.unused), *remarks),
    )


def _read_pruned(
    folder: Path, name: str, dtype: torch.dtype, heads: tuple[TaskHead, ...], *, force: bool
) -> Weights:
    """Read a physically smaller checkpoint, with the head that it was written with."""
    with quiet():
        model = load_plainly(folder, name, physical=True, dtype=dtype)
    own = head_of(model)
    if force and own not in heads:
        raise AttnprobeError(
            f"{name} is physically pruned, and no other head can be made up for it; leave out --force-head."
        )
    return Weights(model, own if own in heads else None, (), ())


def load_tokenizers(
    folder: Path, name: str, model_type: str, **options: Any
) -> tuple[Tokenizer, Tokenizer | None]:
    """Load a checkpoint's tokenizer, and that of targets where they are spelled differently."""
    targets = folder / "target_tokenizer"
    if not spelling(folder):
        raise _no_tokenizer(name)
    say_many_tokens(folder, name)
    try:
        own = AutoTokenizer.from_pretrained(folder, **options)
        other = AutoTokenizer.from_pretrained(targets, **options) if targets.is_dir() else None
    except Exception as error:
        raise UnsupportedModelError(
            model_type, f"{name} holds no tokenizer that loads ({first_line(error)})"
        ) from error
    if len(own) <= len(set(own.all_special_ids)):  # what transformers makes up where there is no vocabulary
        raise _no_tokenizer(name)
    return own, other


def spelling(folder: Path) -> list[Path]:
    """List the files of a checkpoint's tokenizer."""
    return sorted(
        path for path in folder.iterdir() if path.name.startswith(_SPELLING) or path.suffix in _MODELS
    )


def _no_tokenizer(name: str) -> BadCheckpointError:
    return BadCheckpointError(
        f"{name} holds no tokenizer (such as tokenizer.json or vocab.txt), so it can't be given text; copy "
        "the files of the tokenizer that the model was trained with into the folder."
    )


def _check_numbers(name: str, model: PreTrainedModel) -> None:
    """Refuse weights that are not numbers, but for those on disk or quantised, which are seen as they run."""
    for key, weight in model.named_parameters():
        if not weight.is_meta and not packed_as(weight) and not bool(torch.isfinite(weight).all()):
            raise BadCheckpointError(f"{name}: the weight {key} holds NaN or infinite numbers.")


def descriptions(folder: Path) -> list[Path]:
    """List what beside the weights decides what a checkpoint does: configuration and tokenizers."""
    known = {".json", ".txt", ".model"}
    found = [*folder.glob("*"), *folder.glob("target_tokenizer/*")]
    skipped = ("README", "attnprobe.json", "model.safetensors.index.json")
    return sorted(
        path
        for path in found
        if path.suffix in known and path.is_file() and not path.name.startswith(skipped)
    )


def digest_of(path: Path) -> str:
    """Give the SHA-256 of a file."""
    with path.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()
