"""The options that several commands share: keywords of Python, and options of the command line."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

from attnprobe.registry import Option, read_options
from attnprobe.table.formats import FORMATS, either
from attnprobe.tasks import METRICS, OBJECTIVES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from transformers import PreTrainedModel

    from attnprobe.corpus.document import Label
    from attnprobe.corpus.source import GivenTexts
    from attnprobe.corpus.tokenizer import Tokenizer
    from attnprobe.run.progress import Progress

    Format = str
    Metric = str
    Objective = str
else:
    Format = Literal["table", *FORMATS]
    Metric, Objective = Literal[*METRICS], Literal[*OBJECTIVES]

#: What options are sorted under in ``--help``; those of a command itself and of its task stand first.
TEXT, MODEL, OUTPUT = "Text", "Model", "Output"

model_option = partial(Option, panel=MODEL)
text_option = partial(Option, panel=TEXT)
output_option = partial(Option, panel=OUTPUT)
#: The option for what is read: data, pairs of texts, or files with gold links.
data_option = partial(text_option, name="dataset", flags=("--dataset", "-d"), reads="data")
path_option = partial(output_option, flags=("--output", "-o"), metavar="PATH")

ModelArgument = Annotated[
    "str | Path | PreTrainedModel",
    Option(
        "A hub id, a folder, or demo. HF_HOME, HF_TOKEN and HF_HUB_OFFLINE apply.",
        doc='"demo", a folder, a hub id, or a loaded model with its tokenizer, which is left unchanged.',
        metavar="MODEL",
        line=str,
        argument=True,
    ),
]
TextsArgument = Annotated[
    "GivenTexts",
    data_option(
        "A file (txt, csv, jsonl, parquet, ...), a folder, a hub dataset, or - for standard input. "
        "Default: built-in sentences.",
        doc="Strings, pairs of strings, the path of a file or of a folder of .txt files, images or sound, "
        "the id of a hub dataset, a Source; or a DataFrame, a dict of columns or a dataset with its "
        "text_column. By default the sentences that ship with attnprobe.",
        metavar="DATA",
    ),
]
GoldArgument = Annotated[
    "GivenTexts",
    data_option(
        "A file of gold links, or - for standard input; repeat for several. Default: built-in examples.",
        metavar="FILE",
        line=list[str] | None,
    ),
]
LabelsArgument = Annotated[
    "Iterable[Label] | None",
    Option(
        doc="The gold answer of each text, if texts are a sequence: its class, number or target text, a list "
        "of labels, a label for each word of a text that is a list of words, SQuAD's answers, the score "
        "of a pair, or the negative of a triplet. For a file or a table, name label_column instead."
    ),
]


class ModelOptions(TypedDict, total=False):
    """Which checkpoint, and how it is loaded and run."""

    revision: Annotated[str | None, model_option("Branch, tag or commit on the hub.", free=True)]
    trust_remote_code: Annotated[bool, model_option("Run Python code from the checkpoint.")]
    base: Annotated[str | None, model_option("The model that an adapter was trained on.", hidden=True)]
    adapter: Annotated[str | None, model_option("Which adapter, if a folder holds several.", hidden=True)]
    prompt: Annotated[
        str | None,
        model_option("Prompt of an embedding model, or none. Default: the model's own.", hidden=True),
    ]
    allow_bin: Annotated[bool, model_option("Read pickled weights (.bin), which can run code.", hidden=True)]
    random_weights: Annotated[
        int | None, model_option("Replace the weights by random ones, as a baseline.", metavar="SEED", low=0)
    ]
    device: Annotated[str, model_option("auto, cpu, cuda, cuda:0 or mps.", default="auto")]
    device_map: Annotated[
        Literal["auto", "balanced", "balanced_low_0", "sequential"] | dict[str, Any] | None,
        model_option("Spread a model over devices: auto, balanced, ... or sequential.", hidden=True),
    ]
    dtype: Annotated[
        str,
        model_option(
            "float32, bfloat16, float16 or float64.",
            default="float32",
            doc="Type of the weights: float32, bfloat16, float16, float64. In half precision, keys tie "
            "and the first counts as the most attended: offset moves in some heads (3 of 72 of a MiniLM).",
        ),
    ]
    threads: Annotated[
        int | None, model_option("Processor threads. Default: all.", low=1, high=1024, free=True, hidden=True)
    ]
    workers: Annotated[
        int | None,
        model_option(
            "Batches computed at a time. Default: one a thread, up to 8; 1 on an accelerator.",
            low=1,
            high=1024,
            free=True,
            hidden=True,
        ),
    ]
    progress: Annotated[
        "bool | Progress",
        model_option(default=False, doc="True for a progress bar, or an object of your own.", free=True),
    ]


class LoadedOptions(ModelOptions, total=False):
    """The same, for a command that takes one checkpoint."""

    tokenizer: Annotated["Tokenizer | None", model_option(doc="The tokenizer of a loaded model.")]


class HubOptions(TypedDict, total=False):
    """Which part of a hub dataset, and the name in the column ``dataset``."""

    split: Annotated[str | None, text_option("Split of a hub dataset.")]
    dataset_config: Annotated[str | None, text_option("Configuration of a hub dataset.", hidden=True)]
    name: Annotated[str | None, text_option(doc="Name for the column dataset.")]


class TextOptions(HubOptions, total=False):
    """What is read, and how it becomes sequences."""

    text_column: Annotated[str | None, text_option("Column of the text: its name, or its number from 1.")]
    text_pair_column: Annotated[str | None, text_option("Column of the second text of a pair.")]
    no_header: Annotated[bool, text_option("The first row is data: columns are numbers from 1.", hidden=True)]
    document_column: Annotated[
        str | None,
        text_option(
            "Column that names the document of a row; standard errors are over documents. Default: as the "
            "format marks them, or each row.",
            hidden=True,
        ),
    ]
    max_length: Annotated[int | None, text_option("Longest sequence in tokens. Default: the model's.", low=1)]
    truncate: Annotated[bool, text_option("Keep only the first window of a document.", hidden=True)]
    limit: Annotated[int | None, text_option("Read the first N documents.", flags=("--limit", "-L"), low=1)]
    sample: Annotated[int | None, text_option("Draw N documents at random.", metavar="N", low=1)]
    seed: Annotated[int, text_option("Seed of every random draw.", default=42, low=0, hidden=True)]
    batch_tokens: Annotated[int | None, text_option("Tokens in a batch, for speed.", low=1, hidden=True)]


class PartOptions(TypedDict, total=False):
    """Which part of the text a job reads, if several jobs share it."""

    part: Annotated[
        str | None,
        text_option("Read every N-th document from the K-th on; merge adds up.", metavar="K/N", hidden=True),
    ]


class GroupOptions(TypedDict, total=False):
    """Whether groups of documents are also measured separately."""

    by_group: Annotated[
        str | None,
        text_option(
            "Also measure each group of documents, by a column such as genre.",
            doc="Measure each group of documents too, and test whether groups are alike: a column such as "
            "genre or source; of CoNLL-U a comment (# genre = news); file, of several files; folder, of .txt "
            "files in folders.",
            metavar="COLUMN",
        ),
    ]


class ImageOptions(TypedDict, total=False):
    """Which images are read together with the text."""

    image_column: Annotated[
        str | None,
        text_option(
            "Column of images beside the text: paths, bytes or base64; or none. Default: image, image_path "
            "or file_name.",
            hidden=True,
        ),
    ]


class FrequencyOptions(TypedDict, total=False):
    """Which tokens are rare."""

    frequencies: Annotated[
        Path | str | None,
        text_option(
            "A file of token, tab, frequency: which tokens are rare. Default: counted in the text.",
            metavar="FILE",
            hidden=True,
            reads="data",
        ),
    ]


class TokenOptions(TypedDict, total=False):
    """Which tokens are left out."""

    content_only: Annotated[bool, text_option("Drop special tokens, and renormalise the rows.")]


class TargetOptions(TypedDict, total=False):
    """What the decoder of an encoder-decoder model reads."""

    label_column: Annotated[
        str | None,
        text_option(
            "Column of target texts for an encoder-decoder model. Default: the text itself.",
            hidden=True,
        ),
    ]


class WeightOptions(TypedDict, total=False):
    """How rows of attention are weighted."""

    weights: Annotated[
        Literal["attention", "norm", "both"],
        text_option(
            "attention, norm (attention times the norm of value vectors) or both.",
            default="attention",
            metavar="KIND",
            doc='"attention"; "norm" weights each key by the length of what it gives to the residual '
            "stream, ||W_O,h v_j|| (Kobayashi et al. 2020), divides each row by its sum, and gives columns "
            'that end in _norm; "both".',
        ),
    ]


class TaskOptions(TypedDict, total=False):
    """The task that the model does while its heads are masked."""

    objective: Annotated[
        Objective | None, Option("Task. Default: by the model's head and the labels.", metavar="TASK")
    ]
    label_column: Annotated[
        str | None,
        Option(
            "Column of gold answers: class, number, labels, tags or text. Default: one with a usual name.",
            doc="Column of gold answers: a class, number or target text; a list of labels (names, numbers, "
            "0 and 1 for each, or one string split by | or ,); a label for each word; SQuAD's answers; the "
            "score of a pair; of CoNLL-U upos, xpos or deprel. Default: label, labels, class or target; of "
            "words ner_tags, tags, pos_tags, upos, labels or label; of question and context, answers.",
        ),
    ]
    force_head: Annotated[bool, Option("Add an untrained task head; its numbers mean little.", hidden=True)]


class MetricOptions(TypedDict, total=False):
    """How an answer is scored."""

    metric: Annotated[
        Metric | None,
        Option(
            "Score of the task. Default: the task's usual one.",
            doc="; ".join(f"{name}: {one.scores}" for name, one in OBJECTIVES.items())
            + ". Default: the first.",
        ),
    ]


class LayerOptions(TypedDict, total=False):
    """Which rows the table has."""

    layers: Annotated[
        "str | int | Sequence[int] | None",
        output_option("Only rows of these layers, from 0.", metavar="0,3-5"),
    ]


class ResumeOptions(TypedDict, total=False):
    """Whether a run can be continued."""

    resume: Annotated[
        Path | str | None,
        output_option(
            "Keep the run's state in this file; continue from it after Ctrl-C or a crash.",
            metavar="STATE",
            free=True,
        ),
    ]


class Messages(TypedDict, total=False):
    """What is printed to standard error."""

    quiet: Annotated[bool, output_option("Print errors only.", flags=("--quiet", "-q"))]
    verbose: Annotated[bool, output_option("Show tracebacks.", flags=("--verbose", "-v"), hidden=True)]
    no_progress: Annotated[bool, output_option("Show no progress bar.", hidden=True)]


class TableOutput(Messages, total=False):
    """Where the table goes."""

    output: Annotated[Path | None, path_option(f"Write a file: {either(FORMATS, before='.')}.")]
    format: Annotated[
        Format | None,
        output_option(f"table, {either(FORMATS)}. Default: table; in a pipe csv.", hidden=True),
    ]
    only: Annotated[
        str | None, output_option("Write only these columns, with their errors.", metavar="COLUMN,...")
    ]
    rows: Annotated[int | None, output_option("Write only the first N rows.", low=1)]
    precision: Annotated[int | None, output_option("Significant digits.", low=1, high=17, hidden=True)]
    overwrite: Annotated[bool, output_option("Replace files that exist.")]
    full: Annotated[bool, output_option("Show every row and column on a terminal.")]


class SurveyOptions(
    LoadedOptions,
    TextOptions,
    FrequencyOptions,
    TokenOptions,
    PartOptions,
    GroupOptions,
    ImageOptions,
    TargetOptions,
    LayerOptions,
    ResumeOptions,
    total=False,
):
    """A survey of text that can be resumed, read in parts, and stopped once it is precise enough."""

    until: Annotated[
        "str | float | Mapping[str, float] | None",
        text_option(
            "Stop when every 95 % interval is within ± this: 0.05, or entropy=0.1,previous=0.02.",
            doc="Read documents in a random order until the 95 % interval of each head is at most this wide "
            'to either side: 0.05 for every column, or {"entropy": 0.1, "previous": 0.02}. Looks are at 128, '
            "256, 512, ... documents.",
            metavar="WIDTH",
        ),
    ]
    queries: Annotated[
        Literal["text", "image"] | None,
        text_option("Count only queries in the text, or in the image.", metavar="text|image", hidden=True),
    ]


class CensusOptions(SurveyOptions, WeightOptions, total=False):
    """The same, for attention or attention weighted by norm."""


class GoldOptions(
    LoadedOptions, TextOptions, PartOptions, GroupOptions, LayerOptions, ResumeOptions, total=False
):
    """A survey of gold links."""


class CauseOptions(LoadedOptions, TextOptions, TaskOptions, ResumeOptions, total=False):
    """A task during which heads are masked."""


class ScoreOptions(CauseOptions, MetricOptions, total=False):
    """The same, whose answers are scored."""


_EVERY = [option for group in (CensusOptions, ScoreOptions) for option in read_options(group.__annotations__)]
#: What a keyword is where it is not given.
DEFAULTS = {option.keyword: option.default for option in _EVERY}
#: What no number depends on.
FREE = {option.keyword for option in _EVERY if option.free}
