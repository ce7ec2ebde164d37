"""Images and texts that are read together, from the command line."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pandas
import pytest
import seeing_models

import attnprobe
from attnprobe.errors import AttnprobeError
from attnprobe.model.check.dry_run import examine
from attnprobe.model.configuration import refuse_unseeing
from attnprobe.model.load import load_checkpoint
from attnprobe.model.quirks import UnsupportedModelError
from attnprobe.reports.charts.draw import list_kinds

pytest.importorskip("PIL")


def frame(out: str) -> pandas.DataFrame:
    return pandas.read_csv(StringIO(out))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return seeing_models.save("llava", tmp_path_factory.mktemp("models") / "llava")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write pairs as JSON lines, whole and in two parts."""
    folder = tmp_path_factory.mktemp("pairs")
    pairs = seeing_models.draw_pairs(folder / "seen")
    lines = [json.dumps({"image": f"seen/{path.name}", "text": text}) for path, text in pairs]
    for name, some in (("pairs", lines), ("first", lines[:3]), ("rest", lines[3:])):
        (folder / f"{name}.jsonl").write_text("\n".join(some))
    return folder / "pairs.jsonl"


class TestWhatIsRead:
    def test_both(self, invoke: Any, model: Path, data: Path):
        code, out, error = invoke("census", model, "-d", data)
        assert code == 0, error
        table = frame(out)
        assert {"entropy", "rare_mass", "image_mass", "text_to_image_peak"} <= set(table)
        whole = table["image_mass"] + table["text_mass"] + table["special_mass"]
        assert whole.between(1 - 1e-5, 1 + 1e-5).all()

    def test_text_alone(self, invoke: Any, model: Path, data: Path):
        """Where no column of images is wanted, numbers are those of a file of text."""
        code, out, error = invoke("entropy", model, "-d", data, "--image-column", "none")
        assert code == 0, error
        texts = [json.loads(line)["text"] for line in data.read_text().splitlines()]
        expected = attnprobe.entropy(str(model), _write(data.parent / "texts.txt", texts))
        assert frame(out)["entropy"].tolist() == pytest.approx(expected.data["entropy"], abs=1e-12)

    def test_images_alone(self, invoke: Any, model: Path, data: Path):
        """A folder of images is read by the vision tower."""
        code, out, error = invoke("census", model, "-d", data.parent / "seen")
        assert code == 0, error
        assert "above" in frame(out)
        assert "image_mass" not in frame(out)

    def test_a_model_of_text_reads_text(self, invoke: Any, data: Path):
        code, out, error = invoke("census", "demo", "-d", data)
        assert code == 0
        assert "image" not in error
        assert "image_mass" not in frame(out)

    def test_a_mark_of_its_own(self, model: Path, data: Path, tmp_path: Path):
        """A text that says where its image is keeps it there."""
        row = json.loads(data.read_text().splitlines()[0])
        row |= {"image": str(data.parent / row["image"]), "text": "the dog <image> runs"}
        (tmp_path / "own.jsonl").write_text(json.dumps(row))
        found = attnprobe.modality(str(model), tmp_path / "own.jsonl").data
        assert 0 < found["image_to_text"][0] < 1
        row["text"] = "the <image> and the <image>"
        (tmp_path / "own.jsonl").write_text(json.dumps(row))
        with pytest.raises(AttnprobeError, match="The checkpoint's processor fails"):
            attnprobe.modality(str(model), tmp_path / "own.jsonl")


def _write(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines))
    return path


