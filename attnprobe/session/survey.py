"""A survey of texts: opened and checked before torch is imported, then measured in one pass."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from attnprobe.corpus.media import BOTH
from attnprobe.corpus.source import GivenTexts, OpenSource
from attnprobe.errors import UsageError
from attnprobe.session.session import Call, describe_call, open_call, parse_layers, read_first
from attnprobe.session.texts import check_standard_input, open_texts

if TYPE_CHECKING:
    from attnprobe.model.checkpoint import Checkpoint
    from attnprobe.statistics.statistic import Statistic
    from attnprobe.statistics.tabulation import Tabulation
    from attnprobe.table.table import HeadTable


@dataclass
class TextSurvey:
    """The texts of a survey and its call; where it is ``labelled``, decoders read the labels of the texts."""

    name: str
    call: Call
    source: OpenSource
    labelled: bool

    def load(self) -> "Checkpoint":
        return self.call.load_checkpoint(modality=self.source.kind)

    def measure(
        self,
        statistics: "Sequence[Statistic]",
        tabulation: "Tabulation | None" = None,
        *,
        checkpoint: "Checkpoint | None" = None,
        question: Mapping[str, Any] | None = None,
        as_far_as_possible: bool = False,
    ) -> "HeadTable":
        """Measure statistics, and tabulate them, by default one row a head; ``question`` goes on record."""
        from attnprobe.statistics.statistic import apply_weights
        from attnprobe.statistics.tabulation import HEADS
        from attnprobe.survey.survey import CorpusRequest, TableRequest, survey_corpora

        call, source, options = self.call, self.source, self.call.options
        statistics = apply_weights(statistics, options["weights"])
        corpus = CorpusRequest(
            source.documents, statistics, call.corpus, labelled=self.labelled, order=call.order
        )
        facts: dict[str, Any] = {"command": describe_call(self.name), "dataset": source.described}
        groups = {} if options["by_group"] is None else {"by_group": options["by_group"]}
        if groups or question is not None:
            facts["asked"] = {**(question or {}), **groups}
        request = TableRequest(
            [corpus], source.name, facts, tabulation or HEADS, parse_layers(options["layers"])
        )
        (run,) = survey_corpora(
            checkpoint or self.load(), [request], as_far_as_possible=as_far_as_possible, **call.run
        )
        return run.table


@contextmanager
def open_survey(
    name: str,
    model: Any,
    texts: GivenTexts,
    options: Mapping[str, Any],
    open_source: Callable[[], OpenSource] | None = None,
) -> Iterator[TextSurvey]:
    """Open a survey of texts, images or sound, or of what ``open_source`` opens in their place.

    What can be refused without torch is refused.
    """
    parse_layers(options.get("layers"))
    check_standard_input(texts)
    with open_call(options, model) as call:
        source = open_source() if open_source is not None else None
        source = read_first(source or open_texts(texts, options, sees=call.sees_text, order=call.order))
        if call.options["queries"] is not None and source.kind != BOTH:
            raise UsageError(
                f"--queries tells an image from a text, and {source.name} holds no images that the model "
                "reads with its texts; leave it out, or name their column with --image-column."
            )
        source = check_groups(source, call.options["by_group"])
        yield TextSurvey(name, call, source, call.options["label_column"] is not None)


def check_groups(source: OpenSource, column: str | None) -> OpenSource:
    """Keep the documents that are in a group, where groups are asked for; refuse what can have none."""
    from attnprobe.corpus.open import keep_grouped

    if column is None:
        return source
    if source.kind not in {"text", BOTH}:
        raise UsageError("--by-group is about texts; images and sound have no groups here. Leave it out.")
    return replace(source, documents=keep_grouped(source.documents, column, source.name))
