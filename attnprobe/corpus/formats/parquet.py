"""Parquet: columns of text, numbers and lists, and what the Hugging Face hub says of their classes."""

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO

from attnprobe.corpus.formats import Row, Table, TableFormat
from attnprobe.corpus.sources.gold import find_class_names
from attnprobe.corpus.sources.links import LINKS, WORD_COLUMNS
from attnprobe.corpus.sources.pictures import USUAL_IMAGE_COLUMNS
from attnprobe.corpus.sources.streams import shorten
from attnprobe.errors import AttnprobeError

if TYPE_CHECKING:
    from attnprobe.corpus.sources.text import Source


def read(stream: BinaryIO, source: "Source") -> Table:
    """Read the columns of text, numbers and categories, of lists of them, and of answers to questions.

    Others, such as those of bytes, are left out, but for links and images where those are wanted.
    """
    import pyarrow
    from pyarrow import parquet

    # Parquet is read from its end and in jumps, which neither gzip nor a pipe can do cheaply.
    if not stream.seekable():
        stream = io.BytesIO(stream.read())
    broken = (pyarrow.ArrowException, OSError, ValueError, OverflowError)
    name = source.spec
    try:
        file = parquet.ParquetFile(stream, pre_buffer=False)
        schema = file.schema_arrow
    except broken as error:
        raise _refuse(error, name) from None
    images = () if source.annotated else _list_images(schema.names, source)
    nested = {LINKS, *WORD_COLUMNS.values()} if source.annotated else set(images)
    columns = [c.name for c in schema if c.name in nested or _is_read(c.type, pyarrow.types)]
    found = _read_rows(file, columns, 8 if images else 256, broken, name)  # images are large
    return Table(columns, found, _read_class_names(schema.metadata))


def _list_images(columns: Sequence[str], source: "Source") -> Sequence[str]:
    """List the columns that may hold images, where a model sees them."""
    if source.image_column is not None:
        return [source.image_column]
    usual = [name for name in columns if name.lower() in USUAL_IMAGE_COLUMNS]
    return usual if usual and source.sees is not None and source.sees() else ()


def _read_rows(
    file: Any, columns: list[str], size: int, broken: tuple[type[Exception], ...], name: str
) -> Iterator[Row]:
    try:
        batches = file.iter_batches(batch_size=size, columns=columns)
        rows = chain.from_iterable(batch.to_pylist() for batch in batches)
        for number, cells in enumerate(rows, start=1):
            yield Row(f"row {number}", cells)
    except broken as error:
        raise _refuse(error, name) from None


def _read_class_names(metadata: Mapping[bytes, bytes] | None) -> dict[str, tuple[str, ...]]:
    """Read the names of classes that the Hugging Face hub writes into its files."""
    try:
        return find_class_names(json.loads((metadata or {})[b"huggingface"])["info"]["features"])
    except (ValueError, KeyError, TypeError, RecursionError):  # whatever else somebody put there
        return {}


def _is_read(kind: Any, types: Any) -> bool:
    if types.is_struct(kind):  # the answers to a question
        return {field.name for field in kind} == {"text", "answer_start"} and all(
            _is_read(field.type, types) for field in kind
        )
    if types.is_list(kind) or types.is_large_list(kind):  # lists of floats are embeddings, which are wide
        return _is_flat(kind.value_type, types) and not types.is_floating(kind.value_type)
    return _is_flat(kind, types)


def _is_flat(kind: Any, types: Any) -> bool:
    if types.is_dictionary(kind):
        kind = kind.value_type
    text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    return text or types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)


def _refuse(error: Exception, name: str) -> AttnprobeError:
    return AttnprobeError(
        f"{name} is not a sound parquet file ({shorten(error)}); write or download it again"
    )


FORMATS = [TableFormat((".parquet",), read, links=True)]
