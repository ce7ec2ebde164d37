"""What a document is, format by format."""

import pandas
import pytest

from attnprobe.corpus.open import read_documents
from attnprobe.corpus.source import Source

ROWS = [("a", "One."), ("b", "Two."), ("a", "Three."), ("", "Four."), ("", "Five."), ("b", "Six.")]


def grouped(path, **options):
    """For each row, the place of the first row of its document; None for one of its own."""
    names = [document.part_of for document in read_documents(Source(str(path), **options))]
    return [None if group is None else names.index(group) for group in names]


@pytest.mark.parametrize("extension", ["csv", "jsonl", "parquet"])
def test_rows_with_one_value_are_one_document(tmp_path, extension):
    path = tmp_path / f"it.{extension}"
    frame = pandas.DataFrame(ROWS, columns=["doc", "text"])
    if extension == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_csv(path, index=False) if extension == "csv" else frame.to_parquet(path)
    assert grouped(path, document_column="doc") == [0, 1, 0, None, None, 1]
    assert grouped(path) == [None] * 6


def test_the_same_value_in_another_file_is_another_document(tmp_path):
    """17 of this file is not 17 of that; 17 of a part of this file is."""
    names = []
    for place, rows in enumerate([ROWS, ROWS[1:], [("a", "Other."), ("a", "One.")]]):
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
