"""In which group a document counts: columns, comments, files and folders; and what can't be one."""

import gzip
import json
import warnings

import pytest

from attnprobe.corpus.conllu import Sentence
from attnprobe.corpus.groups import MOST, keep_grouped
from attnprobe.corpus.open import read_documents
from attnprobe.corpus.source import Source
from attnprobe.errors import AttnprobeError, AttnprobeWarning

ROWS = [("the dog ran", "news"), ("a bird", "fiction"), ("stone", " news "), ("night and day", "")]


def groups_of(path, column="genre", **options):
    documents = read_documents(Source(str(path), group_column=column, **options))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AttnprobeWarning)
        return [(one.text, one.group) for one in keep_grouped(documents, column, path.name)]


@pytest.mark.parametrize("name", ["it.csv", "it.jsonl", "it.parquet", "it.xlsx"])
def test_a_column_of_any_table(tmp_path, name):
    path = tmp_path / name
    if ".csv" in name or ".tsv" in name:
        separator = "\t" if ".tsv" in name else ","
        content = "\n".join(separator.join(row) for row in [("text", "genre"), *ROWS]).encode()
        path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    elif name == "it.jsonl":
        path.write_text("\n".join(json.dumps({"text": text, "genre": genre}) for text, genre in ROWS))
    else:
        pandas = pytest.importorskip("pandas")
        pytest.importorskip("openpyxl" if name.endswith("xlsx") else "pyarrow")
        frame = pandas.DataFrame(ROWS, columns=["text", "genre"])
        frame.to_excel(path, index=False) if name.endswith("xlsx") else frame.to_parquet(path)
    assert groups_of(path) == [("the dog ran", "news"), ("a bird", "fiction"), ("stone", "news")]
    if ".csv" in name or ".tsv" in name:
        assert groups_of(path, "2") == groups_of(path)  # by its number


def sentence(word, *comments):
    return "".join(f"# {comment}\n" for comment in comments) + f"1\t{word}\t_\tNOUN\t_\t_\t0\troot\t_\t_\n\n"


def test_comments_of_a_treebank(tmp_path):
    """Of the document, until the next one; of a sentence, which comes first; with GUM's prefix."""
    path = tmp_path / "it.conllu"
    path.write_text(
        sentence("early")
        + sentence("one", "newdoc id = a", "genre = news", "sent_id = 1")
        + sentence("two", "sent_id = 2", "subgenre = law")
        + sentence("three", "genre = law")
        + sentence("four")
        + sentence("five", "newdoc id = b", "meta::genre = fiction")
        + sentence("six")
        + sentence("seven", "newdoc id = c")
    )
    expected = [("one", "news"), ("two", "news"), ("three", "law"), ("four", "news")]
    assert groups_of(path) == [*expected, ("five", "fiction"), ("six", "fiction")]
    assert groups_of(path, annotated=True) == groups_of(path)
    assert Sentence((), (), ["# genre =", "#genre=poem"], None).find_comment("genre") == "poem"
    assert Sentence((), (), ["# Genre = news", "# genre: news"], None).find_comment("genre") is None


def test_columns_of_gap_and_comments_of_corefud(tmp_path):
    gap = tmp_path / "gap.tsv"
    names = ["ID", "Text", "Pronoun", "Pronoun-offset", "A", "A-offset", "A-coref", "B", "B-offset"]
    text = "Ann met Eve, and she left."
    row = ["1", text, "she", "17", "Ann", "0", "TRUE", "Eve", "8", "FALSE", "u", "wiki"]
    header = [*names, "B-coref", "URL", "source"]
    gap.write_text("\n".join("\t".join(one) for one in (header, row)) + "\n")
    assert groups_of(gap, "source", coreference=True) == [(text, "wiki")]
    with pytest.raises(AttnprobeError, match="no column 'genre'"):
        groups_of(gap, coreference=True)
    corefud = tmp_path / "it.conllu"
    words = [("Ann", "(e1)"), ("met", ""), ("Eve", "(e2)"), (".", ""), ("She", "(e1)"), ("left", "")]
    lines = [
        f"{place}\t{form}\t_\t{'PRON' if form == 'She' else 'PROPN'}\t_\t_\t{place - 1}\tdep\t_\t"
        f"{f'Entity={mark}' if mark else '_'}"
        for place, (form, mark) in enumerate(words, start=1)
    ]
    said = ["# newdoc id = a", "# global.Entity = eid", "# genre = news"]
    corefud.write_text("\n".join([*said, *lines]) + "\n\n")
    assert [group for _, group in groups_of(corefud, coreference=True)] == ["news"]


def test_folders_of_files(tmp_path):
    for name, line in (
        ("news/a.txt", "one"),
        ("news/b.txt", "two"),
        ("law/old/c.txt", "three"),
        ("d.txt", "four"),
    ):
        path = tmp_path / "all" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{line}\n")
    found = groups_of(tmp_path / "all", "folder")
    assert sorted(found) == [("one", "news"), ("three", "law/old"), ("two", "news")]
    with pytest.raises(AttnprobeError, match="text without columns"):
        groups_of(tmp_path / "all", "genre")
    with pytest.raises(AttnprobeError, match=r"No document of news is in a group: 'folder'"):
        groups_of(tmp_path / "all" / "news", "folder")


def test_files_by_their_names(tmp_path):
    from attnprobe.session.texts import GoldLinks, open_gold

    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "dev.conllu").write_text(sentence(f"{name}word", f"sent_id = {name}"))
    files = [str(tmp_path / name / "dev.conllu") for name in "ab"]
    source = open_gold(files, GoldLinks.TREEBANK, {"by_group": "file"})
    assert [one.group for one in source.documents] == ["dev.conllu", "dev.conllu (2)"]
    alone = open_gold(files[0], GoldLinks.TREEBANK, {"by_group": "file"})
    with pytest.raises(AttnprobeError, match="'file' is empty, or not there"):
        list(keep_grouped(alone.documents, "file", alone.name))


def test_hostile_columns(tmp_path):
    path = tmp_path / "it.jsonl"

    def write(cells):
        path.write_text(
            "\n".join(json.dumps({"text": f"the dog {n}", "g": one}) for n, one in enumerate(cells))
        )

    write(range(10_000))
    with pytest.raises(
        AttnprobeError, match=f"'g' of it.jsonl has more than {MOST} values, such as '{MOST}'"
    ):
        groups_of(path, "g")
    write(["all groups"])
    with pytest.raises(AttnprobeError, match="give the group another name"):
        groups_of(path, "g")
    write([None, "", "  "])
    with pytest.raises(AttnprobeError, match=r"No document of it.jsonl is in a group: 'g' is empty"):
        groups_of(path, "g")
    write([["a", "b"]])
    with pytest.raises(AttnprobeError, match=r"has a list in column 'g'; choose .* with --by-group"):
        groups_of(path, "g")
    write(["a"])
    with pytest.raises(AttnprobeError, match="has no column 'h'"):
        groups_of(path, "h")
