"""The importance of every head as a table."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from attnprobe.corpus.source import OpenSource
from attnprobe.findings.noise import block_record
from attnprobe.findings.sides import TableSide
from attnprobe.intervention.ablation import tabulate_ablation
from attnprobe.intervention.gradient import NODES, Attributions, attribute
from attnprobe.intervention.objectives.embeddings import RelatedTexts, Representation
from attnprobe.intervention.request import Measure, Method, find_shared_gold, peek
from attnprobe.intervention.task import TaskData, TaskSession
from attnprobe.sums.inference import Estimate
from attnprobe.table.builder import Labels, TableBuilder
from attnprobe.table.table import HeadTable

#: The column of each method by which heads of two tables are compared.
SIZES = {"gradient": "importance", "confidence": "importance", "ig": "ig_abs", "lrp": "relevance_abs"}


def run_importance(session: TaskSession, method: Method, nodes: int = NODES) -> HeadTable:
    """Measure how much every head matters for a task, one row a head.

    References:
        Michel, Levy and Neubig (2019), section 4.1; Voita et al. (2019), section 4.
    """
    with session.open_task("importance", {"--method": method}, methods=[method]) as data:
        return tabulate_task(data, method, nodes)


def tabulate_task(data: TaskData, method: Method, nodes: int = NODES) -> HeadTable:
    """Measure importance over the examples of a task, one row a head."""
    objective, labels = data.objective, data.labels()
    notes = []
    if method == "gradient" and isinstance(objective, RelatedTexts):
        notes.append(
            "Importance is the mean over texts, which n counts, of what the head does in each to the mean "
            "loss."
        )
    if method == "gradient" and isinstance(objective, Representation):
        notes.append(
            "The loss of representation has a random direction: its size has a meaning, the sign of "
            "gradient_signed has none."
        )
    if method == "lrp":
        notes.append(f"What is explained is z, {objective.explains}. {objective.positive}".rstrip())
    if method == "ig":
        labels = labels.with_record({"integrated": {"nodes": nodes}})
    return tabulate_attributions(attribute(data, method, nodes), objective.name, method, labels, notes)


def tabulate_attributions(
    sums: Attributions, objective: str, method: Method, labels: Labels, notes: Sequence[str] = ()
) -> HeadTable:
    """Tabulate the attributions of a method, one row a head."""
    size, signed = sums.size.estimate, sums.signed.estimate
    layers, heads = sums.size.count.shape
    labels = labels.with_record(block_record(SIZES[method], labels.places, sums.blocks, size.value))
    build = TableBuilder(labels, layers * heads)
    build.key("objective", [objective] * layers * heads)
    build.key("method", [method] * layers * heads)
    build.heads(heads)
    build.count("n", sums.size.count)

    def add(name: str, unit: str, estimate: Estimate, title: str, *, headline: bool = True) -> None:
        build.measure(name, unit, estimate.value, estimate.error, headline=headline, title=title)

    if method == "ig":
        add("ig", "loss", signed, "what a head adds to the loss")
        add("ig_abs", "loss", size, "size of that")
        return build.table("integrated gradients of heads", notes)
    if method == "lrp":
        add("relevance", "dz/dmask", signed, "relevance")
        add("relevance_abs", "|dz/dmask|", size, "size of relevance", headline=False)
        add("relevance_share", "share of layer", sums.share, "share of the layer's relevance")
        return build.table("relevance of heads", notes)
    add("importance", "share" if method == "confidence" else "|dL/dmask|", size, "importance")
    title = "importance within the layer"
    add("importance_normalized", "ratio to l2 norm of layer", sums.normalized, title)
    if method == "gradient":
        add("gradient_signed", "dL/dmask", signed, "derivative of the loss", headline=False)
        add("fisher", "(dL/dmask)^2", sums.squares.estimate, "Fisher information", headline=False)
    return build.table("importance of heads", notes)


def measure_sides(
    session: TaskSession, outside: OpenSource, measure: Measure
) -> tuple[tuple[TableSide, TableSide], dict[str, Any]]:
    """Measure every head on the texts of a session, in domain, and on others, out of domain.

    Returns:
        The columns of measures in and out of domain, and the record of both.
    """
    sessions = [replace(session, source=source, facts={}) for source in (session.source, outside)]
    peeked = [peek(side.source.documents) for side in sessions]
    labelled = find_shared_gold([gold for gold, _ in peeked])
    if any(gold for gold, _ in peeked) and not labelled:
        bare = next(side.source.name for side, (gold, _) in zip(sessions, peeked, strict=True) if not gold)
        session.progress.say(f"{bare} has no labels, so those of the other side are not used either.")
    model = session.choose(labelled, [measure])
    metric = session.find_metric(model) if measure == "ablation" else ""
    sides, records = [], []
    with session.open_run(model, "correlate", {"measure": measure, "metric": metric}) as run:
        for side, (_, documents), name in zip(sessions, peeked, ("in domain", "out of domain"), strict=True):
            with side.bind(model, documents, run, metric, name) as data:
                if measure == "ablation":
                    table = tabulate_ablation(data, session.build_metric(data))
                else:
                    table = tabulate_task(data, measure)
            sides.append(TableSide.from_table(table, side.source.name))
            records.append(data.record)
    shared = {key: value for key, value in records[0].items() if key != "corpus"}
    return (sides[0], sides[1]), shared | {"corpora": [record["corpus"] for record in records]}
