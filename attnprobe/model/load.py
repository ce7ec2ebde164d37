"""Loading a checkpoint, and drawing random weights for one."""

import copy
import os
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import torch
import transformers
from torch import nn
from transformers import PreTrainedModel

from attnprobe.corpus.media import BOTH
from attnprobe.corpus.tokenizer import NoTokenizer
from attnprobe.errors import ModelError, UsageError, first_line
from attnprobe.model import lean
from attnprobe.model.checkpoint import TEXT, Checkpoint, check_modality, find_tower, list_devices
from attnprobe.model.embedding import attach_embedding, choose_prompts
from attnprobe.model.locate import CheckpointFiles, LoadOptions, locate
from attnprobe.model.processing import load_processor
from attnprobe.model.pruning import read_kept_heads
from attnprobe.model.quantisation import describe_quantisation, find_packing, place_weights
from attnprobe.model.quirks import AHEAD, AHEAD_COUNTS, refuse_by_name
from attnprobe.model.reading.ways import ATTENTION_NAME
from attnprobe.model.task_heads import TaskHead, read_weights, read_with_adapter
from attnprobe.table.cells import clean
from attnprobe.table.naming import join_names


def load_checkpoint(
    name: str,
    options: LoadOptions | None = None,
    heads: tuple[TaskHead, ...] = (),
    *,
    force_head: bool = False,
    modality: str = TEXT,
) -> Checkpoint:
    """Load a model with its tokenizer or its processor of images or sound.

    ``name`` is ``demo``, a local folder, or a hub id. Of the task ``heads``, the first with all its weights
    is loaded; with ``force_head`` the first one, with random weights if need be. The ``modality`` of inputs
    is "text", "image" or "sound", or "image+text" for both together.
    """
    options = options or LoadOptions()
    spread: dict[str, Any] = {} if options.device_map is None else {"device_map": options.device_map}
    if spread and options.device != "auto":
        raise UsageError(f"--device-map spreads the model; leave out --device {options.device}.")
    if spread and os.environ.get("WORLD_SIZE", "1") != "1":
        raise UsageError("--device-map takes all devices for one process; start it without torchrun.")
    device = _find_device(options.device)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    files = locate(name, options)
    name, base, sentences = files.label, files.base or files, files.sentences
    scores_pairs = sentences is not None and sentences.scores_pairs
    embeds = sentences is not None and not scores_pairs and modality == TEXT
    choose_prompts(sentences.described if sentences and embeds else {}, options.prompt, name)
    if files.base is not None and spread:
        raise UsageError(f"{name} is an adapter, and merged on one device; leave out --device-map.")
    config = files.config
    refuse_by_name(config.model_type)
    kept = read_kept_heads(base.folder, name, config)
    check_modality(name, config, modality)
    tokenizer = target_tokenizer = None
    if modality in {TEXT, BOTH} or config.is_encoder_decoder:
        tokenizer, target_tokenizer = files.tokenizers
    processor = load_processor(modality, base.folder, name, config, tokenizer, **files.trust)
    how = {"dtype": getattr(torch, options.dtype), **files.trust, **(spread or place_weights(config, device))}
    how["use_safetensors"] = base.weights[0].suffix == ".safetensors"
    if files.base is None:
        weights = read_weights(base.folder, name, config, heads, force=force_head, **how)
    else:
        weights = read_with_adapter(files, config, heads, **how)
    model: Any = weights.model
    model = (model if spread else model.to(device)).eval().requires_grad_(False)
    vars(model.config).pop("pruned_heads", None)  # which ``kept`` states
    for key, weight in model.named_parameters():
        if not weight.is_meta and not find_packing(weight) and not bool(torch.isfinite(weight).all()):
            raise ModelError(f"{name}: the weight {key} holds NaN or infinite numbers.")
    quantisation = describe_quantisation(model)
    lean.settle()
    checkpoint = Checkpoint(
        name,
        model,
        tokenizer or NoTokenizer(name),
        _describe_origin(files, quantisation),
        weights.unused,
        weights.missing,
        base.folder,
        weights.head,
        target_tokenizer,
        modality=modality,
        processor=processor,
        tower=find_tower(model, TEXT if modality == BOTH else modality),
        kept=kept,
        quantisation=quantisation,
        scores_pairs=scores_pairs,
        sentences=sentences,
        remarks=describe_unread_layers(model, weights.unused),
    )
    if sentences is not None and embeds:
        checkpoint = attach_embedding(checkpoint, sentences, options.prompt)
    seed = options.random_weights
    return checkpoint if seed is None else randomise_weights(checkpoint, seed)


