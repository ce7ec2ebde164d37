"""Commands that do more than write one table: a second table on a terminal, an exit code, what was done."""

from dataclasses import replace

from attnprobe.cli.session import Given, call, choose_destination, emit, prepare
from attnprobe.errors import AttnprobeError, ModelError
from attnprobe.registry import Command

#: How many heads that disagree a terminal shows.
SHOWN = 10


def doctor(command: Command, given: Given) -> None:
    """Check a checkpoint; what is wrong with it is an exit code too."""
    prepare(command, given)
    table = call(command, given)
    emit(table, given)
    checks = zip(table["status"], table["detail"], strict=True)
    if failed := [detail for status, detail in checks if status == "failed"]:
        error = ModelError(str(failed[0]))
        error.exit_code = 1
        raise error


def prune(command: Command, given: Given) -> None:
    """Prune; where only the checkpoint can't be written, the table is."""
    prepare(command, given)
    if given["save"] is not None and given["output"] is not None:
        from attnprobe.table.destination import check_outside

        check_outside(given["output"], given["save"], "-o")
    try:
        table = call(command, given)
    except AttnprobeError as error:
        if error.table is not None:
            emit(error.table, given)
        raise
    emit(table, given)


def dynamics(command: Command, given: Given) -> None:
    """Follow a measure; a terminal shows how the order of heads settles too."""
    prepare(command, given)
    from attnprobe.commands.call.following import follow

    destination, by = choose_destination(given), given["by"]
    found = call(command, given, follow)
    emit(found.tabulate_steps() if by == "step" else found.tabulate_heads(), given)
    if by == "head" and given["measure"] != "prune" and destination.format == "table":
        print()
        emit(
            replace(found.tabulate_steps(), notes=[]), {**given, "only": None}
        )  # notes stand below the first


def correlate(command: Command, given: Given) -> None:
    """Correlate; a terminal shows the heads that disagree most too."""
    prepare(command, given)
    from attnprobe.commands.call.correlating import compare_sides

    destination, by = choose_destination(given), given["by"]
    model, domains = given["model"], {name: given[name] for name in ("in_domain", "out_domain")}
    if not model:
        own = {*domains, "measure", "column", "across_models", "by", "token", "model"}
        options = {name: one for name, one in command.on_line.items() if one.python}
        if given["measure"] is not None or any(
            one.is_given(given[name]) for name, one in options.items() if name not in own
        ):
            raise AttnprobeError(
                "Two tables are compared as they are; give a MODEL before options of model, text and task."
            )
        asked = {**domains, **{name: given[name] for name in ("column", "across_models")}}
        found = call(command, given, lambda **_: compare_sides(**asked))
    else:
        found = call(command, given, lambda by, **keywords: compare_sides(**keywords))
    if by == "head":
        emit(found.tabulate_heads(), given)
        return
    emit(found.tabulate_pairs(), given)
    if destination.format != "table":
        return
    print()
    emit(replace(found.tabulate_heads(SHOWN), notes=[]), {**given, "only": None})
