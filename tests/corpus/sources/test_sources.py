"""Reading documents: every format, every way in which a file can be bad, no network."""

import bz2
import gzip
import hashlib
import io
import json
import lzma
import os
import re
import sys
import threading
import warnings
import zipfile
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attnprobe.corpus.formats import find_formats
from attnprobe.corpus.sources import hub
from attnprobe.corpus.sources.document import Document, Tagged
from attnprobe.corpus.sources.streams import decode_lines
from attnprobe.corpus.sources.text import (
    Source,
    describe_source,
    read_documents,
    read_embedded,
)
from attnprobe.errors import AttnprobeError, AttnprobeWarning

Write = Callable[[str, bytes | str], str]
Say = Callable[[bytes], None]

#: The columns of a word behind its form, with nothing in them.
BLANKS = "\t_" * 8
CONLLU = """# sent_id = 1
# text = It's here.
1-2\tIt's\t_\t_\t_\t_\t_\t_\t_\t_
1\tIt\tit\tPRON\t_\t_\t3\tnsubj\t_\t_
2\t's\tbe\tAUX\t_\t_\t3\tcop\t_\t_
3\there\there\tADV\t_\t_\t0\troot\t_\tSpaceAfter=No
4\t.\t.\tPUNCT\t_\t_\t3\tpunct\t_\t_

"""


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file and give its path; one whose name says so is packed."""

    def write_file(name: str, content: bytes | str) -> str:
        raw = content.encode() if isinstance(content, str) else content
        path = tmp_path / name
        path.write_bytes(PACK.get(path.suffix, bytes)(raw))
        return str(path)

    return write_file


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch) -> Say:
    """Put bytes on standard input."""
    return lambda raw: monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw), encoding="ascii"))


def read(spec: str, **options: Any) -> list[Document]:
    return list(read_documents(Source(spec, **options)))


def texts(spec: str, **options: Any) -> list[str]:
    return [document.text for document in read(spec, **options)]


def parquet_bytes(columns: dict[str, Any]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


def sheet_bytes(**sheets: list[tuple[Any, ...]]) -> bytes:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    sink = io.BytesIO()
    book.save(sink)
    return sink.getvalue()


# ---- formats

PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda raw: pa.Codec("zstd").compress(raw).to_pybytes(),
}
TWO_ROWS: dict[str, bytes | str] = {
    ".txt": "one\ntwo, 2\n",
    ".csv": 'label,sentence\n0,one\n1,"two, 2"\n',
    ".tsv": "label\tsentence\n0\tone\n1\ttwo, 2\n",
    ".jsonl": '{"label": 0, "sentence": "one"}\n{"label": 1, "sentence": "two, 2"}\n',
    ".ndjson": '"one"\n"two, 2"\n',
    ".json": '[{"sentence": "one"},\n {"sentence": "two, 2"}]',
    ".parquet": parquet_bytes({"label": [0, 1], "sentence": ["one", "two, 2"]}),
    ".xlsx": sheet_bytes(first=[("label", "sentence"), (0, "one"), (1, "two, 2")], second=[("x",)]),
    ".conllu": f"# text = one\n1\tone{BLANKS}\n\n# text = two, 2\n1\ttwo{BLANKS}\n\n",
    **dict.fromkeys((".conll", ".bio", ".iob"), "one O\n\ntwo, X\n2 X\n"),
}


#: Formats in which no bytes of text alone make a file.
BINARY = (".parquet", ".xlsx")


def test_the_formats_are_the_ones_tested_here() -> None:
    assert set(find_formats()) == set(TWO_ROWS)


@pytest.mark.parametrize("packed", ["", *PACK])
@pytest.mark.parametrize("extension", TWO_ROWS)
def test_every_format_is_read_in_file_order(write: Write, extension: str, packed: str) -> None:
    assert texts(write(f"data{extension}{packed}", TWO_ROWS[extension])) == ["one", "two, 2"]


@pytest.mark.parametrize("name", ["DATA.TXT", "data", "archive.2024.txt", ".txt"])
def test_letter_case_and_a_missing_extension_do_not_matter(write: Write, name: str) -> None:
    assert texts(write(name, "one\ntwo\n")) == ["one", "two"]


@pytest.mark.parametrize("extension", [".txt", ".csv", ".tsv", ".jsonl", ".json"])
def test_byte_order_mark_and_crlf_are_dropped(write: Write, extension: str) -> None:
    content = TWO_ROWS[extension]
    assert isinstance(content, str)
    path = write(f"data{extension}", b"\xef\xbb\xbf" + content.replace("\n", "\r\n").encode())
    assert texts(path) == ["one", "two, 2"]


def test_txt_splits_at_line_feeds_alone(write: Write) -> None:
    odd = "a\u2028b\x0bc\x0cd\x85e\x1cf\rg"
    assert texts(write("data.txt", f"{odd}\r\n\n  \n\tnext \n")) == [odd, "\tnext "]


def test_csv_quoting(write: Write) -> None:
    path = write("data.csv", 'id,text\r\n1,"She said ""no"",\r\nand left"\r\n2,it\'s 5" wide\r\n')
    assert texts(path) == ['She said "no",\r\nand left', "it's 5\" wide"]


def test_a_blank_before_a_quote(write: Write) -> None:
    """The blank is none of the text, nor is the quote; a cell without quotes stays as it is."""
    path = write("data.csv", '"id", "text", "label"\n1, "one, 1\nmore", "a"\n2,  "two ""2""", b\n')
    assert read(path, label_column="label") == [
        Document("one, 1\nmore", None, "a"),
        Document('two "2"', None, "b"),
    ]
    path = write("later.csv", 'id,text\n1, one\n2, "two, 2"\n3,"three"\n')
    assert texts(path) == [" one", "two, 2", "three"]
    assert "line 3 of" in refusal(write("broken.csv", 'id,text\n1, "a"\n2, "b" c\n'))


