"""The record of a run: checkpoint, text, options, machine and versions."""

import platform
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from attnprobe.run.process_group import Ranks
from attnprobe.table.reading import describe_table

if TYPE_CHECKING:
    from attnprobe.model.check.architecture import Architecture
    from attnprobe.model.checkpoint import Checkpoint
    from attnprobe.run.corpus import Corpus
    from attnprobe.run.options import CorpusOptions


def record_provenance(
    checkpoint: "Checkpoint", architecture: "Architecture", corpus: "Corpus", options: "CorpusOptions"
) -> dict[str, Any]:
    """Record what a run depends on: checkpoint, text, options, machine and versions."""
    import torch

    path = options.frequencies
    named = {} if path is None else {"frequencies": str(path)}
    remarks = {"remarks": list(checkpoint.remarks)} if checkpoint.remarks else {}
    chosen = {"max_length": corpus.window, "batch_tokens": options.batch_tokens or "auto"}
    return {
        "model": {"name": checkpoint.name, **checkpoint.origin, **remarks},
        "architecture": asdict(architecture),
        "options": options.settings | named | chosen,
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
        **({} if path is None else {"frequencies": describe_table(path)}),
        **record_versions(),
    }


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
    return {"python": platform.python_version()} | {name: version(name) for name in _PACKAGES}
