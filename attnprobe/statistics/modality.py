"""Whether a head looks at the image or at the text, where both are read together."""

from __future__ import annotations

from functools import partial
from itertools import product
from math import nan
from typing import TYPE_CHECKING

from attnprobe.statistics.special import Mark, count_seen, lift, mass_on
from attnprobe.statistics.statistic import Family, Statistic, mean_over_queries, peak, read_at, share_of_hits

if TYPE_CHECKING:
    from attnprobe.attention.tokens import TokenFeatures
    from attnprobe.statistics.statistic import AttentionBlock, Layout, Tensor


FAMILY = Family("modality", "attention to image and text", 11, by_default=False)


def _mark_tokens(tokens: TokenFeatures, sort: str) -> Tensor:
    """Mark the tokens of a sort, (batch, position); none is of an image that is not read beside a text."""
    image = tokens.kept & False if tokens.mixed is None else tokens.mixed.image
    return {"image": image, "special": tokens.special, "text": ~(image | tokens.special)}[sort]


def mark_keys(layout: Layout, sort: str) -> Tensor:
    """Every token is an image, special or text token; attention to the three adds up to 1.

    Image tokens are the placeholders that the model replaces by the image, or image states after the text.
    All other special tokens, such as those around an image, count as special. In a decoder, text before the
    image does not see it, and counts with 0.

    Source: after Kovaleva et al. (2019) on special tokens, and Cao et al. (2020), Behind the scene, on the
    two modalities.
    """
    return _mark_tokens(layout.keys, sort)


def mean_of(values: Tensor, layout: Layout, asker: str) -> Tensor:
    """Average over the queries of one kind, or over all; undefined if there are none."""
    if layout.keys.mixed is None:
        values = values.new_full(values.shape, nan)
    elif asker != "any" and layout.queries.mixed is not None:
        return mean_over_queries(values, layout, _mark_tokens(layout.queries, asker))
    return mean_over_queries(values, layout)


def entropy_over(block: AttentionBlock, mark: Mark) -> Tensor:
    """Entropy of a row over the keys of one kind S alone, H = -sum_(j in S) q_ij ln q_ij in nats.

    q_ij = p_ij / m_i, with m_i the attention to all of S: how spread attention is over the image, however
    little the image gets. Between text and image it is called cross-modal entropy.

    Limits: 0 for a single key, ln k for equal attention to k keys. Undefined if m_i is 0.

    Source: Clark et al. (2019), section 3.2, for a row restricted to one modality.
    """
    import torch

    rows = block.probabilities * block.layout.once(mark)[:, None, None].to(block.probabilities.dtype)
    return torch.special.entr(rows / rows.sum(-1, keepdim=True)).sum(-1)


def peak_share(peaks: Tensor, layout: Layout) -> Tensor:
    """Share of text queries whose most attended key is an image token, among those that see any.

    Limits: 0 to 1.

    Source: Voita et al. (2019), section 5, on shares of argmaxes.
    """
    counted = (count_seen(layout, _MARKS["image"]) > 0) & _mark_tokens(layout.queries, "text")
    return share_of_hits(read_at(peaks, _mark_tokens(layout.keys, "image")), peaks, layout, counted)


_NAMES = {"image": "the image", "text": "text", "special": "special tokens"}
_MARKS = {sort: partial(mark_keys, sort=sort) for sort in _NAMES}
# Statistics that share a function share its cost.
_MASSES = {sort: partial(mass_on, mark=mark) for sort, mark in _MARKS.items()}
_ENTROPIES = {sort: partial(entropy_over, mark=mark) for sort, mark in _MARKS.items()}


def _define(order: int, measure: str, asker: str, sort: str) -> Statistic:
    name, of_whom = sort, ""
    if asker != "any":
        name, of_whom = f"{asker}_to_{sort}", f" of {_NAMES[asker]}"
    if asker == "any" or measure != "mass":
        name = f"{name}_{measure}"
    define = partial(
        Statistic, name, family=FAMILY, about="modalities", order=order,
        headline=name in {"text_to_image", "text_to_image_lift"},
    )  # fmt: skip
    mean, title = partial(mean_of, asker=asker), f"attention{of_whom} to {_NAMES[sort]}"
    if measure == "mass":
        return define("share", _MASSES[sort], mean, title=title)
    if measure == "lift":
        ratio = partial(lift, mark=_MARKS[sort], mean=mean)
        return define("ratio", _MASSES[sort], ratio, title=f"{title} over its share")
    return define("nats", _ENTROPIES[sort], mean, title=f"entropy{of_whom} over {_NAMES[sort]}")


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