def test_the_first_line_names_the_separator(write: Write) -> None:
    assert texts(write("a.csv", '"sep=|"\ntext|n\na, b|1\n')) == ["a, b"]
    assert texts(write("b.csv", 'SEP=,\ntext,n\n"a, b",1\n')) == ["a, b"]
    assert "rename it to .csv" in refusal(write("a.tsv", "sep=,\ntext,n\na,1\n"))
    assert "line 4 of" in refusal(write("c.csv", "sep=,\ntext,n\na,1\nb,2,3\n"))


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
@pytest.mark.parametrize("extension", [".txt", ".csv", ".tsv", ".jsonl", ".json", ".conllu", ".conll"])
def test_utf16(write: Write, extension: str, encoding: str, packed: str) -> None:
    r"""With its mark, and with what \n is a byte of."""
    content = str(TWO_ROWS[extension]).replace("one", "on\u0a0ae").replace("\n", "\r\n")
    raw = (b"\xfe\xff" if encoding == "utf-16-be" else b"") + content.encode(encoding)
    assert texts(write(f"data{extension}{packed}", raw)) == ["on\u0a0ae", "two, 2"]


def test_utf16_that_is_broken(write: Write, say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "is not UTF-16" in refusal(write("odd.txt", "one\n".encode("utf-16") + b"x"))
    assert "is not UTF-16" in refusal(write("half.txt", b"\xff\xfea\0\n\0\x00\xd8\n\0"))
    assert "NUL bytes" in refusal(write("data.txt", "one\n".encode("utf-32")))
    say("one\ntwo".encode("utf-16"))
    assert texts("-") == ["one", "two"]
    long = ("\u0a0a" * 4000 + "\n").encode("utf-16")
    with pytest.raises(AttnprobeError, match="longer than"):
        list(decode_lines(io.BytesIO(long), "long", 1000))


def test_tsv_quotes_are_characters(write: Write) -> None:
    path = write("data.tsv", 'sentence\tlabel\n"You\'ll love it!\t1\n"a "" b"\t0\n')
    assert texts(path) == ["\"You'll love it!", '"a "" b"']


def test_header_is_stripped_and_short_or_blank_rows_are_passed_over(write: Write) -> None:
    path = write("data.csv", "\nlabel , text \n\n1\n0,\n1,  \n0,one\n")
    assert read(path, label_column="label") == [Document("one", None, "0")]


@pytest.mark.parametrize("name", ["data.txt", "data.csv", "data.tsv", "data.jsonl", "data.json"])
def test_ten_megabytes_on_a_line(write: Write, name: str) -> None:
    long = "word " * 2_000_000
    line = json.dumps({"text": long}) if ".json" in name else long
    header = "text\n" if name.endswith("sv") else ""
    content = f"[{line}]" if name.endswith(".json") else f"{header}{line}\n"
    assert texts(write(name, content)) == [long]


@pytest.mark.parametrize(
    "content",
    [
        '["one", "two"]',
        '{"version": 1, "data": [{"text": "one"}, {"text": "two"}]}',
        '{"rows": ["one", "two"], "meta": {"n": [1]}}',
        '{"text": "one"}\n\n{"text": "two"}\n',
    ],
    ids=["strings", "object with one array", "array of strings in an object", "JSON Lines called .json"],
)
def test_shapes_of_json(write: Write, content: str) -> None:
    assert texts(write("data.json", content)) == ["one", "two"]


def test_json_rows_may_leave_columns_out(write: Write) -> None:
    path = write(
        "data.jsonl", '{"id": 1}\n{"text": null}\n\n{"text": "one"}\n{"text": "two", "label": 0.5}\n'
    )
    assert read(path, label_column="label") == [Document("one"), Document("two", None, 0.5)]


def test_parquet_types(write: Write) -> None:
    columns = {
        "when": pa.array([0, 1, 2], pa.timestamp("ns")),
        "nested": [[1], [2], [3]],
        "kind": pa.array(["x", "y", "x"]).dictionary_encode(),
        "body": pa.array(["one", None, "three"], pa.large_string()),
        "good": [True, False, False],
    }
    path = write("data.parquet", parquet_bytes(columns))
    assert read(path, text_column="body", label_column="kind") == [
        Document("one", None, "x"),
        Document("three", None, "x"),
    ]
    assert [document.label for document in read(path, text_column="body", label_column="good")] == [1, 0]


def test_parquet_texts_as_bytes(write: Write) -> None:
    columns = {
        "picture": pa.array([b"\x89PNG", b"\xff\xd8", None]),
        "text": pa.array(["caf\u00e9".encode(), None, b"three"]),
        "pair": pa.array([b"x", b"y", b"z"], pa.large_binary()),
        "label": pa.array([b"a", b"b", b"a"]).dictionary_encode(),
    }
    path = write("data.parquet", parquet_bytes(columns))
    expected = [Document("caf\u00e9", "x", "a"), Document("three", "z", "a")]
    assert read(path, pair_column="pair", label_column="label") == expected
    assert texts(path, text_column="1") == ["caf\u00e9", "three"]
    late = parquet_bytes({"text": pa.array([b"fine"] * 40 + [b"caf\xe9"])})
    assert "row 41 of" in refusal(write("late.parquet", late))
    words = parquet_bytes({"tokens": pa.array([[b"a", b"b"]]), "tags": pa.array([[b"X", b"O"]])})
    assert read(write("words.parquet", words), find_labels=True) == [
        Document("a b", label=Tagged(("a", "b"), ("X", "O")))
    ]


def test_parquet_of_several_batches(write: Write) -> None:
    rows = [f"row {number}" for number in range(1000)]
    assert texts(write("data.parquet", parquet_bytes({"text": rows}))) == rows


def test_conllu_prefers_its_text_line(write: Write) -> None:
    assert texts(write("data.conllu", CONLLU + CONLLU.replace("here", "there"))) == [
        "It's here.",
        "It's there.",
    ]


def test_conllu_joins_surface_forms_where_there_is_no_text_line(write: Write) -> None:
    no_text = CONLLU.replace("# text = It's here.\n", "") + "".join(
        f"{word}{BLANKS}\n" for word in ("1\tGo", "1.1\tempty", "2\ton")
    )
    assert texts(write("data.conllu", no_text)) == ["It's here.", "Go on"]


# ---- line ends


@pytest.mark.parametrize("extension", sorted(TWO_ROWS.keys() - {*BINARY}))
def test_lines_that_end_as_on_an_old_macintosh(write: Write, say: Say, extension: str) -> None:
    content = str(TWO_ROWS[extension]).replace("\n", "\r")
    assert texts(write(f"data{extension}", content)) == ["one", "two, 2"]
    assert texts(write(f"windows{extension}", content.replace("\r", "\r\n"))) == ["one", "two, 2"]


def test_carriage_returns_inside_a_line_are_said_once(write: Write) -> None:
    path = write("data.txt", "one\r\ntwo\rthree\nfour\rfive\n")
    with pytest.warns(AttnprobeWarning) as caught:
        assert texts(path) == ["one", "two\rthree", "four\rfive"]
    assert [str(one.message) for one in caught] == [
        f"line 2 of {path} has carriage returns inside, which are read as blanks: only line feeds end a line."
    ]


# ---- columns


def test_of_two_text_columns_the_one_that_is_read_is_said(write: Write) -> None:
    path = write("data.csv", "Sentence,text,title\na,b,c\n")
    with pytest.warns(AttnprobeWarning) as caught:
        assert texts(path) == ["b"]
    assert [str(one.message) for one in caught] == [
        f"the text of {path} is taken from its column 'text', not from 'Sentence'; name another with "
        "--text-column."
    ]


@pytest.mark.parametrize(
    ("header", "chosen"),
    [
        ("content,sentence,text", "text"),
        ("content,sentence2,sentence1", "sentence1"),
        ("id,Text,url", "Text"),
        ("TEXT,text", "text"),
        ("premise,hypothesis", "premise"),
        ("answer,question", "question"),
        ("document,content", "content"),
        ("title,document", "document"),
    ],
)
def test_the_usual_text_columns(write: Write, header: str, chosen: str) -> None:
    documents = read(write("data.csv", f"{header}\n{header}\n"))
    assert documents == [Document(chosen)]  # and no pair, though the columns of one may be there


def test_the_only_column_of_strings_is_the_text(write: Write) -> None:
    csv_path = write("data.csv", "id,stars,review\n,4.5,good\n2,1e3,bad\n")
    assert texts(csv_path) == ["good", "bad"]
    assert texts(write("data.jsonl", '{"n": 1, "words": "one", "tags": ["a"]}')) == ["one"]


def test_the_label_and_pair_columns_are_not_taken_for_the_text(write: Write) -> None:
    path = write("data.csv", "review,sentiment,reply\ngood,positive,thanks\n")
    expected = [Document("good", "thanks", "positive")]
    assert read(path, label_column="sentiment", pair_column="reply") == expected


@pytest.mark.parametrize(
    "content", ["title,body\na b,c d\n", "a,b\n1,2\n", "the,7.73\nto,7.43\n"], ids=["two", "none", "headless"]
)
def test_an_unclear_text_column_is_asked_for(write: Write, content: str) -> None:
    first, second = content.splitlines()[0].split(",")
    with pytest.raises(AttnprobeError, match=f"pass --text-column with one of '{first}', '{second}'"):
        read(write("data.csv", content))


@pytest.mark.parametrize("option", ["text_column", "pair_column", "label_column"])
@pytest.mark.parametrize("extension", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_a_missing_column_lists_those_there_are(write: Write, extension: str, option: str) -> None:
    path = write(f"data{extension}", TWO_ROWS[extension])
    with pytest.raises(AttnprobeError, match="has no column 'absent'; its columns are 'label', 'sentence'"):
        read(path, **{option: "absent"})


def test_messages_do_not_carry_escape_sequences(write: Write) -> None:
    assert "\x1b" not in refusal(write("data.csv", "\x1b[31ma,b\nx,y\n"))
    assert "\x1b" not in refusal(write("data.conllu", "\x1b[31m1\tword\n"))


def test_a_column_named_twice_is_refused_when_wanted(write: Write) -> None:
    path = write("data.csv", "text,n,n\none,1,2\n")
    assert texts(path) == ["one"]
    with pytest.raises(AttnprobeError, match="more than one column 'n'"):
        read(path, label_column="n")


def test_pairs(write: Write) -> None:
    path = write("data.tsv", "sentence1\tsentence2\na\tb\nc\t \n\td\n \t\n")
    assert read(path, pair_column="sentence2") == [Document("a", "b"), Document("c")]
    assert read(path) == [Document("a"), Document("c")]


def test_labels_stay_as_the_file_spells_them(write: Write) -> None:
    spelled = write("data.csv", "text,y\na,01\nb,\nc,pos \n")
    assert [document.label for document in read(spelled, label_column="y")] == ["01", None, "pos "]
    rows = [1, 2.5, "x", None, True, float("nan"), ""]
    path = write("data.jsonl", "\n".join(json.dumps({"text": "t", "y": row}) for row in rows))
    labels = [document.label for document in read(path, label_column="y")]
    assert labels == [1, 2.5, "x", None, 1, None, None]
    assert not any(isinstance(label, bool) for label in labels)


@pytest.mark.parametrize("name", ["data.txt", "data.conllu", "data", "-", "embedded"])
@pytest.mark.parametrize("option", ["text_column", "pair_column", "label_column"])
def test_plain_text_has_no_columns(write: Write, say: Say, name: str, option: str) -> None:
    say(b"one\n")
    spec = name if name in ("-", "embedded") else write(name, CONLLU)
    with pytest.raises(AttnprobeError, match="text without columns; leave out --text-column"):
        read(spec, **{option: "text"})


# ---- bad input


def refusal(spec: str, **options: Any) -> str:
    """Read a source that is to be refused; give the sentence."""
    with pytest.raises(AttnprobeError) as caught:
        read(spec, **options)
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize("extension", [extension for extension in TWO_ROWS if extension not in BINARY])
@pytest.mark.parametrize("content", ["", "\n", " \r\n\n\t\n", "\ufeff"])
def test_nothing_but_blanks_is_refused(write: Write, extension: str, packed: str, content: str) -> None:
    path = write(f"data{extension}{packed}", content)
    assert refusal(path).startswith(f"{path} holds no text")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("data.csv", "text,label\n"),
        ("data.tsv", "text\tlabel\n \t1\n"),
        ("data.jsonl", '{"text": " "}\n'),
        ("data.json", "[]"),
        ("data.parquet", parquet_bytes({"text": pa.array([], pa.string())})),
        ("data.conllu", "# newdoc\n"),
    ],
)
def test_rows_without_text_are_refused_too(write: Write, name: str, content: bytes | str) -> None:
    path = write(name, content)
    assert refusal(path).startswith(f"{path} holds no text")


