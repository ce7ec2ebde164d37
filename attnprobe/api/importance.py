"""The function that says how much each head matters."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from attnprobe.api.calls import called, check_model, loader_of, peeked, task_of
from attnprobe.api.commands import command
from attnprobe.api.keywords import InterventionKeywords, TextKeywords, TokenKeywords, given, spelled_out
from attnprobe.api.texts import Texts, opened
from attnprobe.corpus.sources.document import Label
from attnprobe.corpus.tokens.tokenization import Tokenizer
from attnprobe.intervention.request import Method, check_method
from attnprobe.table.head_table import HeadTable

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@spelled_out
def importance(
    model: "str | Path | PreTrainedModel",
    texts: Texts = None,
    labels: Iterable[Label] | None = None,
    *,
    method: Method = "gradient",
    content_only: bool = False,
    tokenizer: Tokenizer | None = None,
    **options: Unpack[InterventionKeywords],
) -> HeadTable:
    """Measure how much every head matters for a task.

    Args:
        model: ``"demo"``, a folder, a hub id, or a loaded model with its ``tokenizer``.
        texts: As for ``census``.
        labels: Where texts come one by one, what is right for each: its class, number or target text; a list
            of labels; for a text that is a list of words, a label for each word; for a pair of question and
            context, answers as SQuAD has them. Of a file or a table, name ``label_column``.
        method: ``"gradient"``, ``"lrp"`` or ``"confidence"``.
        content_only: With ``"confidence"``, drop special tokens first.
        tokenizer: The tokenizer of a loaded model.
        options: See ``ModelKeywords``, ``TextKeywords``, ``TaskKeywords`` and ``RunKeywords`` in
            ``attnprobe.api.keywords``.

    Returns:
        One row a head, or for all heads that share their weights over layers.

    Raises:
        AttnprobeError: With one sentence on what is wrong and what to do.

    Warns:
        AttnprobeWarning: Of what is worth knowing, such as the task that was chosen.

    Examples:
        >>> table = importance("demo", ["The parcel came late.", "Who rang?"])
        >>> len(table), table["objective"][0]
        (24, np.str_('masked-lm'))
    """
    label_column = options.get("label_column")
    tokens = TokenKeywords(content_only=content_only)
    with called({**options, **tokens}, model) as call:
        task = task_of(options, labels_named=labels is not None or label_column is not None)
        check_method(method, task, content_only=content_only)
        check_model(model, tokenizer, options)
        named = given(options, TextKeywords)
        source = peeked(opened(texts, labels, named=named, label_column=label_column, find_labels=True), task)
        from attnprobe.intervention.importance import importance_table

        call.progress.stage("loading", None)
        return importance_table(
            loader_of(model, tokenizer, call.load),
            source,
            call.corpus,
            task,
            method=method,
            facts={"command": command("importance"), "dataset": source.described},
            resume=call.resume,
            workers=call.workers,
            progress=call.progress,
        )
