"""The function that draws tables."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from attnprobe.reports.theme import ThemeName
from attnprobe.spelling import speaks_python
from attnprobe.table.head_table import HeadTable
from attnprobe.table.kinds import PictureKind

if TYPE_CHECKING:
    from attnprobe.reports.pictures.picture import Picture


@speaks_python
def plot(
    tables: HeadTable | Path | str | Sequence[HeadTable | Path | str],
    *,
    kind: PictureKind | None = None,
    measure: str | Sequence[str] | None = None,
    theme: ThemeName = "light",
    width: int | None = None,
    title: str | None = None,
    clusters: int | None = None,
) -> "Picture":
    """Draw tables: any table of any command has a picture of its own.

    Args:
        tables: A table, or the file of one; or several of one kind, for one picture.
        kind: What to draw, where a table can be drawn in more ways than one: ``"heatmap"``, ``"map"``,
            ``"dendrogram"``, ``"scatter"``, ``"depth"``, ...
        measure: Columns to draw, in a list or as ``"entropy,previous"``; by default those that a table puts
            first.
        theme: ``"light"``, ``"dark"``, or ``"paper"``, with black ink for print.
        width: About how wide the picture is, in pixels, of which 96 make an inch.
        title: What stands above the picture; by default the table's title.
        clusters: Into how many parts a tree of heads is cut, of a table of all pairs of heads; by default it
            is cut at 0.7 of the height of its last join. ``picture.clusters`` is a table of which head is in
            which.

    Returns:
        A picture that shows itself in a notebook; ``picture.save("heads.pdf")`` writes svg, png, pdf or html.

    Raises:
        AttnprobeError: When something is no table, or can't be drawn like this; it says as what else.

    Examples:
        >>> from attnprobe.api.census import entropy
        >>> plot(entropy("demo", ["The parcel came late."]))
        Picture(kind='heatmap', title='entropy of heads')
    """
    from attnprobe.reports.pictures.choosing import picture

    given = [tables] if isinstance(tables, HeadTable | Path | str) else list(tables)
    read = [one if isinstance(one, HeadTable) else HeadTable.read(one) for one in given]
    named = [] if measure is None else measure.split(",") if isinstance(measure, str) else list(measure)
    return picture(
        read, kind, [name.strip() for name in named if name.strip()], theme, width, title, clusters
    )
