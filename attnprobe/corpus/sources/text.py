"""Sources: from what a user names (a file, a hub dataset, standard input) to documents."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from attnprobe.corpus.sources.columns import table_documents
from attnprobe.corpus.sources.conll import CONLL_READERS
from attnprobe.corpus.sources.coreference.reading import coreference_documents, known_extension
from attnprobe.corpus.sources.document import Document
from attnprobe.corpus.sources.embedded import EMBEDDED, Embedded, embedded_files
from attnprobe.corpus.sources.gold import names_of
from attnprobe.corpus.sources.hub import hub_rows, looks_like_hub_id, open_split
from attnprobe.corpus.sources.links import LINKS, WORD_COLUMNS
from attnprobe.corpus.sources.streams import (
    decoded_lines,
    opened_file,
    plain_words,
    read_txt,
    standard_input,
    without_ends,
)
from attnprobe.corpus.sources.tables import (
    TABLE_READERS,
    Table,
    jsonl_table,
    read_parquet,
    starts_with_object,
    table_of,
)
from attnprobe.corpus.sources.treebank import (
    annotated_sentences,
    begins_conllu,
    conllu_sentences,
    tagged_sentences,
)
from attnprobe.errors import AttnprobeError

STDIN = "-"
#: Formats without columns.
_PLAIN = (".txt", ".conllu")
_TABLE_READERS = TABLE_READERS | CONLL_READERS
EXTENSIONS = (*_PLAIN, *_TABLE_READERS)
#: Formats that can hold words and gold links.
LINKED_EXTENSIONS = (".jsonl", ".ndjson", ".json", ".parquet", ".conllu")
#: What CoNLL-U says of a word that can be its label; the first is the usual one.
CONLLU_TAGS = ("upos", "xpos", "deprel")


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
    find_labels: bool = False  # whether a column of a usual name is taken where none is named
    annotated: bool = (
        False  # whether words and gold links are read: of CoNLL-U, or JSON with columns so named
    )
    coreference: bool = False  # whether mentions are read, and asked for their antecedents


def read_documents(source: Source) -> Iterator[Document]:
    """Stream the documents of a source, in order.

    What can be told from the name is refused at once; what takes reading, on the way. A source
    without any text is refused where the iteration ends.
    """
    path = _local_path(source)
    if source.coreference:
        _refuse_coreference(path, source)
    if source.annotated and path is not None and not _holds_links(path):
        raise _without_links(source.spec)
    if source.spec == EMBEDDED:
        _refuse_columns(source, "the embedded text")
        documents = embedded_documents(_part(source))
    elif source.spec == STDIN:
        documents = _stdin_documents(source)
    elif path is not None:
        documents = _file_documents(path, source)
    else:
        documents = _hub_documents(source)
    return _at_least_one(documents, source)


@dataclass(frozen=True)
class OpenSource:
    """Text ready to be read.

    Attributes:
        documents: The documents, which can be read once; or a folder of images or sound.
        name: What the ``dataset`` column says.
        described: What goes on record.
        kind: "text", "image" or "sound".
    """

    documents: Any
    name: str
    described: dict[str, Any]
    kind: str = "text"


def open_source(source: Source) -> OpenSource:
    """Open a source; a bad name is refused at once."""
    documents = read_documents(source)
    described = describe_source(source)
    return OpenSource(documents, str(described["name"]), described)


def embedded_documents(part: Embedded = Embedded.SENTENCES) -> Iterator[Document]:
    """Stream what ships inside the package, file by file in the order of their names.

    Args:
        part: The plain sentences; those with dependencies; or the snippets with coreference. Each sentence or
            snippet is a document of its own.
    """
    for stream, name in embedded_files(part):
        match part:
            case Embedded.SENTENCES:
                yield from _line_documents(read_txt(stream, name))
            case Embedded.TREEBANK:
                yield from _not_blank(conllu_sentences(stream, name, annotated=True))
            case Embedded.COREFERENCE:
                yield from coreference_documents(decoded_lines(stream, name), name)


def describe_source(source: Source) -> dict[str, Any]:
    """Describe a source for provenance: its name, content hash, size, split and columns.

    The hash and the size are None where there is no file to read twice: standard input, a pipe,
    the hub.
    """
    path = _local_path(source)
    digest, size, split = None, None, source.split
    if source.spec == EMBEDDED:
        digest, size = _digest(stream for stream, _ in embedded_files(_part(source)))
    elif path is not None:
        if path.is_file():
            with plain_words(source.spec):
                digest, size = _digest([path.open("rb")])
    elif source.spec != STDIN:
        split = open_split(source.spec, source.config, source.split)[1]
    return {
        "name": _display_name(source.spec) if path is None else path.name,
        "sha256": digest,
        "bytes": size,
        "split": split,
        "config": source.config,
        "text_column": source.text_column,
        "pair_column": source.pair_column,
        "label_column": source.label_column,
        "document_column": source.document_column,
    }


def _part(source: Source) -> Embedded:
    """Tell which part of the package's own text a source stands for, by what is wanted of it."""
    if source.coreference:
        return Embedded.COREFERENCE
    return Embedded.TREEBANK if source.annotated else Embedded.SENTENCES


