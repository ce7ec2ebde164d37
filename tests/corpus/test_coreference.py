"""Which reader takes a file of coreference; the rows of GAP; and the links and guesses of mentions."""

import gzip
import hashlib
import io
import random
import sys

import pytest

from attnprobe.corpus.coreference import REACH, Mention, link_antecedent, link_mentions
from attnprobe.corpus.document import Span
from attnprobe.corpus.open import open_anything, read_coreference
from attnprobe.corpus.source import STDIN, Source
from attnprobe.errors import AttnprobeError

GAP = (
    "ID\tText\tPronoun\tPronoun-offset\tA\tA-offset\tA-coref\tB\tB-offset\tB-coref\tURL\n"
    "1\tAnn met Bea, as she said.\tshe\t16\tAnn\t0\tTRUE\tBea\t8\tFALSE\thttps://example.org\n"
)
ROW = "{}\tw\t_\tPRON\t_\t_\t_\t_\t_\tEntity=(e{})\n"
COREFUD = "# global.Entity = eid\n" + "".join(ROW.format(*pair) for pair in [(1, 1), (2, 2), (3, 1)])
FORMATS = {"x.conllu": COREFUD, "x.tsv": GAP, "plain": GAP}


def sources(spec):
    opened = open_anything(Source(str(spec), coreference=True))
    return opened, list(opened.documents)


@pytest.mark.parametrize("name", FORMATS)
def test_files(tmp_path, name):
    content = FORMATS[name].encode()
    path = tmp_path / f"{name}.gz"
    path.write_bytes(gzip.compress(content))
    opened, documents = sources(path)
    assert opened.name == path.name
    assert opened.described["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert opened.described["bytes"] == path.stat().st_size
    assert all(document.annotation.links for document in documents)
    assert len(documents) == 1


@pytest.mark.parametrize("content", [COREFUD, GAP])
@pytest.mark.parametrize("byte_order_mark", ["", "\ufeff"])
def test_standard_input_and_text_by_content(tmp_path, monkeypatch, content, byte_order_mark):
    raw = f"{byte_order_mark}\n{content}".encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
    opened, documents = sources(STDIN)
    assert (opened.name, opened.described["sha256"]) == ("stdin", None)
    path = tmp_path / "anything"
    path.write_bytes(raw)
    assert sources(path)[1] == documents


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("somebody/corpus", "somebody/corpus has no coreference"),
        ("missing.conllu", "there is no file missing.conllu"),
    ],
)
def test_what_holds_no_coreference(spec, says):
    with pytest.raises(AttnprobeError, match=says):
        sources(spec)


HEADER = ["ID", "Text", "Pronoun", "Pronoun-offset", "A", "A-offset", "A-coref", "B", "B-offset", "B-coref"]
TEXT = "Zoë 𠮷ster met Ida Orr , Jr. before she sang."


def cells(text=TEXT, pronoun="she", a=("Zoë 𠮷ster", "TRUE"), b=("Ida Orr , Jr.", "FALSE"), at=()):
    """Give the cells of a row; an offset is the right one unless ``at`` says otherwise."""
    right = {"Pronoun": text.rindex(f" {pronoun}") + 1, "A": text.index(a[0]), "B": text.index(b[0])}
    offsets = {name: str(offset) for name, offset in (right | dict(at)).items()}
    return ["row-7", text, pronoun, offsets["Pronoun"], a[0], offsets["A"], a[1], b[0], offsets["B"], b[1]]


def read(*rows, header=HEADER, end="\n"):
    return list(read_coreference(["\t".join(row) + end for row in [header, *rows]], "gap.tsv"))


def words(document, spans):
    return [document.text[span.start : span.stop] for span in spans]


def test_a_row():
    (document,) = read(cells())
    (link,) = document.annotation.links
    assert document.text == TEXT
    assert words(document, [link.source, link.target]) == ["she", "𠮷ster"]
    assert words(document, link.candidates) == ["𠮷ster", "Jr."]
    assert (link.also, link.label) == ((), "pronoun|feminine")
    guesses = [(rule, *words(document, [span])) for rule, span in link.guesses]
    assert guesses == [("nearest", "Jr."), ("first", "𠮷ster"), ("nearest proper", "Jr.")]


def test_names_behind_the_pronoun():
    text = "While she sang, Ann Low met Bea."
    (document,) = read(cells(text, a=("Bea", "TRUE"), b=("Ann Low", "TRUE")))
    (link,) = document.annotation.links
    assert words(document, [link.target, *link.also]) == ["Low", "Bea"]
    assert words(document, link.candidates) == ["Low", "Bea"]
    assert dict(link.guesses) == {
        "nearest": Span(20, 23),
        "nearest proper": Span(20, 23),
        "first": Span(20, 23),
    }


