"""What a page may run, and nothing else: scripts, styles and charts, and the policy that names them.

A page is safe by three walls. Every string of the page itself is escaped by jinja2. Charts lie in blocks of
data, in which no ``<`` is left that could end them. And a policy in the page's head lets only the scripts run
whose hashes it names, and forbids every request: ``default-src 'none'``.
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from markupsafe import Markup

#: What could end a block of data, or begin something in it; and line ends of JavaScript that json allows.
_ESCAPED = {character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


@dataclass(frozen=True)
class Blocks:
    """What stands in a page for a set of charts.

    Attributes:
        policy: The content of ``<meta http-equiv="Content-Security-Policy">``, to stand first in the head.
        head: Styles, for the end of the head.
        places: For each chart, where it is drawn and its data; each goes where the chart is to be.
        scripts: What draws them, for the end of the body.
    """

    policy: str
    head: Markup
    places: Sequence[Markup]
    scripts: Markup


def blocks_of(
    charts: Sequence[Mapping[str, Any]], *, styles: Sequence[str] = (), scripts: Sequence[str] = ()
) -> Blocks:
    """Give the blocks of a page with some charts.

    Args:
        charts: Vega-Lite, as ``Picture.spec`` gives it.
        styles: Style sheets of the page's own.
        scripts: Scripts of the page's own; they run last.
    """
    sheets = [_own("charts.css"), *styles]
    programs = [library(), _own("charts.js"), *scripts] if charts else list(scripts)
    for program in programs:
        _check(program, "script")
    for sheet in sheets:
        _check(sheet, "style")
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src {' '.join(map(_hash, programs)) or repr('none')}",
            f"style-src {' '.join(map(_hash, sheets))}",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    return Blocks(
        policy,
        Markup("\n").join(Markup("<style>{}</style>").format(Markup(sheet)) for sheet in sheets),
        [
            Markup(
                '<figure class="chart" id="chart-{0}"></figure>\n'
                '<script type="application/json" class="spec" data-chart="chart-{0}">{1}</script>'
            ).format(number, data_block(chart))
            for number, chart in enumerate(charts, start=1)
        ],
        Markup("\n").join(Markup("<script>{}</script>").format(Markup(program)) for program in programs),
    )


def data_block(value: Any) -> Markup:
    r"""Write a value as json that can stand in ``<script type="application/json">``, whatever it holds.

    >>> print(data_block({"name": "</script><script>alert(1)"}))
    {"name":"\u003c/script\u003e\u003cscript\u003ealert(1)"}
    """
    said = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(said.translate(str.maketrans(_ESCAPED)))


@cache
def library() -> str:
    """Give Vega, Vega-Lite and Vega-Embed as one script, as vl-convert brings them along."""
    import vl_convert

    from attnprobe.report.pictures.rendering import VERSION

    # Within a script, "<\/script" is as good as "</script" and does not end it.
    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VERSION)
    return bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _own(name: str) -> str:
    return files("attnprobe.report.page").joinpath(name).read_text(encoding="utf-8")


def _check(content: str, kind: str) -> None:
    """Refuse a block of ours that would end early; no string of a stranger ever gets into one."""
    if f"</{kind}" in content.lower() or "<!--" in content:
        raise ValueError(f"a {kind} can't hold its own end")


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
