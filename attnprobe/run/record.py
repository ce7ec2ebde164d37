"""The record of a run, from which its table can be made again."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.run.input.corpus import Corpus
from attnprobe.run.input.options import CorpusOptions
from attnprobe.run.process_group import Ranks
from attnprobe.run.versions import record_versions
from attnprobe.run.workers import Workers
from attnprobe.sums.documents import Sketch
from attnprobe.table.head_table import describe_table


def record_provenance(
    checkpoint: Checkpoint,
    architecture: Architecture,
    corpus: Corpus,
    options: CorpusOptions,
    workers: Workers,
) -> dict[str, Any]:
    settings, frequencies = options.settings, options.frequencies
    named = {} if frequencies is None else {"frequencies": str(frequencies)}
    remarks = {"remarks": list(checkpoint.remarks)} if checkpoint.remarks else {}
    chosen = {"max_length": corpus.window, "batch_tokens": options.batch_tokens or "auto"}
    return {
        "model": {"name": checkpoint.name, **checkpoint.origin, **remarks},
        "architecture": architecture.describe(),
        "options": settings | named | chosen,
        "corpus": asdict(corpus.reading)
        | {
            "sequences": corpus.sequences,
            "clusters": corpus.documents,
            "sketch": Sketch.of(corpus.batches.names).pack(),
            "tokens": corpus.tokens,
            "rare_types": corpus.rare_types,
            "texts": [corpus.batches.digest],
            "rarity": corpus.batches.rarity_digest,
            "rare_decided": corpus.rarity is not None and corpus.rarity.decided,
        },
        "device": checkpoint.devices,
        "threads": torch.get_num_threads(),
        "workers": workers.number,
        "processes": Ranks.detect().size,
        **({} if frequencies is None else {"frequencies": describe_table(Path(frequencies))}),
        **record_versions(),
    }
