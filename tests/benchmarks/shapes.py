"""Encoders of known shapes with random weights, and batches of random tokens for them."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertModel,
    DebertaV2Config,
    DebertaV2Model,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

from attnprobe.attention.kinds import Kind
from attnprobe.attention.tokens import TokenFeatures
from attnprobe.corpus.batch import Batch, BatchReader
from attnprobe.model.check.architecture import Architecture
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.reading.ways import Way

CLS, SEP, COMMA, VOCABULARY = 1, 2, 3, 30_522
#: What models run on: ``DEVICE=cuda python tests/benchmarks/speed.py``.
DEVICE = torch.device(os.environ.get("DEVICE", "cpu"))


class NoText:
    """Stands where a tokenizer would: these batches were never text."""

    model_input_names = ("input_ids",)


@dataclass(frozen=True)
class Shape:
    """The shape of a BERT, or of a DeBERTa-v3, whose attention no registry knows."""

    layers: int
    heads: int
    width: int
    positions: int = 512
    deberta: bool = False

    def model(self, implementation: str = "sdpa") -> PreTrainedModel:
        """Build it with random weights, the same at each call; a DeBERTa's attention is always its own."""
        torch.manual_seed(0)
        sizes = {
            "vocab_size": VOCABULARY, "num_hidden_layers": self.layers, "num_attention_heads": self.heads,
            "hidden_size": self.width, "intermediate_size": 4 * self.width,
            "max_position_embeddings": self.positions,
        }  # fmt: skip
        if not self.deberta:
            config = BertConfig(**sizes, attn_implementation=implementation)
            return BertModel(config, add_pooling_layer=False).eval().to(DEVICE)
        config = DebertaV2Config(
            **sizes, relative_attention=True, position_buckets=256, norm_rel_ebd="layer_norm",
            share_att_key=True, pos_att_type=["p2c", "c2p"], position_biased_input=False, type_vocab_size=0,
        )  # fmt: skip
        return DebertaV2Model(config).eval().to(DEVICE)

    def checkpoint(self) -> Checkpoint:
        """Build it as the census takes it."""
        return Checkpoint("random", self.model(), NoText())  # pyright: ignore[reportArgumentType]

    def architecture(self, model_type: str = "bert", way: Way = Way.REGISTRY) -> Architecture:
        """Say what the dry run would find."""
        sites = tuple(f"encoder.layer.{layer}.attention.self" for layer in range(self.layers))
        kinds = (Kind.ENCODER,) * self.layers
        width = self.width // self.heads
        return Architecture(model_type, self.layers, self.heads, width, way, (), (), sites, kinds)


BERT_BASE = Shape(layers=12, heads=12, width=768)
DEBERTA_BASE = Shape(layers=12, heads=12, width=768, deberta=True)
MINILM = Shape(layers=6, heads=12, width=384)
LONG = Shape(layers=2, heads=12, width=768, positions=8192)
TINY = Shape(layers=2, heads=4, width=64)


class RandomTexts(BatchReader):
    """A corpus of random tokens that look like text to every statistic: framed, with commas and rare tokens.

    With ``pairs``, each text has a corrupted one beside it, in which one token is another.
    """

    digest = ""

    def __init__(self, sizes: Sequence[tuple[int, int]], *, pairs: bool = False) -> None:
        self._rows = [row for sequences, length in sizes for row in _draw_ids(sequences, length)]
        self._pairs = pairs
        self.documents = self.names = np.arange(len(self._rows))
        self.lengths = np.array([len(row) for row in self._rows], np.int32)
        self.labels = {member: member % 2 for member in range(len(self._rows))}
        stops = np.cumsum([sequences for sequences, _ in sizes])
        self.plan = np.split(self.documents, stops[:-1])

    def gather(self, members: np.ndarray) -> Batch:
        ids = torch.stack([self._rows[member] for member in members])
        batch = Batch({"input_ids": ids}, _look_up(ids), members, self)
        if not self._pairs:
            return batch
        corrupted = ids.clone()
        corrupted[:, 2] = 4 + corrupted[:, 2] % 1_000
        return replace(batch, baseline=replace(batch, inputs={"input_ids": corrupted}))


def random_batch(sequences: int, length: int) -> Batch:
    """Draw sequences of one length."""
    texts = RandomTexts([(sequences, length)])
    return texts.read(texts.documents)


def _draw_ids(sequences: int, length: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(length)
    ids = torch.randint(4, VOCABULARY, (sequences, length), generator=generator)
    ids[:, 7::9] = COMMA
    ids[:, 0], ids[:, -1] = CLS, SEP
    return ids


def _look_up(ids: torch.Tensor) -> TokenFeatures:
    first, separator, punctuation = ids == CLS, ids == SEP, ids == COMMA
    special = first | separator
    return TokenFeatures(
        first=first,
        separator=separator,
        punctuation=punctuation,
        other=~(special | punctuation),
        rare=(ids > 0.9 * VOCABULARY).float(),
        kept=torch.ones_like(first),
        rank=torch.where(special, -1, ids),
        order=torch.where(special, -1, ids),
    )


def word_tokenizer(sentences: list[str]) -> PreTrainedTokenizerFast:
    """Make a tokenizer of whole words, framed as BERT frames them."""
    split = pre_tokenizers.BertPreTokenizer()
    words = sorted({word for text in sentences for word, _ in split.pre_tokenize_str(text)})
    special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]
    ids = {word: place for place, word in enumerate([*special, *words])}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = split
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    named = dict(zip(("pad_token", "cls_token", "sep_token", "unk_token"), special, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=512, **named)
