"""One HTML file that holds all it needs, and a policy that lets nothing else in."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

#: What JSON inside a script must not hold, though it could: what ends a script, or begins a comment.
_MARKUP = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def filled(package: str, template: str, style: str, scripts: Sequence[str], **values: Any) -> str:
    """Fill a template that lies in a package, with its style and scripts inside.

    The policy allows this style and this script by their SHA-256, pictures inside the page, and nothing else:
    no network, no other script, no plug-in, no form.

    Args:
        package: Where template, style and scripts lie.
        template: The name of the template; it puts ``policy``, ``style`` and ``script`` in their places.
        style: The name of the style sheet.
        scripts: The names of the scripts, which become one.
        values: What else the template asks for; strings are escaped, ``data_script`` makes what is not.
    """
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    folder = files(package)
    css, sources = (
        (folder / style).read_text("utf-8"),
        [(folder / name).read_text("utf-8") for name in scripts],
    )
    script = '"use strict";\n(() => {\n' + "\n".join(sources) + "})();\n"
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src 'sha256-{_digest(script)}'",
            f"style-src 'sha256-{_digest(css)}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True
    )
    page = environment.from_string((folder / template).read_text("utf-8"))
    return page.render(policy=policy, style=Markup(css), script=Markup(script), **values)


def data_script(name: str, content: Mapping[str, Any]) -> Any:
    r"""Put data into a page, as JSON that no markup can end.

    >>> print(data_script("data", {"token": "</script>"}))
    <script type="application/json" id="data">{"token":"\u003c/script\u003e"}</script>
    """
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    for character, code in _MARKUP.items():
        text = text.replace(character, code)
    return _script("application/json", name, text)


def bytes_script(name: str, base64_text: str) -> Any:
    """Put bytes into a page, as base64."""
    if not re.fullmatch(r"[A-Za-z0-9+/=]*", base64_text):
        raise ValueError("this is no base64")
    return _script("application/octet-stream", name, base64_text)


def _script(kind: str, name: str, text: str) -> Any:
    from markupsafe import Markup

    return Markup(f'<script type="{kind}" id="{name}">{text}</script>')


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
