"""What this machine would compute on, told without torch where that is plain, and asked of it elsewhere."""

import os
import platform
import sys
from collections.abc import Iterable
from pathlib import Path

#: What drivers of accelerators put into /dev: of NVIDIA, in WSL and on Tegra too, and of AMD.
_DRIVERS = ("nvidiactl", "nvidia0", "dxg", "nvmap", "nvhost-gpu", "kfd")
#: Where Linux says which core a processor is part of.
_TOPOLOGY = Path("/sys/devices/system/cpu")


def name_device(name: str = "auto") -> str:
    """Name the device that an option stands for here.

    Raises:
        AttnprobeError: When there is no such device.
    """
    if name == "cpu" or (name == "auto" and not _may_have_accelerator()):
        return "cpu"
    from attnprobe.model.load import find_device

    return str(find_device(name))


def _may_have_accelerator() -> bool:
    return sys.platform != "linux" or any((Path("/dev") / name).exists() for name in _DRIVERS)


def count_threads() -> int:
    """Count the threads that torch takes where nobody says how many.

    Its builds for Linux on x86-64 take a thread for each core that the process may use, or as many as
    OMP_NUM_THREADS says, if those are fewer.
    """
    if sys.platform == "linux" and platform.machine() == "x86_64" and "MKL_NUM_THREADS" not in os.environ:
        cores, asked = _count_cores(os.sched_getaffinity(0)), os.environ.get("OMP_NUM_THREADS", "")
        if cores and not asked:
            return cores
        if cores and asked.isdecimal() and int(asked) > 0:
            return min(int(asked), cores)
    import torch

    return torch.get_num_threads()


def _count_cores(processors: Iterable[int]) -> int:
    """Count the cores of processors, of which two may share one; 0 where the system does not say."""
    try:
        return len(
            {
                tuple(
                    (_TOPOLOGY / f"cpu{number}" / "topology" / name).read_text()
                    for name in ("physical_package_id", "core_id")
                )
                for number in processors
            }
        )
    except OSError:
        return 0
