"""Every test of pictures and reports draws the same numbers, whichever tests ran before it."""

import numpy as np
import picture_tables
import pytest


@pytest.fixture(autouse=True)
def _the_same_numbers(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(picture_tables, "DRAW", np.random.default_rng(11))
