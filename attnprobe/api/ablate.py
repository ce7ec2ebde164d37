"""The function that switches heads off."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from attnprobe.api.calls import called, check_model, loader_of, peeked, task_of
from attnprobe.api.commands import command
from attnprobe.api.keywords import ScoredKeywords, TextKeywords, given, spelled_out
from attnprobe.api.texts import Texts, opened
from attnprobe.corpus.sources.document import Label
from attnprobe.corpus.tokens.tokenization import Tokenizer
from attnprobe.sums.resampling import Correction
from attnprobe.table.head_table import HeadTable

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@spelled_out
def ablate(
    model: "str | Path | PreTrainedModel",
    texts: Texts = None,
    labels: Iterable[Label] | None = None,
    *,
    keep_one: bool = False,
    correction: Correction = "holm",
    tokenizer: Tokenizer | None = None,
    **options: Unpack[ScoredKeywords],
) -> HeadTable:
    """Score a model with each head off in turn, or with all others of its layer off.

    Args:
        model: As for ``importance``.
        texts: As for ``importance``.
        labels: As for ``importance``.
        keep_one: Switch all other heads of the layer off instead.
        correction: Of p for the number of heads: ``"holm"`` or ``"bh"``.
        tokenizer: The tokenizer of a loaded model.
        options: As for ``importance``, and ``metric``.

    Returns:
        One row a head, or for all heads that share their weights over layers.
    """
    label_column = options.get("label_column")
    with called(options, model) as call:
        task = task_of(options, labels_named=labels is not None or label_column is not None)
        check_model(model, tokenizer, options)
        named = given(options, TextKeywords)
        source = peeked(opened(texts, labels, named=named, label_column=label_column, find_labels=True), task)
        from attnprobe.intervention.ablation import ablation_table

        call.progress.stage("loading", None)
        return ablation_table(
            loader_of(model, tokenizer, call.load),
            source,
            call.corpus,
            task,
            keep_one=keep_one,
            correction=correction,
            facts={"command": command("ablate"), "dataset": source.described},
            resume=call.resume,
            workers=call.workers,
            progress=call.progress,
        )
