"""A command line on record, run again."""

import inspect
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnprobe import commands
from attnprobe.cli.session import (
    Given,
    check_destination,
    collect_tables,
    is_first_process,
    list_read,
    set_environment,
)
from attnprobe.commands import COMMANDS
from attnprobe.commands.output import Output
from attnprobe.commands.registry import Command
from attnprobe.errors import AttnprobeError
from attnprobe.option import Group, Option
from attnprobe.options import MODEL
from attnprobe.table.cells import clean

if TYPE_CHECKING:
    from attnprobe.commands.call.record import Record
    from attnprobe.run.record import Difference
    from attnprobe.table.head_table import HeadTable


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
        from attnprobe.intervention.pruning.options import list_order_files

        found: list[str] = []
        for name, option in COMMANDS[self.name].on_line.items():
            value = (self.given.get(name) or []) if option.reads else []
            for one in [value] if isinstance(value, str) else value:
                if option.reads == "order":
                    found += list_order_files(one)
                elif option.reads == "table":
                    found.append(str(Path(one).with_suffix(".json")))
                else:
                    found.append(one)
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


#: How many checkpoints are listed.
_LISTED = 5
#: How many characters of a command are shown.
_LONGEST = 2000
#: How much of a hash is shown.
_SHOWN = 12


class _Again(Group):
    """What is run again."""

    path: Annotated[
        Path,
        Option(
            "A table that attnprobe wrote, the json beside it, or a page of report.",
            metavar="TABLE|REPORT", argument=True, reads="table",
        ),
    ]  # fmt: skip
    check: Annotated[bool, Option("Only say what differs here: exit code 1 if anything does, or else 0.")] = (
        False
    )
    anyway: Annotated[bool, Option("Run although the checkpoint or the data differ.")] = False
    trust_remote_code: Annotated[
        bool,
        Option(
            "Allow --trust-remote-code on record: it runs Python code that the checkpoint brings along.",
            panel=MODEL,
        ),
    ] = False
    allow_bin: Annotated[
        bool,
        Option("Allow --allow-bin on record: it reads pickled weights, which can run code.", panel=MODEL),
    ] = False


def rerun(command: Command, given: Given) -> None:
    """Make a table or a report again, and say whether the numbers are the same.

    Says first what is on record (the command, versions, hashes of the checkpoint and the data) and what
    differs here; then runs the command. A checkpoint or data that differ are refused without --anyway.
    The new table goes to standard output or where -o says: options on record about where things go
    (-o, --overwrite, --resume, --save ...) are left out.
    Exit code 1 if a number differs by more than a millionth of the largest value of its column.

    Examples:
      attnprobe rerun heads.csv --check

      attnprobe rerun heads.csv -o again.csv

      attnprobe rerun report.html -o again.html
    """
    from attnprobe.commands.call.record import record

    path, check = given["path"], given["check"]
    found = record(path)
    said = found.command
    teller = _Teller(quiet=given["quiet"] or not is_first_process())
    if isinstance(said, str):
        teller.describe(found, said)
        raise AttnprobeError(
            f"The record names a function of Python, {said}; only command lines can be run again. Call it "
            "with the options on record."
        )
    line = read_line(said, [name for name in ("trust_remote_code", "allow_bin") if given[name]])
    words = _make_words(line, given)
    format = "table"
    if found.table is not None and not check:
        format = check_destination(given, list_read(command, given)).format
    set_environment(offline=bool(line.given.get("offline")))
    teller.describe(found, quote_words(said))
    differences = _find_differences(found, line)
    for one in differences:
        teller.say(one.sentence)
    if not differences:
        teller.say("nothing differs here from what is on record.")
    for sentence in _note_unhashed(found):
        teller.say(sentence)
    if check:
        raise typer.Exit(1 if differences else 0)
    if any(one.decisive for one in differences) and not given["anyway"]:
        raise AttnprobeError(
            "With another checkpoint or other data the numbers would not be those on record; add --anyway to "
            "run the command all the same."
        )
    if line.left:
        teller.say(f"options left out, which say where things go: {', '.join(line.left)}.")
    if "--token" in line.left:
        teller.say("the access token is not on record; that of `hf auth login` or HF_TOKEN is used.")
    from attnprobe.cli.app import call_words

    with collect_tables() as tables:
        code = call_words(words)
    if code:
        raise typer.Exit(code)
    if is_first_process() and found.table is not None and "" in tables:
        _compare(found.table, tables[""], line, teller, whole=format != "table")
    if is_first_process() and found.tables:
        _compare_pages(found.tables, tables, teller)


