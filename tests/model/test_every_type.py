"""Every type of model in transformers: read as the model itself says, or refused by name.

The models, what they are given and their own maps come from ``every_type``, which knows nothing of attnprobe.

    python tests/model/test_every_type.py

prints the table of what is supported as Markdown.
"""

import re
import sys
from functools import cache
from typing import Any, cast

import every_type
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor
from transformers import CONFIG_MAPPING, MODEL_MAPPING, AutoConfig, PreTrainedTokenizerFast
from transformers.models.auto import modeling_auto

from attnprobe.errors import AttnprobeError
from attnprobe.model import quirks
from attnprobe.model.check.dry_run import examine
from attnprobe.model.check.gates import check_gates
from attnprobe.model.check.observed import check_observations
from attnprobe.model.checkpoint import Checkpoint, check_modality, find_tower
from attnprobe.model.processing import Processor
from attnprobe.model.quirks import UnsupportedModelError
from attnprobe.model.reading import blocks
from attnprobe.model.reading.capture import capture_attention
from attnprobe.model.task_heads import read_weights

VOCABULARY = every_type.VOCABULARY
#: What transformers' names of modalities are called here.
MODALITIES = {"text": "text", "image": "image", "sound": "sound", "sound+text": "sound"}


#: What models of each modality are given beside what a decoder reads.
TAKEN = {
    "text": {"input_ids"},
    "image": {"pixel_values", "spatial_shapes"},
    "sound": {"input_values", "input_features"},
}


class Noise:
    """Stands for a processor of images or sound: gives what the model takes, without any file."""

    def __init__(self, name, model, modality):
        self._name, self._model, self._modality = name, model, modality

    def noise(self, number):
        given = every_type.inputs(self._name, self._model, batch=1, seed=number)
        return {key: value for key, value in given.items() if key in TAKEN[self._modality]}


def tokenizer():
    """Make a tokenizer that adds nothing, so that any type can be asked."""
    words = {name: place for place, name in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])}
    words |= {f"word{i}": i for i in range(len(words), VOCABULARY)}
    marks = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    whole = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    whole.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=whole, mask_token="[MASK]", **marks)


def checkpoints(name):
    """Give a tiny model ready to be asked: once for each tower, if it has several."""
    known, model = every_type.TYPES[name], every_type.build(name)
    if getattr(model.config, "decoder_start_token_id", None) not in range(VOCABULARY):
        model.config.decoder_start_token_id = 2  # the usual one lies outside of this vocabulary
    modalities = [MODALITIES[known.modality]] if known.modality in MODALITIES else ["text", "image"]
    for modality in modalities:
        processor = None if modality == "text" else cast(Processor, Noise(name, model, modality))
        check_modality(name, model.config, modality)
        tower = find_tower(model, modality)
        yield Checkpoint(name, model, tokenizer(), modality=modality, processor=processor, tower=tower)


@cache
def examined(name):
    """Build a type that is read, and find how; once for all tests, each of which leaves it as it was."""
    return [examine(checkpoint) for checkpoint in checkpoints(name)]


def read_maps(checkpoint, way, given):
    """Put the pieces of a capture together."""
    parts: dict[tuple[int, int], list[Tensor]] = {}

    def keep(piece):
        parts.setdefault((piece.layer, piece.sequence), []).append(piece.probabilities.clone())

    with capture_attention(checkpoint.body, keep, way):
        states = checkpoint.forward(given)
    layers = range(max(layer for layer, _ in parts) + 1)
    places = {layer: sorted(place for at, place in parts if at == layer) for layer in layers}
    return [torch.cat([torch.cat(parts[at, one], 2) for one in places[at]]) for at in layers], states


def differ(values, expected):
    return float((values - expected).abs().max())


def own_of(checkpoint, architecture, given):
    """Give the maps that the model has itself, in the order in which its layers call."""
    by_tower = every_type.maps_by_tower(checkpoint.name, checkpoint.model, given)
    maps = by_tower.get(checkpoint.tower) or by_tower.get("") or next(iter(by_tower.values()))
    left = {kind: [rows for other, rows in maps if other == kind] for kind in every_type.KINDS}
    if checkpoint.encoder_only:
        left = {"encoder": left["encoder"]}
    ordered = [left[str(kind)].pop(0) for kind in architecture.kinds]
    assert not any(left.values())
    return [rows / rows.sum(-1, keepdim=True) for rows in ordered]  # without what goes to learned sinks


def given_to(checkpoint):
    """Take what a tower is given out of what the whole model is."""
    given = every_type.inputs(checkpoint.name, checkpoint.model)
    if not checkpoint.tower:
        return given
    return {name: value for name, value in given.items() if name in TAKEN[checkpoint.modality]}