@pytest.mark.parametrize("extension", [".txt", ".csv", ".tsv", ".jsonl", ".json", ".conllu"])
def test_invalid_utf8_and_nul_name_their_line(write: Write, extension: str) -> None:
    latin = write(f"latin{extension}", b'"text"\n"caf\xe9"\n')
    assert refusal(latin).startswith(f"line 2 of {latin} is not UTF-8")
    nul = write(f"nul{extension}", b'"text"\n"one"\n"a\0b"\n')
    assert refusal(nul).startswith(f"line 3 of {nul} has NUL bytes, so it looks like a binary file")


@pytest.mark.parametrize(
    ("name", "content", "where"),
    [
        ("data.jsonl", '{"text": "a"}\n\n{"text": \n', "line 3 of .* is not JSON"),
        ("data.jsonl", '{"text": "a"}\n5\n', "line 2 of .* neither a JSON object nor a string"),
        ("data.jsonl", '["a"]\n', "line 1 of .* neither a JSON object nor a string"),
        ("data.jsonl", "[" * 100_000, "line 1 of .* is not JSON .nested too deeply"),
        ("data.jsonl", '{"text": %s}' % ("9" * 5000), "line 1 of .* not JSON .a number of thousands"),
        ("data.json", '[\n{"text": "a"},\n]', "line 3 of .* is not JSON"),
        ("data.json", '["a", 5]', "item 2 of .* neither a JSON object nor a string"),
        ("data.json", '{"a": ["x"], "b": ["y"]}', "neither an array nor an object with just one array"),
        ("data.json", '{"text": "a"}', "neither an array nor an object with just one array"),
        ("data.json", '"a"', "neither an array nor an object with just one array"),
        ("data.json", "[" * 100_000, "nested too deeply"),
        ("data.json", '["a\\ud800"]', "item 1 of .* half a surrogate pair"),
        ("data.jsonl", '{"n": 5, "tags": ["a"]}', "which column of .* with one of 'n', 'tags'"),
        ("data.csv", "text,n\na,1\nb,2,3\n", "line 3 of .* 3 cells under a first line of 2"),
        ("data.tsv", "text\tn\na\t1\nb\t2\t3\n", "line 3 of .* 3 cells under a first line of 2"),
        ("data.csv", 'text,n\n"a\nb",1\n"c,2\nd,3\n', "line 4 of .* not well-formed CSV"),
        ("data.csv", 'text,n\n"a"b,1\n', "line 2 of .* not well-formed CSV"),
        ("data.csv", "text,n\na,1\rb,2\n", "line 2 of .* not well-formed CSV"),
        ("data.csv", "text;label\ngood;1\n", "single column 'text;label'; separate its cells by commas"),
        ("data.tsv", "text,label\ngood,1\n", "single column 'text,label'; separate its cells by tabs"),
        ("data.conllu", CONLLU + "# text = x\nno tabs here\n", "sentence at line 9 of .* is not CoNLL-U"),
        ("data.conllu", "x\tform\n", "sentence at line 1 of .* is not CoNLL-U"),
        (
            "data.conllu",
            "# global.columns = FORM HEAD\nhello\t1\n",
            "line 1 of .* is not CoNLL-U .*no column 'id'",
        ),
        ("data.parquet", b"", "is damaged"),
        ("data.parquet", b"PAR1 and so on PAR1", "is damaged"),
        ("data.parquet", parquet_bytes({"text": ["a"] * 99})[:-20], "is damaged"),
        ("data.parquet.gz", b"not parquet", "is damaged"),
        ("data.docx", "one", r"unknown extension \.docx; .*\.txt, .*\.xlsx, each also with \.gz, "),
        ("data.pkl.gz", "one", r"unknown extension \.pkl"),
    ],
)
def test_broken_files(write: Write, name: str, content: bytes | str, where: str) -> None:
    path = write(name, content)
    sentence = refusal(path)
    assert re.search(where, sentence), sentence
    assert path in sentence


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"text_column": "n"}, "line 1 of .* a number in column 'n'"),
        ({"pair_column": "tags"}, "line 1 of .* a list in column 'tags'"),
        ({"label_column": "tags"}, "line 1 of .* a list in column 'tags'"),
    ],
)
def test_cells_of_the_wrong_kind(write: Write, options: dict[str, str], expected: str) -> None:
    path = write("data.jsonl", '{"text": "a", "n": 5, "tags": ["x"]}')
    assert re.search(expected, refusal(path, **options))


