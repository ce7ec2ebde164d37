"""Tiny models of every type in transformers, inputs for them, and their own attention maps.

A reference that knows nothing of attnprobe: a second model with the same weights, built for eager
attention, gives its maps through ``output_attentions``, or through hooks on its attention modules where it
returns none. Scores are turned into probabilities here, and bands are spread out key by key.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import CONFIG_MAPPING, MODEL_MAPPING, AutoConfig, AutoModel, PreTrainedModel
from transformers.modeling_outputs import MoeCausalLMOutputWithPast

# What llama4 of transformers 5.24 reads off the output of its text alone, which has no such field.
if not hasattr(MoeCausalLMOutputWithPast, "image_outputs"):
    MoeCausalLMOutputWithPast.image_outputs = None

LAYERS, DECODER_LAYERS, HEADS, VOCABULARY = 3, 2, 4, 120
LENGTH, DECODER_LENGTH = 23, 17
#: Samples that two convolutions turn into ``LENGTH`` frames.
WAVE = 240

Maps = list[tuple[str, Tensor]]
KINDS = ("encoder", "decoder", "cross")


@dataclass(frozen=True)
class Expected:
    """What is known about a type.

    Attributes:
        modality: What it is given: "text", "image", "sound", "text+image" or "sound+text".
        stacks: ``ENCODER`` (bidirectional), ``CAUSAL`` (with or without an encoder), ``HYBRID`` (causal, and
            not all layers attend), or "" where there is no map, or several towers.
        options: What its configuration needs beside ``OPTIONS``.
        returns: What its ``output_attentions`` are: "maps", "scores", "bands", "mean" (of the heads),
            "windows" (as if those of an image were sequences),
            "states" (those of layers that do not attend, beside the maps), or "hooks" (none, but
            its attention modules give them).
        keys: What is attended to: "tokens", "reduced" (fewer than the
            tokens, or others), or "none" where there is no attention map.
        towers: The modules of a model of several towers, and the stacks of each.
        reason: Why it is not built here.
    """

    modality: str = "text"
    stacks: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    returns: str = "maps"
    keys: str = "tokens"
    towers: dict[str, str] = field(default_factory=dict)
    reason: str = ""


#: By the names that configurations use; a type takes those it knows.
OPTIONS: dict[str, Any] = {
    **dict.fromkeys(["hidden_size", "d_model", "dim", "n_embd", "emb_dim", "embedding_size"], 32),
    **dict.fromkeys(["num_hidden_layers", "n_layers", "n_layer", "num_layers", "encoder_layers"], LAYERS),
    **dict.fromkeys(["num_encoder_layers", "encoder_num_hidden_layers"], LAYERS),
    **dict.fromkeys(["decoder_layers", "num_decoder_layers", "decoder_num_hidden_layers"], DECODER_LAYERS),
    **dict.fromkeys(["num_attention_heads", "n_heads", "n_head", "num_heads"], HEADS),
    **dict.fromkeys(["encoder_attention_heads", "decoder_attention_heads"], HEADS),
    **dict.fromkeys(["num_encoder_attention_heads", "num_decoder_attention_heads"], HEADS),
    **dict.fromkeys(["encoder_num_attention_heads", "decoder_num_attention_heads"], HEADS),
    **dict.fromkeys(["encoder_num_key_value_heads", "decoder_num_key_value_heads"], HEADS),
    **dict.fromkeys(["intermediate_size", "d_inner", "d_ff", "hidden_dim", "ffn_dim", "n_inner"], 48),
    **dict.fromkeys(["encoder_ffn_dim", "decoder_ffn_dim", "moe_intermediate_size"], 48),
    **dict.fromkeys(["max_position_embeddings", "n_positions", "max_source_positions"], 96),
    **dict.fromkeys(["max_target_positions"], 96),
    **dict.fromkeys(["projection_dim", "project_dim"], 16),
    **dict.fromkeys(["num_local_experts", "num_experts", "n_routed_experts"], 4),
    **{"head_dim": 8, "d_kv": 8, "num_key_value_heads": 2, "num_experts_per_tok": 2},
    **{"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3},
    **{"image_size": 32, "patch_size": 8, "num_mel_bins": 8},
    **{"conv_dim": [16, 16], "conv_kernel": [10, 3], "conv_stride": [5, 2]},
    **{"num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 4},
    "vocab_size": VOCABULARY,
}  # fmt: skip

_SHARED = ("hidden_size", "intermediate_size", "num_attention_heads", "head_dim", "num_key_value_heads")
_PART = {key: OPTIONS[key] for key in (*_SHARED, "max_position_embeddings", "vocab_size")}
_PART |= {"num_hidden_layers": LAYERS}
_MARKS = {key: OPTIONS[key] for key in ("pad_token_id", "bos_token_id", "eos_token_id")}
_VISION = {key: OPTIONS[key] for key in ("hidden_size", "intermediate_size", "num_attention_heads")}
_VISION |= {"num_hidden_layers": LAYERS, "image_size": 32, "patch_size": 8}
_RELATIVE = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
_LOCAL = {"sliding_window": 6}
_NET = {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1]}
_MIXED = ["sliding_attention", "full_attention", "sliding_attention"]
_WINDOWS = {"embed_dim": 16, "depths": [1, 1], "num_heads": [2, 4], "window_size": 4, "image_size": 32}
_PYRAMID = {"hidden_sizes": [8, 16, 16, 32], "depths": [1, 1, 1, 1], "image_size": 64}

ENCODER, CAUSAL, HYBRID = "encoder", "decoder", "hybrid"
_STATE_SPACE = {
    "mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_n_groups": 1, "mamba_chunk_size": 8,
}  # fmt: skip
_DELTA = {
    "layer_types": ["linear_attention", "full_attention"] * 2, "shared_expert_intermediate_size": 48,
    "linear_num_value_heads": 4, "linear_num_key_heads": 4, "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
}  # fmt: skip
PATCHES = 16
_image, _sound = partial(Expected, "image", ENCODER), partial(Expected, "sound", ENCODER)


def _no_map(modality: str = "image", **more: Any) -> Expected:
    return Expected(modality, keys="none", **more)


def _towers(text: str = ENCODER) -> dict[str, str]:
    return {"text_model": text, "vision_model": ENCODER}


_TEXT = {**_PART, **_MARKS}
_DUAL = {"text_config": _TEXT, "vision_config": _VISION}

TYPES: dict[str, Expected] = {
    # Text, read in both directions.
    **dict.fromkeys(
        (
            "albert", "bert", "bert-generation", "camembert", "data2vec-text", "distilbert", "electra",
            "ernie", "esm", "eurobert", "flaubert", "gte", "ibert",
            "jina_embeddings_v3", "layoutlm", "markuplm", "megatron-bert", "mpnet",
            "nomic_bert", "rembert", "roberta", "roberta-prelayernorm", "roformer", "splinter", "tapas",
            "tipsv2_text_model", "visual_bert", "xlm", "xlm-roberta", "xlm-roberta-xl", "xlnet",
        ),
        Expected("text", ENCODER),
    ),
    "big_bird": Expected("text", ENCODER, {"block_size": 2, "num_random_blocks": 1}),
    "bros": Expected("text", ENCODER, {"hidden_size": 64}),
    "convbert": Expected("text", ENCODER),
    "deberta": Expected("text", ENCODER, _RELATIVE),
    "deberta-v2": Expected(
        "text", ENCODER, _RELATIVE | {"position_buckets": 8, "norm_rel_ebd": "layer_norm"}
    ),
    "embedding_gemma2": Expected("text", ENCODER, {"text_config": _TEXT | _LOCAL}),
    **dict.fromkeys(("embedding_gemma2_text", "ultrabert"), Expected("text", ENCODER, _LOCAL)),
    "esmc": Expected("text", ENCODER, {"num_key_value_heads": HEADS}),
    "layoutlmv2": Expected(reason="needs detectron2"),
    "layoutlmv3": Expected("text", ENCODER, {"coordinate_size": 6, "shape_size": 4}),
    "longformer": Expected("text", ENCODER, {"attention_window": 4}, returns="bands"),
    "luke": Expected("text", ENCODER, {"entity_vocab_size": 10, "entity_emb_size": 16}),
    "mobilebert": Expected(
        "text", ENCODER,
        {"embedding_size": 16, "intra_bottleneck_size": 32, "num_feedforward_networks": 1},
    ),
    "modernvbert": Expected("text", ENCODER, _DUAL | {"text_config": _TEXT | {"local_attention": 12}}),
    "modernbert": Expected("text", ENCODER, {"local_attention": 12}),
    "neomme": Expected("text", ENCODER, {"head_dim": 16} | _LOCAL),
    "nystromformer": Expected("text", ENCODER),
    "openai_privacy_filter": Expected("text", ENCODER, _LOCAL),
    "perceiver": Expected(
        "text", "", {"num_latents": 6, "d_latents": 32, "num_self_attends_per_block": LAYERS,
         "num_self_attention_heads": HEADS, "num_cross_attention_heads": HEADS},
        keys="reduced",
    ),
    "roc_bert": Expected(
        "text", ENCODER, {"pronunciation_vocab_size": VOCABULARY, "shape_vocab_size": VOCABULARY}
    ),
    "squeezebert": Expected("text", ENCODER, returns="scores"),
    "ultravbert": Expected("text", ENCODER, _DUAL | {"text_config": _TEXT | _LOCAL}),
    "xmod": Expected("text", ENCODER, {"default_language": "en_XX", "languages": ["en_XX"]}),
    # Text, earlier tokens only.
    **dict.fromkeys(
        (
            "biogpt", "bloom", "clip_text_model", "cohere", "falcon", "gemma", "gpt2",
            "gpt_bigcode", "gpt_neox", "imagegpt", "llama", "mixtral", "molmo2_text", "mpt",
            "olmo2", "opt", "phi", "phi3", "qwen2", "qwen3", "stablelm", "xglm",
        ),
        Expected("text", CAUSAL),
    ),
    **dict.fromkeys(("gemma2", "gemma3_text"), Expected("text", CAUSAL, _LOCAL | {"layer_types": _MIXED})),
    "mistral": Expected("text", CAUSAL, _LOCAL),
    "modernbert-decoder": Expected("text", CAUSAL, {"local_attention": 12}),
    "emu3": Expected(
        "text", CAUSAL,
        {
            "text_config": _TEXT, "vocabulary_map": {"<image>": 5},
            "vq_config": {
                "base_channels": 32, "channel_multiplier": [1, 1], "num_res_blocks": 1, "hidden_size": 32,
                "codebook_size": 16, "embed_dim": 8, "latent_channels": 8, "num_attention_heads": 1,
            },
        },
    ),
    "codegen": Expected("text", CAUSAL, {"rotary_dim": 4}),
    "gptj": Expected("text", CAUSAL, {"rotary_dim": 4}),
    "ctrl": Expected("text", CAUSAL, {"dff": 48}),
    "gpt_neo": Expected(
        "text", CAUSAL, {"attention_types": [[["global", "local", "local"], 1]], "window_size": 6}
    ),
    "gpt_oss": Expected("text", CAUSAL, _LOCAL),
    "llama4": Expected(
        "text", CAUSAL,
        {
            "text_config": _TEXT
            | {"intermediate_size_mlp": 48, "num_local_experts": 4, "attention_chunk_size": 8},
            "vision_config": _VISION
            | {"vision_output_dim": 32, "projector_input_dim": 32, "projector_output_dim": 32},
        },
    ),
    "mllama": Expected("text", CAUSAL, _DUAL),
    # Text to text.
    **dict.fromkeys(
        (
            "bart", "blenderbot", "blenderbot-small", "m2m_100", "marian", "mbart", "mt5", "mvp", "nllb-moe",
            "pegasus", "plbart", "switch_transformers", "t5", "umt5",
        ),
        Expected("text", CAUSAL),
    ),
    "bigbird_pegasus": Expected("text", CAUSAL, {"block_size": 2, "num_random_blocks": 1}),
    "fsmt": Expected(
        "text", CAUSAL,
        {"langs": ["en", "de"], "src_vocab_size": VOCABULARY, "tgt_vocab_size": VOCABULARY},
    ),
    "led": Expected(
        "text", CAUSAL,
        {"attention_window": 4, "max_encoder_position_embeddings": 96, "max_decoder_position_embeddings": 96},
        returns="bands",
    ),
    "prophetnet": Expected("text", CAUSAL, returns="scores"),
    "t5gemma": Expected(
        "text", CAUSAL,
        {"encoder": _PART | _LOCAL, "decoder": _PART | _LOCAL | {"num_hidden_layers": DECODER_LAYERS}},
    ),
    "t5gemma2": Expected(
        "text", CAUSAL,
        {
            "encoder": {"text_config": _TEXT | _LOCAL, "vision_config": _VISION},
            "decoder": _TEXT | _LOCAL | {"num_hidden_layers": DECODER_LAYERS},
        },
    ),
    "udop": Expected("text", CAUSAL),
    # Images.
    **dict.fromkeys(
        (
            "aimv2_vision_model", "clip_vision_model", "deit", "dinov2", "dinov2_with_registers",
            "idefics3_vision", "ijepa", "mlcd_vision_model", "pixio", "sapiens2", "siglip_vision_model",
            "siglip2_vision_model", "smolvlm_vision", "tipsv2_vision_model", "vit", "vit_msn", "vitdet",
        ),
        _image(),
    ),
    "beit": _image(options={"use_relative_position_bias": True}),
    "data2vec-vision": _image(options={"use_relative_position_bias": True}),
    "dinat": Expected("image", reason="needs natten"),
    "dinov3_vit": _image(options={"num_register_tokens": 2}),
    "mgp-str": _image(options={"image_size": [32, 32]}),
    "vit_mae": _image(options={"mask_ratio": 0.0}),
    "yolos": _image(options={"image_size": [32, 32], "num_detection_tokens": 5}),
    "timm_wrapper": Expected("image", reason="needs timm"),
    "vilt": Expected("text+image"),
    # Images without attention over all tokens.
    "bit": _no_map(options=_NET | {"num_groups": 4}),
    "convnext": _no_map(options={"patch_size": 4, "hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1]}),
    "convnextv2": _no_map(options={"patch_size": 4, "hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1]}),
    "efficientnet": _no_map(options={"hidden_dim": 320, "width_coefficient": 0.25, "depth_coefficient": 0.4}),
    "focalnet": _no_map(options={"embed_dim": 16, "hidden_sizes": [16, 32], "depths": [1, 1]}),
    "hgnet_v2": _no_map(
        options={
            "hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1], "embedding_size": 8,
            "stem_channels": [3, 8, 8], "stage_in_channels": [8, 8, 8, 16], "stage_mid_channels": [8] * 4,
            "stage_out_channels": [8, 8, 16, 16], "stage_num_blocks": [1] * 4,
            "stage_numb_of_layers": [1] * 4,
        }
    ),
    "mobilenet_v1": _no_map(),
    "mobilenet_v2": _no_map(),
    "poolformer": _no_map(options={"hidden_sizes": [8, 16, 16, 32], "depths": [1, 1, 1, 1]}),
    "regnet": _no_map(options=_NET | {"groups_width": 8}),
    "resnet": _no_map(options=_NET),
    "textnet": _no_map(options={"image_size": [32, 32]}),
    "cvt": _no_map(options={"embed_dim": [8, 16, 24], "num_heads": [1, 2, 3], "depth": [1, 2, 3]}),
    "levit": _no_map(
        options={
            "image_size": 128, "patch_size": 16, "hidden_sizes": [16, 24, 32], "depths": [1, 1, 1],
            "num_attention_heads": [2, 3, 4], "key_dim": [8, 8, 8],
        }
    ),
    **dict.fromkeys(
        ("glpn", "pvt", "pvt_v2", "segformer"),
        Expected(
            "image", "", _PYRAMID | {"num_attention_heads": [1, 2, 2, 4], "num_encoder_blocks": 4},
            keys="reduced",
        ),
    ),
    **dict.fromkeys(
        ("donut-swin", "swin", "swinv2"),
        Expected("image", "", _WINDOWS | {"patch_size": 2}, returns="windows"),
    ),
    "swin2sr": Expected(
        "image", "", _WINDOWS | {"image_size": 16, "patch_size": 1, "upscale": 1}, returns="windows"
    ),
    # Two towers.
    **dict.fromkeys(("altclip", "chinese_clip"), Expected("text+image", "", _DUAL, towers=_towers())),
    **dict.fromkeys(("clip", "metaclip_2"), Expected("text+image", "", _DUAL, towers=_towers("decoder"))),
    "siglip": Expected("text+image", "", _DUAL, towers=_towers()),
    "siglip2": Expected(
        "text+image", "", {"text_config": _TEXT, "vision_config": _VISION | {"num_patches": 16}},
        towers=_towers(),
    ),
    "flava": Expected(
        "text+image", "", {"text_config": _TEXT, "image_config": _VISION, "multimodal_config": _VISION},
        returns="hooks",
        towers={
            "text_model": ENCODER,
            "image_model": ENCODER,
            "multimodal_model": ENCODER,
        },
    ),
    # Sound.
    **dict.fromkeys(
        (
            "data2vec-audio", "hubert", "sew", "unispeech", "unispeech-sat", "wav2vec2", "wav2vec2-conformer",
        ),
        _sound(),
    ),
    "wavlm": _sound(returns="mean"),
    "sew-d": _sound(options={"position_buckets": 8}),
    "wav2vec2-bert": _sound(options={"feature_projection_input_dim": 8}),
    "parakeet_encoder": _sound(
        options={"subsampling_factor": 2, "subsampling_conv_channels": 8, "num_key_value_heads": HEADS}
    ),
    "audio-spectrogram-transformer": _sound(
        options={"num_mel_bins": 16, "max_length": 64, "frequency_stride": 8, "time_stride": 8}
    ),
    "moonshine": Expected("sound+text", CAUSAL, {"decoder_num_hidden_layers": DECODER_LAYERS}),
    "speech_to_text": Expected("sound+text", CAUSAL, {"input_feat_per_channel": 8, "conv_channels": 16}),
    "speecht5": Expected("sound+text", CAUSAL),
    "whisper": Expected("sound+text", CAUSAL, {"max_source_positions": LENGTH}),
    # Beyond the survey: towers by themselves, and more that read earlier tokens only.
    **dict.fromkeys(
        (
            "aimv2_text_model", "align_text_model", "altclip_text_model", "blip_text_model",
            "bridgetower_text_model", "chinese_clip_text_model", "clap_text_model", "dpr",
            "flava_text_model", "siglip2_text_model", "siglip_text_model",
        ),
        Expected("text", ENCODER),
    ),
    **dict.fromkeys(
        (
            "altclip_vision_model", "blip_2_vision_model", "blip_vision_model", "chinese_clip_vision_model",
            "clipseg_vision_model", "dpt", "flava_image_model", "git_vision_model",
            "instructblip_vision_model", "metaclip_2_vision_model", "mlcd", "owlv2_vision_model",
            "owlvit_vision_model",
        ),
        _image(),
    ),
    "internvl_vision": _image(options={"image_size": [32, 32], "patch_size": [8, 8]}),
    **dict.fromkeys(
        ("glmasr_encoder", "qwen2_audio_encoder", "voxtral_encoder"),
        _sound(options={"max_source_positions": LENGTH, "encoder_attention_heads": HEADS}),
    ),
    "aimv2": Expected("text+image", "", _DUAL, towers=_towers()),
    "tipsv2": Expected("text+image", "", _DUAL, towers=_towers()),
    **dict.fromkeys(
        ("clipseg", "owlvit", "owlv2"), Expected("text+image", "", _DUAL, towers=_towers("decoder"))
    ),
    **dict.fromkeys(
        (
            "afmoe", "apertus", "arcee", "aria_text", "beam", "bitnet", "clipseg_text_model", "cohere2",
            "cohere2_moe", "cwm", "doge", "ernie4_5", "ernie4_5_moe", "exaone4", "exaone_moe", "flex_olmo",
            "gemma4_unified_text", "glm", "glm4", "glm4_moe", "gpt-sw3", "gpt_neox_japanese", "granite",
            "granite_docling_text", "granitemoe", "granitemoeshared", "groupvit_text_model", "helium",
            "hunyuan_v1_dense", "hunyuan_v1_moe", "hy_v3", "hyperclovax", "internlm3", "iquestcoder",
            "jais2", "jetmoe", "kolibri1", "laguna", "llama4_text", "mellum",
            "metaclip_2_text_model", "minimax_m2", "ministral", "ministral3", "moshi", "muse_glimmer_text",
            "nanochat", "nemotron", "olmo", "olmo3", "olmoe", "openai-gpt", "owlv2_text_model",
            "owlvit_text_model", "persimmon", "phimoe", "qwen2_moe", "qwen3_moe", "qwen3_vl_moe_text",
            "qwen3_vl_text", "seed_oss", "smollm3", "solar_open", "starcoder2", "vaultgemma",
            "xclip_text_model",
        ),
        Expected("text", CAUSAL),
    ),
    # Hybrids: layers 1 and 3 of four attend.
    **{
        name: Expected("text", HYBRID, {"num_hidden_layers": 4} | options)
        for name, options in {
            "bamba": {"attn_layer_indices": [1, 3], **_STATE_SPACE},
            "granitemoehybrid": {"layer_types": ["mamba", "attention"] * 2, **_STATE_SPACE},
            "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
            "lfm2": {"layer_types": ["conv", "full_attention"] * 2},
            "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 2},
            "lfm3": {"layer_types": ["conv", "full_attention"] * 2},
            "nemotron_h": {
                "layers_block_type": ["mamba", "attention", "mlp", "attention"], "mamba_num_heads": 4,
                "mamba_head_dim": 8, "ssm_state_size": 8, "chunk_size": 8, "n_groups": 2, "conv_kernel": 4,
            },
            "olmo_hybrid": {"layer_types": ["linear_attention", "full_attention"] * 2},
            "qwen3_next": _DELTA,
            "qwen3_5_text": _DELTA,
            "qwen3_5_moe_text": _DELTA,
            "recurrent_gemma": {"block_types": ["recurrent", "attention"]},
            "zamba": {
                "layers_block_type": ["mamba", "hybrid"] * 2, "n_mamba_heads": 2, "mamba_d_state": 8,
                "attention_hidden_size": 64, "attention_head_dim": 16, "num_key_value_heads": HEADS,
                "mamba_dt_rank": 4,
            },
            "zamba2": {
                "layers_block_type": ["mamba", "hybrid"] * 2, "n_mamba_heads": 8, "mamba_d_state": 8,
                "chunk_size": 8, "num_key_value_heads": HEADS, "mamba_headdim": 8, "adapter_rank": 4,
            },
        }.items()
    },
    "minimax": Expected(
        "text", HYBRID,
        {"num_hidden_layers": 4, "layer_types": ["linear_attention", "full_attention"] * 2, "block_size": 8},
        returns="states",
    ),
    **dict.fromkeys(("deepseek_v4", "flint"), Expected("text", CAUSAL)),
    **dict.fromkeys(("granite_swa", "granitemoe_swa"), Expected("text", CAUSAL)),
    "mimo_v2_flash": Expected("text", CAUSAL),
    "falcon_h1": Expected(
        "text", CAUSAL, {"mamba_d_ssm": 32, "mamba_n_heads": 4, "mamba_d_head": 8, "mamba_d_state": 8,
                         "mamba_chunk_size": 8},
    ),
    "hrm_text": Expected("text", CAUSAL, {"H_cycles": 1, "L_cycles": 2, "num_layers_per_stack": 1}),
    **dict.fromkeys(
        ("deepseek_v2", "deepseek_v3"),
        Expected(
            "text", CAUSAL,
            {"q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8,
             "v_head_dim": 8, "head_dim": 4, "n_group": 1, "topk_group": 1, "num_key_value_heads": HEADS},
        ),
    ),
    "rwkv": _no_map("text"),
    "xlstm": _no_map("text"),
}  # fmt: skip


def configuration(name: str, **changes: Any) -> Any:
    """Make the configuration of a tiny model."""
    plain = CONFIG_MAPPING[name]()
    known, other_names = vars(plain), CONFIG_MAPPING[name].attribute_map
    options: dict[str, Any] = {}
    for key, value in OPTIONS.items():
        place = other_names.get(key, key)
        several = isinstance(known.get(place), list | tuple) and not isinstance(value, list)
        if place in known and place not in options and not several:
            options[place] = value
    extra = TYPES.get(name, Expected()).options
    config = AutoConfig.for_model(name, **options | extra | changes)
    config.architectures = [name]  # Funnel asks for it
    return config


def make(config: Any, **options: Any) -> Any:
    """Make the model of a configuration, of its own class where AutoModel has none."""
    if type(config) in MODEL_MAPPING:
        model = AutoModel.from_config(config, **options)
    else:
        module = import_module(type(config).__module__.replace("configuration_", "modeling_"))
        kind = getattr(module, type(config).__name__.removesuffix("Config") + "Model")
        model = kind._from_config(config, **options)
    return model.eval().requires_grad_(False)


@torch.no_grad()
def build(name: str, **changes: Any) -> PreTrainedModel:
    """Build a tiny model whose attention has contrast."""
    torch.manual_seed(0)
    model = make(configuration(name, **changes))
    for weight in model.parameters():
        if weight.ndim < 2:
            weight.add_(torch.randn_like(weight) * 0.1)
        else:
            weight.copy_(torch.randn_like(weight) * (2.0 / weight[0].numel()) ** 0.5)
    return model


def eager(name: str, model: PreTrainedModel) -> Any:
    """Build the model once more, for eager attention from the beginning."""
    changes = {"attention_type": "original_full"} if name in SPARSE else {}
    twin = make(configuration(name, **changes), attn_implementation="eager")
    twin.set_attn_implementation("eager")
    twin.load_state_dict(model.state_dict())
    return twin


def inputs(name: str, model: PreTrainedModel, batch: int = 2, seed: int = 5) -> dict[str, Tensor]:
    """Draw what a model is given: no padding, and no mask where it can be left out."""
    chance, config = torch.Generator().manual_seed(seed), model.config
    kinds = TYPES.get(name, Expected()).modality.split("+")
    given: dict[str, Tensor] = {}

    def noise(*shape: int) -> Tensor:
        return torch.randn(batch, *shape, generator=chance)

    def ids(length: int) -> Tensor:
        return torch.randint(6, VOCABULARY, (batch, length), generator=chance)

    if "text" in kinds and "sound" not in kinds:
        given["input_ids"] = ids(LENGTH)
    if "sound" in kinds:
        given[model.main_input_name] = noise(*SOUND.get(name, (WAVE,)))
    if "image" in kinds:
        vision = getattr(config, "vision_config", getattr(config, "image_config", config))
        given["pixel_values"] = noise(getattr(vision, "num_channels", 3), *_sizes(vision))
    if config.is_encoder_decoder:
        given["decoder_input_ids"] = ids(DECODER_LENGTH)
    return EXTRA[name](given, noise) if name in EXTRA else given


def _sizes(config: Any) -> tuple[int, int]:
    size = getattr(config, "image_size", 32)
    return (size, size) if isinstance(size, int) else tuple(size)


#: Those whose sparse attention is switched off for the reference.
SPARSE = {"big_bird", "bigbird_pegasus"}
#: What is given to those that take no raw wave.
SOUND: dict[str, tuple[int, ...]] = {
    "audio-spectrogram-transformer": (64, 16),
    "moonshine": (9343,),
    "parakeet_encoder": (2 * LENGTH, 8),
    "speech_to_text": (4 * LENGTH, 8),
    "wav2vec2-bert": (LENGTH, 8),
    **dict.fromkeys(("glmasr_encoder", "qwen2_audio_encoder", "voxtral_encoder"), (8, 2 * LENGTH)),
    "whisper": (8, 2 * LENGTH),
}

Given = dict[str, Tensor]


def _boxes(given: Given, noise: Callable[..., Tensor]) -> Given:
    return given | {"bbox": noise(LENGTH, 4).sigmoid()}


def _flat_patches(given: Given, noise: Callable[..., Tensor]) -> Given:
    patches = noise(PATCHES, 3 * 8 * 8)
    sizes = torch.full((len(patches), 2), 4)
    ones = torch.ones(len(patches), PATCHES, dtype=torch.long)
    return given | {"pixel_values": patches, "pixel_attention_mask": ones, "spatial_shapes": sizes}


def _in_order(given: Given, _: Callable[..., Tensor]) -> Given:
    """Let ViT-MAE take its patches in order, which it shuffles even if it masks none."""
    return given | {"noise": torch.arange(PATCHES).repeat(len(given["pixel_values"]), 1) / PATCHES}


def _frames(_: Given, noise: Callable[..., Tensor]) -> Given:
    return {"input_values": noise(LENGTH, 32), "decoder_input_values": noise(DECODER_LENGTH, 32)}


#: What some types want beside, or instead.
EXTRA: dict[str, Callable[[Given, Callable[..., Tensor]], Given]] = {
    "bros": _boxes,
    "udop": _boxes,
    "siglip2": _flat_patches,
    "siglip2_vision_model": _flat_patches,
    "speecht5": _frames,
    "vit_mae": _in_order,
}


def run(model: Any, given: Given, **options: Any) -> Any:
    """Run a model.

    FSMT sees later tokens where it may cache.
    """
    if "use_cache" in signature(model.forward).parameters:
        options |= {"use_cache": False}
    with torch.random.fork_rng(devices=[]), torch.inference_mode():
        torch.manual_seed(0)
        return model(**given, return_dict=True, **options)


def spread_by_hand(band: Tensor) -> Tensor:
    """Put each probability of a band in the column of its key."""
    batch, heads, length, width = band.shape
    whole = torch.zeros(batch, heads, length, length)
    for query in range(length):
        for place in range(width):
            key = query + place - width // 2
            if 0 <= key < length:
                whole[:, :, query, key] = band[:, :, query, place]
    return whole


def own_maps(name: str, model: PreTrainedModel, given: Given) -> Maps:
    """Give a model's own maps, each with its kind: those of the encoder, of the decoder, and across.

    Of a model of several towers, those of one tower follow those of another.
    """
    return [pair for maps in maps_by_tower(name, model, given).values() for pair in maps]


def maps_by_tower(name: str, model: PreTrainedModel, given: Given) -> dict[str, Maps]:
    """Give a model's own maps by the module of each tower, or by "" if it has none."""
    known, twin = TYPES.get(name, Expected()), eager(name, model)
    towers = known.towers or {"": known.stacks}
    if known.keys == "none":
        return {"": []}
    if known.returns == "hooks":
        hooked = hooked_maps(twin, given)
        return {tower: [("encoder", rows) for at, rows in hooked if at.startswith(tower)] for tower in towers}
    if known.returns == "mean":
        return {"": [("encoder", rows) for rows in maps_of_every_head(twin, given)]}
    output = run(twin, given, output_attentions=True)
    outputs = {tower: _tower_output(output, tower) for tower in known.towers} or {"": output}
    return {
        tower: _maps_of(outputs[tower], known, stacks in {CAUSAL, HYBRID}) for tower, stacks in towers.items()
    }


