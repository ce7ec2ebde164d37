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
    names, width = 16, 14  # as the example prints them
    shown = [line[:names] + line[stop - width : stop] for line in lines]
    return replace(example, code=f"{example.code} {column}", shown="".join(f"{line}\n" for line in shown))


@pytest.mark.slow
@pytest.mark.parametrize("path", outputs.PAGES, ids=lambda path: path.stem)
def test_page(path):
    """Every example of a page runs, in one folder and in order, and prints what the page shows."""
    page = path.read_text(encoding="utf-8")
    wrong = []
    with outputs.workplace() as folder:
        for example in map(sample, outputs.examples(page)):
            printed = outputs.output_of(example)
            if example.shown is not None:
                found = outputs.differences(example.shown, outputs.as_shown(example.shown, printed))
                wrong += [f"{example.code}\n  {difference}" for difference in found]
        wrong += outputs.picture_differences(page, folder)
    assert not wrong, "run `python docs/scripts/outputs.py`, and read what has changed:\n" + "\n".join(wrong)


@pytest.mark.parametrize(("name", "language", "least"), [("README", "console", 5), ("python", "python", 4)])
def test_a_page_shows_outputs(name, language, least):
    page = next(path for path in outputs.PAGES if path.stem == name)
    shown = [example for example in outputs.examples(page.read_text(encoding="utf-8")) if example.shown]
    assert len([example for example in shown if example.language == language]) >= least


@pytest.mark.parametrize(
    ("page", "printed"),
    [
        ("entropy 2.41\n", "entropy 2.49\n"),
        ("p 1.2e-09\n", "p 1.5e-09\n"),
        ("72 heads\n", "71 heads\n"),
        ("head 3\n", "head 3\nhead 4\n"),
        ("the highest\n", "the lowest\n"),
        ("3 documents cut into 4 windows\n", "3 documents cut into 5 windows\n"),
    ],
)
def test_a_difference_is_seen(page, printed):
    assert outputs.differences(page, printed)


@pytest.mark.parametrize(
    ("page", "printed"),
    [
        ("entropy 2.41\n", "entropy 2.42\n"),
        ("p 1.20e-09\n", "p 1.21e-09\n"),
        ("0.5 0.90   ───○●\n", "0.5 0.90  ───○─●\n"),
        ("Tokens a second: 3,483\n", "Tokens a second: 12,700\n"),
        ("about 1 second for 313 sequences\n", "about 2 seconds for 313 sequences\n"),
        (
            "• one remark of 3,483 words that\nis wrapped here\n",
            "• one remark of 3,483 words\nthat is wrapped here\n",
        ),
    ],
)
def test_rounding_and_speed_are_no_difference(page, printed):
    assert not outputs.differences(page, printed)


def test_what_is_left_out():
    found = outputs.as_shown("...\nnext 0.9\n1\n...\n", "previous 0.3\n2\n\nnext 0.8\n7\nmore\n")
    assert found == "...\nnext 0.8\n7\n...\n"
    remarks = outputs.as_shown("...\n• one\n", "next 0.8\n\n• another\n• more\n")
    assert remarks == "...\n• another\n• more\n"
    assert outputs.as_shown("a 1\n...\nlast 4\n", "a 2\nb\nlast 5\nend\n") == "a 2\n...\nlast 5\nend\n"
    with pytest.raises(ValueError, match="looks like"):
        outputs.as_shown("...\ngone\n", "a\n")
