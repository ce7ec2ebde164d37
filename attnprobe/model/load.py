"""Loading a checkpoint from the package, a folder or the hub, and what guards against files of strangers."""

import logging
import os
from collections.abc import Iterable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer as TokenizerFile
from transformers import AutoTokenizer, PreTrainedModel

from attnprobe.corpus.sources.pictures import BOTH
from attnprobe.corpus.tokens import NoTokenizer, Tokenizer
from attnprobe.errors import ModelError, UsageError, first_line
from attnprobe.model import lean
from attnprobe.model.adapters import read_with_adapter
from attnprobe.model.checkpoint import TEXT, Checkpoint, check_modality, find_tower
from attnprobe.model.configuration import (
    describe_unread_layers,
    read_config,
    reads_both,
    refuse_unseeing,
)
from attnprobe.model.embedding import Embedding, PairScoring
from attnprobe.model.folders import (
    Prompts,
    SentenceFolder,
    check_config,
    damage_error,
    find_weights,
    hash_file,
    list_descriptions,
    read_json,
)
from attnprobe.model.location import (
    Adapter,
    DeviceMap,
    LoadOptions,
    choose_base_options,
    find_adapter,
    list_tokenizer_files,
    locate,
)
from attnprobe.model.processing import load_processor
from attnprobe.model.pruning import is_physical, load_stored, read_kept_heads, silence_transformers
from attnprobe.model.quantisation import Quantisation, check_packages, find_packing, place_weights
from attnprobe.model.quirks import UnsupportedModelError, refuse_by_name
from attnprobe.model.random_weights import randomise_weights
from attnprobe.model.task_heads import TaskHead, Weights, infer_head, read_weights

