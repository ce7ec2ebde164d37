"""The same architecture with random weights, as a control: what is found there is found without training."""

import copy
from dataclasses import replace

import torch

from attnprobe.errors import UsageError, first_line
from attnprobe.model.checkpoint import Checkpoint, list_devices
from attnprobe.model.quirks import UnsupportedModelError


def randomise_weights(checkpoint: Checkpoint, seed: int = 0) -> Checkpoint:
    """Build the model of a checkpoint anew, with the weights that training of it would begin with.

    Its own ``_init_weights`` draws, the same for a seed on every device. The model and the random state stay
    as they were.

    Raises:
        UsageError: For quantised weights, adapters in place, physically pruned models, and models spread over
            devices.
        UnsupportedModelError: For what can't be built of its configuration.

    References:
        Hewitt and Liang (2019), Designing and interpreting probes with control tasks.
    """
    name, model, reason = checkpoint.name, checkpoint.model, ""
    if checkpoint.quantisation is not None:
        reason = f"its weights are quantised ({checkpoint.quantisation.name})"
    elif checkpoint.kept is not None:
        reason = "it is physically pruned, and its configuration does not say how"
    elif list_devices(model):
        reason = "it is spread over devices by --device-map"
    if reason:
        raise _make_error(name, reason)
    try:
        with torch.random.fork_rng(devices=[]), torch.device("cpu"):
            torch.manual_seed(seed)
            built = type(model)(copy.deepcopy(model.config))
    except Exception as error:  # whatever the code of a model does
        raise UnsupportedModelError(
            model.config.model_type,
            f"{name} can't be built with random weights ({first_line(error)}); leave out --random-weights",
        ) from error
    drawn, trained = dict(built.named_parameters()), dict(model.named_parameters())
    if any(key not in drawn or drawn[key].shape != weight.shape for key, weight in trained.items()):
        raise _make_error(
            name, "it has weights that its configuration knows nothing of; merge adapters first"
        )
    for key, weight in drawn.items():  # some are new, such as a pooler that the model was loaded without
        like = trained.get(key)
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


def _make_error(name: str, reason: str) -> UsageError:
    return UsageError(f"{name} can't be built with random weights: {reason}; leave out --random-weights.")
