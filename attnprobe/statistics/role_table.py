"""The table of ``roles``: what each head does, by its evidence and by gold links, and how sure that is."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from attnprobe.statistics import links
from attnprobe.statistics.best_heads import answer_by_rules
from attnprobe.statistics.links import FEWEST
from attnprobe.statistics.role_evidence import (
    Heads,
    Role,
    decide_roles,
    name_patterns,
)
from attnprobe.statistics.roles import FAMILY, THRESHOLDS
from attnprobe.statistics.rules import ALL, Asking
from attnprobe.statistics.statistic import Statistic
from attnprobe.statistics.tabulation import Tabulation
from attnprobe.sums.base import Measurement
from attnprobe.sums.inference import CONFIDENCE, half_width, sign_flip
from attnprobe.sums.tally import Tally
from attnprobe.table.builder import FEW_DOCUMENTS, Labels, TableBuilder
from attnprobe.table.head_table import HeadTable
from attnprobe.table.naming import MIXED
from attnprobe.table.table import Column

Floats = NDArray[np.float64]


def find_known_relations(tally: Tally, asking: Asking, name: str, gain: float) -> list[list[Role]]:
    """Give the relations of which each head finds more than the best simple rule, head by head.

    The rule is the one that finds most links over all documents, as in ``syntax``, and errors are over blocks
    of documents. The interval of the difference has to lie beyond ``gain`` (Student's t), for all heads and
    relations together with 95 % (Bonferroni), and the difference has to be above 0 by signs over blocks
    (``sign_flip``). Relations of fewer than 20 links are not tried. Links of which none has a label are tried
    together. The role with the largest gain comes first; its name is ``name`` and the relation.

    References:
        Voita et al. (2019), section 5.2.
    """
    layers, heads = tally.products.shape[1:]
    listed = list(_list_asked(tally, asking))
    tail = (1 - CONFIDENCE) / 2 / max(1, len(listed) * heads)
    found: list[tuple[float, int, Role]] = []
    for place, layer, label, measure in listed:
        asked = tally.blocks.asked[place, tally.kinds[layer]].astype(np.float64)
        blocks = int((asked > 0).sum())
        if blocks < 2:
            continue
        rules = answer_by_rules(tally, place, layer)
        tried = [*range(len(asking.rules[: asking.least])), len(asking.rules)]
        rule = tried[asking.best_rule(rules[tried].sum(-1))]
        hits = tally.blocks.hits[place, layer].astype(np.float64)
        accuracy, spread = _find_share(hits, asked, blocks)
        ahead, error = _find_share(hits - rules[rule], asked, blocks)
        low = ahead - half_width(error, blocks, max(1, len(listed)) * heads)
        for head in np.flatnonzero(low >= gain).tolist():
            if sign_flip(hits[head] - rules[rule]) > tail:
                continue
            numbers = accuracy[head], spread[head], accuracy[head] - ahead[head] + gain
            role = Role(f"{name}: {label}", measure, *map(float, numbers))
            found.append((float(ahead[head]), layer * heads + head, role))
    # Of a relation from either end, or at either position, a head keeps the one with the largest gain.
    roles: list[dict[str, Role]] = [{} for _ in range(layers * heads)]
    for _, head, role in sorted(found, key=lambda one: -one[0]):
        roles[head].setdefault(role.name, role)
    return [list(held.values()) for held in roles]


def _find_share(right: Floats, asked: Floats, blocks: int) -> tuple[Floats, Floats]:
    """Give the share of links, and its error over blocks (head, block), as a ratio's (``Tally.accuracy``)."""
    share = right.sum(-1) / asked.sum()
    squares = np.square(right - share[:, None] * asked).sum(-1)
    return share, np.sqrt(squares * blocks / (blocks - 1)) / asked.sum()


def _list_asked(tally: Tally, asking: Asking) -> Iterator[tuple[int, int, str, str]]:
    """List what there are enough links of: key, layer, the label, and how it is called as a measure."""
    only_all, numbers = all(label == ALL for label, *_ in tally.near), tally.asked
    for place, (label, direction, *position) in enumerate(tally.near):
        if label == ALL and not only_all:
            continue
        asked_as = [*([direction.replace("_", " ")] if asking.backward else []), *position]
        measure = ", ".join(["accuracy", *asked_as])
        for layer, number in enumerate(numbers[place].tolist()):
            if number >= FEWEST:
                yield place, layer, label, measure


def role_table(
    title: str, measurement: Measurement, statistics: Sequence[Statistic], labels: Labels
) -> HeadTable:
    """Tabulate the role of each head with its evidence, and its other roles."""
    layers = len(labels.places)
    name = next(statistic.name for statistic in statistics if statistic.rows == "head")
    heads = measurement.sums[name].count.shape[1]
    every = _collect_heads(measurement, statistics, labels, layers * heads)
    asked = labels.provenance.get("asked", {})
    thresholds = THRESHOLDS | dict(asked.get("thresholds", {}))
    corpus = labels.provenance.get("corpus", {})
    # Where types tie that occur once, the text can't say which of them are rare.
    decided = bool(corpus.get("rare_decided", True))
    found: list[list[Role]] = [[] for _ in range(layers * heads)]
    for what, asking, threshold, name in (
        (links.SYNTAX, links.ASKING_SYNTAX, "syntactic", "syntactic"),
        (links.COREFERENCE, links.ASKING_COREFERENCE, "coreference", "coreference"),
        (links.LINKED, links.ASKING_LINKS, "links", str(asked.get("links", "links"))),
    ):
        if what.name in measurement.sums:
            more = find_known_relations(measurement.sums[what.name], asking, name, thresholds[threshold])
            found = [[*one, *another] for one, another in zip(found, more, strict=True)]
    roles = decide_roles(every, thresholds, found, rare=decided)

    build = TableBuilder(labels, layers * heads)
    build.heads(heads)
    first = [held[0] if held else Role(MIXED, "", np.nan, np.nan, np.nan) for held in roles]
    build.add(Column("role", role="text"), [role.name for role in first])
    build.add(Column("measure", role="text"), [role.measure or None for role in first])
    value, error = (np.array([getattr(role, name) for role in first], float) for name in ("value", "error"))
    build.measure("value", "", value, error, title="value of the measure")
    build.add(Column("threshold", title="threshold of the role"), [role.threshold for role in first])
    also = ["; ".join(role.name for role in held[1:]) or None for held in roles]
    build.add(Column("also", role="text"), also)
    build.add(Column("pattern", role="text"), name_patterns(every, thresholds))

    notes = list(_note_few(corpus.get("clusters", FEW_DOCUMENTS)))
    return build.table(title, notes, "roles")


def _collect_heads(
    measurement: Measurement, statistics: Sequence[Statistic], labels: Labels, number: int
) -> Heads:
    """Give what was measured of all heads, and of how many documents."""
    build, documents = TableBuilder(labels, number), dict[str, float]()
    for one in statistics:
        if one.rows == "head":
            found, before = measurement.sums[one.name], set(build.data)
            one.columns(one, found, build)
            documents |= dict.fromkeys(build.data.keys() - before, float(found.documents or 0))
    return Heads(build.data, number, documents)


def _note_few(documents: int) -> Iterator[str]:
    """Say that documents are few, of which nothing can be told but what is very clear."""
    if documents < FEW_DOCUMENTS:
        yield (
            f"Only {documents} {'document' if documents == 1 else 'documents'}: intervals are wide, and few "
            "heads have a role for sure."
        )


ROLES = Tabulation("role", role_table, FAMILY.title)
