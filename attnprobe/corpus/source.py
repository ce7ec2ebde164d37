"""What a user names: where texts come from, and what is wanted of them; read by ``attnprobe.corpus.open``."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from attnprobe.errors import DataError

STDIN = "-"
#: Names the package's own text where a path could stand.
EMBEDDED = "embedded"
#: What stands for the file that a document lies in, and for its folder, where a column of groups is named.
FILE, FOLDER = "file", "folder"
#: Fields of a source that are columns of texts, and the options of the command line that set fields.
COLUMNS = ("text_column", "pair_column", "label_column", "document_column")
OPTIONS = {
    "split": "--split",
    "config": "--dataset-config",
    "text_column": "--text-column",
    "pair_column": "--text-pair-column",
    "label_column": "--label-column",
    "document_column": "--document-column",
    "group_column": "--by-group",
    "image_column": "--image-column",
}


@dataclass
class Order:
    """A random order of documents, and what is known of it."""

    seed: int
    whole: bool = True  # whether all documents are put in order, and not the first alone
    total: int | None = None  # how many there are, as far as anybody knows
    arranged: bool = False  # whether a source gives them so


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
    header: bool = True  # whether the first row of a csv or tsv file names its columns
    find_labels: bool = False  # whether a column of a usual name is taken where none is named
    annotated: bool = False  # whether words and gold links are read: of CoNLL-U, or JSON with such columns
    coreference: bool = False  # whether mentions are read, and asked for their antecedents
    contrasts: bool = False  # whether a row is a clean and a corrupted text
    usual: tuple[tuple[str, ...], ...] = ()  # the usual columns of two texts and of what is said of both
    sees: Callable[[], bool] | None = None  # whether the model reads images with texts; None never asks
    order: Order | None = None  # in which documents are wanted; it says whether they come so

    def refuse(self, why: str, *fields: str) -> None:
        """Refuse options that mean nothing for what is read; ``why`` says what that is."""
        for name in fields:
            if getattr(self, name) is not None:
                raise DataError(f"{why}; leave out {OPTIONS[name]}.")

    def refuse_columns(self, name: str, *, grouped: bool) -> None:
        """Refuse columns of text that has none, which errors call ``name``; groups too unless ``grouped``."""
        groups = () if grouped else ("group_column",)
        self.refuse(f"{name} is text without columns", "image_column", *COLUMNS, *groups)


@dataclass(frozen=True)
class OpenSource:
    """Text ready to be read."""

    documents: Any  # which can be read once; or a folder of images or sound
    name: str  # what the ``dataset`` column says
    described: dict[str, Any]  # what goes on record
    kind: str = "text"  # or "image", "sound", or "image+text" where both are read together
