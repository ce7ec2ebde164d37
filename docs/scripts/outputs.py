"""Run the examples on README and the pages of docs/, and write what they print beneath them.

    python docs/scripts/outputs.py [PAGE ...]

A page may also be a notebook of examples/. Run it after a change of what attnprobe prints.
``tests/docs/test_outputs.py`` runs the same examples and compares every figure with the page.

A block of the language ``console`` holds commands, each after ``$ ``, and beneath each what a terminal of
100 columns shows, without colours. A line of ``...`` stands for lines that the page leaves out: what comes
after it begins with the line that stands there. A block of the language ``python`` is a program of its own;
a block of the language ``text`` right after it holds what it prints. The examples of a page share a folder
that is empty but for LICENSE, README.md and examples/, so a page is a story that a reader can follow. The
pictures that a page shows are those that its commands write there (``pictures.py``).
"""

import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pictures
import torch

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
WIDTH = 100
LEFT_OUT = "..."
_REMARK = "•"
#: What stands in the folder in which the examples of a page run.
FURNITURE = ("LICENSE", "README.md", "examples")
#: What several pages begin with, and is run once for all of them: it trains.
TRAINING = ["python", "examples/train_classifier.py"]

_BLOCK = re.compile(r"^```(console|python)\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.M | re.S)
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
#: What makes a terminal write in bold or grey.
_STYLE = re.compile(r"\x1b\[[0-9;]*m")
#: Lines whose figures depend on the machine: speed, memory, rounding.
_OF_THE_MACHINE = re.compile(r"[Tt]okens a second|about \d+ second|some \d+ \w+ in all|\d [GM]iB|\de-\d\d\)")
#: The picture at the end of a line: marks on a scale.
_PICTURE = re.compile(r"[ ●○─█]+$")


@dataclass(frozen=True)
class Example:
    """A command or a program, and what the page says that it prints.

    Attributes:
        language: "console" or "python".
        code: What runs.
        shown: What the page says; None where it says nothing.
    """

    language: str
    code: str
    shown: str | None


def examples(page: str) -> Iterator[Example]:
    """List the examples of a page in their order."""
    for language, body, output in (block.groups() for block in _BLOCK.finditer(page)):
        if language == "python":
            yield Example(language, body, output)
            continue
        commands = re.split(r"^\$ ", body, flags=re.M)[1:]
        for command in commands:
            code, _, shown = command.partition("\n")
            yield Example(language, code, shown)


class Terminal(io.StringIO):
    """Stands for a terminal on which a person reads along."""

    def isatty(self) -> bool:
        """Say that it is one."""
        return True


@contextmanager
def workplace() -> Iterator[Path]:
    """Go to an empty folder in which the examples of a page run."""
    before = Path.cwd()
    settings = {"COLUMNS": str(WIDTH), "NO_COLOR": "1", "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)}
    settings["OMP_NUM_THREADS"] = "1"
    kept = {name: os.environ.get(name) for name in settings}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        for furniture in FURNITURE:
            (folder / furniture).symlink_to(ROOT / furniture)
        os.chdir(folder)
        os.environ.update(settings)
        try:
            yield folder
        finally:
            os.chdir(before)
            for setting, value in kept.items():
                os.environ.pop(setting) if value is None else os.environ.update({setting: value})


def output_of(example: Example) -> str:
    """Run an example where we are, and give what it prints.

    Raises:
        RuntimeError: When it fails.
    """
    printed = _program(example.code) if example.language == "python" else _commands(example.code)
    lines = _STYLE.sub("", printed).replace(f"{Path.cwd()}/", "").splitlines()
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _program(code: str) -> str:
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()):
        exec(compile(code, "<example>", "exec"), {"__name__": "__main__"})
    return out.getvalue()


def _commands(line: str) -> str:
    """Run a pipe of commands; those of attnprobe in this process, which has imported it already."""
    line, _, target = line.partition(" > ")
    stages = line.split(" | ")
    passed, remarks = "", ""
    for place, stage in enumerate(stages):
        last = place == len(stages) - 1 and not target
        words = shlex.split(stage)
        if words[0] == "attnprobe":
            passed, written = _attnprobe(words[1:], passed, terminal=last)
            remarks += written
        else:
            passed = _copy_trained() if words == TRAINING else _run(stage, passed)
    if target:
        Path(target).write_text(passed, encoding="utf-8")
        passed = ""
    return remarks + passed


def _run(stage: str, given: str = "") -> str:
    done = subprocess.run(["bash", "-c", stage], input=given, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{stage} failed:\n{done.stderr}")
    return done.stdout


@cache
def _train() -> tuple[tempfile.TemporaryDirectory[str], str]:
    """Train the classifier in a folder that stays; give the folder, and what is printed."""
    kept = tempfile.TemporaryDirectory()
    return kept, _run(f"cd {shlex.quote(kept.name)} && python {shlex.quote(str(ROOT / TRAINING[1]))}")


def _copy_trained() -> str:
    kept, printed = _train()
    shutil.copytree(kept.name, Path.cwd(), dirs_exist_ok=True)
    return printed


def _attnprobe(words: list[str], given: str, *, terminal: bool) -> tuple[str, str]:
    """Give what a command prints, and what it says beside that; on a terminal the two are one."""
    from attnprobe.cli.app import run

    out = Terminal() if terminal else io.StringIO()
    err = io.StringIO()
    before, arguments = sys.stdin, sys.argv
    sys.stdin, sys.argv = io.TextIOWrapper(io.BytesIO(given.encode()), "utf-8"), ["attnprobe", *words]
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = run(words)
    finally:
        sys.stdin, sys.argv = before, arguments
    if code:
        raise RuntimeError(f"attnprobe {shlex.join(words)} ended with {code}:\n{err.getvalue()}")
    return out.getvalue(), err.getvalue()


def as_shown(shown: str, printed: str) -> str:
    """Leave out of what was printed what the page leaves out.

    A part that follows a line of ``...`` begins with the first line like its own, but for figures; a remark
    (•) whose words have changed, with the first remark. The last part goes on to the end, every other one has
    as many lines as before.

    Raises:
        ValueError: When no line is like the first one of a part.
    """
    parts = re.split(rf"^{re.escape(LEFT_OUT)}\n", shown, flags=re.M)
    if len(parts) == 1:
        return printed
    lines, kept, at = printed.splitlines(keepends=True), [], 0
    for place, part in enumerate(parts):
        wanted = part.splitlines(keepends=True)
        if place and wanted:
            left = range(at, len(lines))
            like = [number for number in left if _plain(lines[number]) == _plain(wanted[0])]
            if not like and wanted[0].startswith(_REMARK):
                like = [number for number in left if lines[number].startswith(_REMARK)]
            if not like:
                raise ValueError(f"Nothing that is printed looks like {wanted[0]!r}.")
            at = like[0]
        end = len(lines) if place == len(parts) - 1 and wanted else at + len(wanted)
        kept.append("".join(lines[at:end]))
        at = end
    return f"{LEFT_OUT}\n".join(kept)


def _plain(line: str) -> str:
    """Take the figures out of a line, and what is drawn after them."""
    words = _NUMBER.sub("#", _PICTURE.sub("", line.rstrip())).split()
    return " ".join(words).replace("about # seconds", "about # second")


def differences(shown: str, printed: str) -> list[str]:
    """Compare what a page shows with what was printed, figure by figure.

    Words have to be the same. Figures may differ by one unit of their last digit, or by one in a hundred,
    since processors round differently; figures of speed, memory and rounding are not compared at all.
    """
    left, right = _unwrapped(shown).splitlines(), _unwrapped(printed).splitlines()
    if len(left) != len(right):
        return [f"{len(left)} lines on the page, {len(right)} printed", *right]
    return [
        f"on the page: {shown_line}\n    printed: {printed_line}"
        for shown_line, printed_line in zip(left, right, strict=True)
        if not _alike(shown_line, printed_line)
    ]


def _unwrapped(text: str) -> str:
    """Put the lines of a remark together, since a longer figure wraps it elsewhere."""
    return re.sub(r"(?m)^•.*(?:\n(?!•).+)*", lambda remark: remark.group().replace("\n", " "), text)


def _alike(left: str, right: str) -> bool:
    if _plain(left) != _plain(right):
        return False
    pairs = zip(
        _NUMBER.findall(_PICTURE.sub("", left)), _NUMBER.findall(_PICTURE.sub("", right)), strict=True
    )
    return bool(_OF_THE_MACHINE.search(left)) or all(_close(*pair) for pair in pairs)


def _close(left: str, right: str) -> bool:
    a, b = (float(number.replace(",", "")) for number in (left, right))
    mantissa, _, exponent = left.partition("e")
    decimals = len(mantissa.partition(".")[2])
    unit = 10.0 ** (int(exponent or 0) - decimals) if decimals or exponent else 0.0
    return abs(a - b) <= 1.001 * unit + 0.01 * abs(a) * bool(unit)


def _renewed(example: Example) -> str:
    """Run an example; what the page shows stays where no figure says anything else."""
    printed, shown = output_of(example), example.shown or ""
    renewed = as_shown(shown, printed)
    return renewed if differences(shown, renewed) else shown


def regenerated(page: str) -> str:
    """Run the examples of a page, and put what they print beneath them."""
    torch.set_num_threads(1)

    with workplace() as folder:

        def replaced(block: re.Match[str]) -> str:
            language, code, output = block.groups()
            renewed = [(example.code, _renewed(example)) for example in examples(block.group())]
            if language == "python":
                return (
                    block.group()
                    if output is None
                    else f"```python\n{code}```\n\n```text\n{renewed[0][1]}```\n"
                )
            return "```console\n" + "".join(f"$ {command}\n{shown}" for command, shown in renewed) + "```\n"

        renewed_page = _BLOCK.sub(replaced, page)
        pictures.keep(page, folder)
        return renewed_page


def executed(notebook: str) -> str:
    """Run a notebook in a kernel of its own; it stays as it was where no figure says anything else."""
    import nbformat
    from nbclient import NotebookClient

    before, after = nbformat.reads(notebook, 4), nbformat.reads(notebook, 4)
    with workplace() as folder:
        resources = {"metadata": {"path": str(folder)}}
        NotebookClient(after, timeout=300, resources=resources, record_timing=False).execute()
    for cell in after.cells:
        # What goes to standard error names files of this machine.
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    after.metadata = before.metadata
    return nbformat.writes(after) + "\n" if differences(printed(before), printed(after)) else notebook


def printed(notebook: Any) -> str:
    """Give what the cells of a notebook print and show as text.

    What a cell prints comes in as many parts as the kernel had time for; they are put together.
    """
    parts: list[str] = []
    for cell in notebook.cells:
        before = ""
        for output in cell.get("outputs", []):
            if before == output.output_type == "stream":
                parts[-1] += output.text
            else:
                parts.append(output.get("text") or output.get("data", {}).get("text/plain", ""))
            before = output.output_type
    return "\n".join(parts)


def main() -> None:
    """Regenerate the pages and notebooks that are named, or all."""
    for path in [Path(name).resolve() for name in sys.argv[1:]] or [*PAGES, *NOTEBOOKS]:
        before = path.read_text(encoding="utf-8")
        after = regenerated(before) if path.suffix == ".md" else executed(before)
        path.write_text(after, encoding="utf-8")
        print(f"{path.relative_to(ROOT)}: {'changed' if after != before else 'as it was'}")


if __name__ == "__main__":
    main()
