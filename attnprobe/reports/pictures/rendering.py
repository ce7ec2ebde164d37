"""A chart as bytes: svg, png, pdf, or a page; without a browser, and without a network."""

import hashlib
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any

from attnprobe.errors import AttnprobeError, first_line
from attnprobe.reports import graphics

_ID = re.compile(r'\sid="([^"]+)"')
_ID_OR_USE = re.compile(r'(\sid="|url\(#|href="#)([^")]+)("|\))')

Spec = Mapping[str, Any]


def svg(spec: Spec) -> bytes:
    """Render as svg; text stays text, in a font that has the same widths everywhere (see ``theme.FONT``)."""
    return _named_by_content(_rendered(spec)).encode()


def png(spec: Spec) -> bytes:
    """Render as png."""
    return graphics.png(_rendered(spec))


def pdf(spec: Spec) -> bytes:
    """Render as pdf, fonts embedded."""
    return graphics.pdf(_rendered(spec))


def html(spec: Spec) -> bytes:
    """Render as a page of its own: interactive, and complete without a network."""
    from attnprobe.reports.page.document import render_chart_page

    return render_chart_page(spec).encode()


FORMATS: dict[str, Callable[[Spec], bytes]] = {"svg": svg, "png": png, "pdf": pdf, "html": html}


def warm_up(format: str) -> None:
    """Start the renderer beside other work, such as imports: its engine takes a while to wake."""
    threading.Thread(target=_woken, args=(format,), daemon=True).start()


def _woken(format: str) -> None:
    if format == "html":
        from attnprobe.reports.page.document import load_vega

        load_vega()
    else:
        _rendered({"data": {"values": []}, "mark": "point"})


def _named_by_content(content: str) -> str:
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


def _rendered(spec: Spec) -> str:
    import vl_convert

    try:
        # No address is allowed: whatever a spec holds, nothing is fetched.
        return vl_convert.vegalite_to_svg(dict(spec), vl_version=graphics.VEGA_LITE, allowed_base_urls=[])
    except ValueError as error:
        raise AttnprobeError(f"the picture could not be drawn: {first_line(error)}") from error
