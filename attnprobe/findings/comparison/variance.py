"""Where a number varies: between layers, heads, checkpoints of other seeds, and texts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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


def components(values: Floats, sizes: Floats) -> Components:
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
    levels = {
        name: int(np.prod([sizes_of[factor] for factor in subscripts]))
        for name, subscripts in SUBSCRIPTS.items()
    }
    freedom = {name: _freedom(subscripts, sizes_of) for name, subscripts in SUBSCRIPTS.items()}
    told = [name for name in SUBSCRIPTS if freedom[name] > 0]
    squares = np.array([_sum_of_squares(values, SUBSCRIPTS[name]) / freedom[name] for name in told])
    expected = np.array(
        [
            [values.size / levels[of] if SUBSCRIPTS[name] <= SUBSCRIPTS[of] else 0.0 for of in told]
            for name in told
        ]
    )
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


def _freedom(subscripts: frozenset[str], sizes: Mapping[str, int]) -> int:
    """Count the degrees of freedom of a component."""
    found = 1
    for factor in "st":
        found *= sizes[factor] - 1 if factor in subscripts else 1
    if "h" in subscripts:
        return found * sizes["l"] * (sizes["h"] - 1)
    return found * (sizes["l"] - 1) if "l" in subscripts else found


def _sum_of_squares(values: Floats, subscripts: frozenset[str]) -> float:
    """Sum up the squares of the estimated effects of a component, over all values."""
    effect = values
    for axes, centred, averaged in _steps(subscripts):
        if averaged:
            effect = effect.mean(averaged, keepdims=True)
        if centred:
            effect = effect - effect.mean(axes, keepdims=True)
    return float(np.square(effect).sum()) * values.size / effect.size


def _steps(subscripts: frozenset[str]) -> Iterator[tuple[tuple[int, ...], bool, tuple[int, ...]]]:
    """Give, axis by axis (seed, layer, head, block), what a component is centred over, and averaged over."""
    yield (0,), "s" in subscripts, () if "s" in subscripts else (0,)
    if "h" in subscripts:
        yield (2,), True, ()
    elif "l" in subscripts:
        yield (1,), True, (2,)
    else:
        yield (), False, (1, 2)
    yield (3,), "t" in subscripts, () if "t" in subscripts else (3,)
