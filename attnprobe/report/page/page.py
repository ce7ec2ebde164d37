"""Pages from templates, every string in them escaped."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnprobe.report.page.scripts import blocks_of
from attnprobe.table.cells import clean

if TYPE_CHECKING:
    from jinja2 import Environment


@cache
def environment() -> "Environment":
    """Give the templates of this folder; they escape what they are given, and miss no name in silence."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )


def picture_page(spec: Mapping[str, Any]) -> str:
    """Write a page of a single chart."""
    config = spec.get("config", {})
    style = f"body {{ margin: 12px; background: {config.get('background', '#ffffff')}; }}"
    title = spec.get("title", "")
    said = title.get("text", "") if isinstance(title, Mapping) else title
    return (
        environment()
        .get_template("picture.html.j2")
        .render(title=clean(str(said)) or "attnprobe", blocks=blocks_of([spec], styles=[style]))
    )
