"""A chart as bytes: svg, png, pdf, or a page; without a browser, and without a network."""

import hashlib
import re
import threading
import warnings
from collections.abc import Callable, Mapping
from html import unescape
from typing import Any

from attnprobe.errors import AttnprobeError, AttnprobeWarning, first_line

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
    from attnprobe.reports.page.document import render_chart_page

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
        from attnprobe.reports.page.document import load_vega

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


def _draw_svg(spec: Spec) -> str:
    import vl_convert

    try:
        # No address is allowed: whatever a spec holds, nothing is fetched.
        return vl_convert.vegalite_to_svg(dict(spec), vl_version=VEGA_LITE, allowed_base_urls=[])
    except ValueError as error:
        raise AttnprobeError(f"the picture could not be drawn: {first_line(error)}") from error
