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
            hidden=True,
        ),
    ] = None
    adapter: Annotated[
        str | None,
        Option("Which adapter of a folder that holds several.", hidden=True),
    ] = None
    prompt: Annotated[
        str | None,
        Option(
            "Which prompt of an embedding model stands before each text, by its name; none for no prompt. "
            "Default: the model's usual one, if it has one.",
            hidden=True,
        ),
    ] = None
    allow_bin: Annotated[
        bool,
        Option(
            "Read pickled weights (.bin), which can run code.",
            runs="reads pickled weights, which can run code",
            hidden=True,
        ),
    ] = False
    random_weights: Annotated[
        int | None,
        Option(
            "Draw the weights anew: what is not learned.",
            doc="Draw the weights anew by this seed, as training begins with them: what is measured then was "
            "not learned.",
            metavar="SEED",
            low=0,
        ),
    ] = None
    device: Annotated[str, Option("auto, cpu, cuda, cuda:0 or mps.")] = "auto"
    device_map: Annotated[
        str | dict[str, Any] | None,
        Option(
            "Spread a model too large for one device over all GPUs, the processor and the disk: auto, "
            "balanced, balanced_low_0 or sequential; needs accelerate.",
            line=Literal["auto", "balanced", "balanced_low_0", "sequential"] | None,
            hidden=True,
        ),
    ] = None
    dtype: Annotated[
        str,
        Option(
            "float32, bfloat16, float16 or float64.",
            doc="Type of the weights: float32, bfloat16, float16, float64. In half precision keys tie, and "
            "the first of a tie counts as the most attended: bfloat16 moves offset by a token in some heads "
            "(3 of 72 of a MiniLM), and the error of its share by up to a third.",
        ),
    ] = "float32"
    threads: Annotated[
        int | None, Option("Number of processor threads. Default: all.", low=1, free=True, hidden=True)
    ] = None
    workers: Annotated[
        int | None,
        Option(
            "Number of batches in flight at the same time, which share the threads. It changes speed and "
            "memory, not results. Default: as many as threads, up to 8; 1 on an accelerator.",
            low=1,
            free=True,
            hidden=True,
        ),
    ] = None
    progress: Annotated[
        "bool | Progress",
        Option(doc="True for a bar on standard error, or an object that is told how far it is.", free=True),
    ] = False


class OneModel(Model):
    """The same, of a command that takes one checkpoint."""

    model: Annotated[
        "str | Path | PreTrainedModel",
        Option(
            "A hub id, a folder, or demo. Of the hub, HF_HOME, HF_TOKEN and HF_HUB_OFFLINE hold.",
            doc='"demo", a folder, a hub id, or a loaded model with its tokenizer. A loaded model is left '
            "as it was found.",
            metavar="MODEL", line=str, argument=True,
        ),
    ]  # fmt: skip
    tokenizer: Annotated["Tokenizer | None", Option(doc="The tokenizer of a loaded model.")] = None


OneModel.options = (OneModel.options[0], *Model.options, *OneModel.options[1:])
