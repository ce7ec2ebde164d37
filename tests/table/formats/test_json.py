import json

import numpy as np


def _strictly(text: str):
    def refuse(constant):
        raise ValueError(constant)

    return json.loads(text, parse_constant=refuse)


def test_everything_is_there_and_comes_back_exactly(heads):
    values = np.random.default_rng(0).standard_normal(4)
    values[1] = np.nan
    table = heads(2, 2, entropy=values)
    content = _strictly(table.render("json").decode())
    assert list(content) == ["title", "columns", "notes", "provenance", "rows"]
    assert content["columns"][5] == {
        **{"name": "entropy", "unit": "nats", "role": "measure"},
        **{"headline": False, "title": ""},
    }
    assert [row["entropy"] for row in content["rows"]] == [values[0], None, values[2], values[3]]
    assert [row["layer"] for row in content["rows"]] == [0, 0, 1, 1]
    assert content["notes"] == ["Entropy falls with depth."]
    assert content["provenance"] == {"seed": 42, "command": "attnprobe entropy demo", "weights": None}
