"""The command that draws tables."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from attnprobe.cli.options import PictureOptions, pictures_in, takes
from attnprobe.reports.theme import ThemeName
from attnprobe.table.formats import FORMATS, READABLE, either
from attnprobe.table.kinds import PictureKind

_OUTPUT = pictures_in("Write a file; .svg, .png, .pdf or .html picks the format.")


@takes(_OUTPUT)
def plot(
    output: PictureOptions,
    tables: Annotated[
        list[Path],
        typer.Argument(metavar="TABLE...", help=f"Tables that attnprobe wrote: {either(READABLE)}."),
    ],
    kind: Annotated[
        PictureKind | None,
        typer.Option(help="What to draw, where a table can be drawn in more ways than one."),
    ] = None,
    measure: Annotated[
        str | None,
        typer.Option(metavar="NAME,NAME", help="Columns to draw. Default: those that the table puts first."),
    ] = None,
    theme: Annotated[ThemeName, typer.Option(help="Colours and sizes; paper has black ink.")] = "light",
    width: Annotated[
        int | None, typer.Option(metavar="PIXELS", help="About how wide; 96 pixels make an inch.")
    ] = None,
    title: Annotated[
        str | None, typer.Option(help='What stands above; "" for nothing. Default: the table\'s title.')
    ] = None,
    clusters: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Draw the tree of heads, of distance --all-pairs, cut into so many parts. Default: cut at "
            "0.7 of the height of its last join.",
        ),
    ] = None,
    save_clusters: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help=f"Write which head is in which cluster too; {either(FORMATS, before='.')}.",
        ),
    ] = None,
) -> None:
    """Draw a table of any command: svg, png, pdf, or a page with tooltips.

    Each table has a picture of its own: a heat map of heads, a map or a tree of heads by their attention (of
    distance --all-pairs), curves of prune, a scatter of correlate --by head, what heads find (of syntax),
    roles, lines over training (of dynamics). Several tables of one kind make one picture. In a pipe, the
    picture is svg.

    Examples:
      attnprobe entropy demo -o entropy.csv

      attnprobe plot entropy.csv -o entropy.pdf --theme paper

      attnprobe plot pairs.csv -o tree.svg --clusters 6 --save-clusters a.csv
    """
    from attnprobe.errors import AttnprobeError
    from attnprobe.reports import stdout
    from attnprobe.reports.rendering import FORMATS as PICTURES
    from attnprobe.reports.rendering import warm_up
    from attnprobe.table.destination import (
        add_descriptions,
        check_apart,
        check_file,
        check_free_file,
        format_of,
    )
    from attnprobe.table.kinds import TREE

    for table in tables:
        if table.is_dir():
            raise AttnprobeError(f"{table} is a folder; name the tables in it, such as {table / 'heads.csv'}")
    path = None if output.output is None or str(output.output) == "-" else output.output
    if path is None:
        if stdout.is_terminal():
            raise AttnprobeError("a picture is not for a terminal: name a file with -o heads.svg")
        format = "svg"
    else:
        format = format_of(path, list(PICTURES))
        check_free_file(path, list(PICTURES), output.overwrite)
        check_apart(path, add_descriptions(tables))
    if save_clusters is not None:
        kind = kind or TREE
        check_file(save_clusters, output.overwrite)
        apart = [*add_descriptions(tables), *filter(None, [path])]
        check_apart(save_clusters, apart, option="--save-clusters")
    warm_up(format)
    from attnprobe.api.plot import plot as draw

    picture = draw(
        tables, kind=kind, measure=measure, theme=theme, width=width, title=title, clusters=clusters
    )
    content = picture.rendered(format)
    written = (
        [] if save_clusters is None else picture.clusters.save(save_clusters, overwrite=output.overwrite)[:1]
    )
    if path is None:
        stdout.write(content)
    else:
        written.insert(0, picture.save(path, overwrite=output.overwrite))
    here = Path.cwd()
    for one in [] if output.quiet else written:
        said = one.relative_to(here) if one.is_relative_to(here) else one
        print(f"attnprobe: wrote {said}", file=sys.stderr)