@pytest.mark.parametrize(
    ("extension", "kind"),
    [(".txt.gz", "gzip"), (".csv.gz", "gzip"), (".parquet.gz", "gzip"), (".txt.bz2", "bzip2"),
     (".jsonl.xz", "xz"), (".txt.zst", "zstd"), (".csv.zst", "zstd")],
)  # fmt: skip
@pytest.mark.parametrize("damage", ["cut short", "not packed", "flipped"])
def test_a_packed_file_that_is_not_whole(tmp_path: Path, extension: str, kind: str, damage: str) -> None:
    path = tmp_path / f"data{extension}"
    packed = PACK[path.suffix](b"text\n" + hashlib.sha256(b"").hexdigest().encode() * 99)
    raw = {
        "cut short": packed[:-12],
        "not packed": b"plain text\n",
        "flipped": packed[:12] + bytes([packed[12] ^ 0xFF]) + packed[13:],
    }
    path.write_bytes(raw[damage])
    assert refusal(str(path)).startswith(f"{path} is damaged: it is not a whole {kind} file")


def test_zstd_in_several_frames(tmp_path: Path) -> None:
    path = tmp_path / "data.txt.zst"
    path.write_bytes(b"".join(PACK[".zst"](line) for line in (b"one\n", b"two\n", b"three\n")))
    assert texts(str(path)) == ["one", "two", "three"]


