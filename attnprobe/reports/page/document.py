"""One HTML file that holds all it needs, and a policy that lets nothing else in.

A page is safe by three walls. Every string of the page itself is escaped by jinja2. Data lie in blocks, in
which nothing is left that could end them. And a policy in the page's head lets only the scripts run whose
hashes it names, and forbids every request: ``default-src 'none'``.
"""

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

if TYPE_CHECKING:
    from jinja2 import Environment

#: What could end a block of data, or begin something in it, though JSON may hold it.
_ESCAPED = {ord(character): f"\\u{ord(character):04x}" for character in "<>&"}


def framed(page: str, title: str, height: int) -> str:
    """Show a page within another, in a frame that keeps its scripts away from those of the other.

    Args:
        page: The whole page.
        title: What a screen reader says of the frame.
        height: Of the frame, in pixels.
    """
    frame = Markup(
        '<iframe title="{}" sandbox="allow-scripts allow-downloads" '
        'style="width: 100%; height: {}px; border: 0" srcdoc="{}"></iframe>'
    )
    return str(frame.format(title, height, page))


@dataclass(frozen=True)
class Enclosed:
    """Styles and scripts of a page, and the policy that allows them alone.

    Attributes:
        policy: The content of ``<meta http-equiv="Content-Security-Policy">``, to stand first in the head.
        styles: For the end of the head.
        scripts: For the end of the body.
    """

    policy: str
    styles: Markup
    scripts: Markup


def enclosed(styles: Sequence[str], scripts: Sequence[str]) -> Enclosed:
    """Allow some styles and scripts by their SHA-256, pictures inside the page, and nothing else.

    Raises:
        ValueError: When one of them would end its own block. No string of a stranger ever gets into one.
    """
    for kind, contents in (("style", styles), ("script", scripts)):
        for content in contents:
            if f"</{kind}" in content.lower() or "<!--" in content:
                raise ValueError(f"a {kind} can't hold its own end")
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src {' '.join(map(_hash, scripts)) or repr('none')}",
            f"style-src {' '.join(map(_hash, styles)) or repr('none')}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    return Enclosed(
        policy,
        Markup("\n").join(Markup("<style>{}</style>").format(Markup(style)) for style in styles),
        Markup("\n").join(Markup("<script>{}</script>").format(Markup(script)) for script in scripts),
    )


@cache
def environment(package: str) -> "Environment":
    """Give the templates of a package; they escape what they are given, and miss no name in silence."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    return Environment(
        loader=FunctionLoader(lambda name: asset(package, name)),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def filled(package: str, template: str, style: str, scripts: Sequence[str], **values: Any) -> str:
    """Fill a template that lies in a package, with a style and scripts inside.

    Args:
        package: Where the template lies.
        template: The name of the template; it puts ``page.policy``, ``page.styles`` and ``page.scripts`` in
            their places.
        style: A style sheet.
        scripts: Scripts, which become one.
        values: What else the template asks for; strings are escaped, ``data_script`` makes what is not.
    """
    script = '"use strict";\n(() => {\n' + "\n".join(scripts) + "})();\n"
    return environment(package).get_template(template).render(page=enclosed([style], [script]), **values)


def asset(package: str, name: str) -> str:
    """Read a file that lies in a package."""
    return files(package).joinpath(name).read_text(encoding="utf-8")


def data_block(value: Any) -> Markup:
    r"""Write a value as json that can stand in ``<script type="application/json">``, whatever it holds.

    >>> print(data_block({"name": "</script><script>alert(1)"}))
    {"name":"\u003c/script\u003e\u003cscript\u003ealert(1)"}
    """
    return Markup(json.dumps(value, allow_nan=False, separators=(",", ":")).translate(_ESCAPED))


def data_script(name: str, content: Any) -> Markup:
    r"""Put data into a page, as JSON that no markup can end.

    >>> print(data_script("data", {"token": "</script>"}))
    <script type="application/json" id="data">{"token":"\u003c/script\u003e"}</script>
    """
    return _script("application/json", name, data_block(content))


def bytes_script(name: str, base64_text: str) -> Markup:
    """Put bytes into a page, as base64."""
    if not re.fullmatch(r"[A-Za-z0-9+/=]*", base64_text):
        raise ValueError("this is no base64")
    return _script("application/octet-stream", name, Markup(base64_text))


def _script(kind: str, name: str, content: Markup) -> Markup:
    return Markup('<script type="{}" id="{}">{}</script>').format(kind, name, content)


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
