"""The command that asks what all heads know together: a linear probe of attention."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal, Unpack

from attnprobe.commands.links import FOLDS, MIN_LINKS, MinLinks, Subtypes, check_labels, choose_links
from attnprobe.errors import UsageError
from attnprobe.options import (
    TEXT,
    GoldArgument,
    LoadedOptions,
    ModelArgument,
    ResumeOptions,
    TableOutput,
    TextOptions,
)
from attnprobe.registry import Option, command

if TYPE_CHECKING:
    from attnprobe.table.table import HeadTable


class ProbeOptions(LoadedOptions, TextOptions, ResumeOptions, total=False):
    """A survey of gold links that are kept in memory."""


@command(TableOutput)
def probe(
    model: ModelArgument,
    texts: GoldArgument = None,
    *,
    gold: Annotated[
        Literal["treebank", "coreference", "links"],
        Option("What the file holds: treebank, coreference or links.", metavar="KIND", panel=TEXT),
    ] = "treebank",
    by: Annotated[
        Literal["label", "head"], Option("A row for each label, or for each head with its weight.")
    ] = "label",
    labels: Annotated[
        str | Sequence[str] | None,
        Option("Fit the probe to these labels only.", metavar="NAME,NAME", panel=TEXT, line=str | None),
    ] = None,
    subtypes: Subtypes = False,
    min_links: MinLinks = MIN_LINKS,
    folds: Annotated[
        int,
        Option(
            "Number of folds of documents; each is scored by a probe fitted to the others.",
            low=2,
            hidden=True,
        ),
    ] = FOLDS,
    penalty: Annotated[
        float, Option("Penalty of squared weights, lambda: it counts as much as so many links.", hidden=True)
    ] = 100.0,
    **options: Unpack[ProbeOptions],
) -> "HeadTable":
    """What do all heads know together of dependencies, coreference or other links?

    A probe chooses the word at the other end of each link by a weighted sum of the attention of all
    heads, both ways: two weights a head (Clark et al. 2019). It is scored in documents that it was
    not fitted to.

    Columns:
      accuracy, n    share of links that it finds; links
      best_head_accuracy
                     the same for the best head, layer and head
      gain           accuracy less that
      p, p_adjusted  that it is no better, by sign flips over documents; Holm's
      baseline       the same for the best simple rule, baseline_rule
      chosen         share of folds that chose the best head
      weight, share  with --by head: the head's weight; its share of all

    Examples:
      attnprobe probe demo
      attnprobe probe bert-base-uncased -d dev.conllu
      attnprobe probe bert-base-uncased -d gap-test.tsv --gold coreference
      attnprobe probe bert-base-uncased -d dev.conllu --by head -o weights.csv

    Notes:
        Attention to a word is the sum over its tokens, attention from a word the mean over its tokens. It is
        kept in memory, a byte for each head and two words of a sentence.

    Returns:
        One row a label; with ``by="head"`` one a head and direction.

    References:
        Clark et al. (2019), What does BERT look at?, section 5.
    """
    if subtypes and gold != "treebank":
        raise UsageError("--subtypes is about treebanks; leave it out with another --gold.")
    if by == "head" and folds != FOLDS:
        raise UsageError("--by head gives the weights of one probe; leave out --folds, which scores several.")
    if not penalty > 0:
        raise UsageError(f"--penalty must be above 0, not {penalty:g}.")
    from attnprobe.session.session import describe_call
    from attnprobe.session.survey import open_survey
    from attnprobe.session.texts import open_gold

    question = {"labels": labels, "subtypes": subtypes, "min_links": min_links}
    check_labels(question)
    with open_survey("probe", model, options, lambda _: open_gold(texts, gold, options)) as survey:
        documents = choose_links(survey.source, gold, question)
        from attnprobe.run.examples import check_targets
        from attnprobe.statistics.rules import COREFERENCE_TASK, LINKS_TASK, SYNTAX_TASK
        from attnprobe.survey.probe import probe_checkpoint

        checkpoint = survey.load()
        documents, labelled = check_targets(checkpoint, documents)
        if labelled:
            raise UsageError(
                "probe reads what words of one text attend to in it; leave out target, and links into it."
            )
        task = {"treebank": SYNTAX_TASK, "coreference": COREFERENCE_TASK, "links": LINKS_TASK}[gold]
        call, fitted = survey.call, {"folds": folds, "penalty": penalty}
        facts = {"command": describe_call("probe"), "dataset": survey.source.described}
        facts["asked"] = question | fitted
        about = {"dataset": survey.source.name, "facts": facts}
        return probe_checkpoint(
            checkpoint, documents, task, call.corpus, by=by, **fitted, **about, **call.run
        )
