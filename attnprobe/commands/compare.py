"""The commands that make one table of several checkpoints, data or tables: compare, correlate, merge."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from attnprobe.commands.output import Output
from attnprobe.commands.registry import Rule, command
from attnprobe.option import Option
from attnprobe.options import (
    MODEL,
    TASK,
    TEXTS,
    Batches,
    Hub,
    Labels,
    Layers,
    Metric,
    Model,
    Reading,
    Resume,
    Targets,
    Task,
    Weights,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from transformers import PreTrainedModel

    from attnprobe.commands.call.texts import Texts
    from attnprobe.corpus.sources.document import Label
    from attnprobe.corpus.tokenization import Tokenizer
    from attnprobe.statistics.statistic import Statistic
    from attnprobe.table.table import HeadTable

_RULES = (
    *(
        Rule(
            "Matching by maps needs the divergence of all pairs of heads; leave out --no-nearest.",
            given=(f"match={within}", "nearest"),
        )
        for within in ("layer", "model")
    ),
)


@command(
    Model,
    *TEXTS,
    Labels,
    Targets,
    Weights,
    Layers,
    Resume,
    Output,
    rules=_RULES,
)
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
            "What is compared: census for all of its columns, or some columns and families "
            "(entropy,previous).",
            metavar="NAME",
        ),
    ] = "census",
    match: Annotated[
        Literal["layer", "model", "outputs", "outputs-layer"] | None,
        Option(
            "Assign heads to heads one to one, with the least total divergence of their maps, within layers "
            "of one number or over the model; or by what they give, with the most total CKA of their "
            "outputs, over the model or (outputs-layer) within layers.",
            doc='Assign heads to heads one to one, with the least total divergence: "layer" within layers '
            'of one number, "model" over the model. "outputs" and "outputs-layer" match by what heads give, '
            "with the most total CKA. Columns matched_layer, matched_head, "
            "jsd_matched, cka_matched; columns that end in _b are then about the matched head.",
        ),
    ] = None,
    nearest: Annotated[
        bool,
        Option(
            "Look for the nearest head among all of the second model, or compare heads of one number only, "
            "which is quicker."
        ),
    ] = True,
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

    With [bold]--match outputs[/bold]: [bold]cka[/bold], how alike heads of one number give, 0 to 1, and
    [bold]matched_layer, matched_head, cka_matched[/bold], the partner by what heads give: linear CKA of
    their outputs over the same tokens (Kornblith et al. 2019). Heads may look alike and carry something else.

    Both models read the same batches, each once. Models with different tokenizers are compared word by word;
    models of different shapes head by nearest head.

    Examples:
      attnprobe compare bert-base-uncased my-bert -d corpus.txt -o changes.csv

      attnprobe compare seed-1 seed-2 --match outputs -d corpus.txt

      attnprobe compare my-org/my-model --revisions step1000,step2000

      attnprobe compare demo demo -L 20

    Notes:
        ``jsd`` is taken query by query. Where the models have other numbers of layers or heads, columns
        ``_b`` are about the nearest head. ``labels`` are the target texts that the decoders of
        encoder-decoder models read, by default the texts themselves.

    Returns:
        One row for each head of the first model.

    References:
        Lin (1991), Divergence measures based on the Shannon entropy; Kornblith, Norouzi, Lee and Hinton
        (2019), Similarity of neural network representations revisited.

    >>> table = compare(["demo", "demo"], ["The parcel came late.", "It rained."], measure="entropy")
    >>> list(table.data)[:7]
    ['model', 'dataset', 'model_b', 'layer', 'head', 'n', 'jsd']
    >>> float(table["jsd"].max()), float(table["entropy_delta"].max())
    (0.0, 0.0)
    """
    from attnprobe.commands.call.comparing import compare as run

    chosen = {"revisions": revisions, "measure": measure, "match": match, "nearest": nearest}
    return run(model, texts, labels, **chosen, tokenizers=tokenizers, **options)


