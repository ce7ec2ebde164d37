"""What ``--help`` says of a command: its docstring, in lines as long as the terminal."""

import inspect
import re
from collections.abc import Callable
from typing import Any

#: A line break within a paragraph; one stays before examples, and between sentences before what is bold.
_BREAK = re.compile(r"(?<!\n)\n(?![\n ])(?!(?<=[.]\n)\[bold\])")


def help_of(command: Callable[..., Any]) -> str:
    r"""Give the docstring of a command, each paragraph in one line.

    Typer would keep the line breaks of the source, and break its lines again where they are too long.

    >>> def command():
    ...     '''Measure.
    ...
    ...     The entropy, in nats, and
    ...     not in bits.
    ...     [bold]--by layer[/bold]: means.
    ...     '''
    >>> help_of(command)
    'Measure.\n\nThe entropy, in nats, and not in bits.\n[bold]--by layer[/bold]: means.'
    """
    return _BREAK.sub(" ", inspect.getdoc(command) or "")
