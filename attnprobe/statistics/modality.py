"""Whether a head looks at the image or at the text, where both are read together."""

from __future__ import annotations

from functools import cache, partial
from itertools import count
from math import nan
from typing import TYPE_CHECKING, Literal

from attnprobe.statistics.statistic import (
    Family,
    Function,
    Statistic,
    mean_over_queries,
    mean_where,
    peak,
    read_at,
)

if TYPE_CHECKING:
    from torch import Tensor

    from attnprobe.attention.block import AttentionBlock
    from attnprobe.attention.features import TokenFeatures
    from attnprobe.attention.layout import Layout


FAMILY = Family("modality", "attention to image and text", 11)

#: What a token stands for: a part of the image, of the text, or neither.
Sort = Literal["image", "text", "special"]
#: Which queries are averaged; all that count, or those of one sort.
Asker = Literal["any", "image", "text"]


def _mark(tokens: TokenFeatures, sort: Sort) -> Tensor | None:
    """Mark the tokens of a sort, (batch, position); None where no image is read beside the text."""
    if tokens.mixed is None:
        return None
    image = tokens.mixed.image
    return {"image": image, "special": tokens.special, "text": ~(image | tokens.special)}[sort]


def _share(layout: Layout, sort: Sort) -> Tensor | None:
    """Share of the keys in sight that are of a sort, (batch, query) or (batch, 1)."""
    marked = _mark(layout.keys, sort)
    return None if marked is None else layout.seen(marked & layout.keys.kept) / layout.visible


def mean_of(values: Tensor, layout: Layout, asker: Asker) -> Tensor:
    """Average over the queries of one sort, or over all; undefined where there is none."""
    if asker != "any" and (asking := _mark(layout.queries, asker)) is not None:
        values = values.where(asking[:, None], nan)
    return mean_over_queries(values, layout)


def mass_on(block: AttentionBlock, sort: Sort) -> Tensor:
    """Probability on the keys of a sort S, m_i = sum_(j in S) p_ij.

    Every token is of the image, special, or of the text. Tokens of the image are the placeholders that the
    model puts the image in the place of, or what it reads of the image behind the text; special are all other
    special tokens of the tokenizer, such as those around an image.

    Limits: 0 to 1, and the three sorts add up to 1; for uniform attention, the share of the keys in sight
    that are of that sort. Text before the image in a decoder sees nothing of it, and counts with 0.

    Source: after Kovaleva et al. (2019) on special tokens, and Cao et al. (2020), Behind the scene, on the
    two modalities.
    """
    marked = _mark(block.layout.keys, sort)
    if marked is None:
        return block.probabilities.new_full(block.probabilities.shape[:3], nan)
    return (block.probabilities @ marked[:, None, :, None].to(block.probabilities.dtype)).squeeze(-1)


def lift(values: Tensor, layout: Layout, sort: Sort, asker: Asker) -> Tensor:
    """Divide the mean of m_i by the mean of k_i / n_i, over the queries that see a key of the sort.

    k_i of the n_i keys in sight are of that sort, so that uniform attention gives 1. It is undefined where
    no query sees such a key.
    """
    share = _share(layout, sort)
    if share is None:
        return mean_over_queries(values, layout)
    share = share[:, None].to(values.dtype).expand_as(values)
    seen = share > 0
    mean, uniform = (mean_of(part.where(seen, nan), layout, asker) for part in (values, share))
    return mean / uniform


def entropy_over(block: AttentionBlock, sort: Sort) -> Tensor:
    """Entropy of a row over the keys of one sort S alone, H = -sum_(j in S) q_ij ln q_ij in nats.

    q_ij = p_ij / m_i, with m_i the probability on all of S: how spread a head looks over the image, however
    little of its attention goes there. From text to image and from image to text it is called cross-modal
    entropy.

    Limits: 0 for one key alone, ln k for k keys of that sort in sight that are attended alike. Undefined
    where m_i is 0.

    Source: the entropy is that of Clark et al. (2019), section 3.2, of a row that is restricted to one
    modality.
    """
    import torch

    marked = _mark(block.layout.keys, sort)
    if marked is None:
        return mass_on(block, sort)
    rows = block.probabilities * marked[:, None, None].to(block.probabilities.dtype)
    return torch.special.entr(rows / rows.sum(-1, keepdim=True)).sum(-1)