# ---- columns by their numbers


def tables(rows: list[tuple[Any, ...]]) -> dict[str, bytes | str]:
    """Write rows in every format whose first row may name the columns."""
    spelled = [["" if cell is None else str(cell) for cell in row] for row in rows]
    lines = {mark: "".join(f"{mark.join(row)}\n" for row in spelled) for mark in ",;\t"}
    return {
        "data.csv": lines[","],
        "semicolons.csv": "sep=;\r\n" + lines[";"],
        "data.tsv": lines["\t"],
        "marked.tsv": "sep=\t\n" + lines["\t"],
        "data.xlsx": sheet_bytes(a=rows),
        "wide.csv": lines[","].encode("utf-16"),
        "wide.tsv": b"\xfe\xff" + lines["\t"].encode("utf-16-be"),
    }


FORMATS = sorted(tables([]))


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("header", [(None, "review", "label"), ("id", None, "2019"), ("a", "7", "8")])
def test_a_number_names_a_column_below_its_header(write: Write, name: str, header: tuple[Any, ...]) -> None:
    """Whatever stands in the header: pandas writes an empty cell above its index."""
    path = write(name, tables([header, (0, "one", "x"), (1, "two", "y")])[name])
    with warnings.catch_warnings(action="ignore"):
        found = read(path, text_column="2", label_column="3")
    assert found == [Document("one", None, "x"), Document("two", None, "y")]


@pytest.mark.parametrize("name", FORMATS)
def test_a_first_line_that_is_data(write: Write, name: str) -> None:
    """The user says so; a number among the names of columns is worth a warning."""
    path = write(name, tables([("one", "u", 0), ("two", "v", 1)])[name])
    columns = {"text_column": "1", "pair_column": "2", "label_column": "3"}
    found = read(path, **columns, header=False)
    assert [(document.text, document.pair) for document in found] == [("one", "u"), ("two", "v")]
    assert [float(cast(str, document.label)) for document in found] == [0, 1]
    assert describe_source(Source(path, header=False))["header"] is False
    with pytest.warns(AttnprobeWarning, match="--no-header"):
        assert len(read(path, **columns)) == 1
    assert "no column '4'" in refusal(path, text_column="4", header=False)


