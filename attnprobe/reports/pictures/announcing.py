"""What a screen reader says of each mark of a chart: what its tooltip shows, with the same few digits.

Vega would read out every number to its last digit, and error bars and frames apart from what they belong to.
"""

import json
from collections.abc import Mapping
from typing import Any

#: A number without a format of its own: whole ones in full, others as tables print them.
_NUMBER = "({0} % 1 === 0 ? '' + {0} : format({0}, '.4~g'))"


def announced(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Give a chart in which marks say what their tooltip shows; marks without one are silent."""
    changed = {name: _within(part) for name, part in spec.items()}
    if "mark" not in spec:
        return changed
    encoding, mark = dict(changed.get("encoding", {})), changed["mark"]
    tooltip = encoding.get("tooltip")
    if isinstance(tooltip, list) and tooltip:
        encoding["description"] = {"value": {"expr": _expression(tooltip)}}
        return {**changed, "encoding": encoding}
    return {**changed, "mark": {**(mark if isinstance(mark, dict) else {"type": mark}), "aria": False}}


def _within(part: Any) -> Any:
    if isinstance(part, dict) and "values" not in part:  # data are no charts
        return announced(part)
    return [_within(one) for one in part] if isinstance(part, list) else part


def _expression(tooltip: list[dict[str, Any]]) -> str:
    """Write an expression of Vega that joins the lines of a tooltip, those without a value left out."""
    lines = []
    for line in tooltip:
        name = f"{line['aggregate']}_{line['field']}" if "aggregate" in line else line["field"]
        cell = f"datum[{json.dumps(name)}]"
        said = cell
        if line["type"] == "quantitative":
            said = (
                f"format({cell}, {json.dumps(line['format'])})" if "format" in line else _NUMBER.format(cell)
            )
        title = json.dumps(f"; {line.get('title', line['field'])}: ")
        lines.append(f"(isValid({cell}) && {cell} !== '' ? {title} + {said} : '')")
    return f"slice({' + '.join(lines)}, 2)"
