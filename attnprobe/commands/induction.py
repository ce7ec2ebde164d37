"""The command that gives heads random tokens twice."""

from typing import TYPE_CHECKING, Annotated, Any

from attnprobe.commands.output import Output
from attnprobe.commands.registry import Rule, command
from attnprobe.option import Option
from attnprobe.options import TEXT, Batches, Layers, OneModel, Resume

if TYPE_CHECKING:
    from attnprobe.table.head_table import HeadTable


@command(
    OneModel,
    Batches,
    Layers,
    Resume,
    Output,
    rules=[Rule("Random tokens have no prompt before them; leave out --prompt.", given=("prompt",))],
)
def induction(
    model: Any,
    *,
    length: Annotated[
        int,
        Option(
            "Most random tokens that come twice in a sequence; how many is drawn for each.", low=2, panel=TEXT
        ),
    ] = 50,
    sequences: Annotated[int, Option("Number of sequences to draw.", low=1, panel=TEXT)] = 64,
    seed: Annotated[int, Option("Seed of the random tokens.", low=0, panel=TEXT)] = 42,
    **options: Any,
) -> "HeadTable":
    """Find induction heads, on random tokens that come twice.

    A sequence ends in a run of different random tokens and the same run again, within the model's boundary
    tokens. How long the run is differs from sequence to sequence. For the tokens of the second run:
    [bold]induction[/bold] (prefix matching): mass on the token that came next the first time;
    [bold]duplicate[/bold]: on the token itself, the first time; both less what the same places get where
    nothing comes twice; [bold]previous[/bold]: on the token before. [bold]copying[/bold], of language models:
    whether the head raises the logit of the token that it looks at more than those of the other tokens, 1
    always, 0 by chance, -1 never. Heads whose induction or duplicate is 0.5 or more, by its interval, are
    named. Nothing is read; the columns of cross-attention are empty.
    Numbers are means over the queries of a sequence, then over sequences. _se is the standard error,
    and n the number of sequences.

    Examples:
      attnprobe induction gpt2

      attnprobe induction demo --length 20 --sequences 200 -o induction.csv

    Notes:
        A sequence is u + r + r between the boundary tokens of a text: different random tokens of the
        vocabulary, the last of them twice. How many are in r is drawn for each sequence, from half of
        ``length`` to ``length``; all sequences are equally long. Encoders and decoders have the same
        definition.

    Returns:
        One row a head, layers and heads counted from 0. The notes name the heads whose score is 0.5 or more
        by its interval.

    References:
        Olsson et al. (2022), In-context learning and induction heads.

    >>> table = induction("demo", length=8, sequences=4)
    >>> list(table.data)[:7]
    ['model', 'dataset', 'layer', 'head', 'n', 'induction', 'induction_se']
    """
    from attnprobe.commands.call.call import check_model, make_loader, open_call, parse_layers
    from attnprobe.commands.call.record import describe_call
    from attnprobe.run.input.repeated import RepeatedTokens

    drawn = RepeatedTokens(length, sequences, seed)
    layers = parse_layers(options.get("layers"))
    with open_call(options, model) as call:
        check_model(model, call.tokenizer, options)
        from attnprobe.model.task_heads import CAUSAL_LM, MASKED_LM, SEQ2SEQ
        from attnprobe.model.verifying.observations import find_unembedding
        from attnprobe.statistics.induction import COPYING, REPEATED
        from attnprobe.statistics.registry import select_statistics
        from attnprobe.survey.survey import CorpusRequest, TableRequest, survey_corpora

        call.progress.stage("loading", None)
        checkpoint = make_loader(model, call.tokenizer, call.load)((CAUSAL_LM, MASKED_LM, SEQ2SEQ), False)
        statistics = select_statistics("induction")
        facts: dict[str, Any] = {"command": describe_call("induction"), "dataset": drawn.described}
        if isinstance(reason := find_unembedding(checkpoint), str):
            statistics.remove(COPYING)
            facts["asked"] = {"no copying": reason}
        corpus = CorpusRequest(drawn, statistics, call.corpus)
        (found,) = survey_corpora(
            checkpoint,
            [TableRequest([corpus], drawn.described["name"], facts, REPEATED, layers)],
            as_far_as_possible=True,
            **call.run,
        )
        return found.table
