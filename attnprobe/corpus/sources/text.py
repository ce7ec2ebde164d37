"""Sources: from what a user names (a file, a hub dataset, standard input) to documents."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib import resources
from pathlib import Path
from typing import Any, BinaryIO, cast

from attnprobe.corpus.conllu import looks_like_conllu, read_conllu
from attnprobe.corpus.formats import (
    FILE,
    FOLDER,
    Table,
    TableFormat,
    find_coreference_format,
    find_extension,
    find_formats,
    list_coreference,
    list_linked_extensions,
    make_table,
    read_coreference,
    refuse_columns,
    refuse_group,
)
from attnprobe.corpus.formats.json import parse_jsonl, starts_with_object
from attnprobe.corpus.sources.columns import read_table
from attnprobe.corpus.sources.document import Document, group_parts
from attnprobe.corpus.sources.gold import find_class_names
from attnprobe.corpus.sources.hub import looks_like_hub_id, open_split, read_hub_rows
from attnprobe.corpus.sources.order import Order
from attnprobe.corpus.sources.pictures import Images
from attnprobe.corpus.sources.streams import (
    EACH_ALSO,
    PACKED,
    decode_lines,
    explain_errors,
    get_standard_input,
    open_file,
    peek_lines,
    shorten,
    strip_ends,
    strip_packing,
)
from attnprobe.errors import DataError

STDIN = "-"
#: Names the package's own text where a path could stand.
EMBEDDED = "embedded"


#: The comment that numbers the sentences of a treebank.
_NUMBER = "sent_id"


class Embedded(StrEnum):
    """A part of what ships inside the package, under its license: the extension of its files."""

    SENTENCES = ".txt"
    TREEBANK = ".conllu"  # the first sentences of each file of sentences, annotated by hand after UD v2
    COREFERENCE = ".tsv"  # snippets with a pronoun and two names, in the columns of GAP
    PAIRS = ".jsonl"  # sentences with a subject in the singular and in the plural, and a mask for the verb


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
    find_labels: bool = False  # whether a column of a usual name is taken where none is named
    annotated: bool = False  # whether words and gold links are read: of CoNLL-U, or JSON with such columns
    coreference: bool = False  # whether mentions are read, and asked for their antecedents
    usual: tuple[tuple[str, ...], ...] = ()  # where two texts are wanted: see ``read_table``
    image_column: str | None = None  # "none" reads texts alone
    header: bool = True  # whether the first row of a csv, tsv or xlsx file names its columns
    sees: Callable[[], bool] | None = None  # whether the model reads images with texts; None never asks
    read_rows: Callable[[Table, str], Iterator[Document]] | None = None  # where rows are no texts, but pairs
    order: Order | None = None  # in which documents are wanted; it says whether they come so


def read_documents(source: Source) -> Iterator[Document]:
    """Stream the documents of a source, in order.

    What can be told from the name is refused at once; what takes reading, on the way. A source
    without any text is refused where the iteration ends.
    """
    path = _find_path(source)
    if source.coreference:
        if path is None and source.spec not in (EMBEDDED, STDIN):
            raise DataError(
                f"{source.spec} has no coreference that could be read; name a file of {list_coreference()} "
                "with --dataset"
            )
        refuse_columns(source, source.spec)
    if not source.header and (
        path is None or path.is_dir() or not find_formats()[find_extension(path)].header
    ):
        raise DataError(f"{source.spec} has no line of column names; leave out --no-header")
    if source.annotated and path is not None and not find_formats()[find_extension(path)].links:
        raise DataError(
            f"{source.spec} holds no gold links; give JSON or parquet with columns text and links, or "
            f"CoNLL-U ({', '.join(list_linked_extensions())}, {EACH_ALSO})"
        )
    if source.spec == EMBEDDED:
        refuse_columns(source, "the embedded text")
        part = _choose_embedded(source)
        of_files = part in {Embedded.SENTENCES, Embedded.TREEBANK}
        by_file = source.group_column == FILE and of_files
        if source.group_column is not None and not by_file:
            known = f"its groups are its files: give --by-group {FILE}, or" if of_files else "give"
            raise DataError(
                f"the embedded text is text without columns; {known} texts of your own with --dataset"
            )
        documents = _read_pairs(source) if source.read_rows else read_embedded(part, by_file=by_file)
    elif source.spec == STDIN:
        documents = _read_stdin(source)
    else:
        documents = _read_hub(source) if path is None else _read_file(path, source)
    return _require_one(documents, source)


@dataclass(frozen=True)
class OpenSource:
    """Text ready to be read.

    Attributes:
        documents: The documents, which can be read once; or a folder of images or sound.
        name: What the ``dataset`` column says.
        described: What goes on record.
        kind: "text", "image", "sound", "video", or "image+text" where both are read together.
    """

    documents: Any
    name: str
    described: dict[str, Any]
    kind: str = "text"


def open_source(source: Source) -> OpenSource:
    documents, described = read_documents(source), describe_source(source)
    return OpenSource(documents, str(described["name"]), described)


def open_embedded(part: Embedded) -> Iterator[tuple[BinaryIO, str]]:
    """Open the files of a part, one after the other in the order of their names, with those names.

    Each file is closed when the next one is asked for.
    """
    folder = resources.files("attnprobe.corpus.sources") / "sentences"
    found = (file for file in folder.iterdir() if file.name.endswith(part.value))
    for file in sorted(found, key=lambda file: file.name):
        with file.open("rb") as stream:
            yield cast(BinaryIO, stream), file.name


def read_embedded(part: Embedded = Embedded.SENTENCES, *, by_file: bool = False) -> Iterator[Document]:
    """Stream what ships inside the package, file by file in the order of their names.

    Args:
        part: The plain sentences; those with dependencies; or the snippets with coreference. Each sentence or
            snippet is a document of its own.
        by_file: Whether a sentence counts in the group of the file of plain sentences that it is from.
    """
    for stream, name in open_embedded(part):
        lines = decode_lines(stream, name)
        match part:
            case Embedded.SENTENCES:
                stratum = Path(name).stem if by_file else None
                yield from (Document(line, stratum=stratum) for line in strip_ends(lines) if line.strip())
            case Embedded.TREEBANK:
                for document in read_conllu(lines, name, annotated=True, group=_NUMBER if by_file else None):
                    number = document.stratum  # such as narrative-12
                    yield document if number is None else replace(document, stratum=number.rpartition("-")[0])
            case _:
                yield from read_coreference(lines, name)


def _read_pairs(source: Source) -> Iterator[Document]:
    """Stream the pairs that ship inside the package."""
    assert source.read_rows is not None
    for stream, name in open_embedded(Embedded.PAIRS):
        yield from source.read_rows(parse_jsonl(decode_lines(stream, name), name), name)


def describe_source(source: Source) -> dict[str, Any]:
    """Describe a source for provenance: its name, content hash, size, split and columns.

    The hash and the size are None where there is no file to read twice: standard input, a pipe,
    the hub.
    """
    path = _find_path(source)
    digest, size, split = None, None, source.split
    if source.spec == EMBEDDED:
        digest, size = _hash(stream for stream, _ in open_embedded(_choose_embedded(source)))
    elif path is not None:
        files = sorted(_find_texts(path)) if path.is_dir() else [path] if path.is_file() else []
        if files:  # not a pipe
            with explain_errors(source.spec):
                digest, size = _hash(file.open("rb") for file in files)
    elif source.spec != STDIN:
        split = open_split(source.spec, source.config, source.split)[1]
    return {
        # A lone hyphen would look like a formula in a table.
        "name": path.name if path is not None else "stdin" if source.spec == STDIN else source.spec,
        "sha256": digest,
        "bytes": size,
        "split": split,
        "config": source.config,
        "text_column": source.text_column,
        "pair_column": source.pair_column,
        "label_column": source.label_column,
        "document_column": source.document_column,
        **({} if source.group_column is None else {"group_column": source.group_column}),
        **({} if source.header else {"header": False}),
    } | ({"kind": "text"} if path is not None and path.is_dir() else {})


def _choose_embedded(source: Source) -> Embedded:
    """Choose the part of the package's own text by what is wanted of it."""
    if source.coreference:
        return Embedded.COREFERENCE
    if source.read_rows is not None:
        return Embedded.PAIRS
    return Embedded.TREEBANK if source.annotated else Embedded.SENTENCES


