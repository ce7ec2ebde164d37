"""Measurements as text, so that the record beside a table holds what is needed to add tables up."""

import base64
import io
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.sums.protocol import Arrays


def packed(arrays: Arrays) -> str:
    """Pack the arrays of a sum exactly: numpy's npz, in base64."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    return base64.b64encode(buffer.getvalue()).decode()


def unpacked(text: Any) -> Mapping[str, NDArray[Any]]:
    """Restore what ``packed`` gave.

    Raises:
        ValueError: When it is nothing of the kind.
    """
    try:
        content = base64.b64decode(text, validate=True)
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return dict(arrays)
    except (KeyError, TypeError, ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError("it holds no sums") from error
