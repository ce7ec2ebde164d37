"""The command that says whether a checkpoint can be read, and how that is known."""

from attnprobe.cli.options import ModelOptions, OutputOptions, TextOptions, takes
from attnprobe.cli.session import call, emit, keywords, prepare
from attnprobe.errors import CheckFailedError


@takes(ModelOptions, TextOptions, OutputOptions)
def doctor(model: ModelOptions, text: TextOptions, output: OutputOptions) -> None:
    """Check a checkpoint: architecture, how its attention is reached, and what a corpus will cost.

    Runs two short sequences and compares what attnprobe reads with the untouched model and with its own
    eager attention maps. Exit code 1 if something is wrong.

    Examples:
      attnprobe doctor demo

      attnprobe doctor my-checkpoint -d corpus.jsonl
    """
    prepare(model, output, reads=text.reads)
    from attnprobe.api import doctor as api

    table = call(api.doctor, output, model.model, text.data.dataset, **keywords(model, text))
    emit(table, output)
    failed = [
        detail for status, detail in zip(table["status"], table["detail"], strict=True) if status == "failed"
    ]
    if failed:
        raise CheckFailedError(str(failed[0]))
