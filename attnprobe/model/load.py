"""Loading a checkpoint from the package, a folder or the hub, and what guards against files of strangers."""

import logging
import os
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer as TokenizerFile
from transformers import AutoTokenizer, PreTrainedModel

from attnprobe.corpus.media import BOTH
from attnprobe.corpus.tokenizer import NoTokenizer, Tokenizer
from attnprobe.errors import ModelError, UsageError, first_line
from attnprobe.model import lean
from attnprobe.model.adapters import read_with_adapter
from attnprobe.model.checkpoint import TEXT, Checkpoint, check_modality, find_tower
from attnprobe.model.configuration import describe_unread_layers, read_config, refuse_unseeing
from attnprobe.model.embedding import Embedding, choose_prompts
from attnprobe.model.folders import check_object, damage_error
from attnprobe.model.locate import CheckpointFiles, DeviceMap, LoadOptions, list_tokenizer_files, locate
from attnprobe.model.processing import load_processor
from attnprobe.model.pruning import is_physical, load_stored, read_kept_heads, silence_transformers
from attnprobe.model.quantisation import Quantisation, find_packing, place_weights
from attnprobe.model.quirks import UnsupportedModelError, refuse_by_name
from attnprobe.model.random_weights import randomise_weights
from attnprobe.model.task_heads import TaskHead, Weights, infer_head, read_weights
from attnprobe.table.cells import clean

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

    ``name`` is ``demo``, a local folder, or a hub id. Of the task ``heads``, the first whose weights are all
    there is loaded along, or with ``force_head`` the first one, made up if need be. The ``modality`` is what
    it will be given: "text", "image" or "sound", or "image+text" for both together.

    Raises:
        AttnprobeError: With one sentence on what is wrong and what to do.
    """
    options = options or LoadOptions()
    spread = build_device_map_options(options.device_map, options.device)
    device, dtype = find_device(options.device), getattr(torch, options.dtype)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    files = locate(name, options)
    name, base = files.label, files.base or files
    sentences, scores_pairs = files.sentences, files.sentences is not None and files.sentences.scores_pairs
    embeds = sentences is not None and not scores_pairs and modality == TEXT
    choose_prompts(sentences.described if sentences and embeds else {}, options.prompt, name)
    if files.base is not None and spread:
        raise UsageError(f"{name} is an adapter, and merged on one device; leave out --device-map.")
    shared = {"trust_remote_code": options.trust_remote_code, "local_files_only": True}
    config = read_config(base.folder, name, trust_remote_code=options.trust_remote_code)
    refuse_by_name(config.model_type)
    kept = read_kept_heads(base.folder, name, config)
    if kept is not None and (files.base is not None or spread):
        reason = "fits no adapter" if files.base is not None else "can't be spread over devices"
        raise UsageError(f"{name} is physically pruned, and {reason}; take the model before pruning.")
    if modality == BOTH:
        refuse_unseeing(name, config)
    else:
        check_modality(name, config, modality)
    load_own_tokenizers = partial(load_tokenizers, files.tokenizer_folder, name, config.model_type, **shared)
    tokenizer, target_tokenizer = load_own_tokenizers() if modality in {TEXT, BOTH} else (None, None)
    processor = load_processor(modality, base.folder, name, config, tokenizer, **shared)
    how = {"dtype": dtype, "use_safetensors": base.weights[0].suffix == ".safetensors", **shared}
    how |= spread or place_weights(config, device)
    if is_physical(base.folder):
        weights = _read_pruned(base.folder, name, dtype, heads, force=force_head)
    elif files.base is None:
        weights = read_weights(base.folder, name, config, heads, force=force_head, **how)
    else:
        weights = read_with_adapter(files, base, config, heads, force=force_head, **how)
    vars(weights.model.config).pop("pruned_heads", None)  # which are on record as ours are
    _check_numbers(name, weights.model)
    model: Any = weights.model if spread else weights.model.to(device)  # type: ignore[arg-type]
    model = model.eval().requires_grad_(False)
    tower = find_tower(name, model, TEXT if modality == BOTH else modality)
    if tokenizer is None and config.is_encoder_decoder and not tower:
        tokenizer = load_own_tokenizers()[0]
    quantisation = Quantisation.of(model)
    lean.settle()
    checkpoint = Checkpoint(
        name,
        model,
        tokenizer or NoTokenizer(name),
        _record(files, config.model_type, quantisation),
        weights.unused,
        weights.missing,
        base.folder,
        weights.head,
        target_tokenizer,
        modality=modality,
        processor=processor,
        tower=tower,
        kept=kept,
        quantisation=quantisation,
        scores_pairs=scores_pairs,
        sentences=sentences,
        remarks=describe_unread_layers(model, weights.unused),
    )
    if sentences is not None and embeds:
        checkpoint = Embedding.read(sentences, checkpoint, options.prompt).attach(checkpoint)
    seed = options.random_weights
    return checkpoint if seed is None else randomise_weights(checkpoint, seed)


def _record(files: CheckpointFiles, model_type: str, quantisation: Quantisation | None) -> dict[str, Any]:
    """Record where a checkpoint came from and how it was read."""
    options, base = files.options, files.base
    record: dict[str, Any] = {
        **files.origin,
        "model_type": model_type,
        "dtype": options.dtype,
        "trust_remote_code": options.trust_remote_code,
        **files.hashes,
    }
    if base is not None:
        kind = clean(str(files.adapter.get("peft_type")))
        record |= {"adapter": kind, "base": {**base.origin, **base.hashes}}
    return record | ({} if quantisation is None else {"quantisation": quantisation.name})


def build_device_map_options(device_map: DeviceMap | None, device: str) -> dict[str, Any]:
    """Build the options of ``from_pretrained`` for a device map; none without one."""
    if device_map is None:
        return {}
    if device != "auto":
        raise UsageError(f"--device-map spreads the model over all devices; leave out --device {device}.")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UsageError("--device-map takes all devices for one process; start it without torchrun.")
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
        torch.empty(1, device=device).tolist()  # which meta has no numbers for
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        gpus = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
        apple = ["mps"] if torch.backends.mps.is_available() else []
        there = " or ".join(["auto", "cpu", *gpus, *apple])
        raise UsageError(f"There is no device {name!r} on this machine; use {there}.") from error
    return device


def _read_pruned(
    folder: Path, name: str, dtype: torch.dtype, heads: tuple[TaskHead, ...], *, force: bool
) -> Weights:
    with silence_transformers():
        model = load_stored(folder, name, physical=True, dtype=dtype)
    head = infer_head(model)
    if force and head not in heads:
        raise UsageError(
            f"{name} is physically pruned, and no other head can be made up for it; leave out --force-head."
        )
    return Weights(model, head if head in heads else None, (), ())


def load_tokenizers(
    folder: Path, name: str, model_type: str, **options: Any
) -> tuple[Tokenizer, Tokenizer | None]:
    """Load a checkpoint's tokenizer, and that of targets where it is another."""
    targets, tokenizer, other = folder / "target_tokenizer", None, None
    if list_tokenizer_files(folder):
        try:
            tokenizer = AutoTokenizer.from_pretrained(folder, **options)
            other = AutoTokenizer.from_pretrained(targets, **options) if targets.is_dir() else None
        except Exception as error:
            raise _explain_tokenizer(folder, name, model_type, error) from error
    # Transformers makes one up where there is no vocabulary.
    if tokenizer is None or len(tokenizer) <= len(set(tokenizer.all_special_ids)):
        raise ModelError(
            f"{name} holds no tokenizer (such as tokenizer.json or vocab.txt), so it can't be given text; "
            "copy the files of the tokenizer that the model was trained with into the folder."
        )
    if not isinstance(tokenizer.model_max_length, int | float):
        stated = f"model_max_length is {tokenizer.model_max_length!r}, and must be a number"
        raise damage_error(folder / _TOKENIZER_CONFIG, name, stated)
    return tokenizer, other


def _explain_tokenizer(folder: Path, name: str, model_type: str, error: Exception) -> ModelError:
    """Say which file of a tokenizer is damaged; or what else keeps it from loading, such as a package."""
    for file in (_TOKENIZER_CONFIG, "special_tokens_map.json", "added_tokens.json", "vocab.json"):
        check_object(folder / file, name)
    if isinstance(error, ImportError) or not (folder / _TOKENIZER).is_file():
        reason = f"{name} holds no tokenizer that loads ({first_line(error)})"
        return UnsupportedModelError(model_type, reason)
    try:
        TokenizerFile.from_file(str(folder / _TOKENIZER))
    except Exception as damage:
        return damage_error(folder / _TOKENIZER, name, damage)
    return damage_error(folder / _TOKENIZER_CONFIG, name, error)


def _check_numbers(name: str, model: PreTrainedModel) -> None:
    """Refuse weights that are not numbers, but for those on disk or quantised, which are seen as they run."""
    for key, weight in model.named_parameters():
        if not weight.is_meta and not find_packing(weight) and not bool(torch.isfinite(weight).all()):
            raise ModelError(f"{name}: the weight {key} holds NaN or infinite numbers.")
