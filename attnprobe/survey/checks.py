"""Statistics that a model, a modality or a text does not give are left out, refused or noted."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch

from attnprobe.attention.kinds import UNEMBEDDING
from attnprobe.corpus.media import BOTH
from attnprobe.corpus.tokenizer import RARE_SHARE, Rarity
from attnprobe.errors import ModelError, UsageError
from attnprobe.model.check.architecture import Architecture
from attnprobe.model.check.observed import UnobservableError, check_observations
from attnprobe.model.check.projections import find_head_parameters
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.statistics.statistic import Statistic, peak
from attnprobe.table.naming import join_names
from attnprobe.table.table import HeadTable


def check_modality(checkpoint: Checkpoint, statistics: Sequence[Statistic]) -> None:
    """Refuse statistics of text where none is read, and those of images with text where either is alone."""
    named = next((one.family.name for one in statistics if one.about == "modalities"), None)
    if checkpoint.modality != BOTH and named is not None:
        raise UsageError(
            f"{named} is about images with texts; give data with a column of images "
            "(--image-column), and a model that reads both."
        )
    if checkpoint.modality == "text":
        return
    if any(statistic.scope == "links" for statistic in statistics):
        raise UsageError("Gold links lie between words of text; images and sound have none.")
    if checkpoint.modality != BOTH and all(statistic.by_corpus for statistic in statistics):
        raise UsageError("What is rare is counted in text; images and sound have no rare tokens.")
    if any(statistic.control for statistic in statistics):
        raise UsageError("--control shuffles the tokens of texts; of images and sound, leave it out.")


def drop_impossible(statistics: Sequence[Statistic], architecture: Architecture) -> list[Statistic]:
    """List statistics, of patches only with a grid; refuse an empty list, or pairs across unlike layers."""
    possible = [one for one in statistics if one.about != "patches" or architecture.grid is not None]
    if not possible:
        raise UsageError(f"{statistics[0].name} is about images, in which patches lie in rows.")
    if architecture.layer_heads and any(one.scope == "model" for one in possible):
        raise ModelError(
            f"{architecture.model_type} has maps of other tokens in other layers, so that heads of different "
            "layers can't be compared; leave out --all-pairs."
        )
    return possible


def drop_counted(wanted: Sequence[list[Statistic]]) -> list[str]:
    """Take what counts over a whole corpus out of ``wanted``, and give a note; refuse if nothing is left."""
    names = [one.name for statistics in wanted for one in statistics if one.by_corpus]
    if not names:
        return []
    if len(names) == sum(map(len, wanted)):
        raise UsageError("What is rare is counted over the whole text; leave out --until.")
    for statistics in wanted:
        statistics[:] = [one for one in statistics if not one.by_corpus]
    are = "is" if len(names) == 1 else "are"
    return [f"{join_names(names)} {are} left out: what is rare is counted over the whole text."]


def verify_needs(
    checkpoint: Checkpoint, architecture: Architecture, wanted: Sequence[list[Statistic]], *, refuse: bool
) -> tuple[list[str], list[str]]:
    """Verify that what the statistics of each corpus need can be had.

    Where not, ``refuse`` the first that needs more, or take those out of ``wanted``.

    Returns:
        What was verified, and what was left out.
    """
    left_out: list[str] = []
    while True:
        every = [one for statistics in wanted for one in statistics]
        try:
            needs = frozenset[str]().union(*(one.needs for one in every))
            return check_observations(checkpoint, architecture, needs - {UNEMBEDDING}), left_out
        except UnobservableError as error:
            asking = [one for one in every if error.name in one.needs]
            if refuse or len(asking) == len(every):
                instead = " Leave out --weights." if any(one.of is not None for one in asking) else ""
                raise ModelError(
                    f"The statistic {asking[0].name!r} can't be measured: {error}{instead}"
                ) from error
            left_out.append(f"{join_names([one.name for one in asking])} could not be measured: {error}")
            for statistics in wanted:
                statistics[:] = [one for one in statistics if one not in asking]


def check_layers(layers: Sequence[int], known: Iterable[int], name: str) -> None:
    there = set(known)
    if beyond := [layer for layer in layers if layer not in there]:
        raise UsageError(f"{name} has layers 0 to {max(there)}, and no layer {beyond[0]}.")


def keep_layers(table: HeadTable, layers: Sequence[int]) -> HeadTable:
    """Keep the rows of these layers, of pairs those with both layers among them; a note says so."""
    columns = [table.data[name] for name in ("layer", "layer_a", "layer_b") if name in table.data]
    kept = [row for row, places in enumerate(zip(*columns, strict=True)) if set(places) <= set(layers)]
    data = {name: [cells[row] for row in kept] for name, cells in table.data.items()}
    listed = f"layer{'s' if len(layers) > 1 else ''} {', '.join(map(str, layers))}"
    note = f"Only rows of {listed} are shown; all layers were measured."
    return replace(table, data=data, notes=[*table.notes, note])


def write_notes(statistics: Sequence[Statistic], rarity: Rarity | None, dtype: torch.dtype) -> list[str]:
    """Write notes: too little text for columns on rare tokens, half precision for the most attended key."""
    notes: list[str] = []
    once = None if rarity is None else rarity.once
    if any(one.by_corpus for one in statistics) and once is not None:
        notes.append(
            f"The text is too small to say what is rare: {once:.0%} of its tokens are of types that "
            f"occur once. The columns on rare tokens mean something where that is below {RARE_SHARE:.0%}; "
            "read more text, or give a file of frequencies."
        )
    # Weights by norm tie less than probabilities do.
    peaks = [one.name for one in statistics if one.function is peak and one.weights == "attention"]
    if peaks and dtype.itemsize < torch.float32.itemsize:
        notes.append(
            f"In {str(dtype).removeprefix('torch.')}, the keys of a query tie more often, and the first of a "
            f"tie counts as the most attended. That moves {join_names(peaks)} towards the first tokens; "
            "float32 avoids it."
        )
    return notes


def explain_empty(
    checkpoint: Checkpoint, architecture: Architecture, statistics: Sequence[Statistic]
) -> list[str]:
    """Say why statistics about weights are empty, if they are: a sentence for each reason."""
    names = [one.name for one in statistics if one.scope == "parameters"]
    if not names:
        return []
    told = find_head_parameters(checkpoint, architecture)
    reasons = Counter(reason for reason in told if isinstance(reason, str))
    empty = f"{join_names(names)} {'is' if len(names) == 1 else 'are'} empty"
    layers = architecture.layers
    return [f"{empty} in {number} of {layers} layers: {reason}." for reason, number in reasons.items()]
