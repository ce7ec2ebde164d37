"""Every number of the census from its definition, with numpy, from maps that a model gives itself.

It knows nothing of attnprobe: ``test_reference`` and ``test_media_reference`` hold the two side by side.
"""

import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import entr
from scipy.stats import entropy as scipy_entropy
from transformers import AutoModel, AutoTokenizer

Text = str | tuple[str, str]
Array = NDArray[np.float64]

CAUSAL = {"gpt2", "llama"}
FURTHEST = 64
FURTHEST_STEP = 8
FREQUENT = 500
FRAMING = {"[PAD]", "[CLS]", "[SEP]", "<s>", "</s>", "<pad>"}
SEPARATORS = {"[SEP]", "</s>"}


# What the tokens are


def byte_of() -> dict[str, int]:
    """GPT-2's letters for bytes: printable ones stand for themselves, the rest begin at 256."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(hidden)}


def spelled(name: str, *, bytelevel: bool) -> str:
    """Spell a token from its name, without the marks of WordPiece, sentencepiece and byte-level BPE."""
    if bytelevel:
        return bytes(map(byte_of().__getitem__, name)).decode("utf-8", "replace").strip()
    return name.removeprefix("##").replace("▁", " ").strip()


def is_mark(character: str) -> bool:
    """Tell punctuation as BERT's tokenizer does: any ASCII sign, and Unicode's categories P."""
    code = ord(character)
    sign = 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126
    return sign or unicodedata.category(character).startswith("P")


@dataclass
class Sentence:
    """One text as the model sees it."""

    names: list[str]
    leads: bool
    bytelevel: bool

    def __post_init__(self) -> None:
        place = np.arange(len(self.names))
        self.first = (place == 0) & self.leads
        self.separator = np.array([name in SEPARATORS for name in self.names]) & ~self.first
        self.special = self.first | self.separator
        words = ["" if name in FRAMING else spelled(name, bytelevel=self.bytelevel) for name in self.names]
        marks = np.array([bool(word) and all(map(is_mark, word)) for word in words])
        self.punctuation = marks & ~self.special
        self.other = ~(self.special | self.punctuation)


@dataclass
class Rarity:
    """How rare each type of the corpus is: how many are more frequent, and its part in the last tenth."""

    rank: dict[str, int]
    rare: dict[str, float]

    @classmethod
    def of(
        cls, corpus: Iterable[Sequence[str]], vocabulary: dict[str, int], known: dict[str, float]
    ) -> "Rarity":
        """Count, and go from the rarest equals to the next until a tenth is full; the last ones share."""
        counts = Counter(name for names in corpus for name in names if name not in FRAMING)
        types = [name for name in vocabulary if name not in FRAMING]
        frequent = {name: (known.get(name, 0.0), counts[name]) for name in types}
        among = sorted(frequent.values())
        left, rare = Fraction(counts.total(), 10), dict[str, float]()
        for level in dict.fromkeys(among):
            equals = [name for name in types if frequent[name] == level]
            room = sum(counts[name] for name in equals)
            rare |= dict.fromkeys(equals, float(min(left / room, 1) if room else 1))
            left -= min(left, room)
        return cls({name: len(among) - bisect_right(among, frequent[name]) for name in types}, rare)

    def rarest(self, names: Iterable[str]) -> list[int]:
        """Give the ranks of the types among some tokens, the rarest first; equals each have a place."""
        return sorted((self.rank[name] for name in {*names}), reverse=True)


@dataclass
class Heard:
    """Attention of one kind in one text: who attends to what, (layer, head, query, key)."""

    kind: str
    queries: Sentence
    keys: Sentence
    maps: Array
    grid: tuple[int, int, int] | None = None  # of an image: the first patch, rows, columns
    lengths: Array | None = None  # of what each key gives to the residual stream, (layer, head, key)

    @property
    def patch_leads(self) -> bool:
        """Whether the first token is a patch like the others."""
        return self.grid is not None and self.grid[0] == 0


#: From a model to what gives the lengths of its keys in the last pass, by kind of attention.
Measure = Callable[[Any], Callable[[], dict[str, Array]]]


def read(
    folder: Path, texts: Sequence[Text], measure: Measure = lambda _: dict
) -> tuple[list[list[Heard]], dict[str, int]]:
    """Run every text alone through the eager model; a decoder beside the encoder reads it too."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    bytelevel, lengths = "Ġ" in tokenizer.get_vocab(), measure(model)

    def named(ids: list[int], *, leads: bool) -> Sentence:
        return Sentence(tokenizer.convert_ids_to_tokens(ids), leads, bytelevel)

    def stacked(maps: Sequence[torch.Tensor]) -> Array:
        return torch.cat(list(maps)).double().numpy()

    heard = []
    for text in texts:
        inputs = tokenizer(*([text] if isinstance(text, str) else text), return_tensors="pt")
        ids = inputs["input_ids"][0].tolist()
        source = named(ids, leads=tokenizer.convert_ids_to_tokens(ids)[0] in {"[CLS]", "<s>"})
        if not model.config.is_encoder_decoder:
            with torch.inference_mode():
                maps = stacked(model(**inputs, output_attentions=True).attentions)
            kind = "decoder" if folder.name in CAUSAL else "encoder"
            heard.append([Heard(kind, source, source, maps, lengths=lengths().get(kind))])
            continue
        shifted = [model.config.decoder_start_token_id, *ids[:-1]]
        with torch.inference_mode():
            given = model(**inputs, decoder_input_ids=torch.tensor([shifted]), output_attentions=True)
        target, each = named(shifted, leads=True), lengths()
        heard.append(
            [
                Heard(kind, queries, keys, stacked(maps), lengths=each.get(kind))
                for kind, queries, keys, maps in (
                    ("encoder", source, source, given.encoder_attentions),
                    ("decoder", target, target, given.decoder_attentions),
                    ("cross", target, source, given.cross_attentions),
                )
            ]
        )
    return heard, tokenizer.get_vocab()


