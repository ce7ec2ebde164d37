"""Whatever a file holds, reading it ends in documents or in one sentence; nothing else comes out."""

import gzip
import io
import json

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from attnprobe.corpus.open import FORMATS, read_documents
from attnprobe.corpus.source import Source
from attnprobe.errors import AttnprobeError

SENTENCES = ["It's here.", 'She said "no", and left.', "café; naïve\u2028東京", "x"]


def _parquet():
    sink = io.BytesIO()
    columns = {"text": SENTENCES * 5, "n": list(range(20)), "kind": ["a", None] * 10}
    parquet.write_table(pyarrow.table(columns), sink)
    return sink.getvalue()


_WORDS = {"tokens": ["It", "'s", "", "here"], "ner_tags": [0, 1, 2, -100]}
_ROWS = [{"text": sentence, "n": number} for number, sentence in enumerate(SENTENCES)]
_CONLLU = (
    "# sent_id = 1\n# text = It's here.\n"
    "1-2\tIt's\t_\t_\t_\t_\t_\t_\t_\t_\n1\tIt\tit\tPRON\t_\t_\t3\tnsubj\t_\t_\n"
    "2\t's\tbe\tAUX\t_\t_\t3\tcop\t3:cop|1:x\t_\n3\there\there\tADV\t_\tA=b|C=d\t0\troot\t_\tSpaceAfter=No\n"
    "4\t.\t.\tPUNCT\t_\t_\t3\tpunct\t_\t_\n\n1\tGo\t_\t_\t_\t_\t0\troot\t_\t_\n1.1\t_\t_\t_\t_\t_\t_\t_\t_\t_\n\n"
)
_CONLL = (
    "-DOCSTART- -X- O\n\n# id 7\nIt PRP O\n's VBZ O\nhere RB B-LOC\n\n"
    "café NN B-ORG\n東京 NNP I-ORG\n\n# NN O\n\n"
)


SOUND = {
    ".txt": "\n".join(SENTENCES).encode(),
    ".csv": 'n,text\n0,It\'s here.\n1,"She said ""no"", and left."\n2,"café;\r\nnaïve"\n'.encode(),
    ".tsv": "\n".join(["n\ttext", *(f"{row['n']}\t{row['text']}" for row in _ROWS)]).encode(),
    ".jsonl": "\n".join(json.dumps(row | _WORDS) for row in _ROWS).encode(),
    ".ndjson": "\n".join(map(json.dumps, SENTENCES)).encode(),
    ".json": json.dumps({"rows": _ROWS, "version": 1}, indent=1).encode(),
    ".parquet": _parquet(),
    ".conllu": _CONLLU.encode(),
    **dict.fromkeys((".conll", ".bio", ".iob"), _CONLL.encode()),
}

