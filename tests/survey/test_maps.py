"""All that is shown of a sequence against eager maps of transformers, and which sentences are shown."""

import numpy as np
import pytest
import torch
from transformers import AutoModel

import attnprobe
from attnprobe.table.sequence import group_tokens

TEXT, OTHER = "The walker came late , by the river .", "was it stopped ?"
TOLERANCE = 1e-5


def eager(folder, **inputs):
    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    with torch.inference_mode():
        return model(**inputs, output_attentions=True)


def stacked(maps):
    return torch.stack(list(maps))[:, 0].numpy()


@pytest.mark.parametrize("name", ["bert", "gpt2"])
@pytest.mark.parametrize("pair", [None, OTHER])
def test_text(saved, tiny, name, pair):
    if pair is not None and name == "gpt2":
        pytest.skip("reads no pairs")
    tokenizer = tiny(name)[1]
    inputs = tokenizer(TEXT, pair, return_tensors="pt")
    expected = stacked(eager(saved(name), **inputs).attentions)
    seen = attnprobe.view(saved(name), TEXT, pair)
    kind = "decoder" if name == "gpt2" else "encoder"
    assert list(seen.attention) == [kind]
    np.testing.assert_allclose(seen.attention[kind], expected, atol=TOLERANCE)
    assert len(seen.tokens[kind][0]) == expected.shape[-1]


@pytest.mark.parametrize("target", [None, "the dog ran slowly"])
def test_an_encoder_and_a_decoder(saved, tiny, target):
    model, tokenizer = tiny("t5")
    given = tokenizer(TEXT, return_tensors="pt")["input_ids"]
    written = given if target is None else tokenizer(text_target=target, return_tensors="pt")["input_ids"]
    start = model.config.decoder_start_token_id
    read = torch.cat([torch.tensor([[start]]), written[:, :-1]], 1)
    out = eager(saved("t5"), input_ids=given, decoder_input_ids=read)
    seen = attnprobe.view(saved("t5"), TEXT, target=target)
    for kind, maps in (
        ("encoder", out.encoder_attentions),
        ("decoder", out.decoder_attentions),
        ("cross", out.cross_attentions),
    ):
        np.testing.assert_allclose(seen.attention[kind], stacked(maps), atol=TOLERANCE)
    assert seen.tokens["cross"] == (seen.tokens["decoder"][0], seen.tokens["encoder"][0])


def test_an_image(media_model, photos, tiny):
    with pytest.raises(attnprobe.AttnprobeError, match="need a model that is named"):
        attnprobe.entropy(tiny("bert")[0], photos, tokenizer=tiny("bert")[1])
    from PIL import Image
    from transformers import AutoImageProcessor

    folder, path = media_model("vit"), photos / "p0.png"
    inputs = AutoImageProcessor.from_pretrained(folder, backend="pil")(
        images=Image.open(path), return_tensors="pt"
    )
    seen = attnprobe.view(folder, path)
    np.testing.assert_allclose(
        seen.attention["encoder"], stacked(eager(folder, **inputs).attentions), atol=TOLERANCE
    )
    labels = seen.tokens["encoder"][0]
    assert labels[0] == "[token 0]"
    assert labels[1] == "row 0, column 0"
    assert labels[16] == "row 3, column 3"
    # What the model saw: the image in 32 by 32 pixels.
    expected = np.asarray(Image.open(path).resize((32, 32), Image.Resampling.BILINEAR))
    assert seen.sequence.picture.shape == (32, 32, 3)
    assert np.abs(seen.sequence.picture.astype(int) - expected).max() <= 2


def test_patches_of_large_images_are_put_together(tmp_path, monkeypatch, media_model, photos):
    whole = attnprobe.view(media_model("vit"), photos / "p0.png", rollout=True)
    monkeypatch.setattr("attnprobe.survey.maps.TOKENS", 8)
    with pytest.warns(attnprobe.AttnprobeWarning, match="shown together as 5, with attention to them summed"):
        seen = attnprobe.view(media_model("vit"), photos / "p0.png", rollout=True)
    place = np.arange(16)
    groups = np.concatenate([[0], 1 + place // 4 // 2 * 2 + place % 4 // 2])
    expected = group_tokens(whole.attention["encoder"], groups, groups)
    np.testing.assert_allclose(seen.attention["encoder"], expected, atol=1e-6)
    np.testing.assert_allclose(
        seen.sequence.maps[0].rolled, group_tokens(whole.sequence.maps[0].rolled, groups, groups), atol=1e-6
    )
    assert seen.tokens["encoder"][0] == (
        "[token 0]", "row 0, column 0", "row 0, column 1", "row 1, column 0", "row 1, column 1",
    )  # fmt: skip


def test_long_texts(saved, monkeypatch):
    text = " ".join(["the dog ran ."] * 100)
    with pytest.raises(
        attnprobe.AttnprobeError, match="more tokens than the 256 that a picture takes; give a shorter one"
    ):
        attnprobe.view(saved("t5"), text)
    with pytest.warns(attnprobe.AttnprobeWarning, match="truncated to 12 tokens"):
        seen = attnprobe.view(saved("t5"), text, max_length=12)
    assert {len(side) for sides in seen.tokens.values() for side in sides} == {12}
    assert seen.tokens["encoder"][0][:4] == ("the", "dog", "ran", ".")
    with pytest.raises(attnprobe.AttnprobeError, match="The target has 401 tokens"):
        attnprobe.view(saved("t5"), "the dog", target=text)
    monkeypatch.setattr("attnprobe.survey.maps.CELLS", 100)
    with pytest.raises(attnprobe.AttnprobeError, match="too much for one page"):
        attnprobe.view(saved("bert"), TEXT)


def test_removed_heads_stay_in_their_places(saved, tmp_path):
    attnprobe.prune(
        saved("bert"), ["the dog ran", "a bird"], by="gradient", objective="representation", share=0.4,
        random_orders=0, step=0.5, save=tmp_path / "pruned", physical=True,
    )  # fmt: skip
    seen = attnprobe.view(tmp_path / "pruned", TEXT, rollout=True)
    kept = seen.sequence.maps[0].kept
    rows = seen.attention["encoder"]
    assert 0 < (~kept).sum() < kept.size
    np.testing.assert_allclose(rows.sum(-1), np.broadcast_to(kept[..., None], rows.shape[:-1]), atol=1e-5)
    layer, head = map(int, np.argwhere(~kept)[0])
    with pytest.raises(attnprobe.AttnprobeError, match="was removed"):
        attnprobe.view(tmp_path / "pruned", TEXT, layer=layer, head=head)
