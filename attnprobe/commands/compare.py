"""The command that compares the heads of two checkpoints."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from attnprobe.commands.output import Output
from attnprobe.commands.registry import Rule, command
from attnprobe.option import Option
from attnprobe.options import MODEL, TASK, TEXTS, Labels, Layers, Model, Resume, Task, Weights

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from transformers import PreTrainedModel

    from attnprobe.commands.call.texts import Texts
    from attnprobe.corpus.sources.document import Label
    from attnprobe.corpus.tokenization import Tokenizer
    from attnprobe.table.head_table import HeadTable

#: Options that ``dynamics`` has too.
Keep = Annotated[
    bool,
    Option(
        "Keep what is downloaded, or drop each checkpoint when it is measured; what was there before stays.",
        panel=MODEL,
    ),
]
Method = Annotated[
    Literal["gradient", "lrp", "confidence"],
    Option("With --measure importance: as for `attnprobe importance`.", panel=TASK),
]
_ONE_BY_ONE = (("match", "--match"), ("nearest", "--no-nearest"), ("by=layer", "--by layer"))
_RULES = (
    *(
        Rule(f"--spread has one row a column; leave out {flag}.", given=("spread", name))
        for name, flag in (*_ONE_BY_ONE, ("layers", "--layers"))
    ),
    *(
        Rule(
            f"--measure importance is about heads of one number; leave out {flag}.",
            given=("measure=importance", name),
        )
        for name, flag in _ONE_BY_ONE
    ),
    *(
        Rule(
            f"--{name} is about attention weights; leave it out for importance.",
            given=("measure=importance", name),
        )
        for name in ("weights", "frequencies")
    ),
    *(
        Rule(
            f"--{name.replace('_', '-')} is for --measure importance; leave it out.",
            given=(name, "not measure=importance"),
        )
        for name in ("objective", "force_head", "method")
    ),
    Rule(
        "--seed is for --sample and for --measure importance; leave it out.",
        given=("seed", "not measure=importance"),
        lacks=("sample",),
    ),
    Rule(
        "tokenizers go with loaded models; checkpoints that are named have their own.",
        given=("tokenizers",),
        beside=("spread", "measure=importance"),
    ),
    Rule(
        "Matching needs the divergence of all pairs of heads; leave out --no-nearest.",
        given=("match", "nearest"),
    ),
    Rule("Heads are matched one by one; leave out --by layer, or --match.", given=("match", "by=layer")),
)


@command(
    Model,
    *TEXTS,
    Labels,
    Task,
    Weights,
    Layers,
    Resume,
    Output,
    rules=_RULES,
    guesses=("diff", "difference", "versus"),
)
def compare(
    model: Annotated[
        "Sequence[str | Path | PreTrainedModel] | str | Path",
        Option(
            "Two checkpoints: folders or hub ids; or one hub id with --revisions. With --spread, two or "
            "more, and patterns of folders such as 'seed-*'.",
            doc="Two checkpoints, each a folder, a hub id or a loaded model; or one hub id with revisions. "
            'With measure="importance" or spread, names only, two or more, and patterns of folders too.',
            metavar="MODEL...",
            line=list[str],
            argument=True,
        ),
    ],
    texts: "Texts" = None,
    labels: "Iterable[Label] | None" = None,
    *,
    revisions: Annotated[
        str | Sequence[str] | None,
        Option("Revisions of the one MODEL.", metavar="NAME,NAME", line=str | None, panel=MODEL),
    ] = None,
    measure: Annotated[
        str,
        Option(
            "What is compared: census for all of its columns, some columns and families (entropy,previous), "
            "or importance.",
            metavar="NAME",
        ),
    ] = "census",
    by: Annotated[
        Literal["head", "layer"], Option("Give one row for each head of the first model, or for each layer.")
    ] = "head",
    match: Annotated[
        Literal["layer", "model"] | None,
        Option(
            "Assign heads to heads one to one, with the least total divergence: within layers of one "
            "number, or over the model.",
            doc='Assign heads to heads one to one, with the least total divergence: "layer" within layers '
            'of one number, "model" over the model. Columns matched_layer, matched_head, jsd_matched; '
            "columns that end in _b are then about the matched head.",
        ),
    ] = None,
    nearest: Annotated[
        bool,
        Option(
            "Look for the nearest head among all of the second model, or compare heads of one number only, "
            "which is quicker."
        ),
    ] = True,
    spread: Annotated[
        bool,
        Option(
            "Say instead where columns vary over two checkpoints or more, such as those of several seeds: "
            "between layers, heads, checkpoints, texts."
        ),
    ] = False,
    keep: Keep = True,
    method: Method = "gradient",
    tokenizers: Annotated[
        "Sequence[Tokenizer] | None", Option(doc="Those of loaded models, one for each.")
    ] = None,
    **options: Any,
) -> "HeadTable":
    """Compare the heads of two checkpoints: what did fine-tuning change?

    [bold]jsd[/bold]: how differently heads of one number attend, 0 to ln 2 = 0.693 nats;
    [bold]nearest_layer, nearest_head, jsd_nearest[/bold]: the head of the second model that attends most
    alike. For each column NAME of the census: [bold]NAME_a, NAME_b[/bold], the means of both models;
    [bold]NAME_delta[/bold] = b - a with [bold]NAME_delta_se[/bold], paired by document;
    [bold]NAME_p_adjusted[/bold], that they do not differ, after Holm's correction over heads.

    Both models read the same batches, each once. Models with different tokenizers are compared word by word;
    models of different shapes head by nearest head.

    With [bold]--measure importance[/bold]: how much heads of one number matter in both,
    [bold]importance_a, importance_b, importance_delta[/bold]. Checkpoints of different tasks are asked for
    what both can be asked.

    With [bold]--spread[/bold]: one row for each column, with [bold]sd[/bold], the standard deviation of one
    value (a head, in a checkpoint, over a text), and the shares of its variance that lie between
    [bold]layers, heads[/bold] of a layer, [bold]seeds[/bold] (checkpoints) and [bold]texts[/bold], and in
    their interactions, such as [bold]heads_by_seed[/bold] (Searle et al. 1992). Checkpoints are loaded one
    after the other; --resume keeps those that are done.

    Examples:
      attnprobe compare bert-base-uncased my-bert -d corpus.txt -o changes.csv

      attnprobe compare seed-1 seed-2 --match layer --measure entropy,previous

      attnprobe compare my-org/my-model --revisions step1000,step2000 --by layer

      attnprobe compare gpt2 my-gpt2 -d corpus.txt --measure importance

      attnprobe compare 'my-seeds/*' --spread -d corpus.txt -o spread.csv

      attnprobe compare demo demo -L 20

    Notes:
        ``jsd`` is taken query by query. Where the models have other numbers of layers or heads, columns
        ``_b`` are about the nearest head. Without ``measure="importance"``, ``labels`` are the target texts
        that the decoders of encoder-decoder models read, by default the texts themselves. With ``spread``,
        estimates of a variance below 0 count as 0.

    Returns:
        One row for each head, or layer, of the first model, or for each column.

    References:
        Lin (1991), Divergence measures based on the Shannon entropy; Tukey (1958), Bias and confidence in not
        quite large samples; Kuhn (1955), The Hungarian method for the assignment problem; Searle, Casella and
        McCulloch (1992), Variance components.

    >>> table = compare(["demo", "demo"], ["The parcel came late.", "It rained."], measure="entropy")
    >>> list(table.data)[:7]
    ['model', 'dataset', 'model_b', 'layer', 'head', 'n', 'jsd']
    >>> float(table["jsd"].max()), float(table["entropy_delta"].max())
    (0.0, 0.0)
    """
    from attnprobe.commands.call.comparing import compare as run

    asked = {"revisions": revisions, "measure": measure, "by": by, "match": match, "nearest": nearest}
    asked |= {"spread": spread, "keep": keep, "method": method, "tokenizers": tokenizers}
    return run(model, texts, labels, **asked, **options)
