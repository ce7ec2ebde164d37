"""The command that says whether a checkpoint can be read, and how that is known."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from attnprobe.commands.output import Output
from attnprobe.commands.registry import command
from attnprobe.errors import AttnprobeError
from attnprobe.option import Option
from attnprobe.options import DEFAULTS, MODEL, TEXTS, Images, OneModel

if TYPE_CHECKING:
    from attnprobe.commands.call.texts import Texts
    from attnprobe.table.head_table import HeadTable


@command(OneModel, *TEXTS, Images, Output)
def doctor(
    model: Any,
    texts: "Texts" = None,
    *,
    speed: Annotated[
        bool,
        Option(
            "Try the types of weights that this machine multiplies, and name the fastest whose numbers agree "
            "with those of float32 within their errors.",
            panel=MODEL,
        ),
    ] = False,
    **options: Any,
) -> "HeadTable":  # fmt: skip
    """Check a checkpoint: architecture, how its attention is reached, and what a corpus will cost.

    Runs two short sequences and compares what attnprobe reads with the untouched model and with its own
    eager attention maps. Exit code 1 if something is wrong.

    With --speed, the census of a part of the corpus is taken in bfloat16 and float16 too, where the processor
    or the GPU multiplies them, and each is timed beside float32.

    Examples:
      attnprobe doctor demo

      attnprobe doctor my-checkpoint -d corpus.jsonl

      attnprobe doctor my-checkpoint -d corpus.jsonl --speed

    Returns:
        One row a finding, with the status ``"ok"``, ``"warning"`` or ``"failed"``.
    """
    from contextlib import suppress
    from dataclasses import replace

    from attnprobe.commands.call.call import check_model, load_model, open_call, read_first, sees_text
    from attnprobe.commands.call.record import describe_call
    from attnprobe.commands.call.texts import open_texts
    from attnprobe.model.refusals import BadCheckpointError
    from attnprobe.table.builder import Labels

    if speed:
        _check_speed(model, options)
    with open_call(options, model) as call:
        source = read_first(open_texts(texts, named=options, sees=lambda: sees_text(model, call)))
        with suppress(BadCheckpointError):  # which goes into the table
            check_model(model, call.tokenizer, options)
        from attnprobe.run.memory import find_itemsize, price_statistics
        from attnprobe.run.preparation import prepare_corpus
        from attnprobe.run.record import record_versions
        from attnprobe.statistics.registry import census_statistics
        from attnprobe.survey.diagnosis import Finding, diagnose, estimate, make_findings_table

        call.progress.stage("examining", None)
        try:
            checkpoint = load_model(model, call.tokenizer, call.load, source.kind)
        except BadCheckpointError as error:
            findings, name = [Finding("checkpoint", "failed", str(error))], str(model)
        else:
            name = checkpoint.name
            findings, examined = diagnose(checkpoint)
            if examined is not None:
                checkpoint, architecture = examined
                with prepare_corpus(
                    checkpoint,
                    architecture,
                    source.documents,
                    call.corpus,
                    price=lambda: price_statistics(
                        architecture, census_statistics(), find_itemsize(checkpoint)
                    ),
                    workers=call.workers,
                    progress=call.progress,
                ) as ready:
                    findings += estimate(checkpoint, architecture, ready, source.name)
                    if speed:
                        from attnprobe.survey.fewer_bits import compare_dtypes

                        findings += compare_dtypes(
                            checkpoint,
                            architecture,
                            ready,
                            lambda dtype: load_model(
                                model, call.tokenizer, replace(call.load, dtype=dtype), source.kind
                            ),
                        )
    record = {"command": describe_call("doctor"), "dataset": source.described, **record_versions()}
    return make_findings_table(findings, Labels(name, source.name, record))


def _check_speed(model: Any, options: Mapping[str, Any]) -> None:
    """Refuse what leaves nothing to choose."""
    if not isinstance(model, str | Path):
        raise AttnprobeError("--speed loads the checkpoint in several types; give its folder or its hub id.")
    if options.get("dtype", DEFAULTS["dtype"]) != DEFAULTS["dtype"]:
        raise AttnprobeError("--speed tries types of weights beside float32; leave out --dtype.")
