"""Turn reactions with atom maps into gold links, to find the heads that follow atoms.

    python examples/atom_maps.py OUTPUT.jsonl [REACTIONS]
    attnprobe links MODEL -d OUTPUT.jsonl

REACTIONS has a reaction SMILES a line, such as ``[CH3:1][OH:2]>>[CH3:1][Cl:3]``; without it, some textbook
reactions are written. Each atom of the product is linked to the atom of the reactants with its number; the
candidates are all atoms of the reactants. Numbers are removed, and symbols separated by blanks.
"""

import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

#: Esters, amides, ethers, halides, oxidations, reductions, additions, a ring.
REACTIONS = """
[CH3:1][C:2](=[O:3])[Cl:4].[OH:5][CH2:6][CH3:7]>>[CH3:1][C:2](=[O:3])[O:5][CH2:6][CH3:7]
[CH3:1][CH2:2][C:3](=[O:4])[Cl:5].[NH2:6][CH3:7]>>[CH3:1][CH2:2][C:3](=[O:4])[NH:6][CH3:7]
[CH3:1][C:2](=[O:3])[O:4][CH3:5].[OH2:6]>>[CH3:1][C:2](=[O:3])[OH:6].[OH:4][CH3:5]
[CH3:1][OH:2].[CH3:3][CH2:4][I:5]>>[CH3:1][O:2][CH2:4][CH3:3]
[CH3:1][CH2:2][Br:3].[OH2:4]>>[CH3:1][CH2:2][OH:4]
[CH3:1][CH2:2][CH2:3][OH:4].[ClH:5]>>[CH3:1][CH2:2][CH2:3][Cl:5]
[CH3:1][CH2:2][CH2:3][Br:4].[C-:5]#[N:6]>>[CH3:1][CH2:2][CH2:3][C:5]#[N:6]
[CH3:1][CH:2]([OH:3])[CH3:4]>>[CH3:1][C:2](=[O:3])[CH3:4]
[CH3:1][CH2:2][OH:3]>>[CH3:1][CH:2]=[O:3]
[CH3:1][CH2:2][C:3](=[O:4])[CH3:5]>>[CH3:1][CH2:2][CH:3]([OH:4])[CH3:5]
[CH3:1][CH2:2][C:3]#[N:4]>>[CH3:1][CH2:2][CH2:3][NH2:4]
[CH3:1][CH:2]=[O:3].[NH2:4][CH3:5]>>[CH3:1][CH:2]=[N:4][CH3:5]
[CH2:1]=[CH:2][CH2:3][CH3:4]>>[CH3:1][CH2:2][CH2:3][CH3:4]
[CH2:1]=[CH:2][CH3:3].[BrH:4]>>[CH3:1][CH:2]([Br:4])[CH3:3]
[CH2:1]=[CH:2][CH:3]=[CH2:4].[CH2:5]=[CH2:6]>>[CH2:1]1[CH:2]=[CH:3][CH2:4][CH2:5][CH2:6]1
[cH:1]1[cH:2][cH:3][cH:4][cH:5][cH:6]1.[Br:7][Br:8]>>[c:1]1([Br:7])[cH:2][cH:3][cH:4][cH:5][cH:6]1
"""
#: A bond, a bracket, a ring number, an arrow, or an atom.
_SYMBOL = re.compile(r">>|\[[^\]]*\]|Br|Cl|%\d\d|.")
_ATOM = re.compile(r"\[(?P<inside>\d*(?P<element>[A-Z][a-z]?|[a-z]{1,2})[^:\]]*):(?P<number>\d+)\]")
#: What needs no brackets where it has its usual number of hydrogens.
_PLAIN = re.compile(r"(?P<element>Br|Cl|[BCNOPSFI]|[bcops]|n(?!H))(?:H\d*)?")


def make_row(reaction: str, between: str = " ") -> dict[str, Any]:
    """Give the text and the links of a reaction.

    Args:
        reaction: With a number at each atom that is followed.
        between: What stands between symbols; nothing for a tokenizer that reads plain SMILES.
    """
    text, places, elements = "", dict[tuple[str, bool], list[int]](), dict[str, str]()
    for symbol in _SYMBOL.findall(reaction):
        atom = _ATOM.fullmatch(symbol)
        plain = atom and _PLAIN.fullmatch(atom["inside"])
        written = plain["element"] if plain else f"[{atom['inside']}]" if atom else symbol
        text += between if text else ""
        if atom:
            places[atom["number"], ">>" in text] = [len(text), len(text) + len(written)]
            elements[atom["number"]] = atom["element"].capitalize()
        text += written
    reactants = {number: place for (number, made), place in places.items() if not made}
    links = [
        {"source": place, "target": reactants[number], "label": elements[number]}
        for (number, made), place in places.items()
        if made and number in reactants
    ]
    return {"text": text, "links": links}


def main(output: str, reactions: Iterable[str] | None = None, between: str = " ") -> None:
    """Write a line of JSON for each reaction."""
    given = REACTIONS.splitlines() if reactions is None else reactions
    rows = [make_row(line.strip(), between) for line in given if line.strip()]
    Path(output).write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    print(f"wrote {output}: {len(rows)} reactions, {sum(len(row['links']) for row in rows)} links")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]).read_text(encoding="utf-8").splitlines() if sys.argv[2:] else None)
