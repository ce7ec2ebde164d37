"""A quick report: how precise its sections are to be, how many documents each reads, and what it says.

Documents are counted by the tokens that they have on average, so that a page takes about as long of long
texts as of short ones. Nothing depends on the clock: the same data give the same numbers.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from attnprobe.corpus.sources.document import Document
from attnprobe.corpus.sources.media import MediaFolder
from attnprobe.corpus.sources.order import Order, arrange
from attnprobe.corpus.sources.text import OpenSource
from attnprobe.corpus.tokenization import Tokenizer, tokenize
from attnprobe.option import Option
from attnprobe.reports.report_page.report import OF_GOLD, Section
from attnprobe.sums.precision import FIRST
from attnprobe.table.head_table import HeadTable

#: Tokens that a section reads at most, as estimated from the first documents. In BERT-base shape, a page with
#: a task then takes 154 seconds of processor time (AMD EPYC), which two cores share.
TOKENS: dict[Section, int] = {
    "census": 16_384, "roles": 8_192, "distance": 8_192, "importance": 6_144, "prune": 6_144,
    "correlate": 3_072, "groups": 16_384,
}  # fmt: skip
#: Fewer documents than this are not read, however long they are: errors are over documents.
FEWEST = 16
#: So many images or clips are read; nobody counts their tokens before.
MEDIA = 64
#: Half-widths of 95 % intervals, in the unit of each column, at which a section reads no further: shares to
#: two hundredths, entropy to a tenth of a nat.
TARGETS: dict[Section, dict[str, float]] = {
    "census": {"entropy": 0.1, "confidence": 0.02, "previous": 0.02, "self": 0.02, "next": 0.02},
    "distance": {"jsd": 0.02},
}
#: What heads may cost that go, in the score's unit, where pruning is a search by bisection.
MARGIN = 0.05
#: Keywords that say how a run goes, and not what is measured.
_UNSAID = {"tokenizer", "progress", "threads", "workers", "resume"}


@dataclass(frozen=True)
class Budget:
    """What a quick report may read.

    Attributes:
        tokens: Tokens that a document has, on average over the first ones of the random order; None where
            documents are images, sound or videos.
        total: How many documents there are, where they were counted.
        related: Whether a task is about several texts together, of which no example stands alone.
    """

    tokens: float | None
    total: int | None = None
    related: bool = False

    def count_documents(self, section: Section) -> int:
        """Count the documents that a section reads at most.

        >>> [Budget(tokens).count_documents("census") for tokens in (25.6, 128, 5000, None)]
        [640, 128, 16, 64]
        """
        if section in OF_GOLD:
            return FIRST
        if self.tokens is None:
            return MEDIA
        number = max(FEWEST, int(TOKENS[section] / max(1.0, self.tokens)))
        return min(number, FIRST) if section == "roles" else number  # of each file with gold links, too

    def choose_options(self, section: Section, sample: int | None) -> dict[str, Any]:
        """Choose the options of a section's command; ``sample`` is what was asked for, None for nothing.

        >>> Budget(128).choose_options("prune", 20)
        {'sample': 20, 'margin': 0.05, 'search': 'bisect'}
        """
        most = self.count_documents(section)
        found: dict[str, Any] = {"sample": most if sample is None else min(most, sample)}
        if section in TARGETS:
            found["until"] = dict(TARGETS[section])
            if self.tokens is None:  # images have no neighbours in a text
                found["until"] = dict(islice(TARGETS[section].items(), 2))
        if section == "prune":
            found |= {"margin": MARGIN, "search": "bisect"}
        return found


def measure_budget(source: OpenSource, order: Order, tokenizer: Tokenizer, *, related: bool) -> Budget:
    """Count the tokens of the first documents of a random order, and the documents where that is cheap."""
    if isinstance(source.documents, MediaFolder):
        return Budget(None, len(source.documents.items), related)
    if source.kind != "text":
        return Budget(None, None, related)
    drawn = list(islice(arrange(source.documents, order), FIRST))
    tokens = sum(_count_tokens(tokenizer, parts) for parts in drawn)
    return Budget(tokens / len(drawn) if drawn else 1.0, order.total, related)


def _count_tokens(tokenizer: Tokenizer, documents: Iterable[Document]) -> int:
    texts = [text for one in documents for text in (one.text, one.pair) if text]
    return sum(len(ids) for ids in tokenize(tokenizer, texts, verbose=False)["input_ids"]) if texts else 0


def describe_section(section: Section, table: HeadTable, budget: Budget, command: str) -> Iterator[str]:
    """Say how much of the data a quick section read, how precise it is, and which command has it in full."""
    until = table.provenance.get("until")
    if not isinstance(until, Mapping):  # whose own note says it
        known = replace(budget, total=None) if section in OF_GOLD else budget
        yield f"{_describe_reading(table, known)}{_describe_width(section, table)}."
    yield f"This is a quick look. The table in full: {command}"


def _describe_reading(table: HeadTable, budget: Budget) -> str:
    corpora = table.provenance.get("corpora") or [table.provenance.get("corpus")]
    counts = [one["documents"] for one in corpora if isinstance(one, Mapping) and "documents" in one]
    total = budget.total
    read = f"{counts[0]:,}" if counts else "Some"
    of = f" of {total:,}" if total is not None and counts and total >= counts[0] else ""
    beside = f", and {counts[1]:,} of the other data," if len(counts) > 1 else ""
    return f"{read}{of} documents{beside} were read, drawn at random"


def _describe_width(section: Section, table: HeadTable) -> str:
    """Say how wide the widest interval of a section is that has no aim."""
    from attnprobe.survey.until import measure_widths

    names = {"roles": "value", "importance": "importance_normalized", "prune": "score"}
    names |= dict.fromkeys(OF_GOLD, "accuracy")
    name = names.get(section)
    corpus = table.provenance.get("corpus")
    if name is None or f"{name}_se" not in table.data or not isinstance(corpus, Mapping):
        return ""
    widths = measure_widths(table, name, int(corpus.get("documents", 0)))
    widths = widths[np.isfinite(widths)]
    if not len(widths):
        return ""
    what = {"roles": "the evidence of every role"}.get(section, f"every {name}")
    return f"; {what} is within \u00b1{widths.max():.2g} (95 %)"


def write_command(
    function: Any, model: str, data: Mapping[str, str], options: Mapping[str, Any], *more: str
) -> str:
    """Write the command line of a command.

    Args:
        function: The command.
        model: The checkpoint, quoted.
        data: Options that name data, with what they name, quoted; empty where nothing has a name.
        options: Keywords; those that the command does not have, or that change no number, are left out.
        more: Words behind them.
    """
    words = ["attnprobe", function.command.name, model or "MODEL"]
    words += [word for flag, named in data.items() if named for word in (flag, named)]
    known: Mapping[str, Option] = function.command.keywords
    for name, value in options.items():
        option = known.get(name)
        if option is None or name in _UNSAID or option.free or option.place or not option.on_line:
            continue
        if option.is_given(value):
            words += _spell_option(option, value)
    return " ".join([*words, *more])


def _spell_option(option: Option, value: Any) -> Iterator[str]:
    flag = option.flags[0].partition("/")[0]
    if option.is_switch:
        if value:
            yield flag
        return
    for one in value if isinstance(value, list | tuple) else [value]:
        if isinstance(one, Mapping):
            one = ",".join(f"{name}={number}" for name, number in one.items())  # noqa: PLW2901
        named = isinstance(one, str | int | float | Path)
        yield from (flag, shlex.quote(str(one)) if named else option.metavar or "DATA")
