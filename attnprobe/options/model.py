"""Options of the checkpoint: which one, and how it is loaded and run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from attnprobe.option import Group, Option

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from attnprobe.corpus.tokenization import Tokenizer
    from attnprobe.run.progress import Progress

#: What they are sorted under in ``--help``.
MODEL = "Model"


class Model(Group, panel=MODEL):
    """Which checkpoint, and how it is loaded and run."""

    revision: Annotated[str | None, Option("Branch, tag or commit on the hub.", free=True)] = None
    cache_dir: Annotated[
        Path | str | None, Option("Folder of the hub's cache.", line=Path | None, place=True, free=True)
    ] = None
    token: Annotated[
        str | None,
        Option(
            "Access token for gated or private checkpoints.",
            envvar="HF_TOKEN", place=True, free=True,
        ),
    ] = None  # fmt: skip
    offline: Annotated[
        bool,
        Option("Use local files only; no network at all.", free=True),
    ] = False
    trust_remote_code: Annotated[
        bool,
        Option(
            "Run Python code that the checkpoint brings along.",
            runs="runs Python code that the checkpoint brings along",
        ),
    ] = False
    base: Annotated[
        str | None,
        Option(
            "What an adapter was trained on, a folder or a hub id. Default: what the adapter names.",
        ),
    ] = None
    adapter: Annotated[
        str | None,
        Option("Which adapter of a folder that holds several."),
    ] = None
    prompt: Annotated[
        str | None,
        Option(
            "Which prompt of an embedding model stands before each text, by its name; none for no prompt. "
            "Default: the model's usual one, if it has one.",
        ),
    ] = None
    allow_bin: Annotated[
        bool,
        Option(
            "Read pickled weights (.bin), which can run code.",
            runs="reads pickled weights, which can run code",
        ),
    ] = False
    random_weights: Annotated[
        int | None,
        Option(
            "Draw the weights anew by this seed, as training begins with them: what is measured then was not "
            "learned.",
            metavar="SEED", low=0,
        ),
    ] = None  # fmt: skip
    device: Annotated[
        str,
        Option(
            "Device of the model: auto, cpu, cuda, cuda:0, mps.",
        ),
    ] = "auto"  # fmt: skip
    device_map: Annotated[
        str | dict[str, Any] | None,
        Option(
            "Spread a model too large for one device over all GPUs, the processor and the disk; needs "
            "accelerate.",
            line=Literal["auto", "balanced", "balanced_low_0", "sequential"] | None,
        ),
    ] = None
    dtype: Annotated[
        str,
        Option(
            "Type of the weights: float32, bfloat16, float16, float64.",
            doc="Type of the weights: float32, bfloat16, float16, float64. In half precision keys tie, and "
            "the first of a tie counts as the most attended: bfloat16 moves offset by a token in some heads "
            "(3 of 72 of a MiniLM), and the error of its share by up to a third.",
        ),
    ] = "float32"
    threads: Annotated[
        int | None,
        Option(
            "Number of processor threads. Default: all.",
            low=1, free=True,
        ),
    ] = None  # fmt: skip
    workers: Annotated[
        int | None,
        Option(
            "Number of batches in flight at the same time, which share the threads. It changes speed and "
            "memory, not results. Default: as many as threads, up to 8; 1 on an accelerator.",
            low=1, free=True,
        ),
    ] = None  # fmt: skip
    progress: Annotated[
        "bool | Progress",
        Option(doc="True for a bar on standard error, or an object that is told how far it is.", free=True),
    ] = False


class OneModel(Model):
    """The same, of a command that takes one checkpoint."""

    model: Annotated[
        "str | Path | PreTrainedModel",
        Option(
            "A hub id, a local folder, or [bold]demo[/bold], the encoder that ships with attnprobe.",
            doc='"demo", a folder, a hub id, or a loaded model with its tokenizer. A loaded model is left '
            "as it was found.",
            metavar="MODEL", line=str, argument=True,
        ),
    ]  # fmt: skip
    tokenizer: Annotated["Tokenizer | None", Option(doc="The tokenizer of a loaded model.")] = None


OneModel.options = (OneModel.options[0], *Model.options, *OneModel.options[1:])
