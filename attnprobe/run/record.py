"""The record of a run: checkpoint, text, options, machine and versions."""

import platform
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnprobe.run.process_group import Ranks
from attnprobe.table.reading import describe_table

if TYPE_CHECKING:
    from attnprobe.model.check.architecture import Architecture
    from attnprobe.model.checkpoint import Checkpoint
    from attnprobe.run.corpus import Corpus
    from attnprobe.run.options import CorpusOptions


def record_provenance(
    checkpoint: "Checkpoint",
    architecture: "Architecture",
    corpus: "Corpus",
    options: "CorpusOptions",
) -> dict[str, Any]:
    """Record what a run depends on: checkpoint, text, options, machine and versions."""
    import torch

    settings, frequencies = options.settings, options.frequencies
    named = {} if frequencies is None else {"frequencies": str(frequencies)}
    remarks = {"remarks": list(checkpoint.remarks)} if checkpoint.remarks else {}
    chosen = {"max_length": corpus.window, "batch_tokens": options.batch_tokens or "auto"}
    return {
        "model": {"name": checkpoint.name, **checkpoint.origin, **remarks},
        "architecture": asdict(architecture),
        "options": settings | named | chosen,
        "corpus": asdict(corpus.reading)
        | {
            "sequences": corpus.sequences,
            "clusters": corpus.documents,
            "tokens": corpus.tokens,
            "rare_types": corpus.rare_types,
            "texts": [corpus.batches.digest],
            "rarity": corpus.batches.rarity_digest,
            "rare_decided": corpus.rarity is not None and corpus.rarity.once is None,
        },
        "device": checkpoint.devices,
        "threads": torch.get_num_threads(),
        "workers": corpus.workers.number,
        "processes": Ranks.detect().size,
        **({} if frequencies is None else {"frequencies": describe_table(Path(frequencies))}),
        **record_versions(),
    }


def add_corpora(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Add up what is on record of two parts of a corpus, in which nothing was counted as rare."""
    found = {name: value + other[name] for name, value in one.items() if type(value) is int}
    return {
        **one,
        **found,
        "spelled_token": one["spelled_token"] or other["spelled_token"],
        "texts": [*one["texts"], *other["texts"]],
    }


#: What is on record of rare tokens where nobody counted a whole corpus.
NOT_COUNTED = {"rare_types": 0, "rarity": "", "rare_decided": False}

_PACKAGES = ("attnprobe", "torch", "transformers", "numpy", "numba", "scipy")


def record_versions() -> dict[str, Any]:
    """Record the versions that compute, and when."""
    return {"versions": dict(_versions()), "created": datetime.now(UTC).isoformat(timespec="seconds")}


@cache
def _versions() -> dict[str, str]:
    """Parse the metadata of the packages, once a process."""
    return {"python": platform.python_version()} | {name: version(name) for name in _PACKAGES}