def _describe_origin(files: CheckpointFiles, quantisation: str) -> dict[str, Any]:
    """Describe files and options for the record."""
    options, base = files.options, files.base
    origin = {**files.origin, "model_type": files.config.model_type, "dtype": options.dtype}
    origin |= {"trust_remote_code": options.trust_remote_code, **files.hashes}
    if base is not None:
        kind = clean(str(files.adapter.get("peft_type")))
        origin |= {"adapter": kind, "base": {**base.origin, **base.hashes}}
    return origin | ({"quantisation": quantisation} if quantisation else {})


def describe_unread_layers(model: PreTrainedModel, unexpected: Iterable[str]) -> tuple[str, ...]:
    """Describe, by stack, stored attention layers that the config leaves out and that don't predict ahead."""
    prefix, config, sentences = f"{model.base_model_prefix}.", model.config.get_text_config(), []
    ahead = max(int(getattr(config, name, 0) or 0) for name in AHEAD_COUNTS)
    keys = [key.removeprefix(prefix) for key in unexpected]
    for path, stack in model.named_modules():
        if not isinstance(stack, nn.ModuleList):
            continue
        place = re.compile(rf"{re.escape(path.removeprefix(prefix))}\.(\d{{1,6}})\..+")
        extra = [match for match in map(place.fullmatch, keys) if match and int(match[1]) >= len(stack)]
        attending = {int(match[1]) for match in extra if ATTENTION_NAME.search(match[0])}
        beyond = sorted(attending - {int(match[1]) for match in extra if AHEAD.search(match[0])})
        if len(beyond) > ahead:
            sentences.append(
                f"the weights of {path} hold {beyond[-1] + 1} layers, of which the config leaves out "
                f"{join_names(list(map(str, beyond)))} (counted from 0)"
            )
    return tuple(sentences)


def _find_device(name: str) -> torch.device:
    if name == "auto":
        if torch.cuda.is_available():
            # Each process of torchrun on a machine takes another GPU.
            local = int(os.environ.get("LOCAL_RANK", "0"))
            return torch.device("cuda", local % torch.cuda.device_count())
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device).tolist()  # for which meta has no numbers
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        advice = "use auto or cpu, or cuda:0 where there is a GPU"
        raise UsageError(f"There is no device {name!r} on this machine; {advice}.") from error
    return device


def randomise_weights(checkpoint: Checkpoint, seed: int = 0) -> Checkpoint:
    """Build the model of a checkpoint anew, with random weights as at the beginning of training.

    The model's ``_init_weights`` draws them, the same for a seed on every device. Models that are quantised,
    have adapters in place, are physically pruned or spread over devices are refused.

    References:
        Hewitt and Liang (2019), Designing and interpreting probes with control tasks.
    """
    name, model = checkpoint.name, checkpoint.model

    def refuse(reason: str) -> UsageError:
        return UsageError(f"{name} can't be built with random weights: {reason}; leave out --random-weights.")

    if checkpoint.quantisation:
        raise refuse(f"its weights are quantised ({checkpoint.quantisation})")
    if list_devices(model):
        raise refuse("it is spread over devices by --device-map")
    try:
        with torch.random.fork_rng(devices=[]), torch.device("cpu"):
            torch.manual_seed(seed)
            built = type(model)(copy.deepcopy(model.config))
    except Exception as error:  # the code of a model may raise anything
        raise refuse(first_line(error)) from error
    drawn, trained = dict(built.named_parameters()), dict(model.named_parameters())
    if any(key not in drawn or drawn[key].shape != weight.shape for key, weight in trained.items()):
        raise refuse("it has weights that its configuration knows nothing of (adapters, fewer heads)")
    for key, weight in drawn.items():
        like = trained.get(key)  # None of a pooler that the model was loaded without
        weight.data = weight.data.to(model.device, model.dtype) if like is None else weight.data.to(like)
    for buffer in built.buffers():
        buffer.data = buffer.data.to(model.device)
    built.name_or_path = model.name_or_path
    return replace(
        checkpoint,
        name=f"{name} (random weights {seed})",
        model=built.eval().requires_grad_(False),
        origin=checkpoint.origin | {"random_weights": seed},
        unused=(),
        missing=(),
        folder=None,
    )
