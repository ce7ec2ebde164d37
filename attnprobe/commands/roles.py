"""The commands that name what heads do: roles, and induction, which gives them random tokens."""

from functools import partial
from itertools import chain, groupby
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, Unpack

from attnprobe.errors import UsageError
from attnprobe.options import (
    FrequencyOptions,
    LayerOptions,
    LoadedOptions,
    ModelArgument,
    PartOptions,
    ResumeOptions,
    TableOutput,
    TargetOptions,
    TextOptions,
    TextsArgument,
    text_option,
)
from attnprobe.registry import command
from attnprobe.session.roles import check_role_options, list_gold, open_sources, request_roles
from attnprobe.session.session import describe_call, open_call, parse_layers
from attnprobe.session.texts import check_standard_input, list_files
from attnprobe.table.naming import ROLE_MARKS, THRESHOLDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from attnprobe.corpus.source import GivenTexts
    from attnprobe.table.table import HeadTable

#: An option for a file with gold links, or several.
_gold_option = partial(text_option, metavar="FILE", line=list[str] | None, reads="data")


class RoleGold(TypedDict, total=False):
    """Files with gold links that roles are decided by, and thresholds."""

    treebank: Annotated[
        "GivenTexts", _gold_option("Dependencies in CoNLL-U. Default, without -d: built-in sentences.")
    ]
    coreference: Annotated["GivenTexts", _gold_option("Coreference: CorefUD or GAP.")]
    links: Annotated["GivenTexts", _gold_option("Links of your own, in the format of the command links.")]
    links_name: Annotated[str | None, text_option("Name of roles by --links.", flags=("--name",))]
    thresholds: Annotated[
        "Mapping[str, float] | str | None",
        text_option(
            f"Thresholds other than {', '.join(f'{name}={value}' for name, value in THRESHOLDS.items())}.",
            metavar="NAME=VALUE,...",
            hidden=True,
        ),
    ]


class RolesOptions(
    LoadedOptions,
    TextOptions,
    TargetOptions,
    RoleGold,
    PartOptions,
    FrequencyOptions,
    LayerOptions,
    ResumeOptions,
    total=False,
):
    """What roles are decided by."""


class InductionOptions(LoadedOptions, LayerOptions, ResumeOptions, total=False):
    """A survey of random tokens."""

    batch_tokens: Annotated[int | None, text_option("Tokens in a batch, for speed.", low=1, hidden=True)]


def _describe_roles() -> str:
    """Say what each role is, a line for those that are alike."""
    groups = groupby(ROLE_MARKS, lambda role: ROLE_MARKS[role].about)
    return "\n".join(f"  {', '.join(names):<11}  {about}" for about, names in groups)


@command(TableOutput, roles=_describe_roles())
def roles(model: ModelArgument, texts: TextsArgument = None, **options: Unpack[RolesOptions]) -> "HeadTable":
    """What does each head do, in one word?

    A role holds if the whole 95 % interval of its evidence lies beyond its threshold. The first role
    that holds names the head:
    {roles}

    Columns:
      role            the name; also: other roles that hold
      measure, value  the evidence, its value and value_se
      threshold       what the evidence has to exceed
      pattern         vertical, diagonal, both, block or heterogeneous

    Examples:
      attnprobe roles demo
      attnprobe roles my-bert -d corpus.txt --treebank dev.conllu -o roles.csv
      attnprobe roles gpt2 -d a.txt --thresholds positional=0.8,induction=0.4
      attnprobe roles my-model -d a.txt --links reactions.jsonl --name atom-map

    Notes:
        Intervals are 95 % for all heads together (Student's t over documents, Bonferroni). By default the
        texts are those of the treebank.

    >>> table = roles("demo", limit=20)
    >>> list(table.data)[2:]
    ['layer', 'head', 'role', 'measure', 'value', 'value_se', 'threshold', 'also', 'pattern']
    """
    check_role_options(options)
    layers = parse_layers(options["layers"])
    check_standard_input(texts, *chain.from_iterable(map(list_files, list_gold(options).values())))
    with open_call(options, model) as call:
        sources = open_sources(texts, options)
        from attnprobe.survey.survey import survey_corpora

        checkpoint = call.load_checkpoint()
        request = request_roles(checkpoint, sources, call, options, layers)
        (run,) = survey_corpora(checkpoint, [request], **call.run)
        return run.table


@command(TableOutput)
def induction(
    model: ModelArgument,
    *,
    length: Annotated[int, text_option("Longest run of random tokens that is repeated.", low=2)] = 50,
    sequences: Annotated[int, text_option("Number of sequences to draw.", low=1)] = 64,
    seed: Annotated[int, text_option("Seed of the random tokens.", low=0)] = 42,
    **options: Unpack[InductionOptions],
) -> "HeadTable":
    """Which heads are induction heads?

    Each sequence has a run of different random tokens, and then the same run again. Means are over the
    tokens of the second run, then over the n sequences.

    Columns:
      induction   attention to the token that followed the first time
      duplicate   to the same token in the first run; both less the attention
                  to these places where nothing is repeated
      previous    to the token before
      copying     is the attended token's logit raised above those of others:
                  1 always, 0 by chance, -1 never
      NAME_se, n  standard error; sequences

    Examples:
      attnprobe induction gpt2
      attnprobe induction demo --length 20 --sequences 200 -o induction.csv

    Notes:
        A sequence is u + r + r between the boundary tokens of a text; u and r are different random tokens of
        the vocabulary. The length of r is drawn for each sequence, from half of ``length`` to ``length``;
        all sequences are equally long.

    References:
        Olsson et al. (2022), In-context learning and induction heads.

    >>> table = induction("demo", length=8, sequences=4)
    >>> list(table.data)[:7]
    ['model', 'dataset', 'layer', 'head', 'n', 'induction', 'induction_se']
    """
    if options["prompt"] is not None:
        raise UsageError("Random tokens have no prompt before them; leave out --prompt.")
    layers = parse_layers(options["layers"])
    with open_call(options, model) as call:
        from attnprobe.model.check.projections import find_unembedding
        from attnprobe.model.task_heads import CAUSAL_LM, MASKED_LM, SEQ2SEQ
        from attnprobe.run.repeated import RepeatedTokens
        from attnprobe.statistics.induction import COPYING, REPEATED
        from attnprobe.statistics.registry import select_statistics
        from attnprobe.survey.survey import CorpusRequest, TableRequest, survey_corpora

        checkpoint = call.load_checkpoint((CAUSAL_LM, MASKED_LM, SEQ2SEQ))
        statistics, drawn = select_statistics("induction"), RepeatedTokens(length, sequences, seed)
        facts: dict[str, Any] = {"command": describe_call("induction"), "dataset": drawn.described}
        if isinstance(reason := find_unembedding(checkpoint), str):
            statistics.remove(COPYING)
            facts["asked"] = {"no copying": reason}
        corpus = CorpusRequest(drawn, statistics, call.corpus)
        request = TableRequest([corpus], drawn.described["name"], facts, REPEATED, layers)
        (run,) = survey_corpora(checkpoint, [request], as_far_as_possible=True, **call.run)
        return run.table
