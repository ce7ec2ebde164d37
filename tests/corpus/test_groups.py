"""Documents of several rows; several sources as one; and the groups that documents count in."""

import json
import warnings

import pandas
import pytest

from attnprobe.corpus.conllu import Sentence
from attnprobe.corpus.open import MOST_GROUPS, join_sources, keep_grouped, open_anything, read_documents
from attnprobe.corpus.source import Source
from attnprobe.errors import AttnprobeError, AttnprobeWarning

PARTS = [("a", "One."), ("b", "Two."), ("a", "Three."), ("", "Four."), ("", "Five."), ("b", "Six.")]


def grouped(path, **options):
    """For each row, the place of the first row of its document; None for one of its own."""
    names = [document.part_of for document in read_documents(Source(str(path), **options))]
    return [None if group is None else names.index(group) for group in names]


@pytest.mark.parametrize("extension", ["csv", "jsonl", "parquet"])
def test_rows_with_one_value_are_one_document(tmp_path, extension):
    path = tmp_path / f"it.{extension}"
    frame = pandas.DataFrame(PARTS, columns=["doc", "text"])
    if extension == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_csv(path, index=False) if extension == "csv" else frame.to_parquet(path)
    assert grouped(path, document_column="doc") == [0, 1, 0, None, None, 1]
    assert grouped(path) == [None] * 6


def test_the_same_value_in_another_file_is_another_document(tmp_path):
    """17 of this file is not 17 of that; 17 of a part of this file is."""
    names = []
    for place, rows in enumerate([PARTS, PARTS[1:], [("a", "Other."), ("a", "One.")]]):
        path = tmp_path / f"{place}.csv"
        path.write_text("doc,text\n" + "".join(f"{doc},{text}\n" for doc, text in rows))
        documents = read_documents(Source(str(path), document_column="doc"))
        names.append({one.text: one.digest for one in documents})
    whole, part, other = names
    assert part["Two."] == part["Six."] == whole["Six."]
    assert other["One."] != whole["One."]
    assert whole["Four."] == part["Four."] != whole["Five."]


@pytest.mark.parametrize("mark", ["# newdoc", "# newpar"])
def test_documents_that_begin_alike_are_several(mark, tmp_path):
    """Letters begin with the same words, and not all files number their documents."""
    path = tmp_path / "letters.conllu"
    row = "1\t{}\t_\t_\t_\t_\t0\troot\t_\t_\n\n"
    letters = [f"{mark}\n{row.format('Dear')}{row.format(f'w{number}')}" for number in range(12)]
    path.write_text("".join(letters))
    digests = [document.digest for document in read_documents(Source(str(path)))]
    assert digests[::2] == digests[1::2]
    assert len(set(digests)) == 12
    path.write_text("".join(letters[3:]))
    assert [document.digest for document in read_documents(Source(str(path)))] == digests[6:]


ROWS = [("the dog ran", "news"), ("a bird", "fiction"), ("stone", " news "), ("night and day", "")]


def groups_of(path, column="genre", **options):
    documents = read_documents(Source(str(path), group_column=column, **options))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AttnprobeWarning)
        return [(one.text, one.group) for one in keep_grouped(documents, column, path.name)]


@pytest.mark.parametrize("name", ["it.csv", "it.jsonl", "it.parquet"])
def test_a_column_of_any_table(tmp_path, name):
    path = tmp_path / name
    frame = pandas.DataFrame(ROWS, columns=["text", "genre"])
    if name == "it.jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_csv(path, index=False) if name == "it.csv" else frame.to_parquet(path)
    assert groups_of(path) == [("the dog ran", "news"), ("a bird", "fiction"), ("stone", "news")]
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
    comments = ["# newdoc id = a", "# global.Entity = eid", "# genre = news"]
    corefud.write_text("\n".join([*comments, *lines]) + "\n\n")
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
    groups = groups_of(tmp_path / "all", "folder")
    assert sorted(groups) == [("one", "news"), ("three", "law/old"), ("two", "news")]
    with pytest.raises(AttnprobeError, match="text without columns"):
        groups_of(tmp_path / "all", "genre")
    with pytest.raises(AttnprobeError, match=r"No document of news is in a group: 'folder'"):
        groups_of(tmp_path / "all" / "news", "folder")


def test_files_by_their_names(tmp_path):
    from attnprobe.session.texts import open_gold

    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "dev.conllu").write_text(sentence(f"{name}word", f"sent_id = {name}"))
    files = [str(tmp_path / name / "dev.conllu") for name in "ab"]
    source = open_gold(files, "treebank", {"by_group": "file"})
    assert [one.group for one in source.documents] == ["dev.conllu", "dev.conllu (2)"]
    alone = open_gold(files[0], "treebank", {"by_group": "file"})
    with pytest.raises(AttnprobeError, match="'file' is empty, or not there"):
        list(keep_grouped(alone.documents, "file", alone.name))


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        (range(10_000), f"'g' of it.jsonl has more than {MOST_GROUPS} values, such as '{MOST_GROUPS}'"),
        (["all groups"], "give the group another name"),
        ([None, "", "  "], "No document of it.jsonl is in a group: 'g' is empty"),
        ([["a", "b"]], "has a list in column 'g'; choose .* with --by-group"),
    ],
)
def test_hostile_columns(tmp_path, cells, says):
    path = tmp_path / "it.jsonl"
    path.write_text("".join(json.dumps({"text": f"dog {n}", "g": one}) + "\n" for n, one in enumerate(cells)))
    with pytest.raises(AttnprobeError, match=says):
        groups_of(path, "g")


def trees(tmp_path, name, *words):
    """Open a treebank; a word that begins with * begins a document too."""
    path = tmp_path / name
    path.write_text("".join(sentence(one.strip("*"), *["newdoc"] * one.startswith("*")) for one in words))
    return open_anything(Source(str(path), annotated=True))


def test_documents_of_several_files_stay_apart(tmp_path):
    parts = [
        trees(tmp_path, "a.conllu", "before", "*one", "one", "*two"),
        trees(tmp_path, "b.conllu", "before", "*three", "three"),
        trees(tmp_path, "c.conllu", "nowhere"),
    ]
    described = [part.described for part in parts]
    both = join_sources(parts)
    wider = {}
    for document in both.documents:
        wider.setdefault(document.part_of, []).append(document.text)
    assert sorted(wider.values()) == [["before", "before", "nowhere"], ["one"] * 2, ["three"] * 2, ["two"]]
    assert both.name == "a.conllu + b.conllu + c.conllu"
    assert both.described == {"name": both.name, "sources": described}


def test_the_same_file_twice(tmp_path):
    with pytest.raises(AttnprobeError, match=r"b\.conllu and a\.conllu are the same file"):
        join_sources([trees(tmp_path, "a.conllu", "one"), trees(tmp_path, "b.conllu", "one")])
