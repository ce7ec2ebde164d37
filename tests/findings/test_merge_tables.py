"""Tables of separate jobs add up to the table of the whole."""

import json

import pandas
import pytest

import attnprobe
from attnprobe.cli.app import run
from attnprobe.errors import AttnprobeError
from attnprobe.table.table import HeadTable

LINES = [
    f"The {noun} {verb} {place}."
    for noun in ("parcel", "old miller", "dog")
    for verb in ("came", "was lost")
    for place in ("late", "at the river", "by the mill, they said")
]
JOBS = {"first": LINES[::2], "second": LINES[1::2], "whole": [*LINES[::2], *LINES[1::2]]}


def of(*texts, **options):
    """Take the census of texts, one sequence a batch, so that no sum depends on its company."""
    return attnprobe.census("demo", list(texts), batch_tokens=1, **options)


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    """Write census and distance of two parts of a text, and of the whole."""
    folder = tmp_path_factory.mktemp("jobs")
    for name, lines in JOBS.items():
        text = folder / f"{name}.txt"
        text.write_text("\n".join(lines))
        attnprobe.census("demo", str(text), batch_tokens=1).save(folder / f"{name}-census.csv")
        distance = attnprobe.distance("demo", str(text), by="layer", batch_tokens=1)
        distance.save(folder / f"{name}-distance.csv")
    return folder


def numbers(merged):
    frame = merged.to_pandas()
    return frame[[name for name in frame.select_dtypes("number") if not name.startswith("rare")]]


@pytest.mark.parametrize("command", ["census", "distance"])
def test_parts_add_up_to_the_whole(jobs, command):
    merged = attnprobe.merge([jobs / f"{name}-{command}.csv" for name in ("first", "second")])
    whole = HeadTable.read(jobs / f"whole-{command}.csv")
    assert not [name for name in merged.data if name.startswith("rare")]
    pandas.testing.assert_frame_equal(numbers(merged), numbers(whole), rtol=0, atol=1e-12)
    assert set(merged["dataset"]) == {"first.txt and second.txt"}


def test_tables_at_hand_or_in_files(jobs):
    """What is merged is what is on record, wherever the record is."""
    files = [jobs / f"{name}-census.csv.json" for name in ("first", "second")]
    from_files = attnprobe.merge(files)
    written = [file.with_suffix("") for file in files]
    read = [HeadTable.read(file) for file in written]
    for tables in (read, [read[0], files[1]], list(map(str, written))):
        merged = attnprobe.merge(tables)
        pandas.testing.assert_frame_equal(merged.to_pandas(), from_files.to_pandas(), check_exact=True)
        assert (merged.columns, merged.notes) == (from_files.columns, from_files.notes)
        assert merged.provenance["measurement"] == from_files.provenance["measurement"]


def test_what_was_merged_can_be_merged_again(jobs, tmp_path):
    """(first + second) + third counts all three, and refuses a part it has already."""
    first, second = (HeadTable.read(jobs / f"{name}-census.csv") for name in ("first", "second"))
    third = of("Who rang?", "Nobody.")
    both = attnprobe.merge([attnprobe.merge([first, second]).save(tmp_path / "both.json")[0]])
    # The columns on rare tokens are gone from the first two, whichever comes first.
    for tables in ([both, third], [third, both]):
        merged = attnprobe.merge(tables)
        assert any("Columns on rare tokens are left out" in note for note in merged.notes)
        assert set(merged["n"].tolist()) == {len(LINES) + 2}
        assert not [name for name in merged.data if name.startswith("rare")]
    with pytest.raises(AttnprobeError, match="count twice"):
        attnprobe.merge([merged, first])
    # Nothing else may lack: not of a table that was never merged, and no other columns.
    for columns in (["entropy", "previous"], ["census", "profile"]):
        with pytest.raises(AttnprobeError, match="same command"):
            attnprobe.merge([both, of("Who rang?", statistics=columns)])