def verify(checkpoint, architecture):
    """Read a model in blocks of a few queries, and compare every map and the states with its own."""
    given = given_to(checkpoint)
    expected = own_of(checkpoint, architecture, every_type.inputs(checkpoint.name, checkpoint.model))
    maps, states = read_maps(checkpoint, architecture.way, given)
    assert [rows.shape for rows in maps] == [rows.shape for rows in expected]
    assert architecture.heads == max(rows.shape[1] for rows in maps)
    assert architecture.kept.sum(1).tolist() == [rows.shape[1] for rows in maps]
    assert max(map(differ, maps, expected)) < 2e-4  # MobileBERT normalises nothing, and rounds the most
    # Contrast enough for a mistake to show: no map is that of another head.
    assert all(differ(rows, rows.roll(1, 1)) > 0.01 for rows in maps if rows.shape[1] > 1)
    if not checkpoint.encoder_only and not checkpoint.tower:
        theirs = every_type.states(checkpoint.name, checkpoint.model, given)[0]
        if theirs.shape == states.shape:  # AutoModel of FSMT and Llama 4 gives logits
            assert differ(states, theirs) < 1e-4 * float(theirs.abs().max())


#: Types that are tried and refused, by what is said of them; whatever else is built must be read.
REFUSED = {
    "no attention was found": (
        "bit", "convnext", "convnextv2", "efficientnet", "focalnet", "hgnet_v2",
        "mobilenet_v1", "mobilenet_v2", "poolformer", "regnet", "resnet", "rwkv", "textnet",
        "xlstm",
    ),
    "can't be run on": ("udop", "vilt"),
    "what was tapped can't be checked": ("cvt", "levit", "pvt_v2"),
    "reads neither text nor images": ("perceiver",),
}  # fmt: skip
REASONS = {name: reason for reason, names in REFUSED.items() for name in names}
#: Read where they attend, which is in their layers 1 and 3 of four.
HYBRIDS = {name for name, known in every_type.TYPES.items() if known.stacks == every_type.HYBRID}
#: Read, but for their decoder.
ENCODER_ONLY = {"prophetnet", "speecht5", "t5gemma2"}
NOT_BUILT = {name for name, known in every_type.TYPES.items() if known.reason}
ALL = sorted(set(every_type.TYPES) - NOT_BUILT)
VERIFIED = [name for name in ALL if name not in REASONS]
#: Tried every time, beside one refused type for each reason; the others are slow ones.
USUAL = {"bert", "clip", "gpt2", "gpt_oss", "led", "llama", "longformer", "t5", "vit", "whisper"}


