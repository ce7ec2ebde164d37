"""Input that ends in the middle: one sentence, exit code 2, and nothing on disk has changed."""

import gzip
import io
import json

import pyarrow
import pytest
from pyarrow import parquet

ROWS = [{"text": f"The parcel number {number} came late.", "label": number % 2} for number in range(2000)]


def packed_parquet() -> bytes:
    sink = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(ROWS), sink, row_group_size=100)
    return sink.getvalue()


def holed(raw: bytes) -> bytes:
    """Leave head and footer, as a download in pieces does, and nothing in between."""
    start, stop = len(raw) // 3, len(raw) // 2
    return raw[:start] + bytes(stop - start) + raw[stop:]


LINES = "\n".join(map(json.dumps, ROWS)).encode()
TABLE = "\n".join(["text,label", *(f'"{row["text"]}",{row["label"]}' for row in ROWS)]).encode()
# Each gives hundreds of documents before it ends.
CUT_SHORT = {
    "lines.jsonl": LINES[: len(LINES) // 2],
    "lines.jsonl.gz": gzip.compress(LINES)[:-2000],
    "table.csv": TABLE[: TABLE.rindex(b'"')],
    "text.txt.gz": gzip.compress(TABLE)[:-9],
    "rows.parquet": packed_parquet()[:-100],
    "holed.parquet": holed(packed_parquet()),
}


@pytest.mark.parametrize("name", CUT_SHORT)
def test_nothing_is_written_and_nothing_replaced(invoke, tmp_path, name):
    source = tmp_path / name
    source.write_bytes(CUT_SHORT[name])
    before = {
        "heads.csv": b"model,dataset\n",
        "heads.csv.json": b'{"table": "heads.csv"}',
        name: CUT_SHORT[name],
    }
    for file, content in before.items():
        (tmp_path / file).write_bytes(content)
    for command in ("census", "importance"):
        words = [command, "demo", "-d", source, "-o", tmp_path / "heads.csv", "--overwrite"]
        words += ["--resume", tmp_path / "state"] if command == "census" else []
        code, out, error = invoke(*words)
        assert (code, out) == (2, "")
        sentence = error.splitlines()[-1]
        assert sentence.startswith("attnprobe: ")
        assert sentence.endswith(".")
        assert name in sentence
        assert "attnprobe: unexpected" not in error
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