def _display_name(spec: str) -> str:
    """Name a source in a table, where a lone hyphen would look like a formula."""
    return "stdin" if spec == STDIN else spec


def _local_path(source: Source) -> Path | None:
    """Give the path of a file that is there, or None where the name stands for something else."""
    if source.spec in (EMBEDDED, STDIN):
        _refuse_split(source)
        return None
    path = Path(source.spec)
    try:
        exists, folder = path.exists(), path.is_dir()
    except (OSError, ValueError):  # a name too long, a NUL in it, a folder that may not be searched
        raise AttnprobeError(f"{source.spec!r} can't be opened; check the path") from None
    if folder:
        raise AttnprobeError(f"{source.spec} is a folder; give one file of it")
    if exists:
        _refuse_split(source)
        (known_extension if source.coreference else _reader_name)(path)
        return path
    if looks_like_hub_id(source.spec) and not _has_known_extension(path):
        return None
    raise AttnprobeError(f"there is no file {source.spec}; check the path")


def _refuse_split(source: Source) -> None:
    for option, value in (("--split", source.split), ("--dataset-config", source.config)):
        if value is not None:
            raise AttnprobeError(f"{source.spec} is not a hub dataset; leave out {option}")


def _refuse_columns(source: Source, name: str) -> None:
    if any((source.text_column, source.pair_column, source.label_column, source.document_column)):
        raise AttnprobeError(
            f"{name} is text without columns; leave out --text-column, --text-pair-column, "
            "--label-column and --document-column, or rename it to .conll if it holds a word and its label a "
            "line"
        )


def _refuse_coreference(path: Path | None, source: Source) -> None:
    if path is None and source.spec not in (EMBEDDED, STDIN):
        raise AttnprobeError(
            f"{source.spec} has no coreference that could be read; name a file of CorefUD (.conllu), GAP "
            "(.tsv) or WinoBias (.txt) with --dataset"
        )
    _refuse_columns(source, source.spec)


def _reader_name(path: Path) -> str:
    """Give the extension that names the reader, .gz set aside; none at all means plain text."""
    inner = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    extension = inner.suffix.lower() or ".txt"
    if extension not in EXTENSIONS:
        raise AttnprobeError(
            f"{path} has the unknown extension {extension}; convert it to one of "
            f"{', '.join(EXTENSIONS)}, each also with .gz"
        )
    return extension


def _holds_links(path: Path) -> bool:
    return _reader_name(path) in LINKED_EXTENSIONS


def _without_links(name: str) -> AttnprobeError:
    return AttnprobeError(
        f"{name} holds no gold links; give JSON or parquet with columns text and links, or CoNLL-U "
        f"({', '.join(LINKED_EXTENSIONS)}, each also with .gz)"
    )


def _has_known_extension(path: Path) -> bool:
    return path.suffix.lower() in (*EXTENSIONS, ".gz")