def _find_path(source: Source) -> Path | None:
    """Give the path of a file that is there, or None where the name stands for something else."""
    if source.spec in (EMBEDDED, STDIN):
        _refuse_split(source)
        return None
    path = Path(source.spec)
    try:
        exists, folder = path.exists(), path.is_dir()
        link = next((one for one in (path, *path.parents) if one.is_symlink() and not one.exists()), None)
    except (OSError, ValueError):  # a name too long, a NUL in it, a folder that may not be searched
        raise DataError(f"The file {shorten(repr(source.spec))} can't be opened; check the path") from None
    if link is not None:
        raise DataError(f"{link} is a link that leads nowhere; check what it points to")
    if folder:
        _refuse_split(source)
        if source.coreference or source.annotated or not holds_text(path):
            raise DataError(f"{source.spec} is a folder; give one file of it")
        return path
    if exists:
        _refuse_split(source)
        (find_coreference_format if source.coreference else find_extension)(path)
        return path
    if looks_like_hub_id(source.spec) and path.suffix.lower() not in (*find_formats(), *PACKED):
        return None
    raise DataError(f"there is no file {source.spec}; check the path")


def _refuse_split(source: Source) -> None:
    found = find_formats().get(strip_packing(Path(source.spec)).suffix.lower())
    sheets = isinstance(found, TableFormat) and found.sheets
    for option, value in (("--split", source.split), ("--dataset-config", source.config)):
        if value is not None and not (sheets and option == "--dataset-config"):
            raise DataError(f"{source.spec} is not a hub dataset; leave out {option}")