@pytest.mark.parametrize("name", ["data.txt", "data.jsonl", "data.parquet", "-", "embedded"])
def test_what_has_no_header(write: Write, say: Say, name: str) -> None:
    say(b"one\n")
    path = write(name, TWO_ROWS[Path(name).suffix]) if "." in name else name
    assert "leave out --no-header" in refusal(path, header=False)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    "above",
    [[("My export", None)], [("My export", None), (), ("of today", None)], [(None, "My export", None)]],
)
def test_a_title_above_the_header(write: Write, name: str, above: list[tuple[Any, ...]]) -> None:
    rows = [("review", "label", "n"), *[(f"text {number}", "a", "b") for number in range(9)]]
    for options in ({}, {"text_column": "1"}, {"text_column": "review"}):
        assert "delete what stands above" in refusal(write(name, tables([*above, *rows])[name]), **options)
    assert len(read(write(name, tables(rows)[name]), text_column="1")) == 9


def test_a_title_in_a_line_without_separators(write: Write) -> None:
    assert "delete what stands above" in refusal(write("a.csv", "My export\n\nreview,label\nthe cat,a\n"))


def test_one_column_is_no_title(write: Write) -> None:
    assert texts(write("a.csv", "review,\none,\ntwo,\n"), text_column="1") == ["one", "two"]
    assert texts(write("b.csv", ",review\n0,one\n1,two\n"), text_column="2") == ["one", "two"]
    assert texts(write("c.csv", "review\none\ntwo\n")) == ["one", "two"]


def test_a_name_that_is_a_number_comes_first(write: Write) -> None:
    assert texts(write("data.jsonl", '{"2": "named", "1": "first"}'), text_column="1") == ["first"]
    assert texts(write("more.jsonl", '{"b": "named", "a": "second"}'), text_column="2") == ["second"]


# ---- sheets


def test_a_sheet_by_its_name(write: Write) -> None:
    path = write("data.xlsx", sheet_bytes(one=[("text",), ("a",)], two=[(), ("text",), (None,), ("b",)]))
    assert texts(path) == ["a"]
    assert texts(path, config="two") == ["b"]
    assert refusal(path, config="three") == f"{path} has no sheet 'three'; its sheets are 'one', 'two'"
    assert "leave out --split" in refusal(path, split="test")


def write_shared(strings: bytes, sheet: bytes = b'<c r="A1" t="s"><v>0</v></c>') -> bytes:
    """Write a workbook with a table of shared strings, as Excel does."""
    namespace = b'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"
    listed = f'<Override PartName="/xl/sharedStrings.xml" ContentType="{kind}"/></Types>'.encode()
    sink = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(sheet_bytes(a=[("x",)]))) as old, zipfile.ZipFile(sink, "w") as new:
        for name in old.namelist():
            content = old.read(name).replace(b"</Types>", listed)
            if name.endswith("sheet1.xml"):
                rows = b'<row r="1">' + sheet + b'</row><row r="2"><c r="A2" t="s"><v>1</v></c></row>'
                content = b"<worksheet " + namespace + b"><sheetData>" + rows + b"</sheetData></worksheet>"
            new.writestr(name, content)
        new.writestr("xl/sharedStrings.xml", strings.replace(b"<sst>", b"<sst " + namespace + b">"))
    return sink.getvalue()


SHARED = b"<sst><si><t>text</t></si><si><t>one</t></si></sst>"


def test_shared_strings(write: Write) -> None:
    assert texts(write("data.xlsx", write_shared(SHARED))) == ["one"]


@pytest.mark.parametrize(("name", "raw"), {
    "empty": b"", "cut": b"PK", "text": b"no zip at all", "gzip": gzip.compress(b"", mtime=0),
    "strings cut": write_shared(SHARED[:30]), "no strings": write_shared(b"<sst></sst>"),
    "no xml": write_shared(b"x"), "too few": write_shared(SHARED.replace(b"<si><t>one</t></si>", b"")),
    "odd number": write_shared(SHARED, b'<c r="A1" t="s"><v>x</v></c>'),
    "odd place": write_shared(SHARED, b'<c r="1A" t="s"><v>0</v></c>'),
    "sheet cut": write_shared(SHARED, b"<c"),
}.items())  # fmt: skip
def test_a_damaged_workbook(write: Write, name: str, raw: bytes) -> None:
    path = write("data.xlsx", raw)
    assert refusal(path) == f"{path} is damaged: it is not a whole .xlsx file; save it again, or as csv"


# ---- folders


def test_a_folder_of_text(tmp_path: Path) -> None:
    """In the order of names; the lines of a file are parts of one document."""
    files = {"b.txt": "three\n", "a/x.TXT": "one\n\ntwo\n", ".hidden/y.txt": "no", "c.md": "no"}
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    (tmp_path / "d.txt.gz").write_bytes(gzip.compress(b"four\n"))
    found = read(str(tmp_path))
    assert [document.text for document in found] == ["one", "two", "three", "four"]
    digests = [document.digest for document in found]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3
    described = describe_source(Source(str(tmp_path)))
    assert described["bytes"] > 0
    (tmp_path / "b.txt").write_text("other\n")
    assert describe_source(Source(str(tmp_path)))["sha256"] != described["sha256"]
    assert "leave out --text-column" in refusal(str(tmp_path), text_column="text")


@pytest.mark.parametrize(
    "name", ["missing.csv", "missing.TXT", "org/missing.jsonl", "x.txt.gz", "a/b/c", "./x"]
)
def test_a_missing_file_is_named(name: str) -> None:
    assert refusal(name).startswith(f"there is no file {name};")


