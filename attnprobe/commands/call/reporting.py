"""The function that makes a report of a checkpoint: measures, and puts all into one page."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnprobe.commands.call.sections import Sections, TableFolder
from attnprobe.corpus.sources.document import Label
from attnprobe.corpus.sources.text import STDIN
from attnprobe.corpus.tokens import Tokenizer
from attnprobe.errors import UsageError
from attnprobe.options import DEFAULTS
from attnprobe.reports.report.contents import (
    GROUPS,
    OF_A_TASK,
    OF_GOLD,
    SECTIONS,
    Contents,
    Section,
    read_folder,
    sort_tables,
)
from attnprobe.reports.report.report import Report
from attnprobe.run.record import record_versions
from attnprobe.session.roles import open_sources, read_thresholds
from attnprobe.session.session import (
    check_labels,
    check_model,
    describe_call,
    open_call,
    read_first,
    read_task,
)
from attnprobe.session.survey import check_groups
from attnprobe.session.texts import (
    Texts,
    check_standard_input,
    open_texts,
    open_to_replay,
    replay,
)
from attnprobe.table.naming import join_names

if TYPE_CHECKING:
    from transformers import PreTrainedModel

#: What every report has unless somebody picks.
_USUAL: tuple[Section, ...] = ("census", "roles", "sentences", "distance")
#: Keywords that say how it is measured, and not what.
_HARMLESS = ("progress", "threads", "workers")
#: What is said of sentences where tables are read.
_UNWATCHED = "They are of a report that measures: give it the MODEL."


def report(
    model: "str | Path | PreTrainedModel | None" = None,
    texts: Texts = None,
    labels: Iterable[Label] | None = None,
    *,
    sections: str | Sequence[str] | None = None,
    treebank: Texts = None,
    coreference: Texts = None,
    links: Texts = None,
    links_name: str | None = None,
    thresholds: Mapping[str, float] | str | None = None,
    out_domain: Texts = None,
    by_group: str | None = None,
    from_tables: Path | str | None = None,
    save_tables: Path | str | None = None,
    overwrite: bool = False,
    tokenizer: Tokenizer | None = None,
    **options: Any,
) -> Report:
    """Make a report; the arguments are those of the command."""
    of_roles: dict[str, Any] = {"treebank": treebank, "coreference": coreference, "links": links}
    of_roles |= {"links_name": links_name, "thresholds": thresholds}
    of_roles = {name: replay(one) for name, one in of_roles.items() if one is not None}
    if from_tables is not None:
        own = {"sections": sections, "out_domain": out_domain, "save_tables": save_tables}
        own |= {"by_group": by_group}
        named = {name: one for name, one in of_roles.items() if name != "links_name"}  # which goes with links
        _check_nothing_else((model, texts, labels, tokenizer), {**own, **named, **options})
        return _read_report(Path(from_tables))
    if model is None:
        raise UsageError("Name a MODEL to measure, or a folder of tables with --from DIR.")
    has_task = labels is not None or any(options.get(name) for name in ("label_column", "objective"))
    more: list[Section] = [section for section, name in OF_GOLD.items() if name in of_roles]
    if by_group is not None:
        more.append(GROUPS)
    chosen = _choose_sections(sections, has_task=has_task, other=out_domain is not None, more=more)
    _check_used(of_roles, by_group, chosen)
    check_standard_input(texts, out_domain)
    if any(_reads_stdin(one) for one in (treebank, coreference, links)):
        raise UsageError("A report reads gold links more than once; give a file, not standard input.")
    texts, labels, out_domain = replay(texts), replay(labels), replay(out_domain)
    with open_call(options, model) as call:
        check_model(model, tokenizer, options)
        named = sections is not None or bool(of_roles)
        texts = _check_data(texts, labels, options, chosen, of_roles, named=named)
        if by_group is not None:  # or a name that is no column would be told after hours
            read_first(check_groups(open_texts(texts, named={**options, "by_group": by_group}), by_group))
        if out_domain is not None:
            out_domain, _ = open_to_replay(out_domain, None, options, find_labels=True)
        folder = TableFolder(None if save_tables is None else Path(save_tables), overwrite=overwrite)
        done = Sections(
            call, model, texts, labels, out_domain, chosen, named, of_roles, tokenizer, folder, by_group
        )
        done.measure()
    there, (seen, chosen_by) = sort_tables(done.tables), done.watched
    about = describe_call("report"), record_versions()["versions"]
    return Report(Contents(there, seen, chosen_by, *about), folder.failure)


def _reads_stdin(named: Any) -> bool:
    return STDIN in (named if isinstance(named, list | tuple) else [named] if isinstance(named, str) else [])


def _check_data(
    texts: Any, labels: Any, options: Any, chosen: Sequence[Section], of_roles: Any, *, named: bool
) -> Any:
    """Refuse data that a later section would refuse; return texts that each section can read."""
    of_a_task = any(section in OF_A_TASK for section in chosen)
    texts, source = open_to_replay(texts, labels, options, find_labels=of_a_task)
    if of_a_task:
        check_labels(source, read_task(options, labels))
    else:
        read_first(source)
    if "roles" in chosen and named:
        read_thresholds(of_roles.get("thresholds"))
        open_sources(texts, {**options, **of_roles, "label_column": None})
    return texts


def _check_used(of_roles: Mapping[str, Any], by_group: str | None, chosen: Sequence[Section]) -> None:
    """Refuse files with gold links, or groups, that no section reads."""
    for name in of_roles:
        own = next((section for section, file in OF_GOLD.items() if file == name), "roles")
        if not {"roles", own} & set(chosen):
            more = "; add it" if own == "roles" else f", and for {own}; add one"
            raise UsageError(f"--{name.replace('_', '-')} is for the section roles{more} to --sections.")
    if by_group is not None and GROUPS not in chosen:
        raise UsageError("--by-group is for the section groups; add it to --sections.")


def _choose_sections(
    asked: str | Sequence[str] | None, *, has_task: bool, other: bool, more: Sequence[Section]
) -> list[Section]:
    if asked is None:
        of_a_task = ("importance", "prune") if has_task else ()
        there = {*_USUAL, *more, *of_a_task, *(("correlate",) if other else ())}
        return [one for one in SECTIONS if one in there]
    named = asked.split(",") if isinstance(asked, str) else list(asked)
    names = [name.strip() for name in named if name.strip()]
    if unknown := next((name for name in names if name not in SECTIONS), None):
        raise UsageError(f"There is no section {unknown!r}; choose from {', '.join(SECTIONS)}.")
    if not set(names) - {"sentences"}:
        raise UsageError("A report needs a section with numbers: add census to --sections.")
    if "correlate" in names and not other:
        raise UsageError("The section correlate needs other data to compare with: add --out-domain DATA.")
    needs = {**{section: f"--{name} FILE" for section, name in OF_GOLD.items()}, GROUPS: "--by-group COLUMN"}
    if lacking := next((one for one in needs if one in names and one not in more), None):
        raise UsageError(f"The section {lacking} needs {needs[lacking]}; add it.")
    if other and "correlate" not in names:
        raise UsageError("--out-domain is for the section correlate; add it to --sections.")
    return [one for one in SECTIONS if one in names]


def _check_nothing_else(given: Sequence[Any], options: Mapping[str, Any]) -> None:
    """Refuse whatever asks for a measurement beside a folder of tables."""
    if any(one is not None for one in given):
        raise UsageError("--from DIR measures nothing; leave out the MODEL and what goes with it.")
    asked = [name for name, one in options.items() if name not in _HARMLESS and one != DEFAULTS.get(name)]
    if asked:
        names = join_names([f"--{name.replace('_', '-')}" for name in asked])
        raise UsageError(f"--from DIR measures nothing; leave out {names}.")


def _read_report(folder: Path) -> Report:
    sections = sort_tables(read_folder(folder))
    return Report(Contents(sections, (), _UNWATCHED, describe_call("report")))