#: What describes a tokenizer.
_TOKENIZER, _TOKENIZER_CONFIG = "tokenizer.json", "tokenizer_config.json"


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
        modality: What it will be given: "text", "image" or "sound", or "image+text" for both together.

    Raises:
        AttnprobeError: With one sentence on what is wrong and what to do.
    """
    checkpoint = _load(name, options or LoadOptions(), heads, force_head=force_head, modality=modality)
    seed = None if options is None else options.random_weights
    return checkpoint if seed is None else randomise_weights(checkpoint, seed)


def _load(
    name: str, options: LoadOptions, heads: tuple[TaskHead, ...], *, force_head: bool, modality: str
) -> Checkpoint:
    spread = build_device_map_options(options.device_map, options.device)
    device, dtype = find_device(options.device), find_dtype(options.dtype)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    place = locate(name, options)
    folder, origin, name, tokenizer_folder = place.folder, place.origin, place.name, place.folder
    embedding = _read_embedding(place.sentences, name, options, modality)
    weights = find_weights(folder, name, allow_bin=options.allow_bin)
    hashes: dict[str, Any] = _hash_files(folder, weights, place.sentences)
    adapter = find_adapter(folder, name, options.base, hub="hub" in origin)
    if adapter is not None:
        folder, weights, recorded = _find_base(adapter, name, options)
        hashes |= recorded
        if not list_tokenizer_files(tokenizer_folder):
            tokenizer_folder = folder
    shared = {"trust_remote_code": options.trust_remote_code, "local_files_only": True}
    config = read_config(folder, name, trust_remote_code=options.trust_remote_code)
    refuse_by_name(config.model_type)
    check_packages(config, name)
    kept = read_kept_heads(folder, name, config)
    (refuse_unseeing if modality == BOTH else check_modality)(name, config, modality)
    load_own_tokenizers = partial(load_tokenizers, tokenizer_folder, name, config.model_type, **shared)
    tokenizer, target_tokenizer = load_own_tokenizers() if modality in {TEXT, BOTH} else (None, None)
    if embedding is not None and tokenizer is not None:
        embedding, tokenizer = embedding.fit(tokenizer, config)
        hashes |= {"embedding": embedding.record}
    processor = load_processor(modality, folder, name, config, tokenizer, **shared)
    placed = spread or place_weights(config, device)
    how = {"dtype": dtype, "use_safetensors": weights[0].suffix == ".safetensors", **shared, **placed}
    if kept is not None:
        _check_pruned_use(name, adapted=adapter is not None, spread=bool(spread))
    if is_physical(folder):
        read = _read_pruned(folder, name, dtype, heads, force=force_head)
    elif adapter is None:
        read = read_weights(folder, name, config, heads, force=force_head, **how)
    else:
        read = read_with_adapter(adapter, folder, name, config, heads, force=force_head, **how)
    vars(read.model.config).pop("pruned_heads", None)  # which are on record as ours are
    _check_numbers(name, read.model)
    model: Any = read.model if spread else read.model.to(device)  # type: ignore[arg-type]
    model = model.eval().requires_grad_(False)
    tower = find_tower(name, model, TEXT if modality == BOTH else modality)
    quantisation = Quantisation.of(model)
    hashes |= {} if quantisation is None else {"quantisation": quantisation.name}
    remarks = describe_unread_layers(model, read.unused)
    remarks += () if embedding is None else embedding.remarks
    if tokenizer is None and config.is_encoder_decoder and not tower:
        tokenizer = load_own_tokenizers()[0]
    lean.settle()
    return Checkpoint(
        name,
        model,
        tokenizer or NoTokenizer(name),
        {
            **origin,
            "model_type": config.model_type,
            "dtype": options.dtype,
            "trust_remote_code": options.trust_remote_code,
            **hashes,
        },
        read.unused,
        read.missing,
        folder,
        read.head,
        target_tokenizer,
        modality=modality,
        processor=processor,
        tower=tower,
        kept=kept,
        encoder_only=embedding is not None and embedding.reads_encoder(config),
        embedding=embedding,
        quantisation=quantisation,
        scoring=PairScoring.read(place.sentences),
        remarks=remarks,
    )


def _find_base(adapter: Adapter, name: str, options: LoadOptions) -> tuple[Path, list[Path], dict[str, Any]]:
    if options.device_map is not None:
        raise UsageError(f"{name} is an adapter, and merged on one device; leave out --device-map.")
    base = locate(adapter.base, choose_base_options(adapter, options))
    weights = find_weights(base.folder, adapter.base, allow_bin=options.allow_bin)
    check_config(base.folder, adapter.base)
    hashes = _hash_files(base.folder, weights)
    return base.folder, weights, {"adapter": adapter.kind, "base": {**base.origin, **hashes}}


def _read_embedding(
    folder: SentenceFolder | None, name: str, options: LoadOptions, modality: str
) -> Embedding | None:
    """Read how texts become embeddings, for a model that makes some; refuse a prompt of any other."""
    if folder is None or folder.scores_pairs or modality != TEXT:
        Prompts().choose(options.prompt, name)
        return None
    return Embedding.read(folder, name, options.prompt, allow_bin=options.allow_bin)


def build_device_map_options(device_map: DeviceMap | None, device: str) -> dict[str, Any]:
    """Build the options of ``from_pretrained`` for a device map; none without one."""
    if device_map is None:
        return {}
    if device != "auto":
        raise UsageError(f"--device-map spreads the model over all devices; leave out --device {device}.")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UsageError("--device-map takes all devices for one process; start it without torchrun.")
    if find_spec("accelerate") is None:
        raise UsageError("--device-map needs accelerate: pip install accelerate.")
    # That weights lie elsewhere is no news to who asked for it; tables and doctor say where.
    logging.getLogger("accelerate.big_modeling").setLevel(logging.ERROR)
    return {"device_map": device_map}


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
        raise UsageError(f"There is no device {name!r} on this machine; use {_name_devices()}.") from error
    if device.type == "meta":
        raise UsageError(f"The device 'meta' computes nothing; use {_name_devices()}.")
    return device


def _name_devices() -> str:
    gpus = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    apple = ["mps"] if torch.backends.mps.is_available() else []
    return " or ".join(["auto", "cpu", *gpus, *apple])


def find_dtype(name: str) -> torch.dtype:
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise UsageError(f"{name!r} is no floating-point type; use float32, bfloat16, float16 or float64.")
    return dtype


def sees_text(name: str, options: LoadOptions) -> bool:
    """Tell whether a checkpoint reads an image and a text together, by its configuration alone."""
    folder = locate(name, options, weights=False).folder
    if not (folder / "config.json").is_file():
        return False
    return reads_both(read_config(folder, name, trust_remote_code=options.trust_remote_code))


def _check_pruned_use(name: str, *, adapted: bool, spread: bool) -> None:
    if adapted:
        raise UsageError(
            f"The base of {name} is physically pruned, and fits no adapter; name the whole with --base."
        )
    if spread:
        raise UsageError(
            f"{name} is physically pruned, and can't be spread over devices; leave out --device-map."
        )


def _read_pruned(
    folder: Path, name: str, dtype: torch.dtype, heads: tuple[TaskHead, ...], *, force: bool
) -> Weights:
    with silence_transformers():
        model = load_stored(folder, name, physical=True, dtype=dtype)
    own = infer_head(model)
    if force and own not in heads:
        raise UsageError(
            f"{name} is physically pruned, and no other head can be made up for it; leave out --force-head."
        )
    return Weights(model, own if own in heads else None, (), ())


def load_tokenizers(
    folder: Path, name: str, model_type: str, **options: Any
) -> tuple[Tokenizer, Tokenizer | None]:
    """Load a checkpoint's tokenizer, and that of targets where it is another."""
    targets = folder / "target_tokenizer"
    if not list_tokenizer_files(folder):
        raise _tokenizer_error(name)
    try:
        own = AutoTokenizer.from_pretrained(folder, **options)
        other = AutoTokenizer.from_pretrained(targets, **options) if targets.is_dir() else None
    except Exception as error:
        raise _explain_tokenizer(folder, name, model_type, error) from error
    if not isinstance(own.model_max_length, int | float):
        stated = f"model_max_length is {own.model_max_length!r}, and must be a number"
        raise damage_error(folder / _TOKENIZER_CONFIG, name, stated)
    if len(own) <= len(set(own.all_special_ids)):  # what transformers makes up where there is no vocabulary
        raise _tokenizer_error(name)
    return own, other