# What the heads do, sentence by sentence


def describe(heard: Heard, rarity: Rarity, *, content_only: bool) -> dict[str, Array]:
    """Compute every statistic of one kind of attention in one text; (layer, head) each, or more."""
    queries, keys, across = heard.queries, heard.keys, heard.kind == "cross"
    able = ~queries.special if content_only else np.ones(len(queries.names), bool)
    kept = ~keys.special if content_only else np.ones(len(keys.names), bool)
    here, place = np.flatnonzero(able), np.flatnonzero(kept)
    rows = heard.maps[:, :, able][..., kept]
    rows = rows / rows.sum(-1, keepdims=True)
    layers, heads, n, _ = rows.shape
    seen = place <= here[:, None] if heard.kind == "decoder" else np.ones((n, len(place)), bool)
    number = seen.sum(1)
    nothing = np.full((layers, heads), np.nan)
    rank = np.array([rarity.rank.get(name, -1) if not s else -1
                     for name, s in zip(keys.names, keys.special, strict=True)])  # fmt: skip
    rare = np.array([rarity.rare.get(name, 0.0) for name in keys.names]) * ~keys.special
    peak = place[rows.argmax(-1)]
    distances = np.abs(here[:, None] - place)

    def over(values: Array, where: NDArray[np.bool_]) -> Array:
        """Average over the queries for which it is defined."""
        return values[..., where].mean(-1) if where.any() else nothing

    def at(offset: int) -> Array:
        query, key = np.nonzero((place - here[:, None] == offset) & seen)
        return rows[..., query, key].mean(-1) if len(query) and not across else nothing

    def mass(feature: NDArray[Any], *, present: bool = False) -> Array:
        sees = (seen & (feature[kept] > 0)).any(1)
        return over(rows @ feature[kept].astype(float), sees if present else np.ones(n, bool))

    entropies = scipy_entropy(rows, axis=-1)
    several = number > 1
    with np.errstate(divide="ignore", invalid="ignore"):
        normalized = entropies / np.log(number)
    uniform = np.array([distances[q, seen[q]].mean() for q in range(n)]).mean()
    distance = nothing if across else (rows * distances).sum(-1).mean(-1)
    share = np.array([rare[kept][seen[q]].mean() for q in range(n)])
    orders = [rarity.rarest(np.array(keys.names)[kept][seen[q] & (rank[kept] >= 0)]) for q in range(n)]
    rarest = np.array([order[0] if order else -1 for order in orders])
    two = np.stack([np.isin(rank[peak[..., q]], orders[q][:2]) for q in range(n)], -1)
    values = {
        "entropy": entropies.mean(-1),
        "entropy_normalized": over(normalized, several),
        "entropy_first": entropies[..., 0] if able[0] and not heard.patch_leads else nothing,
        "confidence": rows.max(-1).mean(-1),
        "previous": at(-1),
        "self": at(0),
        "next": at(1),
        "attention_distance": distance,
        "attention_distance_ratio": distance / uniform if uniform else nothing,
        "first": mass(keys.first, present=True),
        "separator": mass(keys.separator, present=True),
        "punctuation": mass(keys.punctuation),
        "other": mass(keys.other),
        "sink_share": (keys.special[peak] | ((peak == 0) & (not heard.patch_leads))).mean(-1),
        "rare_mass": mass(rare, present=True),
        "rare_lift": mass(rare, present=True) / (share[share > 0].mean() if share.any() else 1),
        "rarest_share": over(rank[peak] == rarest, rarest >= 0),
        "rarest_two_share": over(two, rarest >= FREQUENT),
    }

    offsets = np.full((layers, heads, 2 * FURTHEST + 1), np.nan)
    for offset in range(-FURTHEST, FURTHEST + 1):
        has = ((place - here[:, None] == offset) & seen).any(1)
        if has.any() and 2 * has.sum() >= n and not across:
            offsets[..., offset + FURTHEST] = (peak - here == offset)[..., has].mean(-1)
    values["offsets"] = offsets
    if heard.grid is not None:
        values |= in_rows_and_columns(rows, here, place, heard.grid)

    flat = rows.reshape(layers * heads, n, len(place))
    alone = entr(flat).sum((1, 2)) / n
    every = np.zeros((layers * heads,) * 2)
    for a in range(layers * heads):
        together = entr(0.5 * (flat[a] + flat[a + 1 :])).sum((1, 2)) / n
        every[a, a + 1 :] = every[a + 1 :, a] = together - 0.5 * (alone[a] + alone[a + 1 :])
    within = np.stack(
        [every[k * heads : (k + 1) * heads, k * heads : (k + 1) * heads] for k in range(layers)]
    )
    upper = np.triu_indices(heads, 1)
    values["jsd"] = within[:, *upper]
    values["jsd_mean"] = within.sum(-1) / (heads - 1)
    values["jsd_layer"] = values["jsd"].mean(-1)
    values["jsd_all_pairs"] = every[np.triu_indices(layers * heads, 1)]
    return values


