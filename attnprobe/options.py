"""The options that several commands share, each declared once; others stand with their command."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from attnprobe.option import Group, Option
from attnprobe.tasks import METRICS, OBJECTIVES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from transformers import PreTrainedModel

    from attnprobe.commands.call.texts import Texts
    from attnprobe.corpus.sources.document import Label
    from attnprobe.corpus.tokenization import Tokenizer
    from attnprobe.run.progress import Progress

#: What options are sorted under in ``--help``.
MODEL, TEXT, TASK, OUTPUT = "Model", "Text", "Task", "Output"


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
            guesses=("hf-token", "auth-token", "use-auth-token", "api-key"),
        ),
    ] = None  # fmt: skip
    offline: Annotated[
        bool,
        Option(
            "Use local files only; no network at all.", free=True, guesses=("local-files-only", "no-network")
        ),
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
            guesses=("base-model",),
        ),
    ] = None
    adapter: Annotated[
        str | None,
        Option("Which adapter of a folder that holds several.", guesses=("adapter-name",)),
    ] = None
    prompt: Annotated[
        str | None,
        Option(
            "Which prompt of an embedding model stands before each text, by its name; none for no prompt. "
            "Default: the model's usual one, if it has one.",
            guesses=("prompt-name",),
        ),
    ] = None
    allow_bin: Annotated[
        bool,
        Option(
            "Read pickled weights (.bin), which can run code.",
            runs="reads pickled weights, which can run code",
        ),
    ] = False
    device: Annotated[
        str,
        Option(
            "Device of the model: auto, cpu, cuda, cuda:0, mps.",
            words=("cpu", "cuda", "mps"),
            guesses={
                **dict.fromkeys(("gpu", "gpus", "use-cuda", "use-gpu", "cuda"), "cuda"),
                "cpu": "cpu", "mps": "mps",
            },
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
            words=("float32", "bfloat16", "float16", "float64"),
            guesses={
                **dict.fromkeys(("bf16", "bfloat16"), "bfloat16"),
                **dict.fromkeys(("fp16", "half", "float16"), "float16"),
                **dict.fromkeys(("fp32", "float32"), "float32"),
                **dict.fromkeys(("fp64", "double", "float64"), "float64"),
            },
        ),
    ] = "float32"
    threads: Annotated[
        int | None,
        Option(
            "Number of processor threads. Default: all.",
            low=1, free=True, guesses=("num-threads", "n-threads", "cores"),
        ),
    ] = None  # fmt: skip
    workers: Annotated[
        int | None,
        Option(
            "Number of batches in flight at the same time, which share the threads. It changes speed and "
            "memory, not results. Default: as many as threads, up to 8; 1 on an accelerator.",
            low=1, free=True, guesses=("num-workers", "n-workers", "jobs", "n-jobs", "num-proc", "processes"),
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


class Data(Group, panel=TEXT):
    """Which text."""

    texts: Annotated[
        "Texts",
        Option(
            "A file (txt, csv, tsv, jsonl, json, parquet, xlsx, conll, conllu; also .gz, .bz2, .xz, .zst), a "
            "hub dataset, - for standard input, or a folder of .txt files, of images or of sound. Default: "
            "the sentences that ship with attnprobe.",
            doc="Strings, pairs of strings, a column of a DataFrame or a dataset, the path of a file or of "
            "a folder of .txt files, images or sound, the id of a hub dataset, or a Source; of a DataFrame, "
            "a dict or a dataset, name text_column too. By default the sentences that ship with attnprobe.",
            name="dataset", flags=("--dataset", "-d"), metavar="DATA", line=str | None, reads="data",
            guesses=("data", "data-path", "data-file", "file", "input", "input-file", "text", "corpus"),
        ),
    ] = None  # fmt: skip


class GoldData(Group, panel=TEXT):
    """Which files with gold links."""

    texts: Annotated[
        "Texts",
        Option(
            "A file with gold links, also .gz, or - for standard input; repeat it for several. Default: "
            "what ships with attnprobe.",
            doc="The path of a file with gold links, or several; or documents that have some. By default "
            "what ships with attnprobe.",
            name="dataset", flags=("--dataset", "-d"), metavar="FILE", line=list[str] | None, reads="data",
        ),
    ] = None  # fmt: skip


class Labels(Group):
    """What is right for each text, which the command line reads from a column."""

    labels: Annotated[
        "Iterable[Label] | None",
        Option(
            doc="Where texts come one by one, what is right for each: its class, number or target text; a "
            "list of labels; for a text that is a list of words, a label for each word; for a pair of "
            "question and context, answers as SQuAD has them; for a pair that is compared, its score; for "
            "an anchor and a positive, the negative. Of a file or a table, name label_column."
        ),
    ] = None


class Hub(Group, panel=TEXT):
    """Which part of a dataset of the hub, and what the column ``dataset`` says of any."""

    split: Annotated[
        str | None, Option("Split of a hub dataset, or of the judgements (qrels) of a folder of queries.")
    ] = None
    dataset_config: Annotated[
        str | None,
        Option(
            "Configuration of a hub dataset; sheet of an .xlsx file.",
            guesses=("subset", "dataset-name", "config-name", "sheet"),
        ),
    ] = None
    name: Annotated[str | None, Option(doc="What the column dataset says.")] = None


class Batches(Group, panel=TEXT):
    """How sequences are put together."""

    batch_tokens: Annotated[
        int | None,
        Option(
            "Number of tokens in a batch. It changes speed and memory, not results. Default: what suits the "
            "device.",
            low=1,
        ),
    ] = None
    memory: Annotated[
        str | None,
        Option(
            "Memory to use above the model's own forward pass, with its unit: 256MiB, 2GB. It changes "
            "speed, not results. Default: what is fastest.",
            metavar="SIZE", free=True, guesses=("max-memory", "memory-limit"),
        ),
    ] = None  # fmt: skip


class Reading(Group, panel=TEXT):
    """What of the text is read, and how it becomes sequences."""

    text_column: Annotated[
        str | None,
        Option(
            "Column that holds the text: its name, or its number, from 1.",
            guesses=("text-col", "column", "text-field", "text-key", "sentence-column"),
        ),
    ] = None
    text_pair_column: Annotated[
        str | None,
        Option(
            "Column that holds the second text of a pair, a positive or a passage.",
            guesses=("pair-column", "text2", "text-column-2", "second-column"),
        ),
    ] = None
    document_column: Annotated[
        str | None,
        Option(
            "Column that names documents: rows with one value are parts of one document, and standard "
            "errors are over documents. Default: what the format says, else each row is a document."
        ),
    ] = None
    max_length: Annotated[
        int | None,
        Option(
            "Number of tokens in a window. Longer documents are cut into windows. Default: what the model "
            "takes.",
            low=1,
            guesses=(
                "max-len", "max-seq-length", "max-seq-len", "sequence-length", "seq-length", "max-tokens",
                "window", "context-length",
            ),
        ),
    ] = None  # fmt: skip
    truncate: Annotated[bool, Option("Keep only the first window of a document.")] = False
    limit: Annotated[
        int | None,
        Option(
            "Read only this many documents, the first ones; of a task about several texts, this many pairs, "
            "triplets or queries.",
            flags=("--limit", "-L"), low=1,
            guesses=(
                "max-samples", "num-samples", "max-examples", "num-examples", "samples", "n", "max-docs",
            ),
        ),
    ] = None  # fmt: skip
    sample: Annotated[
        int | None,
        Option(
            "Draw this many documents at random, the same for the same --seed; with --limit, of the first "
            "ones. Sentences of one document (# newdoc) are drawn together.",
            metavar="N", low=1,
        ),
    ] = None  # fmt: skip
    seed: Annotated[
        int,
        Option(
            "Seed of all that is drawn: --sample, --until, masks, random directions and orders, shuffled "
            "tokens.",
            low=0, guesses=("random-seed", "random-state"),
        ),
    ] = 42  # fmt: skip


class Population(Group, panel=TEXT):
    """What errors are about."""

    population: Annotated[
        Literal["language", "corpus"],
        Option(
            "With --until, what errors are about. language: text like this. corpus: the documents of this "
            "corpus alone, which run out: errors are smaller by the root of 1 - read/all.",
            guesses=("finite-population", "finite", "fpc", "finite-population-correction"),
        ),
    ] = "language"


class Parts(Group, panel=TEXT):
    """Which part of the text a job reads, where several share it."""

    part: Annotated[
        str | None,
        Option(
            "Read only part K of N, such as 3/100: every N-th document, from the K-th on. merge adds up the "
            "tables of all parts.",
            doc='Read only part K of N, such as "3/100": every N-th document, from the K-th on. merge adds '
            "up the tables of all parts.",
            metavar="K/N", guesses=("shard", "chunk", "slice", "job", "task-id", "array", "num-shards"),
        ),
    ] = None  # fmt: skip


class Panels(Group, panel=TEXT):
    """Whether groups of documents are measured apart."""

    by_group: Annotated[
        str | None,
        Option(
            "Measure each group of documents too, and test whether groups are alike: a column such as "
            "language, genre or source; of CoNLL-U a comment (# genre = news); file, where there are several "
            "files; folder, for .txt files in folders of a folder.",
            metavar="COLUMN",
            guesses=("group", "group-by", "groups", "by-genre", "group-column", "panel", "panels"),
        ),
    ] = None


class Precision(Group, panel=TEXT):
    """How much text is read: as much as it takes."""

    until: Annotated[
        "str | float | Mapping[str, float] | None",
        Option(
            "Read documents in a random order until the 95 % interval of each head is at most this wide to "
            "either side, or of the columns that are named: 0.05, or entropy=0.1,previous=0.02. Looks are at "
            "128, 256, 512, ... documents.",
            doc="Read documents in a random order until the 95 % interval of each head is at most this wide "
            "to either side: 0.05 for every column, or those that are named, "
            '{"entropy": 0.1, "previous": 0.02}. Looks are at 128, 256, 512, ... documents.',
            metavar="WIDTH", line=str | None,
            guesses=("precision-target", "target-width", "half-width", "tolerance", "stop", "early-stop"),
        ),
    ] = None  # fmt: skip
    strict: Annotated[
        bool, Option("With --until: end at the second look in a row that is precise enough.")
    ] = False


class Images(Group, panel=TEXT):
    """Which images are read together with the text."""

    image_column: Annotated[
        str | None,
        Option(
            "Column of the images that a model reads together with the text: paths, bytes or base64; none "
            "for text alone. Default: image, image_path or file_name, of a model that reads both.",
            guesses=("image-col", "image-field", "image-key", "images", "image"),
        ),
    ] = None


class Queries(Group, panel=TEXT):
    """Which tokens are asked where they look, of an image and a text that are read together."""

    queries: Annotated[
        Literal["text", "image"] | None,
        Option("Count only queries of the text, or of the image, where a model reads both together."),
    ] = None


class Frequencies(Group, panel=TEXT):
    """What is rare."""

    frequencies: Annotated[
        Path | str | None,
        Option(
            "A token, a tab and its frequency on each line, to decide what is rare. Default: counted in the "
            "text.",
            doc="A file with a token, a tab and its frequency on each line, to decide what is rare. By "
            "default frequencies are counted in the text.",
            metavar="FILE", line=Path | None, reads="data",
        ),
    ] = None  # fmt: skip


class Tokens(Group, panel=TEXT):
    """Which tokens are left out."""

    content_only: Annotated[
        bool,
        Option(
            "Drop special tokens as queries and keys, and renormalise the rows.",
            guesses=("no-special-tokens", "skip-special-tokens", "exclude-special"),
        ),
    ] = False


#: One option with two names, in every command that has it.
_LABEL_COLUMN = ("--label-column", "--target-column")


class Targets(Group, panel=TEXT):
    """What a decoder beside an encoder reads."""

    label_column: Annotated[
        str | None,
        Option(
            "Column of the target texts that the decoder of an encoder-decoder checkpoint reads. Default: "
            "it reads the text itself.",
            flags=_LABEL_COLUMN,
        ),
    ] = None


class Weights(Group, panel=TEXT):
    """What rows of attention hold."""

    weights: Annotated[
        Literal["attention", "norm", "both"],
        Option(
            "norm: weight each key by the length of what it gives to the residual stream, and renormalise "
            "the rows; columns end in _norm. both: side by side.",
            doc='"attention"; "norm" weights each key by the length of what it gives to the residual '
            "stream, ||W_O,h v_j|| (Kobayashi et al. 2020), divides each row by its sum, and gives columns "
            'that end in _norm; "both" gives both side by side.',
        ),
    ] = "attention"


class Task(Group, panel=TASK):
    """What the model is asked to do while its heads are switched."""

    objective: Annotated[
        Literal[*OBJECTIVES]  # pyright: ignore[reportInvalidTypeForm]
        | None,
        Option(
            "What the model is asked to do. Default: chosen from its trained head and the labels.",
            guesses=("task", "loss"),
        ),
    ] = None  # fmt: skip
    label_column: Annotated[
        str | None,
        Option(
            "Column that holds the class, the number or the target text; a list of labels (names, numbers, "
            "0 and 1 for each, or one string parted by | or ,); a label for each word of a column of words; "
            "SQuAD's answers; the score of a pair, or the negative of a triplet. Of CoNLL-U: upos, xpos or "
            "deprel. Default: label, labels, class or target; of tokens or words ner_tags, tags, pos_tags, "
            "upos, labels or label; of question and context, answers.",
            flags=_LABEL_COLUMN,
            guesses=("label", "labels", "label-col", "target", "target-col", "label-field"),
        ),
    ] = None
    force_head: Annotated[
        bool, Option("Make up a head that the checkpoint was not trained with; its numbers mean little.")
    ] = False


class Metric(Group, panel=TASK):
    """What an answer is scored by."""

    metric: Annotated[
        Literal[*METRICS]  # pyright: ignore[reportInvalidTypeForm]
        | None,
        Option(
            "; ".join(f"{name}: {one.scores}" for name, one in OBJECTIVES.items()) + ". Default: the first.",
            guesses=("score", "metrics", "scoring"),
        ),
    ] = None  # fmt: skip


class Layers(Group, panel=OUTPUT):
    """Which rows the table has."""

    layers: Annotated[
        "str | int | Sequence[int] | None",
        Option(
            "Only rows of these layers, counted from 0. All layers are measured.",
            doc='Only rows of these layers, counted from 0: "0,3-5", or numbers. All layers are measured.',
            metavar="0,3-5", line=str | None,
        ),
    ] = None  # fmt: skip


class Resume(Group, panel=OUTPUT):
    """Whether a run can be stopped."""

    resume: Annotated[
        Path | str | None,
        Option(
            "Keep the state of the run in this file, and go on from it: after Ctrl-C or a crash, give the "
            "same command again.",
            doc="Keep the state of the run in this file, and go on from it.",
            metavar="STATE", line=Path | None, place=True, free=True,
            guesses=("checkpoint", "resume-from", "state", "continue"),
        ),
    ] = None  # fmt: skip


#: Text, and how its tokens are told apart; a survey of it that can be stopped; a task; and so on.
Groups = Sequence[type[Group]]
TEXTS: Groups = (Data, Hub, Reading, Batches, Frequencies, Tokens)
SURVEY: Groups = (*TEXTS, Parts, Precision, Population, Panels, Images, Queries, Targets, Layers, Resume)
GOLD: Groups = (GoldData, Hub, Reading, Parts, Precision, Population, Batches, Panels, Layers, Resume)
SWITCHING: Groups = (Data, Hub, Reading, Batches, Labels, Task)

#: What a keyword is where it is not given.
DEFAULTS = {one.keyword: one.default for group in Group.__subclasses__() for one in group.options}
#: What no number depends on.
FREE = {one.keyword for group in Group.__subclasses__() for one in group.options if one.free}


def list_names(*groups: type[Group]) -> set[str]:
    """Name the options of groups, as Python does."""
    return {one.keyword for group in groups for one in group.options}
