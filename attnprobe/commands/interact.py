"""The command that asks which heads stand in for each other."""

from typing import TYPE_CHECKING, Annotated, Any

from attnprobe.commands.output import Output
from attnprobe.commands.registry import command
from attnprobe.option import Option
from attnprobe.options import SWITCHING, TASK, OneModel, Resume

if TYPE_CHECKING:
    from collections.abc import Iterable

    from attnprobe.commands.call.texts import Texts
    from attnprobe.corpus.sources.document import Label
    from attnprobe.table.table import HeadTable


@command(
    OneModel,
    *SWITCHING,
    Resume,
    Output,
)
def interact(
    model: Any,
    texts: "Texts" = None,
    labels: "Iterable[Label] | None" = None,
    *,
    pairs: Annotated[
        int, Option("Number of pairs that are tested, the strongest proposals.", low=1, panel=TASK)
    ] = 20,
    **options: Any,
) -> "HeadTable":
    """Find which heads stand in for each other.

    A head that another replaces when it is gone looks as if it did not matter. [bold]interaction[/bold]:
    the change of the loss without both heads, less the changes without each; positive where one stands in
    for the other. Pairs are proposed on one half of the documents, by how much the signed gradient of one
    head's gate changes when the other head is off ([bold]proposed[/bold]: the smaller of both directions),
    and tested on the other half ([bold]p[/bold]: t over documents, [bold]p_adjusted[/bold]: Holm). Only
    pairs that are confirmed there are a result.
    It takes a pass of gradients over one half for each head, and two to three passes for each tested pair.

    Examples:
      attnprobe interact demo -L 100

      attnprobe interact my-classifier -d reviews.tsv -o pairs.csv

      attnprobe plot pairs.csv -o pairs.svg

    Returns:
        One row a tested pair, the strongest proposal first.
    """
    from attnprobe.commands.call.call import open_task

    with open_task("interact", model, texts, labels, options) as session:
        from attnprobe.intervention.interaction import run_interactions

        return run_interactions(session, pairs)
