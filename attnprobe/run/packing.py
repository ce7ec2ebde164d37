"""Measurements as text, so that the record beside a table holds what is needed to add tables up."""

import base64
import binascii
import io
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from attnprobe.survey.measurement import Measurement


def packed(measurement: Measurement, statistics: Sequence[str]) -> dict[str, Any]:
    """Pack the moments of a measurement exactly: numpy's npz, in base64."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **measurement.arrays())  # type: ignore[arg-type]
    return {"statistics": list(statistics), "moments": base64.b64encode(buffer.getvalue()).decode()}


def unpacked(record: Any) -> tuple[Measurement, list[str]]:
    """Restore what ``packed`` gave.

    Raises:
        ValueError: When it is nothing of the kind.
    """
    try:
        content = base64.b64decode(record["moments"], validate=True)
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return Measurement.from_arrays(dict(arrays)), [str(name) for name in record["statistics"]]
    except (KeyError, TypeError, ValueError, OSError, EOFError, binascii.Error, zlib.error) as error:
        raise ValueError("it holds no moments") from error
