"""From pixels and samples to what a model is given, through the checkpoint's own processor."""

import contextlib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from transformers import AutoFeatureExtractor, AutoImageProcessor, AutoVideoProcessor

from attnprobe.errors import AttnprobeError, first_line
from attnprobe.model.configuration import count_frames
from attnprobe.model.refusals import UnsupportedModelError

#: What is said of each kind of data, and the package that it needs.
_NEEDS = {"image": ("images", "Images need Pillow: pip install pillow."), "sound": ("sound", "")}
_NEEDS["video"] = ("videos", _NEEDS["image"][1])
#: Longer sound is cut into windows of so many seconds.
SECONDS = 30


@dataclass(frozen=True)
class Processor:
    """A checkpoint's processor of images, of sound or of videos.

    Of sound, ``rate`` is in samples a second, and ``window`` the most samples in a sequence. Of videos,
    ``frames`` is how many are read of each.
    """

    kind: str
    own: Any
    rate: int = 0
    window: int = 0
    frames: int = 0

    @classmethod
    def load(cls, kind: str, folder: Path, config: Any = None, **options: Any) -> "Processor":
        """Load the processor in a folder; a model's configuration says how many frames of a video it reads.

        Raises:
            UnsupportedModelError: When there is none for what is to be read.
        """
        plural, needed = _NEEDS[kind]
        if needed and find_spec("PIL") is None:
            raise AttnprobeError(needed)
        try:
            if kind == "video":
                return cls(kind, _load_video_processor(folder, **options), frames=count_frames(config))
            if kind == "image":
                # Without torchvision, which few have and which rounds otherwise, the result is the same
                # on every machine.
                return cls(kind, AutoImageProcessor.from_pretrained(folder, backend="pil", **options))
            own: Any = AutoFeatureExtractor.from_pretrained(folder, **options)
            return cls(kind, own, int(own.sampling_rate), _find_window(own))
        except AttnprobeError:
            raise
        except Exception as error:
            reason = f"it holds no processor of {plural} that loads ({first_line(error)})"
            raise UnsupportedModelError(folder.name or str(folder), reason) from error

    def __call__(self, given: NDArray[Any]) -> dict[str, Tensor]:
        """Prepare one image (height, width, 3), sound (sample,) or video (frame, height, width, 3).

        Returns:
            Tensors (1, ...).
        """
        try:
            if self.kind == "image":
                found = self.own(images=given, return_tensors="pt")
            elif self.kind == "video":
                # Frames were chosen already; a processor that could choose does not know when each was.
                choice = {"do_sample_frames": False} if hasattr(self.own, "sample_frames") else {}
                found = self.own(list(given), return_tensors="pt", **choice)
            else:
                found = self.own(given, sampling_rate=self.rate, return_tensors="pt")
        except Exception as error:
            raise AttnprobeError(f"The checkpoint's processor fails: {first_line(error)}.") from error
        inputs = {name: value for name, value in found.items() if isinstance(value, Tensor)}
        for name in [name for name in inputs if "mask" in name]:
            inputs = _strip_padding(inputs, name)
        return inputs

    @property
    def fixed(self) -> bool:
        """Whether everything it prepares has one shape, whatever it is given."""
        sizes = ((40, 64), (64, 40)) if self.kind != "sound" else ((self.rate,), (self.rate // 2,))
        inputs = [self(self._draw_noise(number, size)) for number, size in enumerate(sizes)]
        one, other = ({name: value.shape for name, value in found.items()} for found in inputs)
        return one == other

    def noise(self, number: int) -> dict[str, Tensor]:
        """Prepare noise, drawn from a seed."""
        return self(self._draw_noise(number, (48, 64) if self.kind != "sound" else (self.rate,)))

    def _draw_noise(self, number: int, size: tuple[int, ...]) -> NDArray[Any]:
        draw = np.random.default_rng(number)
        if self.kind == "sound":
            return draw.standard_normal(size).astype(np.float32) * np.float32(0.1)
        frames = (self.frames,) if self.kind == "video" else ()
        return draw.integers(0, 256, (*frames, *size, 3), np.uint8)


def _load_video_processor(folder: Path, **options: Any) -> Any:
    """Load a processor of frames that Pillow prepares; or that of videos, which needs torchvision."""
    with contextlib.suppress(Exception):
        found: Any = AutoImageProcessor.from_pretrained(folder, backend="pil", **options)
        if found(list(np.zeros((2, 48, 64, 3), np.uint8)), return_tensors="pt")["pixel_values"].ndim == 5:
            return found
    if find_spec("torchvision") is None:
        raise AttnprobeError(
            f"The processor of videos of {folder.name} needs torchvision: pip install torchvision."
        )
    return AutoVideoProcessor.from_pretrained(folder, **options)


def _strip_padding(inputs: dict[str, Tensor], name: str) -> dict[str, Tensor]:
    """Take the mask ``name`` out, and what it hides at the end of a sound."""
    mask = inputs.pop(name)
    if bool(mask.all()):
        return inputs
    length = int(mask.sum())
    if mask.ndim != 2 or not bool(mask[:, :length].all()):
        raise AttnprobeError(
            "The checkpoint's processor pads what it reads, and attention to padding means nothing."
        )
    return {
        key: value[:, :length] if value.ndim > 1 and value.shape[1] == mask.shape[1] else value
        for key, value in inputs.items()
    }


def _find_window(own: Any) -> int:
    """Find the most samples that a feature extractor takes at once, or those of 30 seconds."""
    stated = getattr(own, "n_samples", None)  # Whisper's
    if isinstance(stated, int):
        return stated
    frames = getattr(own, "max_length", None)
    if isinstance(frames, int) and getattr(own, "num_mel_bins", None):  # AST's, of 10 milliseconds
        return frames * int(own.sampling_rate) // 100
    return SECONDS * int(own.sampling_rate)
