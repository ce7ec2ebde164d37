"""Which versions compute: told without importing any of them."""

import platform
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from typing import Any

_PACKAGES = ("attnprobe", "torch", "transformers", "numpy", "numba", "scipy")


def record_versions() -> dict[str, Any]:
    """Record the versions that compute, and when."""
    return {"versions": dict(_versions()), "created": datetime.now(UTC).isoformat(timespec="seconds")}


@cache
def _versions() -> dict[str, str]:
    """Parse the metadata of the packages, once a process."""
    return {"python": platform.python_version()} | {name: version(name) for name in _PACKAGES}
