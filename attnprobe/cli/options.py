"""The options, declared once.

Each group is a dataclass whose fields are annotated for Typer, or are groups themselves.
``takes(ModelOptions, ...)`` turns a function of groups into a command that has every field of every group
as an option of its own.
"""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

MODEL, TEXT, TASK, OUTPUT = "Model", "Text", "Task", "Output"
#: One option with two names, in every command that has it.
LABEL_COLUMN = ("--label-column", "--target-column")


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
class OptionalModelOptions(ModelOptions):
    """The same for a command that can do without a checkpoint."""

    model: Annotated[  # type: ignore[assignment]
        str | None,
        typer.Argument(
            metavar="[MODEL]", help="A hub id, a local folder, or [bold]demo[/bold]; none for tables."
        ),
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
    split: Annotated[str | None, typer.Option(help="Split of a hub dataset.", rich_help_panel=TEXT)] = None
    dataset_config: Annotated[
        str | None, typer.Option(help="Configuration of a hub dataset.", rich_help_panel=TEXT)
    ] = None


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
        typer.Option("--limit", "-L", help="Read only this many documents.", min=1, rich_help_panel=TEXT),
    ] = None
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


@dataclass(frozen=True)
class TaskOptions:
    """What the model is asked to do while its heads are switched."""

    objective: Annotated[
        Literal[
            "classification",
            "multi-label",
            "regression",
            "token-classification",
            "question-answering",
            "seq2seq",
            "masked-lm",
            "causal-lm",
            "representation",
        ]
        | None,
        typer.Option(
            help="What the model is asked to do. Default: chosen from its trained head and the labels.",
            rich_help_panel=TASK,
        ),
    ] = None
    label_column: Annotated[
        str | None,
        typer.Option(
            *LABEL_COLUMN,
            help="Column that holds the class, the number or the target text; a list of labels (names, "
            "numbers, 0 and 1 for each, or one string parted by | or ,); a label for each word of a column "
            "of words; or SQuAD's answers. Of CoNLL-U: upos, xpos or deprel. Default: label, labels, class "
            "or target; of tokens or words ner_tags, tags, pos_tags, upos, labels or label; of question and "
            "context, answers.",
            rich_help_panel=TASK,
        ),
    ] = None
    force_head: Annotated[
        bool,
        typer.Option(
            "--force-head",
            help="Make up a head that the checkpoint was not trained with; its numbers mean little.",
            rich_help_panel=TASK,
        ),
    ] = False
    seed: Annotated[
        int, typer.Option(help="Seed of masks, random directions and orders.", min=0, rich_help_panel=TASK)
    ] = 42


@dataclass(frozen=True)
class MetricOptions:
    """What an answer is scored by."""

    metric: Annotated[
        Literal[
            "accuracy",
            "mcc",
            "f1",
            "f1_micro",
            "f1_macro",
            "exact_match",
            "pearson",
            "spearman",
            "mse",
            "loss",
            "similarity",
            "bleu",
        ]
        | None,
        typer.Option(
            help="classification: accuracy, mcc, f1, loss; multi-label: f1_micro, f1_macro, accuracy (all "
            "labels right), loss; regression: pearson, spearman, mse; token-classification: f1 (by seqeval, "
            "where labels are of entities), accuracy (of words), loss; question-answering: f1, exact_match, "
            "loss; masked-lm: accuracy, loss; causal-lm: loss, accuracy; seq2seq: loss, accuracy, bleu; "
            "representation: similarity. Default: the first.",
            rich_help_panel=TASK,
        ),
    ] = None


@dataclass(frozen=True)
class ResumeOptions:
    """Whether a run can be stopped."""

    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="STATE",
            help="Keep the state of the run in this file, and go on from it: after Ctrl-C or a crash, give "
            "the same command again.",
            rich_help_panel=OUTPUT,
        ),
    ] = None


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
class LayerOptions:
    """Which rows the table has."""

    layers: Annotated[
        str | None,
        typer.Option(
            metavar="0,3-5",
            help="Only rows of these layers, counted from 0. All layers are measured.",
            rich_help_panel=OUTPUT,
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
    split: Annotated[str | None, typer.Option(help="Split of a hub dataset.", rich_help_panel=TEXT)] = None
    dataset_config: Annotated[
        str | None, typer.Option(help="Configuration of a hub dataset.", rich_help_panel=TEXT)
    ] = None

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
class RoleOptions:
    """A text, files with gold links, and a run over them that can be stopped."""

    data: DataOptions = field(default_factory=DataOptions)
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
    reading: ReadingOptions = field(default_factory=ReadingOptions)
    counted: FrequencyOptions = field(default_factory=FrequencyOptions)
    layers: LayerOptions = field(default_factory=LayerOptions)
    stopping: ResumeOptions = field(default_factory=ResumeOptions)

    @property
    def reads(self) -> "list[Path | str | None]":
        """What is read."""
        files = [*(self.treebank or ()), *(self.coreference or ())]
        return [self.data.dataset, self.counted.frequencies, *files]


@dataclass(frozen=True)
class OutputOptions:
    """Where the table goes, and how much is said."""

    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="Write a file; .csv, .json, .md, .parquet or .xlsx picks the format.",
            rich_help_panel=OUTPUT,
        ),
    ] = None
    format: Annotated[
        Literal["table", "csv", "json", "md", "parquet", "xlsx"] | None,
        typer.Option(help="Default: a table on a terminal, csv in a pipe.", rich_help_panel=OUTPUT),
    ] = None
    precision: Annotated[
        int | None, typer.Option(help="Significant digits.", min=1, max=17, rich_help_panel=OUTPUT)
    ] = None
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace files that exist.", rich_help_panel=OUTPUT)
    ] = False
    bom: Annotated[
        bool,
        typer.Option("--bom", help="Begin csv with a byte order mark, for Excel.", rich_help_panel=OUTPUT),
    ] = False
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Say nothing but errors.", rich_help_panel=OUTPUT)
    ] = False
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show the traceback of an error.", rich_help_panel=OUTPUT)
    ] = False
    no_progress: Annotated[
        bool, typer.Option("--no-progress", help="Show no progress bar.", rich_help_panel=OUTPUT)
    ] = False


def takes(*groups: type[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Turn a function of option groups (and options of its own) into a function of options.

    The function's first parameters take one instance of each group; parameters after them stay
    options of the command.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(function).parameters.values())[len(groups) :]
        parameters = [_parameter(option) for group in groups for option in _options(group)]
        parameters += [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]

        @wraps(function)
        def command(**given: Any) -> None:
            filled = [_filled(group, given) for group in groups]
            function(*filled, **given)

        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        del command.__wrapped__  # type: ignore[attr-defined] - or Typer would read its signature
        return command

    return decorate


def _options(group: type[Any]) -> Iterator[Any]:
    """List the options of a group, and of the groups within it."""
    for one in fields(group):
        if is_dataclass(one.type):
            yield from _options(one.type)  # type: ignore[arg-type]
        else:
            yield one


def _filled(group: type[Any], given: dict[str, Any]) -> Any:
    """Make a group of the options that were given, which are used up."""
    return group(
        **{
            one.name: _filled(one.type, given) if is_dataclass(one.type) else given.pop(one.name)  # type: ignore[arg-type]
            for one in fields(group)
        }
    )


def _parameter(option: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if option.default is MISSING else option.default
    return inspect.Parameter(
        option.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=option.type
    )