@pytest.mark.parametrize("name", ["a\0b", "x" * 10_000, "/" + "x" * 10_000])
def test_an_impossible_path_is_refused(name: str) -> None:
    assert len(refusal(name)) < 300


def test_a_link_that_leads_nowhere(tmp_path: Path) -> None:
    for name, target in (
        ("loop.txt", "loop.txt"),
        ("one", "other"),
        ("other", "one"),
        ("lost.csv", "absent.csv"),
    ):
        (tmp_path / name).symlink_to(tmp_path / target)
    for name in ("loop.txt", "one", "one/a.txt", "lost.csv"):
        assert "leads nowhere" in refusal(str(tmp_path / name))


def test_devices_and_pipes(tmp_path: Path) -> None:
    assert refusal("/dev/null").startswith("/dev/null holds no text")
    os.mkfifo(pipe := tmp_path / "pipe")
    threading.Thread(target=pipe.write_text, args=["one\ntwo\n"]).start()
    assert describe_source(Source(str(pipe)))["sha256"] is None
    assert texts(str(pipe)) == ["one", "two"]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (PermissionError(13, "Permission denied"), "permission denied"),
        (OSError(5, "Input/output error"), "Input/output"),
    ],
)
def test_an_unreadable_file(
    write: Write, monkeypatch: pytest.MonkeyPatch, error: OSError, words: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error

    path = write("data.txt", "one\n")
    monkeypatch.setattr(Path, "open", refuse)  # the tests may run as root, whom chmod does not stop
    assert f"{path} can't be read: {words}" in refusal(path)
    with pytest.raises(AttnprobeError, match=words):
        describe_source(Source(path))


@pytest.mark.parametrize("option", ["split", "config"])
def test_files_have_no_splits(write: Write, option: str) -> None:
    for spec in (write("data.txt", "one\n"), "-", "embedded"):
        assert "not a hub dataset; leave out --" in refusal(spec, **{option: "test"})


# ---- standard input


def test_stdin_is_text_a_document_a_line(say: Say) -> None:
    say("\ufeff\r\ncafé\r\n\n[1] \u2028two\n5\n".encode())
    assert texts("-") == ["café", "[1] \u2028two", "5"]


def test_stdin_may_be_json_lines(say: Say) -> None:
    say(b'\n{"y": 1, "body": "one"}\n\n{"y": 0, "body": "two"}\n')
    assert read("-", label_column="y") == [Document("one", None, 1), Document("two", None, 0)]


def test_stdin_that_only_starts_like_json_is_text(say: Say) -> None:
    say(b'{curly} words\n{"text": "x"}\n')
    assert texts("-") == ["{curly} words", '{"text": "x"}']


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"", "standard input holds no text"),
        (b"\n \n", "standard input holds no text"),
        (b"one\n\xff\n", "line 2 of standard input is not UTF-8"),
        (b"\n\n{}\n{\n", "line 4 of standard input is not JSON"),
        (b"a\0", "line 1 of standard input has NUL bytes"),
    ],
)
def test_bad_stdin(say: Say, raw: bytes, expected: str) -> None:
    say(raw)
    assert refusal("-").startswith(expected)


# ---- the hub


class FakeHub(ModuleType):
    """The one function of datasets that is used, with two datasets behind it."""

    __version__ = "4.1.0"

    def __init__(self) -> None:
        super().__init__("datasets")
        self.calls: list[tuple[str, str | None, str | None]] = []
        self.splits: dict[str, list[str]] = {
            "org/set": ["train", "validation"],
            "org/odd": ["fold1", "fold2"],
        }

    def load_dataset(self, spec: str, *, name: str | None, split: str | None, streaming: bool) -> object:
        assert streaming
        self.calls.append((spec, name, split))
        if spec not in self.splits:
            raise ConnectionError(f"Couldn't reach {spec}.\nMax retries")
        data = {each: [{"idx": 3, "words": f"{each} {name}", "label": 1}] for each in self.splits[spec]}
        return data if split is None else data[split]


@pytest.fixture
def fake_hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    hub.open_split.cache_clear()
    fake = FakeHub()
    monkeypatch.setitem(sys.modules, "datasets", fake)
    yield fake
    hub.open_split.cache_clear()


def test_hub_dataset(fake_hub: FakeHub) -> None:
    source = Source("org/set", split="train", config="en", label_column="label")
    assert list(read_documents(source)) == [Document("train en", None, 1)]
    assert describe_source(source)["split"] == "train"
    assert fake_hub.calls == [("org/set", "en", "train")]  # once for both


def test_hub_split_is_chosen_and_said(fake_hub: FakeHub) -> None:
    with pytest.warns(AttnprobeWarning, match="the split 'validation' of org/set is read"):
        assert texts("org/set") == ["validation None"]
    assert describe_source(Source("org/set"))["split"] == "validation"
    fake_hub.splits["name"] = ["train", "validation", "test"]
    assert texts("name") == ["test None"]


@pytest.mark.usefixtures("fake_hub")
def test_hub_refusals() -> None:
    assert "has no split test, validation or train; pass --split with one of ['fold1'" in refusal("org/odd")
    assert "org/set is not a file here and can't be read" in refusal("org/set", split="absent")
    unreachable = refusal("org/absent")
    assert "Hub (Couldn't reach org/absent);" in unreachable
    assert "has no column 'absent'; its columns are 'idx', 'words', 'label'" in refusal(
        "org/set", text_column="absent"
    )


