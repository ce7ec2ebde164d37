# Written by docs/scripts/stub.py; do not change it by hand.
# ruff: noqa: I001
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from transformers import PreTrainedModel

from attnprobe.commands.call.texts import Texts
from attnprobe.corpus.sources.document import Label
from attnprobe.corpus.tokens.tokenization import Tokenizer
from attnprobe.reports.report_page.report import Report
from attnprobe.reports.pictures.picture import Picture
from attnprobe.reports.view.view import View
from attnprobe.run.progress import Progress
from attnprobe.attention.block import AttentionBlock as AttentionBlock
from attnprobe.commands.call.record import record as record
from attnprobe.commands.call.training import HeadCallback as HeadCallback
from attnprobe.corpus.sources.text import Source as Source
from attnprobe.errors import AttnprobeError as AttnprobeError
from attnprobe.errors import AttnprobeWarning as AttnprobeWarning
from attnprobe.model.pruned import load_pruned as load_pruned
from attnprobe.statistics.statistic import Statistic as Statistic
from attnprobe.statistics.statistic import statistic as statistic
from attnprobe.table.head_table import HeadTable as HeadTable

__version__: str

def census(
    model: str | Path | PreTrainedModel, texts: Texts = None, *,
    statistics: Sequence[str | Statistic] | None = None, everything: bool = False,
    targets: Sequence[str] | None = None, revision: str | None = None, cache_dir: Path | str | None = None,
    token: str | None = None, offline: bool = False, trust_remote_code: bool = False, base: str | None = None,
    adapter: str | None = None, prompt: str | None = None, allow_bin: bool = False, device: str = "auto",
    device_map: str | dict[str, Any] | None = None, dtype: str = "float32", threads: int | None = None,
    workers: int | None = None, progress: bool | Progress = False, tokenizer: Tokenizer | None = None,
    split: str | None = None, dataset_config: str | None = None, name: str | None = None,
    text_column: str | None = None, text_pair_column: str | None = None, document_column: str | None = None,
    max_length: int | None = None, truncate: bool = False, limit: int | None = None,
    sample: int | None = None, seed: int = 42, batch_tokens: int | None = None, memory: str | None = None,
    frequencies: Path | str | None = None, content_only: bool = False, label_column: str | None = None,
    layers: str | int | Sequence[int] | None = None, resume: Path | str | None = None,
    weights: Literal["attention", "norm", "both"] = "attention",
) -> HeadTable: ...
def entropy(
    model: str | Path | PreTrainedModel, texts: Texts = None, *, revision: str | None = None,
    cache_dir: Path | str | None = None, token: str | None = None, offline: bool = False,
    trust_remote_code: bool = False, base: str | None = None, adapter: str | None = None,
    prompt: str | None = None, allow_bin: bool = False, device: str = "auto",
    device_map: str | dict[str, Any] | None = None, dtype: str = "float32", threads: int | None = None,
    workers: int | None = None, progress: bool | Progress = False, tokenizer: Tokenizer | None = None,
    split: str | None = None, dataset_config: str | None = None, name: str | None = None,
    text_column: str | None = None, text_pair_column: str | None = None, document_column: str | None = None,
    max_length: int | None = None, truncate: bool = False, limit: int | None = None,
    sample: int | None = None, seed: int = 42, batch_tokens: int | None = None, memory: str | None = None,
    frequencies: Path | str | None = None, content_only: bool = False, label_column: str | None = None,
    layers: str | int | Sequence[int] | None = None, resume: Path | str | None = None,
    weights: Literal["attention", "norm", "both"] = "attention",
) -> HeadTable: ...
def positional(
    model: str | Path | PreTrainedModel, texts: Texts = None, *, control: bool = False,
    revision: str | None = None, cache_dir: Path | str | None = None, token: str | None = None,
    offline: bool = False, trust_remote_code: bool = False, base: str | None = None,
    adapter: str | None = None, prompt: str | None = None, allow_bin: bool = False, device: str = "auto",
    device_map: str | dict[str, Any] | None = None, dtype: str = "float32", threads: int | None = None,
    workers: int | None = None, progress: bool | Progress = False, tokenizer: Tokenizer | None = None,
    split: str | None = None, dataset_config: str | None = None, name: str | None = None,
    text_column: str | None = None, text_pair_column: str | None = None, document_column: str | None = None,
    max_length: int | None = None, truncate: bool = False, limit: int | None = None,
    sample: int | None = None, seed: int = 42, batch_tokens: int | None = None, memory: str | None = None,
    frequencies: Path | str | None = None, content_only: bool = False, label_column: str | None = None,
    layers: str | int | Sequence[int] | None = None, resume: Path | str | None = None,
    weights: Literal["attention", "norm", "both"] = "attention",
) -> HeadTable: ...
def special(
    model: str | Path | PreTrainedModel, texts: Texts = None, *, revision: str | None = None,
    cache_dir: Path | str | None = None, token: str | None = None, offline: bool = False,
    trust_remote_code: bool = False, base: str | None = None, adapter: str | None = None,
    prompt: str | None = None, allow_bin: bool = False, device: str = "auto",
    device_map: str | dict[str, Any] | None = None, dtype: str = "float32", threads: int | None = None,
    workers: int | None = None, progress: bool | Progress = False, tokenizer: Tokenizer | None = None,
    split: str | None = None, dataset_config: str | None = None, name: str | None = None,
    text_column: str | None = None, text_pair_column: str | None = None, document_column: str | None = None,
    max_length: int | None = None, truncate: bool = False, limit: int | None = None,
    sample: int | None = None, seed: int = 42, batch_tokens: int | None = None, memory: str | None = None,
    frequencies: Path | str | None = None, content_only: bool = False, label_column: str | None = None,
    layers: str | int | Sequence[int] | None = None, resume: Path | str | None = None,
    weights: Literal["attention", "norm", "both"] = "attention",
) -> HeadTable: ...
def rare(
    model: str | Path | PreTrainedModel, texts: Texts = None, *, revision: str | None = None,
    cache_dir: Path | str | None = None, token: str | None = None, offline: bool = False,
    trust_remote_code: bool = False, base: str | None = None, adapter: str | None = None,
    prompt: str | None = None, allow_bin: bool = False, device: str = "auto",
    device_map: str | dict[str, Any] | None = None, dtype: str = "float32", threads: int | None = None,
    workers: int | None = None, progress: bool | Progress = False, tokenizer: Tokenizer | None = None,
    split: str | None = None, dataset_config: str | None = None, name: str | None = None,
    text_column: str | None = None, text_pair_column: str | None = None, document_column: str | None = None,
    max_length: int | None = None, truncate: bool = False, limit: int | None = None,
    sample: int | None = None, seed: int = 42, batch_tokens: int | None = None, memory: str | None = None,
    frequencies: Path | str | None = None, content_only: bool = False, label_column: str | None = None,
    layers: str | int | Sequence[int] | None = None, resume: Path | str | None = None,
    weights: Literal["attention", "norm", "both"] = "attention",
) -> HeadTable: ...
def distance(
    model: str | Path | PreTrainedModel, texts: Texts = None, *,
    by: Literal["pair", "head", "layer"] = "pair", all_pairs: bool = False, revision: str | None = None,
    cache_dir: Path | str | None = None, token: str | None = None, offline: bool = False,
    trust_remote_code: bool = False, base: str | None = None, adapter: str | None = None,
    prompt: str | None = None, allow_bin: bool = False, device: str = "auto",
    device_map: str | dict[str, Any] | None = None, dtype: str = "float32", threads: int | None = None,
    workers: int | None = None, progress: bool | Progress = False, tokenizer: Tokenizer | None = None,
    split: str | None = None, dataset_config: str | None = None, name: str | None = None,
    text_column: str | None = None, text_pair_column: str | None = None, document_column: str | None = None,
    max_length: int | None = None, truncate: bool = False, limit: int | None = None,
    sample: int | None = None, seed: int = 42, batch_tokens: int | None = None, memory: str | None = None,
    frequencies: Path | str | None = None, content_only: bool = False, label_column: str | None = None,
    layers: str | int | Sequence[int] | None = None, resume: Path | str | None = None,
    weights: Literal["attention", "norm", "both"] = "attention",
) -> HeadTable: ...
def mixing(
    model: str | Path | PreTrainedModel, texts: Texts = None, *,
    by: Literal["head", "layer", "pair"] = "head", revision: str | None = None,
    cache_dir: Path | str | None = None, token: str | None = None, offline: bool = False,
    trust_remote_code: bool = False, base: str | None = None, adapter: str | None = None,
    prompt: str | None = None, allow_bin: bool = False, device: str = "auto",
    device_map: str | dict[str, Any] | None = None, dtype: str = "float32", threads: int | None = None,
    workers: int | None = None, progress: bool | Progress = False, tokenizer: Tokenizer | None = None,
    split: str | None = None, dataset_config: str | None = None, name: str | None = None,
    text_column: str | None = None, text_pair_column: str | None = None, document_column: str | None = None,
    max_length: int | None = None, truncate: bool = False, limit: int | None = None,
    sample: int | None = None, seed: int = 42, batch_tokens: int | None = None, memory: str | None = None,
    frequencies: Path | str | None = None, content_only: bool = False, label_column: str | None = None,
    layers: str | int | Sequence[int] | None = None, resume: Path | str | None = None,
) -> HeadTable: ...
def rank(
    model: str | Path | PreTrainedModel, texts: Texts = None, *, map_rank: bool = False,
    revision: str | None = None, cache_dir: Path | str | None = None, token: str | None = None,
    offline: bool = False, trust_remote_code: bool = False, base: str | None = None,
    adapter: str | None = None, prompt: str | None = None, allow_bin: bool = False, device: str = "auto",
    device_map: str | dict[str, Any] | None = None, dtype: str = "float32", threads: int | None = None,
    workers: int | None = None, progress: bool | Progress = False, tokenizer: Tokenizer | None = None,
    split: str | None = None, dataset_config: str | None = None, name: str | None = None,
    text_column: str | None = None, text_pair_column: str | None = None, document_column: str | None = None,
    max_length: int | None = None, truncate: bool = False, limit: int | None = None,
    sample: int | None = None, seed: int = 42, batch_tokens: int | None = None, memory: str | None = None,
    frequencies: Path | str | None = None, content_only: bool = False, label_column: str | None = None,
    layers: str | int | Sequence[int] | None = None, resume: Path | str | None = None,
) -> HeadTable: ...
def roles(
    model: str | Path | PreTrainedModel, texts: Texts = None, *, treebank: Texts = None,
    coreference: Texts = None, thresholds: Mapping[str, float] | str | None = None,
    revision: str | None = None, cache_dir: Path | str | None = None, token: str | None = None,
    offline: bool = False, trust_remote_code: bool = False, base: str | None = None,
    adapter: str | None = None, prompt: str | None = None, allow_bin: bool = False, device: str = "auto",
    device_map: str | dict[str, Any] | None = None, dtype: str = "float32", threads: int | None = None,
    workers: int | None = None, progress: bool | Progress = False, tokenizer: Tokenizer | None = None,
    split: str | None = None, dataset_config: str | None = None, name: str | None = None,
    text_column: str | None = None, text_pair_column: str | None = None, document_column: str | None = None,
    max_length: int | None = None, truncate: bool = False, limit: int | None = None,
    sample: int | None = None, seed: int = 42, batch_tokens: int | None = None, memory: str | None = None,
    frequencies: Path | str | None = None, layers: str | int | Sequence[int] | None = None,
    resume: Path | str | None = None,
) -> HeadTable: ...
def syntax(
    model: str | Path | PreTrainedModel, texts: Texts = None, *, by: Literal["relation", "head"] = "relation",
    relations: str | Sequence[str] | None = None, subtypes: bool = False, min_links: int = 20,
    trees: bool = False, revision: str | None = None, cache_dir: Path | str | None = None,
    token: str | None = None, offline: bool = False, trust_remote_code: bool = False, base: str | None = None,
    adapter: str | None = None, prompt: str | None = None, allow_bin: bool = False, device: str = "auto",
    device_map: str | dict[str, Any] | None = None, dtype: str = "float32", threads: int | None = None,
    workers: int | None = None, progress: bool | Progress = False, tokenizer: Tokenizer | None = None,
    split: str | None = None, dataset_config: str | None = None, name: str | None = None,
    text_column: str | None = None, text_pair_column: str | None = None, document_column: str | None = None,
    max_length: int | None = None, truncate: bool = False, limit: int | None = None,
    sample: int | None = None, seed: int = 42, batch_tokens: int | None = None, memory: str | None = None,
    layers: str | int | Sequence[int] | None = None, resume: Path | str | None = None,
) -> HeadTable: ...
def coreference(
    model: str | Path | PreTrainedModel, texts: Texts = None, *, by: Literal["mention", "head"] = "mention",
    min_links: int = 20, revision: str | None = None, cache_dir: Path | str | None = None,
    token: str | None = None, offline: bool = False, trust_remote_code: bool = False, base: str | None = None,
    adapter: str | None = None, prompt: str | None = None, allow_bin: bool = False, device: str = "auto",
    device_map: str | dict[str, Any] | None = None, dtype: str = "float32", threads: int | None = None,
    workers: int | None = None, progress: bool | Progress = False, tokenizer: Tokenizer | None = None,
    split: str | None = None, dataset_config: str | None = None, name: str | None = None,
    text_column: str | None = None, text_pair_column: str | None = None, document_column: str | None = None,
    max_length: int | None = None, truncate: bool = False, limit: int | None = None,
    sample: int | None = None, seed: int = 42, batch_tokens: int | None = None, memory: str | None = None,
    layers: str | int | Sequence[int] | None = None, resume: Path | str | None = None,
) -> HeadTable: ...
def links(
    model: str | Path | PreTrainedModel, texts: Texts = None, *, by: Literal["label", "head"] = "label",
    labels: str | Sequence[str] | None = None, min_links: int = 20, revision: str | None = None,
    cache_dir: Path | str | None = None, token: str | None = None, offline: bool = False,
    trust_remote_code: bool = False, base: str | None = None, adapter: str | None = None,
    prompt: str | None = None, allow_bin: bool = False, device: str = "auto",
    device_map: str | dict[str, Any] | None = None, dtype: str = "float32", threads: int | None = None,
    workers: int | None = None, progress: bool | Progress = False, tokenizer: Tokenizer | None = None,
    split: str | None = None, dataset_config: str | None = None, name: str | None = None,
    text_column: str | None = None, text_pair_column: str | None = None, document_column: str | None = None,
    max_length: int | None = None, truncate: bool = False, limit: int | None = None,
    sample: int | None = None, seed: int = 42, batch_tokens: int | None = None, memory: str | None = None,
    layers: str | int | Sequence[int] | None = None, resume: Path | str | None = None,
) -> HeadTable: ...
def induction(
    model: str | Path | PreTrainedModel, *, length: int = 50, sequences: int = 64, seed: int = 42,
    revision: str | None = None, cache_dir: Path | str | None = None, token: str | None = None,
    offline: bool = False, trust_remote_code: bool = False, base: str | None = None,
    adapter: str | None = None, prompt: str | None = None, allow_bin: bool = False, device: str = "auto",
    device_map: str | dict[str, Any] | None = None, dtype: str = "float32", threads: int | None = None,
    workers: int | None = None, progress: bool | Progress = False, tokenizer: Tokenizer | None = None,
    batch_tokens: int | None = None, memory: str | None = None,
    layers: str | int | Sequence[int] | None = None, resume: Path | str | None = None,
) -> HeadTable: ...
def importance(
    model: str | Path | PreTrainedModel, texts: Texts = None, labels: Iterable[Label] | None = None, *,
    method: Literal["gradient", "lrp", "confidence"] = "gradient", content_only: bool = False,
    revision: str | None = None, cache_dir: Path | str | None = None, token: str | None = None,
    offline: bool = False, trust_remote_code: bool = False, base: str | None = None,
    adapter: str | None = None, prompt: str | None = None, allow_bin: bool = False, device: str = "auto",
    device_map: str | dict[str, Any] | None = None, dtype: str = "float32", threads: int | None = None,
    workers: int | None = None, progress: bool | Progress = False, tokenizer: Tokenizer | None = None,
    split: str | None = None, dataset_config: str | None = None, name: str | None = None,
    text_column: str | None = None, text_pair_column: str | None = None, document_column: str | None = None,
    max_length: int | None = None, truncate: bool = False, limit: int | None = None,
    sample: int | None = None, seed: int = 42, batch_tokens: int | None = None, memory: str | None = None,
    objective: Literal["classification", "multi-label", "regression", "token-classification",
    "question-answering", "seq2seq", "masked-lm", "causal-lm", "representation", "similarity", "triplet",
    "retrieval"] | None = None, label_column: str | None = None, force_head: bool = False,
    resume: Path | str | None = None,
) -> HeadTable: ...
def ablate(
    model: str | Path | PreTrainedModel, texts: Texts = None, labels: Iterable[Label] | None = None, *,
    keep_one: bool = False, correction: Literal["holm", "bh"] = "holm", revision: str | None = None,
    cache_dir: Path | str | None = None, token: str | None = None, offline: bool = False,
    trust_remote_code: bool = False, base: str | None = None, adapter: str | None = None,
    prompt: str | None = None, allow_bin: bool = False, device: str = "auto",
    device_map: str | dict[str, Any] | None = None, dtype: str = "float32", threads: int | None = None,
    workers: int | None = None, progress: bool | Progress = False, tokenizer: Tokenizer | None = None,
    split: str | None = None, dataset_config: str | None = None, name: str | None = None,
    text_column: str | None = None, text_pair_column: str | None = None, document_column: str | None = None,
    max_length: int | None = None, truncate: bool = False, limit: int | None = None,
    sample: int | None = None, seed: int = 42, batch_tokens: int | None = None, memory: str | None = None,
    objective: Literal["classification", "multi-label", "regression", "token-classification",
    "question-answering", "seq2seq", "masked-lm", "causal-lm", "representation", "similarity", "triplet",
    "retrieval"] | None = None, label_column: str | None = None, force_head: bool = False, metric:
    Literal["accuracy", "mcc", "f1", "f1_micro", "f1_macro", "exact_match", "pearson", "spearman", "mse",
    "loss", "similarity", "bleu", "ndcg", "mrr", "recall"] | None = None, resume: Path | str | None = None,
) -> HeadTable: ...
def compare(
    model: Sequence[str | Path | PreTrainedModel] | str | Path, texts: Texts = None,
    labels: Iterable[Label] | None = None, *, revisions: str | Sequence[str] | None = None,
    measure: str = "census", by: Literal["head", "layer"] = "head",
    match: Literal["layer", "model"] | None = None, nearest: bool = True, spread: bool = False,
    keep: bool = True, method: Literal["gradient", "lrp", "confidence"] = "gradient",
    tokenizers: Sequence[Tokenizer] | None = None, revision: str | None = None,
    cache_dir: Path | str | None = None, token: str | None = None, offline: bool = False,
    trust_remote_code: bool = False, base: str | None = None, adapter: str | None = None,
    prompt: str | None = None, allow_bin: bool = False, device: str = "auto",
    device_map: str | dict[str, Any] | None = None, dtype: str = "float32", threads: int | None = None,
    workers: int | None = None, progress: bool | Progress = False, split: str | None = None,
    dataset_config: str | None = None, name: str | None = None, text_column: str | None = None,
    text_pair_column: str | None = None, document_column: str | None = None, max_length: int | None = None,
    truncate: bool = False, limit: int | None = None, sample: int | None = None, seed: int = 42,
    batch_tokens: int | None = None, memory: str | None = None, frequencies: Path | str | None = None,
    content_only: bool = False, objective: Literal["classification", "multi-label", "regression",
    "token-classification", "question-answering", "seq2seq", "masked-lm", "causal-lm", "representation",
    "similarity", "triplet", "retrieval"] | None = None, label_column: str | None = None,
    force_head: bool = False, weights: Literal["attention", "norm", "both"] = "attention",
    layers: str | int | Sequence[int] | None = None, resume: Path | str | None = None,
) -> HeadTable: ...
def correlate(
    in_domain: HeadTable | Texts = None, out_domain: HeadTable | Texts = None,
    model: str | Path | PreTrainedModel | Sequence[str | Path] | None = None, *,
    measure: Literal["gradient", "lrp", "ablation"] | None = None, column: str | None = None,
    across_models: bool = False, by: Literal["model", "head"] = "model", tokenizer: Tokenizer | None = None,
    revision: str | None = None, cache_dir: Path | str | None = None, token: str | None = None,
    offline: bool = False, trust_remote_code: bool = False, base: str | None = None,
    adapter: str | None = None, prompt: str | None = None, allow_bin: bool = False, device: str = "auto",
    device_map: str | dict[str, Any] | None = None, dtype: str = "float32", threads: int | None = None,
    workers: int | None = None, progress: bool | Progress = False, texts: Texts = None,
    split: str | None = None, dataset_config: str | None = None, name: str | None = None,
    text_column: str | None = None, text_pair_column: str | None = None, document_column: str | None = None,
    max_length: int | None = None, truncate: bool = False, limit: int | None = None,
    sample: int | None = None, seed: int = 42, batch_tokens: int | None = None, memory: str | None = None,
    labels: Iterable[Label] | None = None, objective: Literal["classification", "multi-label", "regression",
    "token-classification", "question-answering", "seq2seq", "masked-lm", "causal-lm", "representation",
    "similarity", "triplet", "retrieval"] | None = None, label_column: str | None = None,
    force_head: bool = False, metric: Literal["accuracy", "mcc", "f1", "f1_micro", "f1_macro", "exact_match",
    "pearson", "spearman", "mse", "loss", "similarity", "bleu", "ndcg", "mrr", "recall"] | None = None,
    resume: Path | str | None = None,
) -> HeadTable: ...
def prune(
    model: str | Path | PreTrainedModel, texts: Texts = None, labels: Iterable[Label] | None = None, *,
    by: str = "gradient", highest_first: bool = False, step: float = 0.1, rerank: bool = False,
    random_orders: int = 5, rank_texts: Texts = None, margin: float | None = None,
    save: Path | str | None = None, share: float | None = None, physical: bool = False,
    overwrite: bool = False, revision: str | None = None, cache_dir: Path | str | None = None,
    token: str | None = None, offline: bool = False, trust_remote_code: bool = False, base: str | None = None,
    adapter: str | None = None, prompt: str | None = None, allow_bin: bool = False, device: str = "auto",
    device_map: str | dict[str, Any] | None = None, dtype: str = "float32", threads: int | None = None,
    workers: int | None = None, progress: bool | Progress = False, tokenizer: Tokenizer | None = None,
    split: str | None = None, dataset_config: str | None = None, name: str | None = None,
    text_column: str | None = None, text_pair_column: str | None = None, document_column: str | None = None,
    max_length: int | None = None, truncate: bool = False, limit: int | None = None,
    sample: int | None = None, seed: int = 42, batch_tokens: int | None = None, memory: str | None = None,
    objective: Literal["classification", "multi-label", "regression", "token-classification",
    "question-answering", "seq2seq", "masked-lm", "causal-lm", "representation", "similarity", "triplet",
    "retrieval"] | None = None, label_column: str | None = None, force_head: bool = False, metric:
    Literal["accuracy", "mcc", "f1", "f1_micro", "f1_macro", "exact_match", "pearson", "spearman", "mse",
    "loss", "similarity", "bleu", "ndcg", "mrr", "recall"] | None = None, resume: Path | str | None = None,
) -> HeadTable: ...
def dynamics(
    model: str | Path | Sequence[str | Path], texts: Texts = None, labels: Iterable[Label] | None = None, *,
    measure: str = "importance", revisions: str | Sequence[str] | None = None,
    steps: str | Sequence[int] | None = None, by: Literal["head", "step"] = "head", keep: bool = True,
    method: Literal["gradient", "lrp", "confidence"] = "gradient", prune_by: str = "gradient",
    highest_first: bool = False, prune_step: float = 0.1, rerank: bool = False, random_orders: int = 5,
    rank_texts: Texts = None, revision: str | None = None, cache_dir: Path | str | None = None,
    token: str | None = None, offline: bool = False, trust_remote_code: bool = False, base: str | None = None,
    adapter: str | None = None, prompt: str | None = None, allow_bin: bool = False, device: str = "auto",
    device_map: str | dict[str, Any] | None = None, dtype: str = "float32", threads: int | None = None,
    workers: int | None = None, progress: bool | Progress = False, split: str | None = None,
    dataset_config: str | None = None, name: str | None = None, text_column: str | None = None,
    text_pair_column: str | None = None, document_column: str | None = None, max_length: int | None = None,
    truncate: bool = False, limit: int | None = None, sample: int | None = None, seed: int = 42,
    batch_tokens: int | None = None, memory: str | None = None, frequencies: Path | str | None = None,
    content_only: bool = False, objective: Literal["classification", "multi-label", "regression",
    "token-classification", "question-answering", "seq2seq", "masked-lm", "causal-lm", "representation",
    "similarity", "triplet", "retrieval"] | None = None, label_column: str | None = None,
    force_head: bool = False, metric: Literal["accuracy", "mcc", "f1", "f1_micro", "f1_macro", "exact_match",
    "pearson", "spearman", "mse", "loss", "similarity", "bleu", "ndcg", "mrr", "recall"] | None = None,
    weights: Literal["attention", "norm", "both"] = "attention",
    layers: str | int | Sequence[int] | None = None, resume: Path | str | None = None,
) -> HeadTable: ...
def view(
    model: str | Path | PreTrainedModel, text: str | Path, text_pair: str | None = None, *,
    target: str | None = None, max_length: int | None = None,
    attention: Literal["encoder", "decoder", "cross"] | None = None, layer: int | None = None,
    head: int | None = None, draw: Literal["lines", "map"] | None = None, words: bool = False,
    hide_special: bool = False, rollout: bool = False, theme: Literal["light", "dark", "paper"] | None = None,
    width: int | None = None, revision: str | None = None, cache_dir: Path | str | None = None,
    token: str | None = None, offline: bool = False, trust_remote_code: bool = False, base: str | None = None,
    adapter: str | None = None, prompt: str | None = None, allow_bin: bool = False, device: str = "auto",
    device_map: str | dict[str, Any] | None = None, dtype: str = "float32", threads: int | None = None,
    workers: int | None = None, progress: bool | Progress = False, tokenizer: Tokenizer | None = None,
) -> View: ...
def report(
    model: str | Path | PreTrainedModel | None = None, texts: Texts = None,
    labels: Iterable[Label] | None = None, *, sections: str | Sequence[str] | None = None,
    treebank: Texts = None, coreference: Texts = None, thresholds: Mapping[str, float] | str | None = None,
    out_domain: Texts = None, from_tables: Path | str | None = None, save_tables: Path | str | None = None,
    overwrite: bool = False, tokenizer: Tokenizer | None = None, revision: str | None = None,
    cache_dir: Path | str | None = None, token: str | None = None, offline: bool = False,
    trust_remote_code: bool = False, base: str | None = None, adapter: str | None = None,
    prompt: str | None = None, allow_bin: bool = False, device: str = "auto",
    device_map: str | dict[str, Any] | None = None, dtype: str = "float32", threads: int | None = None,
    workers: int | None = None, progress: bool | Progress = False, split: str | None = None,
    dataset_config: str | None = None, name: str | None = None, text_column: str | None = None,
    text_pair_column: str | None = None, document_column: str | None = None, max_length: int | None = None,
    truncate: bool = False, limit: int | None = None, sample: int | None = None, seed: int = 42,
    batch_tokens: int | None = None, memory: str | None = None, frequencies: Path | str | None = None,
    objective: Literal["classification", "multi-label", "regression", "token-classification",
    "question-answering", "seq2seq", "masked-lm", "causal-lm", "representation", "similarity", "triplet",
    "retrieval"] | None = None, label_column: str | None = None, force_head: bool = False, metric:
    Literal["accuracy", "mcc", "f1", "f1_micro", "f1_macro", "exact_match", "pearson", "spearman", "mse",
    "loss", "similarity", "bleu", "ndcg", "mrr", "recall"] | None = None, resume: Path | str | None = None,
) -> Report: ...
def merge(
    tables: Sequence[HeadTable | Path | str], *, statistics: Sequence[Statistic] = (),
) -> HeadTable: ...
def plot(
    tables: HeadTable | Path | str | Sequence[HeadTable | Path | str], *, kind: Literal["roles", "change",
    "relations", "settling", "curves", "lines", "scatter", "matrix", "map", "dendrogram", "heatmap", "depth",
    "intervals", "shares", "checks"] | None = None, measure: str | Sequence[str] | None = None,
    theme: Literal["light", "dark", "paper"] = "light", width: int | None = None, title: str | None = None,
    clusters: int | None = None,
) -> Picture: ...
def doctor(
    model: str | Path | PreTrainedModel, texts: Texts = None, *, revision: str | None = None,
    cache_dir: Path | str | None = None, token: str | None = None, offline: bool = False,
    trust_remote_code: bool = False, base: str | None = None, adapter: str | None = None,
    prompt: str | None = None, allow_bin: bool = False, device: str = "auto",
    device_map: str | dict[str, Any] | None = None, dtype: str = "float32", threads: int | None = None,
    workers: int | None = None, progress: bool | Progress = False, tokenizer: Tokenizer | None = None,
    split: str | None = None, dataset_config: str | None = None, name: str | None = None,
    text_column: str | None = None, text_pair_column: str | None = None, document_column: str | None = None,
    max_length: int | None = None, truncate: bool = False, limit: int | None = None,
    sample: int | None = None, seed: int = 42, batch_tokens: int | None = None, memory: str | None = None,
    frequencies: Path | str | None = None, content_only: bool = False,
) -> HeadTable: ...
