"""The image that a model saw, small enough for a page."""

import base64
import io

import numpy as np
from numpy.typing import NDArray

#: Most pixels on a side.
LARGEST = 512


def data_url(pixels: NDArray[np.uint8]) -> str:
    """Write an image (height, width, 3) into an address of its own, as JPEG."""
    from PIL import Image

    image = Image.fromarray(pixels)
    image.thumbnail((LARGEST, LARGEST))
    content = io.BytesIO()
    image.save(content, "JPEG", quality=88)
    return f"data:image/jpeg;base64,{base64.b64encode(content.getvalue()).decode('ascii')}"
