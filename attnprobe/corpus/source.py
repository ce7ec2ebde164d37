"""Sources of documents as users name them; ``attnprobe.corpus.open`` opens them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnprobe.errors import DataError

STDIN = "-"
#: Names the package's own text where a path could stand.
EMBEDDED = "embedded"
#: In the place of a column of groups: groups are files, or folders.
FILE, FOLDER = "file", "folder"
#: Fields of a source that are columns, and the options of the command line that set fields.
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
    """A random order of documents."""

    seed: int
    whole: bool = True  # of all documents, not of the first ones alone
    total: int | None = None  # the number of documents, once it is known
    arranged: bool = False  # the source gives them in this order


@dataclass(frozen=True)
class Source:
    """A source of documents, with options as on the command line."""

    spec: str  # a path, a hub id, "-" for standard input, or "embedded" for the package's own text
    split: str | None = None  # of a hub dataset; None takes the first of test, validation and train
    config: str | None = None  # of a hub dataset that has several
    text_column: str | None = None  # None chooses by usual names
    pair_column: str | None = None  # None reads no pairs, whatever columns are called
    label_column: str | None = None
    document_column: str | None = None  # None takes the documents of the format
    group_column: str | None = None  # names the group of a document
    image_column: str | None = None  # "none" reads texts alone
    other_column: str | None = None  # of contrasts: the answer to compare with
    header: bool = True  # the first row of a csv or tsv file names its columns
    find_labels: bool = False  # labels are in a column of a usual name, if none is named
    annotated: bool = False  # words and gold links are read, from CoNLL-U or JSON with such columns
    coreference: bool = False  # mentions are linked to their antecedents
    contrasts: bool = False  # a row is a clean and a corrupted text
    usual: tuple[tuple[str, ...], ...] = ()  # the usual columns of two texts and of their label
    sees: Callable[[], bool] | None = None  # tells whether the model reads images with texts
    order: Order | None = None  # the order in which documents are wanted

    def refuse(self, why: str, *fields: str) -> None:
        """Refuse options that mean nothing for a kind of source, which ``why`` states."""
        for name in fields:
            if getattr(self, name) is not None:
                raise DataError(f"{why}; leave out {OPTIONS[name]}.")

    def refuse_columns(self, name: str, *, grouped: bool) -> None:
        """Refuse columns of a text ``name`` that has none, and groups unless it is ``grouped``."""
        groups = () if grouped else ("group_column",)
        self.refuse(f"{name} is text without columns", "image_column", *COLUMNS, *groups)


@dataclass(frozen=True)
class OpenSource:
    """Documents ready to be read."""

    documents: Any  # an iterator, or a folder of images or sound
    name: str  # for the column ``dataset``
    described: dict[str, Any]  # for the record
    kind: str = "text"  # or "image", "sound", or "image+text" where both are read together


#: What functions take: texts one by one or as a column, the path of a file or of a folder of images or
#: sound, the id of a hub dataset, a ``Source``, one that is open already, or a table of which a column is
#: named. None is the sentences that ship with attnprobe.
GivenTexts = Iterable[Any] | str | Path | Source | OpenSource | None
