"""From files to arrays: an image as pixels, sound as samples at the rate that a model expects."""

import warnings
from math import gcd
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from attnprobe.errors import AttnprobeError, first_line


def read_image(path: Path) -> NDArray[np.uint8]:
    """Read an image, (height, width, red-green-blue), turned as its camera says.

    Raises:
        AttnprobeError: When it is none, or larger than any honest one.
    """
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise AttnprobeError("Images need Pillow: pip install pillow.") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path) as image:
                return np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
    except Exception as error:  # decoders raise whatever they like over broken files
        raise AttnprobeError(f"{path} can't be read as an image: {first_line(error)}.") from error


def image_size(path: Path) -> tuple[int, int]:
    """Tell width and height of an image without decoding it."""
    try:
        from PIL import Image

        with Image.open(path) as image:
            (width, height), turned = image.size, image.getexif().get(0x0112, 1) >= 5
            return (height, width) if turned else (width, height)
    except Exception as error:
        raise AttnprobeError(f"{path} can't be read as an image: {first_line(error)}.") from error


def read_sound(path: Path, rate: int) -> NDArray[np.float32]:
    """Read sound as samples at ``rate`` a second, the mean of its channels.

    Raises:
        AttnprobeError: When it is none, or silent for want of samples.
    """
    samples, own = _decoded(path)
    if not len(samples):
        raise AttnprobeError(f"{path} holds no sound.")
    mono = samples.mean(1)
    if own == rate:
        return mono
    from scipy.signal import resample_poly  # takes a while to import

    common = gcd(own, rate)
    return resample_poly(mono, rate // common, own // common).astype(np.float32)


def sound_length(path: Path, rate: int) -> int:
    """Tell how many samples ``read_sound`` will give, without decoding."""
    try:
        import soundfile

        about = soundfile.info(path)
    except ImportError as error:
        raise AttnprobeError("Sound needs soundfile: pip install soundfile.") from error
    except Exception as error:
        raise AttnprobeError(f"{path} can't be read as sound: {first_line(error)}.") from error
    common = gcd(about.samplerate, rate)
    return -(-about.frames * (rate // common) // (about.samplerate // common))


def _decoded(path: Path) -> tuple[NDArray[np.float32], int]:
    try:
        import soundfile

        samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
        return np.asarray(samples, np.float32), rate
    except ImportError as error:
        raise AttnprobeError("Sound needs soundfile: pip install soundfile.") from error
    except Exception as error:
        raise AttnprobeError(f"{path} can't be read as sound: {first_line(error)}.") from error
