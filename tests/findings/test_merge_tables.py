"""Tables of separate jobs add up to the table of the whole."""

import json

import numpy as np
import pandas
import pytest

import attnprobe
from attnprobe.cli.app import run
from attnprobe.errors import AttnprobeError
from attnprobe.table.head_table import HeadTable

LINES = [
    f"The {noun} {verb} {place}."
    for noun in ("parcel", "old miller", "dog")
    for verb in ("came", "was lost")
    for place in ("late", "at the river", "by the mill, they said")
]


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    """Write census and distance of two parts of a text, and of the whole."""
    folder = tmp_path_factory.mktemp("jobs")
    for name, lines in (
        ("first", LINES[::2]),
        ("second", LINES[1::2]),
        ("whole", [*LINES[::2], *LINES[1::2]]),
    ):
        text = folder / f"{name}.txt"
        text.write_text("\n".join(lines))
        for command, words in (("census", []), ("distance", ["--by", "layer"])):
            target = folder / f"{name}-{command}.csv"
            # One sequence a batch, so that no sum depends on its company.
            options = ["--batch-tokens", "1", "-q"]
            assert run([command, "demo", "-d", str(text), *words, *options, "-o", str(target)]) == 0
    return folder


def table(path):
    content = json.loads(path.read_text())
    return content["rows"], content


def merged(folder, command, tmp_path, *extra):
    target = tmp_path / "merged.json"
    words = [
        str(folder / f"{name}-{command}.{end}") for name, end in (("first", "csv.json"), ("second", "csv"))
    ]
    code = run(["merge", *words, *map(str, extra), "-o", str(target)])
    return code, target


@pytest.mark.parametrize("command", ["census", "distance"])
def test_parts_add_up_to_the_whole(jobs, command, tmp_path, capfd):
    code, target = merged(jobs, command, tmp_path)
    assert code == 0, capfd.readouterr().err
    found = pandas.DataFrame(table(target)[0])
    whole = pandas.read_csv(jobs / f"whole-{command}.csv")
    numbers = [name for name in whole.select_dtypes("number") if not name.startswith("rare")]
    assert set(numbers) <= set(found)
    assert not [name for name in found if name.startswith("rare")]
    np.testing.assert_allclose(found[numbers].astype(float), whole[numbers].astype(float), rtol=0, atol=1e-12)
    assert set(found["dataset"]) == {"first.txt and second.txt"}
    if command == "census":
        assert set(found["n"]) == {len(LINES)}


def test_what_was_merged_can_be_merged_again(jobs, tmp_path, capfd):
    """(first + second) + third counts all three, and refuses a part it has already."""
    text = tmp_path / "third.txt"
    text.write_text("Who rang?\nNobody.")
    third = tmp_path / "third.json"
    assert run(["census", "demo", "-d", str(text), "-q", "-o", str(third)]) == 0
    _, both = merged(jobs, "census", tmp_path)
    target = tmp_path / "all.json"
    # The columns on rare tokens are gone from the first two, whichever comes first.
    for words in ([both, third], [third, both]):
        assert run(["merge", *map(str, words), "-o", str(target), "--overwrite"]) == 0
        assert "Columns on rare tokens are left out" in capfd.readouterr().err
        assert {row["n"] for row in table(target)[0]} == {len(LINES) + 2}
        assert not [name for name in table(target)[0][0] if name.startswith("rare")]
    assert run(["merge", str(target), str(jobs / "first-census.csv")]) == 2
    assert "count twice" in capfd.readouterr().err
    target.unlink()
    # Nothing else may lack: not of a table that was never merged, and no other columns.
    options = ["census", "demo", "-d", str(text), "-q"]
    for name, asked in (("few", "entropy,previous"), ("more", "census,profile")):
        assert run([*options, "--statistics", asked, "-o", str(tmp_path / f"{name}.json")]) == 0
        assert run(["merge", str(both), str(tmp_path / f"{name}.json")]) == 2
        assert "same command" in capfd.readouterr().err
    assert run(["positional", "demo", "-d", str(text), "-q", "-o", str(tmp_path / "p3.json")]) == 0
    for name in ("first", "second"):
        words = [
            "positional",
            "demo",
            "-d",
            str(jobs / f"{name}.txt"),
            "-q",
            "-o",
            str(tmp_path / f"p-{name}.json"),
        ]
        assert run(words) == 0
    two = [str(tmp_path / f"p-{name}.json") for name in ("first", "second")]
    assert run(["merge", *two, "-o", str(tmp_path / "p12.json")]) == 0
    assert run(["merge", str(tmp_path / "p12.json"), str(tmp_path / "p3.json"), "-o", str(target)]) == 0
    assert {row["n"] for row in table(target)[0]} == {len(LINES) + 2}
    capfd.readouterr()
    assert run(["merge", str(target), two[0]]) == 2
    assert "count twice" in capfd.readouterr().err


