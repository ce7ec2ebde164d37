"""A vector graphic as png or pdf, by vl-convert; without a browser, and without a network."""

import re
from collections.abc import Callable
from typing import Any

from attnprobe.errors import AttnprobeError, first_line

#: The Vega-Lite that altair writes, and that pages bring along.
VEGA_LITE = "6.4"
#: Pixels of png for one of the picture: sharp on today's screens, 192 to the inch.
SCALE = 2.0
#: The first two of an svg are the size of the whole.
_SIZE = re.compile(r'\b(width|height)="([\d.]+)"')
#: Most pixels of a png: more takes gigabytes of memory.
_PIXELS = 100_000_000


def png(svg: str) -> bytes:
    """Render as png.

    Raises:
        AttnprobeError: When it would be too large.
    """
    import vl_convert

    wide, high = (float(number) for _, number in _SIZE.findall(svg[:500])[:2])
    if wide * high * SCALE**2 > _PIXELS:
        raise AttnprobeError(
            "The picture is too large for a png; write an .svg or a .pdf, or give a --width."
        )
    return _rendered(vl_convert.svg_to_png, svg, scale=SCALE, ppi=72)


def pdf(svg: str) -> bytes:
    """Render as pdf, fonts embedded; a pixel is 1/96 inch, as in css."""
    import vl_convert

    # vl-convert takes a pixel for a point, of which 72 make an inch.
    smaller = _SIZE.sub(lambda found: f'{found[1]}="{float(found[2]) * 72 / 96:g}"', svg, count=2)
    return _rendered(vl_convert.svg_to_pdf, smaller)


def _rendered(render: Callable[..., bytes], svg: str, **options: Any) -> bytes:
    try:
        return render(svg, **options)
    except ValueError as error:
        raise AttnprobeError(f"the picture could not be drawn: {first_line(error)}.") from error