class _Teller:
    """Prints sentences on standard error, unless it is quiet."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def say(self, sentence: str) -> None:
        if not self._quiet:
            print(f"attnprobe: {clean(sentence)}", file=sys.stderr)

    def describe(self, found: "Record", command: str) -> None:
        if (left := len(command) - _LONGEST) > 0:  # it would fill screens; what is run is the whole
            command = f"{command[:_LONGEST]} ... and {left:,} characters more"
        self.say(f"on record: {command}")
        if found.versions:
            self.say("made with " + ", ".join(f"{name} {one}" for name, one in found.versions.items()) + ".")
        checkpoints = found.checkpoints
        for called, _, model in checkpoints[:_LISTED]:
            name = clean(str(called or model.get("name", "a checkpoint")))
            self.say(f"checkpoint {name}: {_identify(model)}.")
        if len(checkpoints) > _LISTED:
            self.say(f"and {len(checkpoints) - _LISTED} checkpoints more.")
        for one in found.data:
            if isinstance(digest := one.get("sha256"), str):
                self.say(f"data {clean(str(one.get('name')))}: SHA-256 {clean(digest)[:_SHOWN]}.")
        options = found.said.get("options")
        if isinstance(found.command, str) and isinstance(options, dict):
            asked = ", ".join(f"{clean(str(name))} {clean(str(one))}" for name, one in options.items() if one)
            self.say(f"options: {asked}.")


def _identify(model: Any) -> str:
    if isinstance(commit := model.get("commit"), str):
        return f"commit {clean(commit)}"
    weights = model.get("weights")
    if not isinstance(weights, dict) or not weights:
        return "no hash"
    name, digest = next(iter(weights.items()))
    more = f", and {len(weights) - 1} more" if len(weights) > 1 else ""
    return f"{clean(str(name))} with SHA-256 {clean(str(digest))[:_SHOWN]}{more}"


def _find_differences(found: "Record", line: RecordedLine) -> "list[Difference]":
    from attnprobe.run.record import Difference

    threads = str(line.given.get("threads") or "")
    more: list[Difference] = []
    try:
        models = line.models
    except AttnprobeError as error:
        models, more = [], [Difference(clean(str(error)), decisive=True)]
    return more + found.differences(
        models,
        line.data,
        device=str(line.given.get("device") or "auto"),
        threads=int(threads) if threads.isdecimal() and len(threads) < 6 else None,
        offline=bool(line.given.get("offline")),
    )


def _note_unhashed(found: "Record") -> list[str]:
    """Note of what data only the numbers can tell whether they are the same."""
    names = [clean(str(one.get("name"))) for one in found.data if "sha256" in one and one["sha256"] is None]
    return [
        f"there is no hash of {name} on record: only the numbers tell whether it is the same."
        for name in dict.fromkeys(names)
    ]


def _make_words(line: RecordedLine, given: Given) -> list[str]:
    """Make the command line to run: that on record, with the output that is asked for here."""
    known = commands.COMMANDS[line.name].on_line
    words: list[str] = []
    for option in Output.options:
        value, name = given[option.name], f"--{option.name.replace('_', '-')}"
        if value and option.name in known:
            words += [name] if value is True else [name, str(value)]
        elif value and not option.is_switch:
            raise AttnprobeError(f"{line.name}, the command on record, has no {name}; leave it out.")
    name, *rest = line.words
    return [name, *words, *rest]


def _compare(
    before: "HeadTable", again: "HeadTable", line: RecordedLine, teller: _Teller, *, whole: bool
) -> None:
    """Say whether the numbers are the same, and leave with exit code 1 where they are not."""
    from attnprobe.findings.sameness import compare_tables

    if not any(column.role == "measure" for column in before.columns):
        return  # a diagnosis, whose sentences hold times
    digits = str(line.given.get("precision") or "")
    result = compare_tables(before, again, int(digits) if digits.isdecimal() else None, whole=whole)
    for sentence in result.sentences():
        teller.say(sentence[:1].lower() + sentence[1:])
    if not result.close:
        raise typer.Exit(1)


def _compare_pages(
    before: "Mapping[str, HeadTable]", again: "Mapping[str, HeadTable]", teller: _Teller
) -> None:
    """Say whether the tables of two reports hold the same numbers, and leave with 1 where they do not."""
    from attnprobe.findings.sameness import compare_tables
    from attnprobe.reports.page import choose_precision
    from attnprobe.table.naming import join_names

    same, close = [], True
    for name, table in before.items():
        if name not in again:
            teller.say(f"{name} is on record only.")
            close = False
            continue
        result = compare_tables(table, again[name], choose_precision(len(table)))
        close &= result.close
        if result.exact:
            same.append(name)
        for sentence in () if result.exact else result.sentences():
            teller.say(f"{name}: {sentence[:1].lower()}{sentence[1:]}")
    if same:
        teller.say(f"the numbers of {join_names(same)} are those on record, digit for digit.")
    if not close:
        raise typer.Exit(1)


#: The command, which Python has no function for: ``attnprobe.record`` reads what it reads.
RERUN = Command(
    rerun,
    (*_Again.options[:1], *Output.options, *_Again.options[1:]),
    guesses=("reproduce", "repeat", "again"),
    docstring=inspect.cleandoc(rerun.__doc__ or ""),
)
