"""The same architecture with random weights, as a control for what its training brought."""

import copy
from dataclasses import replace

import torch

from attnprobe.errors import UsageError, first_line
from attnprobe.model.checkpoint import Checkpoint, list_devices


def randomise_weights(checkpoint: Checkpoint, seed: int = 0) -> Checkpoint:
    """Build the model of a checkpoint anew, with the weights that training of it would begin with.

    Its own ``_init_weights`` draws, the same for a seed on every device. The model and the random state stay
    as they were.

    Raises:
        UsageError: For quantised weights, adapters in place, physically pruned models, models spread over
            devices, and what can't be built of its configuration.

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
    except Exception as error:  # whatever the code of a model does
        raise refuse(first_line(error)) from error
    drawn, trained = dict(built.named_parameters()), dict(model.named_parameters())
    if any(key not in drawn or drawn[key].shape != weight.shape for key, weight in trained.items()):
        raise refuse("it has weights that its configuration knows nothing of (adapters, fewer heads)")
    for key, weight in drawn.items():
        like = trained.get(key)  # none of a pooler that the model was loaded without
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
