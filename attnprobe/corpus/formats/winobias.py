"""WinoBias: sentences with a pronoun and an occupation in brackets."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from attnprobe.corpus.formats import CoreferenceFormat
from attnprobe.corpus.sources.document import SEVERAL, Annotation, Document, Link, Span
from attnprobe.corpus.sources.links import NOMINAL, PRONOUN, Mention, link_antecedent, warn_left_out
from attnprobe.corpus.sources.streams import shorten, strip_ends
from attnprobe.errors import AttnprobeError

#: English pronouns, by which a bracket with a pronoun is told from one with an occupation.
PRONOUNS = {
    *("he", "him", "his", "himself", "she", "her", "hers", "herself", "it", "its", "itself"),
    *("they", "them", "their", "theirs", "themself", "themselves"),
}
#: What a part of a file's name says of its sentences.
STEREOTYPES = {"pro": "pro-stereotypical", "anti": "anti-stereotypical"}

#: The number of a sentence, which may be missing.
_NUMBER = re.compile(r"\s*[0-9]+\s+")
_BRACKET = re.compile(r"\[([^\[\]]*)\]")
#: A word; what follows an apostrophe is none, so that "nurse's" ends in "nurse".
_WORD = re.compile(r"(?<![\w'\u2019])\w+(?:-\w+)*")


def read_winobias(lines: Iterable[str], name: str) -> Iterator[Document]:
    """Read the sentences of a WinoBias file, each with a link from its pronoun to an occupation.

    An occupation stands for its last word. The pronoun chooses between the one in brackets and every other
    whose last word stands in the sentence; occupations are those that stand in brackets anywhere in the file.
    Links are labelled ``pronoun`` and, where ``pro`` or ``anti`` is a part of the file's name, with what the
    sentences say of stereotypes. A sentence with one occupation only is left out. One with two pronouns in
    brackets has two links.

    Raises:
        AttnprobeError: When a line has no brackets, or they are not closed.

    References:
        Zhao et al. (2018), Gender bias in coreference resolution: evaluation and debiasing methods.
    """
    sentences = [
        _read_sentence(line, f"line {number} of {name}")
        for number, line in enumerate(strip_ends(lines), start=1)
        if line.strip()
    ]
    occupations = {sentence.word(one) for sentence in sentences for one in sentence.occupations}
    label = _read_label(name)
    left_out: Counter[str] = Counter()
    for sentence in sentences:
        if not sentence.pronouns or not sentence.occupations:
            left_out["without both a pronoun and an occupation in brackets"] += 1
        elif links := _link_pronouns(sentence, occupations, label):
            yield Document(sentence.text, annotation=Annotation(links=tuple(links)))
        else:
            left_out["with only one of the occupations that the file has in brackets"] += 1
    if sentences and sum(left_out.values()) == len(sentences):
        raise AttnprobeError(
            f"{name} holds no sentence with a pronoun in brackets and two occupations to choose from, one of "
            "them in brackets too; coreference reads such sentences, as WinoBias has them, from text files."
        )
    warn_left_out(name, "sentence", left_out)


@dataclass(frozen=True)
class _Sentence:
    """A sentence without its brackets, and what stood in them, by its last words."""

    text: str
    pronouns: Sequence[Span]
    occupations: Sequence[Span]

    def word(self, span: Span) -> str:
        return self.text[span.start : span.stop].casefold()


def _read_sentence(line: str, where: str) -> _Sentence:
    line = " ".join(_NUMBER.sub("", line, count=1).split())
    text, pronouns, occupations, place = "", [], [], 0
    for bracket in _BRACKET.finditer(line):
        text += line[place : bracket.start()]
        place = bracket.end()
        inside = bracket[1].strip()
        words = list(_WORD.finditer(inside))
        if not words:
            raise AttnprobeError(
                f"{where} has brackets without a word; put a pronoun or an occupation there."
            )
        ends = Span(len(text) + words[-1].start(), len(text) + words[-1].end())
        (pronouns if inside.casefold() in PRONOUNS else occupations).append(ends)
        text += inside
    text += line[place:]
    if not place:
        raise AttnprobeError(
            f"{where} is {shorten(repr(line))}, without brackets: coreference reads WinoBias from text "
            "files, '1 [The nurse] thanked the guard because [she] felt safe.', GAP from .tsv, CorefUD "
            "from .conllu."
        )
    if set(text) & set("[]"):
        raise AttnprobeError(f"{where} has a bracket without its other half; mend {shorten(repr(line))}.")
    return _Sentence(text, pronouns, occupations)


def _link_pronouns(sentence: _Sentence, occupations: Collection[str], label: str) -> list[Link]:
    """Ask each pronoun of a sentence for the occupation that is in brackets.

    Each occupation is a candidate once: where it is in brackets, else where it stands first. "The cook
    thanked [the baker], for [she] was a good baker" asks which of two people is meant.
    """
    places = {sentence.word(span): span for span in sentence.occupations}
    for found in _WORD.finditer(sentence.text):
        if found[0].casefold() in occupations:
            places.setdefault(found[0].casefold(), Span(*found.span()))
    people = [
        Mention(span, word, span in sentence.occupations, NOMINAL)
        for word, span in sorted(places.items(), key=lambda item: item[1].start)
    ]
    pronouns = (Mention(span, sentence.word(span), True, PRONOUN) for span in sentence.pronouns)
    return [link for pronoun in pronouns if (link := link_antecedent(pronoun, people, label)) is not None]


def _read_label(name: str) -> str:
    """Say of a link what the name of its file says, unless it says both."""
    parts = set(re.split("[^a-z]+", PurePath(name).name.lower())) & STEREOTYPES.keys()
    return SEVERAL.join([PRONOUN, *(STEREOTYPES[part] for part in parts)]) if len(parts) == 1 else PRONOUN


FORMATS = [CoreferenceFormat("WinoBias", ".txt", read_winobias)]
