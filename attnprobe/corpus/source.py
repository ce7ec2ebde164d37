"""What a user names: where texts come from, and what is wanted of them; read by ``attnprobe.corpus.open``."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from attnprobe.corpus.order import Order
from attnprobe.errors import DataError

STDIN = "-"
#: Names the package's own text where a path could stand.
EMBEDDED = "embedded"
#: What stands for the file that a document lies in, and for its folder, where a column of groups is named.
FILE, FOLDER = "file", "folder"


@dataclass(frozen=True)
class Source:
    """Where documents come from, as the options of the command line name it."""

    spec: str  # a path, a hub id, "-" for standard input, or "embedded" for the package's own text
    split: str | None = None  # of a hub dataset; None takes the first of test, validation and train
    config: str | None = None  # of a hub dataset that has several
    text_column: str | None = None  # None chooses by the usual names
    pair_column: str | None = None  # None reads no pairs, whatever the columns are called
    label_column: str | None = None
    document_column: str | None = None  # None leaves to the format what a document is
    group_column: str | None = None  # says which group a document counts in; None asks for none
    image_column: str | None = None  # "none" reads texts alone
    other_column: str | None = None  # of contrasts: what the answer is compared with
    header: bool = True  # whether the first row of a csv, tsv or xlsx file names its columns
    find_labels: bool = False  # whether a column of a usual name is taken where none is named
    annotated: bool = False  # whether words and gold links are read: of CoNLL-U, or JSON with such columns
    coreference: bool = False  # whether mentions are read, and asked for their antecedents
    contrasts: bool = False  # whether a row is a clean and a corrupted text
    usual: tuple[tuple[str, ...], ...] = ()  # the usual columns of two texts and of what is said of both
    sees: Callable[[], bool] | None = None  # whether the model reads images with texts; None never asks
    order: Order | None = None  # in which documents are wanted; it says whether they come so
    keep: Callable[[Sequence[str]], Collection[str]] = lambda _: ()  # columns to be read whatever they hold

    def refuse_columns(self, name: str) -> None:
        """Refuse columns of what has none, which errors call ``name``."""
        if self.image_column is not None:
            raise DataError(f"{name} is text without columns; leave out --image-column")
        if any((self.text_column, self.pair_column, self.label_column, self.document_column)):
            raise DataError(
                f"{name} is text without columns; leave out --text-column, --text-pair-column, "
                "--label-column and --document-column, or rename it to .conll if it holds a word and its "
                "label a line"
            )

    def refuse_group(self, name: str) -> None:
        """Refuse a column of groups of what has neither columns nor comments, which errors call ``name``."""
        if self.group_column is not None:
            raise DataError(
                f"{name} is text without columns, which says of no document in which group it counts; give a "
                "table with such a column, or a folder with a folder of .txt files for each group and "
                f"--by-group {FOLDER}"
            )


@dataclass(frozen=True)
class OpenSource:
    """Text ready to be read.

    Attributes:
        documents: The documents, which can be read once; or a folder of images or sound.
        name: What the ``dataset`` column says.
        described: What goes on record.
        kind: "text", "image", "sound", or "image+text" where both are read together.
    """

    documents: Any
    name: str
    described: dict[str, Any]
    kind: str = "text"
