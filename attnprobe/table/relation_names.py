"""What relations of a treebank are called, in a few words.

The names are those of Universal Dependencies (de Marneffe et al. 2021) and, of labels that only Stanford
Dependencies have, those of its manual (de Marneffe and Manning 2008); shortened where a picture has no room.
"""

from collections.abc import Mapping

RELATION_NAMES: Mapping[str, str] = {
    # Universal Dependencies
    "acl": "adnominal clause",
    "advcl": "adverbial clause",
    "advmod": "adverbial modifier",
    "amod": "adjectival modifier",
    "appos": "apposition",
    "aux": "auxiliary",
    "case": "case marker",
    "cc": "conjunction",
    "ccomp": "clausal complement",
    "clf": "classifier",
    "conj": "conjunct",
    "cop": "copula",
    "csubj": "clausal subject",
    "dep": "unspecified",
    "det": "determiner",
    "discourse": "discourse element",
    "dislocated": "dislocated element",
    "expl": "expletive",
    "fixed": "fixed expression",
    "flat": "flat expression",
    "goeswith": "goes with",
    "iobj": "indirect object",
    "mark": "clause marker",
    "nmod": "nominal modifier",
    "nsubj": "subject",
    "nummod": "numeric modifier",
    "obj": "object",
    "obl": "oblique nominal",
    "punct": "punctuation",
    "reparandum": "repair",
    "xcomp": "open complement",
    # Their usual subtypes
    "acl:relcl": "relative clause",
    "advcl:relcl": "relative clause",
    "aux:pass": "passive auxiliary",
    "cc:preconj": "preconjunction",
    "compound:prt": "particle",
    "csubj:pass": "passive clausal subject",
    "det:predet": "predeterminer",
    "nmod:poss": "possessor",
    "nsubj:pass": "passive subject",
    "obl:agent": "agent",
    "obl:tmod": "temporal modifier",
    # Stanford Dependencies
    "acomp": "adjectival complement",
    "auxpass": "passive auxiliary",
    "csubjpass": "passive clausal subject",
    "dobj": "direct object",
    "infmod": "infinitival modifier",
    "mwe": "multi-word expression",
    "neg": "negation",
    "nn": "noun compound",
    "npadvmod": "adverbial noun phrase",
    "nsubjpass": "passive subject",
    "num": "numeric modifier",
    "number": "compound number",
    "partmod": "participial modifier",
    "pcomp": "prepositional complement",
    "pobj": "object of a preposition",
    "poss": "possessor",
    "possessive": "possessive marker",
    "preconj": "preconjunction",
    "predet": "predeterminer",
    "prep": "preposition",
    "prt": "particle",
    "quantmod": "quantifier modifier",
    "rcmod": "relative clause",
    "tmod": "temporal modifier",
    "xsubj": "controlling subject",
}


def name_relation(label: str) -> str:
    """Name a relation, with its label in brackets; the label alone where it is known by no other name.

    A subtype that has no name of its own has that of its relation.

    >>> name_relation("nsubj"), name_relation("obl:npmod"), name_relation("compound")
    ('subject (nsubj)', 'oblique nominal (obl:npmod)', 'compound')
    """
    name = RELATION_NAMES.get(label) or RELATION_NAMES.get(label.partition(":")[0])
    return f"{name} ({label})" if name else label