def _tower_output(output: Any, tower: str) -> Any:
    """Find what a tower gave in what the whole model gives."""
    places = (f"{tower}_output", tower.replace("_model", "_output"))
    return next(output[place] for place in places if place in output)


def _maps_of(output: Any, known: Expected, causal: bool) -> Maps:
    """Take the maps of each kind from what a model or a tower gives."""
    places = {
        "encoder": output.get("encoder_attentions") or (() if causal else output.get("attentions")),
        "decoder": output.get("decoder_attentions") or (output.get("attentions") if causal else ()),
        "cross": output.get("cross_attentions"),
    }
    listed = [(kind, rows) for kind, maps in places.items() for rows in _every(maps)]
    if known.returns == "windows":
        batch = len(output[0])
        return [
            (kind, rows.unflatten(0, (batch, -1)).permute(0, 2, 3, 1, 4).flatten(2, 3))
            for kind, rows in listed
        ]
    if known.returns == "states":
        longest = max(rows.shape[-1] for _, rows in listed)  # than states are wide
        listed = [(kind, rows) for kind, rows in listed if rows.shape[-1] == longest]
    return [(kind, _whole(kind, rows, known)) for kind, rows in listed]


def _every(maps: Any) -> list[Tensor]:
    """List maps that may lie in tuples of tuples; Pegasus-X gives dictionaries, which are no maps."""
    if isinstance(maps, Tensor):
        return [maps]
    return [rows for part in maps or () if not isinstance(part, dict) for rows in _every(part)]


