"""Folders of images and of sound, from the command line."""

import shutil

import every_type
import numpy as np
import pytest
import torch
import transformers
from spoil import edit_json
from transformers import AutoModelForAudioClassification, AutoModelForImageClassification

CLASSES = {0: "dark", 1: "light"}
LAYERS, HEADS = 3, 4


def save_classifier(folder, name, auto, processor, **changes):
    """Save a tiny classifier of two classes."""
    body = every_type.build(name, **changes)
    config = every_type.configuration(name, **changes)
    config.id2label, config.label2id = CLASSES, {label: number for number, label in CLASSES.items()}
    torch.manual_seed(3)
    model = auto.from_config(config).eval()
    model.base_model.load_state_dict(body.state_dict(), strict=False)
    for key, weight in model.named_parameters():
        if key.startswith(("classifier", "projector")) and weight.ndim == 2:
            torch.nn.init.normal_(weight, std=0.5)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def seeing_classifier(tmp_path_factory):
    pytest.importorskip("PIL")
    processor = transformers.ViTImageProcessorPil(size={"height": 32, "width": 32})
    folder = tmp_path_factory.mktemp("vit") / "classifier"
    return save_classifier(folder, "vit", AutoModelForImageClassification, processor)


@pytest.fixture(scope="module")
def hearing_classifier(tmp_path_factory):
    processor = transformers.Wav2Vec2FeatureExtractor()
    folder = tmp_path_factory.mktemp("wav2vec2") / "classifier"
    changes = {"conv_stride": [40, 8], "classifier_proj_size": 16}
    return save_classifier(folder, "wav2vec2", AutoModelForAudioClassification, processor, **changes)


def test_a_file_without_sound(refused, hearing_classifier, tmp_path):
    pytest.importorskip("soundfile").write(tmp_path / "a.wav", np.zeros(0), 16_000)
    assert "a.wav holds no sound" in refused("entropy", hearing_classifier, "-d", tmp_path / "a.wav")
    pytest.importorskip("soundfile").write(tmp_path / "a.wav", np.zeros(5), 16_000)
    assert "None of the files holds" in refused("entropy", hearing_classifier, "-d", tmp_path / "a.wav")


def sorted_away(folder, root):
    """Copy files into folders of classes, which share them out unevenly."""
    for number, path in enumerate(sorted(folder.iterdir())):
        place = root / CLASSES[number % 3 == 0]
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    return root


@pytest.fixture(scope="module")
def sorted_photos(tmp_path_factory, photos):
    return sorted_away(photos, tmp_path_factory.mktemp("sorted") / "classes")


@pytest.fixture(scope="module")
def sorted_clips(tmp_path_factory, clips):
    return sorted_away(clips, tmp_path_factory.mktemp("sorted") / "classes")


class TestTables:
    @pytest.mark.parametrize("command", ["census", "entropy"])
    def test_images(self, tabulate, media_model, photos, command):
        table = tabulate(command, media_model("vit"), "-d", photos)
        assert len(table) == LAYERS * HEADS
        assert (table["n"] == 7).all()
        assert (table["dataset"] == "photos").all()
        if command == "census":
            assert {"above", "below", "offset_rows", "offset_columns"} <= set(table)
            assert "offset" not in table
            assert table["above"].between(0, 1).all()

    def test_sound(self, tabulate, media_model, clips):
        table = tabulate("census", media_model("wav2vec2"), "-d", clips)
        assert (table["n"] == 6).all()
        assert "offset" in table
        assert not {"above", "below", "offset_rows"} & set(table)


