"""Whether a head looks at the image or at the text, where both are read together."""

from __future__ import annotations

from functools import partial
from itertools import product
from math import nan
from typing import TYPE_CHECKING

from attnprobe.statistics.special import Mark, count_seen, lift, mass_on
from attnprobe.statistics.statistic import Family, Statistic, mean_over_queries, mean_where, peak, read_at

if TYPE_CHECKING:
    from attnprobe.attention.tokens import TokenFeatures
    from attnprobe.statistics.statistic import AttentionBlock, Layout, Tensor


FAMILY = Family("modality", "attention to image and text", 11, by_default=False)


def _mark_tokens(tokens: TokenFeatures, sort: str) -> Tensor:
    """Mark the tokens of a sort, (batch, position); none is of an image that is not read beside a text."""
    image = tokens.kept & False if tokens.mixed is None else tokens.mixed.image
    return {"image": image, "special": tokens.special, "text": ~(image | tokens.special)}[sort]


def mark_keys(layout: Layout, sort: str) -> Tensor:
    """Every token is of the image, special, or of the text, and what goes to the three adds up to 1.

    Tokens of the image are the placeholders that the model puts it in the place of, or what it reads of it
    behind the text; special are all other special tokens, such as those around an image. Text before the
    image in a decoder sees nothing of it, and counts with 0.

    Source: after Kovaleva et al. (2019) on special tokens, and Cao et al. (2020), Behind the scene, on the
    two modalities.
    """
    return _mark_tokens(layout.keys, sort)


def mean_of(values: Tensor, layout: Layout, asker: str) -> Tensor:
    """Average over the queries of one sort, or over all; undefined where there is none."""
    if layout.keys.mixed is None:
        values = values.new_full(values.shape, nan)
    elif asker != "any" and layout.queries.mixed is not None:
        values = values.where(_mark_tokens(layout.queries, asker)[:, None], nan)
    return mean_over_queries(values, layout)


def entropy_over(block: AttentionBlock, mark: Mark) -> Tensor:
    """Entropy of a row over the keys of one sort S alone, H = -sum_(j in S) q_ij ln q_ij in nats.

    q_ij = p_ij / m_i, with m_i the probability on all of S: how spread a head looks over the image, however
    little goes there. Between text and image it is called cross-modal entropy.

    Limits: 0 for one key alone, ln k for k keys that are attended alike. Undefined where m_i is 0.

    Source: Clark et al. (2019), section 3.2, of a row that is restricted to one modality.
    """
    import torch

    rows = block.probabilities * block.layout.once(mark)[:, None, None].to(block.probabilities.dtype)
    return torch.special.entr(rows / rows.sum(-1, keepdim=True)).sum(-1)


def peak_share(peaks: Tensor, layout: Layout) -> Tensor:
    """Share of text queries whose most attended key is of the image, of those that see some of it.

    Limits: 0 to 1.

    Source: the share of argmaxes is that of Voita et al. (2019), section 5.
    """
    marked = _mark_tokens(layout.keys, "image")
    counted = (count_seen(layout, _MARKS["image"]) > 0) & _mark_tokens(layout.queries, "text")
    return mean_where(read_at(peaks, marked), peaks.where(counted[:, None], nan), layout)


_NAMES = {"image": "the image", "text": "text", "special": "special tokens"}
_MARKS = {sort: partial(mark_keys, sort=sort) for sort in _NAMES}
# Statistics that share a function share its cost.
_MASSES, _ENTROPIES = (
    {sort: partial(function, mark=mark) for sort, mark in _MARKS.items()}
    for function in (mass_on, entropy_over)
)


def _define(order: int, measure: str, asker: str, sort: str) -> Statistic:
    name = sort if asker == "any" else f"{asker}_to_{sort}"
    if asker == "any" or measure != "mass":
        name = f"{name}_{measure}"
    who = "" if asker == "any" else f" of {_NAMES[asker]}"
    mean, attention = partial(mean_of, asker=asker), f"attention{who} to {_NAMES[sort]}"
    unit, function, reduce, title = {
        "mass": ("share", _MASSES[sort], mean, attention),
        "lift": (
            "ratio",
            _MASSES[sort],
            partial(lift, mark=_MARKS[sort], mean=mean),
            f"{attention} over its share",
        ),
        "entropy": ("nats", _ENTROPIES[sort], mean, f"entropy{who} over {_NAMES[sort]}"),
    }[measure]
    return Statistic(
        name, unit, function, reduce, family=FAMILY, title=title, about="modalities", order=order,
        headline=name in {"text_to_image", "text_to_image_lift"},
    )  # fmt: skip


_EVERY = (
    *product(["mass"], ["any"], ["image", "text", "special"]),
    *product(["lift"], ["any"], ["image", "text"]),
    *product(["mass"], ["text", "image"], ["image", "text", "special"]),
    *product(["lift", "entropy"], ["text", "image"], ["image", "text"]),
)
STATISTICS = tuple(_define(order, *which) for order, which in enumerate(_EVERY))
TEXT_TO_IMAGE_PEAK = Statistic(
    "text_to_image_peak", "share", peak, peak_share, family=FAMILY,
    title="queries of text that look most at the image", headline=True, about="modalities",
    order=len(STATISTICS),
)  # fmt: skip
