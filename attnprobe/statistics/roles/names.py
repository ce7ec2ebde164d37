"""The names of roles, and from where on a head has one."""

#: From where on a head has a role; see ``deciding.roles_of``.
THRESHOLDS: dict[str, float] = {
    "positional": 0.9,
    "delimiter": 0.5,
    "rare": 0.5,
    "syntactic": 0.1,
    "coreference": 0.1,
    "induction": 0.5,
    "duplicate": 0.5,
    "broad": 0.8,
    "block": 0.9,
}
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