class TestInterventions:
    @pytest.mark.parametrize("kind", ["image", "sound"])
    def test_the_loss_is_that_of_transformers(self, tabulate, request, kind):
        names = (
            ("seeing_classifier", "sorted_photos")
            if kind == "image"
            else ("hearing_classifier", "sorted_clips")
        )
        folder, data = map(request.getfixturevalue, names)
        table = tabulate("ablate", folder, "-d", data, "--metric", "loss")
        remark = f"the objective is classification, by the checkpoint's {kind} classification head"
        assert remark in table.attrs["error"]
        expected = [loss for loss, _ in self.by_transformers(folder, data, kind)]
        assert table["baseline"].to_numpy() == pytest.approx(np.mean(expected), abs=1e-5)
        error_of_mean = np.std(expected, ddof=1) / np.sqrt(len(expected))
        assert table["baseline_se"].to_numpy() == pytest.approx(error_of_mean, abs=1e-5)
        assert (table["delta"].abs() > 0).any()

    def by_transformers(self, folder, data, kind):
        """Ask each file alone, as the documentation of transformers shows."""
        if kind == "image":
            from PIL import Image

            processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
            model = AutoModelForImageClassification.from_pretrained(folder).eval()
        else:
            import soundfile

            processor = transformers.AutoFeatureExtractor.from_pretrained(folder)
            model = AutoModelForAudioClassification.from_pretrained(folder).eval()
        for number, label in CLASSES.items():
            for path in sorted((data / label).iterdir()):
                if kind == "image":
                    given = processor(images=Image.open(path).convert("RGB"), return_tensors="pt")
                else:
                    given = processor(soundfile.read(path)[0], sampling_rate=16_000, return_tensors="pt")
                with torch.inference_mode():
                    output = model(**given, labels=torch.tensor([number]))
                yield output.loss.item(), output.logits.argmax().item() == number

    def test_a_pruned_checkpoint_brings_its_processor(
        self, invoke, seeing_classifier, sorted_photos, photos, tmp_path
    ):
        from attnprobe.model.pruning import load_pruned

        target = tmp_path / "pruned"
        words = ("-d", sorted_photos, "--share", "0.34", "--save", target)
        code, _, error = invoke("prune", seeing_classifier, *words)
        assert code == 0, error
        model = load_pruned(target)
        processor = transformers.AutoImageProcessor.from_pretrained(target, backend="pil")
        from PIL import Image

        given = processor(images=Image.open(photos / "p0.png"), return_tensors="pt")
        assert given["pixel_values"].shape == (1, 3, 32, 32)
        whole = AutoModelForImageClassification.from_pretrained(seeing_classifier).eval()
        with torch.inference_mode():
            pruned, full = model(**given).logits, whole(**given).logits
        assert pruned.shape == (1, 2)
        assert not torch.allclose(pruned, full, atol=1e-4)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("rare VIT -d PHOTOS", "images and sound have no rare tokens"),
        ("positional VIT -d PHOTOS --control", "--control shuffles the tokens of texts"),
        ("entropy VIT -d PHOTOS --max-length 9", "--max-length is about text"),
        ("entropy VIT -d PHOTOS --by-group kind", "--by-group is about texts"),
        ("importance VIT -d PHOTOS --objective masked-lm", "--objective masked-lm is not one for image"),
        ("patch VIT -d PHOTOS", "patch reads pairs of texts from a table"),
        ("view VIT PHOTOS/p0.png -o a.html --alignment 0-0", "leave out the image or sound"),
        ("view VIT PHOTOS/p0.png -o a.html --draw lines", "Lines are for text"),
        ("view VIT PHOTOS/p0.png -o a.html --words", "Nobody tells which tokens make a word here"),
        ("census demo --statistics above", "is about images, in which patches lie in rows"),
        ("view SWIN PHOTOS/p0.png -o a.html", "which no one picture shows"),
        ("compare VIT vit -d PHOTOS", "prepare their input differently"),
        ("entropy swin -d PHOTOS", "its windows are verified for one"),
        ("entropy DINOV2 -d 3.png", "can't be run on"),
        ("entropy DINOV2 -d 8.png", "gives no rows and columns of patches"),
        ("census WHISPER -d clips --label-column text", "None of the 6 files has a target text"),
    ],
)
def test_what_images_have_not(refused, media_model, photos, clips, tmp_path, monkeypatch, words, says):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(clips, "clips")
    (tmp_path / "clips" / "metadata.csv").write_text("file_name,text\nc0.wav,\n")
    for side in (3, 8):
        pytest.importorskip("PIL.Image").new("RGB", (side, side)).save(f"{side}.png")
    for name, changes in {"vit": {"image_mean": [0.1, 0.2, 0.3]}, "swin": {"do_resize": False}}.items():
        shutil.copytree(media_model(name), name)
        edit_json(tmp_path / name / "preprocessor_config.json", **changes)
    for name in ("vit", "swin", "dinov2", "whisper"):
        words = words.replace(name.upper(), str(media_model(name)))
    assert says in refused(*words.replace("PHOTOS", str(photos)).split())