def _explain_tokenizer(folder: Path, name: str, model_type: str, error: Exception) -> ModelError:
    """Say which file of a tokenizer is damaged; or what else keeps it from loading, such as a package."""
    if isinstance(error, ImportError):
        return UnsupportedModelError(
            model_type, f"{name} holds no tokenizer that loads ({first_line(error)})"
        )
    for file in (_TOKENIZER_CONFIG, "special_tokens_map.json", "added_tokens.json", "vocab.json"):
        if (folder / file).is_file() and not isinstance(read_json(folder / file), dict):
            return damage_error(folder / file, name, error)
    if not (folder / _TOKENIZER).is_file():
        return UnsupportedModelError(
            model_type, f"{name} holds no tokenizer that loads ({first_line(error)})"
        )
    try:
        TokenizerFile.from_file(str(folder / _TOKENIZER))
    except Exception as damage:
        return damage_error(folder / _TOKENIZER, name, damage)
    return damage_error(folder / _TOKENIZER_CONFIG, name, error)


def _tokenizer_error(name: str) -> ModelError:
    return ModelError(
        f"{name} holds no tokenizer (such as tokenizer.json or vocab.txt), so it can't be given text; copy "
        "the files of the tokenizer that the model was trained with into the folder."
    )


def _check_numbers(name: str, model: PreTrainedModel) -> None:
    """Refuse weights that are not numbers, but for those on disk or quantised, which are seen as they run."""
    for key, weight in model.named_parameters():
        if not weight.is_meta and not find_packing(weight) and not bool(torch.isfinite(weight).all()):
            raise ModelError(f"{name}: the weight {key} holds NaN or infinite numbers.")


def _hash_files(
    folder: Path, weights: Iterable[Path], sentences: SentenceFolder | None = None
) -> dict[str, dict[str, str]]:
    modules = {} if sentences is None else sentences.list_files()
    return {
        **({"modules": {name: hash_file(path) for name, path in modules.items()}} if modules else {}),
        "weights": {path.name: hash_file(path) for path in weights},
        "files": {path.relative_to(folder).as_posix(): hash_file(path) for path in list_descriptions(folder)},
    }
