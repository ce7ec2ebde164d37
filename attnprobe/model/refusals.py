"""Architectures refused by name, each with its reason, and the errors of checkpoints that can't be read."""

from typing import Any

from attnprobe.errors import ModelError

_NO_MAP = "it has no attention map"

#: ``config.model_type`` to the reason. Everything else is tried, and refused if the dry run fails.
REFUSED = {
    "fnet": f"{_NO_MAP}; it mixes tokens by Fourier transform",
    "mra": f"{_NO_MAP}; it approximates attention at several resolutions",
    "yoso": f"{_NO_MAP}; it samples attention by hashing",
    "reformer": f"{_NO_MAP} over all keys; it attends within hash buckets",
    "funnel": "its layers pool the queries, so that queries and keys no longer match tokens",
    "diffllama": "its heads subtract one map from another, so that none of them is what they attend to",
    "mobilevitv2": f"{_NO_MAP}; it weighs each token once, for all queries",
    "swiftformer": f"{_NO_MAP}; it weighs each token once, for all queries",
    "lxmert": (
        "it reads words and regions that a detector found as two sequences, with layers of attention between "
        "them; give another model"
    ),
    "canine": "it reads characters, and most of its layers attend to spans of them that are no tokens",
    "longt5": f"{_NO_MAP} over all keys; it attends within neighbouring blocks",
    **dict.fromkeys(
        ("encoder-decoder", "speech-encoder-decoder"),
        "it holds two models; save the one that you ask as a checkpoint of its own, with its tokenizer "
        "(EncoderDecoderModel.from_pretrained(...).encoder.save_pretrained(FOLDER))",
    ),
    "vision-encoder-decoder": (
        "it holds two models; save the one that sees as a checkpoint of its own, with its processor "
        "(VisionEncoderDecoderModel.from_pretrained(...).encoder.save_pretrained(FOLDER))"
    ),
    "lilt": "each of its layers takes two softmaxes, of the text and of its layout on a page",
    **dict.fromkeys(
        (
            "clap_audio_model",
            "donut-swin",
            "hiera",
            "maskformer-swin",
            "mobilevit",
            "swin",
            "swin2sr",
            "swinv2",
        ),
        "its layers part an image into windows",
    ),
    **dict.fromkeys(
        ("timesformer", "videomae", "vivit", "vjepa2"),
        "it reads videos; give another model",
    ),
    "pegasus_x": f"{_NO_MAP} over all keys; it attends within blocks and to global tokens of its own",
}


_TWO = "its image and its text are two sequences"
_BEHIND = "its image stands behind the text without a token of it"
_ALONE = "give text alone, or a folder of images"
#: Models that read an image and a text, not as one sequence: ``config.model_type`` to the reason, and what
#: to do.
NOT_TOGETHER = {
    "blip": f"{_TWO}, and its text looks at the image in layers between them; give a folder of images",
    "bridgetower": f"{_TWO}, with layers of attention between them; give another model",
    "flava": f"{_TWO}, which a third encoder reads together without saying where; {_ALONE}",
    "git": "its image stands before the text without a token of it; give another model",
    "kosmos-2": "a mask of its own says where its image is; give text alone",
    "layoutlmv3": "its image is a page, of which it is told where each word stands; give text alone",
    "vilt": f"{_BEHIND}; give another model",
    "visual_bert": f"{_BEHIND}, as features that a detector found; give text alone",
    "mllama": "its text looks at the image in layers whose keys are no tokens of the text; give text alone",
}
#: What is said of any other of them with a decoder beside an encoder.
READS_ANOTHER_TEXT = "an encoder reads its image, and its decoder another text; give text alone"

#: What is said of weights that models compute with and nobody else can read.
PACKED = "its weights are quantised ({kind}) in a way that can't be undone, and only its attention is read"


class UnsupportedModelError(ModelError):
    """The attention of this architecture can't be read, or not yet."""

    def __init__(self, architecture: str, reason: str) -> None:
        super().__init__(f"attnprobe can't read the attention of {architecture!r}: {reason}.")
        self.architecture, self.reason = architecture, reason


class AttentionSinkError(UnsupportedModelError):
    """Heads can attend to nothing at all, so that rows are no distributions over the tokens."""

    def __init__(self, architecture: str) -> None:
        super().__init__(architecture, "its rows do not sum to 1 (learned attention sinks)")


def refuse_by_name(model_type: str) -> None:
    """Raise UnsupportedModelError for an architecture of ``REFUSED``."""
    if model_type in REFUSED:
        raise UnsupportedModelError(model_type, REFUSED[model_type])


#: What models of plain weights are stored and computed in.
_PLAIN = {"float64", "float32", "bfloat16", "float16"}


def find_packing(weight: Any) -> str:
    """Find how a quantised weight is packed, such as Int8Tensor or int8; "" where it is plain numbers."""
    kind = type(weight).__name__
    if kind not in {"Tensor", "Parameter"}:
        return kind
    stored = str(weight.dtype).removeprefix("torch.")
    return "" if stored in _PLAIN else stored