def test_hub_needs_datasets(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = "is not a file here; to read it from the Hugging Face Hub: pip install datasets"
    for absent in (None, ModuleType("datasets")):  # the second: a folder called datasets
        monkeypatch.setitem(sys.modules, "datasets", absent)
        for name in ("imdb", "org/name-1.0"):
            assert refusal(name) == f"{name} {expected}"


def test_datasets_that_runs_scripts_is_refused(fake_hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeHub, "__version__", "3.6.0")
    assert "may run a script that comes with org/set; pip install" in refusal("org/set")
    assert fake_hub.calls == []


def test_readers_of_local_files_are_no_hub_ids(fake_hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """load_dataset("pandas") would unpickle what lies in the working folder."""
    packaged = ModuleType("datasets.packaged_modules")
    packaged.__path__ = []
    reader = ModuleType("datasets.packaged_modules.pandas")
    reader.__spec__ = ModuleSpec(reader.__name__, None)
    monkeypatch.setitem(sys.modules, packaged.__name__, packaged)
    monkeypatch.setitem(sys.modules, reader.__name__, reader)
    assert "neither a file here nor the id of a hub dataset" in refusal("pandas")
    assert fake_hub.calls == []


# ---- the embedded text, and provenance


def test_embedded_documents() -> None:
    documents = list(read_embedded())
    assert documents == read("embedded")
    assert len(documents) > 1
    assert all(document.text == document.text.strip() and document.pair is None for document in documents)


def test_describing_a_file(write: Write) -> None:
    path = write("data.csv.gz", "text,n\none,1\n")
    raw = Path(path).read_bytes()
    assert describe_source(Source(path, text_column="text", label_column="n")) == {
        "name": "data.csv.gz",
        "sha256": hashlib.sha256(raw).hexdigest(),
        "bytes": len(raw),
        "split": None,
        "config": None,
        "text_column": "text",
        "pair_column": None,
        "label_column": "n",
        "document_column": None,
    }


def test_describing_what_is_no_file() -> None:
    stdin = describe_source(Source("-"))
    assert (stdin["name"], stdin["sha256"], stdin["bytes"]) == ("stdin", None, None)
    embedded = describe_source(Source("embedded"))
    assert embedded["name"] == "embedded"
    assert len(embedded["sha256"]) == 64
    assert embedded["bytes"] > 0
    with pytest.raises(AttnprobeError, match="there is no file missing"):
        describe_source(Source("missing.csv"))


class NamedRows(list[dict[str, Any]]):
    """Rows with features as the package datasets has them."""

    features = {  # noqa: RUF012 - nobody changes it
        "tokens": SimpleNamespace(feature=SimpleNamespace(dtype="string")),
        "ner_tags": SimpleNamespace(feature=SimpleNamespace(names=["O", "B-PER"])),
        "label": SimpleNamespace(names=["no", "yes"]),
    }


def test_hub_names_labels_of_words(fake_hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers in lists are named; that of a whole text stays a number, which models name themselves."""
    rows = NamedRows([{"tokens": ["Ada", "", "ran"], "ner_tags": [1, 0, 0], "label": 1}])
    monkeypatch.setattr(fake_hub, "load_dataset", lambda *_, **__: rows)
    found = read("org/set", split="train", find_labels=True)
    assert found == [Document("Ada ran", label=Tagged(("Ada", "ran"), ("B-PER", "O")))]
    found = read("org/set", split="train", find_labels=True, label_column="label")
    assert found == [Document("Ada ran", label=1)]


def test_a_list_of_labels_that_is_not_one_for_each_word(write: Write) -> None:
    rows = '{"text": "a b c", "tokens": ["a", "b", "c"], "labels": ["x", "y"]}\n{"text": "d", "labels": []}\n'
    found = read(write("data.jsonl", rows), find_labels=True)
    assert found == [Document("a b c", label=("x", "y")), Document("d", label=())]


def test_labels_of_texts_of_which_one_has_as_many_words(write: Write) -> None:
    rows = [(["a", "b", "c"], ["x", "y"]), (["d", "e"], ["x", "y"]), (["f"], [])]
    lines = [json.dumps({"tokens": words, "labels": labels}) for words, labels in rows]
    found = read(write("data.jsonl", "\n".join(lines)), find_labels=True)
    assert found == [Document(" ".join(words), label=tuple(labels)) for words, labels in rows]


def test_words_that_do_not_count(write: Write) -> None:
    rows = '{"words": ["a", "b"], "tags": ["X", -100]}\n{"words": ["c"], "tags": [-100]}\n{"words": ["d"]}\n'
    found = read(write("data.jsonl", rows), find_labels=True)
    assert found == [Document("a b", label=Tagged(("a", "b"), ("X", None))), Document("c"), Document("d")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("word O\nalone\n", "line 2 of .* does not hold a word and its label"),
        ("word\t\n", "line 1 of .* does not hold a word and its label"),
        ("\tO\n", "line 1 of .* does not hold a word and its label"),
        ("a b O\n\nc O\n", ""),
        ("# id 7\n# O\n#hashtag O\n", ""),
    ],
)
def test_conll(write: Write, text: str, said: str) -> None:
    path = write("data.conll", text)
    if said:
        assert re.search(said, refusal(path, find_labels=True))
        return
    words = [document.label.words for document in read(path, find_labels=True)]  # type: ignore[union-attr]
    assert words == ([("a",), ("c",)] if "b" in text else [("#", "#hashtag")])
