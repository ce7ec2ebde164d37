"""The command that says whether a checkpoint can be read, and how that is known."""

from contextlib import suppress
from typing import TYPE_CHECKING, Unpack

from attnprobe.errors import ModelError
from attnprobe.options import (
    HubOptions,
    ImageOptions,
    LoadedOptions,
    ModelArgument,
    TableOutput,
    TextsArgument,
)
from attnprobe.registry import command
from attnprobe.run.options import record_versions
from attnprobe.session.session import check_model, describe_call, open_call, read_first
from attnprobe.session.texts import open_texts

if TYPE_CHECKING:
    from attnprobe.table.table import HeadTable


class DoctorOptions(LoadedOptions, HubOptions, ImageOptions, total=False):
    """A checkpoint, and texts that say what it is to read."""


@command(TableOutput)
def doctor(
    model: ModelArgument, texts: TextsArgument = None, **options: Unpack[DoctorOptions]
) -> "HeadTable":
    """Can attnprobe read this checkpoint?

    Runs two short sequences, and compares what attnprobe reads with the untouched model and its own
    eager attention maps. The exit code is 1 if a check fails.

    Columns:
      check, detail  what was checked, and the result
      status         ok, warning or failed

    Examples:
      attnprobe doctor demo
      attnprobe doctor my-checkpoint -d images/
    """
    with open_call(options, model, check=False) as call:
        source = read_first(open_texts(texts, options, sees=call.sees_text))
        with suppress(ModelError):  # which goes into the table
            check_model(model, call.options["tokenizer"], call.options)
        from attnprobe.survey.diagnosis import Finding, diagnose, make_findings_table
        from attnprobe.table.builder import Labels

        call.progress.stage("examining", None)
        try:
            checkpoint = call.load_checkpoint(modality=source.kind)
        except ModelError as error:
            findings, name = [Finding("checkpoint", "failed", str(error))], str(model)
        else:
            name = checkpoint.name
            findings = diagnose(checkpoint)
    record = {"command": describe_call("doctor"), "dataset": source.described, **record_versions()}
    return make_findings_table(findings, Labels(name, source.name, record))
