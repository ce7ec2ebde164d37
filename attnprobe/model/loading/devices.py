"""Models too large for one device: accelerate spreads them over several, over the processor and the disk.

It moves what goes into each part to the device of that part, and fetches weights that lie elsewhere while
the part runs; such weights are on the device "meta" the rest of the time.
"""

import logging
import os
from importlib.util import find_spec
from typing import Any

import torch
from torch import nn

from attnprobe.errors import AttnprobeError

#: A device for each part of a model, or how to choose them.
DeviceMap = str | dict[str, Any]


def spreading(device_map: DeviceMap | None, device: str) -> dict[str, Any]:
    """Give the options of ``from_pretrained`` for a device map; none without one.

    Raises:
        AttnprobeError: When a single device is asked for too, in each of several processes, or when
            accelerate is not installed.
    """
    if device_map is None:
        return {}
    if device != "auto":
        raise AttnprobeError(f"--device-map spreads the model over all devices; leave out --device {device}.")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise AttnprobeError("--device-map takes all devices for one process; start it without torchrun.")
    if find_spec("accelerate") is None:
        raise AttnprobeError("--device-map needs accelerate: pip install accelerate.")
    # That weights lie elsewhere is no news to who asked for it; tables and doctor say where.
    logging.getLogger("accelerate.big_modeling").setLevel(logging.ERROR)
    return {"device_map": device_map}


def devices_of(model: nn.Module) -> list[str]:
    """List the devices that a model is spread over, the disk among them; none if it is on one."""
    placed = getattr(model, "hf_device_map", None) or {}
    found = list(dict.fromkeys(_named(device) for device in placed.values()))
    return found if len(found) > 1 or "disk" in found else []


def running_device(module: nn.Module, otherwise: torch.device) -> torch.device:
    """Tell on which device a module computes, wherever its weights lie."""
    hook: Any = getattr(module, "_hf_hook", None)
    for one in getattr(hook, "hooks", (hook,)):
        device = getattr(one, "execution_device", None)
        if device is not None:
            return torch.device(device)
    weight = next(module.parameters(), None)
    found = otherwise if weight is None or weight.is_meta else weight.device
    return torch.device("cpu") if found.type == "meta" else found


def _named(device: Any) -> str:
    return "disk" if device == "disk" else str(torch.device(device))
