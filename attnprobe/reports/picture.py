"""A picture: a chart that shows itself in a notebook, and goes into files as svg, png, pdf or a page."""

import hashlib
import json
import re
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import unescape
from typing import Any, ClassVar

from attnprobe.errors import AttnprobeError, AttnprobeWarning, first_line
from attnprobe.reports.theme import Theme
from attnprobe.table.destination import Saveable
from attnprobe.table.head_table import HeadTable

#: The Vega-Lite that altair writes, and that pages bring along.
VEGA_LITE = "6.4"
#: Pixels of png for one of the picture: sharp on today's screens, 192 to the inch.
SCALE = 2.0
#: The first two of an svg are the size of the whole.
_SIZE = re.compile(r'\b(width|height)="([\d.]+)"')
_TEXT = re.compile(r"<text[^>]*>([^<]*)")
#: A code point that is no character: every font draws it as the box that stands for what it lacks.
_NO_CHARACTER = "\U0010fffe"
#: Up to here, all fonts have all letters. So many others are looked for, and so many named.
_LATIN, _LOOKED_FOR, _NAMED = 0x17F, 200, 5
#: Most pixels of a png: more takes gigabytes of memory.
_PIXELS = 100_000_000


def render_png(svg: str) -> bytes:
    """Render as png; raises AttnprobeError when it would be too large."""
    import vl_convert

    wide, high = (float(number) for _, number in _SIZE.findall(svg[:500])[:2])
    if wide * high * SCALE**2 > _PIXELS:
        raise AttnprobeError(
            "The picture is too large for a png; write an .svg or a .pdf, or give a --width."
        )
    _warn_of_missing_glyphs(svg)
    return _render(vl_convert.svg_to_png, svg, scale=SCALE, ppi=72)


def render_pdf(svg: str) -> bytes:
    """Render as pdf, fonts embedded; a pixel is 1/96 inch, as in css."""
    import vl_convert

    # vl-convert takes a pixel for a point, of which 72 make an inch.
    smaller = _SIZE.sub(lambda found: f'{found[1]}="{float(found[2]) * 72 / 96:g}"', svg, count=2)
    _warn_of_missing_glyphs(svg)
    return _render(vl_convert.svg_to_pdf, smaller)


def list_missing_glyphs(text: str) -> list[str]:
    """List the characters that no font at hand can draw: they come out as an unassigned code point does."""
    import vl_convert

    def draw(character: str) -> bytes:
        word = f'<text x="4" y="24" font-size="20" font-family="Liberation Sans">&#{ord(character)};</text>'
        return vl_convert.svg_to_png(
            f'<svg xmlns="http://www.w3.org/2000/svg" width="32" height="32">{word}</svg>'
        )

    unsure = [one for one in dict.fromkeys(text) if ord(one) > _LATIN and one.isprintable()][:_LOOKED_FOR]
    box = draw(_NO_CHARACTER) if unsure else b""
    return [one for one in unsure if draw(one) == box]


def _warn_of_missing_glyphs(svg: str) -> None:
    missing = list_missing_glyphs(unescape("".join(_TEXT.findall(svg))))
    if missing:
        named = ", ".join(f"{one} (U+{ord(one):04X})" for one in missing[:_NAMED])
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        warnings.warn(
            f"No font on this machine has {named}{more}; a box stands for each in the picture. Install a "
            "font of that script, or write .svg or .html, which a browser draws with its own fonts.",
            AttnprobeWarning,
            stacklevel=3,
        )


def _warn_of_missing_font(families: str) -> None:
    """Warn where another font than the one that was named is drawn, and embedded."""
    import vl_convert

    def draw(family: str) -> bytes:
        word = f'<text x="4" y="24" font-size="20" font-family="{family}, Liberation Sans">Hamburg 7</text>'
        return vl_convert.svg_to_png(
            f'<svg xmlns="http://www.w3.org/2000/svg" width="160" height="32">{word}</svg>'
        )

    family = families.split(",", maxsplit=1)[0]
    if family != "Liberation Sans" and draw(family) == draw("A family that nobody has"):
        warnings.warn(
            f"This machine has no font {family}; Liberation Sans stands in its place. An .svg takes the font "
            "of the machine that shows it.",
            AttnprobeWarning,
            stacklevel=4,
        )


