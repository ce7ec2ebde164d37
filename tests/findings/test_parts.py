"""Tables of parts of one corpus: what they add up to, what is missing, and what would count twice."""

import json

import numpy as np
import pytest

import attnprobe
from attnprobe.errors import AttnprobeError
from attnprobe.findings.parts import AllRead, ReadParts

LINES = [f"The dog number {place % 9} ran to the old house ." for place in range(30)]  # most of them twice
ROWS = "\n".join(["text,who", *(f"{line},{place // 4}" for place, line in enumerate(LINES))])
FILE = {"name": "a.txt", "sha256": "aa", "text_column": None}


def read_parts(said, of=100, dataset=FILE, **chosen):
    found = [ReadParts.read(dataset, {"part": f"{number}/{of}", **chosen}) for number in said]
    return [parts for parts in found if parts is not None]


def numbers(table):
    return {name: cells for name, cells in table.data.items() if name not in {"model", "dataset"}}


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
        ],
        ids=["entropy", "mixing", "sample", "distance", "roles"],
    )
    def test_all_parts_are_the_whole(self, files, ask):
        """Though many documents say the same."""
        whole = ask(files, None)
        parts = [ask(files, f"{number}/2") for number in (2, 1)]
        table = attnprobe.merge(parts)
        assert not any("missing" in note or "count twice" in note for note in table.notes)
        for name, cells in numbers(whole).items():
            if np.array(cells).dtype.kind == "f":
                np.testing.assert_allclose(table.data[name], cells, rtol=1e-5, atol=1e-9, err_msg=name)
            else:
                assert table.data[name] == cells, name

    def test_what_is_missing_is_said_and_can_come_later(self, files, tmp_path):
        file = files / "a.txt"
        parts = [attnprobe.entropy("demo", file, part=f"{number}/5") for number in (1, 3, 4)]
        table = attnprobe.merge(parts)
        assert "Parts 2 and 5 of 5 of a.txt are missing." in table.notes
        assert table.provenance["merged"][0]["parts"] == {"of": 5, "read": "1,3,4"}
        assert "part" not in table.provenance["options"]
        attnprobe.merge(parts).save(tmp_path / "some.csv")
        later = attnprobe.merge([tmp_path / "some.csv", attnprobe.entropy("demo", file, part="2/5")])
        assert "Part 5 of 5 of a.txt is missing." in later.notes
        with pytest.raises(AttnprobeError, match=r"both hold part 3 of 5 of a\.txt, which would count twice"):
            attnprobe.merge([later, parts[1]])

    def test_a_part_beside_the_whole(self, files):
        whole = attnprobe.entropy("demo", files / "a.txt")
        part = attnprobe.entropy("demo", files / "a.txt", part="2/3")
        for tables in ([whole, part], [part, whole]):
            with pytest.raises(AttnprobeError, match=r"part 2 of 3 of a\.txt, and .* holds all of it"):
                attnprobe.merge(tables)

    def test_a_damaged_record_is_refused(self, files, tmp_path):
        attnprobe.entropy("demo", files / "a.txt", part="2/3").save(tmp_path / "a.csv")
        found = json.loads((tmp_path / "a.csv.json").read_text())
        for part in ("7/3", "x", 5, ["1/3"]):
            found["provenance"]["options"]["part"] = part
            (tmp_path / "a.csv.json").write_text(json.dumps(found))
            with pytest.raises(AttnprobeError, match="is no record of a table that can be merged"):
                attnprobe.merge([tmp_path / "a.csv.json", tmp_path / "a.csv.json"])


class TestRefusals:
    def add(self, *several):
        read = AllRead()
        for place, parts in enumerate(several):
            read.add_parts(f"t{place}", parts)
        return list(read.note_missing())

    def test_missing_parts_are_named_in_ranges(self):
        here = set(range(1, 101)) - {3, 17, 18, 19, 20}
        assert self.add(*read_parts(here)) == ["Parts 3 and 17 to 20 of 100 of a.txt are missing."]
        assert self.add(*read_parts(set(range(1, 101)) - {100})) == ["Part 100 of 100 of a.txt is missing."]
        assert self.add(*read_parts(range(1, 101))) == []
        (note,) = self.add(*read_parts(range(1, 1001, 2), 1000))
        assert note.startswith("Parts 2, 4, 6, ")
        assert note.endswith("24 and 488 more of 1,000 of a.txt are missing.")

    def test_another_number_of_parts(self):
        with pytest.raises(AttnprobeError, match=r"t0 is part 3 of 100 of a\.txt, and t1 is part 4 of 50 of"):
            self.add(*read_parts([3]), *read_parts([4], 50))

    def test_another_choice_of_documents_or_files(self):
        for chosen in ({"limit": 5}, {"sample": 5, "sample_seed": 1}):
            with pytest.raises(AttnprobeError, match="another --limit, --sample or --seed"):
                self.add(*read_parts([3]), *read_parts([4], **chosen))
        with pytest.raises(AttnprobeError, match="with other files beside it"):
            self.add(*read_parts([3]), *read_parts([4], dataset={"sources": [FILE, {"sha256": "b"}]}))

    def test_other_corpora_and_other_columns_are_apart(self):
        others = [{**FILE, "sha256": "b"}, {**FILE, "text_column": "b"}, {"name": "hub", "split": "test"}]
        notes = self.add(*read_parts([1], 2), *(read_parts([1], 2, one)[0] for one in others))
        assert len(notes) == 4
