"""The commands over several checkpoints: compare for two of them, dynamics for those of a training run."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Unpack

from attnprobe.commands.census import census, mixing, rank
from attnprobe.commands.intervene import importance, prune
from attnprobe.errors import AttnprobeError, UsageError
from attnprobe.options import (
    FrequencyOptions,
    LabelsArgument,
    LayerOptions,
    MetricOptions,
    ModelOptions,
    ResumeOptions,
    TableOutput,
    TargetOptions,
    TaskOptions,
    TextOptions,
    TextsArgument,
    TokenOptions,
    WeightOptions,
    model_option,
    output_option,
)
from attnprobe.registry import Option, command, split_names
from attnprobe.run.options import record_versions
from attnprobe.session.session import (
    check_labels,
    describe_call,
    open_call,
    parse_layers,
    read_first,
    read_task,
)
from attnprobe.session.texts import check_standard_input, open_to_replay, replay

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from attnprobe.corpus.tokenizer import Tokenizer
    from attnprobe.model.checkpoint import Checkpoint
    from attnprobe.table.table import HeadTable

#: What dynamics can follow: the command, and which of its options others have not.
MEASURES: dict[str, tuple[Any, set[str]]] = {
    "importance": (importance, {"method", "objective", "force_head", "content_only"}),
    "prune": (prune, {"objective", "force_head", "metric", "prune_by", "prune_step", "random_orders"}),
    "census": (census, {"weights", "layers", "content_only", "frequencies"}),
    "rank": (rank, {"layers", "content_only", "frequencies"}),
    "mixing": (mixing, {"layers", "content_only", "frequencies"}),
}
#: What options of prune are called in dynamics.
_RENAMED = {"prune_by": "by", "prune_step": "step"}

Revisions = Annotated[
    str | Sequence[str] | None,
    model_option("Revisions of the one MODEL: step1000,step2000.", metavar="NAME,NAME"),
]


class SeveralOptions(
    ModelOptions, TextOptions, FrequencyOptions, TokenOptions, WeightOptions, LayerOptions, total=False
):
    """A survey of several checkpoints."""


class CompareOptions(SeveralOptions, TargetOptions, ResumeOptions, total=False):
    """A survey of two."""


class DynamicsOptions(SeveralOptions, TaskOptions, MetricOptions, ResumeOptions, total=False):
    """What the measures of a training run are asked with."""


@command(TableOutput)
def compare(
    model: Annotated[
        "Sequence[str | Path | PreTrainedModel] | str | Path",
        Option(
            "Two checkpoints: folders or hub ids; or one hub id with --revisions.",
            doc="Two checkpoints, each a folder, a hub id or a loaded model; or one hub id with revisions.",
            metavar="MODEL...",
            line=list[str],
            argument=True,
        ),
    ],
    texts: TextsArgument = None,
    *,
    revisions: Revisions = None,
    measure: Annotated[
        str, Option("census, or some of its columns and families: entropy,previous.")
    ] = "census",
    match: Annotated[
        Literal["layer", "model", "outputs", "outputs-layer"] | None,
        Option(
            "Match heads one to one: by attention within a layer or over the model, or by outputs or "
            "outputs-layer.",
            metavar="HOW",
            doc='Match heads one to one: within "layer" or over "model" by the least total divergence, by '
            'their "outputs" or "outputs-layer" by the largest total CKA; columns in _b are of the match.',
        ),
    ] = None,
    nearest: Annotated[bool, Option("Find each head's nearest head; --no-nearest is quicker.")] = True,
    tokenizers: Annotated[
        "Sequence[Tokenizer] | None", Option(doc="The tokenizer of each loaded model.")
    ] = None,
    **options: Unpack[CompareOptions],
) -> "HeadTable":
    """What did fine-tuning change in the heads?

    Both models read the same batches once. Models with different tokenizers are compared word by word.
    Between models of different shapes, columns in _b are about each head's nearest head.

    Columns:
      jsd              divergence of the two heads with the same number, query by
                       query, 0 to 0.693 nats
      nearest_layer, nearest_head, jsd_nearest
                       the head of the second model with the least divergence
      matched_layer, matched_head, jsd_matched, cka_matched
                       with --match: the partner, one to one
      cka              with --match outputs: similarity of what they output, 0 to
                       1: linear CKA (Kornblith et al. 2019)
      NAME_a, NAME_b   means of both models, for each column of the census
      NAME_delta       b less a, with NAME_delta_se, paired by document
      NAME_p_adjusted  of no difference (paired t), Holm over heads

    Examples:
      attnprobe compare bert-base-uncased my-bert -d corpus.txt -o changes.csv
      attnprobe compare seed-1 seed-2 --match outputs -d corpus.txt
      attnprobe compare my-org/my-model --revisions step1000,step2000
      attnprobe compare demo demo -L 20

    References:
        Lin (1991), Divergence measures based on the Shannon entropy; Kornblith, Norouzi, Lee and Hinton
        (2019), Similarity of neural network representations revisited.

    >>> table = compare(["demo", "demo"], ["The parcel came late.", "It rained."], measure="entropy")
    >>> list(table.data)[:7]
    ['model', 'dataset', 'model_b', 'layer', 'head', 'n', 'jsd']
    >>> float(table["jsd"].max()), float(table["entropy_delta"].max())
    (0.0, 0.0)
    """
    if match in {"layer", "model"} and not nearest:
        raise UsageError("Matching by maps needs the divergence of all pairs; leave out --no-nearest.")
    pair = _name_pair(model, revisions, options["revision"])
    if tokenizers is not None and len(tokenizers) != 2:
        raise UsageError(f"There are 2 models, but {len(tokenizers)} tokenizers.")
    check_standard_input(texts)
    layers = parse_layers(options["layers"])
    within: Any = {"outputs": "model", "outputs-layer": "layer"}.get(match or "", match)
    models, known = [one for one, _ in pair], tokenizers or [None, None]
    with open_call(options, *models, tokenizers=known) as call:
        texts, source = open_to_replay(replay(texts), options)
        source = read_first(source)
        from attnprobe.findings.comparison import tabulate_heads
        from attnprobe.statistics.registry import choose
        from attnprobe.statistics.statistic import apply_weights
        from attnprobe.survey.checks import check_layers, keep_layers
        from attnprobe.survey.comparison import compare_checkpoints

        names = None if measure == "census" else split_names(measure)
        statistics = apply_weights(choose(names), options["weights"])
        checkpoints = []
        for (chosen, revision), tokenizer in zip(pair, known, strict=True):
            given = {**call.options, "tokenizer": tokenizer, "revision": revision}
            checkpoint = replace(call, model=chosen, options=given).load_checkpoint(modality=source.kind)
            if revision is not None and revision != call.options["revision"]:
                checkpoint = replace(checkpoint, name=f"{checkpoint.name}@{revision}")
            checkpoints.append(checkpoint)

        def reopen() -> Iterator[Any]:  # only where the second checkpoint has other tokens
            yield from open_to_replay(texts, options)[1].documents

        comparison = compare_checkpoints(
            _tell_apart(checkpoints[0], checkpoints[1], models),
            (source.documents, reopen() if source.kind == "text" else source.documents),
            call.corpus,
            statistics,
            pairs=nearest,
            outputs=match in {"outputs", "outputs-layer"},
            match=within,
            dataset=source.name,
            facts={"command": describe_call("compare"), "dataset": source.described},
            labelled=options["label_column"] is not None,
            **call.run,
        )
        if layers is None:
            return tabulate_heads(comparison, within)
        check_layers(layers, (place.layer for place in comparison.labels.places), comparison.labels.model)
        return keep_layers(tabulate_heads(comparison, within), layers)


def _name_pair(
    models: Any, revisions: str | Sequence[str] | None, revision: str | None
) -> Sequence[tuple[Any, str | None]]:
    """List two checkpoints, each with its revision, or refuse more or fewer."""
    from attnprobe.session.checkpoints import pair_revisions, parse_revisions

    listed = [models] if isinstance(models, str | Path) or not isinstance(models, Sequence) else list(models)
    names = parse_revisions(revisions, revision)
    pair = [(one, revision) for one in listed] if names is None else [*pair_revisions(listed, names)]
    if len(pair) != 2:
        what = "checkpoints" if names is None else "--revisions"
        raise UsageError(f"compare takes two {what}, not {len(pair)}.")
    return pair


def _tell_apart(
    first: "Checkpoint", second: "Checkpoint", models: Sequence[Any]
) -> "tuple[Checkpoint, Checkpoint]":
    """Name folders that are called alike, such as checkpoints of two runs, by the folders they are in too."""
    folders = [Path(model).resolve() for model in models if isinstance(model, str | Path)]
    if first.name != second.name or len({*folders}) < 2 or not all(map(Path.is_dir, folders)):
        return first, second
    names = [os.path.relpath(folder, os.path.commonpath(folders)) for folder in folders]
    return replace(first, name=names[0]), replace(second, name=names[1])


@command(TableOutput)
def dynamics(
    model: Annotated[
        "str | Path | Sequence[str | Path]",
        Option(
            "Checkpoints of one training run: folders, 'run/checkpoint-*', or hub ids; or one with "
            "--revisions.",
            metavar="MODEL...",
            line=list[str],
            argument=True,
        ),
    ],
    texts: TextsArgument = None,
    labels: LabelsArgument = None,
    *,
    measure: Annotated[
        str,
        Option(
            "importance, prune, census, everything, rank, mixing, or columns and families: entropy,previous."
        ),
    ] = "importance",
    revisions: Revisions = None,
    steps: Annotated[
        str | Sequence[int] | None,
        model_option(
            "Step of each checkpoint. Default: from its name, such as checkpoint-500 or epoch-04.",
            metavar="0,500,1000",
            hidden=True,
        ),
    ] = None,
    by: Annotated[
        Literal["head", "step"],
        output_option(
            "head: a row for each step and head; step: how close the order of heads is to the last."
        ),
    ] = "head",
    method: Annotated[
        Literal["gradient", "ig", "lrp", "confidence"],
        Option("With --measure importance: its --method.", hidden=True),
    ] = "gradient",
    prune_by: Annotated[str, Option("With prune: its --by.", reads="order", hidden=True)] = "gradient",
    prune_step: Annotated[float, Option("With prune: its --step.", above=0, high=1, hidden=True)] = 0.1,
    random_orders: Annotated[int, Option("With prune: its --random-orders.", low=0, hidden=True)] = 19,
    **options: Unpack[DynamicsOptions],
) -> "HeadTable":
    """How do heads change over a training run?

    The table is that of the measure's own command, for each checkpoint. Checkpoints are loaded one
    after the other and share one tokenizer.

    Columns:
      step             the number after step, checkpoint or epoch in the name
      importance, ...  see the help of the measure's command
      spearman_last, kendall_last
                       with --by step: rank correlation with the last step
      spearman_previous, kendall_previous
                       with --by step: with the step before

    Examples:
      attnprobe dynamics 'my-run/checkpoint-*' -d dev.tsv -o dynamics.csv
      attnprobe dynamics 'run/checkpoint-*' -d dev.tsv --by step -o settling.csv
      attnprobe dynamics 'run/checkpoint-*' -d dev.tsv --measure prune
      attnprobe dynamics demo demo --steps 0,100 -L 20 --measure entropy

    References:
        Michel, Levy and Neubig (2019), Are sixteen heads really better than one?, section 6.

    >>> table = dynamics(["demo", "demo"], ["The parcel came late."], measure="entropy", steps=[0, 100])
    >>> list(table.data)[:6]
    ['model', 'dataset', 'step', 'layer', 'head', 'n']
    >>> sorted(set(table["step"].tolist()))
    [0, 100]
    """
    from attnprobe.findings.dynamics import check_alike, record_step, stack_steps, tabulate_orders
    from attnprobe.intervention.request import Criterion
    from attnprobe.session.checkpoints import list_run, measure_steps, parse_revisions

    if measure == "prune" and by == "step":
        raise UsageError("--by step is about an order of heads, and pruning curves have none; leave it out.")
    models = [model] if isinstance(model, str | Path) else model
    run = list_run(models, parse_revisions(revisions, options["revision"]), steps)
    check_standard_input(texts)
    texts, labels = replay(texts), replay(labels)
    given: dict[str, Any] = {"method": method, "prune_by": prune_by, "prune_step": prune_step}
    given |= {"random_orders": random_orders, **options}
    with open_call(options, *(saved.model for saved in run)) as call:
        call.progress.stage("looking at the checkpoints", None)
        name, more = _find_measure(measure)
        function, taken = MEASURES[name]
        special = set().union(*(names for _, names in MEASURES.values())) - taken
        _check_unused(special, measure, given)
        parse_layers(options["layers"])
        Criterion.parse(prune_by)
        labelled = name in {"importance", "prune"}
        if labels is not None and not labelled:
            raise UsageError(f"labels are for importance and prune; {measure} reads none.")
        texts, source = open_to_replay(texts, options, labels, find_labels=labelled)
        check_labels(source, read_task(options, labels)) if labelled else read_first(source)
        keywords = {_RENAMED.get(one, one): given[one] for one in given.keys() - special} | more

        from attnprobe.model.locate import find_run

        checkpoints = find_run([(saved.model, saved.revision) for saved in run], call.load)

        def measure_step(model: str, more: dict[str, Any]) -> "HeadTable":
            return function(model, texts, *([labels] if labelled else []), **keywords | more)

        tables = measure_steps(run, checkpoints, measure_step, call, check_alike)
    record = {
        "command": describe_call("dynamics"),
        "dataset": source.described,
        "measure": measure,
        "steps": [
            record_step(saved.step, table, saved.model, saved.revision)
            for saved, table in zip(run, tables, strict=True)
        ],
        **record_versions(),
    }
    measured = [(saved.step, table) for saved, table in zip(run, tables, strict=True)]
    orders = partial(tabulate_orders, measured, record)
    if by == "step":
        return orders()
    return replace(stack_steps(measured, record), below=None if name == "prune" else orders)


def _find_measure(name: str) -> tuple[str, dict[str, Any]]:
    """Find which of ``MEASURES`` measures a column or family, and with what keywords, or refuse it."""
    if name in MEASURES:
        return name, {}
    if name == "everything":
        return "census", {"everything": True}
    from attnprobe.statistics.registry import choose  # takes torch

    try:
        choose(split_names(name))
    except AttnprobeError as error:
        others = ", ".join([*MEASURES, "everything"])
        raise UsageError(f"{error} Beside these, --measure takes {others}.") from error
    return "census", {"statistics": split_names(name)}


def _check_unused(special: set[str], measure: str, given: dict[str, Any]) -> None:
    """Refuse options that other measures alone have."""
    known = dynamics.command.keywords  # type: ignore[attr-defined]
    for option in sorted(special):
        if given[option] and given[option] != known[option].default:
            owners = ", ".join(owner for owner, (_, names) in MEASURES.items() if option in names)
            flag = known[option].flags[0]
            raise UsageError(f"{flag} is for --measure {owners}; leave it out for {measure}.")
