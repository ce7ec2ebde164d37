"""The same architecture with random weights, as a control: what is found there is found without training."""

import copy
from dataclasses import replace

import torch
from transformers import PreTrainedModel

from attnprobe.errors import UsageError, first_line
from attnprobe.model.checkpoint import Checkpoint, list_devices
from attnprobe.model.pruning import silence_transformers
from attnprobe.model.quirks import UnsupportedModelError


def randomise_weights(checkpoint: Checkpoint, seed: int = 0) -> Checkpoint:
    """Build the model of a checkpoint anew, with the weights that training of it would begin with.

    Its class is built of its configuration, and its own ``_init_weights`` draws: nothing is read from disk,
    and no trained weight is left, as some are where the trained model is drawn over. Weights that were tied
    are tied. Types and devices are those of the model, whose own weights and random state stay as they were.

    Args:
        checkpoint: A loaded model; what it is given stays the same, such as its tokenizer.
        seed: Another gives other weights; the same gives the same on every device.

    Returns:
        The checkpoint with that model in evaluation mode; its ``origin`` says so.

    Raises:
        AttnprobeError: For quantised weights, adapters in place, physically pruned models, models spread over
            devices, and those that can't be built of their configuration.

    References:
        Hewitt and Liang (2019), Designing and interpreting probes with control tasks.
    """
    name, model = checkpoint.name, checkpoint.model
    if checkpoint.quantisation is not None:
        raise UsageError(
            f"The weights of {name} are quantised ({checkpoint.quantisation.name}), and no random ones can "
            "take their place; give the checkpoint of plain weights, or leave out --random-weights."
        )
    if checkpoint.kept is not None:
        raise UsageError(
            f"{name} is physically pruned, so that its configuration does not say what to build with random "
            "weights; give the checkpoint before pruning, or leave out --random-weights."
        )
    if list_devices(model):
        raise UsageError(
            f"{name} is spread over devices, where it can't be built with random weights; leave out "
            "--device-map, or --random-weights."
        )
    built = _build(model, name, seed)
    _match(built, model, name)
    built.name_or_path = model.name_or_path
    origin = checkpoint.origin | {"random_weights": seed}
    model = built.eval().requires_grad_(False)
    name = f"{name} (random weights {seed})"
    return replace(checkpoint, name=name, model=model, origin=origin, unused=(), missing=(), folder=None)


def _build(model: PreTrainedModel, name: str, seed: int) -> PreTrainedModel:
    try:
        with torch.random.fork_rng(devices=[]), torch.device("cpu"), silence_transformers():
            torch.manual_seed(seed)
            return type(model)(copy.deepcopy(model.config))
    except Exception as error:  # whatever the code of a model does
        raise UnsupportedModelError(
            model.config.model_type,
            f"{name} can't be built with random weights ({first_line(error)}); leave out --random-weights",
        ) from error


def _match(built: PreTrainedModel, model: PreTrainedModel, name: str) -> None:
    weights = dict(built.named_parameters())
    for key, weight in model.named_parameters():
        found = weights.get(key)
        if found is None or found.shape != weight.shape:
            raise UsageError(
                f"{name} has weights that its configuration knows nothing of (such as {key}), so that it "
                "can't be built with random ones; merge adapters first (merge_and_unload()), or leave out "
                "--random-weights."
            )
        found.data = found.data.to(weight.device, weight.dtype)
        del weights[key]
    for extra in weights.values():  # such as a pooler that the model was built without
        extra.data = extra.data.to(model.device, model.dtype)
    for buffer in built.buffers():
        buffer.data = buffer.data.to(model.device)