def _whole(kind: str, rows: Tensor, known: Expected) -> Tensor:
    """Make a map over all keys of what a model gives."""
    if known.returns == "scores" and kind != "decoder":
        return rows.softmax(-1)
    if kind == "encoder" and known.returns == "bands":
        return spread_by_hand(rows)
    return rows


def hooked_maps(model: Any, given: Given) -> list[tuple[str, Tensor]]:
    """Take what attention modules return, by their names, in the order of their calls."""
    returned: list[tuple[str, Tensor]] = []
    names = {module: name for name, module in model.named_modules()}

    def ask(module: nn.Module, arguments: Any, options: dict[str, Any]) -> Any:
        place = list(signature(module.forward).parameters)
        if "output_attentions" not in place:
            return None
        return arguments[: place.index("output_attentions")], options | {"output_attentions": True}

    def take(module: nn.Module, _: Any, output: Any) -> None:
        rows = output[1] if isinstance(output, tuple) and len(output) > 1 else None
        if isinstance(rows, Tensor) and rows.ndim > 3 and all(rows is not other for _, other in returned):
            returned.append((names[module], rows))

    modules = [module for module in model.modules() if "Attention" in type(module).__name__]
    hooks = [module.register_forward_pre_hook(ask, with_kwargs=True) for module in modules]
    hooks += [module.register_forward_hook(take) for module in modules]
    run(model, given)
    for hook in hooks:
        hook.remove()
    return returned


