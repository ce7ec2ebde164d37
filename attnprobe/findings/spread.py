"""Where a number varies: between layers, heads, checkpoints of other seeds, and texts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.errors import AttnprobeError
from attnprobe.sums.resampling import CONFIDENCE
from attnprobe.table.builder import Labels, TableBuilder
from attnprobe.table.head_table import HeadTable
from attnprobe.table.naming import join_names
from attnprobe.table.table import Column

if TYPE_CHECKING:
    from attnprobe.findings.differences import BlockMeans


Floats = NDArray[np.float64]

#: Of each component, the subscripts of its effects: seed, layer, head within its layer, text. A head has no
#: meaning without its layer.
SUBSCRIPTS: Mapping[str, frozenset[str]] = {
    "layers": frozenset("l"),
    "heads": frozenset("lh"),
    "seeds": frozenset("s"),
    "layers_by_seed": frozenset("sl"),
    "heads_by_seed": frozenset("slh"),
    "texts": frozenset("t"),
    "layers_by_text": frozenset("lt"),
    "heads_by_text": frozenset("lht"),
    "seeds_by_text": frozenset("st"),
    "layers_by_seed_by_text": frozenset("slt"),
    "heads_by_seed_by_text": frozenset("slht"),
}
#: What a table gives, and of which components it consists.
PARTS: Mapping[str, tuple[str, ...]] = {
    **{name: (name,) for name in list(SUBSCRIPTS)[:-2]},
    "rest": ("layers_by_seed_by_text", "heads_by_seed_by_text"),
}
#: A variance below this part of the whole is rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Components:
    """Variance components of a number.

    Attributes:
        variance: Of one value: that of a head, in a checkpoint, over a text. The sum of the components, those
            below 0 left out.
        shares: Of each part, its share; NaN of one that the data can't tell. The others add up to 1.
        errors: Their standard errors, as if effects were normal.
        estimates: Of each component that the data can tell, its estimate without bias, which may be below 0.
    """

    variance: float
    shares: Mapping[str, float]
    errors: Mapping[str, float]
    estimates: Mapping[str, float]


def estimate_components(values: Floats, sizes: Floats) -> Components:
    """Estimate variance components from means over blocks of texts.

    For checkpoint s of S, layer l of L, head h of H in a layer, and text t, all effects random, with mean 0,
    and independent:

        y_slht = m + L_l + H_h(l) + S_s + (LS)_sl + (HS)_sh(l)
                   + T_t + (LT)_lt + (HT)_h(l)t + (ST)_st + (LST)_slt + (HST)_sh(l)t

    Heads are nested in layers; layers, heads, seeds and texts are crossed: head h of layer l is asked in
    every checkpoint, over every text. (HST) holds what else there is.

    What is given are means Y over B blocks of texts, block b of m_b. An effect that involves texts is
    averaged over those of a block, so that its variance is that of a single text divided by m_b, on average
    over blocks divided by their harmonic mean m:

        1/B sum_b sigma^2 / m_b = sigma^2 / m

    which is what a mean square of block means, each of weight 1, has for it (unweighted means). With
    N = S L H B, n_Z the number of levels of a component Z (L for layers, L H for heads, S L H B for the
    last), and MS_X the mean square of X in the analysis of variance of Y,

        E[MS_X] = sum over Z that have all the subscripts of X of N / n_Z v_Z

    where v_Z is sigma_Z^2, or sigma_Z^2 / m if Z involves texts. The estimates solve these equations, one for
    each component (method of moments). They have no bias, and can be below 0: then they count as 0. A
    component without degrees of freedom, such as layers where there is one only, can't be told from those
    that it is part of, and is NaN.

    Errors: mean squares are independent with variance 2 E[MS]^2 / df for normal effects, estimated by
    2 MS^2 / (df + 2); the errors of shares follow from that to first order. They are rough where a factor has
    few levels, as seeds have.

    Unit of the variance: that of the number, squared. Shares have none.

    Args:
        values: (seed, layer, head, block) means over the texts of each block; at least 2 seeds and 2 blocks.
        sizes: (block,) texts.

    References:
        Searle, Casella and McCulloch (1992), Variance components, sections 4.2 to 4.4 and 4.5c; Henderson's
        rules for expected mean squares of balanced data; Yates (1934), for unweighted means.
    """
    sizes_of = dict(zip("slht", values.shape, strict=True))
    levels = {name: prod(sizes_of[factor] for factor in factors) for name, factors in SUBSCRIPTS.items()}
    freedom = {name: _count_freedom(subscripts, sizes_of) for name, subscripts in SUBSCRIPTS.items()}
    told = [name for name in SUBSCRIPTS if freedom[name] > 0]
    squares = np.array([_sum_of_squares(values, SUBSCRIPTS[name]) / freedom[name] for name in told])
    expected = np.zeros((len(told), len(told)))
    for row, column in np.ndindex(expected.shape):
        if SUBSCRIPTS[told[row]] <= SUBSCRIPTS[told[column]]:
            expected[row, column] = values.size / levels[told[column]]
    solving = np.linalg.inv(expected)
    texts = float(1 / np.mean(1 / sizes))
    solving *= np.array([texts if "t" in SUBSCRIPTS[name] else 1.0 for name in told])[:, None]
    found = solving @ squares
    counted = found > _ROUNDING * np.abs(found).sum()
    estimates = dict(zip(told, found.tolist(), strict=True))
    whole = float(found[counted].sum())
    if whole <= _ROUNDING * float(np.square(values).mean()):
        nothing = dict.fromkeys(PARTS, np.nan)
        return Components(0.0, nothing, nothing, estimates)
    freedoms = np.array([freedom[name] for name in told])
    spread = 2 * np.square(squares) / (freedoms + 2)
    whole_by = solving[counted].sum(0)
    shares, errors = {}, {}
    for part, names in PARTS.items():
        own = np.isin(told, names)
        if not own.any():
            shares[part] = errors[part] = np.nan
            continue
        shares[part] = float(found[own & counted].sum() / whole)
        by = (solving[own].sum(0) - shares[part] * whole_by) / whole
        errors[part] = float(np.sqrt(np.square(by) @ spread))
    return Components(whole, shares, errors, estimates)


def _count_freedom(subscripts: frozenset[str], sizes: Mapping[str, int]) -> int:
    """Count the degrees of freedom of a component."""
    found = 1
    for factor in "st":
        found *= sizes[factor] - 1 if factor in subscripts else 1
    if "h" in subscripts:
        return found * sizes["l"] * (sizes["h"] - 1)
    return found * (sizes["l"] - 1) if "l" in subscripts else found


def _sum_of_squares(values: Floats, subscripts: frozenset[str]) -> float:
    """Sum the squares of the estimated effects of a component, over all values."""
    effect = values
    for axes, centred, averaged in _plan_axes(subscripts):
        if averaged:
            effect = effect.mean(averaged, keepdims=True)
        if centred:
            effect = effect - effect.mean(axes, keepdims=True)
    return float(np.square(effect).sum()) * values.size / effect.size


def _plan_axes(subscripts: frozenset[str]) -> Iterator[tuple[tuple[int, ...], bool, tuple[int, ...]]]:
    """Plan, axis by axis (seed, layer, head, block), what a component is centred and averaged over."""
    yield (0,), "s" in subscripts, () if "s" in subscripts else (0,)
    if "h" in subscripts:
        yield (2,), True, ()
    elif "l" in subscripts:
        yield (1,), True, (2,)
    else:
        yield (), False, (1, 2)
    yield (3,), "t" in subscripts, () if "t" in subscripts else (3,)


#: What is decided by the place of a head in the model, by the checkpoint, and by the text.
PLACE = ("layers", "heads")
SEED = ("seeds", "layers_by_seed", "heads_by_seed")
TEXT = ("texts", "layers_by_text", "heads_by_text", "seeds_by_text")
#: What the columns are about.
TITLES = {
    "layers": "between layers",
    "heads": "between heads of a layer, the same in all checkpoints",
    "seeds": "between checkpoints",
    "layers_by_seed": "between layers, other in each checkpoint",
    "heads_by_seed": "between heads of a layer, other in each checkpoint",
    "texts": "between texts",
    "layers_by_text": "between layers, other over each text",
    "heads_by_text": "between heads of a layer, other over each text",
    "seeds_by_text": "between checkpoints, other over each text",
    "rest": "all that is left",
}
#: Of what tells heads of a layer apart, less than the first share is alike in all checkpoints where numbers
#: of heads mean nothing, and more than the second where they mean much.
NOTHING, MUCH = 0.1, 0.5
#: Fewer checkpoints than this say little of the variance between them.
FEW = 10


@dataclass(frozen=True)
class Spread:
    """Where a column varies.

    Attributes:
        kind: The kind of attention, if there are several.
        blocks: Blocks of documents that they rest on.
    """

    column: Column
    kind: str | None
    found: Components
    blocks: int

    def sum_shares(self, parts: Sequence[str]) -> float:
        return float(np.nansum([self.found.shares[part] for part in parts]))


def tabulate_spread(
    tables: Sequence[HeadTable],
    names: Sequence[str],
    *,
    dataset: str,
    notes: Sequence[str],
    record: Mapping[str, Any],
) -> HeadTable:
    """Tabulate where columns vary over checkpoints, a row a column, from what their tables have on record.

    ``notes`` follow the table's own; ``record`` goes into the provenance.

    Raises:
        AttnprobeError: When they have other heads, or read other documents, or one document only.
    """
    # Takes torch, and what this file says of columns is needed where a table is shown.
    from attnprobe.findings.differences import check_same_documents, count_read, read_blocks

    check_same_documents(tables, names)
    sides = [read_blocks(table, name) for table, name in zip(tables, names, strict=True)]
    _check_heads(sides, names)
    documents, sequences, cut = count_read(tables[0])
    rows = [one for each in zip(*sides, strict=True) for one in _find_spreads(each, documents / sequences)]
    if not any(one.blocks > 1 for one in rows):
        raise AttnprobeError("How texts vary needs at least two of them; give more documents.")
    named = f"{names[0]} and {len(names) - 1} more"
    build = TableBuilder(Labels(named, dataset, record), len(rows))
    if rows[0].kind is not None:
        build.key("attention", [one.kind for one in rows])
    build.key("measure", [one.column.name for one in rows])
    build.add(Column("unit", role="text"), [one.column.unit for one in rows])
    build.count("n", np.full(len(rows), sequences))
    build.count("checkpoints", np.full(len(rows), len(names)), "checkpoints")
    build.add(Column("sd", title="standard deviation"), [one.found.variance**0.5 for one in rows])
    for part in PARTS:
        shares, errors = np.array([(one.found.shares[part], one.found.errors[part]) for one in rows]).T
        build.measure(part, "share of variance", shares, errors, headline=True, title=TITLES[part])
    own = _describe(rows, len(names))
    if cut:
        own.append(
            "Some documents were cut into windows: a text is a document then, of as many windows as "
            "documents have on average."
        )
    title = f"shares of the variance of each measure, over {len(names)} checkpoints"
    return build.table(title, [*own, *notes], "shares")


def _check_heads(sides: "Sequence[Sequence[BlockMeans]]", names: Sequence[str]) -> None:
    """Refuse checkpoints of other heads; all have to have those of the first."""
    first, *others = ({head: None for one in side for head in one.heads} for side in sides)
    layers, numbers = {head[:-1] for head in first}, {head[-1] for head in first}
    for name, heads in zip(names, (first, *others), strict=True):
        if heads.keys() != first.keys():
            raise AttnprobeError(
                f"{names[0]} has {len(first)} heads and {name} {len(heads)}, or others; --spread is about "
                "checkpoints of one shape."
            )
    if len(first) != len(layers) * len(numbers):
        raise AttnprobeError(
            f"Heads are removed from {names[0]}; --spread needs layers with equally many heads."
        )


def _find_spreads(each: "Sequence[BlockMeans]", documents: float) -> list[Spread]:
    """Find where a column, given of each checkpoint, varies, for each kind of attention.

    A sequence is so many documents on average: 1 where none is cut.
    """
    kinds: dict[str | None, list[tuple[Any, ...]]] = {}
    for head in each[0].heads:
        kinds.setdefault(head[0] if len(head) == 3 else None, []).append(head)
    found = []
    for kind, some in kinds.items():
        ordered = sorted(some, key=lambda head: head[-2:])
        layers = len({head[-2] for head in ordered})
        selected = (_select_heads(one, ordered) for one in each)
        values, sizes = (np.stack(part) for part in zip(*selected, strict=True))
        values = values.reshape(len(each), -1, layers, len(ordered) // layers).transpose(0, 2, 3, 1)
        whole = np.isfinite(values).all((0, 1, 2))
        if whole.sum() > 1:
            # Components are divided by the harmonic mean of the sizes, over blocks as well as heads.
            texts = 1 / (1 / sizes[:, whole]).mean((0, 2))
            parts = estimate_components(values[..., whole], texts * documents)
        else:
            nothing = dict.fromkeys(PARTS, np.nan)
            parts = Components(np.nan, nothing, nothing, {})
        found.append(Spread(each[0].column, kind, parts, int(whole.sum())))
    return found


def _select_heads(one: "BlockMeans", heads: Sequence[tuple[Any, ...]]) -> tuple[Floats, Floats]:
    """Select the means and the sizes of some heads, (block, head)."""
    places = {head: place for place, head in enumerate(one.heads)}
    at = [places[head] for head in heads]
    return one.means[:, at], one.sizes[:, at]


def _describe(rows: Sequence[Spread], checkpoints: int) -> list[str]:
    """Say what is most a matter of what, whether numbers of heads mean anything, and how rough it is."""
    known = [one for one in rows if one.found.variance > 0]
    same = [_name(one) for one in rows if one.found.variance == 0]
    said = [f"{join_names(same)} {'does' if len(same) == 1 else 'do'} not vary at all."] if same else []
    if not known:
        return said
    said += _name_most(known) if len(known) > 1 else []
    said += _judge_numbers(known)
    said.append(
        "Shares are of the variance of one value: a head, in a checkpoint, over a text. They add up to 1."
    )
    if checkpoints < FEW and any(one.sum_shares(SEED) > 0 for one in known):
        low, high = _bound_variance(checkpoints - 1)
        said.append(
            f"{checkpoints} checkpoints are few: the variance between them may be {low:.2g} to "
            f"{high:,.0f} times what was found ({CONFIDENCE:.0%} interval), and shares change with it."
        )
    return said


def _name_most(rows: Sequence[Spread]) -> list[str]:
    whats = {"place (layers, heads)": PLACE, "the checkpoint (seeds and by_seed)": SEED}
    whats["the text (texts and by_text)"] = TEXT
    parts = []
    for what, names in whats.items():
        best = max(rows, key=lambda one: one.sum_shares(names))
        parts.append(f"of {what} {_name(best)}, {best.sum_shares(names):.0%}")
    return [f"Most a matter {'; '.join(parts)}."]


def _judge_numbers(rows: Sequence[Spread]) -> list[str]:
    """Say whether a head of one checkpoint has to do with that of the same number in another."""
    pairs = [(one.found.shares["heads"], one.found.shares["heads_by_seed"]) for one in rows]
    told = [own / (own + other) for own, other in pairs if own + other > 0]
    if not told:
        return []
    alike = float(np.median(told))
    of_all = "" if len(told) == 1 else " (median of columns)"
    if alike < NOTHING:
        return [
            "The number of a head means nothing across these checkpoints: of what tells heads of a layer "
            f"apart, {alike:.0%} is the same in all of them{of_all}; compare layers, or matched heads."
        ]
    if alike > MUCH:
        return [
            "Heads of one number are the same across these checkpoints: that is "
            f"{alike:.0%} of what tells heads of a layer apart{of_all}."
        ]
    return [
        "The number of a head says little across these checkpoints: of what tells heads of a layer apart, "
        f"{alike:.0%} is the same in all of them{of_all}."
    ]


def _bound_variance(freedom: int) -> tuple[float, float]:
    """Bound the true variance by multiples of the estimated one, for normal effects."""
    from scipy.special import chdtri  # takes a while to import

    tail = (1 - CONFIDENCE) / 2
    return freedom / float(chdtri(freedom, tail)), freedom / float(chdtri(freedom, 1 - tail))


def _name(one: Spread) -> str:
    return one.column.name if one.kind is None else f"{one.column.name} ({one.kind})"
