"""Turn sentences of WinoBias into gold links, to find the heads that resolve pronouns.

    python examples/winobias.py OUTPUT.jsonl [SENTENCES ...]
    attnprobe links MODEL -d OUTPUT.jsonl

SENTENCES are files such as ``pro_stereotyped_type1.txt.dev``; without them, two sentences are written. The
pronoun in brackets is linked to the occupation in brackets; the candidates are the occupations of its
sentence: those in brackets anywhere in the file. An occupation is represented by its last word. Links are
labelled pro-stereotypical or anti-stereotypical by the name of the file. Zhao et al. (2018), Gender bias in
coreference resolution.
"""

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SENTENCES = """
1 [The baker] called the gardener because [she] needed flour.
2 The baker called [the gardener] because [her] roses were fine.
"""
PRONOUNS = re.compile("he|him|his|himself|she|her|hers|herself|they|them|their|theirs|themselves", re.I)
WORD = re.compile(r"(?<![\w'\u2019])\w+(?:-\w+)*")


def read_sentence(line: str) -> tuple[str, list[list[int]], list[list[int]]]:
    """Take the number and the brackets off; give the text, and the ends of its pronouns and occupations."""
    line = " ".join(re.sub(r"^\s*\d+\s+", "", line).split())
    text, pronouns, occupations = "", [], []
    for part in re.split(r"(\[[^\[\]]*\])", line):
        inside = part.strip("[]").strip() if part.startswith("[") else part
        if part.startswith("[") and (words := list(WORD.finditer(inside))):
            ends = [len(text) + words[-1].start(), len(text) + words[-1].end()]
            (pronouns if PRONOUNS.fullmatch(inside) else occupations).append(ends)
        text += inside
    return text, pronouns, occupations


def convert(lines: Sequence[str], label: str) -> list[dict[str, Any]]:
    """Give the sentences that have a pronoun and two occupations to choose from, with their links."""
    sentences = [read_sentence(line) for line in lines if line.strip()]
    known = {text[start:stop].lower() for text, _, occupations in sentences for start, stop in occupations}
    rows = []
    for text, pronouns, occupations in sentences:
        places = {text[start:stop].lower(): [start, stop] for start, stop in occupations}
        for word in WORD.finditer(text):
            if word[0].lower() in known:
                places.setdefault(word[0].lower(), list(word.span()))
        candidates = sorted(places.values())
        links = [
            {"source": pronoun, "target": target, "label": label, "candidates": candidates}
            for pronoun in pronouns
            for target in occupations
            if len(candidates) > 1
        ]
        if links:
            rows.append({"text": text, "links": links})
    return rows


def name_label(path: Path) -> str:
    """Read off the name of a file what its sentences say of stereotypes."""
    parts = set(re.split("[^a-z]+", path.name.lower()))
    return next((f"{part}-stereotypical" for part in ("pro", "anti") if part in parts), "pronoun")


if __name__ == "__main__":
    output, *files = map(Path, sys.argv[1:])
    rows = [row for file in files for row in convert(file.read_text().splitlines(), name_label(file))]
    rows = rows if files else convert(SENTENCES.splitlines(), "pronoun")
    output.write_text("".join(json.dumps(row) + "\n" for row in rows))
