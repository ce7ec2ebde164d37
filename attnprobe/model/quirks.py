"""All facts about single types of models, of transformers 5.23; and the errors of models that can't be read.

No other file names a type or an attribute that only some types have; ``tests/model/test_quirks.py`` sees to
it.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn

from attnprobe.errors import ModelError
from attnprobe.model.private import keep_children

_NO_MAP = "it has no attention map"
#: Types that are refused, by the reason; all others are tried, and refused if the dry run fails.
_REASONS = {
    f"{_NO_MAP}; it mixes tokens or weighs each once": "fnet mobilevitv2 mra swiftformer yoso",
    f"{_NO_MAP} over all keys; it attends within blocks": "longt5 pegasus_x reformer",
    "its layers pool the queries, so that queries and keys no longer match tokens": "funnel",
    "its heads subtract one map from another, so that none of them is what they attend to": "diffllama",
    "it reads words and regions as two sequences, with layers of attention between them": "lxmert",
    "it reads characters, and most of its layers attend to spans of them that are no tokens": "canine",
    "each of its layers takes two softmaxes, of the text and of its layout on a page": "lilt",
    "its layers part an image into windows, and it does not give the maps of each": (
        "clap_audio_model hiera maskformer-swin mobilevit"
    ),
    "it reads videos": "timesformer videomae vivit vjepa2",
    "it holds two models; save its encoder, with its tokenizer or processor, as one of its own": (
        "encoder-decoder speech-encoder-decoder vision-encoder-decoder"
    ),
}
REFUSED = {name: reason for reason, names in _REASONS.items() for name in names.split()}
#: Models of images and texts that do not read both as one sequence, with a token in the place of the image.
NOT_TOGETHER = {"blip", "bridgetower", "flava", "git", "kosmos-2", "layoutlmv3", "mllama", "vilt"}
NOT_TOGETHER |= {"visual_bert"}
#: Types that take a pad token in a text for padding, unless they are given a mask.
GUESS_PADDING = frozenset({"flaubert", "t5gemma", "xlm"})

Inputs = Mapping[str, Tensor]


def make_defaults(body: Any, wanted: Collection[str], given: Inputs) -> dict[str, Tensor]:
    """Make the wanted inputs that are no text, image or sound, to go with the given ones."""
    made, ids, pixels = {}, given.get("input_ids"), given.get("pixel_values")
    if "bbox" in wanted and ids is not None:  # the places of words on a page
        made["bbox"] = ids.new_zeros(*ids.shape, 4)
    embedding = getattr(getattr(body, "embeddings", None), "patch_embeddings", None)
    patches = getattr(embedding, "num_patches", 0)
    if "noise" in wanted and pixels is not None and patches:  # by which ViTMAE shuffles patches
        order = torch.arange(patches, device=pixels.device, dtype=body.dtype)
        made["noise"] = order.expand(len(pixels), -1)
    if "pixel_attention_mask" in wanted and "spatial_shapes" in given:  # no patch of SigLIP 2 is padding
        made["pixel_attention_mask"] = given["pixel_values"].new_ones(given["pixel_values"].shape[:2])
    return made


#: Classes of encoders that are saved without the decoder that they were trained with.
LONE_ENCODERS = frozenset({"T5EncoderModel", "MT5EncoderModel", "UMT5EncoderModel"})
#: Types of which sentence-transformers runs the encoder alone.
EMBEDDING_ENCODERS = frozenset({"t5", "mt5", "umt5", "longt5"})
#: How classes of language models and of translation end beside what all others are called.
MASKED_CLASSES = ("XLMWithLMHeadModel", "FlaubertWithLMHeadModel")  # of both kinds; nearly all are masked
TRANSLATION_CLASSES = ("MTModel",)

#: Types whose heads transformers 4 could remove, and how they call the projections of a layer: what gives a
#: head's queries, keys and values, or, as ``output``, what reads the heads.
REMOVABLE = ("albert", "bert", "camembert", "distilbert", "electra", "gpt2", "roberta", "vit", "xlm-roberta")
PROJECTION = re.compile(
    r"\.(?P<layer>\d+)\.(?:albert_layers\.0\.)?att(?:n|ention)\.(?:self\.)?"
    r"(?:query|key|value|[qkv]_lin|[qkv]_proj|c_attn|(?P<output>output\.dense|dense|out_lin|o_proj|c_proj))$"
)


def list_stored_layers(config: Any) -> list[int]:
    """List the number under which each layer is stored: in ALBERT, that of its group."""
    layers, groups = config.num_hidden_layers, getattr(config, "num_hidden_groups", config.num_hidden_layers)
    return [layer * groups // layers for layer in range(layers)]


#: Names in layers that predict several tokens ahead, which transformers does not load, and of their number.
AHEAD = re.compile(r"(^|\.)(eh_proj|enorm|hnorm|shared_head|mtp\w*|nextn\w*)(\.|$)")
AHEAD_COUNTS = ("num_nextn_predict_layers", "num_mtp_modules", "mtp_num_hidden_layers", "num_mtp_layers")
#: Where a configuration states the tokens around an image, if a text needs both.
IMAGE_ENDS = ("vision_start_token_id", "vision_end_token_id")


def find_placeholder(config: Any) -> int | None:
    """Find the id of the token that the image replaces; None where the configuration states none."""
    stated = (getattr(config, name, None) for name in ("image_token_id", "image_token_index"))
    return next((token for token in stated if isinstance(token, int)), None)


def reads_both(config: Any) -> bool:
    """Tell whether a model reads an image and a text as one sequence, by its configuration."""
    together = not config.is_encoder_decoder and config.model_type not in NOT_TOGETHER
    return together and find_placeholder(config) is not None


def find_sound_window(extractor: Any) -> int | None:
    """Find the most samples that a feature extractor takes. Whisper states samples, AST frames of 10 ms."""
    if isinstance(samples := getattr(extractor, "n_samples", None), int):
        return samples
    frames = getattr(extractor, "max_length", None) if getattr(extractor, "num_mel_bins", None) else None
    return frames * int(extractor.sampling_rate) // 100 if isinstance(frames, int) else None


class UnsupportedModelError(ModelError):
    """The attention of this architecture can't be read, or not yet."""

    def __init__(self, architecture: str, reason: str, action: str = "read the attention of") -> None:
        super().__init__(f"attnprobe can't {action} {architecture!r}: {reason}.")
        self.architecture, self.reason = architecture, reason


