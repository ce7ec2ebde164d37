"""Opening what a user names, a file, folder, hub dataset or standard input, as documents, images or sound."""

import hashlib
import importlib
import importlib.util
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from enum import StrEnum
from functools import lru_cache, partial
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, cast

from attnprobe.corpus.cells import Row, Table, find_class_names, make_table
from attnprobe.corpus.conllu import looks_like_conllu, read_conllu, read_treebank
from attnprobe.corpus.coreference import read_coreference
from attnprobe.corpus.document import Document, group_parts
from attnprobe.corpus.media import MediaFolder, find_files, is_media
from attnprobe.corpus.retrieval import find_benchmark, open_benchmark
from attnprobe.corpus.rows import HEADED, TABLES, parse_jsonl
from attnprobe.corpus.schema import read_table
from attnprobe.corpus.source import COLUMNS, EMBEDDED, FILE, FOLDER, STDIN, OpenSource, Source
from attnprobe.corpus.streams import (
    PACKED,
    decode_lines,
    explain_errors,
    hash_stream,
    open_file,
    peek_lines,
    shorten,
    strip_ends,
    strip_packing,
)
from attnprobe.errors import AttnprobeWarning, DataError
from attnprobe.table.cells import clean
from attnprobe.table.kinds import ALL_GROUPS

_PIPED = "standard input"
#: The extensions of all formats.
FORMATS = (".txt", ".conllu", *TABLES)


def open_anything(source: Source) -> OpenSource:
    """Open a source of text, media or queries with passages; errors that need no reading come at once."""
    path, spec = _find_path(source.spec), source.spec
    folder = path is not None and path.is_dir()
    if path is not None and not (source.coreference or source.annotated):
        if folder and find_benchmark(path):
            holds = f"{spec} holds queries and passages"
            if not source.find_labels:
                advice = "which are for --objective retrieval; give one file of it, such as corpus.jsonl"
                raise DataError(f"{holds}, {advice}")
            source.refuse(holds, "config", *COLUMNS)
            return open_benchmark(path, source.split)
        if is_media(path) or (folder and (not any(_find_texts(path)) or any(find_files(path, is_media)))):
            fields = ("image_column", "split", "config", "text_column", "pair_column", "document_column")
            source.refuse(f"{spec} holds images or sound", *fields)
            media = MediaFolder.open(path, source.label_column)
            described = media.described | {"label_column": source.label_column}
            return OpenSource(media, str(described["name"]), described, media.kind)
    documents, described = read_documents(source), describe_source(source)
    return OpenSource(documents, str(described["name"]), described)


def _find_path(spec: str) -> Path | None:
    """Find a file or folder, or refuse a missing one; None for the hub, standard input and embedded texts."""
    if spec in {EMBEDDED, STDIN}:
        return None
    path = Path(spec)
    with explain_errors(f"the file {shorten(repr(spec))}"):  # such as a name that is too long
        if path.exists():
            return path
    if _HUB_ID.fullmatch(spec) and path.suffix.lower() not in (*FORMATS, *PACKED):
        return None
    raise DataError(f"there is no file {spec}; check the path")


# ---- text


def read_documents(source: Source) -> Iterator[Document]:
    """Stream the documents of a source of text; errors that need no reading come at once."""
    spec, path = source.spec, _find_path(source.spec)
    if path is not None or spec in {EMBEDDED, STDIN}:
        source.refuse(f"{spec} is not a hub dataset", "split", "config")
    elif source.coreference:
        raise DataError(f"{spec} has no coreference to read; name a file of CorefUD (.conllu) or GAP (.tsv)")
    folder = path if path is not None and path.is_dir() else None
    if folder and (source.coreference or source.annotated or not any(_find_texts(folder))):
        raise DataError(f"{spec} is a folder; give one file of it")
    extension = "" if path is None or folder else strip_packing(path).suffix.lower() or ".txt"
    if extension and extension not in FORMATS:
        known = f"{', '.join(FORMATS)}, each also with {', '.join(PACKED)}"
        raise DataError(f"{path} has the unknown extension {extension}; convert it to one of {known}")
    if not source.header and extension not in HEADED:
        raise DataError(f"{spec} has no line of column names; leave out --no-header")
    if source.coreference:
        source.refuse_columns(spec, grouped=True)
    if spec == EMBEDDED:
        part, grouped = _choose_embedded(source)
        return read_embedded(part, by_file=grouped)
    if spec == STDIN:
        return _require_text(_read_standard_input(source), _PIPED)
    if path is None:
        return _require_text(read_table(read_hub(source), source), spec)
    documents = _read_folder(path, source) if folder else _read_file(path, extension, source)
    return _require_text(documents, spec)


