"""The command that asks which heads stand in for each other."""

from typing import TYPE_CHECKING, Annotated, Unpack

from attnprobe.options import CauseOptions, LabelsArgument, ModelArgument, TableOutput, TextsArgument
from attnprobe.registry import Option, command

if TYPE_CHECKING:
    from attnprobe.table.table import HeadTable


@command(TableOutput)
def interact(
    model: ModelArgument,
    texts: TextsArgument = None,
    labels: LabelsArgument = None,
    *,
    pairs: Annotated[int, Option("Number of pairs to test, the strongest proposals.", low=1)] = 20,
    **options: Unpack[CauseOptions],
) -> "HeadTable":
    """Which heads stand in for each other?

    A head that another replaces when it is gone looks as if it did not matter. Pairs are proposed
    on one half of the documents and tested on the other. It takes a pass of gradients for each
    head, and two to three passes for each tested pair.

    Columns:
      proposed       by how much the gradient of one head's gate changes when the
                     other is off; the smaller of both directions
      interaction    change of the loss without both heads, less that without
                     each; positive where one stands in for the other
      p, p_adjusted  t over documents; Holm's
      n              examples

    Examples:
      attnprobe interact demo -L 100
      attnprobe interact my-classifier -d reviews.tsv -o pairs.csv
      attnprobe plot pairs.csv -o pairs.svg

    Returns:
        One row a tested pair, the strongest proposal first.
    """
    from attnprobe.session.session import open_task

    with open_task("interact", model, texts, labels, options) as session:
        from attnprobe.intervention.interaction import run_interactions

        return run_interactions(session, pairs)
