"""What the code itself says, put into the pages when the site is built: a hook of mkdocs.

``<!-- statistics -->`` in a page is where the part of that name goes; the page of all commands has nothing
beside it. Only the run over all types of models takes long; its record lies in docs/model-types.md
(``python tests/model/test_every_type.py > docs/model-types.md``).
"""

import inspect
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from columns import COMPARED, FOUND, INSIDE, SWITCHED

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "docs" / "model-types.md"

#: Where the prose of a docstring ends and its lists begin.
_LISTS = re.compile(r"^(Args|Returns|Raises|Yields|Warns|Examples):$")


#: What the rows of a table of a statistic are.
_ROWS = {
    "head": "a row a head",
    "pair": "a row a pair of heads",
    "layer": "a row a layer",
    "label": "a row a label",
}


def statistics() -> str:
    """Define every number about where heads look, from the docstrings of the statistics."""
    from attnprobe.statistics.registry import all_statistics, families

    lines, defined = [], {}
    for family in families():
        lines.append(f"### {family.name}: {family.title}\n")
        for name, definition in _definitions().items():
            statistic = all_statistics()[name]
            if statistic.family == family:
                lines.append(f"#### `{name}`\n")
                lines.append(f"*{statistic.title}* · unit: {statistic.unit} · {_ROWS[statistic.rows]}\n")
                lines.append(f"{_refer(definition, defined)}\n")
                defined[name] = definition
    return "\n".join(lines)


@cache
def _definitions() -> dict[str, str]:
    from attnprobe.statistics.registry import all_statistics

    return {name: prose(statistic.definition) for name, statistic in all_statistics().items()}


def _refer(definition: str, defined: Mapping[str, str]) -> str:
    """Name the statistic before whose whole definition is a part of this one, in place of that part."""
    paragraphs = definition.split("\n\n")
    parts = {name: text.split("\n\n") for name, text in defined.items()}
    bases = [name for name, part in parts.items() if {*part} <= {*paragraphs}]
    if not bases:
        return definition
    base = max(bases, key=lambda name: len(parts[name]))
    rest = [paragraph for paragraph in paragraphs if paragraph not in parts[base]]
    return "\n\n".join([f"As [`{base}`](#{base}){', and:' if rest else '.'}", *rest])


def interventions() -> str:
    """Define what the commands that switch heads tabulate, from the docstrings of the functions."""
    return "\n".join(_by_column(SWITCHED))


def inside() -> str:
    """Define what the commands tabulate that look inside heads, from the docstrings of the functions."""
    return "\n".join(_by_column(INSIDE))


def compared() -> str:
    """Define what the command tabulates that compares checkpoints, from the docstrings of the functions."""
    return "\n".join(_by_column(COMPARED))


def gold() -> str:
    """Define what the commands tabulate that ask what heads find, from the docstrings of the functions."""
    return "\n".join(_by_column(FOUND))


