"""Functions that ask what heads find: syntax, coreference, links."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from attnprobe.api.calls import begun, called, check_model, checkpoint_of
from attnprobe.api.commands import command
from attnprobe.api.gold import Gold, opened_gold
from attnprobe.api.keywords import LinkKeywords, spelled_out
from attnprobe.api.texts import Texts
from attnprobe.corpus.sources.links import linked
from attnprobe.corpus.tokens.tokenization import Tokenizer
from attnprobe.errors import AttnprobeError
from attnprobe.survey.layers import layers_of
from attnprobe.table.head_table import HeadTable

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from attnprobe.statistics.statistic import Statistic
    from attnprobe.statistics.tabulation import Tabulation

#: What is asked, and how it is tabulated; called when nothing is left to refuse without torch.
_Asked = Callable[[], "tuple[Statistic, Tabulation]"]


@spelled_out
def syntax(
    model: "str | Path | PreTrainedModel",
    texts: Texts = None,
    *,
    by: Literal["relation", "head"] = "relation",
    relations: str | Sequence[str] | None = None,
    subtypes: bool = False,
    min_links: int = 20,
    trees: bool = False,
    tokenizer: Tokenizer | None = None,
    **options: Unpack[LinkKeywords],
) -> HeadTable:
    """Measure which heads find the other end of the dependencies of a treebank.

    The answer of a head is the word that a word attends to most, other than itself. Attention to a word is
    the sum over its tokens, attention from a word the mean over its tokens. The best head for a relation and
    the best fixed offset, in words, are chosen on one half of the documents and scored on the other. Where an
    offset points outside of the sentence, it stands for the nearest word within.

    A decoder beside an encoder is asked where it predicts a word, and where it reads it, one place later. The
    column ``position`` tells the two apart: ``output`` and ``input``.

    Args:
        model: As for ``census``.
        texts: One or several treebanks in CoNLL-U, by their paths; or documents whose annotations have links.
            By default the sentences that ship with attnprobe, with their dependencies.
        by: A row for each relation and direction with its best head, or for each of them and each head.
        relations: Only these relations; several names in a string have commas between them. There is no row
            of all links then.
        subtypes: Tell ``nsubj:pass`` from ``nsubj``.
        min_links: Leave relations out that have fewer links.
        trees: Give, for each head, how much of the tree its attention holds: the share of dependencies in
            its maximum spanning tree (UUAS).
        tokenizer: The tokenizer of a loaded model.
        options: See ``ModelKeywords``, ``TextKeywords``, ``LayerKeywords`` and ``RunKeywords`` in
            ``attnprobe.api.keywords``.

    Returns:
        One row a relation and direction, with its best head; or see ``by`` and ``trees``.

    Raises:
        AttnprobeError: With one sentence on what is wrong and what to do.

    Warns:
        AttnprobeWarning: Of what is worth knowing, such as links that were cut.
    """
    if by not in ("relation", "head"):
        raise AttnprobeError(f"by must be relation or head, not {by!r}.")
    if trees and (by != "relation" or relations is not None):
        raise AttnprobeError(
            "--trees gives one row per head, of whole trees; leave out --by and --relations."
        )

    def asked() -> "tuple[Statistic, Tabulation]":
        from attnprobe.statistics.links import links as ours

        if trees:
            from attnprobe.statistics.links.trees import TREE, TREES

            return TREES, TREE
        return ours.SYNTAX, ours.BY_RELATION if by == "relation" else ours.BY_RELATION_AND_HEAD

    chosen = {} if trees else {"labels": _names(relations), "subtypes": subtypes, "min_links": min_links}
    by_head = trees or by == "head"
    return _found("syntax", Gold.TREEBANK, model, texts, asked, tokenizer, options, chosen, by_head=by_head)


@spelled_out
def coreference(
    model: "str | Path | PreTrainedModel",
    texts: Texts = None,
    *,
    by: Literal["mention", "head"] = "mention",
    min_links: int = 20,
    tokenizer: Tokenizer | None = None,
    **options: Unpack[LinkKeywords],
) -> HeadTable:
    """Measure which heads find the antecedent of a mention.

    The answer of a head is the one, of the head words of the other mentions, that the head word of a mention
    attends to most. The best head for a kind of mention and the best rule, the nearest mention or the first
    one with the same last word (the nearest where there is none), are chosen on one half of the documents and
    scored on the other.

    Args:
        model: As for ``census``.
        texts: One or several files: CoNLL-U with ``Entity=`` (CorefUD), the tsv of GAP, sentences with
            brackets (WinoBias). By default the snippets that ship with attnprobe.
        by: A row for each kind of mention with its best head, or for each kind and each head.
        min_links: Leave kinds of mentions out that have fewer links.
        tokenizer: The tokenizer of a loaded model.
        options: As for ``syntax``.

    Returns:
        One row a kind of mention, with its best head; or see ``by``.
    """
    if by not in ("mention", "head"):
        raise AttnprobeError(f"by must be mention or head, not {by!r}.")

    def asked() -> "tuple[Statistic, Tabulation]":
        from attnprobe.statistics.links import links as ours

        return ours.COREFERENCE, ours.BY_MENTION if by == "mention" else ours.BY_MENTION_AND_HEAD

    gold, chosen = Gold.COREFERENCE, {"min_links": min_links}
    return _found("coreference", gold, model, texts, asked, tokenizer, options, chosen, by_head=by == "head")


@spelled_out
def links(
    model: "str | Path | PreTrainedModel",
    texts: Texts = None,
    *,
    by: Literal["label", "head"] = "label",
    labels: str | Sequence[str] | None = None,
    min_links: int = 20,
    tokenizer: Tokenizer | None = None,
    **options: Unpack[LinkKeywords],
) -> HeadTable:
    """Measure which heads find the other end of any gold links.

    Atom maps of reactions, alignments of translations, entities, citations: whatever joins two spans of a
    text, of a pair of texts, or of a text and what a decoder reads beside it.

    Heads are compared with fixed offsets, with the nearest word of the same text, with the word of the same
    text whose neighbours are most like those of the word that is asked, and, in another text, with the word
    at the same share of its length. ``baseline_rule`` names the best of these.

    Args:
        model: As for ``census``.
        texts: One or several files of JSON lines with ``text`` and ``links``, see the documentation; or a
            list of such rows as dicts. By default the dependencies that ship with attnprobe.
        by: A row for each label and direction with its best head, or for each of them and each head.
        labels: Only these labels; several names in a string have commas between them. There is no row of all
            links then.
        min_links: Leave labels out that have fewer links.
        tokenizer: The tokenizer of a loaded model.
        options: As for ``syntax``.

    Returns:
        One row a label and direction, with its best head; or see ``by``.
    """
    if by not in ("label", "head"):
        raise AttnprobeError(f"by must be label or head, not {by!r}.")

    def asked() -> "tuple[Statistic, Tabulation]":
        from attnprobe.statistics.links import links as ours

        return ours.LINKED, ours.BY_LABEL if by == "label" else ours.BY_LABEL_AND_HEAD

    chosen = {"labels": _names(labels), "min_links": min_links}
    return _found("links", Gold.LINKS, model, texts, asked, tokenizer, options, chosen, by_head=by == "head")


def _found(
    name: str,
    gold: Gold,
    model: "str | Path | PreTrainedModel",
    texts: Texts,
    asked: _Asked,
    tokenizer: Tokenizer | None,
    options: LinkKeywords,
    chosen: dict[str, Any],
    *,
    by_head: bool,
) -> HeadTable:
    layers = layers_of(options.get("layers"))
    if layers is not None and not by_head:
        raise AttnprobeError("--layers picks rows of heads; give --by head with it.")
    _check(chosen)
    with called(options, model) as call:
        check_model(model, tokenizer, options)
        source = begun(opened_gold(texts, gold, options))
        documents = linked(
            source.documents,
            source.name,
            labels=chosen.get("labels"),
            fold=gold is Gold.TREEBANK and not chosen.get("subtypes", True),
            nothing=gold.nothing,
        )
        statistic, tabulation = asked()
        from attnprobe.run.input.examples import with_targets
        from attnprobe.survey.survey import survey

        call.progress.stage("loading", None)
        checkpoint = checkpoint_of(model, tokenizer, call.load, source.kind)
        documents, labelled = with_targets(checkpoint, documents)
        facts = {"command": command(name), "dataset": source.described, "asked": chosen}
        found = survey(
            checkpoint,
            documents,
            call.corpus,
            [statistic],
            dataset=source.name,
            facts=facts,
            tabulation=tabulation,
            layers=layers,
            labelled=labelled,
            resume=call.resume,
            workers=call.workers,
            progress=call.progress,
        )
        return found.table


def _names(labels: str | Sequence[str] | None) -> list[str] | None:
    """Take labels apart that are given in a string, with commas between them."""
    if isinstance(labels, str):
        return [name for name in map(str.strip, labels.split(",")) if name]
    return None if labels is None else list(labels)


def _check(chosen: dict[str, Any]) -> None:
    """Refuse what can't be meant."""
    labels, fewest = chosen.get("labels"), chosen.get("min_links", 1)
    if labels is not None and not labels:
        raise AttnprobeError("No label is named; name some, such as nsubj, or leave the option out for all.")
    if not isinstance(fewest, int) or fewest < 1:
        raise AttnprobeError(f"--min-links must be at least 1, not {fewest!r}.")
