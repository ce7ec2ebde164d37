"""The command that says whether a checkpoint can be read, and how that is known."""

from attnprobe.cli.options import ModelOptions, OutputOptions, TextOptions, takes
from attnprobe.cli.session import corpus_options, emit, facts, load, open_text, prepare, progress
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
    prepare(model, output)
    from attnprobe.model.loading.support import BadCheckpointError
    from attnprobe.run.budget import itemsize_of, price_of_statistics
    from attnprobe.run.fitting import fitted
    from attnprobe.run.input.corpus import tokenised
    from attnprobe.survey.diagnosis import Finding, diagnose, estimate, findings_table
    from attnprobe.survey.tabulate import census_statistics
    from attnprobe.table.builder import Labels

    source = open_text(text)
    with progress(output) as watcher:
        watcher.stage("examining", None)
        try:
            checkpoint = load(model, modality=source.kind)
        except BadCheckpointError as error:
            findings, name = [Finding("checkpoint", "failed", str(error))], model.model
        else:
            name = checkpoint.name
            findings, examined = diagnose(checkpoint)
            if examined is not None:
                checkpoint, architecture = examined
                options, price = corpus_options(text), None
                if options.budget is not None:
                    price = price_of_statistics(architecture, census_statistics(), itemsize_of(checkpoint))
                with (
                    tokenised(
                        checkpoint, source.documents, options, architecture=architecture, price=price
                    ) as corpus,
                    fitted(checkpoint, architecture, corpus, options.budget, price, watcher.say),
                ):
                    findings += estimate(checkpoint, architecture, corpus, source.name)
    labels = Labels(name, source.name, facts(source))
    emit(findings_table(findings, labels), output)
    failed = [finding for finding in findings if finding.status == "failed"]
    if failed:
        raise CheckFailedError(failed[0].detail)
