"""A lean import of transformers leaves out what costs time, and changes no number."""

import json
import subprocess
import sys
from typing import Any

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

HEAVY = ["scipy.optimize", "torch.distributed.tensor", "torch._dynamo.convert_frame"]
OUTGROWN = "a library has outgrown attnprobe/model/lean.py: measure anew, then mend it or take it away"


def ran(before: str = "", after: str = "") -> dict[str, Any]:
    script = SCRIPT.format(before=before, after=after, heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


#: What it keeps away is still imported without it, and what it stands in for is still there.
CHECK = """
import importlib, importlib.util, torch, transformers
real, utils = importlib.import_module(lean.COMPILER), importlib.import_module("transformers.utils")
lacking = [name for name in lean.DECORATORS if not callable(getattr(real, name, None))]
lacking += [name for name in (lean.SLOW, lean.INDEXING) if importlib.util.find_spec(name) is None]
scanner = importlib.import_module(lean.SCANNER)
lacking += [name for name in (lean.SCAN, lean.READ_NAMES) if not callable(getattr(scanner, name, None))]
lacking += [] if callable(getattr(utils, lean.SCIPY, None)) else [lean.SCIPY]
lacking += [] if callable(getattr(torch.distributed, "is_available", None)) else ["is_available"]
assert not lacking, lacking
"""
#: The compiler is there for whoever wants it.
COMPILED = """
kept_away = [name for name in {heavy} if name not in sys.modules]
assert kept_away == {heavy}, (kept_away, "{outgrown}")
import torch
double = torch.compile(lambda x: 2 * x, backend="eager")
assert double(torch.ones(2)).tolist() == [2, 2]
assert torch._dynamo.config.suppress_errors is False
"""


@pytest.fixture(scope="module")
def usual() -> dict[str, Any]:
    return ran(after=CHECK)


def test_no_library_has_outgrown_it(usual: dict[str, Any]):
    assert usual["heavy"] == HEAVY, OUTGROWN


def test_nothing_heavy_and_the_same_numbers(usual: dict[str, Any]):
    assert ran("lean.install()", COMPILED.format(heavy=HEAVY, outgrown=OUTGROWN))["csv"] == usual["csv"]


def test_tensors_shared_among_machines_can_be_imported_afterwards(usual: dict[str, Any]):
    """The hub's own library imports them to save a checkpoint; a second attempt made torch warn."""
    after = """
import inspect, torch
inspect.getmodule(inspect.currentframe())
assert "torch._dynamo.convert_frame" not in sys.modules
from torch.distributed.tensor import DTensor
import torch._dynamo.config
"""
    assert ran("lean.install()", after)["csv"] == usual["csv"]


def test_a_version_that_needs_what_is_away_is_imported_as_usual(usual: dict[str, Any]):
    before = """
import importlib.abc, importlib.machinery
lean.install()
class Fussy(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "transformers.loss.loss_utils":
            import torch
            if not torch.distributed.is_available():
                raise ImportError("needs tensors shared among machines")
sys.meta_path.insert(0, Fussy())
"""
    found = ran(before)
    assert found["csv"] == usual["csv"]
    assert "torch._dynamo.convert_frame" in found["heavy"]


STRUCTURE = """
import hashlib, json, pathlib, sys
from attnprobe.model import lean
{before}
import transformers
scanner = sys.modules[lean.SCANNER]
read = []
names = getattr(scanner, lean.READ_NAMES)
setattr(scanner, lean.READ_NAMES, lambda content: read.append(content) or names(content))
folder = pathlib.Path(transformers.__file__).parent / "models"
scan = getattr(scanner, lean.SCAN)
found = [scan(str(folder)), scan(str(folder / "__init__.py"))]
assert found[0] == found[1]
said = sorted((folder, str(sorted(map(str, needs))), name, sorted(kinds))
    for folder, parts in found[0].items() for needs, files in parts.items() if isinstance(files, dict)
    for name, kinds in files.items())
print(json.dumps([hashlib.sha256(json.dumps(said).encode()).hexdigest(), len(said), len(read),
    sorted(dir(transformers))]))
"""


def test_files_are_scanned_once_and_say_the_same():
    """Every model file gives the same names, whether it is read from its end or line by line."""
    (digest, files, again, names), usual = (
        json.loads(
            subprocess.run(
                [sys.executable, "-c", STRUCTURE.format(before=before)],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
        for before in ("lean.install()", "")
    )
    assert (digest, files, names) == (usual[0], usual[1], usual[3])
    assert files > 1000
    assert again == 0


@pytest.mark.parametrize("installed", [True, False])
def test_circles_are_looked_for_as_usual_once_a_model_is_loaded(installed: bool):
    before = "lean.install()" if installed else ""
    script = f"""
import gc
usual = gc.get_threshold()
from attnprobe.model import lean
{before}
assert (gc.get_threshold() != usual) is {installed}
from attnprobe.model.load import load_checkpoint
load_checkpoint("demo")
assert gc.get_threshold() == usual
assert (gc.get_freeze_count() > 100_000) is {installed}
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