class AttentionSinkError(UnsupportedModelError):
    """Heads can attend to nothing at all, so that rows are no distributions over the tokens."""

    def __init__(self, architecture: str) -> None:
        super().__init__(architecture, "its rows do not sum to 1 (learned attention sinks)")


def refuse_by_name(model_type: str) -> None:
    """Raise UnsupportedModelError for an architecture of ``REFUSED``."""
    if model_type in REFUSED:
        raise UnsupportedModelError(model_type, REFUSED[model_type])


#: The option by which gpt-oss and its kin pass each head's score of attending to nothing.
SINKS = "s_aux"
_FULL = "original_full"


def find_window(module: nn.Module) -> int | None:
    """Read how far a module of Longformer's kind sees to either side; None for any other."""
    width = getattr(module, "one_sided_attn_window_size", None)
    return width if isinstance(width, int) else None


def list_reading_warnings(body: nn.Module, inputs: Inputs) -> tuple[str, ...]:
    """List warnings of a model that is read without its global attention or without the boxes of words."""
    alone = "its sliding window is all that is read: without a task head, no token has global attention"
    unplaced = "it reads pages; without boxes, all words stand in one place"
    windowed = any(find_window(module) is not None for module in body.modules())
    return (alone,) * windowed + (unplaced,) * ("bbox" in inputs)


