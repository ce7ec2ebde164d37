"""Which checkpoint, and how it is loaded."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from attnprobe.cli.options.panels import MODEL


@dataclass(frozen=True)
class ModelOptions:
    """Which checkpoint, and how it is loaded."""

    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A hub id, a local folder, or [bold]demo[/bold], the encoder that ships with attnprobe.",
        ),
    ]
    revision: Annotated[
        str | None, typer.Option(help="Branch, tag or commit on the hub.", rich_help_panel=MODEL)
    ] = None
    cache_dir: Annotated[
        Path | None, typer.Option(help="Folder of the hub's cache.", rich_help_panel=MODEL)
    ] = None
    token: Annotated[
        str | None,
        typer.Option(
            help="Access token for gated or private checkpoints.",
            envvar="HF_TOKEN",
            show_envvar=True,
            rich_help_panel=MODEL,
        ),
    ] = None
    offline: Annotated[
        bool,
        typer.Option("--offline", help="Use local files only; no network at all.", rich_help_panel=MODEL),
    ] = False
    trust_remote_code: Annotated[
        bool,
        typer.Option(
            "--trust-remote-code",
            help="Run Python code that the checkpoint brings along.",
            rich_help_panel=MODEL,
        ),
    ] = False
    allow_bin: Annotated[
        bool,
        typer.Option(
            "--allow-bin", help="Read pickled weights (.bin), which can run code.", rich_help_panel=MODEL
        ),
    ] = False
    device: Annotated[
        str, typer.Option(help="Device of the model: auto, cpu, cuda, cuda:0, mps.", rich_help_panel=MODEL)
    ] = "auto"
    device_map: Annotated[
        Literal["auto", "balanced", "balanced_low_0", "sequential"] | None,
        typer.Option(
            help="Spread a model too large for one device over all GPUs, the processor and the disk; needs "
            "accelerate.",
            rich_help_panel=MODEL,
        ),
    ] = None
    dtype: Annotated[
        str,
        typer.Option(help="Type of the weights: float32, bfloat16, float16, float64.", rich_help_panel=MODEL),
    ] = "float32"
    threads: Annotated[
        int | None,
        typer.Option(help="Number of processor threads. Default: all.", min=1, rich_help_panel=MODEL),
    ] = None
    workers: Annotated[
        int | None,
        typer.Option(
            help="Number of batches in flight at the same time, which share the threads. It changes speed "
            "and memory, not results. Default: as many as threads, up to 8; 1 on an accelerator.",
            min=1,
            rich_help_panel=MODEL,
        ),
    ] = None


@dataclass(frozen=True)
class AnyModelsOptions(ModelOptions):
    """The same for a command that takes one checkpoint, several, or none."""

    model: Annotated[  # type: ignore[assignment]
        list[str] | None,
        typer.Argument(
            metavar="MODEL...",
            help="A hub id, a local folder, or [bold]demo[/bold]; several to compare the first with each of "
            "the others, patterns of folders such as 'run/checkpoint-*' too; none for tables.",
        ),
    ] = None


@dataclass(frozen=True)
class AnyModelOptions(ModelOptions):
    """The same for a command that takes one checkpoint, or none."""

    model: Annotated[  # type: ignore[assignment]
        str | None,
        typer.Argument(
            metavar="MODEL",
            help="A hub id, a local folder, or [bold]demo[/bold]; none for tables.",
        ),
    ] = None


#: Of a command over several checkpoints: whether what is downloaded stays.
Keep = Annotated[
    bool,
    typer.Option(
        "--keep/--no-keep",
        help="Keep what is downloaded, or drop each checkpoint when it is measured; what was there "
        "before stays.",
        rich_help_panel=MODEL,
    ),
]
