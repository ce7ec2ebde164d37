"""Which kind a table is of: from where it is made, or else from its columns; here and nowhere else."""

from dataclasses import replace

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


def test_a_kind_that_is_said_stays_until_its_columns_go():
    table = tables.correlated()
    said = replace(table, kind="heads")
    assert (table.kind, said.kind) == ("two sides", "heads")
    assert replace(said, title="another").kind == "heads"
    roles = tables.roles()
    columns = [column for column in roles.columns if column.name != "role"]
    fewer = replace(roles, columns=columns, data={one.name: roles.data[one.name] for one in columns})
    assert fewer.kind == "heads"
