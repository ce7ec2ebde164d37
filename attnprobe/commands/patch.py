"""The command that patches heads between two texts: what carries the difference."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from attnprobe.commands.output import Output
from attnprobe.commands.registry import Rule, command
from attnprobe.option import Option
from attnprobe.options import TASK, TEXT, Batches, Hub, OneModel, Reading, Resume, Task

if TYPE_CHECKING:
    from attnprobe.table.table import HeadTable


@command(
    OneModel,
    Hub,
    Reading,
    Batches,
    Task,
    Resume,
    Output,
    rules=[
        Rule(
            "--top is about --fast, which patches the first heads only; give both.",
            given=("top",),
            lacks=("fast",),
        ),
        Rule("patch reads a pair of texts whole; leave out --truncate.", given=("truncate",)),
    ],
)
def patch(
    model: Any,
    pairs: Annotated[
        Any,
        Option(
            "A table (csv, tsv, jsonl, json, parquet, xlsx; also .gz, .bz2, .xz, .zst), a hub dataset, or - "
            "for standard input: columns clean, corrupted and answer, and other for a second answer; or "
            "BLiMP's sentence_good and sentence_bad. Default: sentences that ship with attnprobe, with a "
            "verb that agrees.",
            doc="Dicts with clean, corrupted, answer, and other for a second answer; a DataFrame or "
            "a dict of such columns; the path of a file, or the id of a hub dataset. BLiMP's sentence_good "
            "and sentence_bad do, too. By default sentences that ship with attnprobe.",
            name="dataset",
            flags=("--dataset", "-d"),
            metavar="PAIRS",
            line=str | None,
            reads="data",
            panel=TEXT,
        ),
    ] = None,
    *,
    other_column: Annotated[
        str | None,
        Option(
            "Column of the answer that the first is compared with. Default: other. --text-column, "
            "--text-pair-column and --label-column name those of clean, corrupted and answer.",
            panel=TEXT,
        ),
    ] = None,
    noising: Annotated[
        bool, Option("Read the clean text, and patch heads from the corrupted one.", panel=TASK)
    ] = False,
    positions: Annotated[
        bool, Option("Patch each token by itself: one row per head and position.", panel=TASK)
    ] = False,
    fast: Annotated[
        bool, Option("Give the attribution of all heads, and patch only the first --top ones.", panel=TASK)
    ] = False,
    top: Annotated[
        int, Option("With --fast, so many heads are patched, the largest attributions.", low=0, panel=TASK)
    ] = 10,
    correction: Annotated[
        Literal["holm", "bh"],
        Option("Adjust p for the number of heads by Holm, or by Benjamini and Hochberg.", panel=TASK),
    ] = "holm",
    **options: Any,
) -> "HeadTable":
    """Find the heads that carry the difference between two texts.

    Each pair has a clean text and a corrupted one, of equally many tokens, and an answer: a class, a word in
    place of the mask, the next word, or the target of an encoder-decoder. m is the logit of the answer less
    that of the other answer, or with one answer its log odds ln p / (1 - p); of a target its log probability,
    of BLiMP's sentences that of the sentence.
    [bold]effect[/bold]: by how much m rises for the corrupted text
    when the head gives what it gives on the clean one (the indirect effect of Vig et al. 2020; --noising: the
    other way round);
    [bold]recovered[/bold]: the sum of effects over the sum of gaps, m(clean) -
    m(corrupted); [bold]p[/bold]: a paired t over documents; [bold]attribution[/bold]: the effect to first
    order, from one backward pass. Effects need not add up to the gap. Pairs of unequal length are left out,
    and counted.

    Examples:
      attnprobe patch demo

      attnprobe patch my-classifier -d pairs.csv

      attnprobe patch gpt2 -d prompts.jsonl --positions -o patched.csv

      attnprobe patch bert-base-uncased -d agreement.tsv --fast

    Returns:
        One row a head; with ``positions``, one a head and position of a token.

    Raises:
        AttnprobeError: With one sentence on what is wrong and what to do.

    Warns:
        AttnprobeWarning: Of what is worth knowing, such as pairs that were left out.

    References:
        Vig et al. (2020), Investigating gender bias in language models using causal mediation analysis.
        Kramar et al. (2024), AtP*, for the attribution.

    >>> pairs = [{"clean": "The boy [MASK] late.", "corrupted": "The boys [MASK] late.", "answer": "was"}]
    >>> table = patch("demo", pairs)
    >>> len(table), table["objective"][0]
    (24, np.str_('masked-lm'))
    """
    from attnprobe.commands.call.call import check_model, make_session, open_call, read_first
    from attnprobe.commands.call.texts import open_pairs
    from attnprobe.intervention.request import TaskOptions
    from attnprobe.options import DEFAULTS

    with open_call(options, model) as call:
        seed, force = (options.get(name, DEFAULTS[name]) for name in ("seed", "force_head"))
        task = TaskOptions(options.get("objective"), seed=seed, force_head=force)
        check_model(model, call.tokenizer, options)
        source = read_first(open_pairs(pairs, options, other_column))
        session = make_session("patch", model, source, task, call)
        from attnprobe.intervention.patching.passes import PatchPlan
        from attnprobe.intervention.patching.table import run_patching

        plan = PatchPlan(noising, positions)
        return run_patching(session, plan, fast=fast, top=top, correction=correction)