def _render(render: Callable[..., bytes], svg: str, **options: Any) -> bytes:
    try:
        return render(svg, **options)
    except ValueError as error:
        raise AttnprobeError(f"the picture could not be drawn: {first_line(error)}.") from error


_ID = re.compile(r'\sid="([^"]+)"')
_ID_OR_USE = re.compile(r'(\sid="|url\(#|href="#)([^")]+)("|\))')

Spec = Mapping[str, Any]


def render_svg(spec: Spec) -> bytes:
    """Render as svg; text stays text, in a font that has the same widths everywhere (see ``theme.FONT``)."""
    return _rename_ids(_draw_svg(spec)).encode()


def render_html(spec: Spec) -> bytes:
    """Render as a page of its own: interactive, and complete without a network."""
    from attnprobe.reports.page import render_chart_page

    return render_chart_page(spec).encode()


FORMATS: dict[str, Callable[[Spec], bytes]] = {
    "svg": render_svg,
    "png": lambda spec: render_png(_draw_svg(spec)),
    "pdf": lambda spec: render_pdf(_draw_svg(spec)),
    "html": render_html,
}


def warm_up(format: str) -> None:
    """Start the renderer beside other work, such as imports: its engine takes a while to wake."""
    threading.Thread(target=_start_renderer, args=(format,), daemon=True).start()


def _start_renderer(format: str) -> None:
    if format == "html":
        from attnprobe.reports.page import load_vega

        load_vega()
    else:
        _draw_svg({"data": {"values": []}, "mark": "point"})


def _rename_ids(content: str) -> str:
    """Rename what an svg refers to within itself, such as the gradient of a legend.

    Vega counts up from one picture to the next. With names of their own, the same picture is the same file,
    and two pictures in one page do not take each other's colours.
    """
    places = {name: number for number, name in enumerate(dict.fromkeys(_ID.findall(content)))}
    neutral = _ID_OR_USE.sub(lambda found: f"{found[1]}{places.get(found[2], found[2])}{found[3]}", content)
    own = hashlib.sha256(neutral.encode()).hexdigest()[:8]
    return _ID_OR_USE.sub(
        lambda found: f"{found[1]}p{own}-{places[found[2]]}{found[3]}" if found[2] in places else found[0],
        content,
    )


#: Marks that are there for a pointer alone.
_INVISIBLE = re.compile(r'<path [^>]*(?<![\w-])opacity="0"(?: [^>]*)?/>')


def _draw_svg(spec: Spec) -> str:
    import vl_convert

    try:
        # No address is allowed: whatever a spec holds, nothing is fetched.
        svg = vl_convert.vegalite_to_svg(dict(spec), vl_version=VEGA_LITE, allowed_base_urls=[])
    except ValueError as error:
        raise AttnprobeError(f"the picture could not be drawn: {first_line(error)}") from error
    return _INVISIBLE.sub("", svg)


#: A number without a format of its own: whole ones in full, others as tables print them.
_NUMBER = "({0} % 1 === 0 ? '' + {0} : format({0}, '.4~g'))"


#: What holds the rows that a chart draws.
_OF_DATA = {"data", "datasets"}


