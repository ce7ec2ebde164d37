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
    from attnprobe.corpus.tokenizer import Tokenizer
    from attnprobe.run.progress import Progress
    from attnprobe.session.texts import Texts

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
        "A hub id, a folder, or demo. Of the hub, HF_HOME, HF_TOKEN and HF_HUB_OFFLINE hold.",
        doc='"demo", a folder, a hub id, or a loaded model with its tokenizer, which is left as it was.',
        metavar="MODEL",
        line=str,
        argument=True,
    ),
]
TextsArgument = Annotated[
    "Texts",
    data_option(
        "A file (txt, csv, jsonl, parquet, ...), a folder, a hub dataset, or - for standard input. "
        "Default: a sample.",
        doc="Strings, pairs of strings, the path of a file or of a folder of .txt files, images or sound, "
        "the id of a hub dataset, a Source; or a DataFrame, a dict of columns or a dataset with its "
        "text_column. By default the sentences that ship with attnprobe.",
        metavar="DATA",
    ),
]
GoldArgument = Annotated[
    "Texts",
    data_option(
        "A file with gold links, or - for standard input; repeat it for several. Default: a sample.",
        metavar="FILE",
        line=list[str] | None,
    ),
]
LabelsArgument = Annotated[
    "Iterable[Label] | None",
    Option(
        doc="Where texts come one by one, what is right for each: its class, number or target text, a list "
        "of labels, a label for each word of a text that is a list of words, SQuAD's answers, the score "
        "of a pair, or the negative of a triplet. Of a file or a table, name label_column."
    ),
]


class ModelOptions(TypedDict, total=False):
    """Which checkpoint, and how it is loaded and run."""

    revision: Annotated[str | None, model_option("Branch, tag or commit on the hub.", free=True)]
    trust_remote_code: Annotated[bool, model_option("Run Python code that the checkpoint brings along.")]
    base: Annotated[str | None, model_option("The model that an adapter was trained on.", hidden=True)]
    adapter: Annotated[str | None, model_option("Which adapter of a folder that holds several.", hidden=True)]
    prompt: Annotated[
        str | None,
        model_option("Which prompt of an embedding model, or none. Default: its usual one.", hidden=True),
    ]
    allow_bin: Annotated[bool, model_option("Read pickled weights (.bin), which can run code.", hidden=True)]
    random_weights: Annotated[
        int | None, model_option("Draw the weights anew: what is not learned.", metavar="SEED", low=0)
    ]
    device: Annotated[str, model_option("auto, cpu, cuda, cuda:0 or mps.", default="auto")]
    device_map: Annotated[
        Literal["auto", "balanced", "balanced_low_0", "sequential"] | dict[str, Any] | None,
        model_option("Spread a model by accelerate: auto, balanced, ... or sequential.", hidden=True),
    ]
    dtype: Annotated[
        str,
        model_option(
            "float32, bfloat16, float16 or float64.",
            default="float32",
            doc="Type of the weights: float32, bfloat16, float16, float64. In half precision keys tie, and "
            "the first counts as the most attended: offset moves in some heads (3 of 72 of a MiniLM).",
        ),
    ]
    threads: Annotated[
        int | None, model_option("Processor threads. Default: all.", low=1, high=1024, free=True, hidden=True)
    ]
    workers: Annotated[
        int | None,
        model_option(
            "Batches at a time, for speed. Default: as threads, up to 8; 1 on an accelerator.",
            low=1,
            high=1024,
            free=True,
            hidden=True,
        ),
    ]
    progress: Annotated[
        "bool | Progress", model_option(default=False, doc="True for a bar, or an object to tell.", free=True)
    ]


class LoadedOptions(ModelOptions, total=False):
    """The same, of a command that takes one checkpoint."""

    tokenizer: Annotated["Tokenizer | None", model_option(doc="The tokenizer of a loaded model.")]


class HubOptions(TypedDict, total=False):
    """Which part of a dataset of the hub, and what the column ``dataset`` says of any."""

    split: Annotated[str | None, text_option("Split of a hub dataset.")]
    dataset_config: Annotated[str | None, text_option("Configuration of a hub dataset.", hidden=True)]
    name: Annotated[str | None, text_option(doc="What the column dataset says.")]


class TextOptions(HubOptions, total=False):
    """What is read, and how it becomes sequences."""

    text_column: Annotated[str | None, text_option("Column of the text: its name, or its number from 1.")]
    text_pair_column: Annotated[str | None, text_option("Column of the second text of a pair.")]
    no_header: Annotated[bool, text_option("The first row is data: columns are numbers from 1.", hidden=True)]
    document_column: Annotated[
        str | None,
        text_option(
            "Column that says which rows are parts of one document, over which standard errors are. "
            "Default: as the format has it, or each row.",
            hidden=True,
        ),
    ]
    max_length: Annotated[int | None, text_option("Tokens in a window. Default: the model's.", low=1)]
    truncate: Annotated[bool, text_option("Keep only the first window of a document.", hidden=True)]
    limit: Annotated[int | None, text_option("Read the first N documents.", flags=("--limit", "-L"), low=1)]
    sample: Annotated[int | None, text_option("Draw N documents at random.", metavar="N", low=1)]
    seed: Annotated[int, text_option("Seed of all that is drawn.", default=42, low=0, hidden=True)]
    batch_tokens: Annotated[int | None, text_option("Tokens in a batch, for speed.", low=1, hidden=True)]


class PartOptions(TypedDict, total=False):
    """Which part of the text a job reads, where several share it."""

    part: Annotated[
        str | None,
        text_option("Read every N-th document from the K-th; merge adds up all.", metavar="K/N", hidden=True),
    ]