@command(
    Model,
    Hub,
    Reading,
    Batches,
    Task,
    Metric,
    Resume,
    Output,
)
def correlate(
    in_domain: Annotated[
        "HeadTable | Texts",
        Option(
            "A table that importance or ablate wrote. With MODEL: data.",
            doc="A table of importance or ablate, or the path of one; with one model, texts.",
            metavar="TABLE|DATA",
            line=str | None,
            reads="side",
        ),
    ] = None,
    out_domain: Annotated[
        "HeadTable | Texts",
        Option("The same for the other side.", metavar="TABLE|DATA", line=str | None, reads="side"),
    ] = None,
    model: Annotated[
        "str | Path | PreTrainedModel | None",
        Option(
            "A hub id, a local folder, or [bold]demo[/bold]; none for tables.",
            doc="Measure both sides with this model first. None compares two tables.",
            metavar="MODEL",
            line=str | None,
            argument=True,
        ),
    ] = None,
    *,
    measure: Annotated[
        Literal["gradient", "ig", "lrp", "ablation"] | None,
        Option(
            "With MODEL: compare gradient importance, ig_abs, relevance_abs (lrp), or the score without the "
            "head. Default: gradient.",
            flags=("--measure", "--method"),
            panel=TASK,
        ),
    ] = None,
    column: Annotated[
        str | None,
        Option("With tables: compare this column. Default: importance, ig_abs, relevance_abs or score."),
    ] = None,
    across_models: Annotated[
        bool, Option("With tables: compare them although they are about different models of the same shape.")
    ] = False,
    by: Annotated[
        Literal["model", "head"],
        Option("Give one row for the comparison, or one per head, beginning with those that disagree most."),
    ] = "model",
    tokenizer: Annotated["Tokenizer | None", Option(doc="The tokenizer of a loaded model.")] = None,
    **options: Any,
) -> "HeadTable":
    """Ask whether the same heads matter on other data.

    Over heads: [bold]pearson[/bold] with its 95 % interval (pearson_low, pearson_high) and p;
    [bold]pearson_true[/bold], what it would be without the noise of the examples, with a 95 % interval by the
    jackknife (pearson_true_low, pearson_true_high); [bold]spearman[/bold] and [bold]kendall[/bold] with p;
    [bold]reliability_in, reliability_out[/bold]: how well a side's values would agree with those of as many
    other examples (split halves, Spearman-Brown), which limits how high r can be.

    Give two tables that importance or ablate wrote, or MODEL and two datasets.

    Examples:
      attnprobe correlate demo --in-domain embedded --out-domain notes.txt

      attnprobe correlate --in-domain in.csv --out-domain out.csv

    Returns:
        One row, or one a head.

    >>> texts = ["The parcel came late.", "Who rang?", "She shut the door."]
    >>> table = correlate(texts, texts, "demo")
    >>> round(float(table["pearson"][0]), 6)
    1.0
    """
    from attnprobe.commands.call.correlating import compare_sides

    chosen = {"measure": measure, "column": column, "across_models": across_models, "tokenizer": tokenizer}
    sides = compare_sides(in_domain, out_domain, model, **chosen, **options)
    return sides.tabulate_heads() if by == "head" else sides.tabulate_pairs()


@command(Output)
def merge(
    tables: Annotated[
        "Sequence[HeadTable | Path | str]",
        Option(
            "The json beside each table, or the table itself.",
            doc="Tables, or the json files beside them. Two that read the same text, file or part are "
            "refused.",
            metavar="TABLE...",
            line=list[Path],
            argument=True,
            reads="table",
        ),
    ],
    *,
    statistics: Annotated[
        "Sequence[Statistic]",
        Option(doc="Those of one's own that the tables hold, and that no package brings along."),
    ] = (),
) -> "HeadTable":
    """Add up the tables of separate jobs to the table of the whole.

    Each job, such as one of a Slurm array, reads its part (--part 3/100) or a file of its own and writes a
    table with -o; merge adds up the sums in the json files beside them. Tables of census and of its parts,
    rank, induction, mixing, syntax, coreference, links and roles can be merged, of the same model with the
    same options. Columns on rare tokens, which each job counts in its own text, are left out. One table, of
    any command, is written in another format.

    Examples:
      attnprobe census my-bert -d corpus.txt --part 1/2 -o part1.csv

      attnprobe merge part1.csv part2.csv > whole.csv

    Returns:
        The table of all texts together, up to rounding. Columns on rare tokens are left out where the jobs
        took different tokens for rare.

    Raises:
        AttnprobeError: When something is no such table, or two don't belong together.

    >>> from attnprobe import entropy
    >>> one, two = (entropy("demo", [text]) for text in ("The parcel came late.", "Who rang?"))
    >>> merge([one, two])["n"][0]
    np.int64(2)
    """
    from attnprobe.commands.call.record import describe_call
    from attnprobe.findings.merge import merge_tables

    return merge_tables(tables, describe_call("merge"), statistics)
