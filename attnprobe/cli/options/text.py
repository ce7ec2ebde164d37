"""Which text, and how it becomes sequences."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from attnprobe.cli.options.panels import TEXT


@dataclass(frozen=True)
class HubOptions:
    """Which part of a dataset of the hub."""

    split: Annotated[str | None, typer.Option(help="Split of a hub dataset.", rich_help_panel=TEXT)] = None
    dataset_config: Annotated[
        str | None, typer.Option(help="Configuration of a hub dataset.", rich_help_panel=TEXT)
    ] = None


@dataclass(frozen=True)
class DataOptions:
    """Which text."""

    dataset: Annotated[
        str | None,
        typer.Option(
            "--dataset",
            "-d",
            metavar="DATA",
            help="A file (txt, csv, tsv, jsonl, json, parquet, conll, conllu; also .gz), a hub dataset, - "
            "for standard input, or a folder of images or of sound. Default: the sentences that ship with "
            "attnprobe.",
            rich_help_panel=TEXT,
        ),
    ] = None
    hub: HubOptions = field(default_factory=HubOptions)


@dataclass(frozen=True)
class BatchOptions:
    """How sequences are put together."""

    batch_tokens: Annotated[
        int | None,
        typer.Option(
            help="Number of tokens in a batch. It changes speed and memory, not results. Default: what suits "
            "the device.",
            min=1,
            rich_help_panel=TEXT,
        ),
    ] = None
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Memory to use above the model's own forward pass, with its unit: 256MiB, 2GB. It changes "
            "speed, not results. Default: what is fastest.",
            rich_help_panel=TEXT,
        ),
    ] = None


@dataclass(frozen=True)
class ReadingOptions:
    """What of the text is read, and how it becomes sequences."""

    text_column: Annotated[
        str | None, typer.Option(help="Column that holds the text.", rich_help_panel=TEXT)
    ] = None
    text_pair_column: Annotated[
        str | None, typer.Option(help="Column that holds the second text of a pair.", rich_help_panel=TEXT)
    ] = None
    document_column: Annotated[
        str | None,
        typer.Option(
            help="Column that names documents: rows with one value are parts of one document, and standard "
            "errors are over documents. Default: what the format says, else each row is a document.",
            rich_help_panel=TEXT,
        ),
    ] = None
    max_length: Annotated[
        int | None,
        typer.Option(
            help="Number of tokens in a window. Longer documents are cut into windows. Default: what the "
            "model takes.",
            min=1,
            rich_help_panel=TEXT,
        ),
    ] = None
    truncate: Annotated[
        bool,
        typer.Option("--truncate", help="Keep only the first window of a document.", rich_help_panel=TEXT),
    ] = False
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            "-L",
            help="Read only this many documents, the first ones.",
            min=1,
            rich_help_panel=TEXT,
        ),
    ] = None
    sample: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Draw this many documents at random, the same for the same --seed; with --limit, of the "
            "first ones. Sentences of one document (# newdoc) are drawn together.",
            min=1,
            rich_help_panel=TEXT,
        ),
    ] = None
    seed: Annotated[
        int,
        typer.Option(
            help="Seed of all that is drawn: --sample, masks, random directions and orders, shuffled tokens.",
            min=0,
            rich_help_panel=TEXT,
        ),
    ] = 42
    batches: BatchOptions = field(default_factory=BatchOptions)


@dataclass(frozen=True)
class FrequencyOptions:
    """What is rare."""

    frequencies: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A token, a tab and its frequency on each line, to decide what is rare. Default: counted in "
            "the text.",
            rich_help_panel=TEXT,
        ),
    ] = None


@dataclass(frozen=True)
class TokenOptions(FrequencyOptions):
    """How tokens are told apart."""

    content_only: Annotated[
        bool,
        typer.Option(
            "--content-only",
            help="Drop special tokens as queries and keys, and renormalise the rows.",
            rich_help_panel=TEXT,
        ),
    ] = False


@dataclass(frozen=True)
class TextOptions:
    """Which text, what of it, and how its tokens are told apart."""

    data: DataOptions = field(default_factory=DataOptions)
    reading: ReadingOptions = field(default_factory=ReadingOptions)
    tokens: TokenOptions = field(default_factory=TokenOptions)

    @property
    def reads(self) -> "list[Path | str | None]":
        """What is read."""
        return [self.data.dataset, self.tokens.frequencies]
