"""What ``--help`` says of a command: its docstring, in lines as long as the terminal."""

import re
from typing import Any

from typer.core import TyperCommand

_BOLD = re.compile(r"\[/?bold\]")
#: Narrower terminals have no room for an option and its help side by side.
_NARROW = 78
#: A line break within a paragraph; one stays before examples, and between sentences before what is bold.
_BREAK = re.compile(r"(?<!\n)\n(?![\n ])(?!(?<=[.]\n)\[bold\])")


def unwrap(docstring: str) -> str:
    r"""Unwrap the docstring of a command, so that each paragraph is one line.

    Typer would keep the line breaks of the source, and break its lines again where they are too long.

    >>> unwrap("Measure.\n\nThe entropy, in nats, and\nnot in bits.\n[bold]--by layer[/bold]: means.")
    'Measure.\n\nThe entropy, in nats, and not in bits.\n[bold]--by layer[/bold]: means.'
    """
    return _BREAK.sub(" ", docstring)


class Help(TyperCommand):
    """A command whose help has each option in a line of its own, where there is no room for columns."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help; Typer's columns leave too few letters a line on a narrow terminal."""
        from rich.console import Console
        from rich.padding import Padding
        from rich.text import Text

        console = Console(highlight=False)
        if console.width >= _NARROW:
            super().format_help(ctx, formatter)
            return
        console.print(Text(self.get_usage(ctx)), self.help or "", sep="\n\n")
        panels: dict[str, list[Any]] = {}
        for parameter in self.get_params(ctx):
            kind = "Arguments" if parameter.param_type_name == "argument" else "Options"
            panels.setdefault(getattr(parameter, "rich_help_panel", None) or kind, []).append(parameter)
        for title, parameters in panels.items():
            console.print(Text(f"\n{title}", "bold"))
            for parameter in parameters:
                if (record := parameter.get_help_record(ctx)) is not None:
                    console.print(Padding(Text(record[0]), (0, 0, 0, 2)))
                    console.print(Padding(Text(_BOLD.sub("", record[1])), (0, 0, 0, 6)))
