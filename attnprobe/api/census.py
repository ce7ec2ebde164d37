"""Functions that give one row a head: census, entropy, positional, special, rare; and distance."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from attnprobe.api.calls import begun, called, check_model, checkpoint_of
from attnprobe.api.commands import command
from attnprobe.api.keywords import SurveyKeywords, TextKeywords, WeightedKeywords, given, spelled_out
from attnprobe.api.texts import Texts, check_standard_input, opened
from attnprobe.corpus.sources.text import OpenSource
from attnprobe.corpus.tokens.tokenization import Tokenizer
from attnprobe.errors import AttnprobeError
from attnprobe.survey.layers import layers_of
from attnprobe.table.head_table import HeadTable

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from attnprobe.statistics.statistic import Statistic
    from attnprobe.statistics.tabulation import Tabulation

#: What is measured and how it is tabulated; called when nothing is left to refuse without torch.
_Asked = Callable[[], tuple[Sequence["Statistic"], "Tabulation"]]


@spelled_out
def census(
    model: "str | Path | PreTrainedModel",
    texts: Texts = None,
    *,
    statistics: "Sequence[str | Statistic] | None" = None,
    everything: bool = False,
    targets: Sequence[str] | None = None,
    tokenizer: Tokenizer | None = None,
    **options: Unpack[WeightedKeywords],
) -> HeadTable:
    """Measure every head of a model over texts, images or sound, in one forward pass over them.

    Every number is a mean over the queries of a sequence first, then over sequences; ``NAME_se`` is
    its standard error over documents and ``n`` the number of sequences.

    Args:
        model: ``"demo"``, a folder, a hub id, or a loaded model with its ``tokenizer``. A loaded
            model is left as it was found.
        texts: Strings, pairs of strings, a column of a DataFrame or a dataset, the path of a file or of a
            folder of images or sound, the id of a hub dataset, or a ``Source``; of a DataFrame, a dict or a
            dataset, name ``text_column`` too. By default the sentences that ship with attnprobe.
        statistics: Names of columns (``"entropy"``), of families (``"positional"``), of statistics that other
            packages bring along, or functions that ``attnprobe.statistic`` decorates; by default all of the
            census. ``"entropy_norm"`` is entropy of attention weighted by norm, and ``"norm"`` the family of
            what heads carry, which ``weights`` adds too.
        everything: Measure all that has one row a head, in the same pass: the census under both weightings,
            ``norm``, ``rank`` without ``map_rank``, ``mixing``. What the model does not give is left out, and
            a note says so.
        targets: For each text, what the decoder of an encoder-decoder model reads; by default the text
            itself.
        tokenizer: The tokenizer of a loaded model.
        options: See ``ModelKeywords``, ``TextKeywords``, ``TokenKeywords``, ``WeightKeywords``,
            ``LabelKeywords``, ``LayerKeywords`` and ``RunKeywords`` in ``attnprobe.api.keywords``.

    Returns:
        One row a head, layers and heads counted from 0.

    Raises:
        AttnprobeError: With one sentence on what is wrong and what to do.

    Warns:
        AttnprobeWarning: Of what is worth knowing, such as texts that were cut.

    Examples:
        >>> table = census("demo", ["The parcel came late."], statistics=["entropy"])
        >>> list(table.data)
        ['model', 'dataset', 'layer', 'head', 'n', 'entropy', 'entropy_se']
        >>> table = census("demo", ["The parcel came late."], statistics=["entropy"], weights="norm")
        >>> list(table.data)[4:]
        ['n', 'entropy_norm', 'entropy_norm_se']
    """
    if everything and (statistics is not None or options.get("weights", "attention") != "attention"):
        raise AttnprobeError(
            "--everything measures all there is, under both weightings; leave out --statistics and --weights."
        )

    def asked() -> "tuple[Sequence[Statistic], Tabulation]":
        from attnprobe.statistics.everything import EVERYTHING, every_statistic_of_heads
        from attnprobe.statistics.registry import choose
        from attnprobe.statistics.tabulation import HEADS

        if everything:
            return every_statistic_of_heads(), EVERYTHING

        lengths = _lengths(options) if statistics is None else []
        return [*choose(statistics), *lengths], HEADS

    return surveyed_texts(
        "census", model, texts, asked, tokenizer, options, targets=targets, as_far_as_possible=everything
    )


@spelled_out
def entropy(
    model: "str | Path | PreTrainedModel",
    texts: Texts = None,
    *,
    tokenizer: Tokenizer | None = None,
    **options: Unpack[WeightedKeywords],
) -> HeadTable:
    """Measure how spread the attention of each head is: entropy, confidence.

    Arguments, result and errors are those of ``census``.
    """
    return surveyed_texts("entropy", model, texts, _family("entropy"), tokenizer, options)


@spelled_out
def positional(
    model: "str | Path | PreTrainedModel",
    texts: Texts = None,
    *,
    control: bool = False,
    tokenizer: Tokenizer | None = None,
    **options: Unpack[WeightedKeywords],
) -> HeadTable:
    """Measure whether heads look at neighbours or at a fixed offset, and how far.

    Args:
        model: As for ``census``.
        texts: As for ``census``.
        control: Measure ``previous``, ``next`` and ``offset_share`` again with the ordinary tokens of each
            sequence shuffled and, where positions come from a table alone, with all positions alike.
            ``offset_share_shuffled`` and ``offset_share_alike`` are the shares of the offset that the head
            has in the text as it is. A head that keeps its share looks at places; one that loses it looked
            at what stood there. The notes name both.
        tokenizer: As for ``census``.
        options: As for ``census``.

    Returns:
        One row a head, layers and heads counted from 0.

    Raises:
        AttnprobeError: With one sentence on what is wrong and what to do.

    Examples:
        >>> table = positional("demo", ["The parcel came late."], control=True)
        >>> [name for name in table.data if name.startswith("offset")][:3]
        ['offset', 'offset_share', 'offset_share_se']
        >>> [name for name in table.data if name.endswith("_shuffled")]
        ['previous_shuffled', 'next_shuffled', 'offset_share_shuffled']
    """
    if not control:
        return surveyed_texts("positional", model, texts, _family("positional"), tokenizer, options)

    def asked() -> "tuple[Sequence[Statistic], Tabulation]":
        from attnprobe.statistics.positional import CONTROLLED
        from attnprobe.statistics.registry import census_statistics, controls_of

        return [*census_statistics("positional"), *controls_of("positional")], CONTROLLED

    return surveyed_texts("positional", model, texts, asked, tokenizer, options, shuffled=True)


@spelled_out
def special(
    model: "str | Path | PreTrainedModel",
    texts: Texts = None,
    *,
    tokenizer: Tokenizer | None = None,
    **options: Unpack[WeightedKeywords],
) -> HeadTable:
    """Measure how much attention goes to special tokens and punctuation.

    Arguments, result and errors are those of ``census``.
    """

    def asked() -> "tuple[Sequence[Statistic], Tabulation]":
        found, tabulation = _family("special")()
        return [*found, *_lengths(options)], tabulation

    return surveyed_texts("special", model, texts, asked, tokenizer, options)


@spelled_out
def rare(
    model: "str | Path | PreTrainedModel",
    texts: Texts = None,
    *,
    tokenizer: Tokenizer | None = None,
    **options: Unpack[WeightedKeywords],
) -> HeadTable:
    """Measure whether heads look at rare tokens.

    Arguments, result and errors are those of ``census``.
    """
    return surveyed_texts("rare", model, texts, _family("rare"), tokenizer, options)


@spelled_out
def distance(
    model: "str | Path | PreTrainedModel",
    texts: Texts = None,
    *,
    by: Literal["pair", "head", "layer"] = "pair",
    all_pairs: bool = False,
    tokenizer: Tokenizer | None = None,
    **options: Unpack[WeightedKeywords],
) -> HeadTable:
    """Measure how differently heads look at the same text: Jensen-Shannon divergence of every two.

    Args:
        model: As for ``census``.
        texts: As for ``census``.
        by: One row for each pair of heads of a layer, for each head, or for each layer.
        all_pairs: Compare all heads of the model, not only those of a layer.
        tokenizer: As for ``census``.
        options: As for ``census``.

    Returns:
        One row a pair, a head or a layer.
    """
    if all_pairs and by != "pair":
        raise AttnprobeError("--all-pairs gives one row per pair; leave out --by.")

    asked = partial(asked_of_distance, by, all_pairs=all_pairs)
    return surveyed_texts("distance", model, texts, asked, tokenizer, options)


def asked_of_census() -> "tuple[Sequence[Statistic], Tabulation]":
    """Say what the plain census measures, and how it is tabulated."""
    from attnprobe.statistics.registry import census_statistics
    from attnprobe.statistics.tabulation import HEADS

    return census_statistics(), HEADS


def asked_of_distance(
    by: Literal["pair", "head", "layer"] = "pair", *, all_pairs: bool = False
) -> "tuple[Sequence[Statistic], Tabulation]":
    """Say what ``distance`` measures, and how it is tabulated."""
    from attnprobe.statistics.distance import ALL_PAIRS, BY_HEAD, BY_LAYER, BY_PAIR
    from attnprobe.statistics.registry import statistics_of

    chosen = [one for one in statistics_of("distance") if all_pairs or one is not ALL_PAIRS]
    return chosen, {"pair": BY_PAIR, "head": BY_HEAD, "layer": BY_LAYER}[by]


def _family(name: str) -> _Asked:
    def asked() -> "tuple[Sequence[Statistic], Tabulation]":
        from attnprobe.statistics.registry import census_statistics
        from attnprobe.statistics.tabulation import HEADS

        return census_statistics(name), HEADS

    return asked


def _lengths(options: WeightedKeywords) -> "list[Statistic]":
    """Give what heads carry, where rows are weighted by it."""
    from attnprobe.statistics.registry import statistics_of

    return [] if options.get("weights", "attention") == "attention" else statistics_of("norm")


def surveyed_texts(
    name: str,
    model: "str | Path | PreTrainedModel",
    texts: Texts,
    asked: _Asked,
    tokenizer: Tokenizer | None,
    options: SurveyKeywords | WeightedKeywords,
    *,
    targets: Sequence[str] | None = None,
    shuffled: bool = False,
    as_far_as_possible: bool = False,
) -> HeadTable:
    """Open texts and a model, and survey them.

    Args:
        name: The command, for the record.
        model: As for ``census``.
        texts: As for ``census``.
        asked: What is measured and how it is tabulated.
        tokenizer: As for ``census``.
        options: As for ``census``.
        targets: As for ``census``.
        shuffled: Whether a control shuffles the tokens.
        as_far_as_possible: Leave out, with a note, what the model does not give.
    """
    label_column = options.get("label_column")
    if isinstance(texts, str):  # a list holds texts, not names
        check_standard_input(texts)
    layers = layers_of(options.get("layers"))
    with called(options, model) as call:
        check_model(model, tokenizer, options)
        source = begun(opened(texts, named=given(options, TextKeywords), label_column=label_column))
        if targets is not None:
            source = _with_targets(texts, source, targets)
        if shuffled and source.kind != "text":
            raise AttnprobeError("--control shuffles the tokens of texts; of images and sound, leave it out.")
        statistics, tabulation = asked()
        from attnprobe.statistics.weighting import under
        from attnprobe.survey.survey import survey

        call.progress.stage("loading", None)
        found = survey(
            checkpoint_of(model, tokenizer, call.load, source.kind),
            source.documents,
            call.corpus,
            under(statistics, options.get("weights", "attention")),
            dataset=source.name,
            facts={"command": command(name), "dataset": source.described},
            tabulation=tabulation,
            layers=layers,
            labelled=targets is not None or label_column is not None,
            resume=call.resume,
            workers=call.workers,
            as_far_as_possible=as_far_as_possible,
            **({"seed": call.corpus.seed} if shuffled else {}),
            progress=call.progress,
        )
        return found.table


def _with_targets(texts: Any, source: OpenSource, targets: Sequence[str]) -> OpenSource:
    if texts is None or source.kind != "text" or isinstance(texts, str | Path):
        raise AttnprobeError("targets go with a list of texts; of a file, name --label-column.")
    documents = list(source.documents)
    if len(documents) != len(targets):
        raise AttnprobeError(f"There are {len(documents)} texts, but {len(targets)} targets.")
    pairs = zip(documents, targets, strict=True)
    return replace(source, documents=[replace(document, label=target) for document, target in pairs])
