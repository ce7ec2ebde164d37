"""The command that gives each head a role."""

from typing import TYPE_CHECKING, Annotated, Any

from attnprobe.commands.output import Output
from attnprobe.commands.registry import command
from attnprobe.option import Group, Option
from attnprobe.options import TEXT, Batches, Data, Frequencies, Hub, Layers, OneModel, Reading, Resume

if TYPE_CHECKING:
    from collections.abc import Mapping

    from attnprobe.commands.call.texts import Texts
    from attnprobe.table.head_table import HeadTable


class RoleGold(Group, panel=TEXT):
    """Which files with gold links heads can have roles by, and from where on they have one."""

    treebank: Annotated[
        "Texts",
        Option(
            "Dependencies in CoNLL-U, so that heads can have relations; repeat it for several. Default: "
            "those that ship with attnprobe, where no text is given either.",
            doc="As the texts of syntax, so that heads can have relations. By default the treebank that "
            "ships with attnprobe, where no texts are given either; otherwise no head gets a relation.",
            metavar="FILE", line=list[str] | None, reads="data",
        ),
    ] = None  # fmt: skip
    coreference: Annotated[
        "Texts",
        Option(
            "CorefUD, GAP or WinoBias, so that heads can have coreference; repeat it for several.",
            doc="As the texts of coreference. Without it, no head gets coreference.",
            metavar="FILE", line=list[str] | None, reads="data",
        ),
    ] = None  # fmt: skip
    thresholds: Annotated[
        "Mapping[str, float] | str | None",
        Option(
            "Other thresholds of roles: positional=0.9, delimiter=0.3, preference=0.9, rare=0.5, "
            "syntactic=0.1, coreference=0.1, induction=0.5, duplicate=0.5, broad=0.6, block=0.8.",
            doc='Other thresholds of roles, by their names: {"positional": 0.8}, or "positional=0.8"; see '
            "THRESHOLDS in attnprobe.statistics.roles.",
            metavar="NAME=VALUE,...", line=str | None,
        ),
    ] = None  # fmt: skip


@command(OneModel, Data, Hub, RoleGold, Reading, Batches, Frequencies, Layers, Resume, Output)
def roles(
    model: Any,
    texts: "Texts" = None,
    *,
    treebank: "Texts" = None,
    coreference: "Texts" = None,
    thresholds: "Mapping[str, float] | str | None" = None,
    **options: Any,
) -> "HeadTable":
    """Name what each head does, in one word with its evidence.

    previous, next, self, offset: it looks at one place, and still does with the tokens shuffled; delimiter:
    at special tokens or punctuation, beyond what uniform attention gives them; rare words; syntactic: it
    finds a dependency relation (with a treebank); coreference: it finds antecedents (with a file that has
    them); induction, duplicate: it looks at what came after, or at the same token, in random tokens that come
    twice; broad: everywhere; block: within its own
    text of two; mixed: none of these. A role holds where the whole interval of its evidence lies beyond its
    threshold. The first that holds names the head, and [bold]also[/bold] lists the others.
    [bold]stability[/bold] is the share of 8 folds of the documents in which the head has the same name.

    Examples:
      attnprobe roles demo

      attnprobe roles my-bert -d corpus.txt --treebank dev.conllu -o roles.csv

      attnprobe roles gpt2 -d a.txt --thresholds positional=0.8,induction=0.4

    Notes:
        An interval is for all heads together with 95 %. By default the texts are those of the treebank.

    Returns:
        One row a head; the notes name the heads of each role.

    >>> table = roles("demo", limit=20)
    >>> list(table.data)[2:]
    ['layer', 'head', 'role', 'measure', 'value', 'value_se', 'threshold', 'also', 'stability']
    """
    from attnprobe.commands.call.call import check_model, load_model, open_call, parse_layers
    from attnprobe.commands.call.roles import open_sources, read_question, request_roles
    from attnprobe.commands.call.texts import check_standard_input

    question = read_question(thresholds, options.get("seed", 42))
    layers = parse_layers(options.get("layers"))
    check_standard_input(texts, treebank, coreference)
    with open_call(options, model) as call:
        check_model(model, call.tokenizer, options)
        sources = open_sources(texts, treebank, coreference, options)
        from attnprobe.survey.survey import survey_corpora

        call.progress.stage("loading", None)
        checkpoint = load_model(model, call.tokenizer, call.load, "text")
        (found,) = survey_corpora(
            checkpoint,
            [request_roles(checkpoint, sources, call, question, layers)],
            **call.run,
        )
        return found.table
