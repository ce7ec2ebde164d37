"""Write attnprobe/__init__.pyi, in which type checkers and editors find every keyword of every function.

    python docs/scripts/stub.py

Run this after a change of an option; ``tests/commands/test_declarations.py`` fails while the file is old.
"""

import inspect
import json
import re
import textwrap
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import attnprobe
from attnprobe.commands import COMMANDS

PATH = Path(__file__).parents[2] / "attnprobe" / "__init__.pyi"
_HEAD = """# Written by docs/scripts/stub.py; do not change it by hand.
# ruff: noqa: I001
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from transformers import PreTrainedModel

from attnprobe.commands.call.texts import Texts
from attnprobe.corpus.sources.document import Label
from attnprobe.corpus.tokenization import Tokenizer
from attnprobe.reports.report.report import Report
from attnprobe.reports.picture import Picture
from attnprobe.reports.view.view import View
from attnprobe.run.progress import Progress
"""


def stub() -> str:
    """Give the text of the file."""
    lines = [_HEAD.rstrip()]
    for name, home in sorted(vars(attnprobe)["_HOMES"].items(), key=lambda one: (one[1], one[0])):
        lines.append(f"from {home} import {name} as {name}")
    lines.append("\n__version__: str\n")
    lines += [_function(name, inspect.signature(command.function)) for name, command in COMMANDS.items()]
    return "\n".join(lines) + "\n"


def _function(name: str, signature: inspect.Signature) -> str:
    parts = []
    for one in signature.parameters.values():
        if one.kind is one.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        default = (
            ""
            if one.default is one.empty
            else f" = {json.dumps(one.default)}"
            if isinstance(one.default, str)
            else f" = {one.default!r}"
        )
        parts.append(f"{one.name}: {_spell(one.annotation)}{default}")
    # Each parameter stays in one line.
    whole = " ".join(f"{part},".replace(" ", "\0" if len(part) < 106 else " ") for part in parts)
    lines = textwrap.wrap(whole, 106, break_long_words=False, break_on_hyphens=False)
    inside = "\n".join(f"    {line}" for line in lines).replace("\0", " ")
    return f"def {name}(\n{inside}\n) -> {_spell(signature.return_annotation)}: ..."


def _spell(annotation: Any) -> str:
    if annotation is type(None):
        return "None"
    if get_origin(annotation) in {Union, UnionType}:
        return " | ".join(map(_spell, get_args(annotation)))
    if get_origin(annotation) is Literal:
        return f"Literal[{', '.join(map(json.dumps, get_args(annotation)))}]"
    if isinstance(annotation, str) or not get_args(annotation):
        return annotation if isinstance(annotation, str) else annotation.__name__
    return re.sub(r"\b[a-z_.]+\.(?=[A-Z])", "", repr(annotation))


if __name__ == "__main__":
    PATH.write_text(stub(), encoding="utf-8")
