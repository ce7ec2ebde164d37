"""Which versions compute: told without importing any of them."""

import platform
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any


def record_versions() -> dict[str, Any]:
    packages = ("attnprobe", "torch", "transformers", "numpy", "numba", "scipy")
    return {
        "versions": {"python": platform.python_version()} | {name: version(name) for name in packages},
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