#: One name for each reader.
READERS = sorted({*SOUND} - {".ndjson", ".bio", ".iob"})
#: What breaks a file in interesting places, and what makes nonsense look like one of the formats.
FRAGMENTS = [
    b"\0", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", "\u2028".encode(), b"\x1b[2J", b'"', b"'",
    b",", b";", b"\t", b"\r\n", b"\n\n", b"text\n", b"a,b\n", b"text,text\n", b"[", b"]", b"{", b"}", b":",
    b"5", b"1e999", b"null", b"NaN", b'"\\ud800"', b'{"text": "a"}\n', b'{"text": ["a"]}\n',
    b'{"\\ud800": "a"}\n', b"# text = x\n", b"# global.columns = ID FORM MISC\n", b"1\n", b"1-2\ta\tb\n",
    b"1.1\ta\n", b"2\tit\t_\t_\t_\ta=b|c\t0\t_\t0:x|1:y\tSpaceAfter=No\n", b"\x1f\x8b\x08\x00", b"PAR1",
    gzip.compress(b"text\na\n"), b'{"tokens": ["a"], "tags": 1}\n', b'{"answer_start": 99, "text": "x"}',
    b"-DOCSTART-\n", b"word\t\n", b"[[1]]",
]  # fmt: skip
CODES = ("utf-16", "latin-1")
#: From one share of the length to another, a stretch is encoded anew, or something takes its place.
MUTATIONS = st.lists(
    st.tuples(st.floats(0, 1), st.floats(0, 1), st.sampled_from([b"", *CODES, *FRAGMENTS])),
    min_size=1,
    max_size=4,
)
NONSENSE = st.one_of(st.binary(max_size=200), st.lists(st.sampled_from(FRAGMENTS), max_size=12).map(b"".join))


def mutated(raw, mutations):
    for *ends, new in mutations:
        start, stop = sorted(int(end * len(raw)) for end in ends)
        middle = raw[start:stop].decode("utf-8", "replace").encode(new, "replace") if new in CODES else new
        raw = raw[:start] + middle + raw[stop:]
    return raw


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("any")


def outcome(spec, **options):
    """Read all there is: the documents, and the sentence that ended them, or "".

    Whatever is raised but AttnprobeError fails the test that calls.
    """
    documents, sentence = [], ""
    try:
        for document in read_documents(Source(spec, **options)):
            documents.append(document)
    except AttnprobeError as error:
        sentence = str(error)
        name = "standard input" if spec == "-" else spec
        assert name in sentence
        assert sentence.isprintable()  # no line break, and nothing that a terminal would obey
        assert "Traceback" not in sentence
        assert len(sentence) < len(name) + 700  # a sentence, not the file
    assert documents or sentence
    for document in documents:
        assert document.text.strip()
        for words in (document.text, document.pair or ""):
            words.encode()
    return documents, sentence


def whole(folder, extension, raw, column=None):
    """Read bytes as a file, packed, and with a column asked for."""
    plain, packed = folder / f"any{extension}", folder / f"any{extension}.gz"
    plain.write_bytes(raw)
    packed.write_bytes(gzip.compress(raw, compresslevel=1))
    documents, sentence = outcome(str(plain))
    # Packing changes nothing but the name in the sentence.
    assert outcome(str(packed)) == (documents, sentence.replace(str(plain), str(packed)))
    if column is not None:
        outcome(str(plain), text_column=column, label_column="n", pair_column="kind")
        outcome(str(plain), find_labels=True)


def test_there_is_a_sound_file_of_every_format(folder):
    assert set(SOUND) == set(FORMATS)
    for extension, raw in SOUND.items():
        path = folder / f"sound{extension}"
        path.write_bytes(raw)
        documents, sentence = outcome(str(path))
        assert (len(documents) > 1, sentence) == (True, "")


@pytest.mark.parametrize("extension", READERS)
@given(mutations=MUTATIONS, column=st.sampled_from([None, "text", "n", ""]))
@settings(max_examples=20)
def test_damaged_files(folder, extension, mutations, column):
    whole(folder, extension, mutated(SOUND[extension], mutations), column)


@pytest.mark.parametrize("extension", [*READERS, ""])
@given(raw=NONSENSE, column=st.sampled_from([None, "text", "a", ""]))
@settings(max_examples=10)
def test_any_bytes(folder, extension, raw, column):
    whole(folder, extension, raw, column)


#: A megabyte and more without a line break, where a format could lose its patience or its stack.
GIANTS = {
    "never closed": (".csv", b'text,n\n"' + b"a,b" * 400_000),
    "names": (".csv", b"a," * 100_000 + b"a\n1\n"),
    "digits": (".jsonl", b'{"text": ' + b"9" * 1_000_000 + b"}"),
    "objects": (".jsonl", b'{"a":' * 200_000),
    "lists": (".json", b"[" * 1_000_000),
    "range": (".conllu", b"1-" * 500_000 + b"\ta\n"),
    "nul": (".txt", b"a" * 1_000_000 + b"\0"),
}


@pytest.mark.parametrize("name", GIANTS)
def test_giant_lines(folder, name):
    extension, raw = GIANTS[name]
    path = folder / f"giant{extension}"
    path.write_bytes(raw)
    documents, sentence = outcome(str(path))
    assert (documents, sentence != "") == ([], True)
