"""From where on a head has a role."""

#: From where on a head has a role; see ``deciding.roles_of``.
THRESHOLDS: dict[str, float] = {
    "positional": 0.9,
    "delimiter": 0.3,
    "preference": 0.9,
    "rare": 0.5,
    "syntactic": 0.1,
    "coreference": 0.1,
    "induction": 0.5,
    "duplicate": 0.5,
    "broad": 0.6,
    "block": 0.8,
}