def _require_text(documents: Iterator[Document], name: str) -> Iterator[Document]:
    document = None
    for document in documents:
        yield document
    if document is None:
        raise DataError(f"{name} holds no text: it is empty or blank; give at least one document")


def _read_file(path: Path, extension: str, source: Source) -> Iterator[Document]:
    with open_file(path, source.spec) as stream:
        if extension in TABLES and not source.coreference:
            yield from read_table(TABLES[extension](stream, source), source)
        else:
            yield from _read_lines(decode_lines(stream, source.spec), path, extension, source)


def _read_lines(lines: Iterable[str], path: str | Path, extension: str, source: Source) -> Iterator[Document]:
    """Read the lines of coreference, of CoNLL-U, or of plain text, where each is a document."""
    if source.coreference:
        return read_coreference(lines, path, source.group_column)
    if extension == ".conllu":
        return read_treebank(lines, source)
    if source.annotated:
        advice = "give JSON or parquet with text and links, or CoNLL-U"
        raise DataError(f"{source.spec} holds no gold links; {advice}")
    source.refuse_columns(source.spec, grouped=False)
    return (Document(line) for line in strip_ends(lines) if line.strip())


def _read_standard_input(source: Source) -> Iterator[Document]:
    source = replace(source, spec=_PIPED)
    with explain_errors(_PIPED):
        if (stream := getattr(sys.stdin, "buffer", None)) is None:
            raise DataError("standard input is closed; pipe text into it, or name a file")
        first, lines = peek_lines(decode_lines(stream, _PIPED))
        if first.lstrip().startswith('{"') and not source.coreference:
            yield from read_table(parse_jsonl(lines, _PIPED), source)
        else:
            extension = ".conllu" if source.annotated and looks_like_conllu(first) else ".txt"
            yield from _read_lines(lines, _PIPED, extension, source)


def _read_folder(folder: Path, source: Source) -> Iterator[Document]:
    """Read files in the order of their names, a text a line; each file is one document."""
    source.refuse_columns(source.spec, grouped=source.group_column == FOLDER)
    for path in sorted(_find_texts(folder)):
        with open_file(path, str(path)) as stream:
            lines = strip_ends(decode_lines(stream, str(path)))
            within = path.relative_to(folder).parent.as_posix()
            group = within if source.group_column is not None and within != "." else None
            parts = ((path.name if place == 0 else None, line, line) for place, line in enumerate(lines))
            named = group_parts(parts)
            yield from (Document(line, part_of=name, group=group) for name, line in named if line.strip())


def _find_texts(folder: Path) -> Iterator[Path]:
    return find_files(folder, lambda path: strip_packing(path).suffix.lower() == ".txt")


def describe_source(source: Source) -> dict[str, Any]:
    """Describe a source for the record; hash and size are None of standard input, a pipe and the hub."""
    path, split = _find_path(source.spec), source.split
    streams: Iterable[Any] | None = None
    if source.spec == EMBEDDED:
        streams = (stream for stream, _ in open_embedded(_choose_embedded(source)[0]))
    elif path is None and source.spec != STDIN:
        split = open_split(source.spec, source.config, source.split)[1]
    elif path is not None and (path.is_dir() or path.is_file()):  # not a pipe
        files = sorted(_find_texts(path)) if path.is_dir() else [path]
        streams = (file.open("rb") for file in files)
    digest, size = hashlib.sha256(), 0
    with explain_errors(source.spec):
        for stream in streams or ():
            with stream:
                size += hash_stream(stream, digest)
    # A lone hyphen would look like a formula in a table.
    name = path.name if path is not None else "stdin" if source.spec == STDIN else source.spec
    known = (digest.hexdigest(), size) if streams is not None else (None, None)
    described: dict[str, Any] = {"name": name, "sha256": known[0], "bytes": known[1], "split": split}
    described |= {field: getattr(source, field) for field in ("config", *COLUMNS)}
    beside = {"group_column": source.group_column, "header": None if source.header else False}
    beside["kind"] = "text" if path is not None and path.is_dir() else None
    return described | {field: value for field, value in beside.items() if value is not None}