class GroupOptions(TypedDict, total=False):
    """Whether groups of documents are measured apart."""

    by_group: Annotated[
        str | None,
        text_option(
            "Measure each group of documents too, such as genre.",
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
    """What is rare."""

    frequencies: Annotated[
        Path | str | None,
        text_option(
            "Lines of a token, a tab and its frequency, for what is rare. Default: the text.",
            metavar="FILE",
            hidden=True,
            reads="data",
        ),
    ]


class TokenOptions(TypedDict, total=False):
    """Which tokens are left out."""

    content_only: Annotated[bool, text_option("Drop special tokens, and renormalise the rows.")]


class TargetOptions(TypedDict, total=False):
    """What a decoder beside an encoder reads."""

    label_column: Annotated[
        str | None,
        text_option(
            "Column of the target texts that a decoder beside an encoder reads. Default: the text itself.",
            hidden=True,
        ),
    ]


class WeightOptions(TypedDict, total=False):
    """What rows of attention hold."""

    weights: Annotated[
        Literal["attention", "norm", "both"],
        text_option(
            "attention, norm (keys weighted by what they carry) or both.",
            default="attention",
            metavar="KIND",
            doc='"attention"; "norm" weights each key by the length of what it gives to the residual '
            "stream, ||W_O,h v_j|| (Kobayashi et al. 2020), divides each row by its sum, and gives columns "
            'that end in _norm; "both".',
        ),
    ]


class TaskOptions(TypedDict, total=False):
    """What the model is asked to do while its heads are switched."""

    objective: Annotated[
        Objective | None, Option("Task. Default: as the model's head and the labels say.", metavar="TASK")
    ]
    label_column: Annotated[
        str | None,
        Option(
            "Column of what is right: class, number, labels, tags, text. Default: one of a usual name.",
            doc="Column of what is right: a class, number or target text; a list of labels (names, numbers, "
            "0 and 1 for each, or one string parted by | or ,); a label for each word; SQuAD's answers; the "
            "score of a pair; of CoNLL-U upos, xpos or deprel. Default: label, labels, class or target; of "
            "words ner_tags, tags, pos_tags, upos, labels or label; of question and context, answers.",
        ),
    ]
    force_head: Annotated[bool, Option("Make up the task's head; numbers mean little.", hidden=True)]


class MetricOptions(TypedDict, total=False):
    """What an answer is scored by."""

    metric: Annotated[
        Metric | None,
        Option(
            "What an answer is scored by. Default: what is usual for the task.",
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
    """Whether a run can be stopped."""

    resume: Annotated[
        Path | str | None,
        output_option(
            "Keep the run's state here; go on from it after Ctrl-C or a crash.",
            metavar="STATE",
            free=True,
        ),
    ]


class Saying(TypedDict, total=False):
    """What is told on standard error."""

    quiet: Annotated[bool, output_option("Say nothing but errors.", flags=("--quiet", "-q"))]
    verbose: Annotated[bool, output_option("Show tracebacks.", flags=("--verbose", "-v"), hidden=True)]
    no_progress: Annotated[bool, output_option("Show no progress bar.", hidden=True)]


class TableOutput(Saying, total=False):
    """Where the table goes."""

    output: Annotated[Path | None, path_option(f"Write a file: {either(FORMATS, before='.')}.")]
    format: Annotated[
        Format | None,
        output_option(f"table, {either(FORMATS)}. Default: table; in a pipe csv.", hidden=True),
    ]
    only: Annotated[
        str | None, output_option("Write these columns alone, with errors and keys.", metavar="COLUMN,...")
    ]
    rows: Annotated[int | None, output_option("Write the first N rows alone.", low=1)]
    precision: Annotated[int | None, output_option("Significant digits.", low=1, high=17, hidden=True)]
    overwrite: Annotated[bool, output_option("Replace files that exist.")]
    full: Annotated[bool, output_option("Show all of a long table on a terminal.")]


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
    """A survey of text that can be stopped, read in parts, and ended where it is precise enough."""

    until: Annotated[
        "str | float | Mapping[str, float] | None",
        text_option(
            "Read until each interval is this narrow: 0.05, or entropy=0.1,previous=0.02.",
            doc="Read documents in a random order until the 95 % interval of each head is at most this wide "
            'to either side: 0.05 for every column, or {"entropy": 0.1, "previous": 0.02}. Looks are at 128, '
            "256, 512, ... documents.",
            metavar="WIDTH",
        ),
    ]
    queries: Annotated[
        Literal["text", "image"] | None,
        text_option("Count only queries of the text, or of the image.", metavar="text|image", hidden=True),
    ]


class CensusOptions(SurveyOptions, WeightOptions, total=False):
    """The same, of attention or of what it carries."""


class GoldOptions(
    LoadedOptions, TextOptions, PartOptions, GroupOptions, LayerOptions, ResumeOptions, total=False
):
    """A survey of gold links."""


class CauseOptions(LoadedOptions, TextOptions, TaskOptions, ResumeOptions, total=False):
    """A task whose heads are switched."""


class ScoreOptions(CauseOptions, MetricOptions, total=False):
    """The same, whose answers are scored."""


_EVERY = [option for group in (CensusOptions, ScoreOptions) for option in read_options(group.__annotations__)]
#: What a keyword is where it is not given.
DEFAULTS = {option.keyword: option.default for option in _EVERY}
#: What no number depends on.
FREE = {option.keyword for option in _EVERY if option.free}
