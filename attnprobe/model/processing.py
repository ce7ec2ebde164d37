"""A checkpoint's processors, which turn images, sound, and images with texts into a model's inputs."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import AutoFeatureExtractor, AutoImageProcessor

from attnprobe.corpus.media import BOTH, IMAGE, SOUND
from attnprobe.corpus.tokenizer import Tokenizer, list_ordinary_ids
from attnprobe.errors import AttnprobeError, ModelError, UsageError, first_line
from attnprobe.model.private import build_processor
from attnprobe.model.quirks import IMAGE_ENDS, UnsupportedModelError, find_placeholder, find_sound_window

_PADS = "The checkpoint's processor pads what it reads, and attention to padding means nothing."
#: The length of windows of sound, in seconds, where the processor states none.
SECONDS = 30
#: A text that any tokenizer knows, and the number of tokens drawn behind it.
_TEXT, _DRAWN = "a", 8
#: Rows and columns of an image of noise.
_SIZE = (48, 64)


@dataclass(frozen=True)
class Processor:
    """A checkpoint's processor of images or of sound, around that of transformers."""

    kind: str
    inner: Any
    rate: int = 0  # of sound, samples a second
    window: int = 0  # of sound, the most samples in a sequence

    def __call__(self, given: NDArray[Any]) -> dict[str, Tensor]:
        """Prepare one image (height, width, 3) or sound (sample,): tensors (1, ...)."""
        if self.kind == IMAGE:
            inputs = _prepare(self.inner, images=given)
        else:
            inputs = _prepare(self.inner, given, sampling_rate=self.rate)
        for mask in [inputs.pop(name) for name in list(inputs) if "mask" in name]:
            length = int(mask.sum())
            if bool(mask.all()):
                continue
            if mask.ndim != 2 or not bool(mask[:, :length].all()):
                raise ModelError(_PADS)
            inputs = {
                name: value[:, :length] if value.ndim > 1 and value.shape[1] == mask.shape[1] else value
                for name, value in inputs.items()
            }
        return inputs

    @property
    def fixed(self) -> bool:
        """Whether its output always has the same shape."""
        sizes = ((40, 64), (64, 40)) if self.kind == IMAGE else ((self.rate,), (self.rate // 2,))
        inputs = [self(_draw_noise(number, size)) for number, size in enumerate(sizes)]
        first, second = ({name: value.shape for name, value in each.items()} for each in inputs)
        return first == second

    def noise(self, number: int) -> dict[str, Tensor]:
        """Prepare noise, drawn from a seed."""
        return self(_draw_noise(number, _SIZE if self.kind == IMAGE else (self.rate,)))


def _draw_noise(number: int, size: tuple[int, ...]) -> NDArray[Any]:
    """Draw an image (height, width, 3), or sound (sample,)."""
    draw = np.random.default_rng(number)
    if len(size) == 1:
        return draw.standard_normal(size).astype(np.float32) * np.float32(0.1)
    return draw.integers(0, 256, (*size, 3), np.uint8)


def _prepare(processor: Any, *given: Any, **options: Any) -> dict[str, Tensor]:
    """Call a processor of transformers; returns its tensors."""
    try:
        made = processor(*given, return_tensors="pt", **options)
    except Exception as error:
        raise ModelError(f"The checkpoint's processor fails: {first_line(error)}.") from error
    return {name: value for name, value in made.items() if isinstance(value, Tensor)}


@dataclass(frozen=True)
class SeeingProcessor:
    """A checkpoint's processor of an image and a text, around that of transformers."""

    inner: Any
    placeholder: int  # the token that stands for a part of the image
    mark: str = ""  # goes in front of texts without an image mark; "" if the processor adds one
    kind: str = BOTH

    @property
    def tokenizer(self) -> Tokenizer:
        return self.inner.tokenizer

    def is_image(self, ids: Any) -> Any:
        """Mark the tokens that stand for the image, in the shape of the ids."""
        return ids == self.placeholder

    def __call__(self, image: NDArray[Any], text: str) -> dict[str, Tensor]:
        """Prepare an image (height, width, 3) and a text: ids (1, position) and further tensors."""
        whole = text if self.mark and self.mark in text else f"{self.mark}{text}"
        inputs = _prepare(self.inner, images=image, text=whole)
        masks = [inputs[name] for name in ("attention_mask", "pixel_mask") if name in inputs]
        if not all(bool(mask.all()) for mask in masks):
            raise ModelError(_PADS)
        return {name: value for name, value in inputs.items() if name not in {"labels", "attention_mask"}}

    def cut(self, inputs: Mapping[str, Tensor], length: int) -> dict[str, Tensor]:
        """Cut the end of the text, in all tensors of its shape, so that ``length`` tokens are left."""
        whole = inputs["input_ids"].shape
        return {name: value[:, :length] if value.shape == whole else value for name, value in inputs.items()}

    def noise(self, number: int) -> dict[str, Tensor]:
        """Prepare noise with a text of a few tokens, drawn from a seed."""
        inputs = self(_draw_noise(number, _SIZE), _TEXT)
        ordinary = list_ordinary_ids(self.tokenizer, len(self.tokenizer))
        drawn = torch.from_numpy(np.random.default_rng(number).choice(ordinary, _DRAWN))[None]
        whole = inputs["input_ids"].shape
        for name, value in inputs.items():
            if value.shape == whole:
                more = drawn if name == "input_ids" else value[:, -1:].expand(1, _DRAWN)
                inputs[name] = torch.cat([value, more.to(value.dtype)], 1)
        return inputs


def load_processor(
    modality: str, folder: Path, name: str, config: Any, tokenizer: Tokenizer | None, **options: Any
) -> Processor | SeeingProcessor | None:
    """Load the processor of images, sound, or images with texts; None for text alone."""
    if modality not in {IMAGE, SOUND, BOTH}:
        return None
    if modality != SOUND and find_spec("PIL") is None:
        raise UsageError("Images need Pillow: pip install pillow.")
    try:
        if modality == SOUND:
            extractor: Any = AutoFeatureExtractor.from_pretrained(folder, **options)
            rate = int(extractor.sampling_rate)
            return Processor(SOUND, extractor, rate, find_sound_window(extractor) or SECONDS * rate)
        # The backend of Pillow is the same on every machine; torchvision rounds otherwise.
        eye = AutoImageProcessor.from_pretrained(folder, backend="pil", **options)
        if modality == IMAGE:
            return Processor(IMAGE, eye)
        inner = build_processor(config, {"image_processor": eye, "tokenizer": tokenizer}, folder)
    except Exception as error:
        reason = f"it holds no processor of {modality} that loads ({first_line(error)})"
        raise UnsupportedModelError(name, reason) from error
    placeholder = find_placeholder(config)
    assert placeholder is not None
    reason = "its processor puts no image into a text"
    names = inner.tokenizer.convert_ids_to_tokens
    token = str(getattr(inner, "image_token", names(placeholder)))
    begin, end = (getattr(config, name, None) for name in IMAGE_ENDS)
    around = "" if begin is None or end is None else f"{names(begin)}{token}{names(end)}"
    for mark in dict.fromkeys(("", around, token)):
        processor = SeeingProcessor(inner, placeholder, mark)
        try:
            if processor.is_image(processor(_draw_noise(0, _SIZE), _TEXT)["input_ids"]).any():
                return processor
        except AttnprobeError as error:
            reason = first_line(error)
    raise UnsupportedModelError(name, reason)
