"""The command that patches heads between two texts: what carries the difference."""

from typing import TYPE_CHECKING, Annotated, Any, Literal, Unpack

from attnprobe.errors import UsageError
from attnprobe.options import TEXT, CauseOptions, ModelArgument, TableOutput
from attnprobe.registry import Option, command

if TYPE_CHECKING:
    from attnprobe.table.table import HeadTable


@command(TableOutput)
def patch(
    model: ModelArgument,
    pairs: Annotated[
        Any,
        Option(
            "A table of columns clean, corrupted, answer and perhaps other, or BLiMP's sentence_good and "
            "sentence_bad; or - for standard input. Default: a sample.",
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
            "Column of the answer that the first is compared with. Default: other.",
            doc="Column of the answer that the first is compared with; other by default. text_column, "
            "text_pair_column and label_column name those of clean, corrupted and answer.",
            panel=TEXT,
        ),
    ] = None,
    noising: Annotated[bool, Option("Read the clean text, and patch heads from the corrupted one.")] = False,
    positions: Annotated[
        bool, Option("Patch each token by itself: a row for each head and position.")
    ] = False,
    fast: Annotated[bool, Option("Attribute all heads, and patch only the first --top ones.")] = False,
    top: Annotated[int, Option("With --fast: number of heads to patch.", low=0)] = 10,
    correction: Annotated[
        Literal["holm", "bh"], Option("holm, or bh for Benjamini and Hochberg's.", metavar="NAME")
    ] = "holm",
    **options: Unpack[CauseOptions],
) -> "HeadTable":
    """Which heads carry the difference between two texts?

    Each pair has a clean text and a corrupted one, of equally many tokens, and an answer: a class, a
    word in place of the mask, the next word, or a target. m is the logit of the answer less that of
    the other answer; with one answer its log odds; of a target its log probability. Pairs of unequal
    length are left out, and counted. Effects need not add up to the gap.

    Columns:
      effect         rise of m for the corrupted text when the head gives what it
                     gives on the clean one (Vig et al. 2020)
      recovered      sum of effects over the sum of gaps, m(clean) - m(corrupted)
      p, p_adjusted  paired t over documents; Holm's
      attribution    the effect to first order, from one backward pass
      NAME_se, n     standard error over documents; pairs

    Examples:
      attnprobe patch demo
      attnprobe patch my-classifier -d pairs.csv
      attnprobe patch gpt2 -d prompts.jsonl --positions -o patched.csv
      attnprobe patch bert-base-uncased -d agreement.tsv --fast

    Returns:
        One row a head; with ``positions``, one a head and position of a token.

    References:
        Vig et al. (2020), Investigating gender bias in language models using causal mediation analysis.
        Kramar et al. (2024), AtP*, for the attribution.

    >>> pairs = [{"clean": "The boy [MASK] late.", "corrupted": "The boys [MASK] late.", "answer": "was"}]
    >>> table = patch("demo", pairs)
    >>> len(table), table["objective"][0]
    (24, np.str_('masked-lm'))
    """
    from attnprobe.intervention.request import TaskOptions
    from attnprobe.session.session import make_session, open_call, read_first
    from attnprobe.session.texts import open_pairs

    if top != 10 and not fast:
        raise UsageError("--top is about --fast, which patches the first heads only; give both.")
    if options["truncate"]:
        raise UsageError("patch reads a pair of texts whole; leave out --truncate.")
    with open_call(options, model) as call:
        task = TaskOptions(options["objective"], seed=options["seed"], force_head=options["force_head"])
        source = read_first(open_pairs(pairs, options, other_column))
        session = make_session("patch", source, task, call)
        from attnprobe.intervention.patching.passes import PatchPlan
        from attnprobe.intervention.patching.table import run_patching

        plan = PatchPlan(noising, positions)
        return run_patching(session, plan, fast=fast, top=top, correction=correction)
