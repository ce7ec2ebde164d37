"""What a page of one sentence holds of examples: sentences where its head is most and least itself."""

from typing import TYPE_CHECKING, Any

import numpy as np

from attnprobe.corpus.sources.text import EMBEDDED
from attnprobe.reports.report_page.measures import format_number, is_number
from attnprobe.reports.view import describe_side, make_visible, pack_layer
from attnprobe.table.cells import clean

if TYPE_CHECKING:
    from attnprobe.statistics.statistic import Statistic
    from attnprobe.survey.examples import Example, Examples


def describe_examples(examples: "Examples", kinds: list[str]) -> dict[str, Any]:
    """Describe examples for ``examples.js``: the head, what the score is, and both ends, best first."""
    from attnprobe.survey.example_measures import explain_measure

    return {
        "kind": kinds.index(examples.kind.value), "layer": examples.layer, "head": examples.head,
        "note": _explain(examples, kinds), "bars": _explain_bars(examples.measure),
        "formula": explain_measure(examples.measure),
        "groups": [
            {"title": title, "items": [_describe(one) for one in some]}
            for title, some in (("most itself", examples.most), ("least itself", examples.least)) if some
        ],
    }  # fmt: skip


def _explain(examples: "Examples", kinds: list[str]) -> str:
    """Say what the sentences are sorted by, and how many there were."""
    from attnprobe.survey.example_measures import FEWEST, LONGEST, shows_role

    role = ""
    if examples.role is not None:
        shown = "" if shows_role(examples.role) else ", which plain text does not show"
        role = f" Its role is {clean(examples.role)}{shown}."
    where = clean(examples.dataset) or "the data"
    several = f"{examples.sentences:,} {'text' if examples.sentences == 1 else 'texts'} of {where}"
    if examples.dataset == EMBEDDED:
        several = f"{examples.sentences:,} of the sentences that ship with attnprobe"
    kind = f"{examples.kind.value} " if len(kinds) > 1 else ""
    return (
        f"These sentences are of {kind}layer {examples.layer}, head {examples.head} alone; to see those of "
        "another head, write the page again with --layer and --head. "
        f"Scores are {examples.measure.title}: {format_number(examples.mean)} on average over {several}, "
        f"those of {FEWEST} tokens or more. Of longer texts, the first {LONGEST} tokens are read.{role}"
    )


def _explain_bars(measure: "Statistic") -> str:
    """Say what the colours of a sentence are."""
    from attnprobe.survey.example_measures import SHARPNESS, find_offset

    if find_offset(measure) is not None:
        return f"its {measure.title}"
    named = {
        "special_excess": "its attention to special tokens",
        "first_token_excess": "its attention to the first token",
        SHARPNESS.name: "how sharp its own attention is",
    }
    return named.get(measure.name, "the most attention that it gives to one token")


def _describe(one: "Example") -> dict[str, Any]:
    """Describe a sentence: its tokens and map, how much attention each token gets, the strongest pair."""
    own = one.queries is one.keys
    plain = np.outer(~one.queries.special, ~one.keys.special)
    rows = np.where(plain, one.rows, -1) if plain.any() else one.rows
    query, key = np.unravel_index(int(rows.argmax()), rows.shape)
    return {
        "score": f"{one.score:.4f}", "place": one.place, "cut": one.cut,
        "sides": [describe_side(side) for side in ((one.keys,) if own else (one.queries, one.keys))],
        "size": list(one.rows.shape), "packed": pack_layer(one.rows),
        "values": [round(share, 3) if is_number(share) else None for share in one.values.tolist()],
        "strongest": [
            make_visible(one.queries.labels[query]), make_visible(one.keys.labels[key]),
            f"{one.rows[query, key]:.2f}",
        ],
    }  # fmt: skip