def test_refusals(jobs, tmp_path, capfd):
    first, other = jobs / "first-census.csv", jobs / "first-distance.csv"
    changed = tmp_path / "changed.json"
    content = json.loads((jobs / "second-census.csv.json").read_text())
    content["provenance"]["model"]["weights"] = {"model.safetensors": "0" * 64}
    changed.write_text(json.dumps(content))
    settings = tmp_path / "settings.json"
    content = json.loads((jobs / "second-census.csv.json").read_text())
    content["provenance"]["options"]["content_only"] = True
    settings.write_text(json.dumps(content))
    spoilt = tmp_path / "spoilt.json"
    content["provenance"]["measurement"]["sums"] = "AAAA"
    spoilt.write_text(json.dumps(content))
    torn = tmp_path / "torn.json"
    content = json.loads((jobs / "second-census.csv.json").read_text())
    content["provenance"]["measurement"]["sums"] = content["provenance"]["measurement"]["sums"][:4000]
    torn.write_text(json.dumps(content))
    garbage = tmp_path / "garbage.json"
    garbage.write_text("[1, 2")
    for words, says in (
        ([first, first], "count twice"),
        ([first, other], "same command"),
        ([first, changed], "another model"),
        ([first, settings], "another setting"),
        ([first, spoilt], "no sums"),
        ([first, torn], "no sums"),
        ([first, garbage], "no record"),
        ([first, tmp_path / "missing.json"], "can't be read"),
    ):
        capfd.readouterr()
        assert run(["merge", *map(str, words)]) == 2
        out, error = capfd.readouterr()
        assert out == ""
        assert says in error
        assert "Traceback" not in error


# Tables at hand


def of(*texts, **options):
    """Take the census of texts, one sequence a batch, so that no sum depends on its company."""
    return attnprobe.census("demo", list(texts), batch_tokens=1, **options)


def numbers(found):
    frame = found.to_pandas()
    return frame[[name for name in frame.select_dtypes("number") if not name.startswith("rare")]]


@pytest.mark.parametrize("command", ["census", "distance"])
def test_tables_at_hand_or_in_files(jobs, command):
    """What is merged is what is on record, wherever the record is."""
    files = [jobs / f"{name}-{command}.csv.json" for name in ("first", "second")]
    from_files = attnprobe.merge(files)
    written = [file.with_suffix("") for file in files]
    read = [HeadTable.read(file) for file in written]
    for tables in (read, [read[0], files[1]], list(map(str, written))):
        found = attnprobe.merge(tables)
        pandas.testing.assert_frame_equal(found.to_pandas(), from_files.to_pandas(), check_exact=True)
        assert found.columns == from_files.columns
        assert found.notes == from_files.notes
        assert found.provenance["measurement"] == from_files.provenance["measurement"]


def test_tables_that_were_never_written(tmp_path):
    tables = [of(*lines, statistics=["entropy", "positional"]) for lines in (LINES[::2], LINES[1::2])]
    files = [table.save(tmp_path / f"{number}.csv")[0] for number, table in enumerate(tables)]
    found, from_files = attnprobe.merge(tables), attnprobe.merge(files)
    pandas.testing.assert_frame_equal(found.to_pandas(), from_files.to_pandas(), check_exact=True)
    assert found.provenance["measurement"] == from_files.provenance["measurement"]
    with pytest.raises(
        AttnprobeError, match="the table 'census of heads' is about a text that is there already"
    ):
        attnprobe.merge([*tables, tables[0]])


# Statistics of one's own


def to_two(block):
    """Probability of the two most attended tokens."""
    return block.probabilities.topk(min(2, block.probabilities.shape[-1])).values.sum(-1)


def test_statistics_of_one_s_own(tmp_path):
    mine = attnprobe.statistic(to_two, unit="share")
    columns = ["confidence", mine]
    one, two, whole = (
        of(*lines, statistics=columns) for lines in (LINES[::2], LINES[1::2], [*LINES[::2], *LINES[1::2]])
    )
    file = two.save(tmp_path / "two.json")[0]
    found = attnprobe.merge([one, file], statistics=[mine])
    assert {"to_two", "to_two_se"} <= set(found.data)
    pandas.testing.assert_frame_equal(numbers(found), numbers(whole), rtol=0, atol=1e-12)
    with pytest.raises(
        AttnprobeError, match=r"holds 'to_two', which is no statistic .*statistics=\[\.\.\.\]"
    ):
        attnprobe.merge([one, file])
    newer = attnprobe.statistic(to_two, unit="share", version=2)
    with pytest.raises(AttnprobeError, match=r"holds to_two@1, .* is to_two@2, which is another definition"):
        attnprobe.merge([one, file], statistics=[newer])
    with pytest.raises(AttnprobeError, match="not tables of the same command"):
        attnprobe.merge([one, of(*LINES[1::2], statistics=["confidence", newer])], statistics=[newer])


# Windows of long documents


def test_standard_errors_of_windowed_documents():
    """Documents are told apart whatever job they are in, so errors are those of the whole."""
    draw = np.random.default_rng(0)
    texts = [" ".join(draw.choice(LINES, size=size)) for size in draw.integers(1, 9, 24)]
    statistics = ["entropy", "positional", "special"]
    one, two, whole = (
        of(*some, statistics=statistics, max_length=16) for some in (texts[:10], texts[10:], texts)
    )
    assert whole["n"][0] > 2 * len(texts)
    found = attnprobe.merge([one, two])
    errors = [name for name in whole.data if name.endswith("_se")]
    assert len(errors) > 5
    pandas.testing.assert_frame_equal(numbers(found), numbers(whole), rtol=0, atol=1e-9)
    short = of(*texts, statistics=statistics)
    assert not np.allclose(short["entropy_se"], whole["entropy_se"], rtol=0.1)
    apart = attnprobe.merge([two, one])
    pandas.testing.assert_frame_equal(numbers(apart), numbers(whole), rtol=0, atol=1e-9)


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