def _by_column(commands: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    for command, columns in commands.items():
        yield f"### {command}\n"
        for names, home in columns.items():
            yield f"#### {names}\n\n{_refer(prose(inspect.getdoc(_at(home)) or ''), _definitions())}\n"


def objectives() -> str:
    """List what a model can be asked to do, the loss of an example, and the scores."""
    from attnprobe.intervention.objectives.choosing import import_objective
    from attnprobe.tasks import OBJECTIVES

    lines = ["| objective | what it is | scores, the usual one first |", "|---|---|---|"]
    for name in sorted(OBJECTIVES):
        named = ", ".join(f"`{metric}`" for metric in OBJECTIVES[name].metrics)
        about = (inspect.getdoc(import_objective(name)) or "").splitlines()[0]
        lines.append(f"| `{name}` | {about} | {named} |")
    return "\n".join(lines)


def metrics() -> str:
    """Define every score, from the docstrings of the functions that make them, and of what they share."""
    lines = []
    for module in _modules("attnprobe.intervention.metrics"):
        formulas = [
            member
            for name, member in vars(module).items()
            if getattr(member, "__module__", "") == module.__name__ and _defines_score(name, member)
        ]
        if formulas:
            lines.append(f"#### {(module.__doc__ or '').splitlines()[0].rstrip('.')}\n")
            lines += [f"{prose(inspect.getdoc(formula) or '')}\n" for formula in formulas]
    return "\n".join(lines)


def _defines_score(name: str, member: Any) -> bool:
    if name == "Score":
        return True
    if name.startswith("_") or not inspect.isfunction(member):
        return False
    signature = inspect.signature(member)
    return getattr(signature.return_annotation, "__name__", "") == "Score" or "ranks" in signature.parameters


def _modules(package: str) -> list[Any]:
    folder = import_module(package).__path__
    return [import_module(f"{package}.{module.name}") for module in pkgutil.iter_modules(folder)]


def _at(home: str) -> Any:
    module, _, path = home.partition(":")
    home_object = import_module(module)
    for name in path.split("."):
        home_object = getattr(home_object, name)
    return home_object


def prose(docstring: str) -> str:
    """Turn a docstring into Markdown: its prose and its sources, without arguments and doctests."""
    kept, skipping = [], False
    for paragraph in docstring.split("\n\n"):
        first = paragraph.strip().splitlines()[0] if paragraph.strip() else ""
        if first == "References:":
            sources = " ".join(line.strip() for line in paragraph.strip().splitlines()[1:])
            kept.append(f"Source: {sources}")
            skipping = False
            continue
        if first == "Attributes:":
            kept.append(_attributes(paragraph))
            continue
        skipping = bool(_LISTS.match(first)) or (skipping and paragraph.startswith("  "))
        if not skipping and not first.startswith(">>>"):
            kept.append(paragraph)
    text = "\n\n".join(kept).replace("``", "`")
    # A star or an underscore in a formula is no emphasis, and [CLS] is no link; code is left as it is.
    outside = re.split(r"(`[^`]*`|^    .*$)", text, flags=re.M)
    outside[::2] = [re.sub(r"([*_\[\]<])", r"\\\1", part) for part in outside[::2]]
    return re.sub(r"(?m)^(Limits|Source|Unit|Returns):", r"**\1:**", "".join(outside))


def _attributes(paragraph: str) -> str:
    lines = [line.strip() for line in inspect.cleandoc(paragraph).splitlines()[1:]]
    named = [re.sub(r"^(\w+): ", r"- `\1`: ", line) for line in lines]
    return " ".join(named).replace(" - `", "\n- `")


def commands() -> str:
    """Show every command with all its options, as Typer documents them."""
    import typer
    from typer.cli import get_docs_for_click
    from typer.main import get_command

    from attnprobe.cli.app import make_app

    command = get_command(make_app(everything=True))
    page = get_docs_for_click(obj=command, ctx=typer.Context(command), name="attnprobe")
    page = re.sub(r"(?m)^Examples:\n((?:  .*\n|\n)+)", _as_code, page)
    page = re.sub(r"(?m)^(\w.*:)\n((?:  .*\n)+)", r"\1\n\n```text\n\2```\n\n", page)
    page = page.replace("```console\n", "```text\n")  # which says how it is used, and is no example
    page = page.partition("## `attnprobe census`")[2]
    return "## `attnprobe census`" + re.sub(r"(?m)^\* `(?:-h, )?--help`.*\n", "", page)


def _as_code(examples: re.Match[str]) -> str:
    lines = [line.strip().replace("&gt;", ">") for line in examples[1].splitlines() if line.strip()]
    return "\n```sh\n" + "\n".join(lines) + "\n```\n\n"


def functions() -> str:
    """Document the function of every command; a keyword that a function before has, too, refers to it."""
    from attnprobe.commands import COMMANDS

    lines: list[str] = []
    explained: dict[str, str] = {}
    for name, command in COMMANDS.items():
        about, _, more = command.documentation.partition("\n\nArgs:\n")
        about, columns, _ = about.partition("\n\nColumns")
        used = [
            group
            for group, members in _groups().items()
            if any(option in command.options for option in members)
        ]
        shared = [option for group in used for option in _groups()[group]]
        special = _keywords(option for option in command.keywords.values() if option not in shared)
        named = ", ".join(f"[{group.__name__}](#{group.__name__.lower()})" for group in used)
        lines += [
            f"### attnprobe.{name}",
            prose(re.sub(r"(?m)^(?=  )", "    ", about).replace(":\n      ", ":\n\n      ")),
            f"Columns: see [`attnprobe {name}`](commands.md#attnprobe-{name})." if columns else "",
            "\n".join(explained.get(line, line) for line in special.splitlines()),
            f"Shared keywords: {named}." if named else "",
        ]
        lines += [_as_list(more.partition("\n\n")[2])]
        for line in special.splitlines():
            keyword = line.partition(":")[0]
            explained.setdefault(line, f"{keyword}: see [attnprobe.{name}](#attnprobe{name}).")
    return "\n\n".join(line for line in lines if line)


def _as_list(sections: str) -> str:
    """Turn the sections of a docstring behind its arguments into a list, without examples."""
    plain = sections.partition(">>>")[0].replace("``", "`")
    return re.sub(r"(?m)^(\w+):\n +", r"- **\1**: ", plain).replace("\n\n- ", "\n- ").strip()


def keywords() -> str:
    """Document the keywords that functions share."""
    return "\n\n".join(
        f"### {group.__name__}\n\n{_first_paragraph(group.__doc__ or '')}\n\n{_keywords(options)}"
        for group, options in _groups().items()
    )


def _groups() -> dict[Any, list[Any]]:
    """Give the groups of options that commands share, each with those that no group before it has."""
    from attnprobe import options
    from attnprobe.registry import read_options

    groups: dict[Any, list[Any]] = {}
    for name, group in vars(options).items():
        if name.endswith("Options"):
            before = [option for named in groups.values() for option in named]
            new = [option for option in read_options(group.__annotations__) if option not in before]
            if new:
                groups[group] = new
    return groups


def _keywords(options: Iterable[Any]) -> str:
    return "\n".join(f"- `{option.keyword}`: {prose(option.doc or option.help)}" for option in options)


def models() -> str:
    """Group the types of models by the way to their attention, or the reason why there is none."""
    ways: dict[tuple[str, str], list[str]] = {}
    reasons: dict[str, list[str]] = {}
    for name, way, lacking, evidence in recorded():
        if way in {"refused", "not tried"}:
            reason = evidence if way == "refused" else f"not tried: {evidence}"
            reasons.setdefault(_shortened(reason, name), []).append(name)
        else:
            ways.setdefault((way, lacking), []).append(name)
    read = sum(len(names) for names in ways.values())
    lines = [
        f"The last run read {read} and refused {sum(map(len, reasons.values()))}, where a model with towers "
        "counts once a tower.\n",
        "## Read\n\nEvery command works on them but those that the second column names.\n",
        "| way to the attention | refused by | model types |\n|---|---|---|",
        *(
            f"| {way} ({len(names)}) | {_listed(lacking.split(', ')) if lacking else ''} | {_listed(names)} |"
            for (way, lacking), names in sorted(ways.items())
        ),
        "\n## Refused\n\n| reason | model types |\n|---|---|",
        *(f"| {reason} | {_listed(names)} |" for reason, names in reasons.items()),
    ]
    return "\n".join(lines)


def recorded() -> Iterator[tuple[str, str, str, str]]:
    """Read what the run over all types wrote: type, way, what refuses it, and evidence or reason."""
    for line in RECORD.read_text(encoding="utf-8").splitlines()[2:]:
        name, way, lacking, evidence = (cell.strip() for cell in line.strip().strip("|").split("|", 3))
        yield name.strip("`"), way, lacking, evidence


def _shortened(reason: str, name: str) -> str:
    """Let types that are refused for one reason share a row."""
    if "layers came by" in reason:
        return "only some of its layers attend"
    plain = re.sub(r" *\(.*\)", "", reason.partition(";")[0].replace(name.partition(",")[0], "it"))
    return "its maps are not from tokens to tokens" if re.search(r"\d x \d", plain) else plain.strip(" .")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _first_paragraph(docstring: str) -> str:
    return docstring.partition("\n\n")[0].replace("\n", " ").replace("``", "`")


GENERATED: dict[str, Callable[[], str]] = {
    "statistics": statistics,
    "inside": inside,
    "compared": compared,
    "gold": gold,
    "interventions": interventions,
    "objectives": objectives,
    "metrics": metrics,
    "functions": functions,
    "keywords": keywords,
    "models": models,
}


def on_files(files: Any, config: Any) -> Any:
    """Add the page of all commands."""
    from mkdocs.structure.files import File  # which tests of the pages do without

    files.append(File.generated(config, "commands.md", content=f"# Commands\n\n{commands()}"))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the parts into a page that have a place there."""
    return re.sub(
        r"(?m)^<!-- (\w+) -->$",
        lambda place: GENERATED[place[1]]().strip() if place[1] in GENERATED else place[0],
        markdown,
    )
