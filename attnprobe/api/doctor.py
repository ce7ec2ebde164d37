"""The function that says whether a checkpoint can be read, and how that is known."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from attnprobe.api.calls import begun, called, check_model, checkpoint_of
from attnprobe.api.commands import command
from attnprobe.api.keywords import (
    ModelKeywords,
    TextKeywords,
    TokenKeywords,
    WorkKeywords,
    given,
    spelled_out,
)
from attnprobe.api.texts import Texts, opened
from attnprobe.corpus.tokens.tokenization import Tokenizer
from attnprobe.model.loading.support import BadCheckpointError
from attnprobe.table.builder import Labels
from attnprobe.table.head_table import HeadTable

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class DoctorKeywords(ModelKeywords, TextKeywords, TokenKeywords, WorkKeywords, total=False):
    """All that a diagnosis takes; it keeps no state."""


@spelled_out
def doctor(
    model: "str | Path | PreTrainedModel",
    texts: Texts = None,
    *,
    tokenizer: Tokenizer | None = None,
    **options: Unpack[DoctorKeywords],
) -> HeadTable:
    """Check a checkpoint: architecture, how its attention is reached, and what a corpus will cost.

    Args:
        model: As for ``census``.
        texts: As for ``census``.
        tokenizer: The tokenizer of a loaded model.
        options: See ``ModelKeywords``, ``TextKeywords``, ``TokenKeywords`` and ``WorkKeywords`` in
            ``attnprobe.api.keywords``.

    Returns:
        One row a finding, with the status ``"ok"``, ``"warning"`` or ``"failed"``.
    """
    with called(options, model) as call:
        source = begun(opened(texts, named=given(options, TextKeywords)))
        with suppress(BadCheckpointError):  # which goes into the table
            check_model(model, tokenizer, options)
        from attnprobe.run.memory import itemsize_of, price_of_statistics
        from attnprobe.run.preparation import prepared
        from attnprobe.run.versions import made_with
        from attnprobe.statistics.registry import census_statistics
        from attnprobe.survey.diagnosis import Finding, diagnose, estimate, findings_table

        call.progress.stage("examining", None)
        try:
            checkpoint = checkpoint_of(model, tokenizer, call.load, source.kind)
        except BadCheckpointError as error:
            findings, name = [Finding("checkpoint", "failed", str(error))], str(model)
        else:
            name = checkpoint.name
            findings, examined = diagnose(checkpoint)
            if examined is not None:
                checkpoint, architecture = examined
                with prepared(
                    checkpoint,
                    architecture,
                    source.documents,
                    call.corpus,
                    price=lambda: price_of_statistics(
                        architecture, census_statistics(), itemsize_of(checkpoint)
                    ),
                    workers=call.workers,
                    progress=call.progress,
                ) as ready:
                    findings += estimate(checkpoint, architecture, ready, source.name)
    record = {"command": command("doctor"), "dataset": source.described, **made_with()}
    return findings_table(findings, Labels(name, source.name, record))
