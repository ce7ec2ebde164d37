"""Tiny models that read an image and a text together, each with its processor, and data for them."""

import json
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

MARKS = [
    *("<image>", "<|image_pad|>", "<|video_pad|>", "<|vision_start|>", "<|vision_end|>", "<start_of_image>"),
    *("<end_of_image>", "<image_soft_token>", "<fake_token_around_image>", "<global-img>"),
    *("<end_of_utterance>", "<img>", "</img>", "<IMG_CONTEXT>", "<video>"),
]
WORDS = [
    *("the", "a", "dog", "cat", "runs", "over", "road", "red", "blue", "house", "tree", "and", "is", "in"),
    *("on", "small", "big", "man", "woman", "street", ".", ",", "?"),
]
IDS = {word: place for place, word in enumerate(["[PAD]", "[UNK]", "<s>", "</s>", *MARKS, *WORDS])}
SQUARE = {"height": 32, "width": 32}
TEXT: dict[str, Any] = {
    "vocab_size": len(IDS) + 8, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 8, "max_position_embeddings": 128,
    "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3,
}  # fmt: skip
VISION: dict[str, Any] = {
    "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
    "image_size": 32, "patch_size": 8,
}  # fmt: skip


#: A configuration, an image processor, the class of the processor, what it is given, names of tokens.
Parts = tuple[Any, Any, str, dict[str, Any], dict[str, str]]


def _eye(module, name, **options):
    return getattr(import_module(f"transformers.models.{module}.image_processing_pil_{module}"), name)(
        **options
    )


def _llava():
    config = transformers.LlavaConfig(
        vision_config=transformers.CLIPVisionConfig(**VISION), text_config=transformers.LlamaConfig(**TEXT),
        image_token_index=IDS["<image>"], vision_feature_layer=-1,
    )  # fmt: skip
    eye = transformers.CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size=SQUARE)
    options = {"patch_size": 8, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}
    return config, eye, "LlavaProcessor", options, {"image_token": "<image>"}


def _gemma3():
    eye = _eye("gemma3", "Gemma3ImageProcessorPil", size=SQUARE)
    text = TEXT | {"sliding_window": 64, "query_pre_attn_scalar": 8}
    text["layer_types"] = ["sliding_attention", "full_attention"]
    config = transformers.Gemma3Config(
        text_config=text, vision_config=VISION, mm_tokens_per_image=4,
        image_token_id=IDS["<image_soft_token>"], boi_token_id=IDS["<start_of_image>"],
        eoi_token_id=IDS["<end_of_image>"],
    )  # fmt: skip
    marks = {
        "image_token": "<image_soft_token>",
        "boi_token": "<start_of_image>",
        "eoi_token": "<end_of_image>",
    }
    return config, eye, "Gemma3Processor", {"image_seq_length": 4}, marks


def _idefics3():
    edge = {"longest_edge": 32}
    eye = _eye("idefics3", "Idefics3ImageProcessorPil", size=edge, max_image_size=edge)
    config = transformers.Idefics3Config(
        text_config=transformers.LlamaConfig(**TEXT), vision_config=VISION, image_token_id=IDS["<image>"],
        scale_factor=2,
    )  # fmt: skip
    return config, eye, "Idefics3Processor", {"image_seq_len": 4}, {}


KINDS: dict[str, Callable[[], Parts]] = {"llava": _llava, "gemma3": _gemma3, "idefics3": _idefics3}


def spell(**marks):
    whole = Tokenizer(models.WordLevel(IDS, unk_token="[UNK]"))
    whole.pre_tokenizer = pre_tokenizers.Whitespace()
    whole.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 2), ("</s>", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=whole, pad_token="[PAD]", unk_token="[UNK]", bos_token="<s>", eos_token="</s>",
        extra_special_tokens=marks | {f"mark_{number}": mark for number, mark in enumerate(MARKS)},
    )  # fmt: skip


@torch.no_grad()
def save(name, folder, change=lambda _: None):
    """Write a tiny model whose attention has contrast to a folder, as its processor would."""
    config, eye, processor, options, marks = KINDS[name]()
    torch.manual_seed(0)
    model = transformers.AutoModelForImageTextToText.from_config(config).eval()
    for weight in model.parameters():
        if weight.ndim > 1:
            weight.copy_(torch.randn_like(weight) * (2.0 / weight[0].numel()) ** 0.5)
        else:
            weight.add_(torch.randn_like(weight) * 0.1)
    change(model)
    model.save_pretrained(folder)
    eye.save_pretrained(folder)
    (folder / "processor_config.json").write_text(json.dumps({"processor_class": processor, **options}))
    spell(**marks).save_pretrained(folder)
    return folder


def draw_pairs(folder, number=7):
    """Write images of three sizes, and draw a text for each."""
    from PIL import Image

    draw, pairs = np.random.default_rng(0), []
    folder.mkdir(parents=True, exist_ok=True)
    for place in range(number):
        height, width = [(32, 32), (40, 56), (24, 48)][place % 3]
        pixels = draw.integers(0, 255, (height, width, 3), np.uint8)
        Image.fromarray(pixels).save(path := folder / f"p{place}.png")
        pairs.append((path, " ".join(draw.choice(WORDS, 5 + place % 4))))
    return pairs