def peak_share(peaks: Tensor, layout: Layout) -> Tensor:
    """Share of text queries whose most attended key is of the image, of those that see some of it.

    Limits: 0 to 1.

    Source: the share of argmaxes is that of Voita et al. (2019), section 5.
    """
    marked, share = _mark(layout.keys, "image"), _share(layout, "image")
    if marked is None or share is None:
        return mean_over_queries(peaks.new_full(peaks.shape, nan), layout)
    asking = _mark(layout.queries, "text")
    assert asking is not None
    counted = (share > 0) & asking
    return mean_where(read_at(peaks, marked), peaks.where(counted[:, None], nan), layout)


_NAMES: dict[Sort | Asker, str] = {"image": "the image", "text": "text", "special": "special tokens"}
_numbers = count()


@cache
def _on(what: Function, sort: Sort) -> Function:
    """Give a function for a sort of keys; statistics that share it share its cost."""
    return partial(what, sort=sort)


def _define(
    asker: Asker, sort: Sort, measure: Literal["mass", "lift", "entropy"] = "mass", *, headline: bool = False
) -> Statistic:
    name = sort if asker == "any" else f"{asker}_to_{sort}"
    if asker == "any" or measure != "mass":
        name = f"{name}_{measure}"
    who = "" if asker == "any" else f" of {_NAMES[asker]}"
    mean, attention = partial(mean_of, asker=asker), f"attention{who} to {_NAMES[sort]}"
    unit, function, reduce, title = {
        "mass": ("share", mass_on, mean, attention),
        "lift": ("ratio", mass_on, partial(lift, sort=sort, asker=asker), f"{attention} over its share"),
        "entropy": ("nats", entropy_over, mean, f"entropy{who} over {_NAMES[sort]}"),
    }[measure]
    return Statistic(
        name, unit, _on(function, sort), reduce, family=FAMILY, title=title, headline=headline,
        about="modalities", order=next(_numbers),
    )  # fmt: skip


IMAGE_MASS, TEXT_MASS = _define("any", "image"), _define("any", "text")
SPECIAL_MASS = _define("any", "special")
IMAGE_LIFT, TEXT_LIFT = _define("any", "image", "lift"), _define("any", "text", "lift")
TEXT_TO_IMAGE = _define("text", "image", headline=True)
TEXT_TO_TEXT, TEXT_TO_SPECIAL = _define("text", "text"), _define("text", "special")
IMAGE_TO_IMAGE, IMAGE_TO_TEXT = _define("image", "image"), _define("image", "text")
IMAGE_TO_SPECIAL = _define("image", "special")
TEXT_TO_IMAGE_LIFT = _define("text", "image", "lift", headline=True)
TEXT_TO_TEXT_LIFT = _define("text", "text", "lift")
IMAGE_TO_IMAGE_LIFT = _define("image", "image", "lift")
IMAGE_TO_TEXT_LIFT = _define("image", "text", "lift")
TEXT_TO_IMAGE_ENTROPY = _define("text", "image", "entropy")
TEXT_TO_TEXT_ENTROPY = _define("text", "text", "entropy")
IMAGE_TO_IMAGE_ENTROPY = _define("image", "image", "entropy")
IMAGE_TO_TEXT_ENTROPY = _define("image", "text", "entropy")
TEXT_TO_IMAGE_PEAK = Statistic(
    "text_to_image_peak", "share", peak, peak_share, family=FAMILY,
    title="queries of text that look most at the image", headline=True, about="modalities",
    order=next(_numbers),
)  # fmt: skip
