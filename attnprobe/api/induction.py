"""The function that gives heads random tokens twice."""

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from attnprobe.api.calls import called, check_model, checkpoint_of
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

    A sequence is r + r between the special tokens that frame a text: ``length`` different random tokens of
    the vocabulary, and the same again. Scores are means over the queries of the second copy, then over
    sequences, of the probability of one key: ``induction`` of the token after the query's own in the first
    copy, ``duplicate`` of the query's own token there, ``previous`` of the token before the query. Encoders
    and decoders have the same definition; cross-attention has no scores. No text is read.

    Args:
        model: As for ``census``.
        length: Tokens in r.
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
        from attnprobe.statistics.induction.table import REPEATED
        from attnprobe.statistics.registry import statistics_of
        from attnprobe.survey.survey import survey

        call.progress.stage("loading", None)
        described = drawn.described
        found = survey(
            checkpoint_of(model, tokenizer, call.load, "text"),
            drawn,
            call.corpus,
            statistics_of("induction"),
            dataset=described["name"],
            facts={"command": command("induction"), "dataset": described},
            tabulation=REPEATED,
            layers=layers,
            resume=call.resume,
            workers=call.workers,
            progress=call.progress,
        )
        return found.table
