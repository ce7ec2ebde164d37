"""Attention by offset against loops over the eager maps of models that others wrote."""

import numpy as np
import pytest
from by_definition import Heard, Sample, largest_difference, read
from test_media_reference import listen

import attnprobe
from attnprobe.table.naming import REACH, REACH_IN_PATCHES, list_offsets


def name_cell(heard: Heard, query: int, key: int) -> str | None:
    """Name the column that attention from one token to another counts for."""
    if heard.keys.special[key]:
        return "first" if key == 0 and (heard.grid is None or heard.keys.first[key]) else "special"
    if heard.grid is not None:
        start, rows, columns = heard.grid
        if not start <= query < start + rows * columns:
            return None  # no patch: it lies nowhere
        down, right = np.array(divmod(key - start, columns)) - divmod(query - start, columns)
        near = max(abs(down), abs(right)) <= REACH_IN_PATCHES
        return f"{down}_{right}" if near else "beyond"
    if key == 0:
        return "first"
    if heard.kind == "cross":
        return None
    offset = key - query
    return str(offset) if abs(offset) <= REACH else "before" if offset < 0 else "after"


def profile_of(heard: Heard, *, content_only: bool) -> dict[str, np.ndarray]:
    """Go from query to query, from key to key; (layer, head) of each column that is defined."""
    masses_of: dict[str, list[np.ndarray]] = {}
    for query in range(len(heard.queries.names)):
        if content_only and heard.queries.special[query]:
            continue
        seen = [
            key
            for key in range(len(heard.keys.names))
            if not (content_only and heard.keys.special[key])
            and not (heard.kind == "decoder" and key > query)
        ]
        whole = sum(heard.maps[:, :, query, key] for key in seen)
        mine: dict[str, np.ndarray] = {}
        for key in seen:
            if (cell := name_cell(heard, query, key)) is not None:
                mine[cell] = mine.get(cell, 0) + heard.maps[:, :, query, key] / whole
        for cell, mass in mine.items():
            masses_of.setdefault(cell, []).append(mass)
    return {cell: np.mean(masses, 0) for cell, masses in masses_of.items()}


def compare(table, files, *, patches, content_only):
    """Give the largest difference of any column from the mean over sequences of what the loops give."""
    worst = 0.0
    for name, _ in list_offsets(patches=patches):
        values = []
        for text in files:
            kinds = [profile_of(heard, content_only=content_only) for heard in text]
            nothing = [np.full(heard.maps.shape[:2], np.nan) for heard in text]
            values.append(
                np.concatenate([kind.get(name, none) for kind, none in zip(kinds, nothing, strict=True)])
            )
        expected = Sample.of(np.stack(values))
        worst = max(worst, largest_difference(table[f"profile_{name}"], expected.mean))
        worst = max(worst, largest_difference(table[f"profile_{name}_se"], expected.error))
    return worst


@pytest.mark.parametrize(("name", "content_only"), [("bert", False), ("llama", True)])
def test_text(saved, texts, name, content_only):
    folder = saved(name)
    long = [*texts[:6], " ".join(text for text in texts if isinstance(text, str))[:160]]
    table = attnprobe.census(str(folder), long, statistics=["profile"], content_only=content_only)
    files, _ = read(folder, long)
    assert compare(table, files, patches=False, content_only=content_only) < 1e-5
    defined = np.isfinite(table["profile_before"].astype(float))
    assert defined.any()  # or nothing would have been that far away


def test_images(media_model, photos):
    folder = media_model("vit")
    table = attnprobe.census(folder, photos, statistics=["profile"])
    files = list(listen(folder, photos))
    assert compare(table, files, patches=True, content_only=False) < 1e-5