class TestRuns:
    def test_resumed_merged_and_in_other_batches(self, model: Path, data: Path, tmp_path: Path):
        whole = attnprobe.modality(str(model), data)
        state = tmp_path / "state"
        first = attnprobe.modality(str(model), data, resume=state)
        again = attnprobe.modality(str(model), data, resume=state)
        for table in (first, again):
            pandas.testing.assert_frame_equal(pandas.DataFrame(table.data), pandas.DataFrame(whole.data))
        small = attnprobe.modality(str(model), data, batch_tokens=30)
        parts = [attnprobe.modality(str(model), data.parent / f"{name}.jsonl") for name in ("first", "rest")]
        for table in (small, attnprobe.merge(parts)):
            for name in ("image_mass", "text_to_image", "text_to_image_lift", "text_to_image_lift_se"):
                assert table.data[name] == pytest.approx(whole.data[name], rel=1e-6, abs=1e-7)
        with pytest.raises(AttnprobeError, match="belongs to a run with another setting"):
            attnprobe.modality(str(model), data, resume=state, queries="text")

    def test_columns_are_named_for_a_reader_and_drawn(self, model: Path, data: Path):
        table = attnprobe.modality(str(model), data)
        titles = [column.title for column in table.columns if column.role == "measure"]
        assert all(title.strip() and "_" not in title for title in titles)
        assert len({*titles}) == len(titles)
        assert list_kinds(table)

    def test_help_has_examples(self, invoke: Any):
        code, out, _ = invoke("modality", "--help")
        assert code == 0
        assert all(word in out for word in ("Examples:", "attnprobe modality my-vlm", "--queries"))

    def test_a_text_that_is_too_long_loses_its_end(self, invoke: Any, model: Path, data: Path):
        code, out, error = invoke("modality", model, "-d", data, "--max-length", "20")
        assert code == 0
        assert "7 documents were truncated to 20 tokens" in error
        assert (frame(out)["n"] == 7).all()

    def test_doctor(self, invoke: Any, model: Path, data: Path):
        code, out, _ = invoke("doctor", model, "-d", data)
        assert code == 0
        assert "16 of 26 tokens stand for the image; it stands in front, as '<image>'" in out
        assert "maps equal the model's own eager maps" in out

    def test_view(self, model: Path, data: Path):
        image = data.parent / "seen" / "p1.png"
        found = attnprobe.view(str(model), "the dog runs .", image=image)
        assert found.attention["decoder"].shape == (2, 4, 21, 21)
        page = found._repr_html_()
        assert "row 3, column 2" in page


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("modality", "demo"), "modality is about images with texts; give data with a column of images"),
        (
            ("entropy", "demo", "--queries", "text"),
            "--queries tells an image from a text, and embedded holds",
        ),
        (("modality", "demo", "-d", "DATA", "--image-column", "image"), "states no token in whose place"),
        (("modality", "MODEL", "-d", "DATA", "--image-column", "shown"), "has no column 'shown'"),
        (("modality", "MODEL", "-d", "DATA", "--max-length", "12"), "gives more than the 12 tokens of a"),
        (("positional", "MODEL", "-d", "DATA", "--control"), "--control shuffles the tokens of texts"),
        (
            ("view", "MODEL", "a dog", "--image", "nowhere.png", "-o", "a.html"),
            "There is no image 'nowhere.png'",
        ),
    ],
)
def test_refused_in_one_sentence(invoke: Any, model: Path, data: Path, words: tuple[str, ...], says: str):
    there = {"MODEL": str(model), "DATA": str(data)}
    code, out, error = invoke(*(there.get(word, word) for word in words))
    assert (code, out) == (2, "")
    assert says in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("bridgetower", "with layers of attention between them; give another model"),
        ("blip", "its text looks at the image in layers between them; give a folder of images"),
        ("flava", "which a third encoder reads together without saying where; give text alone, or a folder"),
        ("git", "its image stands before the text without a token of it; give another model"),
        ("kosmos-2", "a mask of its own says where its image is; give text alone"),
        ("layoutlmv3", "its image is a page, of which it is told where each word stands; give text alone"),
        ("mllama", "whose keys are no tokens of the text; give text alone"),
        ("vilt", "its image stands behind the text without a token of it; give another model"),
        ("visual_bert", "as features that a detector found; give text alone"),
        ("florence2", "an encoder reads its image, and its decoder another text"),
        ("clip", "states no token in whose place an image is put"),
        ("bert", "states no token in whose place an image is put"),
    ],
)
def test_types_refused_by_name(name: str, says: str):
    import transformers

    with pytest.raises(UnsupportedModelError, match=says):
        refuse_unseeing("x", transformers.CONFIG_MAPPING[name]())


def test_tokens_of_an_image_that_see_each_other(tmp_path: Path):
    """The dry run tells such a decoder from one that sees everything, and from one that sees what came."""
    found = {}
    for name in ("gemma3", "llava"):
        folder = seeing_models.save(name, tmp_path / name)
        _, architecture = examine(load_checkpoint(str(folder), modality="image+text"))
        assert set(architecture.kinds) == {"decoder"}
        found[name] = architecture.joined
    assert found == {"gemma3": True, "llava": False}
