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
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attnprobe.corpus.cells import read_answers, read_tags
from attnprobe.corpus.document import Document, Tagged
from attnprobe.corpus.open import FORMATS, describe_source, open_split, read_documents
from attnprobe.corpus.source import Source
from attnprobe.errors import AttnprobeError

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
def write(tmp_path):
    """Write a file and give its path; one whose name says so is packed."""

    def write_file(name, content):
        raw = content.encode() if isinstance(content, str) else content
        path = tmp_path / name
        path.write_bytes(PACK.get(path.suffix, bytes)(raw))
        return str(path)

    return write_file


@pytest.fixture
def say(monkeypatch):
    """Put bytes on standard input."""
    return lambda raw: monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw), encoding="ascii"))


def read(spec, **options):
    return list(read_documents(Source(spec, **options)))


def texts(spec, **options):
    return [document.text for document in read(spec, **options)]


def parquet_bytes(columns):
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
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
    ".conllu": f"# text = one\n1\tone{BLANKS}\n\n# text = two, 2\n1\ttwo{BLANKS}\n\n",
    **dict.fromkeys((".conll", ".bio", ".iob"), "one O\n\ntwo, X\n2 X\n"),
}


@pytest.mark.parametrize("extension", FORMATS)
def test_every_format(write, extension):
    """In the order of the file, as it is and packed, with any line ends and encoding; nothing is refused."""
    content = TWO_ROWS[extension]
    assert texts(write(f"data{extension}", content)) == ["one", "two, 2"]
    assert texts(write(f"data{extension}.gz", content)) == ["one", "two, 2"]
    if isinstance(content, bytes):
        return
    for ends in ("\r\n", "\r"):
        raw = content.replace("\n", ends).encode()
        assert texts(write(f"ends{extension}", b"\xef\xbb\xbf" * (ends == "\r\n") + raw)) == ["one", "two, 2"]
    wide = content.replace("one", "on\u0a0ae").encode("utf-16")
    assert texts(write(f"wide{extension}", wide)) == ["on\u0a0ae", "two, 2"]
    for blank in ("", " \r\n\n\t\n", "\ufeff"):
        assert "holds no text" in refusal(write(f"blank{extension}", blank))


@pytest.mark.parametrize("packing", PACK)
def test_a_packed_file(tmp_path, packing):
    path = tmp_path / f"data.txt{packing}"
    packed = PACK[packing](b"text\n" + hashlib.sha256(b"").hexdigest().encode() * 99)
    path.write_bytes(packed)
    assert len(texts(str(path))) == 2
    for raw in (packed[:-12], b"plain text\n", packed[:12] + bytes([packed[12] ^ 0xFF]) + packed[13:]):
        path.write_bytes(raw)
        assert "is damaged" in refusal(str(path))


def test_csv_quoting(write):
    path = write("data.csv", 'id,text\r\n1,"She said ""no"",\r\nand left"\r\n2,it\'s 5" wide\r\n')
    assert texts(path) == ['She said "no",\r\nand left', "it's 5\" wide"]


def test_txt_splits_at_line_feeds_alone(write):
    odd = "a\u2028b\x0bc\x0cd\x85e\x1cf\rg"
    assert texts(write("data.txt", f"{odd}\r\n\n  \n\tnext \n")) == [odd, "\tnext "]


def test_tsv_quotes_are_characters(write):
    path = write("data.tsv", 'sentence\tlabel\n"You\'ll love it!\t1\n"a "" b"\t0\n')
    assert texts(path) == ["\"You'll love it!", '"a "" b"']


def test_header_is_stripped_and_short_or_blank_rows_are_passed_over(write):
    path = write("data.csv", "\nlabel , text \n\n1\n0,\n1,  \n0,one\n")
    assert read(path, label_column="label") == [Document("one", None, "0")]


def test_a_blank_before_a_quote(write):
    """The blank is none of the text, nor is the quote; a cell without quotes stays as it is."""
    path = write("data.csv", '"id", "text", "label"\n1, "one, 1\nmore", "a"\n2,  "two ""2""", b\n')
    assert read(path, label_column="label") == [
        Document("one, 1\nmore", None, "a"),
        Document('two "2"', None, "b"),
    ]
    path = write("later.csv", 'id,text\n1, one\n2, "two, 2"\n3,"three"\n')
    assert texts(path) == [" one", "two, 2", "three"]
    assert "line 3 of" in refusal(write("broken.csv", 'id,text\n1, "a"\n2, "b" c\n'))


