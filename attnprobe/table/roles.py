"""The names of roles, as tables have them, and the letters that stand for them in a picture."""

#: The role of a head that has none.
MIXED = "mixed"
#: Roles in their order, each with the letter that stands for it in a picture.
LETTERS = {
    "previous": "P",
    "next": "N",
    "self": "S",
    "offset": "O",
    "delimiter": "D",
    "rare words": "R",
    "syntactic": "Y",
    "coreference": "C",
    "induction": "I",
    "duplicate": "U",
    "broad": "B",
    "block": "K",
    MIXED: ".",
}


def kind_of(role: str) -> str:
    """Give the kind of a role: "syntactic" for "syntactic: det", "offset" for "offset +2".

    >>> [kind_of(role) for role in ("previous", "offset -2", "syntactic: det", "a new one")]
    ['previous', 'offset', 'syntactic', 'mixed']
    """
    return next(
        (kind for kind in LETTERS if role == kind or role.startswith((f"{kind}:", f"{kind} "))), MIXED
    )
