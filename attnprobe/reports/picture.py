"""A picture: a chart that shows itself in a notebook, and goes into files as svg, png, pdf or a page."""

import hashlib
import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, ClassVar

from attnprobe.errors import AttnprobeError, UsageError, first_line
from attnprobe.reports.theme import VEGA_LITE, Theme
from attnprobe.table.destination import Saveable

#: Pixels of a png for each pixel of the picture, so that it is sharp on screens of 192 pixels per inch.
SCALE = 2.0
#: Width and height in an svg; the first two are those of the whole picture.
_SIZE = re.compile(r'\b(width|height)="([\d.]+)"')
_ID_OR_USE = re.compile(r'(\sid="|url\(#|href="#)([^")]+)("|\))')
#: Characters, as JSON writes them, that XML can't hold, and that would crash vl-convert.
_NO_XML = re.compile(r"\\uff(?:fe|ff)")

Spec = Mapping[str, Any]


def measure_svg(svg: str) -> tuple[float, float]:
    """Measure how wide and how high a picture is, in pixels."""
    (_, wide), (_, high), *_ = _SIZE.findall(svg[:500])
    return float(wide), float(high)


def convert_svg(svg: str, format: str) -> bytes:
    """Convert an svg to bytes of a format: svg, png, or pdf with fonts, where a pixel is 1/96 inch.

    Raises AttnprobeError when a png would be too large.
    """
    import vl_convert

    if format == "svg":
        return svg.encode()
    if format == "pdf":
        # vl-convert takes a pixel for a point, of which 72 make an inch.
        smaller = _SIZE.sub(lambda match: f'{match[1]}="{float(match[2]) * 72 / 96:g}"', svg, count=2)
        return _call_renderer(vl_convert.svg_to_pdf, smaller)
    wide, high = measure_svg(svg)
    if wide * high * SCALE**2 > 100_000_000:  # more pixels take gigabytes of memory
        raise UsageError("The picture is too large for a png; write an .svg or a .pdf, or give a --width.")
    return _call_renderer(vl_convert.svg_to_png, svg, scale=SCALE, ppi=72)


def _call_renderer(render: Callable[..., Any], content: str, **options: Any) -> Any:
    try:
        return render(content, **options)
    except (ValueError, RuntimeError) as error:
        raise AttnprobeError(f"the picture could not be drawn: {first_line(error)}.") from error


def draw_svg(spec: Spec) -> str:
    """Draw a chart as svg; text stays text, in a font with the same widths everywhere (``theme.FONT``)."""
    return _rename_ids(_draw(json.dumps(spec, allow_nan=False)))


def warm_up(format: str) -> None:
    """Start the renderer, or bundle the script of html, in a thread, beside other work: both take a while."""
    from attnprobe.reports.page import load_vega

    start = load_vega if format == "html" else lambda: draw_svg({"data": {"values": []}, "mark": "point"})
    threading.Thread(target=start, daemon=True).start()


def _rename_ids(content: str) -> str:
    """Rename the ids of an svg, such as that of a legend's gradient, by a hash of its content.

    Vega numbers ids through all pictures of a process. With a hash, the same picture gives the same file, and
    two pictures in one page do not share ids.
    """
    names = [name for start, name, _ in _ID_OR_USE.findall(content) if start.endswith('id="')]
    places = {name: number for number, name in enumerate(dict.fromkeys(names))}

    def rename(prefix: str) -> str:
        return _ID_OR_USE.sub(
            lambda match: (
                f"{match[1]}{prefix}{places[match[2]]}{match[3]}" if match[2] in places else match[0]
            ),
            content,
        )

    return rename(f"p{hashlib.sha256(rename('').encode()).hexdigest()[:8]}-")


def measure_picture(chart: Any, theme: Theme) -> tuple[float, float]:
    """Measure how wide and how high a chart is with its labels, legends and titles, in pixels."""
    return measure_svg(_draw(json.dumps(make_spec(chart, theme), allow_nan=False)))


def make_spec(chart: Any, theme: Theme) -> dict[str, Any]:
    return {**chart.to_dict(validate=False), "config": theme.config()}


@lru_cache(maxsize=1)  # a picture that was measured is written without being drawn again
def _draw(spec: str) -> str:
    import vl_convert

    # No address is allowed: whatever a spec holds, nothing is fetched.
    options: dict[str, Any] = {"vl_version": VEGA_LITE, "allowed_base_urls": []}
    return _call_renderer(vl_convert.vegalite_to_svg, _NO_XML.sub(r"\\ufffd", spec), **options)


@dataclass(frozen=True)
class Picture(Saveable):
    """A picture of a table. ``chart`` is an altair chart without the theme, which can be changed further."""

    endings: ClassVar[Sequence[str]] = ("svg", "png", "pdf", "html")

    kind: str
    title: str
    chart: Any = field(repr=False)
    theme: Theme = field(repr=False)

    @cached_property
    def spec(self) -> dict[str, Any]:
        """The chart as Vega-Lite: a dict of plain values, with its data and its theme."""
        return make_spec(self.chart, self.theme)

    def render(self, format: str) -> bytes:
        """Render the picture as svg, png, pdf, or as an interactive page that needs no network."""
        if format == "html":
            from attnprobe.reports.page import render_chart_page

            return render_chart_page(self.spec).encode()
        return convert_svg(draw_svg(self.spec), format)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """Give a notebook the picture as svg, as wide as a cell at most, and as png if svg is refused."""
        import base64

        fitting = '<svg style="max-width: 100%; height: auto"'
        return {
            "image/svg+xml": self.render("svg").decode().replace("<svg", fitting, 1),
            "image/png": base64.b64encode(self.render("png")).decode(),
            "text/plain": repr(self),
        }
