"""Parsing a command line on record: what it reads, what may be run again, what is left out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from attnprobe.cli.session import split_query
from attnprobe.commands import COMMANDS
from attnprobe.errors import AttnprobeError
from attnprobe.table.cleaning import clean

#: Commands that write no numbers, or whose record is that of another run.
_REFUSED = {
    "plot": "draws a picture of tables, which can be drawn again from them",
    "view": "draws a picture, which has no numbers on record",
    "rerun": "runs another command again, and has no record of its own",
}


@dataclass(frozen=True)
class RecordedLine:
    """A command line on record, parsed.

    Attributes:
        given: The options and arguments that were given, each as it was written.
        words: The same as words of a command line, without what is left out.
        left: The options that are left out, as they are written.
    """

    name: str
    given: Mapping[str, Any]
    words: Sequence[str]
    left: Sequence[str]

    @property
    def models(self) -> list[tuple[str, str | None]]:
        """The checkpoints that it names, with their revisions; patterns are replaced by what they match."""
        from attnprobe.run.training import expand_patterns

        said = self.given.get("model") or []
        named = [said] if isinstance(said, str) else list(said)
        several = [one.strip() for one in str(self.given.get("revisions") or "").split(",") if one.strip()]
        if several and len(named) == 1:
            return [(named[0], revision) for revision in several]
        return [(name, self.given.get("revision")) for name in expand_patterns(named)]

    @property
    def data(self) -> list[str]:
        """The files of data, and the tables, that it names."""
        found: list[str] = []
        for name, option in COMMANDS[self.name].on_line.items():
            value = (self.given.get(name) or []) if option.reads else []
            for one in [value] if isinstance(value, str) else value:
                if option.reads == "order":
                    found.append(one.rpartition(":")[0])
                elif option.reads == "table":
                    found.append(str(Path(one).with_suffix(".json")))
                else:
                    found.append(split_query(one)[0] if "?" in one else one)
        return [one for one in found if one]


def read_line(words: Sequence[str], trusted: Sequence[str]) -> RecordedLine:
    """Parse a command line on record, which anybody may have written; the program's name comes first.

    ``trusted`` are the options that let code of strangers run and that the user has repeated.

    Raises:
        AttnprobeError: When it is no command of attnprobe, can't be read, or would run a stranger's code.
    """
    program, *rest = words
    name = rest[0] if rest else ""
    if program != "attnprobe" or not rest:
        raise AttnprobeError(f"The command on record is none of attnprobe: {quote_words(words)}.")
    if name in _REFUSED:
        raise AttnprobeError(f"The command on record is {name}: it {_REFUSED[name]}.")
    command, context = _find_command(name)
    # Words are only parsed here: nothing is called, and --help and the like do nothing.
    parser = command.make_parser(context)
    try:
        given, more, order = parser.parse_args(list(rest[1:]))
    except Exception as error:  # of Typer's own parser, whose classes are not ours to import
        said = str(getattr(error, "format_message", error.__str__)())
        raise AttnprobeError(f"The command on record can't be read: {clean(said).rstrip('.')}.") from error
    if more:
        raise AttnprobeError(f"The command on record has a word too many: {quote_words(more[:1])}.")
    known = COMMANDS[name].on_line
    for one in known.values():
        if one.runs and given.get(one.name) and one.name not in trusted:
            said = one.flags[0]
            raise AttnprobeError(
                f"The command on record has {said}, which {one.runs}; give {said} here too if you trust the "
                "checkpoint."
            )
    ordered = list(dict.fromkeys(one for one in order if one.name in given))
    arguments = [word for one in ordered if _is_argument(one) for word in _list_values(given[one.name])]
    options = [one for one in ordered if not _is_argument(one) and one.name != "help"]
    kept = [
        word for one in options if not known[one.name].place for word in _write_option(one, given[one.name])
    ]
    left = [max(one.opts, key=len) for one in options if known[one.name].place]
    if any(word.startswith("-") and word != "-" for word in arguments):
        return RecordedLine(name, given, [name, *kept, "--", *arguments], left)
    return RecordedLine(name, given, [name, *arguments, *kept], left)


def _find_command(name: str) -> tuple[Any, Any]:
    """Find a command, and the context in which its words are parsed."""
    from attnprobe.cli.app import app

    group: Any = typer.main.get_command(app)
    if name not in group.commands:
        raise AttnprobeError(
            f"The command on record is none that this version has: {clean(name) or repr('')}."
        )
    command = group.commands[name]
    above = group.make_context("attnprobe", [name], resilient_parsing=True)
    context = command.make_context(name, [], parent=above, resilient_parsing=True)
    context.resilient_parsing = False  # so that what is wrong is said
    return command, context


def _is_argument(one: Any) -> bool:
    return one.param_type_name == "argument"


def _list_values(value: Any) -> list[str]:
    return [] if value is None else [value] if isinstance(value, str) else [str(part) for part in value]


def _write_option(option: Any, value: Any) -> list[str]:
    name = max(option.opts, key=len)
    if option.is_flag:
        return [name if value else max(option.secondary_opts, key=len)]
    return [word for one in _list_values(value) for word in (name, one)]


def quote_words(words: Sequence[str]) -> str:
    """Quote words of a record as a shell would take them, cleaned."""
    import shlex

    return shlex.join(clean(word) for word in words)