def test_the_first_line_names_the_separator(write):
    assert texts(write("a.csv", '"sep=|"\ntext|n\na, b|1\n')) == ["a, b"]
    assert texts(write("b.csv", 'SEP=,\ntext,n\n"a, b",1\n')) == ["a, b"]
    assert "line 4 of" in refusal(write("c.csv", "sep=,\ntext,n\na,1\nb,2,3\n"))


@pytest.mark.parametrize(
    "content",
    [
        '["one", "two"]',
        '{"version": 1, "data": [{"text": "one"}, {"text": "two"}]}',
        '{"rows": ["one", "two"], "meta": {"n": [1]}}',
    ],
    ids=["strings", "object with one array", "array of strings in an object"],
)
def test_shapes_of_json(write, content):
    assert texts(write("data.json", content)) == ["one", "two"]


def test_parquet_types(write):
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


def test_conllu_prefers_its_text_line(write):
    assert texts(write("data.conllu", CONLLU + CONLLU.replace("here", "there"))) == [
        "It's here.",
        "It's there.",
    ]


# ---- columns


def test_the_only_column_of_strings_is_the_text(write):
    csv_path = write("data.csv", "id,stars,review\n,4.5,good\n2,1e3,bad\n")
    assert texts(csv_path) == ["good", "bad"]
    assert texts(write("data.jsonl", '{"n": 1, "words": "one", "tags": ["a"]}')) == ["one"]


@pytest.mark.parametrize(
    "content", ["title,body\na b,c d\n", "a,b\n1,2\n", "the,7.73\nto,7.43\n"], ids=["two", "none", "headless"]
)
def test_an_unclear_text_column_is_asked_for(write, content):
    first, second = content.splitlines()[0].split(",")
    with pytest.raises(AttnprobeError, match=f"pass --text-column with one of '{first}', '{second}'"):
        read(write("data.csv", content))


def test_pairs(write):
    path = write("data.tsv", "sentence1\tsentence2\na\tb\nc\t \n\td\n \t\n")
    assert read(path, pair_column="sentence2") == [Document("a", "b"), Document("c")]
    assert read(path) == [Document("a"), Document("c")]


def test_labels_stay_as_the_file_spells_them(write):
    spelled = write("data.csv", "text,y\na,01\nb,\nc,pos \n")
    assert [document.label for document in read(spelled, label_column="y")] == ["01", None, "pos "]
    rows = [1, 2.5, "x", None, True, float("nan"), ""]
    path = write("data.jsonl", "\n".join(json.dumps({"text": "t", "y": row}) for row in rows))
    labels = [document.label for document in read(path, label_column="y")]
    assert labels == [1, 2.5, "x", None, 1, None, None]
    assert not any(isinstance(label, bool) for label in labels)


# ---- bad input


def refusal(spec, **options):
    """Read a source that is to be refused; give the sentence, which no terminal obeys."""
    with pytest.raises(AttnprobeError) as caught:
        read(spec, **options)
    sentence = str(caught.value)
    assert sentence.isprintable()
    assert len(sentence) < 600
    return sentence


