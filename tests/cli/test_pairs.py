"""Images and texts that are read together, from the command line."""

import json
from pathlib import Path
from typing import Any

import pandas
import pytest
import seeing_models

import attnprobe
from attnprobe.corpus.document import Document
from attnprobe.corpus.media import Picture
from attnprobe.errors import AttnprobeError
from attnprobe.model.processing import SeeingProcessor

pytest.importorskip("PIL")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return seeing_models.save("llava", tmp_path_factory.mktemp("models") / "llava")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write pairs as JSON lines, whole and in two parts."""
    folder = tmp_path_factory.mktemp("pairs")
    pairs = seeing_models.draw_pairs(folder / "seen")
    lines = [json.dumps({"image": f"seen/{path.name}", "text": text}) for path, text in pairs]
    for name, part in (("pairs", lines), ("first", lines[:3]), ("rest", lines[3:])):
        (folder / f"{name}.jsonl").write_text("\n".join(part))
    return folder / "pairs.jsonl"


class TestWhatIsRead:
    def test_both(self, tabulate: Any, model: Path, data: Path):
        table = tabulate("census", model, "-d", data)
        assert {"entropy", "rare_mass", "image_mass", "text_to_image_peak"} <= set(table)
        whole = table["image_mass"] + table["text_mass"] + table["special_mass"]
        assert whole.between(1 - 1e-5, 1 + 1e-5).all()

    def test_a_model_of_text_reads_text(self, tabulate: Any, data: Path):
        table = tabulate("census", "demo", "-d", data)
        assert "image" not in table.attrs["error"]
        assert "image_mass" not in table


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

    def test_a_text_that_is_too_long_loses_its_end(self, tabulate: Any, model: Path, data: Path):
        table = tabulate("modality", model, "-d", data, "--max-length", "20")
        assert "7 documents were truncated to 20 tokens" in table.attrs["error"]
        assert (table["n"] == 7).all()

    def test_view(self, model: Path, data: Path):
        image = data.parent / "seen" / "p1.png"
        view = attnprobe.view(str(model), "the dog runs .", image=image)
        assert view.attention["decoder"].shape == (2, 4, 21, 21)
        page = view._repr_html_()
        assert "row 3, column 2" in page


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("modality", "demo"), "modality is about images with texts; give data with a column of images"),
        (
            ("entropy", "demo", "--queries", "text"),
            "--queries tells an image from a text, and embedded holds",
        ),
        (
            ("modality", "demo", "-d", "DATA", "--image-column", "image"),
            "reads no image in a text",
        ),
        (("modality", "MODEL", "-d", "DATA", "--image-column", "shown"), "has no column 'shown'"),
        (("modality", "MODEL", "-d", "DATA", "--max-length", "12"), "gives more than the 12 tokens of a"),
        (
            ("entropy", "MODEL", "-d", "DATA", "--text-column", "text", "--text-pair-column", "image"),
            "An image is read with one text",
        ),
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


def test_a_text_without_an_image(model: Path, data: Path, monkeypatch: Any):
    seen = Document("a dog", image=Picture("one", data.parent / "seen" / "p1.png"))
    with pytest.raises(AttnprobeError, match="A text without an image is among those with one"):
        attnprobe.entropy(str(model), [seen, Document("a dog")])
    monkeypatch.setattr(SeeingProcessor, "is_image", lambda _, ids: ids < 0)
    with pytest.raises(
        AttnprobeError, match="can't read the attention of 'llava': The checkpoint's processor"
    ):
        attnprobe.entropy(str(model), data)