def _read_file(path: Path, source: Source) -> Iterator[Document]:
    if path.is_dir():
        refuse_columns(source, source.spec)
        if source.group_column not in {None, FOLDER}:
            refuse_group(source, source.spec)
        yield from _read_folder(path, grouped=source.group_column is not None)
        return
    with open_file(path, source.spec) as stream:
        if source.coreference:
            yield from read_coreference(decode_lines(stream, source.spec), path, source.group_column)
            return
        found = find_formats()[find_extension(path)]
        if isinstance(found, TableFormat):
            yield from _read_table(found.read(stream, source), source, source.spec)
        else:
            yield from found.read(stream, source)


def holds_text(folder: Path) -> bool:
    """Tell whether there is a .txt file in a folder or in those inside it."""
    return next(_find_texts(folder), None) is not None


def _find_texts(folder: Path) -> Iterator[Path]:
    with explain_errors(str(folder)):
        for path in folder.rglob("*"):
            hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
            if not hidden and strip_packing(path).suffix.lower() == ".txt" and path.is_file():
                yield path


def _read_folder(folder: Path, *, grouped: bool) -> Iterator[Document]:
    """Read files by their names, a text a line; the lines of a file are parts of one document."""
    for path in sorted(_find_texts(folder)):
        with open_file(path, str(path)) as stream:
            lines = strip_ends(decode_lines(stream, str(path)))
            within = path.relative_to(folder).parent.as_posix()
            stratum = within if grouped and within != "." else None
            parts = ((path.name if place == 0 else None, line, line) for place, line in enumerate(lines))
            named = group_parts(parts)
            yield from (Document(line, group=group, stratum=stratum) for group, line in named if line.strip())


def _read_stdin(source: Source) -> Iterator[Document]:
    name = "standard input"
    with explain_errors(name):
        lines = decode_lines(get_standard_input(), name)
        if source.coreference:
            yield from read_coreference(lines, name, source.group_column)
            return
        first, lines = peek_lines(lines)
        if starts_with_object(first):
            yield from _read_table(parse_jsonl(lines, name), source, name)
        elif source.annotated:
            if not looks_like_conllu(first):
                raise DataError(
                    f"{name} holds no gold links; pipe JSON lines with text and links into it, or CoNLL-U"
                )
            refuse_columns(source, name)
            yield from read_conllu(lines, name, annotated=True, group=source.group_column)
        else:
            refuse_columns(source, name)
            refuse_group(source, name)
            yield from (Document(line) for line in strip_ends(lines) if line.strip())


def _read_hub(source: Source) -> Iterator[Document]:
    order = source.order
    if order is not None and (source.document_column is not None or not order.whole):
        order = None
    rows = read_hub_rows(source.spec, source.config, source.split, order)
    data, _ = open_split(source.spec, source.config, source.split)
    names = find_class_names(getattr(data, "features", None))
    yield from _read_table(make_table(rows, names), source, source.spec)


def _read_table(table: Table, source: Source, name: str) -> Iterator[Document]:
    if source.read_rows is not None:
        return source.read_rows(table, name)
    return read_table(
        table,
        name,
        text=source.text_column,
        pair=source.pair_column,
        label=source.label_column,
        document=source.document_column,
        group=source.group_column,
        find_labels=source.find_labels,
        annotated=source.annotated,
        usual=source.usual,
        images=_choose_images(source),
    )


def _choose_images(source: Source) -> Images | None:
    if source.image_column is None and source.sees is None:
        return None
    return Images(source.image_column, source.sees or (lambda: False), Path(source.spec).parent)


def _require_one(documents: Iterator[Document], source: Source) -> Iterator[Document]:
    document = None
    for document in documents:
        yield document
    if document is None:
        name = "standard input" if source.spec == STDIN else source.spec
        raise DataError(f"{name} holds no text: it is empty or blank; give at least one document")


def _hash(streams: Iterable[Any]) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    for stream in streams:
        with stream:
            while chunk := stream.read(1 << 20):
                digest.update(chunk)
                size += len(chunk)
    return digest.hexdigest(), size
