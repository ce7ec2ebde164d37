"""What README and the pages of docs/ show is what attnprobe prints."""

from dataclasses import replace

import outputs
import pytest

#: Examples that take minutes: of each, the column that is made again and compared.
SAMPLED = {"python examples/compare_orders.py": "words"}


def sample(example):
    """Let a long example make one column; what a page shows of it are that and the names of the rows."""
    if (column := SAMPLED.get(example.code)) is None:
        return example
    lines = example.shown.splitlines()
    stop = lines[0].index(column) + len(column)
    names, width = 15, 13  # as the example prints them
    shown = [line[:names] + line[stop - width : stop] for line in lines]
    return replace(example, code=f"{example.code} {column}", shown="".join(f"{line}\n" for line in shown))


#: Pages of .ci/run; the others are for .ci/release.
USUAL = {"README", "first-look", "python"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [
        path if path.stem in USUAL else pytest.param(path, marks=pytest.mark.exhaustive)
        for path in outputs.PAGES
    ],
    ids=lambda path: path.stem,
)
def test_page(path):
    """Every example of a page runs, in one folder and in order, and prints what the page shows."""
    page = path.read_text(encoding="utf-8")
    wrong = []
    with outputs.workplace():
        for example in map(sample, outputs.examples(page)):
            printed = outputs.output_of(example)
            if example.shown is not None:
                differences = outputs.differences(example.shown, outputs.as_shown(example.shown, printed))
                wrong += [f"{example.code}\n  {difference}" for difference in differences]
    assert not wrong, "run `python docs/scripts/outputs.py`, and read what has changed:\n" + "\n".join(wrong)
