"""Answers to what people guess first that is called otherwise here, or is not there.

What stands for an option or a command is declared with it. Answers name options as the command line spells
them; see ``attnprobe.wording``.
"""

from collections.abc import Container, Mapping
from typing import TYPE_CHECKING

from attnprobe.option import DECLARED
from attnprobe.wording import in_python

if TYPE_CHECKING:
    from attnprobe.commands.registry import Command

#: What is not there, or not as an option, and its guesses.
_MEANT = {
    "the model comes first, without an option's name: a hub id, a folder, or demo": (
        *("model", "model-name", "model-name-or-path", "model-path", "pretrained", "m"),
    ),
    "its own tokenizer is loaded with each checkpoint": ("tokenizer", "tokenizer-name"),
    "use --batch-tokens, which counts tokens: batches hold sequences of one length, whose number depends "
    "on how long they are, and no result depends on it": ("batch-size", "batchsize", "bs", "batch"),
    "the checkpoint has the heads that it has, and each gets a row": ("num-heads", "n-heads", "heads"),
    "all layers are measured here; census, entropy and others that read attention have it, and a table of "
    "heads has a column layer": ("layers", "layer"),
    "no language needs to be named: the checkpoint's tokenizer reads the text": ("lang", "language"),
    "write the table to a file, and `attnprobe plot TABLE` draws it; in Python, table.plot() does": (
        *("plot", "figure", "heatmap", "chart", "picture", "draw"),
    ),
}
#: What a function has no keyword for, and how else it is done.
_ELSEWHERE = {
    "output": "the table that it returns has save(PATH)",
    "overwrite": "the table that it returns has save(PATH, overwrite=True)",
}


def find_answers() -> dict[str, str]:
    """List the answer to each guess, by its name as an option."""
    answers = {guess: answer for answer, guesses in _MEANT.items() for guess in guesses}
    for flag, options in DECLARED.items():
        for option in options:
            values = option.guesses if isinstance(option.guesses, dict) else dict.fromkeys(option.guesses, "")
            if flag == option.flags[0]:
                answers |= {guess: f"use {flag} {value}".rstrip() for guess, value in values.items()}
    return answers


def answer(guess: str, known: Container[str]) -> str | None:
    """Answer a guess, spelled as an option or as a keyword; None where there is no answer.

    ``known`` are the parameters that there are, in Python's spelling; an answer that names another is none.
    """
    said = find_answers().get(guess.strip("-").replace("_", "-").lower())
    if said is None or not said.startswith("use --"):
        return said
    name = said.removeprefix("use --").split(",")[0].split()[0]
    meant = in_python(f"--{name}").partition("=")[0]
    there = name.replace("-", "_") in known or meant in known
    return said if there else _ELSEWHERE.get(name)


def find_command(guess: str, commands: "Mapping[str, Command]") -> str | None:
    """Name the command that is meant by a guess; None where no name is near."""
    import difflib

    meant = {word: one.name for one in commands.values() for word in one.guesses}
    word = guess.replace("_", "-").lower()
    near = difflib.get_close_matches(word, [*commands, *meant], 1, 0.7)
    return meant.get(word) or next((meant.get(one, one) for one in near), None)