# ---- the Hugging Face Hub

#: Held-out text first.
USUAL_SPLITS = ("test", "validation", "train")
#: Rows among which a shuffled stream draws the next one.
SHUFFLE_BUFFER = 10_000
#: ``name`` or ``org/name``.
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)


def read_hub(source: Source) -> Table:
    """Stream the rows of a split; a random order shuffles shards and a buffer, and is marked as arranged."""
    data, chosen = open_split(source.spec, source.config, source.split)
    features = getattr(data, "features", None) or {}

    def read(data: Any) -> Iterator[Row]:
        order = source.order
        shuffled = order is not None and order.whole and source.document_column is None
        with _explain_failure(source.spec):
            if order is not None and shuffled and hasattr(data, "shuffle"):
                known = getattr(getattr(data, "info", None), "splits", None) or {}
                order.total = getattr(known.get(chosen), "num_examples", None)
                order.arranged = True
                data = data.shuffle(seed=order.seed, buffer_size=SHUFFLE_BUFFER)
            for name, kind in features.items():
                if type(kind).__name__ == "Image":  # decoded by ``media`` alone, which refuses bombs
                    data = data.cast_column(name, type(kind)(decode=False))
            for number, cells in enumerate(data, start=1):
                yield Row(f"row {number} of {source.spec}", cells)

    return make_table(source.spec, read(data), find_class_names(features))


@lru_cache(maxsize=8)
def open_split(spec: str, config: str | None, split: str | None) -> tuple[Any, str]:
    """Open the named split of a hub dataset, or the first of test, validation and train; gives its name."""
    datasets: Any = None
    with suppress(ImportError):
        datasets = importlib.import_module("datasets")
    # A mere folder called datasets can be imported too, but has no version.
    if int(getattr(datasets, "__version__", "0").split(".")[0]) < 4:
        raise DataError(
            f"{spec} is not a file here; to read it from the Hugging Face Hub, without running a script that "
            "may come with it: pip install 'datasets>=4'"
        )
    local = None
    with suppress(ImportError, ValueError):
        # load_dataset("text") would read the files of the working folder, and "pandas" would unpickle them.
        local = importlib.util.find_spec(f"datasets.packaged_modules.{spec}")
    if local is not None:
        raise DataError(f"{spec} is neither a file here nor the id of a hub dataset; give one of the two")
    with _explain_failure(spec):
        # Without a split this is a dict of them; streaming, so nothing is downloaded yet.
        data = datasets.load_dataset(spec, name=config, split=split, streaming=True)
    if split is not None:
        return data, split
    names = list(data)
    chosen = next((usual for usual in USUAL_SPLITS if usual in names), None)
    if chosen is None:
        raise DataError(f"{spec} has no split test, validation or train; pass --split with one of {names}")
    return data[chosen], chosen


