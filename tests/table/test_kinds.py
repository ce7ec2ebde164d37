"""Which kind a table is of: its columns tell."""

import picture_tables as tables
import pytest

from attnprobe.table.table import Column, HeadTable

GUESSED = {
    "heads": lambda: tables.of_heads("entropy"),
    "roles": tables.roles,
    "change": tables.change,
    "best heads": tables.found,
    "settling": tables.orders,
    "pruning": tables.pruning,
    "pruning of checkpoints": tables.pruning_over_training,
    "heads of checkpoints": tables.over_training,
    "two sides": tables.correlated,
    "interactions": tables.interactions,
    "probes": tables.probes,
    "all pairs": tables.all_pairs,
    "layers": tables.by_layer,
    "correlations": tables.correlation,
    "checks": tables.checked,
    "heads of groups": tables.by_group,
    "modalities": tables.modalities,
    "alignments": tables.alignments,
    "aligning heads": tables.aligning,
}


@pytest.mark.parametrize("kind", GUESSED)
def test_the_columns_tell(kind):
    assert GUESSED[kind]().kind == kind


def test_pairs_and_layers_of_few_columns():
    def of(*keys):
        return HeadTable("t", [Column(key, role="key") for key in keys], {key: [0] for key in keys}).kind

    assert of("layer", "head_a", "head_b") == "pairs in layers"
    assert of("step", "layer") == "layers of checkpoints"
    assert of("word") == "other"
    assert of() == "other"