def maps_of_every_head(model: Any, given: Given) -> list[Tensor]:
    """Take the maps that torch's own attention computes, which WavLM asks for their mean only."""
    maps: list[Tensor] = []
    usual = functional.multi_head_attention_forward

    def keep(*arguments: Any, **options: Any) -> Any:
        given_all = options | {"average_attn_weights": False}
        maps.extend(rows for rows in usual(*arguments, **given_all)[1:] if rows is not None)
        return usual(*arguments, **options)

    functional.multi_head_attention_forward = keep
    try:
        run(model, given)
    finally:
        functional.multi_head_attention_forward = usual
    return maps


def states(name: str, model: PreTrainedModel, given: Given) -> list[Tensor]:
    """Give the last hidden states of a model, or those of each of its towers."""
    return _states_of(name, run(eager(name, model) if name in SPARSE else model, given))


def _states_of(name: str, output: Any) -> list[Tensor]:
    towers = TYPES.get(name, Expected()).towers
    outputs = [_tower_output(output, tower) for tower in towers] or [output]
    return [_first_tensor(each) for each in outputs]


def _first_tensor(output: Any) -> Tensor:
    """Give the first tensor of an output, whatever its name; a tuple's is its last, as after every stage."""
    first = next(iter(output.values()))
    return first if isinstance(first, Tensor) else first[-1]