def describe_marks(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Say each mark of a chart that has a tooltip in a sentence; screen readers skip marks without one."""
    changed = {
        name: part if name in _OF_DATA else _describe_within(part)  # rows may have a "mark" of their own
        for name, part in spec.items()
    }
    if "mark" not in spec:
        return changed
    encoding, mark = dict(changed.get("encoding", {})), changed["mark"]
    tooltip = encoding.get("tooltip")
    if "description" in encoding:  # a sentence of its own
        return {**changed, "encoding": encoding}
    if isinstance(tooltip, list) and tooltip:
        encoding["description"] = {"value": {"expr": _write_expression(tooltip)}}
        return {**changed, "encoding": encoding}
    return {**changed, "mark": {**(mark if isinstance(mark, dict) else {"type": mark}), "aria": False}}


def _describe_within(part: Any) -> Any:
    if isinstance(part, dict) and "values" not in part:  # data are no charts
        return describe_marks(part)
    return [_describe_within(one) for one in part] if isinstance(part, list) else part


#: What says which mark it is; everything else of a tooltip says what it shows.
_PLACES = {
    "attention", "cell", "criterion", "group", "head", "label", "layer", "line", "name", "one", "other",
    "panel", "place", "position", "seed", "step", "token",
}  # fmt: skip
#: Titles that add nothing to what follows them.
_SILENT = {"of", "name"}
_ERROR = "standard error"


def _write_expression(tooltip: list[dict[str, Any]]) -> str:
    """Write an expression of Vega that says a tooltip as a sentence, what has no value left out.

    It says which mark it is, then what it shows: "layer 3, head 9: previous, 0.91 ± 0.02; n 313".
    """
    names, shown = list[str](), list[str]()
    for line in tooltip:
        field, title = line["field"], line.get("title", line["field"])
        name = f"{line['aggregate']}_{field}" if "aggregate" in line else field
        cell = said = f"datum[{json.dumps(name)}]"
        if line["type"] == "quantitative" and "format" in line:
            said = f"format({cell}, {json.dumps(line['format'])})"
        elif line["type"] == "quantitative":
            said = _NUMBER.format(cell)
        if title == _ERROR and shown:
            shown[-1] = f"{shown[-1][: -len(_NOTHING)]} + {_say_if_valid(cell, ' ± ', said)}{_NOTHING}"
        elif field in _PLACES and line["type"] != "quantitative":
            names.append(_say_if_valid(cell, ", " if title in _SILENT else f", {title} ", said))
        elif field in _PLACES and not shown:  # a step on an axis
            names.append(_say_if_valid(cell, f", {title} ", said))
        else:
            comma = " " if shown or line["type"] != "quantitative" else ", "
            shown.append(_say_if_valid(cell, f"; {title}{comma}", said))
    marks, numbers = (" + ".join(some) or "''" for some in (names, shown))
    if not names or not shown:
        return f"slice({marks if names else numbers}, 2)"
    return f"slice({marks}, 2) + (length({numbers}) > 0 ? ': ' + slice({numbers}, 2) : '')"


#: Ends what is said only where there is a value.
_NOTHING = " : '')"


def _say_if_valid(cell: str, before: str, said: str) -> str:
    return f"(isValid({cell}) && {cell} !== '' ? {json.dumps(before)} + {said}{_NOTHING}"


@dataclass(frozen=True)
class Picture(Saveable):
    """A picture of a table.

    Attributes:
        kind: Which kind of picture, such as ``"heatmap"``.
        title: What stands above it.
        chart: The chart, an object of altair, to be changed with its grammar; without the theme.
        theme: Colours and sizes.
        clustered: What tabulates the clusters of a tree of heads.
    """

    endings: ClassVar[Sequence[str]] = tuple(FORMATS)

    kind: str
    title: str
    chart: Any = field(repr=False)
    theme: Theme = field(repr=False)
    clustered: Callable[[], HeadTable] | None = field(default=None, repr=False)

    @cached_property
    def spec(self) -> dict[str, Any]:
        """The chart as Vega-Lite: a dict of plain values, with its data and its theme."""
        return {**describe_marks(self.chart.to_dict(validate=False)), "config": self.theme.config()}

    @cached_property
    def clusters(self) -> HeadTable:
        """Which head is in which cluster, as a table: of a tree of heads.

        Raises:
            AttnprobeError: When this picture is none.
        """
        if self.clustered is None:
            raise AttnprobeError(
                f"a picture of kind {self.kind} has no clusters; kind='dendrogram' of a table of distance "
                "between all pairs of heads has"
            )
        return self.clustered()

    def rendered(self, format: str) -> bytes:
        """Give the picture as bytes of a format: svg, png, pdf or html."""
        if format in {"png", "pdf"}:
            _warn_of_missing_font(self.theme.font)
        return FORMATS[format](self.spec)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """Show the picture in a notebook: svg, as wide as its cell at most; png where svg is not trusted."""
        import base64

        fitting = '<svg style="max-width: 100%; height: auto"'
        return {
            "image/svg+xml": self.rendered("svg").decode().replace("<svg", fitting, 1),
            "image/png": base64.b64encode(self.rendered("png")).decode(),
            "text/plain": repr(self),
        }
