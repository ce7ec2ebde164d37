"""What is on record of versions, and of corpora that are added up."""

import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any


def add_corpora(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Add up what is on record of two parts of a corpus, in which nothing was counted as rare."""
    counts = {name: value + second[name] for name, value in first.items() if type(value) is int}
    lists = {"texts": [*first["texts"], *second["texts"]]}
    return {**first, **counts, **lists, "spelled_token": first["spelled_token"] or second["spelled_token"]}


#: What is on record of rare tokens where nobody counted a whole corpus.
NOT_COUNTED = {"rare_types": 0, "rarity": "", "rare_decided": False}

_PACKAGES = ("attnprobe", "torch", "transformers", "numpy", "numba", "scipy")


def record_versions() -> dict[str, Any]:
    """Record the versions that compute, and when."""
    return {"versions": dict(_versions()), "created": datetime.now(UTC).isoformat(timespec="seconds")}


@cache
def _versions() -> dict[str, str]:
    """Parse the metadata of the packages, once a process."""
    from importlib.metadata import version  # which slows the start

    return {"python": platform.python_version()} | {name: version(name) for name in _PACKAGES}
