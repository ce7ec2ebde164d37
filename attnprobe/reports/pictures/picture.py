"""A picture: a chart that shows itself in a notebook, and goes into files."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from attnprobe.errors import AttnprobeError
from attnprobe.reports.rendering import FORMATS
from attnprobe.reports.theme import Theme
from attnprobe.table.destination import Saveable
from attnprobe.table.head_table import HeadTable

#: A number without a format of its own: whole ones in full, others as tables print them.
_NUMBER = "({0} % 1 === 0 ? '' + {0} : format({0}, '.4~g'))"


def describe_marks(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Give each mark of a chart the text of its tooltip for screen readers, which skip marks without one."""
    changed = {name: _describe_within(part) for name, part in spec.items()}
    if "mark" not in spec:
        return changed
    encoding, mark = dict(changed.get("encoding", {})), changed["mark"]
    tooltip = encoding.get("tooltip")
    if isinstance(tooltip, list) and tooltip:
        encoding["description"] = {"value": {"expr": _write_expression(tooltip)}}
        return {**changed, "encoding": encoding}
    return {**changed, "mark": {**(mark if isinstance(mark, dict) else {"type": mark}), "aria": False}}


def _describe_within(part: Any) -> Any:
    if isinstance(part, dict) and "values" not in part:  # data are no charts
        return describe_marks(part)
    return [_describe_within(one) for one in part] if isinstance(part, list) else part


def _write_expression(tooltip: list[dict[str, Any]]) -> str:
    """Write an expression of Vega that joins the lines of a tooltip, those without a value left out."""
    lines = []
    for line in tooltip:
        name = f"{line['aggregate']}_{line['field']}" if "aggregate" in line else line["field"]
        cell = said = f"datum[{json.dumps(name)}]"
        if line["type"] == "quantitative" and "format" in line:
            said = f"format({cell}, {json.dumps(line['format'])})"
        elif line["type"] == "quantitative":
            said = _NUMBER.format(cell)
        title = json.dumps(f"; {line.get('title', line['field'])}: ")
        lines.append(f"(isValid({cell}) && {cell} !== '' ? {title} + {said} : '')")
    return f"slice({' + '.join(lines)}, 2)"


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
        return FORMATS[format](self.spec)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """Show the picture in a notebook: svg, small and complete; png where svg is not trusted."""
        import base64

        return {
            "image/svg+xml": self.rendered("svg").decode(),
            "image/png": base64.b64encode(self.rendered("png")).decode(),
            "text/plain": repr(self),
        }