def in_rows_and_columns(
    rows: Array, here: NDArray[np.int64], place: NDArray[np.int64], grid: tuple[int, int, int]
) -> dict[str, Array]:
    """Compute what depends on places in an image, patch by patch; ``rows`` are (layer, head, query, key)."""
    start, height, width = grid

    def cell(position: int) -> tuple[int, int] | None:
        inside = start <= position < start + height * width
        return divmod(position - start, width) if inside else None

    queries = {cell(position): q for q, position in enumerate(here.tolist()) if cell(position)}
    keys = {cell(position): k for k, position in enumerate(place.tolist()) if cell(position)}
    nothing = np.full(rows.shape[:2], np.nan)

    def step(down: int, right: int) -> Array:
        pairs = [(q, keys.get((r + down, c + right))) for (r, c), q in queries.items()]
        values = [rows[..., q, k] for q, k in pairs if k is not None]
        return np.mean(values, 0) if values else nothing

    values = {"previous": step(0, -1), "self": step(0, 0), "next": step(0, 1)}
    values |= {"above": step(-1, 0), "below": step(1, 0)}

    distances, uniform = [], []
    for patch, q in queries.items():
        far = np.array([np.hypot(patch[0] - other[0], patch[1] - other[1]) for other in keys])
        weights = rows[..., q, list(keys.values())]
        distances.append((weights * far).sum(-1) / weights.sum(-1))
        uniform.append(far.mean())
    values["attention_distance"] = np.mean(distances, 0)
    yardstick = np.mean(uniform)
    values["attention_distance_ratio"] = values["attention_distance"] / yardstick if yardstick else nothing

    side = 2 * FURTHEST_STEP + 1
    offsets = np.full((*rows.shape[:2], side, side), np.nan)
    for down in range(-FURTHEST_STEP, FURTHEST_STEP + 1):
        for right in range(-FURTHEST_STEP, FURTHEST_STEP + 1):
            pairs = [(q, keys.get((r + down, c + right))) for (r, c), q in queries.items()]
            hits = [rows[..., q, :].argmax(-1) == k for q, k in pairs if k is not None]
            if hits and 2 * len(hits) >= len(queries):
                offsets[..., down + FURTHEST_STEP, right + FURTHEST_STEP] = np.mean(hits, 0)
    values["offsets"] = offsets.reshape(*rows.shape[:2], side**2)
    return values


@dataclass
class Sample:
    """Mean, standard error and number of observations over sentences, cell by cell."""

    mean: Array
    error: Array
    count: NDArray[np.int64]

    @classmethod
    def of(cls, values: Array) -> "Sample":
        """Summarise the first axis; NaN is no observation."""
        seen = np.ma.masked_invalid(values)
        count = seen.count(axis=0)
        spread = seen.std(axis=0, ddof=1)  # masked below two observations
        mean, error = (np.ma.filled(part, np.nan) for part in (seen.mean(axis=0), spread / np.sqrt(count)))
        return cls(mean, error, count)


def reference(texts: Sequence[list[Heard]], rarity: Rarity, *, content_only: bool) -> dict[str, Sample]:
    """Summarise every statistic over texts, the layers of all kinds of attention one after the other."""
    described = [[describe(heard, rarity, content_only=content_only) for heard in text] for text in texts]
    return {
        name: Sample.of(np.stack([np.concatenate([kind[name] for kind in text]) for text in described]))
        for name in described[0][0]
    }


def largest_difference(actual: Any, expected: Any) -> float:
    """Give the largest difference, relative above 1; undefined numbers must be so on both sides."""
    actual, expected = np.asarray(actual, float).ravel(), np.asarray(expected, float).ravel()
    assert actual.shape == expected.shape
    assert (np.isnan(actual) == np.isnan(expected)).all()
    return float(np.nanmax(np.abs(actual - expected) / np.maximum(1, np.abs(expected)), initial=0))
