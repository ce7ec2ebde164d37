"""A lean import of transformers leaves out what costs time, and changes no number."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

SCRIPT = """
import json, sys
from attnprobe.model import lean
{before}
import attnprobe
table = attnprobe.census("demo", ["The parcel came late.", "She signed for it, grumbling."], threads=1)
{after}
heavy = {heavy}
print(json.dumps({{"csv": table.to_csv(), "heavy": [name for name in heavy if name in sys.modules]}}))
"""

HEAVY = ["torch._dynamo.convert_frame"]


def ran(before="", after=""):
    script = SCRIPT.format(before=before, after=after, heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_nothing_heavy_and_the_same_numbers():
    """What is kept away can be imported afterwards."""
    usual = ran()
    assert usual["heavy"] == HEAVY
    after = f"""
assert not [name for name in {HEAVY} if name in sys.modules]
import torch
double = torch.compile(lambda x: 2 * x, backend="eager")
assert double(torch.ones(2)).tolist() == [2, 2]
import torch._dynamo.convert_frame
"""
    assert ran("lean.install()", after)["csv"] == usual["csv"]


def test_circles_are_looked_for_as_usual_once_a_model_is_loaded():
    script = """
import gc
usual = gc.get_threshold()
from attnprobe.model import lean
lean.install()
assert gc.get_threshold() != usual
from attnprobe.model.load import load_checkpoint
load_checkpoint("demo")
assert gc.get_threshold() == usual
assert gc.get_freeze_count() > 100_000
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