@pytest.mark.parametrize(
    ("name", "content", "options", "where"),
    [
        ("a.txt", b"one\ncaf\xe9\n", {}, "line 2 of"),
        ("a.jsonl", b'"one"\n"a\0b"\n', {}, "line 2 of"),
        ("a.jsonl", '{"text": "a"}\n\n{"text": \n', {}, "line 3 of"),
        ("a.jsonl", '{"text": "a"}\n5\n', {}, "line 2 of"),
        ("a.jsonl", "[" * 100_000, {}, "line 1 of"),
        ("a.jsonl", '{"text": %s}' % ("9" * 5000), {}, "line 1 of"),
        ("a.jsonl", '{"text": "a", "n": 5}', {"text_column": "n"}, "line 1 of"),
        ("a.jsonl", '{"text": "a", "tags": ["x"]}', {"label_column": "tags"}, "line 1 of"),
        ("a.json", '[\n{"text": "a"},\n]', {}, "line 3 column 1"),
        ("a.json", '{"a": ["x"], "b": ["y"]}', {}, "array"),
        ("a.json", "[" * 100_000, {}, "is not JSON"),
        ("a.json", '["a\\ud800"]', {}, "item 1 of"),
        ("a.csv", "text,n\na,1\nb,2,3\n", {}, "line 3 of"),
        ("a.csv", 'text,n\n"a\nb",1\n"c,2\nd,3\n', {}, "line 4 of"),
        ("a.csv", "text;label\ngood;1\n", {}, "separate its cells by commas"),
        ("a.csv", "\x1b[31ma,b\nx,y\n", {}, "--text-column"),
        ("a.csv", "text,n,n\none,1,2\n", {"label_column": "n"}, "more than one column 'n'"),
        ("a.tsv", "text\tn\na\t1\nb\t2\t3\n", {}, "line 3 of"),
        ("a.tsv", "text\tn\na\t1\n", {"text_column": "absent"}, "its columns are 'text', 'n'"),
        ("a.conllu", CONLLU + "# text = x\nno tabs here\n", {}, "line 9 of"),
        ("a.conllu", "# global.columns = FORM HEAD\nhello\t1\n", {}, "line 1 of"),
        ("a.conllu", CONLLU, {"text_column": "text"}, "leave out --text-column"),
        ("a.conll", "word O\nalone\n", {"find_labels": True}, "line 2 of"),
        ("a.parquet", b"PAR1 and so on PAR1", {}, "is damaged"),
        ("a.parquet", parquet_bytes({"text": ["a"] * 99})[:-20], {}, "is damaged"),
        ("a.parquet", parquet_bytes({"text": ["a"]}), {"header": False}, "leave out --no-header"),
        ("a.txt", "one\n", {"split": "test"}, "leave out --split"),
        ("a.docx", "one", {}, r"\.docx; convert it to one of \.txt, \.conllu, \.csv, .*\.zst$"),
        ("a.csv", "text\none\n", {"annotated": True}, "no column 'links'"),
    ],
)
def test_broken_files(write, name, content, options, where):
    path = write(name, content)
    sentence = refusal(path, **options)
    assert re.search(where, sentence), sentence
    assert path in sentence


# ---- columns by their numbers


def tables(rows):
    """Write rows in every format whose first row may name the columns."""
    spelled = [["" if cell is None else str(cell) for cell in row] for row in rows]
    lines = {mark: "".join(f"{mark.join(row)}\n" for row in spelled) for mark in ",;\t"}
    return {
        "data.csv": lines[","],
        "semicolons.csv": "sep=;\r\n" + lines[";"],
        "data.tsv": lines["\t"],
        "wide.csv": lines[","].encode("utf-16"),
    }


HEADED = sorted(tables([]))


@pytest.mark.parametrize("name", HEADED)
@pytest.mark.parametrize("header", [(None, "review", "label"), ("a", "7", "8")])
def test_a_number_names_a_column_below_its_header(write, name, header):
    """Whatever stands in the header: pandas writes an empty cell above its index."""
    path = write(name, tables([header, (0, "one", "x"), (1, "two", "y")])[name])
    assert read(path, text_column="2", label_column="3") == [
        Document("one", None, "x"),
        Document("two", None, "y"),
    ]


@pytest.mark.parametrize("name", HEADED)
def test_a_first_line_that_is_data(write, name):
    path = write(name, tables([("one", "u", 0), ("two", "v", 1)])[name])
    columns = {"text_column": "1", "pair_column": "2", "label_column": "3"}
    documents = read(path, **columns, header=False)
    assert [(document.text, document.pair) for document in documents] == [("one", "u"), ("two", "v")]
    assert [float(cast(str, document.label)) for document in documents] == [0, 1]
    assert describe_source(Source(path, header=False))["header"] is False
    assert len(read(path, **columns)) == 1
    assert "no column '4'" in refusal(path, text_column="4", header=False)


@pytest.mark.parametrize("name", ["data.csv", "data.tsv"])
@pytest.mark.parametrize(
    ("title", "last"),
    [
        (("My export",), "n"),
        (("My export", None, None), "2019"),
        ((None, None, "My export"), "n"),
        (("My export", None, 2024), "2019"),
    ],
)
def test_a_title_above_the_header(write, name, title, last):
    """It is no header, however many cells it has; without it the file is read."""
    table = [("review", "label", last), *[(f"text {n}", "ab"[n % 2], n) for n in range(9)]]
    path = write(f"with {name}", tables([title, *table])[name])
    for options in ({}, {"text_column": "1"}, {"text_column": "review", "label_column": "label"}):
        assert "delete what stands above" in refusal(path, **options)
    assert len(read(write(name, tables(table)[name]), text_column="1")) == 9


