"""The function that makes a report of a checkpoint: measures, and puts all into one page."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, get_type_hints

from attnprobe.api.calls import Call, called, check_model, checkpoint_of
from attnprobe.api.census import census, distance
from attnprobe.api.checkpoints import readable
from attnprobe.api.commands import command
from attnprobe.api.correlate import compared
from attnprobe.api.importance import importance
from attnprobe.api.keywords import (
    FrequencyKeywords,
    MetricKeywords,
    ModelKeywords,
    TaskKeywords,
    TextKeywords,
    WorkKeywords,
    spelled_out,
)
from attnprobe.api.prune import prune
from attnprobe.api.roles import roles
from attnprobe.api.texts import Texts, check_standard_input
from attnprobe.corpus.sources.document import Label
from attnprobe.corpus.sources.text import OpenSource
from attnprobe.corpus.tokens.tokenization import Tokenizer
from attnprobe.errors import AttnprobeError
from attnprobe.reports.dossier.contents import OF_A_TASK, SECTIONS, Contents, Section, read_folder, sorted_in
from attnprobe.reports.dossier.report import Report, check_tables_folder
from attnprobe.run.again import again
from attnprobe.run.relay import Relay
from attnprobe.run.versions import made_with
from attnprobe.table.head_table import HeadTable

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from attnprobe.survey.viewing.seen import Seen

#: What every section has unless somebody picks.
_USUAL: tuple[Section, ...] = ("census", "roles", "sentences", "distance")
#: Those of them that not every model and not all data have.
_LEFT_OUT = ("roles", "distance")


class _UntaskedKeywords(ModelKeywords, TextKeywords, WorkKeywords, total=False):
    """All that measuring a section without a task takes."""


class _TaskedKeywords(ModelKeywords, TextKeywords, TaskKeywords, MetricKeywords, WorkKeywords, total=False):
    """All that measuring one with a task takes."""


class ReportKeywords(_TaskedKeywords, FrequencyKeywords, total=False):
    """All that a report takes. It keeps no state; the commands of its sections do."""


@spelled_out
def report(
    model: "str | Path | PreTrainedModel | None" = None,
    texts: Texts = None,
    labels: Iterable[Label] | None = None,
    *,
    sections: str | Sequence[str] | None = None,
    out_domain: Texts = None,
    from_tables: Path | str | None = None,
    save_tables: Path | str | None = None,
    overwrite: bool = False,
    tokenizer: Tokenizer | None = None,
    **options: Unpack[ReportKeywords],
) -> Report:
    """Make a report of a checkpoint: one page with maps, roles, a card for each head, and what it is worth.

    Args:
        model: As for ``census``. None with ``from_tables``.
        texts: As for ``census``.
        labels: As for ``importance``.
        sections: What is measured: ``"census"``, ``"roles"``, ``"sentences"``, ``"distance"``,
            ``"importance"``, ``"prune"``, ``"correlate"``. By default the first four; ``importance`` and
            ``prune`` too where ``labels``, ``label_column`` or an ``objective`` name a task; ``correlate``
            where ``out_domain`` is given.
        out_domain: Other data, as ``texts``; asks whether the same heads matter there.
        from_tables: A folder of tables that were saved; nothing is measured again.
        save_tables: A folder for the tables that are measured, which ``from_tables`` reads again.
        overwrite: Replace tables that lie in ``save_tables``.
        tokenizer: The tokenizer of a loaded model.
        options: See ``ModelKeywords``, ``TextKeywords``, ``FrequencyKeywords``, ``TaskKeywords``,
            ``MetricKeywords`` and ``WorkKeywords`` in ``attnprobe.api.keywords``.

    Returns:
        A report that shows itself in a notebook, with ``save("report.html")`` for a file and ``tables``.

    Raises:
        AttnprobeError: With one sentence on what is wrong and what to do.

    Examples:
        >>> made = report("demo", ["The parcel came late.", "Who rang?"], sections="census,sentences")
        >>> made
        Report('demo': census)
    """
    if from_tables is not None:
        _check_alone(model, texts, labels, sections, out_domain, save_tables)
        return _of_tables(Path(from_tables))
    if model is None:
        raise AttnprobeError("Name a MODEL to measure, or a folder of tables with --from DIR.")
    has_task = labels is not None or any(options.get(name) for name in ("label_column", "objective"))
    chosen = _sections(sections, has_task=has_task, other=out_domain is not None)
    check_standard_input(texts, out_domain)
    folder = None if save_tables is None else Path(save_tables)
    if folder is not None:
        names = [name for one in chosen for name in _tables_of(one)]
        check_tables_folder(folder, names, overwrite=overwrite)
    texts, labels, out_domain = again(texts), again(labels), again(out_domain)
    with called(options) as call:
        check_model(model, tokenizer, options)
        tables, seen, said = _measured(
            model, texts, labels, out_domain, chosen, tokenizer, options, call, asked=sections is not None
        )
    if folder is not None:
        folder.mkdir(exist_ok=True)
        for name, table in tables.items():
            table.save(folder / f"{name}.csv", overwrite=overwrite)
    contents = Contents(
        sorted_in(tables),
        seen,
        said,
        _missing(tables, _said(model), _said(texts), seen=bool(seen)),
        command("report"),
        made_with()["versions"],
    )
    return Report(contents)


def _sections(asked: str | Sequence[str] | None, *, has_task: bool, other: bool) -> list[Section]:
    """Settle what is measured."""
    if asked is None:
        return [
            *_USUAL,
            *(("importance", "prune") if has_task else ()),
            *(("correlate",) if other else ()),
        ]
    named = asked.split(",") if isinstance(asked, str) else list(asked)
    names = [name.strip() for name in named if name.strip()]
    if unknown := next((name for name in names if name not in SECTIONS), None):
        raise AttnprobeError(f"There is no section {unknown!r}; choose from {', '.join(SECTIONS)}.")
    if not set(names) - {"sentences"}:
        raise AttnprobeError("A report needs a section with numbers: add census to --sections.")
    if "correlate" in names and not other:
        raise AttnprobeError("The section correlate needs other data to compare with: add --out-domain DATA.")
    if other and "correlate" not in names:
        raise AttnprobeError("--out-domain is for the section correlate; add it to --sections.")
    return [one for one in SECTIONS if one in names]


def _tables_of(section: Section) -> list[str]:
    if section == "correlate":
        return ["correlate", "correlate_by_head"]
    return [] if section == "sentences" else [section]


def _measured(
    model: Any,
    texts: Any,
    labels: Any,
    out_domain: Any,
    chosen: Sequence[Section],
    tokenizer: Tokenizer | None,
    options: Any,
    call: Call,
    *,
    asked: bool,
) -> "tuple[dict[str, HeadTable], list[Seen], str]":
    """Measure section after section."""
    relay = Relay(call.progress)
    more = {"tokenizer": tokenizer, "progress": relay}
    own, task = (_of(group, options) | more for group in (_UntaskedKeywords, _TaskedKeywords))
    counted = _of(FrequencyKeywords, options)
    labelled = {"texts": texts, "labels": labels}
    scoreless = {name: value for name, value in task.items() if name != "metric"}
    measuring: dict[Section, Callable[[], HeadTable]] = {
        "census": partial(census, model, texts, **own, **counted),
        "roles": partial(roles, model, texts, **own, **counted),
        "distance": partial(distance, model, texts, all_pairs=True, **own),
        "importance": partial(importance, model, **labelled, **scoreless),
        "prune": partial(prune, model, **labelled, **task),
    }
    tables: dict[str, HeadTable] = {}
    seen: list[Seen] = []
    said = ""
    for number, section in enumerate(chosen, start=1):
        with relay.at(f"{section} ({number} of {len(chosen)})"):
            if section == "sentences":
                seen, said = _sentences(model, texts, tokenizer, options, call, relay)
            elif section == "correlate":
                named = {name: value for name, value in scoreless.items() if name != "name"}
                found = compared(texts, out_domain, model, **named)
                tables |= {"correlate": found.in_one_row(), "correlate_by_head": found.by_head()}
            else:
                try:
                    tables[section] = measuring[section]()
                except AttnprobeError as error:
                    if asked or section not in _LEFT_OUT:
                        raise
                    relay.say(f"The section {section} is left out: {error}")
    return tables, seen, said


def _of(group: Any, options: Any) -> dict[str, Any]:
    """Pick the options of a group that were given."""
    return {name: options[name] for name in get_type_hints(group) if name in options}


def _sentences(
    model: Any, texts: Any, tokenizer: Tokenizer | None, options: Any, call: Call, relay: Relay
) -> "tuple[list[Seen], str]":
    """Show all heads on a few sentences of the data; none of images and sound."""
    from attnprobe.survey.viewing.sentences import TOKENS, chosen
    from attnprobe.survey.viewing.viewing import seen_each

    _, source = readable(texts, None, _of(TextKeywords, options), find_labels=False)
    if source.kind != "text":
        return [], f"`attnprobe view` shows all heads on an {'image' if source.kind == 'image' else 'sound'}."
    relay.stage("loading", None)
    checkpoint = checkpoint_of(model, tokenizer, call.load, "text")
    found = chosen(_limited(source, options.get("limit")), checkpoint.tokenizer)
    try:
        return seen_each(checkpoint, found.documents, max_length=TOKENS, progress=relay), found.said
    except AttnprobeError as error:
        relay.say(f"No sentences are shown: {error}")
        return [], f"They could not be shown: {error}"


def _limited(source: OpenSource, limit: int | None) -> Any:
    from itertools import islice

    return source.documents if limit is None else islice(source.documents, limit)


def _said(named: Any) -> str:
    """Name a model or data in a command line."""
    import shlex

    return shlex.quote(str(named)) if isinstance(named, str | Path) else ""


def _missing(tables: Any, model: str, texts: str, *, seen: bool) -> dict[str, str]:
    """Say what would make each section that is not there."""
    found = {}
    data = f" -d {texts}" if texts else ""
    there = sorted_in(tables)
    of = model or "MODEL"
    for section in SECTIONS:
        if section == "sentences":
            if not seen:
                found[section] = f"attnprobe report {of}{data} -o report.html"
            continue
        if section in there:
            continue
        more = {"distance": " --all-pairs", "correlate": ""}.get(section, "")
        asked = f"{data} --label-column LABEL" if section in OF_A_TASK else data
        if section == "correlate":
            asked = f" --in-domain {texts or 'DATA'} --out-domain OTHER"
        found[section] = f"attnprobe {section} {of}{asked}{more} -o tables/{section}.csv"
    return found


def _check_alone(model: Any, texts: Any, *others: Any) -> None:
    if any(one is not None for one in (model, texts, *others)):
        raise AttnprobeError("--from DIR measures nothing; leave out the MODEL and what goes with it.")


def _of_tables(folder: Path) -> Report:
    tables = read_folder(folder)
    sections = sorted_in(tables)
    model = next((one for table in tables.values() for one in table.models), "")
    data = next((one for table in tables.values() if (one := _data_of(table))), "")
    missing = _missing(tables, _said(model), data, seen=False)
    said = "They are of a report that measures: give it the MODEL."
    return Report(Contents(sections, (), said, missing, command("report")))


def _data_of(table: HeadTable) -> str:
    """Name the data of a table as its command line did; its own sentences need no name."""
    dataset = table.provenance.get("dataset")
    name = dataset.get("name") if isinstance(dataset, dict) else None
    return "" if name in (None, "embedded", "texts") else _said(name)