@contextmanager
def _explain_failure(spec: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # each of datasets, huggingface_hub and decoders has its own types
        raise DataError(
            f"{spec} is not a file here and can't be read from the Hugging Face Hub ({shorten(error)}); "
            "check the name, --split, --dataset-config and the network"
        ) from error


# ---- texts inside the package


class Embedded(StrEnum):
    """A part of the texts inside the package, by the extension of its files."""

    SENTENCES = ".txt"
    TREEBANK = ".conllu"  # the first sentences of each file of sentences, annotated by hand after UD v2
    COREFERENCE = ".tsv"  # snippets with a pronoun and two names, in the columns of GAP
    PAIRS = ".jsonl"  # sentences with a subject in the singular and in the plural, and a mask for the verb


def open_embedded(part: Embedded) -> Iterator[tuple[BinaryIO, str]]:
    """Open the files of a part in the order of their names; yields streams and names."""
    folder = resources.files("attnprobe.corpus") / "sentences"
    files = (file for file in folder.iterdir() if file.name.endswith(part.value))
    for file in sorted(files, key=lambda file: file.name):
        with file.open("rb") as stream:
            yield cast(BinaryIO, stream), file.name


def read_embedded(part: Embedded = Embedded.SENTENCES, *, by_file: bool = False) -> Iterator[Document]:
    """Stream texts inside the package; with ``by_file``, each file is a group."""
    for stream, name in open_embedded(part):
        lines = decode_lines(stream, name)
        match part:
            case Embedded.SENTENCES:
                group = Path(name).stem if by_file else None
                yield from (Document(line, group=group) for line in strip_ends(lines) if line.strip())
            case Embedded.TREEBANK:
                number = "sent_id" if by_file else None  # such as narrative-12
                for document in read_conllu(lines, name, annotated=True, group=number):
                    yield replace(document, group=document.group and document.group.rpartition("-")[0])
            case Embedded.COREFERENCE:
                yield from read_coreference(lines, name)
            case Embedded.PAIRS:
                yield from read_table(parse_jsonl(lines, name), Source(EMBEDDED, contrasts=True))


def _choose_embedded(source: Source) -> tuple[Embedded, bool]:
    """Choose the part that a source wants, and whether its files are groups."""
    part = Embedded.TREEBANK if source.annotated else Embedded.SENTENCES
    part = Embedded.COREFERENCE if source.coreference else Embedded.PAIRS if source.contrasts else part
    grouped = source.group_column == FILE and part in {Embedded.SENTENCES, Embedded.TREEBANK}
    source.refuse_columns("the embedded text", grouped=grouped)
    return part, grouped


# ---- several sources, and groups of documents

#: Tables of more groups would grow too large.
MOST_GROUPS = 100


def join_sources(sources: Sequence[OpenSource], column: str | None = None) -> OpenSource:
    """Chain sources of text, or refuse media and doubles; with the ``column`` ``FILE``, each is a group."""
    if len(sources) == 1:
        return sources[0]
    known, names, texts = dict[str, str](), list[str](), list[Iterable[Document]]()
    for source in sources:
        digest = source.described.get("sha256")
        if digest in known:
            raise DataError(f"{source.name} and {known[digest]} are the same file; name it once.")
        known |= {} if digest is None else {digest: source.name}
        again = [other.name for other in sources[: len(names)]].count(source.name)
        names.append(f"{source.name} ({again + 1})" if again and column == FILE else source.name)
        marked = map(partial(replace, group=names[-1]), source.documents)
        texts.append(marked if column == FILE else source.documents)
    name = " + ".join(names)
    described = {"name": name, "sources": [source.described for source in sources]}
    return OpenSource(chain.from_iterable(texts), name, described)


def keep_grouped(documents: Iterable[Document], column: str, name: str) -> Iterator[Document]:
    """Keep the documents that are in a group, and warn of others; refuse no group at all, or too many."""
    known: set[str] = set()
    left = 0
    for document in documents:
        group = clean(document.group or "").strip()
        if not group:
            left += 1
            continue
        known.add(group)
        if len(known) > MOST_GROUPS:
            raise DataError(
                f"{column!r} of {name} has more than {MOST_GROUPS} values, such as {shorten(group)!r}; "
                "name a column of fewer with --by-group, such as a genre."
            )
        if group == ALL_GROUPS:
            taken = f"{ALL_GROUPS!r}, the name of rows over all groups; give the group another name"
            raise DataError(f"{column!r} of {name} has the value {taken}.")
        yield replace(document, group=group)
    if not known:
        empty = f"{column!r} is empty, or not there, in each; name another column or comment with --by-group"
        raise DataError(f"No document of {name} is in a group: {empty}.")
    if left:
        sentence = f"Texts of {name} without {shorten(column)!r} are left out: {left:,}."
        warnings.warn(sentence, AttnprobeWarning, stacklevel=2)
