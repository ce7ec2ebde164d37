"""The command that measures a checkpoint section by section and puts all tables into one page: report."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from attnprobe.commands.roles import RoleGold
from attnprobe.commands.view import PictureOutput
from attnprobe.errors import UsageError
from attnprobe.options import (
    DEFAULTS,
    FrequencyOptions,
    GroupOptions,
    LabelsArgument,
    LoadedOptions,
    MetricOptions,
    TaskOptions,
    TextOptions,
    TextsArgument,
    path_option,
    text_option,
)
from attnprobe.registry import Option, command, split_names
from attnprobe.reports.report.contents import OF_GOLD, SECTIONS, Contents, read_folder, sort_tables
from attnprobe.run.options import record_versions
from attnprobe.session.roles import check_role_options
from attnprobe.session.session import describe_call, open_call
from attnprobe.session.texts import check_standard_input, list_files, replay
from attnprobe.table.naming import join_names

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from attnprobe.corpus.source import GivenTexts
    from attnprobe.reports.report.page import Report

#: What every report has unless somebody picks.
_USUAL = ("census", "roles", "sentences", "distance")


class PageOutput(PictureOutput, total=False):
    """Where a page goes."""

    output: Annotated[Path | None, path_option("Write this .html file. Default: a page in the browser.")]


class ReportOptions(
    LoadedOptions,
    TextOptions,
    FrequencyOptions,
    GroupOptions,
    RoleGold,
    TaskOptions,
    MetricOptions,
    total=False,
):
    """What the sections of a report are asked with."""


@command(PageOutput)
def report(
    model: Annotated[
        "str | Path | PreTrainedModel | None",
        Option(
            "A hub id, a folder, or demo; none for tables.",
            metavar="MODEL",
            argument=True,
        ),
    ] = None,
    texts: TextsArgument = None,
    labels: LabelsArgument = None,
    *,
    sections: Annotated[
        str | Sequence[str] | None,
        Option(
            "Measure only these: census, roles, sentences, syntax, coreference, links, groups, importance, "
            "distance, prune, correlate. Default: what the data allow.",
            metavar="NAME,NAME",
        ),
    ] = None,
    out_domain: Annotated[
        "GivenTexts",
        text_option("Other data: test whether the same heads matter there.", metavar="DATA", reads="data"),
    ] = None,
    from_tables: Annotated[
        Path | str | None,
        Option("Make the report from a folder of tables.", flags=("--from",), metavar="DIR", reads="data"),
    ] = None,
    save_tables: Annotated[
        Path | str | None, Option("Also write each table as soon as it is measured.", metavar="DIR")
    ] = None,
    overwrite: Annotated[bool, Option(doc="Replace tables in the folder save_tables.")] = False,
    **options: Unpack[ReportOptions],
) -> "Report":
    """What do the heads of a checkpoint do, on one page for colleagues?

    The page shows maps and roles of all heads, a card for each head with its numbers and what it looks
    at in three sentences of the data, heads with similar attention, and for a task, importance and
    pruning. It is one file that needs no network and contains the tables. A table that is already in
    the folder of --save-tables, for the same model, data and options, is not measured again.

    Examples:
      attnprobe report demo -o report.html
      attnprobe report my-bert -d dev.tsv --save-tables tables -o report.html
      attnprobe report --from tables -o report.html

    Returns:
        A report that shows itself in a notebook, with ``save("report.html")`` for a file and ``tables``.

    Raises:
        AttnprobeError: Where a section fails, with the tables before it as ``error.table``, by name.

    >>> made = report("demo", ["The parcel came late.", "Who rang?"], sections="census,sentences")
    >>> made
    Report('demo': census, profile)
    """
    check_role_options(options)
    if from_tables is not None:
        named = {"model": model, "texts": texts, "labels": labels, "sections": sections}
        _check_nothing_else({**named, "out_domain": out_domain, "save_tables": save_tables, **options})
        unwatched = "They are of a report that measures: give it the MODEL."
        read = sort_tables(read_folder(Path(from_tables)))
        from attnprobe.reports.report.page import Report

        return Report(Contents(read, (), unwatched, describe_call("report")))
    if model is None:
        raise UsageError("Name a MODEL to measure, or a folder of tables with --from DIR.")
    has_task = labels is not None or options["label_column"] is not None or options["objective"] is not None
    wanted = _choose_sections(split_names(sections), has_task, out_domain is not None, options)
    check_standard_input(texts, out_domain)
    gold = [options[name] for name in OF_GOLD.values()]
    if any("-" in list_files(files) for files in gold):
        raise UsageError("A report reads gold links more than once; give a file, not standard input.")
    from attnprobe.commands._sections import Sections, TableFolder

    texts, labels, out_domain = replay(texts), replay(labels), replay(out_domain)
    given = {**options, **{name: replay(options[name]) for name in OF_GOLD.values()}}
    with open_call(options, model) as call:
        run = Sections(call, model, texts, labels, out_domain, given, picked=sections is not None)
        run.check(wanted)
        folder = TableFolder(None if save_tables is None else Path(save_tables), overwrite)
        tables, seen, chosen = run.measure_all(wanted, folder)
    about = describe_call("report"), record_versions()["versions"]
    from attnprobe.reports.report.page import Report

    return Report(Contents(sort_tables(tables), seen, chosen, *about))


def _choose_sections(named: Sequence[str] | None, has_task: bool, other: bool, options: Any) -> list[str]:
    """Choose the sections, those of which there are data if none are named, or refuse what does not fit."""
    needs = {section: (options[name], f"--{name} FILE") for section, name in OF_GOLD.items()}
    needs |= {
        "groups": (options["by_group"], "--by-group COLUMN"),
        "correlate": (other or None, "--out-domain DATA"),
    }
    if named is None:
        wanted = {*_USUAL, *(("importance", "prune") if has_task else ())}
        wanted |= {section for section, (value, _) in needs.items() if value is not None}
        return [section for section in SECTIONS if section in wanted]
    if unknown := next((name for name in named if name not in SECTIONS), None):
        raise UsageError(f"There is no section {unknown!r}; choose from {', '.join(SECTIONS)}.")
    if not set(named) - {"sentences"}:
        raise UsageError("A report needs a section with numbers: add census to --sections.")
    for section, (value, flag) in needs.items():
        if section in named and value is None:
            raise UsageError(f"The section {section} needs {flag}; add it.")
        used = section in named or (section in OF_GOLD and "roles" in named)
        if value is not None and not used:
            raise UsageError(f"{flag} is for the section {section}; add it to --sections.")
    return [section for section in SECTIONS if section in named]


def _check_nothing_else(given: Mapping[str, Any]) -> None:
    """Refuse all options beside --from that are not at their default."""
    names = [
        f"--{name.replace('_', '-')}"
        for name, value in given.items()
        if value not in (None, False, DEFAULTS.get(name)) and name not in {"progress", "threads", "workers"}
    ]
    if names:
        raise UsageError(f"--from DIR measures nothing; leave out {join_names(names)}.")