def spoil(content, name):
    record = content["provenance"]
    match name:
        case "another model":
            record["model"]["weights"] = {"model.safetensors": "0" * 64}
        case "another setting":
            record["options"]["content_only"] = True
        case "no sums":
            record["measurement"]["sums"] = record["measurement"]["sums"][:4000]
        case "no part":
            record["options"]["part"] = "3/2"
        case "no record":
            return "[1, 2"
    return json.dumps(content)


@pytest.mark.parametrize("says", ["another model", "another setting", "no sums", "no part", "no record"])
def test_spoilt_records(jobs, tmp_path, says):
    content = json.loads((jobs / "second-census.csv.json").read_text())
    (tmp_path / "spoilt.json").write_text(spoil(content, says))
    with pytest.raises(AttnprobeError, match=says):
        attnprobe.merge([jobs / "first-census.csv", tmp_path / "spoilt.json"])


def test_refusals_on_the_command_line(jobs, capfd):
    first = jobs / "first-census.csv"
    for other, says in (
        (first, "count twice"),
        (jobs / "first-distance.csv", "same command"),
        (jobs / "missing.json", "can't be read"),
    ):
        assert run(["merge", str(first), str(other)]) == 2
        out, error = capfd.readouterr()
        assert out == ""
        assert says in error


def to_two(block):
    """Probability of the two most attended tokens."""
    return block.probabilities.topk(min(2, block.probabilities.shape[-1])).values.sum(-1)


def test_statistics_of_one_s_own(tmp_path):
    mine = attnprobe.statistic(to_two, unit="share")
    columns = ["confidence", mine]
    first, second, whole = (
        of(*lines, statistics=columns) for lines in (LINES[::2], LINES[1::2], [*LINES[::2], *LINES[1::2]])
    )
    file = second.save(tmp_path / "second.json")[0]
    merged = attnprobe.merge([first, file], statistics=[mine])
    assert {"to_two", "to_two_se"} <= set(merged.data)
    pandas.testing.assert_frame_equal(numbers(merged), numbers(whole), rtol=0, atol=1e-12)
    with pytest.raises(
        AttnprobeError, match=r"holds 'to_two', which is no statistic .*statistics=\[\.\.\.\]"
    ):
        attnprobe.merge([first, file])
    newer = attnprobe.statistic(to_two, unit="share", version=2)
    with pytest.raises(AttnprobeError, match=r"holds to_two@1, .* is to_two@2, which is another definition"):
        attnprobe.merge([first, file], statistics=[newer])
    with pytest.raises(AttnprobeError, match="not tables of the same command"):
        attnprobe.merge([first, of(*LINES[1::2], statistics=["confidence", newer])], statistics=[newer])


def test_one_table_is_written_in_another_format(jobs, tmp_path):
    """With all that is on record, whatever the command; by its own name, or that of the json beside it."""
    made = HeadTable.read(jobs / "first-distance.csv")
    for number, name in enumerate(("first-distance.csv", "first-distance.csv.json")):
        target = tmp_path / f"{number}.xlsx"
        assert run(["merge", str(jobs / name), "-o", str(target)]) == 0
        read = HeadTable.read(target)
        assert {key: list(cells) for key, cells in read.data.items()} == {
            key: list(cells) for key, cells in made.data.items()
        }
        assert (read.columns, read.notes, read.provenance) == (made.columns, made.notes, made.provenance)
    assert attnprobe.merge([made]) is made


@pytest.mark.parametrize(("beside", "says"), [("ab", "shares only some of"), ("b", "is unknown here")])
def test_records_that_do_not_add_up(jobs, tmp_path, beside, says):
    for name, texts in (("first", "a"), ("second", beside)):
        content = json.loads((jobs / f"{name}-census.csv.json").read_text())
        content["provenance"]["measurement"] |= {"beside": {"entropy": list(texts)}, "table": "others"}
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    with pytest.raises(AttnprobeError, match=says):
        attnprobe.merge([tmp_path / "first.json", tmp_path / "second.json"])