@pytest.mark.parametrize("extension", [".jsonl", ".parquet"])
def test_names_that_are_numbers(write, extension):
    """Names that stand in the file are no data, and a name comes before a place; so does any an index."""

    def table(**columns):
        rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        return write(f"data{extension}", parquet_bytes(columns) if extension == ".parquet" else lines)

    assert texts(table(**{"0": [1, 2], "1": ["one", "two"]})) == ["one", "two"]
    assert texts(table(review=["one", "two"], __index_level_0__=["a", "b"])) == ["one", "two"]
    path = table(**{"0": ["a"], "1": ["b"], "2": ["c"]})
    assert [texts(path, text_column=name) for name in "0123"] == [["a"], ["b"], ["c"], ["c"]]
    assert "--no-header" not in refusal(path)


def test_one_column_is_no_title(write):
    assert texts(write("a.csv", "review,\none,\ntwo,\n"), text_column="1") == ["one", "two"]
    assert texts(write("b.csv", ",review\n0,one\n1,two\n"), text_column="2") == ["one", "two"]
    assert texts(write("c.csv", "review\none\ntwo\n")) == ["one", "two"]


# ---- folders


def test_a_folder_of_text(tmp_path):
    """In the order of names; the lines of a file are parts of one document."""
    files = {"b.txt": "three\n", "a/x.TXT": "one\n\ntwo\n", ".hidden/y.txt": "no", "c.md": "no"}
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    (tmp_path / "d.txt.gz").write_bytes(gzip.compress(b"four\n"))
    documents = read(str(tmp_path))
    assert [document.text for document in documents] == ["one", "two", "three", "four"]
    digests = [document.digest for document in documents]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3
    described = describe_source(Source(str(tmp_path)))
    assert described["bytes"] > 0
    (tmp_path / "b.txt").write_text("other\n")
    assert describe_source(Source(str(tmp_path)))["sha256"] != described["sha256"]
    assert "leave out --text-column" in refusal(str(tmp_path), text_column="text")


def test_devices_and_pipes(tmp_path):
    assert refusal("/dev/null").startswith("/dev/null holds no text")
    os.mkfifo(pipe := tmp_path / "pipe")
    threading.Thread(target=pipe.write_text, args=["one\ntwo\n"]).start()
    assert describe_source(Source(str(pipe)))["sha256"] is None
    assert texts(str(pipe)) == ["one", "two"]


# ---- standard input


def test_stdin_is_text_a_document_a_line(say):
    say("\ufeff\r\ncafé\r\n\n[1] \u2028two\n5\n".encode())
    assert texts("-") == ["café", "[1] \u2028two", "5"]


def test_stdin_may_be_json_lines(say):
    say(b'\n{"y": 1, "body": "one"}\n\n{"y": 0, "body": "two"}\n')
    assert read("-", label_column="y") == [Document("one", None, 1), Document("two", None, 0)]


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"", "standard input holds no text"),
        (b"\n \n", "standard input holds no text"),
        (b"one\n\xff\n", "line 2 of standard input is not UTF-8"),
        (b'\n\n{"a": 1}\n{\n', "line 4 of standard input is not JSON"),
        (b"a\0", "line 1 of standard input has NUL bytes"),
    ],
)
def test_bad_stdin(say, raw, expected):
    say(raw)
    assert refusal("-").startswith(expected)


# ---- the hub


class FakeHub(ModuleType):
    """The one function of datasets that is used, with two datasets behind it."""

    __version__ = "4.1.0"

    def __init__(self):
        super().__init__("datasets")
        self.calls: list[tuple[str, str | None, str | None]] = []
        self.splits: dict[str, list[str]] = {
            "org/set": ["train", "validation"],
            "org/odd": ["fold1", "fold2"],
        }

    def load_dataset(self, spec, *, name, split, streaming):
        assert streaming
        self.calls.append((spec, name, split))
        if spec not in self.splits:
            raise ConnectionError(f"Couldn't reach {spec}.\nMax retries")
        data = {each: [{"idx": 3, "words": f"{each} {name}", "label": 1}] for each in self.splits[spec]}
        return data if split is None else data[split]


