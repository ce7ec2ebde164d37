"""The function that gives heads random tokens twice."""

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from attnprobe.api.calls import called, check_model, loader_of
from attnprobe.api.commands import command
from attnprobe.api.keywords import DrawnKeywords, spelled_out
from attnprobe.corpus.tokens.tokenization import Tokenizer
from attnprobe.run.input.repeated import Repeated
from attnprobe.survey.layers import layers_of
from attnprobe.table.head_table import HeadTable

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@spelled_out
def induction(
    model: "str | Path | PreTrainedModel",
    *,
    length: int = 50,
    sequences: int = 64,
    seed: int = 42,
    tokenizer: Tokenizer | None = None,
    **options: Unpack[DrawnKeywords],
) -> HeadTable:
    """Measure which heads find what came before, on seeded random tokens, repeated.

    A sequence is u + r + r between the boundary tokens of a text: different random tokens of the vocabulary,
    the last of them twice. How many are in r is drawn for each sequence, from half of ``length`` to
    ``length``; all sequences are equally long. Scores are means over the queries of the second copy, then
    over sequences, of the probability of one key: ``induction`` of the token after the query's own in the
    first copy (prefix matching), ``duplicate`` of the query's own token there, both less what the same places
    get where nothing comes twice; ``previous`` of the token before the query. ``copying`` is whether a head
    raises the logit of the token that it looks at ahead of the other tokens, from -1 to 1; it takes a
    language model head. Encoders and decoders have the same definition; cross-attention has no scores. No
    text is read.

    Args:
        model: As for ``census``.
        length: Most tokens in r.
        sequences: How many sequences are drawn.
        seed: From what they are drawn.
        tokenizer: As for ``census``.
        options: See ``ModelKeywords``, ``BatchKeywords``, ``LayerKeywords`` and ``RunKeywords`` in
            ``attnprobe.api.keywords``.

    Returns:
        One row a head, layers and heads counted from 0. The notes name the heads whose score is 0.5 or more
        by its interval.

    Raises:
        AttnprobeError: With one sentence on what is wrong and what to do.

    References:
        Olsson et al. (2022), In-context learning and induction heads.

    Examples:
        >>> table = induction("demo", length=8, sequences=4)
        >>> list(table.data)[:7]
        ['model', 'dataset', 'layer', 'head', 'n', 'induction', 'induction_se']
    """
    drawn = Repeated(length, sequences, seed)
    layers = layers_of(options.get("layers"))
    with called(options, model) as call:
        check_model(model, tokenizer, options)
        from attnprobe.model.loading.task_heads import CAUSAL_LM, MASKED_LM, SEQ2SEQ
        from attnprobe.model.verifying.observations import find_unembedding
        from attnprobe.statistics.induction import COPYING, REPEATED
        from attnprobe.statistics.registry import statistics_of
        from attnprobe.survey.survey import survey

        call.progress.stage("loading", None)
        checkpoint = loader_of(model, tokenizer, call.load)((CAUSAL_LM, MASKED_LM, SEQ2SEQ), False)
        described, statistics = drawn.described, statistics_of("induction")
        facts = {"command": command("induction"), "dataset": described}
        if isinstance(reason := find_unembedding(checkpoint), str):
            statistics.remove(COPYING)
            facts["asked"] = {"no copying": reason}
        found = survey(
            checkpoint,
            drawn,
            call.corpus,
            statistics,
            dataset=described["name"],
            facts=facts,
            as_far_as_possible=True,
            tabulation=REPEATED,
            layers=layers,
            resume=call.resume,
            workers=call.workers,
            progress=call.progress,
        )
        return found.table
