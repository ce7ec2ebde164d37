"""What surveys of attention take: a text, or files with gold links, and a run over them."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import typer

from attnprobe.cli.options.output import LayerOptions, ResumeOptions
from attnprobe.cli.options.panels import LABEL_COLUMN, TEXT
from attnprobe.cli.options.text import DataOptions, FrequencyOptions, HubOptions, ReadingOptions, TextOptions


@dataclass(frozen=True)
class TargetOptions:
    """What a decoder beside an encoder reads."""

    label_column: Annotated[
        str | None,
        typer.Option(
            *LABEL_COLUMN,
            help="Column of the target texts that the decoder of an encoder-decoder checkpoint reads. "
            "Default: it reads the text itself.",
            rich_help_panel=TEXT,
        ),
    ] = None


@dataclass(frozen=True)
class WeightOptions:
    """What rows of attention hold."""

    weights: Annotated[
        Literal["attention", "norm", "both"],
        typer.Option(
            help="norm: weight each key by the length of what it gives to the residual stream, and "
            "renormalise the rows; columns end in _norm. both: side by side.",
            rich_help_panel=TEXT,
        ),
    ] = "attention"


@dataclass(frozen=True)
class SurveyOptions:
    """A text, and a run over it that can be stopped."""

    text: TextOptions = field(default_factory=TextOptions)
    targets: TargetOptions = field(default_factory=TargetOptions)
    layers: LayerOptions = field(default_factory=LayerOptions)
    stopping: ResumeOptions = field(default_factory=ResumeOptions)


@dataclass(frozen=True)
class GoldOptions:
    """Which files with gold links."""

    dataset: Annotated[
        list[str] | None,
        typer.Option(
            "--dataset",
            "-d",
            metavar="FILE",
            help="A file with gold links, also .gz, or - for standard input; repeat it for several. Default: "
            "what ships with attnprobe.",
            rich_help_panel=TEXT,
        ),
    ] = None
    hub: HubOptions = field(default_factory=HubOptions)

    @property
    def files(self) -> list[str] | None:
        """The files, or None where none is named."""
        return self.dataset or None


@dataclass(frozen=True)
class LinkOptions:
    """Files with gold links, and a run over them that can be stopped."""

    data: GoldOptions = field(default_factory=GoldOptions)
    reading: ReadingOptions = field(default_factory=ReadingOptions)
    layers: LayerOptions = field(default_factory=LayerOptions)
    stopping: ResumeOptions = field(default_factory=ResumeOptions)

    @property
    def reads(self) -> "list[Path | str | None]":
        """What is read."""
        return list(self.data.dataset or ())


@dataclass(frozen=True)
class RoleGoldOptions:
    """Which files with gold links heads can have roles by."""

    treebank: Annotated[
        list[str] | None,
        typer.Option(
            "--treebank",
            metavar="FILE",
            help="Dependencies in CoNLL-U, so that heads can have relations; repeat it for several. Default: "
            "those that ship with attnprobe, where no text is given either.",
            rich_help_panel=TEXT,
        ),
    ] = None
    coreference: Annotated[
        list[str] | None,
        typer.Option(
            "--coreference",
            metavar="FILE",
            help="CorefUD, GAP or WinoBias, so that heads can have coreference; repeat it for several.",
            rich_help_panel=TEXT,
        ),
    ] = None
    thresholds: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=VALUE,...",
            help="Other thresholds of roles: positional=0.9, delimiter=0.3, preference=0.9, rare=0.5, "
            "syntactic=0.1, coreference=0.1, induction=0.5, duplicate=0.5, broad=0.6, block=0.8.",
            rich_help_panel=TEXT,
        ),
    ] = None

    @property
    def files(self) -> list[str]:
        """What is read."""
        return [*(self.treebank or ()), *(self.coreference or ())]


@dataclass(frozen=True)
class RoleOptions:
    """A text, files with gold links, and a run over them that can be stopped."""

    data: DataOptions = field(default_factory=DataOptions)
    gold: RoleGoldOptions = field(default_factory=RoleGoldOptions)
    reading: ReadingOptions = field(default_factory=ReadingOptions)
    counted: FrequencyOptions = field(default_factory=FrequencyOptions)
    layers: LayerOptions = field(default_factory=LayerOptions)
    stopping: ResumeOptions = field(default_factory=ResumeOptions)

    @property
    def reads(self) -> "list[Path | str | None]":
        """What is read."""
        return [self.data.dataset, self.counted.frequencies, *self.gold.files]
