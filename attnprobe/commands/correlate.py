"""The command that asks whether the same heads matter on other data, or in another checkpoint."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from attnprobe.commands.output import Output
from attnprobe.commands.registry import command
from attnprobe.option import Option
from attnprobe.options import TASK, Batches, Data, Hub, Labels, Metric, Model, Reading, Resume, Task

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from transformers import PreTrainedModel

    from attnprobe.commands.call.texts import Texts
    from attnprobe.corpus.tokenization import Tokenizer
    from attnprobe.table.head_table import HeadTable


@command(
    Model,
    Data,
    Hub,
    Reading,
    Batches,
    Labels,
    Task,
    Metric,
    Resume,
    Output,
    guesses=("correlation", "transfer", "domains"),
)
def correlate(
    in_domain: Annotated[
        "HeadTable | Texts",
        Option(
            "A table that importance or ablate wrote. With MODEL: data, which may end in options of its "
            "own, as in ?split=S&label-column=C.",
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
        "str | Path | PreTrainedModel | Sequence[str | Path] | None",
        Option(
            "A hub id, a local folder, or [bold]demo[/bold]; several to compare the first with each of the "
            "others, patterns of folders such as 'run/checkpoint-*' too; none for tables.",
            doc="Measure both sides with this model first. Of several checkpoints, which are named and have "
            "the same shape, the first is compared with each of the others on the same texts; they are "
            'loaded one after the other, and may be patterns of folders ("run/checkpoint-*"). None compares '
            "two tables.",
            metavar="MODEL...",
            line=list[str] | None,
            argument=True,
        ),
    ] = None,
    *,
    measure: Annotated[
        Literal["gradient", "lrp", "ablation"] | None,
        Option(
            "With MODEL: compare gradient importance, relevance_abs (lrp), or the score without the head. "
            "Default: gradient.",
            flags=("--measure", "--method"),
            panel=TASK,
        ),
    ] = None,
    column: Annotated[
        str | None, Option("With tables: compare this column. Default: importance, relevance_abs or score.")
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
    """Ask whether the same heads matter on other data, or in another checkpoint.

    Over heads: [bold]pearson[/bold] with its 95 % interval (pearson_low, pearson_high) and p;
    [bold]pearson_true[/bold], what it would be without the noise of the examples, with a 95 % interval by
    bootstrap (pearson_true_low, pearson_true_high); [bold]spearman[/bold] and [bold]kendall[/bold] with p;
    [bold]reliability_in, reliability_out[/bold]: how well a side's values would agree with those of as many
    other examples (split halves, Spearman-Brown), which limits how high r can be.

    Give two tables that importance or ablate wrote; or MODEL and two datasets; or two or more checkpoints of
    the same shape and one dataset, -d: the first checkpoint is compared with each of the others, which
    [bold]model_out[/bold] names, on the same examples. Michel et al. (2019, section 3.4) correlate the scores
    of an ablation: --measure ablation.

    Examples:
      attnprobe correlate demo --in-domain embedded --out-domain notes.txt

      attnprobe correlate bert --in-domain a.tsv --out-domain b.tsv --measure lrp

      attnprobe correlate --in-domain in.csv --out-domain out.csv

      attnprobe correlate my-classifier my-other-classifier -d reviews.tsv

      attnprobe correlate run/step-900 'run/step-*' -d dev.tsv --resume state

      attnprobe correlate --in-domain a.csv --out-domain b.csv --across-models

    Notes:
        With several checkpoints, ``texts`` that can be read once only are kept, and ``resume`` keeps the
        tables of those that are done.

    Returns:
        One row, or one a head; of several checkpoints, so many for each but the first, which the column
        ``model_out`` names.

    >>> texts = ["The parcel came late.", "Who rang?", "She shut the door."]
    >>> table = correlate(model=["demo", "demo"], texts=texts)
    >>> round(float(table["pearson"][0]), 6)
    1.0
    """
    from attnprobe.commands.call.correlating import compare_sides

    asked = {"measure": measure, "column": column, "across_models": across_models, "tokenizer": tokenizer}
    found = compare_sides(in_domain, out_domain, model, **asked, **options)
    return found.tabulate_heads() if by == "head" else found.tabulate_pairs()
