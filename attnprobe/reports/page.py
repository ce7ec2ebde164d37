"""One HTML file that holds all it needs, with a policy that lets nothing else in."""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from markupsafe import Markup

from attnprobe.reports.theme import VEGA_LITE
from attnprobe.table.cells import clean

#: What could end a block of data, or begin something in it, though JSON may hold it.
_ESCAPED = {ord(character): f"\\u{ord(character):04x}" for character in "<>&"}


def render_page(name: str, **values: Any) -> str:
    """Render a page with the style sheet and the script of its name, after those that pages share.

    Strings among ``values`` are escaped; ``embed_json`` makes what is not.
    """
    style = read_asset("common.css") + read_asset(f"{name}.css")
    # No other script of the page sees the names of this one.
    script = f'"use strict";\n(() => {{\n{read_asset("common.js")}\n{read_asset(f"{name}.js")}}})();\n'
    return _fill_template(name, [style], [script], **values)


def _fill_template(name: str, styles: Sequence[str], scripts: Sequence[str], **values: Any) -> str:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    templates = Environment(
        loader=FunctionLoader(read_asset),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    template = templates.get_template(f"{name}.html.jinja")
    return template.render(page=enclose(styles, scripts), **values)


def render_chart_page(spec: Mapping[str, Any]) -> str:
    """Render a page of a single chart in Vega-Lite, as ``Picture.spec`` gives it."""
    config = spec.get("config", {})
    titles, paper = config.get("title", {}), config.get("background", "#ffffff")
    ink, pale = titles.get("color", "#1a1a1a"), titles.get("subtitleColor", "#57606a")
    style = (
        f"body {{ background: {paper}; color: {ink}; }} .help {{ color: {pale}; }} "
        f".mark {{ border-color: {ink}; outline-color: {paper}; }}"
    )
    title = spec.get("title", "")
    text = title.get("text", "") if isinstance(title, Mapping) else title
    return _fill_template(
        "chart",
        [read_asset("chart.css"), style],
        [load_vega(), read_asset("chart.js")],
        title=clean(text if isinstance(text, str) else " ".join(text)) or "attnprobe",  # or lines of it
        spec=encode_json(spec),
    )


def frame_page(page: str, title: str, height: int) -> str:
    """Show a page within another, in a frame of so many pixels that keeps their scripts apart."""
    frame = Markup(
        '<iframe title="{}" sandbox="allow-scripts allow-downloads" '
        'style="width: 100%; height: {}px; border: 0" srcdoc="{}"></iframe>'
    )
    return str(frame.format(title, height, page))


class Enclosure(NamedTuple):
    """The content of ``<meta http-equiv="Content-Security-Policy">``, and the blocks that it allows alone."""

    policy: str
    styles: Markup
    scripts: Markup


def enclose(styles: Sequence[str], scripts: Sequence[str]) -> Enclosure:
    """Enclose styles and scripts, with a policy that allows these by SHA-256, pictures in the page, no more.

    Raises ValueError when one of them would end its own block. No string of a stranger ever gets into one.
    """
    rules, blocks = ["default-src 'none'", "img-src data:", "base-uri 'none'", "form-action 'none'"], []
    for kind, contents in (("style", styles), ("script", scripts)):
        if any(f"</{kind}" in content.lower() or "<!--" in content for content in contents):
            raise ValueError(f"a {kind} can't hold its own end")
        digests = [hashlib.sha256(content.encode()).digest() for content in contents]
        hashes = [f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests]
        rules.append(f"{kind}-src {' '.join(hashes) or repr('none')}")
        block = Markup(f"<{kind}>{{}}</{kind}>")
        blocks.append(Markup("\n").join(block.format(Markup(content)) for content in contents))
    return Enclosure("; ".join(rules), *blocks)


def read_asset(name: str) -> str:
    """Read a style sheet, a script or a template."""
    return files("attnprobe.reports").joinpath("assets", name).read_text(encoding="utf-8")


@cache
def load_vega() -> str:
    """Give Vega, Vega-Lite and Vega-Embed as one script, as vl-convert brings them along."""
    import vl_convert

    # Within a script, "<\/script" is as good as "</script" and does not end it.
    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VEGA_LITE)
    return bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def encode_json(value: Any) -> Markup:
    r"""Write a value as JSON that can stand in ``<script type="application/json">``, whatever it holds.

    >>> print(encode_json({"name": "</script><script>alert(1)"}))
    {"name":"\u003c/script\u003e\u003cscript\u003ealert(1)"}
    """
    return Markup(json.dumps(value, allow_nan=False, separators=(",", ":")).translate(_ESCAPED))


def embed_json(name: str, value: Any) -> Markup:
    """Put data into a page, as JSON that no markup can end."""
    return Markup('<script type="application/json" id="{}">{}</script>').format(name, encode_json(value))


def embed_bytes(name: str, base64_text: str) -> Markup:
    """Put bytes into a page, as base64."""
    return Markup('<script type="application/octet-stream" id="{}">{}</script>').format(name, base64_text)
