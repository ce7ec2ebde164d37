"""What is said below a table of best heads: who is significantly ahead, who ties, and what is left out."""

from collections.abc import Iterator, Sequence

import numpy as np

from attnprobe.statistics.best_heads import Best, Cell, Selection, read_numbers
from attnprobe.statistics.rules import ALL, TESTED, Asking
from attnprobe.sums.resampling import SIGNIFICANT
from attnprobe.sums.tally import Tally
from attnprobe.table.builder import FEW_DOCUMENTS, Labels

#: So many labels are named in a note.
_NAMED = 8


def note_rare(gone: dict[str, int], fewest: int, asking: Asking) -> Iterator[str]:
    if not gone:
        return
    named = sorted(gone, key=lambda label: (-gone[label], label))
    listed = ", ".join(named[:_NAMED]) + (", ..." if len(named) > _NAMED else "")
    verb = "is" if len(named) == 1 else "are"
    said = f"{len(named)} {asking.counted(len(named))} with fewer than {fewest} links"
    yield f"{said} {verb} left out: {listed}."


def note_left_out(tally: Tally) -> Iterator[str]:
    same, unseen, certain = tally.left_out.tolist()
    for number, reason in (
        (same, "both ends of the link have the same tokens"),
        (unseen, "a decoder sees only what comes before a word, and the answer comes after it"),
        (certain, "every candidate in sight is right"),
    ):
        if number:
            yield f"{number:,} {'question was' if number == 1 else 'questions were'} left out: {reason}."


def note_significant(
    cells: Sequence[Cell],
    found: Sequence[Best],
    adjusted: np.ndarray,
    asking: Asking,
    labels: Labels,
    selection: Selection,
) -> Iterator[str]:
    rows = [row for row, p in enumerate(adjusted) if p < SIGNIFICANT and cells[row].label != ALL]
    shown = {cell.label for cell in cells} - {ALL}
    if not shown:
        return
    if all(found[row].layer is None for row in range(len(cells))):
        part, other = ("fold", "another") if selection.folds else ("half", "the other")
        yield (
            f"All documents with links lie in one {part} of the documents, so that no head can be chosen on "
            f"one and scored on {other}; give more documents, or look at all heads."
        )
        return
    if not rows:
        which = "" if len(shown) == 1 else f", for any of {len(shown)} {asking.counted(len(shown))}"
        yield f"No head finds significantly more links than the best rule{which} {TESTED}."
        return
    best: dict[str, int] = {}
    for row in sorted(rows, key=lambda row: found[row].baseline - found[row].accuracy):
        best.setdefault(cells[row].label, row)
    listed = []
    for label, one in ((label, found[row]) for label, row in best.items()):
        listed.append(f"{label} {_name_best(one, labels)} ({one.accuracy:.2f} against {one.baseline:.2f})")
    more = f", and {len(listed) - 6} more" if len(listed) > 6 else ""
    yield (
        f"For {len(best)} of {len(shown)} {asking.counted(len(shown))}, a head finds significantly more "
        f"links than the best rule {TESTED}: {', '.join(listed[:6])}{more}."
    )


def _name_best(best: Best, labels: Labels) -> str:
    assert best.layer is not None  # or it would have no p
    assert best.head is not None
    return labels.places[best.layer].head(best.head) + (best.position and f" at {best.position}")


def note_few_documents(found: Sequence[Best], selection: Selection) -> Iterator[str]:
    most = max((best.documents for best in found), default=0)
    if 0 < most < FEW_DOCUMENTS / 2:
        over = "documents. The scored half has" if selection.compared else "blocks of documents. There are"
        yield (
            f"Heads are compared with rules by the sign-flip test over {over} at most {most} that hold such "
            f"links, so that no p is below {0.5**most:.2g}."
        )


def note_ties(
    cells: Sequence[Cell], found: Sequence[Best], selection: Selection, labels: Labels
) -> Iterator[str]:
    """Name the heads that not all folds chose, those that fewest chose first."""
    known = [(cell, best) for cell, best in zip(cells, found, strict=True) if best.layer is not None]
    if not selection.folds or not known:
        return
    torn = sorted((one for one in known if one[1].times < one[1].folds), key=lambda one: one[1].times)
    if not torn:
        yield f"Every head that is named was chosen in {selection.folds} of {selection.folds} folds."
        return
    listed: dict[str, str] = {}
    for cell, best in torn:
        name, (layer, head) = _name_best(best, labels), best.runner_up
        assert layer is not None  # or every fold would have chosen the only one
        assert head is not None
        after = labels.places[layer].head(head)
        said = f"{cell.label} {name} ({best.times} of {best.folds} folds, next {after})"
        listed.setdefault(cell.label, said)
    more = f", and {len(listed) - 6} more" if len(listed) > 6 else ""
    yield (
        f"Folds agree on the head in {len(known) - len(torn)} of {len(known)} rows. Where they don't, "
        f"several heads are about as good: {', '.join([*listed.values()][:6])}{more}."
    )


def note_optimism(found: Sequence[Best], selection: Selection) -> Iterator[str]:
    more = read_numbers(found, "selected") - read_numbers(found, "accuracy")
    more = more[np.isfinite(more)]
    if not len(more):
        return
    if selection.folds:
        said = (
            f"The documents are in {selection.folds} folds, and heads and baselines of each were chosen on "
            "the others. Chosen and scored on the same documents"
        )
    else:
        said = (
            "Heads and baselines were chosen on one half of the documents and scored on the other. Chosen "
            "and scored on the same half"
        )
    yield (
        f"{said}, accuracy would be higher by {more.mean():.3f} on average, and by {more.max():.3f} at most "
        "(accuracy_selected)."
    )


def note_control(found: Sequence[Best], control: str | None) -> Iterator[str]:
    known = [best for best in found if np.isfinite(best.selectivity)]
    if control is None or not known:
        return
    said = {
        "links": "of the same links, each moved to another word of its text at the same distance",
        "weights": "of the same architecture with random weights, of three seeds",
    }[control]
    mean = np.mean([best.control for best in known])
    sure = sum(best.selectivity > 1.96 * best.selectivity_error for best in known)
    yield (
        f"The best heads {said}, find {mean:.2f} on average (control). In {sure} of {len(known)} rows, "
        "accuracy is higher by more than 1.96 standard errors (selectivity)."
    )


def note_same_links(cells: Sequence[Cell], first: np.ndarray) -> Iterator[str]:
    alike = {
        tuple(dict.fromkeys(cells[int(row)].label for row in np.flatnonzero(first == number)))
        for number in set(first.tolist())
    }
    for labels in sorted(labels for labels in alike if len(labels) > 1):
        listed = f"{', '.join(labels[:-1])} and {labels[-1]}"
        yield f"The rows {listed} are about the same links, and count once where p is adjusted."
