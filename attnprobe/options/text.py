"""Options of the text: which, what of it is read, and how it becomes sequences and batches."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from attnprobe.option import Group, Option

if TYPE_CHECKING:
    from attnprobe.commands.call.texts import Texts

#: What they are sorted under in ``--help``.
TEXT = "Text"
#: One option with two names, in every command that has it.
LABEL_COLUMN = ("--label-column", "--target-column")


class Data(Group, panel=TEXT):
    """Which text."""

    texts: Annotated[
        "Texts",
        Option(
            "A file (txt, csv, jsonl, parquet, ...), a folder, a hub dataset, or - for standard input. "
            "Default: a sample.",
            doc="Strings, pairs of strings, a column of a DataFrame or a dataset, the path of a file or of "
            "a folder of .txt files, images or sound, the id of a hub dataset, or a Source; of a DataFrame, "
            "a dict or a dataset, name text_column too. By default the sentences that ship with attnprobe.",
            name="dataset", flags=("--dataset", "-d"), metavar="DATA", line=str | None, reads="data",
        ),
    ] = None  # fmt: skip


class GoldData(Group, panel=TEXT):
    """Which files with gold links."""

    texts: Annotated[
        "Texts",
        Option(
            "A file with gold links, or - for standard input; repeat it for several. Default: a sample.",
            doc="The path of a file with gold links, or several; or documents that have some. By default "
            "what ships with attnprobe.",
            name="dataset", flags=("--dataset", "-d"), metavar="FILE", line=list[str] | None, reads="data",
        ),
    ] = None  # fmt: skip


class Hub(Group, panel=TEXT):
    """Which part of a dataset of the hub, and what the column ``dataset`` says of any."""

    split: Annotated[
        str | None,
        Option(
            "Split of a hub dataset.",
            doc="Split of a hub dataset, or of the judgements (qrels) of a folder of queries.",
        ),
    ] = None
    dataset_config: Annotated[
        str | None,
        Option(
            "Configuration of a hub dataset; sheet of an .xlsx file.",
            hidden=True,
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
            hidden=True,
        ),
    ] = None


class Reading(Group, panel=TEXT):
    """What of the text is read, and how it becomes sequences."""

    text_column: Annotated[
        str | None,
        Option(
            "Column of the text: its name, or its number from 1.",
        ),
    ] = None
    text_pair_column: Annotated[
        str | None,
        Option(
            "Column of the second text of a pair.",
            doc="Column of the second text of a pair, a positive or a passage.",
        ),
    ] = None
    no_header: Annotated[
        bool,
        Option(
            "The first row of a csv, tsv or xlsx file is data: name its columns by their numbers, from 1.",
            hidden=True,
        ),
    ] = False
    document_column: Annotated[
        str | None,
        Option(
            "Column that names documents: rows with one value are parts of one document, and standard "
            "errors are over documents. Default: what the format says, else each row is a document.",
            hidden=True,
        ),
    ] = None
    max_length: Annotated[
        int | None,
        Option(
            "Tokens in a window. Default: what the model takes.",
            doc="Tokens in a window; longer documents are cut into windows. By default what the model takes.",
            low=1,
        ),
    ] = None  # fmt: skip
    truncate: Annotated[bool, Option("Keep only the first window of a document.", hidden=True)] = False
    limit: Annotated[
        int | None,
        Option(
            "Read only the first N documents.",
            doc="Read only this many documents, the first ones; of a task about several texts, this many "
            "pairs, triplets or queries.",
            flags=("--limit", "-L"), low=1,
        ),
    ] = None  # fmt: skip
    sample: Annotated[
        int | None,
        Option(
            "Draw N documents at random.",
            doc="Draw this many documents at random, the same for the same seed; with limit, of the first "
            "ones. Sentences of one document (# newdoc) are drawn together.",
            metavar="N", low=1,
        ),
    ] = None  # fmt: skip
    seed: Annotated[
        int,
        Option(
            "Seed of all that is drawn: --sample, --until, masks, random directions and orders, shuffled "
            "tokens.",
            low=0,
            hidden=True,
        ),
    ] = 42  # fmt: skip


class Parts(Group, panel=TEXT):
    """Which part of the text a job reads, where several share it."""

    part: Annotated[
        str | None,
        Option(
            "Read only part K of N, such as 3/100: every N-th document, from the K-th on. merge adds up the "
            "tables of all parts.",
            doc='Read only part K of N, such as "3/100": every N-th document, from the K-th on. merge adds '
            "up the tables of all parts.",
            metavar="K/N",
            hidden=True,
        ),
    ] = None  # fmt: skip


class Panels(Group, panel=TEXT):
    """Whether groups of documents are measured apart."""

    by_group: Annotated[
        str | None,
        Option(
            "Measure each group of documents too, such as genre.",
            doc="Measure each group of documents too, and test whether groups are alike: a column such as "
            "language, genre or source; of CoNLL-U a comment (# genre = news); file, where there are several "
            "files; folder, for .txt files in folders of a folder.",
            metavar="COLUMN",
        ),
    ] = None


class Precision(Group, panel=TEXT):
    """How much text is read: as much as it takes."""

    until: Annotated[
        "str | float | Mapping[str, float] | None",
        Option(
            "Read until each interval is this narrow: 0.05, or entropy=0.1,previous=0.02.",
            doc="Read documents in a random order until the 95 % interval of each head is at most this wide "
            "to either side: 0.05 for every column, or those that are named, "
            '{"entropy": 0.1, "previous": 0.02}. Looks are at 128, 256, 512, ... documents.',
            metavar="WIDTH", line=str | None,
        ),
    ] = None  # fmt: skip


class Images(Group, panel=TEXT):
    """Which images are read together with the text."""

    image_column: Annotated[
        str | None,
        Option(
            "Column of the images that a model reads together with the text: paths, bytes or base64; none "
            "for text alone. Default: image, image_path or file_name, of a model that reads both.",
            hidden=True,
        ),
    ] = None


class Queries(Group, panel=TEXT):
    """Which tokens are asked where they look, of an image and a text that are read together."""

    queries: Annotated[
        Literal["text", "image"] | None,
        Option(
            "Count only queries of the text, or of the image, where a model reads both together.",
            metavar="text|image",
            hidden=True,
        ),
    ] = None


class Frequencies(Group, panel=TEXT):
    """What is rare."""

    frequencies: Annotated[
        Path | str | None,
        Option(
            "A token, a tab and its frequency on each line, to decide what is rare. Default: counted in the "
            "text.",
            hidden=True,
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
            "Drop special tokens, and renormalise the rows.",
        ),
    ] = False


class Targets(Group, panel=TEXT):
    """What a decoder beside an encoder reads."""

    label_column: Annotated[
        str | None,
        Option(
            "Column of the target texts that the decoder of an encoder-decoder checkpoint reads. Default: "
            "it reads the text itself.",
            flags=LABEL_COLUMN,
            hidden=True,
        ),
    ] = None


class Weights(Group, panel=TEXT):
    """What rows of attention hold."""

    weights: Annotated[
        Literal["attention", "norm", "both"],
        Option(
            "attention, norm (keys weighted by what they carry) or both.",
            metavar="KIND",
            doc='"attention"; "norm" weights each key by the length of what it gives to the residual '
            "stream, ||W_O,h v_j|| (Kobayashi et al. 2020), divides each row by its sum, and gives columns "
            'that end in _norm; "both" gives both side by side.',
        ),
    ] = "attention"