def test_rows_without_an_antecedent_are_left_out():
    neither = cells(a=("Zoë 𠮷ster", "false"))
    assert len(read(neither, cells(), neither)) == 1
    with pytest.raises(AttnprobeError, match=r"gap.tsv holds no mention with an antecedent"):
        read(neither)


@pytest.mark.parametrize(
    "row",
    [
        cells(at={"Pronoun": 3}),
        cells(at={"B": 15}),  # where UTF-16 counts one more for the letter that lies beyond its first plane
        cells(at={"A": "9" * 5000}),
        cells(at={"A": ""}),
        cells(a=("", "TRUE")),
        cells(a=("Zoë 𠮷ster", "perhaps")),
        cells()[:-1],
    ],
)
def test_rows_that_do_not_fit(row):
    with pytest.raises(AttnprobeError, match=r"line 3 of gap.tsv has"):
        read(cells(), row)


@pytest.mark.parametrize("header", [["text", "label"], [*HEADER[:-1], "A"], [*HEADER, "Text"]])
def test_other_tables(header):
    with pytest.raises(AttnprobeError, match=r"gap.tsv is no file of GAP"):
        read(header=header)


def mention(start, entity, last="w", *, kind="nominal", head_word="", text=""):
    return Mention(Span(start, start + 2), last, entity, kind, head_word, text)


def test_rules_guess_by_kind_head_word_and_all_words():
    """The nearest of each kind; of those before, the nearest that are spelled alike."""
    draw, kinds = random.Random(6), ["pronoun", "proper", "nominal", "other"]
    checked = 0
    for _ in range(300):
        mentions = [
            mention(
                3 * place,
                draw.choice("ab"),
                "x",
                kind=draw.choice(kinds),
                head_word=draw.choice(["H", "h", "k"]),
                text=draw.choice(["the h", "THE h", "a h", "k"]),
            )
            for place in range(7)
        ]
        at = draw.randrange(1, 7)
        source, others = mentions[at], [one for one in mentions if one is not mentions[at]]
        link = link_antecedent(source, others, "")
        if link is None:
            continue
        near = sorted(others, key=lambda one: (abs(one.head.start - source.head.start), one.head.start))
        before = [one for one in near if one.head.start < source.head.start]
        alike = [one for one in before if one.head_word.lower() == source.head_word.lower()]
        whole = [one for one in before if one.text.lower() == source.text.lower()]
        expected = {
            "first": sorted(others, key=lambda one: one.head.start),
            "same head word": alike,
            "same string": whole or alike,
            **{f"nearest {kind}": [one for one in near if one.kind == kind] for kind in kinds[:3]},
        }
        for rule, right in expected.items():
            guesses = [span for name, span in link.guesses if name == rule]
            assert guesses[:1] == [one.head for one in right[:1]], rule
            checked += bool(right)
    assert checked > 500


def test_links_are_those_of_plain_rules():
    draw = random.Random(5)
    for _ in range(200):
        count = draw.randrange(12)
        mentions = [
            mention(3 * draw.randrange(10), draw.choice("abc"), draw.choice(["x", "X", "y"]))
            for _ in range(count)
        ]
        links, expected = link_mentions(mentions), []
        for source in sorted(mentions, key=lambda source: source.head.start):
            before = [other for other in mentions if other.head.start < source.head.start]
            heads = sorted({other.head.start for other in before})
            right = sorted({other.head.start for other in before if other.entity == source.entity})
            if right and len(heads) > 1:
                same = sorted({o.head.start for o in before if o.last.lower() == source.last.lower()})
                expected.append((source.head.start, right[-1], right[:-1], heads, heads[-1], same))
        seen = [
            (
                link.source.start,
                link.target.start,
                [span.start for span in link.also],
                [span.start for span in link.candidates],
                link.guesses[0][1].start,
                [span.start for rule, span in link.guesses if rule == "same last word"],
            )
            for link in links
        ]
        assert sorted(seen) == sorted(expected)


def test_an_antecedent_beyond_reach_is_left_out():
    far = [mention(0, "far"), *(mention(3 * place, place) for place in range(1, REACH + 1))]
    (link,) = link_mentions([*far[:-1], mention(3 * REACH, "far")])
    assert len(link.candidates) == REACH
    assert link_mentions([*far, mention(3 * REACH + 3, "far")]) == []
