"""Charts in a page: what draws them, where each is drawn, and its data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from markupsafe import Markup

from attnprobe.reports.page.document import asset, data_block, enclosed
from attnprobe.reports.rendering import VEGA_LITE


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
    programs = [library(), _own("charts.js"), *scripts] if charts else list(scripts)
    page = enclosed([_own("charts.css"), *styles], programs)
    places = [
        Markup(
            '<figure class="chart" id="chart-{0}" tabindex="0"></figure>\n'
            '<script type="application/json" class="spec" data-chart="chart-{0}">{1}</script>'
        ).format(number, data_block(chart))
        for number, chart in enumerate(charts, start=1)
    ]
    return Blocks(page.policy, page.styles, places, page.scripts)


@cache
def library() -> str:
    """Give Vega, Vega-Lite and Vega-Embed as one script, as vl-convert brings them along."""
    import vl_convert

    # Within a script, "<\/script" is as good as "</script" and does not end it.
    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VEGA_LITE)
    return bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _own(name: str) -> str:
    return asset("attnprobe.reports.page", name)