def _file_documents(path: Path, source: Source) -> Iterator[Document]:
    if source.coreference:
        with opened_file(path, source.spec) as stream:
            yield from coreference_documents(decoded_lines(stream, source.spec), path)
        return
    extension = _reader_name(path)
    tags = _conllu_tags(source) if extension == ".conllu" else None
    if extension in _PLAIN and tags is None:
        _refuse_columns(source, source.spec)
    with opened_file(path, source.spec) as stream:
        if tags is not None:
            yield from _not_blank(tagged_sentences(stream, source.spec, tags))
        elif extension == ".conllu":
            yield from _not_blank(conllu_sentences(stream, source.spec, annotated=source.annotated))
        elif extension == ".txt":
            yield from _line_documents(read_txt(stream, source.spec))
        else:
            read = _TABLE_READERS[extension]
            if source.annotated and extension == ".parquet":
                read = partial(read_parquet, nested=(LINKS, *WORD_COLUMNS.values()))
            yield from _table_documents(read(stream, source.spec), source, source.spec)


def _conllu_tags(source: Source) -> str | None:
    """Tell which column of a CoNLL-U file labels its words, if labels are wanted."""
    if source.annotated or not source.find_labels:
        return None
    if any((source.text_column, source.pair_column, source.document_column)):
        raise AttnprobeError(
            f"{source.spec} is CoNLL-U, whose text has no column; leave out --text-column, "
            "--text-pair-column and --document-column"
        )
    column = source.label_column or CONLLU_TAGS[0]
    if column not in CONLLU_TAGS:
        raise AttnprobeError(
            f"{source.spec} is CoNLL-U, whose words are labelled by {', '.join(CONLLU_TAGS)}; pass one of "
            "them to --label-column"
        )
    return column


def _stdin_documents(source: Source) -> Iterator[Document]:
    name = "standard input"
    with plain_words(name):
        lines = decoded_lines(standard_input(), name)
        if source.coreference:
            yield from coreference_documents(lines, name)
            return
        first: list[str] = []
        for line in lines:
            first.append(line)
            if line.strip():
                break
        lines = chain(first, lines)
        if starts_with_object(first):
            yield from _table_documents(jsonl_table(lines, name), source, name)
        elif source.annotated:
            if not (first and begins_conllu(first[-1])):
                raise AttnprobeError(
                    f"{name} holds no gold links; pipe JSON lines with text and links into it, or CoNLL-U"
                )
            _refuse_columns(source, name)
            yield from _not_blank(annotated_sentences(lines, name))
        else:
            _refuse_columns(source, name)
            yield from _line_documents(without_ends(lines))


def _hub_documents(source: Source) -> Iterator[Document]:
    rows = hub_rows(source.spec, source.config, source.split)
    data, _ = open_split(source.spec, source.config, source.split)
    names = names_of(getattr(data, "features", None))
    yield from _table_documents(table_of(rows, names), source, source.spec)


def _not_blank(sentences: Iterable[Document]) -> Iterator[Document]:
    return (sentence for sentence in sentences if sentence.text.strip())


def _line_documents(lines: Iterable[str]) -> Iterator[Document]:
    return (Document(line) for line in lines if line.strip())


def _table_documents(table: Table, source: Source, name: str) -> Iterator[Document]:
    return table_documents(
        table,
        name,
        text=source.text_column,
        pair=source.pair_column,
        label=source.label_column,
        document=source.document_column,
        find_labels=source.find_labels,
        annotated=source.annotated,
    )


def _at_least_one(documents: Iterator[Document], source: Source) -> Iterator[Document]:
    found = False
    for document in documents:
        found = True
        yield document
    if not found:
        name = "standard input" if source.spec == STDIN else source.spec
        raise AttnprobeError(f"{name} holds no text: it is empty or blank; give at least one document")


def _digest(streams: Iterable[Any]) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    for stream in streams:
        with stream:
            while chunk := stream.read(1 << 20):
                digest.update(chunk)
                size += len(chunk)
    return digest.hexdigest(), size
