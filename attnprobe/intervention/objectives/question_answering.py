"""Extractive question answering: where the answer begins and ends, and how its words fit those of people."""

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, lru_cache

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, pad

from attnprobe.attention.tokens import TokenAnswers
from attnprobe.corpus.batch import Batch
from attnprobe.corpus.document import Asked
from attnprobe.intervention.objectives.objective import (
    Answer,
    Objective,
    compute_margin,
    list_labels,
    upcast,
)
from attnprobe.model.task_heads import QUESTION_ANSWERING
from attnprobe.run.corpus import Corpus
from attnprobe.run.examples import Documents, attach_contexts

#: Most tokens of an answer, as ``run_qa`` has it.
LONGEST = 30


class QuestionAnswering(Objective):
    """Extractive question answering: cross-entropies of where the answer begins and ends.

    The loss of an example is the mean of the cross entropies of the first and the last token of its answer,
    over all tokens, in nats: of the first answer that was not cut, and of the first special token where the
    context does not answer. The predicted answer is the stretch of the context, of at most 30 tokens, whose
    first and last logit have the largest sum; or none, where some example of the data has no answer and the
    first special token's sum is larger.

    References:
        Rajpurkar et al. (2016), SQuAD; Devlin et al. (2019), BERT, sections 4.2 and 4.3.
    """

    name = "question-answering"
    head = QUESTION_ANSWERING
    explains = "the mean over first and last token of the best logit less that of the runner-up"

    def read_labels(self, corpus: Corpus) -> None:
        self._questions = [label for label in list_labels(corpus) if isinstance(label, Asked)]
        self.abstains = any(not label.answers for label in self._questions)
        special = (getattr(self.checkpoint.tokenizer, f"{name}_token_id", None) for name in ("cls", "bos"))
        self._first = next((token for token in special if token is not None), None)

    @classmethod
    def read_examples(cls, documents: Documents) -> Documents:
        return attach_contexts(documents)

    def answer(self, batch: Batch, untouched: Answer | None = None) -> Answer:
        """Compute the loss, and how the predicted answer fits those of people: ``f1`` and ``exact_match``."""
        given = self.ask(batch)
        start, end = upcast(given.start_logits), upcast(given.end_logits)
        gold = [one.answers for one in batch.annotations if one is not None and one.answers is not None]
        none = torch.zeros(len(batch), dtype=torch.long)
        if self._first is not None:
            none = (batch.ids == self._first).long().argmax(-1).cpu()
        targets = [
            (answers.spans[0].start, answers.spans[0].stop - 1) if answers.spans else (place, place)
            for answers, place in zip(gold, none.tolist(), strict=True)
        ]
        first, last = torch.tensor(targets, device=start.device).T
        begins, ends = (cross_entropy(*side, reduction="none") for side in ((start, first), (end, last)))

        @cache
        def predict() -> list[str]:
            return self._extract_answers(batch, gold, start.detach().cpu(), end.detach().cpu(), none)

        def score(compare: Callable[[str, Sequence[str]], float]) -> Tensor:
            answers = [self._questions[member].answers for member in batch.members]
            return torch.tensor([float(compare(*pair)) for pair in zip(predict(), answers, strict=True)])

        return Answer(
            (begins + ends) / 2,
            {"f1": lambda: score(answer_f1), "exact_match": lambda: score(exact_match)},
            margin=lambda: (compute_margin(start) + compute_margin(end)) / 2,
        )

    def _extract_answers(
        self, batch: Batch, gold: list[TokenAnswers], start: Tensor, end: Tensor, none: Tensor
    ) -> list[str]:
        """Cut the predicted answer of each example out of its context; empty for no answer."""
        inside = torch.tensor([[ends is not None for ends in answers.characters] for answers in gold])
        first, last, best = find_best_spans(start, end, inside)
        rows = torch.arange(len(gold))
        silent = (start[rows, none] + end[rows, none] > best) & self.abstains
        texts = []
        for row, member in enumerate(batch.members):
            begins, stops = gold[row].characters[first[row]], gold[row].characters[last[row]]
            assert begins is not None
            assert stops is not None
            context = self._questions[member].context
            texts.append("" if silent[row] else context[begins[0] : stops[1]])
        return texts


def find_best_spans(start: Tensor, end: Tensor, inside: Tensor, longest: int = LONGEST) -> tuple[Tensor, ...]:
    """Find the stretch of ``longest`` tokens at most whose first and last logit have the largest sum.

    The logits are (batch, token), and so is ``inside``, which says what tokens may be either. It gives the
    first token, the last one, and the sum, each (batch,).
    """
    longest = min(longest, start.shape[1])
    start, end = start.masked_fill(~inside, -torch.inf), end.masked_fill(~inside, -torch.inf)
    ends = pad(end, (0, longest - 1), value=-torch.inf).unfold(1, longest, 1)
    best, place = (start[..., None] + ends).flatten(1).max(-1)
    first = place // longest
    return first, first + place % longest, best


_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


@lru_cache(maxsize=1 << 16)
def normalise_answer(answer: str) -> str:
    """Lower the letters, and drop punctuation, articles and superfluous blanks, as evaluate-v2.0.py does."""
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


def exact_match(predicted: str, answers: Sequence[str]) -> bool:
    """Tell whether an answer is one of those that people gave, or empty if they gave none."""
    return normalise_answer(predicted) in _normalise_answers(answers)


def answer_f1(predicted: str, answers: Sequence[str]) -> float:
    """Compute F1 of the words of an answer, with the one of people's that it fits best (evaluate-v2.0.py)."""
    words = normalise_answer(predicted).split()
    return max(_f1_of_words(words, answer.split()) for answer in _normalise_answers(answers))


def _normalise_answers(answers: Sequence[str]) -> Sequence[str]:
    return [*filter(None, map(normalise_answer, answers))] or [""]


def _f1_of_words(predicted: list[str], answer: list[str]) -> float:
    if not predicted or not answer:
        return float(predicted == answer)
    shared = sum((Counter(predicted) & Counter(answer)).values())
    return 2 * shared / (len(predicted) + len(answer))
