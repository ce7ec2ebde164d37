"""What statistics say of a checkpoint's weights, before any text is read."""

from collections.abc import Mapping, Sequence

import numpy as np

from attnprobe.model.loading.checkpoint import Checkpoint
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.model.verifying.head_parameters import find_head_parameters
from attnprobe.statistics.asking import asked_of_parameters
from attnprobe.statistics.statistic import Statistic
from attnprobe.sums.constant import Constant
from attnprobe.sums.measurement import Measurement
from attnprobe.survey.original import in_place
from attnprobe.table.naming import listed


def constants(
    checkpoint: Checkpoint, architecture: Architecture, statistics: Sequence[Statistic]
) -> Mapping[str, Constant]:
    """Ask the statistics that are about weights, (layer, head); NaN where the weights can't be told.

    Args:
        checkpoint: Which model is asked.
        architecture: What the dry run found.
        statistics: What is measured; those that are about texts are left out.
    """
    asking = [statistic for statistic in statistics if statistic.scope == "parameters"]
    if not asking:
        return {}
    found = {one.name: np.full((architecture.layers, architecture.heads), np.nan) for one in asking}
    for layer, parameters in enumerate(find_head_parameters(checkpoint, architecture)):
        if isinstance(parameters, str):
            continue
        for statistic in asking:
            values = asked_of_parameters(statistic, parameters)[None].double()
            if architecture.removed:
                standing = np.flatnonzero(architecture.standing[layer]).tolist()
                present = architecture.present[layer]
                values = in_place(values, "head", present, standing, architecture.heads)
            found[statistic.name][layer] = values[0].cpu().numpy()
    return {name: Constant.of(values) for name, values in found.items()}


def reasons(
    checkpoint: Checkpoint,
    architecture: Architecture,
    statistics: Sequence[Statistic],
    measurement: Measurement,
) -> list[str]:
    """Say why statistics about weights are empty, if they are: a sentence for each reason."""
    asked = [statistic.name for statistic in statistics if statistic.scope == "parameters"]
    empty = [name for name in asked if np.isnan(measurement.sums[name].average).any()]
    if not empty:
        return []
    layers: dict[str, list[int]] = {}
    for layer, parameters in enumerate(find_head_parameters(checkpoint, architecture)):
        if isinstance(parameters, str):
            layers.setdefault(parameters, []).append(layer)
    return [
        f"{listed(empty)} {'is' if len(empty) == 1 else 'are'} empty for {_spelled(architecture, some)}: "
        f"{reason}."
        for reason, some in layers.items()
    ]


def _spelled(architecture: Architecture, layers: Sequence[int]) -> str:
    if len(layers) == architecture.layers:
        return "all layers"
    return listed([str(architecture.places[layer]) for layer in layers])
