"""Tables of parts of a corpus: what they add up to, what is missing, and what would count twice."""

from pathlib import Path

import numpy as np
import pytest

import attnprobe
from attnprobe.errors import AttnprobeError
from attnprobe.findings.merge import ReadParts

LINES = [f"The dog number {place % 9} ran to the old house ." for place in range(30)]  # most of them twice
ROWS = "\n".join(["text,who", *(f"{line},{place // 4}" for place, line in enumerate(LINES))])
FILE = {"name": "a.txt", "sha256": "aa", "text_column": None}


def read_part(number, of=100, dataset=FILE, **chosen):
    return ReadParts.read(dataset, {"part": f"{number}/{of}", **chosen})


def assert_same_numbers(table, whole):
    for name in whole.data.keys() - {"model", "dataset"}:
        cells = whole.data[name]
        if np.array(cells).dtype.kind == "f":
            np.testing.assert_allclose(table.data[name], cells, rtol=1e-5, atol=1e-9, err_msg=name)
        else:
            assert table.data[name] == cells, name


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    (folder / "a.txt").write_text("\n".join(LINES) + "\n")
    (folder / "rows.csv").write_text(ROWS + "\n")
    return folder


class TestTables:
    @pytest.mark.parametrize(
        "ask",
        [
            lambda folder, part: attnprobe.entropy("demo", folder / "a.txt", part=part),
            lambda folder, part: attnprobe.mixing(
                "demo", folder / "rows.csv", text_column="text", document_column="who", part=part
            ),
            lambda folder, part: attnprobe.entropy(
                "demo", folder / "a.txt", limit=25, sample=12, seed=3, part=part
            ),
            lambda folder, part: attnprobe.distance("demo", LINES, by="layer", part=part),
            # What is rare is counted in each part, and so is left out.
            lambda folder, part: attnprobe.roles("demo", folder / "a.txt", thresholds={"rare": 1}, part=part),
            lambda folder, part: attnprobe.syntax("demo", by="head", limit=40, part=part),
            lambda folder, part: attnprobe.entropy("demo", by_group="file", limit=200, part=part),
        ],
        ids=["entropy", "mixing", "sample", "distance", "roles", "syntax", "groups"],
    )
    def test_all_parts_are_the_whole(self, files, ask):
        """Though many documents say the same."""
        whole = ask(files, None)
        parts = [ask(files, f"{number}/2") for number in (2, 1)]
        table = attnprobe.merge(parts)
        assert not any("missing" in note or "count twice" in note for note in table.notes)
        assert_same_numbers(table, whole)

    def test_what_is_missing_is_said_and_can_come_later(self, files, tmp_path):
        file = files / "a.txt"
        parts = [attnprobe.entropy("demo", file, part=f"{number}/5") for number in (1, 3, 4)]
        table = attnprobe.merge(parts)
        assert "Parts 2 and 5 of 5 of a.txt are missing." in table.notes
        assert table.provenance["merged"][0]["parts"] == {
            **{"of": 5, "read": [1, 3, 4]},
            **dict.fromkeys(("limit", "sample", "sample_seed")),
        }
        assert "part" not in table.provenance["options"]
        attnprobe.merge(parts).save(tmp_path / "parts.csv")
        later = attnprobe.merge([tmp_path / "parts.csv", attnprobe.entropy("demo", file, part="2/5")])
        assert "Part 5 of 5 of a.txt is missing." in later.notes
        with pytest.raises(AttnprobeError, match=r"both hold part 3 of 5 of a\.txt, which would count twice"):
            attnprobe.merge([later, parts[1]])

    def test_a_part_beside_the_whole(self, files):
        whole = attnprobe.entropy("demo", files / "a.txt")
        part = attnprobe.entropy("demo", files / "a.txt", part="2/3")
        for tables in ([whole, part], [part, whole]):
            with pytest.raises(AttnprobeError, match=r"part 2 of 3 of a\.txt.*may hold the same documents"):
                attnprobe.merge(tables)


