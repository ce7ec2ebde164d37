"""The options that several commands share, each declared once; others stand with their command."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from attnprobe.option import Group, Option
from attnprobe.options.model import MODEL, Model, OneModel
from attnprobe.options.task import TASK, Labels, Metric, Task
from attnprobe.options.text import (
    TEXT,
    Batches,
    Data,
    Frequencies,
    GoldData,
    Hub,
    Images,
    Panels,
    Parts,
    Precision,
    Queries,
    Reading,
    Targets,
    Tokens,
    Weights,
)

__all__ = [
    "DEFAULTS",
    "FREE",
    "GOLD",
    "MODEL",
    "OUTPUT",
    "SURVEY",
    "SWITCHING",
    "TASK",
    "TEXT",
    "TEXTS",
    "Batches",
    "Data",
    "Frequencies",
    "GoldData",
    "Group",
    "Hub",
    "Images",
    "Labels",
    "Layers",
    "Metric",
    "Model",
    "OneModel",
    "Panels",
    "Parts",
    "Precision",
    "Queries",
    "Reading",
    "Resume",
    "Targets",
    "Task",
    "Tokens",
    "Weights",
    "list_names",
]

#: What options of the output are sorted under in ``--help``.
OUTPUT = "Output"


class Layers(Group, panel=OUTPUT):
    """Which rows the table has."""

    layers: Annotated[
        "str | int | Sequence[int] | None",
        Option(
            "Only rows of these layers, from 0.",
            doc='Only rows of these layers, counted from 0: "0,3-5", or numbers. All layers are measured.',
            metavar="0,3-5", line=str | None,
        ),
    ] = None  # fmt: skip


class Resume(Group, panel=OUTPUT):
    """Whether a run can be stopped."""

    resume: Annotated[
        Path | str | None,
        Option(
            "Keep the run's state in this file, and go on from it after Ctrl-C or a crash.",
            doc="Keep the state of the run in this file, and go on from it.",
            metavar="STATE", line=Path | None, place=True, free=True,
        ),
    ] = None  # fmt: skip


#: Text, and how its tokens are told apart; a survey of it that can be stopped; a task; and so on.
Groups = Sequence[type[Group]]
TEXTS: Groups = (Data, Hub, Reading, Batches, Frequencies, Tokens)
SURVEY: Groups = (*TEXTS, Parts, Precision, Panels, Images, Queries, Targets, Layers, Resume)
GOLD: Groups = (GoldData, Hub, Reading, Parts, Batches, Panels, Layers, Resume)
SWITCHING: Groups = (Data, Hub, Reading, Batches, Labels, Task)

#: What a keyword is where it is not given.
DEFAULTS = {one.keyword: one.default for group in Group.__subclasses__() for one in group.options}
#: What no number depends on.
FREE = {one.keyword for group in Group.__subclasses__() for one in group.options if one.free}


def list_names(*groups: type[Group]) -> set[str]:
    """Name the options of groups, as Python does."""
    return {one.keyword for group in groups for one in group.options}