def slow_but(usual, names):
    """Mark all types as slow but the usual ones."""
    return [pytest.param(name, marks=[] if name in usual else pytest.mark.slow) for name in names]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Read in blocks of some queries each, shorter than any text."""
    monkeypatch.setattr(blocks, "BLOCK_CPU", 1)
    monkeypatch.setattr(blocks, "LEAST_QUERIES", 7)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", slow_but({*USUAL, *(names[0] for names in REFUSED.values())}, ALL))
def test_verified_or_refused(name):
    """On inputs longer than those of the dry run, and than any window."""
    if name in REASONS:
        with pytest.raises(UnsupportedModelError, match=f"'{name}': .*{REASONS[name]}"):  # noqa: PT012
            for checkpoint in checkpoints(name):
                verify(*examine(checkpoint))
        return
    for checkpoint, architecture in examined(name):
        verify(checkpoint, architecture)
        assert architecture.numbers == ((1, 3) if name in HYBRIDS else ())
        encoder_only = any("only its encoder can be read" in warning for warning in architecture.warnings)
        assert encoder_only == (name in ENCODER_ONLY)


#: Types that take pad tokens for padding where they are given no mask.
GUESSING = {"flaubert", "t5gemma", "xlm"}
#: The classes with a head that a type is saved as, the first that it has; those of decoders lack an encoder.
HEADED = (
    modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
    modeling_auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING,
    modeling_auto.MODEL_FOR_MASKED_LM_MAPPING,
    modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING,
    modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING,
    modeling_auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING,
    modeling_auto.MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING,
)
#: Not the same when saved with a head: without a tower, with other names, or with a row redrawn for padding.
CUT_OFF = {
    "chinese_clip", "clip", "deepseek_v4", "llama4_text", "metaclip_2", "mllama", "siglip", "siglip2",
}  # fmt: skip
#: Those that AutoModel has a class for, and that come back.
LOADED = [name for name in ALL if CONFIG_MAPPING[name] in MODEL_MAPPING and name not in CUT_OFF]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", slow_but({"bert", "marian", "roformer"}, LOADED))
def test_saved_with_its_head_and_read_without(name, tmp_path):
    """What ``save_pretrained`` leaves out, the model computes: every weight of the body comes back."""
    body = every_type.build(name)
    saved: Any = body
    try:
        mapping = next(each for each in HEADED if type(body.config) in each)
        kind: Any = mapping[type(body.config)]
        saved = (kind[0] if isinstance(kind, tuple) else kind)(body.config)
    except Exception:  # it has none, or one that asks for more of its configuration
        pass
    saved.save_pretrained(tmp_path)
    weights = read_weights(tmp_path, name, AutoConfig.from_pretrained(tmp_path)).model.state_dict()
    prefix = "" if saved is body else f"{saved.base_model_prefix}."
    expected = {key.removeprefix(prefix): weight for key, weight in saved.state_dict().items()}
    shared = weights.keys() & expected.keys()
    assert shared
    assert all(torch.equal(weights[key], expected[key]) for key in shared)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted({"bert", "t5", *GUESSING}))
def test_a_text_that_spells_out_pad_tokens(name):
    """It is read as the model reads it with a mask of ones, which is what its tokenizer gives."""
    checkpoint, _ = examined(name)[0]
    given = every_type.inputs(name, checkpoint.model)
    given["input_ids"][:, 2::3] = 0
    with torch.inference_mode():
        expected = checkpoint.body(
            **given, attention_mask=torch.ones_like(given["input_ids"]), use_cache=False
        )
    assert differ(checkpoint.forward(given), expected[0]) < 1e-4 * float(expected[0].abs().max())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name",
    slow_but({"gpt_oss", "vit", "whisper"}, sorted({*VERIFIED[::3], *USUAL, "granite_swa", "siglip2"})),
)
def test_gates(name):
    """Whatever is read can be switched off, head by head."""
    for checkpoint, architecture in examined(name):
        assert "a lower one does" in check_gates(checkpoint, architecture).evidence


#: What commands and options read of a model beside its attention.
FURTHER = {
    "--weights norm": {"values", "projection"},
    "mixing": {"scores"},
    "contributions in mixing": {"outputs", "projection"},
    "rank": {"queries", "keys"},
}
#: Those that mask heads.
MASKING = "importance, ablate, prune"


def list_lacking(checkpoint, architecture):
    """List the commands and options that refuse a model whose attention is read."""
    lacking = []
    for name, needs in FURTHER.items():
        try:
            check_observations(checkpoint, architecture, needs)
        except UnsupportedModelError:
            lacking.append(name)
    try:
        check_gates(checkpoint, architecture)
    except UnsupportedModelError:
        lacking.append(MASKING)
    return lacking + ["view, compare, --all-pairs"] * bool(architecture.layer_heads)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "lacking"),
    [
        ("bert", []),
        ("deberta-v2", ["--weights norm", "contributions in mixing", "rank"]),
        ("bloom", ["--weights norm", "contributions in mixing", "rank"]),
        ("segformer", ["view, compare, --all-pairs"]),
    ],
)
def test_commands_that_refuse_a_type(name, lacking):
    """The record says the same, type by type."""
    ((checkpoint, architecture),) = examined(name)
    assert list_lacking(checkpoint, architecture) == lacking


def support_rows(name):
    """Name a type, how it is reached, what refuses it, and how that is known or why it is not reached."""
    if name in quirks.REFUSED:
        yield name, "refused", "", quirks.REFUSED[name]
        return
    if reason := every_type.TYPES[name].reason:
        yield name, "not tried", "", reason
        return
    try:
        for checkpoint in checkpoints(name):
            label = f"{name}, {checkpoint.tower}" if checkpoint.tower else name
            try:
                part, read = examine(checkpoint)
            except AttnprobeError as error:
                yield label, "refused", "", getattr(error, "reason", str(error))
                continue
            lacking = ", ".join(list_lacking(part, read))
            compared = next((s for s in read.evidence if s.startswith("maps equal")), read.evidence[0])
            yield label, read.way, lacking, "; ".join([re.sub(r" \([^)]*\)", "", compared), *read.warnings])
    except AttnprobeError as error:
        yield name, "refused", "", getattr(error, "reason", str(error))


def support_table():
    """Run every type once and tabulate what came out, as Markdown."""
    names = [name for name in sorted({*every_type.TYPES, *quirks.REFUSED}) if name in CONFIG_MAPPING]
    lines = [
        f"| `{name}` | {way} | {lacking} | {evidence} |"
        for each in names
        for name, way, lacking, evidence in support_rows(each)
    ]
    head = ["| model type | way | refused by | evidence, or reason |", "|---|---|---|---|"]
    return "\n".join([*head, *lines]) + "\n"


if __name__ == "__main__":
    sys.stdout.write(support_table())
