"""Word alignments as aligners write them, beside texts as people have them."""

import gzip

import pytest

import attnprobe
from attnprobe.corpus.alignments import align_documents, read_joined, read_parallel
from attnprobe.corpus.document import Document, Span
from attnprobe.errors import AttnprobeError


def read(line, text="a bc  d", target="xy z", **how):
    (document,) = align_documents([Document(text, label=target)], [line], "gold", "texts", **how)
    spans = {"text": text, "target": target}
    return [
        (*(spans[end.where][end.start : end.stop] for end in (link.source, link.target)), link.label)
        for link in document.annotation.links
    ]


def test_links_lie_between_words_of_either_text():
    assert read("0-0 1-1 2p1 0?1") == [
        ("a", "xy", "sure"), ("bc", "z", "sure"), ("d", "z", "possible"), ("a", "z", "possible"),
    ]  # fmt: skip
    assert read(" 1-1\t2-2 ", one_based=True) == [("a", "xy", "sure"), ("bc", "z", "sure")]
    assert read("") == []
    (pair,) = align_documents([Document("a b", "c")], ["1-0"], "gold", "texts")
    assert pair.annotation.words == (Span(0, 1), Span(2, 3), Span(0, 1, "pair"))
    assert pair.annotation.links[0].target == Span(0, 1, "pair")


def test_a_link_counts_once():
    assert read("1-1 0-0 1-1 1-1 0?0 2p1 2?1 2p0 2-0") == [
        ("bc", "z", "sure"), ("a", "xy", "sure"), ("d", "z", "possible"), ("d", "xy", "sure"),
    ]  # fmt: skip
    assert len(read("0-0 " * 100_000)) == 1


@pytest.mark.parametrize(
    ("line", "how"),
    [("0-0 3-1", {}), ("0-5", {}), ("0-0", {"one_based": True}), ("4-1", {"one_based": True}),
     ("0-0 0:1", {}), ("-1-0", {}), ("0-", {})],
)  # fmt: skip
def test_a_link_outside_of_a_text(line, how):
    with pytest.raises(AttnprobeError, match="line 1 of gold: "):
        read(line, **how)


def test_pairs_and_lines_come_together():
    two = [Document("a", label="b"), Document("c", label="d")]
    with pytest.raises(AttnprobeError, match="gold ends behind line 1, and texts goes on"):
        list(align_documents(two, ["0-0"], "gold", "texts"))
    with pytest.raises(AttnprobeError, match="texts ends behind line 2, and gold goes on"):
        list(align_documents(two, ["0-0"] * 3, "gold", "texts"))
    with pytest.raises(AttnprobeError, match="Pair 2 of texts has one text alone"):
        list(align_documents([two[0], Document("c")], ["0-0"] * 2, "gold", "texts"))
    blank = [Document(" ", label="b"), two[0]]
    assert [one.text for one in align_documents(blank, ["", "0-0"], "gold", "texts")] == ["a"]
    with pytest.raises(AttnprobeError, match=r"line 1 of gold: 0-0 names .* it has 0 words"):
        list(align_documents(blank, ["0-0", ""], "gold", "texts"))


def test_files_of_pairs(tmp_path):
    first, second, joined = (tmp_path / name for name in ("t.en", "t.de.gz", "both.txt"))
    first.write_text("a b\n\nc\n")
    second.write_bytes(gzip.compress(b"x\n\ny z\n"))
    joined.write_text("a b ||| x\n ||| \nc ||| y z\n")
    expected = [("a b", "x"), ("", ""), ("c", "y z")]
    assert [(one.text, one.label) for one in read_parallel(first, second)] == expected
    assert [(one.text, one.label) for one in read_joined(joined)] == expected
    first.write_text("a b\n")
    with pytest.raises(AttnprobeError, match=r"t\.en ends behind line 1, and .*t\.de\.gz goes on"):
        list(read_parallel(first, second))
    with pytest.raises(
        AttnprobeError, match=r"line 1 of .* does not hold two texts with \|\|\| between them"
    ):
        list(read_joined(first))
    with pytest.raises(AttnprobeError, match="There is no file"):
        list(read_joined(tmp_path / "none"))


@pytest.fixture
def files(tmp_path):
    """Give the same pairs in every way, and their alignments."""
    pairs = [("the dog ran", "a cat"), ("who rang", "she did it"), ("it was late", "so it was")] * 2
    gold = ["0-0 2p1", "0-0 1-1", "0-1 1-2 2p0"] * 2
    for name, lines in {
        "t.en": [text for text, _ in pairs],
        "t.de": [target for _, target in pairs],
        "both": [f"{text} ||| {target}" for text, target in pairs],
        "t.csv": ["en,de", *(f"{text},{target}" for text, target in pairs)],
        "gold": gold,
    }.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    return tmp_path, pairs, gold


def test_the_same_from_files_tables_and_lists(files, saved):
    folder, pairs, gold = files
    model, how = str(saved("bart")), {"metric": "aer", "by": "head"}
    table = attnprobe.links(
        model, folder / "t.en", targets=folder / "t.de", alignments=folder / "gold", **how
    )
    cells = {name: list(one) for name, one in table.data.items() if name != "dataset"}
    for texts, more in (
        (folder / "both", {}),
        (folder / "t.csv", {"text_column": "en", "label_column": "de"}),
        ([text for text, _ in pairs], {"targets": [target for _, target in pairs]}),
        ([Document(text, label=target) for text, target in pairs], {}),
    ):
        for lines in (folder / "gold", gold):
            result = attnprobe.links(model, texts, alignments=lines, **more, **how)
            assert {name: list(one) for name, one in result.data.items() if name != "dataset"} == cells
    assert [one["name"] for one in table.provenance["dataset"]["sources"]] == ["t.en", "t.de", "gold"]
    accuracy = attnprobe.links(model, folder / "both", alignments=folder / "gold", min_links=1, by="head")
    counted = accuracy.to_pandas().query("attention == 'cross'").groupby("label").n.first().to_dict()
    assert counted == {"all": 14, "sure": 10, "possible": 4}