class TestRefusals:
    def check(self, ours, theirs):
        ours.check("t1", theirs, "t0")

    def test_another_number_of_parts(self):
        says = r"t0 is part 3 of 100 of a\.txt, and t1 is part 4 of 50 of a\.txt, .*another number of parts"
        with pytest.raises(AttnprobeError, match=says):
            self.check(read_part(4, 50), read_part(3))

    @pytest.mark.parametrize(
        "other",
        [{"limit": 5}, {"sample": 5, "sample_seed": 1}, {"dataset": {"sources": [FILE, {"sha256": "b"}]}}],
    )
    def test_another_choice_of_documents_or_files(self, other):
        with pytest.raises(AttnprobeError, match="the two may hold the same documents"):
            self.check(read_part(4, **other), read_part(3))

    @pytest.mark.parametrize(
        "other", [{**FILE, "sha256": "b"}, {**FILE, "text_column": "b"}, {"name": "hub", "split": "test"}]
    )
    def test_other_corpora_and_other_columns_have_nothing_in_common(self, other):
        self.check(read_part(1, 2), read_part(1, 2, other))
        with pytest.raises(AttnprobeError, match="which would count twice"):
            self.check(read_part(1, 2, other), read_part(1, 2, other))


#: Documents of two or three sentences, "who verb place" with the verb as their root.
SENTENCES = [
    (who, verb, place)
    for who in ("dog", "parcel", "miller")
    for verb in ("came", "rang", "slept", "fell")
    for place in ("late", "early", "here", "there", "again")
]


def treebank(path: Path, documents: range) -> Path:
    """Write some of the documents."""
    blocks = []
    for document in documents:
        for place in range(2 + document % 2):
            who, verb, where = SENTENCES[(7 * document + place) % len(SENTENCES)]
            head = f"# newdoc id = {document}\n" if not place else ""
            words = [("The", 2, "det"), (who, 3, "nsubj"), (verb, 0, "root"), (where, 3, "advmod")]
            rows = (
                f"{number}\t{form}\t_\t_\t_\t_\t{to}\t{label}\t_\t_"
                for number, (form, to, label) in enumerate(words, 1)
            )
            blocks.append(head + "\n".join(rows))
    path.write_text("\n\n".join(blocks) + "\n\n")
    return path


@pytest.fixture(scope="module")
def treebanks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trees")
    parts = {"whole": range(24), "first": range(9), "second": range(9, 24), "across": range(5, 15)}
    return {name: str(treebank(folder / f"{name}.conllu", part)) for name, part in parts.items()}


@pytest.mark.parametrize(
    "ask",
    [
        lambda file: attnprobe.syntax("demo", file, min_links=5, control="links"),
        lambda file: attnprobe.mixing("demo", file),
        lambda file: attnprobe.mixing("demo", file, by="layer"),
        lambda file: attnprobe.mixing("demo", file, by="pair"),
        lambda file: attnprobe.entropy("demo", file, weights="both"),
        lambda file: attnprobe.roles("demo", file),
        lambda file: attnprobe.rank("demo", file),
        lambda file: attnprobe.positional("demo", file, control=True),
    ],
    ids=["syntax", "mixing", "mixing-layer", "mixing-pair", "entropy", "roles", "rank", "control"],
)
def test_files_are_the_whole(treebanks, ask):
    """Halves of documents, blocks of the jackknife and groups do not depend on where a document stands."""
    whole = ask(treebanks["whole"])
    both = attnprobe.merge([ask(treebanks["second"]), ask(treebanks["first"])])
    if "role" not in whole.data:  # whose notes say what is rare, which is counted in each part
        assert both.notes == whole.notes
    assert_same_numbers(both, whole)


def test_one_document_has_no_error(tmp_path):
    """Its sentences are no sample of documents."""
    file = str(treebank(tmp_path / "one.conllu", range(1)))
    for table in (attnprobe.entropy("demo", file), attnprobe.syntax("demo", file, by="head", min_links=1)):
        errors = [cells for name, cells in table.data.items() if name.endswith("_se")]
        assert errors
        assert all(np.isnan(np.array(cells, float)).all() for cells in errors)
        assert "1 document: standard errors are over documents, and undefined" in " ".join(table.notes)


def test_a_file_that_was_merged_twice_over(treebanks, tmp_path):
    """The files of every job are known, however often their tables were merged."""
    third = str(treebank(tmp_path / "third.conllu", range(24, 30)))
    parts = [attnprobe.entropy("demo", treebanks[name]) for name in ("first", "second")]
    merged = attnprobe.merge([attnprobe.merge(parts), attnprobe.entropy("demo", third)])
    names = [one["name"] for one in merged.provenance["merged"]]
    assert names == ["first.conllu", "second.conllu", "third.conllu"]
    with pytest.raises(AttnprobeError, match=r"count twice|may hold the same documents"):
        attnprobe.merge([merged, attnprobe.entropy("demo", treebanks["first"], limit=5)])
