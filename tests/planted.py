"""Plant small faults in a copy of the package, one after the other, and see that tests catch each.

    python tests/planted.py check            (every fault has its place, and its tests are there)
    python tests/planted.py run              (all of them)
    python tests/planted.py run sums kernels (those whose names begin so)

What a change of the tests may cost is told by running this before and after it. The faults stand in
planted.txt; each is found by its text, so that it moves with the code. ``run`` exits with 1 and names those
that survive. Tests that fail without a fault tell nothing: run it where the suite is green.
"""

import ast
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: Seconds after which tests of a fault are taken to hang, which tells of it too.
LONGEST = 300


@dataclass(frozen=True)
class Fault:
    """What is written in place of what, and which tests (arguments of pytest) fail then."""

    name: str
    old: str
    new: str
    tests: str

    def place(self, root: Path) -> Path:
        """Find the one file of the package that has its text.

        Raises:
            LookupError: When none has it, or it is there more than once.
        """
        found = {path: path.read_text("utf-8").count(self.old) for path in (root / "attnprobe").rglob("*.py")}
        places = {path: count for path, count in found.items() if count}
        if sum(places.values()) != 1:
            named = ", ".join(f"{path.relative_to(root)} ({count})" for path, count in places.items())
            raise LookupError(f"{self.name}: {self.old!r} is in {named or 'no file'}")
        return next(iter(places))


def read_faults() -> list[Fault]:
    """Read the list of faults: blocks of a name and its tests, lines that go, and lines that come."""
    faults = []
    for block in (ROOT / "tests" / "planted.txt").read_text("utf-8").split("\n\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        if lines:
            name, _, tests = lines[0].partition(": ")
            old, new = ("\n".join(line[2:] for line in lines[1:] if line[0] == sign) for sign in "-+")
            faults.append(Fault(name, old, new, tests))
    return faults


def wrong_places(faults: list[Fault], root: Path = ROOT) -> Iterator[str]:
    """Name faults that can't be planted: without a place, without tests, or of no consequence."""
    for name, number in Counter(fault.name for fault in faults).items():
        if number > 1:
            yield f"{name}: {number} faults have this name"
    for fault in faults:
        try:
            path = fault.place(root)
        except LookupError as error:
            yield str(error)
            continue
        text = path.read_text("utf-8")
        try:
            changed = ast.dump(ast.parse(text)) != ast.dump(ast.parse(text.replace(fault.old, fault.new)))
        except SyntaxError as error:
            yield f"{fault.name}: what it puts there is no Python: {error}"
            continue
        if not changed:
            yield f"{fault.name}: it changes nothing"
        words = shlex.split(fault.tests)
        named = [
            word for word in words if word.startswith(("tests/", "attnprobe/"))
        ]  # of the latter, doctests
        if missing := [word for word in named if not (root / word).exists()]:
            yield f"{fault.name}: there is no {', '.join(missing)}"
        if not named:
            yield f"{fault.name}: no tests are named"


@contextmanager
def copied() -> Iterator[Path]:
    """Copy what git knows of, or would, to a temporary folder."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        for file in filter(None, files):
            if (ROOT / file).is_file():
                (Path(folder) / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / file, Path(folder) / file)
        yield Path(folder).resolve()


@contextmanager
def planted(fault: Fault, root: Path) -> Iterator[None]:
    """Put a fault into its file, and take it out again."""
    path = fault.place(root)
    text, then = path.read_text("utf-8"), path.stat()
    path.write_text(text.replace(fault.old, fault.new), "utf-8")
    try:
        yield
    finally:
        path.write_text(text, "utf-8")
        os.utime(path, (then.st_atime, then.st_mtime))


def in_a_process(work: Callable[[], int], log: Path) -> int | None:
    """Do work in a copy of this process, which has loaded the libraries; None if it takes too long."""
    process = os.fork()
    if not process:
        os.setsid()
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        code = 3
        try:
            code = work()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)  # or the folder would be removed by this process, too
    latest = time.monotonic() + LONGEST
    while time.monotonic() < latest:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return None


def tested(fault: Fault, root: Path) -> int:
    """Run the tests of a fault in its folder; the exit code of pytest."""
    import pytest

    os.chdir(root)
    sys.path.insert(0, str(root))
    loaded = "ignore::pytest.PytestAssertRewriteWarning"  # of plugins that libraries load, too
    options = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-W", loaded]
    return int(pytest.main([*options, *shlex.split(fault.tests)]))


def run(faults: list[Fault]) -> int:
    """Plant one fault after the other, and say of each whether tests caught it."""
    os.environ |= {"OMP_NUM_THREADS": "1"}
    import pytest  # noqa: F401 - once for all processes
    import torch  # noqa: F401
    from transformers import AutoModel, modeling_utils  # noqa: F401

    survived = []
    with copied() as root:
        log = root / "planted.log"
        for fault in faults:
            # numba asks whether the file of a loop has changed, not the files of what is inlined into it
            loops = fault.name if "numba" in fault.place(root).read_text("utf-8") else "as-they-are"
            os.environ |= {"PYTHONPATH": str(root), "NUMBA_CACHE_DIR": str(root / "numba" / loops)}
            begun = time.monotonic()
            with planted(fault, root):
                code = in_a_process(lambda fault=fault: tested(fault, root), log)
            # 1: a test failed; 2: a file could not be loaded; None or a signal: it hung or broke
            caught = code not in {0, 3, 4, 5}
            said = (
                "caught"
                if caught
                else "SURVIVED"
                if code == 0
                else f"NOT TESTED (pytest's exit code is {code})"
            )
            failing = [line for line in log.read_text().splitlines() if line.startswith(("FAILED", "ERROR"))]
            first = failing[0].split(" - ")[0] if failing else f"exit code {code}"
            print(f"{fault.name}: {said} in {time.monotonic() - begun:.0f} s ({first})", flush=True)
            if not caught:
                survived.append(fault.name)
                print(log.read_text()[-600:] if code else "", flush=True)
    print(
        f"{len(faults) - len(survived)} of {len(faults)} caught" + (f"; not {survived}" if survived else "")
    )
    return 1 if survived else 0


def main(words: list[str]) -> int:
    """Check or run all faults, or those whose names begin with a word."""
    task, *names = words or ["check"]
    faults = [fault for fault in read_faults() if not names or fault.name.startswith(tuple(names))]
    if wrong := list(wrong_places(faults)):
        print(*wrong, sep="\n")
        return 1
    print(f"{len(faults)} faults, each with its place")
    return run(faults) if task == "run" else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
