"""The commands that make one table of several checkpoints, data or tables: compare, correlate, merge."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Unpack

from attnprobe.options import (
    MODEL,
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
)
from attnprobe.registry import Option, Rule, command

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from transformers import PreTrainedModel

    from attnprobe.corpus.tokens import Tokenizer
    from attnprobe.session.texts import Texts
    from attnprobe.statistics.statistic import Statistic
    from attnprobe.table.table import HeadTable


class CompareOptions(
    ModelOptions,
    TextOptions,
    FrequencyOptions,
    TokenOptions,
    TargetOptions,
    WeightOptions,
    LayerOptions,
    ResumeOptions,
    total=False,
):
    """A survey of several models."""


class CorrelateOptions(ModelOptions, TextOptions, TaskOptions, MetricOptions, ResumeOptions, total=False):
    """A task over the data of two domains."""


_RULES = (
    *(
        Rule(
            "Matching by maps needs the divergence of all pairs of heads; leave out --no-nearest.",
            given=(f"match={within}", "nearest"),
        )
        for within in ("layer", "model")
    ),
)


@command(TableOutput, rules=_RULES)
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
    labels: LabelsArgument = None,
    *,
    revisions: Annotated[
        str | Sequence[str] | None,
        Option("Revisions of the one MODEL.", metavar="NAME,NAME", line=str | None, panel=MODEL),
    ] = None,
    measure: Annotated[
        str,
        Option(
            "census, or some of its columns: entropy,previous.",
            doc="What is compared: census for all of its columns, or some columns and families.",
            metavar="NAME",
        ),
    ] = "census",
    match: Annotated[
        Literal["layer", "model", "outputs", "outputs-layer"] | None,
        Option(
            "Match heads one to one: layer (within layers), model, outputs (by what they give) or "
            "outputs-layer.",
            metavar="HOW",
            doc='Assign heads to heads one to one, with the least total divergence: "layer" within layers '
            'of one number, "model" over the model. "outputs" and "outputs-layer" match by what heads give, '
            "with the most total CKA. Columns matched_layer, matched_head, "
            "jsd_matched, cka_matched; columns that end in _b are then about the matched head.",
        ),
    ] = None,
    nearest: Annotated[
        bool,
        Option("Look for the nearest head among all, or not, which is quicker."),
    ] = True,
    tokenizers: Annotated[
        "Sequence[Tokenizer] | None", Option(doc="Those of loaded models, one for each.")
    ] = None,
    **options: Unpack[CompareOptions],
) -> "HeadTable":
    """What did fine-tuning change in the heads?

    Both models read the same batches, each once. Models with different tokenizers are compared word
    by word; models of different shapes head by nearest head.

    Columns:
      jsd              how differently heads of one number attend, 0 to 0.693 nats
      nearest_layer, nearest_head, jsd_nearest
                       the head of the second model that attends most alike
      matched_layer, matched_head, jsd_matched, cka_matched
                       with --match: the partner, one to one
      cka              with --match outputs: how alike heads of one number give,
                       0 to 1, by linear CKA (Kornblith et al. 2019)
      NAME_a, NAME_b   means of both models, for each column of the census
      NAME_delta       b less a, with NAME_delta_se, paired by document
      NAME_p_adjusted  that they do not differ, by Holm over heads

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


@command(TableOutput)
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
            "A hub id, a local folder, or demo; none for tables.",
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
            "With MODEL: gradient, ig, lrp or ablation. Default: gradient.",
            doc="With a model: compare gradient importance, ig_abs, relevance_abs (lrp), or the score "
            "without the head; gradient by default.",
            metavar="NAME",
            flags=("--measure", "--method"),
        ),
    ] = None,
    column: Annotated[
        str | None,
        Option("With tables: compare this column. Default: the usual one."),
    ] = None,
    across_models: Annotated[bool, Option("With tables: of different models of the same shape.")] = False,
    by: Annotated[
        Literal["model", "head"],
        Option("One row, or one for each head, those that disagree most first."),
    ] = "model",
    tokenizer: Annotated["Tokenizer | None", Option(doc="The tokenizer of a loaded model.")] = None,
    **options: Unpack[CorrelateOptions],
) -> "HeadTable":
    """Do the same heads matter on other data?

    Give two tables that importance or ablate wrote, or MODEL and two datasets.

    Columns:
      pearson         over heads, with its 95 % interval _low, _high, and p
      pearson_true    what it would be without the noise of the examples, with a
                      95 % interval by the jackknife
      spearman, kendall
                      rank correlations, with p
      reliability_in, reliability_out
                      how well a side would agree with as many other examples:
                      split halves, Spearman-Brown; it limits pearson
      disagreement    with --by head: how far the ranks of a head differ

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


@command(TableOutput)
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
    """What do the tables of separate jobs add up to?

    Each job, such as one of a Slurm array, reads its part (--part 3/100) or a file of its own and
    writes a table with -o; merge adds up the sums in the json files beside them. Tables of census
    and of its parts, rank, induction, mixing, syntax, coreference, links and roles can be merged, of
    the same model with the same options. Columns on rare tokens, which each job counts in its own
    text, are left out. One table, of any command, is written in another format.

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
    from attnprobe.findings.merge import merge_tables
    from attnprobe.session.session import describe_call

    return merge_tables(tables, describe_call("merge"), statistics)
