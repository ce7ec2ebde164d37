"""Parquet: columns of text, numbers and lists, and what the Hugging Face hub says of their classes."""

import io
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO

from attnprobe.corpus.formats import PEEK_ROWS, Row, Table, TableFormat
from attnprobe.corpus.links import LINKS, WORD_COLUMNS
from attnprobe.corpus.sources.gold import find_class_names
from attnprobe.corpus.sources.pictures import USUAL_IMAGE_COLUMNS
from attnprobe.errors import AttnprobeError, DataError

if TYPE_CHECKING:
    from attnprobe.corpus.sources.text import Source


def read(stream: BinaryIO, source: "Source") -> Table:
    """Read the columns of text, numbers and categories, of lists of them, and of answers to questions.

    Columns of bytes are read where those of the first rows are text in UTF-8; others are left out, but for
    links and images where those are wanted.
    """
    from pyarrow import parquet

    # Parquet is read from its end and in jumps, which neither gzip nor a pipe can do cheaply.
    if not stream.seekable():
        stream = io.BytesIO(stream.read())
    name = source.spec
    with _explain_damage(name):
        file = parquet.ParquetFile(stream, pre_buffer=False)
        schema = file.schema_arrow
        images = () if source.annotated else _list_images(schema.names, source)
        nested = {LINKS, *WORD_COLUMNS.values()} if source.annotated else set(images)
        texts = _find_texts(file, [c.name for c in schema if c.name not in nested and _holds_bytes(c.type)])
    columns = [c.name for c in schema if c.name in nested or c.name in texts or _is_read(c.type)]
    found = _read_rows(file, columns, texts, 8 if images else 256, name)  # images are large
    return Table(columns, found, _read_class_names(schema.metadata))


@contextmanager
def _explain_damage(name: str) -> Iterator[None]:
    try:
        yield
    except (AttnprobeError, MemoryError):
        raise
    except Exception:  # pyarrow raises what it likes
        raise DataError(
            f"{name} is damaged: it is not a whole parquet file; write or download it again"
        ) from None


def _holds_bytes(kind: Any) -> bool:
    from pyarrow import types

    if types.is_dictionary(kind) or types.is_list(kind) or types.is_large_list(kind):
        kind = kind.value_type
    return types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind)


def _find_texts(file: Any, columns: Sequence[str]) -> set[str]:
    first = next(file.iter_batches(batch_size=PEEK_ROWS, columns=columns), None) if columns else None
    found: set[str] = set()
    if first is None:
        return found
    for name in columns:
        cells = [cell for cell in first.column(name).to_pylist() if cell is not None]
        try:
            if not any("\0" in str(_decode(cell)) for cell in cells):
                found.add(name)
        except UnicodeDecodeError:
            continue
    return found


def _decode(cell: Any) -> Any:
    """Make text of bytes."""
    if isinstance(cell, list):
        return [_decode(one) for one in cell]
    return cell.decode() if isinstance(cell, bytes) else cell


def _list_images(columns: Sequence[str], source: "Source") -> Sequence[str]:
    if source.image_column is not None:
        return [source.image_column]
    usual = [name for name in columns if name.lower() in USUAL_IMAGE_COLUMNS]
    return usual if usual and source.sees is not None and source.sees() else ()


def _read_rows(file: Any, columns: list[str], texts: Collection[str], size: int, name: str) -> Iterator[Row]:
    with _explain_damage(name):
        batches = file.iter_batches(batch_size=size, columns=columns)
        rows = chain.from_iterable(batch.to_pylist() for batch in batches)
        for number, cells in enumerate(rows, start=1):
            for column in texts:
                try:
                    cells[column] = _decode(cells[column])
                except UnicodeDecodeError:
                    raise DataError(
                        f"row {number} of {name} has bytes in column {column!r} that are no UTF-8; write "
                        "the column again as text"
                    ) from None
            yield Row(f"row {number}", cells)


def _read_class_names(metadata: Mapping[bytes, bytes] | None) -> dict[str, tuple[str, ...]]:
    try:
        return find_class_names(json.loads((metadata or {})[b"huggingface"])["info"]["features"])
    except (ValueError, KeyError, TypeError, RecursionError):  # whatever else somebody put there
        return {}


def _is_read(kind: Any) -> bool:
    from pyarrow import types

    if types.is_struct(kind):  # the answers to a question
        return {field.name for field in kind} == {"text", "answer_start"} and all(
            _is_read(field.type) for field in kind
        )
    if types.is_list(kind) or types.is_large_list(kind):  # lists of floats are embeddings, which are wide
        return _is_flat(kind.value_type, types) and not types.is_floating(kind.value_type)
    return _is_flat(kind, types)


def _is_flat(kind: Any, types: Any) -> bool:
    if types.is_dictionary(kind):
        kind = kind.value_type
    text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    return text or types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)


FORMATS = [TableFormat((".parquet",), read, links=True)]
