"""The page of a single chart."""

from collections.abc import Mapping
from typing import Any

from attnprobe.reports.page.document import environment
from attnprobe.reports.page.scripts import blocks_of
from attnprobe.table.cleaning import clean


def picture_page(spec: Mapping[str, Any]) -> str:
    """Write a page of a single chart."""
    config = spec.get("config", {})
    style = f"body {{ margin: 12px; background: {config.get('background', '#ffffff')}; }}"
    title = spec.get("title", "")
    said = title.get("text", "") if isinstance(title, Mapping) else title
    return (
        environment("attnprobe.reports.page")
        .get_template("picture.html.j2")
        .render(title=clean(str(said)) or "attnprobe", blocks=blocks_of([spec], styles=[style]))
    )