@contextmanager
def force_full_attention(model: nn.Module) -> Iterator[tuple[str, ...]]:
    """Let all tokens attend to all keys inside; yields a warning if that changed the model.

    ViTMAE hides patches, in evaluation mode too; BigBird's attention is block-sparse.
    """
    config: Any = getattr(model, "config", None)
    share = getattr(config, "mask_ratio", None)
    switched: list[Any] = [m for m in model.modules() if isinstance(getattr(m, "attention_type", None), str)]
    switch: Any = next((m for m in model.modules() if hasattr(m, "set_attention_type")), None)
    with ExitStack() as undo:
        if share and hasattr(model, "embeddings"):
            undo.callback(setattr, config, "mask_ratio", share)
            config.mask_ratio = 0.0
            yield (f"it is given all patches while it is read, not {1 - share:.0%} of them",)
        elif switch is None or all(module.attention_type == _FULL for module in switched):
            yield ()
        else:
            for module in switched:
                undo.callback(keep_children(module))
                undo.callback(setattr, module, "attention_type", module.attention_type)
            with torch.random.fork_rng(devices=[]):  # it draws weights before it takes those that it has
                switch.set_attention_type(_FULL)
            yield (
                f"its block-sparse attention is switched to full attention ({_FULL}) while it is read, so "
                "that its scores and losses are those of full attention too",
            )


#: Types that pass windows to the registry as if they were sequences; their eager attention is tapped instead.
EAGER = frozenset({"swin"})
#: Where configurations list what each of their layers is.
LAYER_KINDS = ("layer_types", "layers_block_type")


def has_map(kind: str) -> bool:
    """Tell by its kind whether a layer has a map; a "hybrid" one has a map beside a recurrent state."""
    keeps_state = any(state in kind for state in ("linear", "lightning", "delta", "recurrent"))
    return kind == "hybrid" or ("attention" in kind and not keeps_state)


def find_head_width(module: nn.Module, config: Any, heads: int) -> int:
    """Find the width of a head's keys as its module states it, or else the configuration."""
    stating = (module, "attention_head_size"), (module, "head_dim"), (config, "head_dim"), (config, "d_kv")
    stated = (getattr(place, name, None) for place, name in stating)  # one by one: Gemma 4's config may raise
    width = next((width for width in stated if isinstance(width, int)), 0)
    return width or config.hidden_size // heads


def count_stated_layers(config: Any, part: str = "") -> int:
    """Count the layers that a configuration states, all or those of a part such as "decoder"; 0 for none."""
    if not part and isinstance(depths := getattr(config, "depths", None), list | tuple):
        return sum(depths[: getattr(config, "num_encoder_blocks", len(depths))])
    names = ["num_hidden_layers", "num_layers"]
    if part:
        names = [f"{part}_layers", f"num_{part}_layers", f"{part}_num_hidden_layers", *reversed(names)]
    stated = next((value for name in names if (value := getattr(config, name, None))), 0)
    return stated if part else stated * (getattr(config, "inner_group_num", 1) or 1)


def pick_shown(config: Any, maps: list[Tensor], number: int) -> list[Tensor]:
    """Pick the maps that a model returns itself: Swin, those of the last layer of each stage."""
    depths = getattr(config, "depths", ())
    staged = number == len(depths) < len(maps) == sum(depths)
    return [maps[layer - 1] for layer in accumulate(depths)] if staged else maps


def take_text_output(given: Any) -> Any:
    """Take the output for the text out of BLIP-2's, which has one for each part."""
    return getattr(given, "language_model_outputs", given)


def is_stretched(module: nn.Module) -> bool:
    """Tell whether a module's rotary embeddings change with the length of its input."""
    kind: Any = getattr(module, "rope_type", None)
    kinds = kind.values() if isinstance(kind, dict) else [kind]
    return not {"dynamic", "longrope"}.isdisjoint(map(str, kinds))


#: How the names of parameters end that are added; YOLOS adds the second between layers.
ADDED = ("bias", "mid_position_embeddings")
