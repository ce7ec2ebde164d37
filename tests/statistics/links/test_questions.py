"""From annotations to questions: who is asked, who is no answer, what is right, what a fixed offset says."""

import numpy as np
from block_parts import build_uniform_block

from attnprobe.attention.layout import Layout
from attnprobe.attention.tokens import TokenAnnotation, TokenLink, TokenSpan
from attnprobe.statistics.questions import questions_of
from attnprobe.statistics.rules import ALL, FURTHEST, OFFSETS, LinkTask
from attnprobe.sums.links import FAR

BOTH = LinkTask("forward", "backward", OFFSETS, "label")


def span(start, stop=None):
    return TokenSpan(start, stop or start + 1)


def ask(annotation, task=BOTH, *, length=12, causal=False, crossed=False):
    tokens = build_uniform_block(length).layout.keys
    other = build_uniform_block(length).layout.keys if crossed else tokens
    layout = Layout(tokens, other, causal=causal, annotations=(annotation,))
    return questions_of(layout, task)


def right_spans(questions):
    """For each question, the spans of its right answers."""
    return [
        [
            tuple(map(int, questions.rows.spans[candidate]))
            for first, stop in questions.right[slice(*ends)]
            for candidate in range(first, stop)
        ]
        for ends in questions.answers
    ]


def candidates(questions, question):
    row = questions.row[question]
    first, stop = questions.rows.candidates[row]
    itself = range(*questions.rows.itself[row])
    return [tuple(map(int, questions.rows.spans[one])) for one in range(first, stop) if one not in itself]


def offsets(questions, question):
    return [int(rule) - FURTHEST for rule in np.flatnonzero(questions.guesses[question])]


def from_to(first, last=FURTHEST):
    return [offset for offset in range(first, last + 1) if offset]


def words(*starts, stop):
    ends = [*starts[1:], stop]
    return tuple(TokenSpan(a, b) for a, b in zip(starts, ends, strict=True))


FIVE = words(1, 2, 4, 5, 7, stop=8)


def test_words_of_the_same_tokens_are_one():
    """The second and the third word can't be told apart, so neither is an answer to the other."""
    same = (span(1), span(2), span(2), span(3))
    questions = ask(
        TokenAnnotation(same, (TokenLink(same[1], same[2], "x"), TokenLink(same[0], same[2], "x")))
    )
    assert (questions.left_out.tolist(), len(questions.row)) == ([2, 0, 0], 2)
    assert right_spans(questions)[0] == [(2, 3)]
    assert offsets(questions, 0) == from_to(-10, 1)  # before the first word stands nothing: the second


def test_spans_of_several_words():
    """An answer is any word of the target; the words of the source are none."""
    link = TokenLink(TokenSpan(1, 4), TokenSpan(5, 8), "x")
    questions = ask(TokenAnnotation(FIVE, (link,)))
    assert right_spans(questions) == [[(5, 7), (7, 8)], [(1, 2), (2, 4)]]
    assert candidates(questions, 0) == [(4, 5), (5, 7), (7, 8)]
    assert (offsets(questions, 0), offsets(questions, 1)) == (from_to(2), from_to(-10, -2))
    part = ask(TokenAnnotation(FIVE, (TokenLink(span(3), FIVE[4], "x"),)))  # of a word of two tokens
    assert candidates(part, 0) == [(1, 2), (4, 5), (5, 7), (7, 8)]


def test_candidates_answer_the_source_alone():
    link = TokenLink(FIVE[3], FIVE[0], "x", candidates=(FIVE[4], FIVE[0], FIVE[3]), also=(FIVE[4],))
    link = link._replace(candidates=(*link.candidates, FIVE[1]))
    questions = ask(TokenAnnotation(FIVE, (link,)))
    assert list(questions.keys) == [(ALL, "forward"), ("x", "forward")]  # one of the answers is a neighbour
    assert candidates(questions, 0) == [(1, 2), (2, 4), (7, 8)]
    assert right_spans(questions) == [[(1, 2), (7, 8)]]
    # A fixed offset chooses the candidate nearest to its place: of words 0, 1 and 4, the second is wrong.
    assert offsets(questions, 0) == [offset for offset in range(-10, 11) if offset not in {-2, -1}]


def test_no_choice_is_no_question():
    """Of two antecedents and nothing else, whatever a head looks at is right."""
    link = TokenLink(FIVE[3], FIVE[0], "x", candidates=(FIVE[1], FIVE[0], FIVE[3]), also=(FIVE[1],))
    questions = ask(TokenAnnotation(FIVE, (link,)))
    assert (questions.left_out.tolist(), len(questions.row), len(questions.rows)) == ([0, 0, 1], 0, 0)


def test_a_decoder_chooses_from_what_it_sees():
    """Of A, the pronoun and B, a decoder sees A alone, whatever its heads do."""
    between = TokenLink(FIVE[2], FIVE[0], "x", candidates=(FIVE[0], FIVE[4]))
    behind = between._replace(source=FIVE[4], candidates=(FIVE[0], FIVE[1]))
    questions = ask(TokenAnnotation(FIVE, (between, behind)), causal=True)
    assert (questions.left_out.tolist(), right_spans(questions)) == ([0, 0, 1], [[(1, 2)]])
    assert ask(TokenAnnotation(FIVE, (between, behind))).left_out.tolist() == [0, 0, 0]


def test_from_a_decoder_to_an_encoder():
    """Words of two texts: there is no word itself, and the same place is an offset like any other."""
    keys = words(0, 1, 3, stop=5)
    links = (
        TokenLink(FIVE[1], keys[1], "x", asks="forward"),
        TokenLink(keys[2], FIVE[0], "x", asks="backward"),
    )
    questions = ask(TokenAnnotation(FIVE, links, keys=keys), crossed=True)
    assert candidates(questions, 0) == [(0, 1), (1, 3), (3, 5)]
    assert right_spans(questions) == [[(1, 3)], [(3, 5)]]
    assert [tuple(questions.rows.queries[row]) for row in questions.row] == [(2, 4), (1, 2)]
    assert (offsets(questions, 0), offsets(questions, 1)) == ([0], from_to(2))


def test_offsets_in_a_pair_of_texts():
    """Words count from the beginning of either text: the same number is offset 0."""
    pair = words(1, 2, 4, 5, stop=6), words(7, 8, 9, stop=10)
    links = (TokenLink(pair[0][2], pair[1][1], "x"), TokenLink(pair[0][0], pair[0][3], "x"))
    questions = ask(TokenAnnotation((*pair[0], *pair[1]), links, second=7))
    assert [offsets(questions, question) for question in range(4)] == [
        [-1],
        [1],
        from_to(3),
        from_to(-10, -3),
    ]
    questions = ask(
        TokenAnnotation((*pair[0], *pair[1]), (TokenLink(pair[0][1], pair[1][1], "x"),), second=7)
    )
    assert [offsets(questions, question) for question in range(2)] == [[0], [0]]
    assert not any(FAR in key for key in questions.keys)  # between two texts stand no words