@pytest.fixture
def fake_hub(monkeypatch):
    open_split.cache_clear()
    fake = FakeHub()
    monkeypatch.setitem(sys.modules, "datasets", fake)
    yield fake
    open_split.cache_clear()


def test_hub_dataset(fake_hub):
    source = Source("org/set", split="train", config="en", label_column="label")
    assert list(read_documents(source)) == [Document("train en", None, 1)]
    assert describe_source(source)["split"] == "train"
    assert fake_hub.calls == [("org/set", "en", "train")]  # once for both


@pytest.mark.usefixtures("fake_hub")
def test_hub_refusals():
    assert "has no split test, validation or train; pass --split with one of ['fold1'" in refusal("org/odd")
    assert "org/set is not a file here and can't be read" in refusal("org/set", split="absent")
    unreachable = refusal("org/absent")
    assert "Hub (Couldn't reach org/absent);" in unreachable
    assert "has no column 'absent'; its columns are 'idx', 'words', 'label'" in refusal(
        "org/set", text_column="absent"
    )


def test_datasets_that_runs_scripts_is_refused(fake_hub, monkeypatch):
    monkeypatch.setattr(FakeHub, "__version__", "3.6.0")
    assert "without running a script that may come with it: pip install" in refusal("org/set")
    assert fake_hub.calls == []


def test_readers_of_local_files_are_no_hub_ids(fake_hub, monkeypatch):
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


def test_describing_a_file(write):
    path = write("data.csv.gz", "text,n\none,1\n")
    raw = Path(path).read_bytes()
    described = describe_source(Source(path, text_column="text", label_column="n"))
    assert (described["name"], described["bytes"]) == ("data.csv.gz", len(raw))
    assert described["sha256"] == hashlib.sha256(raw).hexdigest()
    assert (described["text_column"], described["label_column"]) == ("text", "n")


class NamedRows(list[dict[str, Any]]):
    """Rows with features as the package datasets has them."""

    features = {  # noqa: RUF012 - nobody changes it
        "tokens": SimpleNamespace(feature=SimpleNamespace(dtype="string")),
        "ner_tags": SimpleNamespace(feature=SimpleNamespace(names=["O", "B-PER"])),
        "label": SimpleNamespace(names=["no", "yes"]),
    }


def test_hub_names_labels_of_words(fake_hub, monkeypatch):
    """Numbers in lists are named; that of a whole text stays a number, which models name themselves."""
    rows = NamedRows([{"tokens": ["Ada", "", "ran"], "ner_tags": [1, 0, 0], "label": 1}])
    monkeypatch.setattr(fake_hub, "load_dataset", lambda *_, **__: rows)
    documents = read("org/set", split="train", find_labels=True)
    assert documents == [Document("Ada ran", label=Tagged(("Ada", "ran"), ("B-PER", "O")))]
    documents = read("org/set", split="train", find_labels=True, label_column="label")
    assert documents == [Document("Ada ran", label=1)]


def test_a_list_of_labels_that_is_not_one_for_each_word(write):
    rows = '{"text": "a b c", "tokens": ["a", "b", "c"], "labels": ["x", "y"]}\n{"text": "d", "labels": []}\n'
    documents = read(write("data.jsonl", rows), find_labels=True)
    assert documents == [Document("a b c", label=("x", "y")), Document("d", label=())]


def test_words_that_do_not_count(write):
    rows = '{"words": ["a", "b"], "tags": ["X", -100]}\n{"words": ["c"], "tags": [-100]}\n{"words": ["d"]}\n'
    documents = read(write("data.jsonl", rows), find_labels=True)
    assert documents == [Document("a b", label=Tagged(("a", "b"), ("X", None))), Document("c"), Document("d")]


@pytest.mark.parametrize(
    ("read", "says"),
    [
        (lambda: read_tags(["a", "dog"], ["x"], (), "row 1"), r"row 1 has 2 words, but \['x'\]"),
        (lambda: read_tags(["dog"], [2.5], (), "row 1"), "row 1 has the label 2.5, not a string"),
        (lambda: read_answers("a dog", "dog", "row 1"), "row 1 has 'dog' for its answers"),
        (lambda: read_answers("a dog", {"text": ["dog"], "answer_start": [1]}, "row 1"), "does not stand at"),
    ],
)
def test_labels_and_answers_that_do_not_fit(read, says):
    with pytest.raises(AttnprobeError, match=says):
        read()
