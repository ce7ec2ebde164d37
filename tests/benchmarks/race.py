"""What people use instead, on the same texts: over the bare forward pass, as everything else here.

Sentences of many lengths are read by attnprobe in batches of equal length, as it always does, and by the
others in padded batches. TransformerLens, BertViz and TextPruner take part where they are installed.
"""

import importlib.util
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from figures import Figure
from interventions import set_up
from links import TREEBANK, treebank_like
from ratios import as_figure, build_census, paired_ratios
from shapes import BERT_BASE, DEVICE, MINILM, RandomTexts, Shape
from torch import Tensor, nn
from transformers import BertForMaskedLM

from attnprobe.corpus.batch import Batch
from attnprobe.intervention.gradient import gradient_importance
from attnprobe.intervention.objectives.contrast import ClassContrast
from attnprobe.intervention.patching.passes import PatchPlan, patch_pairs
from attnprobe.intervention.task import TaskData
from attnprobe.intervention.trials import mask_each_head, run_trials
from attnprobe.run.contrasts import Readout
from attnprobe.run.corpus import BATCH_TOKENS_ACCELERATOR
from attnprobe.run.passes import Run
from attnprobe.statistics import Statistic, census_statistics, select_statistics
from attnprobe.statistics.distance import ALL_PAIRS
from attnprobe.statistics.links import SYNTAX

TINY = 1e-12
#: Sentences in a padded batch.
PADDED = 32
Work = Callable[[], object]


@dataclass(frozen=True)
class Course:
    """A model, and the lengths of the texts that it reads; none for sentences of a treebank."""

    name: str
    shape: Shape
    length: int | None

    def draw(self, tokens: int, *, pairs: bool = False) -> RandomTexts:
        """Draw texts of so many tokens, and of three times as many in sentences, each batch of one length."""
        if self.length is not None:
            return RandomTexts([(tokens // self.length or 1, self.length)], pairs=pairs)
        return RandomTexts([(tokens // 3 // length or 1, length) for length in TREEBANK], pairs=pairs)


COURSES = (
    Course("BERT-base, 128 tokens", BERT_BASE, 128),
    Course("BERT-base, 512 tokens", BERT_BASE, 512),
    Course("MiniLM-L6, 128 tokens", MINILM, 128),
    Course("MiniLM-L6, 512 tokens", MINILM, 512),
    Course("MiniLM-L6, sentences", MINILM, None),
)


@dataclass(frozen=True)
class Padded:
    """Texts as others read them: shuffled, in batches filled up to the longest."""

    ids: Tensor
    mask: Tensor
    members: Sequence[int]


def pad(texts: RandomTexts) -> list[Padded]:
    """Put texts into padded batches."""
    rows = {int(member): row for batch in texts for member, row in zip(batch.members, batch.ids, strict=True)}
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0)).tolist()
    batches = []
    for start in range(0, len(order), PADDED):
        members = order[start : start + PADDED]
        ids = nn.utils.rnn.pad_sequence([rows[member] for member in members], batch_first=True).to(DEVICE)
        batches.append(Padded(ids, (ids != 0).long(), members))
    return batches


def race(*, quick: bool) -> Iterator[Figure]:
    """Time every way of measuring the same thing in turn with the bare pass, course by course."""
    for course in COURSES:
        yield from _observe(course, repetitions=1 if quick else 5)
        yield from _intervene(course, repetitions=1 if quick else 3)


def _observe(course: Course, *, repetitions: int) -> Iterator[Figure]:
    checkpoint = course.shape.checkpoint()
    texts = course.draw(1024 if DEVICE.type == "cpu" else BATCH_TOKENS_ACCELERATOR)
    batches, padded = list(texts), pad(texts)
    annotated = [treebank_like(batch) for batch in batches]

    def bare() -> None:
        for batch in batches:
            checkpoint.forward(batch.inputs)

    def measure(statistics: Sequence[Statistic], batches: Sequence[Batch] = batches) -> Work:
        censuses = [build_census(checkpoint, course.shape, batch, statistics) for batch in batches]
        return lambda: [census() for census in censuses]

    eager = course.shape.model("eager")
    ways: dict[str, Work] = {
        "attnprobe census": measure(census_statistics()),
        "attnprobe census, all pairs of heads": measure([*census_statistics(), ALL_PAIRS]),
        "attnprobe entropy": measure(select_statistics("entropy")),
        "attnprobe syntax": measure([SYNTAX], annotated),
        "output_attentions, 6 columns": partial(loop_over_maps, eager, padded),
    }
    if _is_there("transformer_lens"):
        ways[f"TransformerLens {version('transformer-lens')}, entropy"] = _open_lens(course, padded)
    for name, way in ways.items():
        yield as_figure(f"{name}, {course.name}", paired_ratios(bare, way, repetitions))
    if _is_there("bertviz"):
        few = batches[0].ids[:2]
        one_batch = partial(checkpoint.forward, {"input_ids": few})
        ratios = paired_ratios(one_batch, partial(prepare_view, eager, few.to(DEVICE)), 1)
        yield as_figure(f"BertViz {version('bertviz')} head view, prepared, {course.name}", ratios)


def _intervene(course: Course, *, repetitions: int) -> Iterator[Figure]:
    texts = course.draw(256 if DEVICE.type == "cpu" else BATCH_TOKENS_ACCELERATOR // 2, pairs=True)
    data = set_up(course.shape, texts)
    task, corpus = data.model, data.corpus
    model: Any = task.checkpoint.model
    readouts = [Readout(answer=0, other=1)] * len(texts.documents)
    contrast = TaskData(task, corpus, ClassContrast(task.checkpoint, readouts, []), Run())
    batches, padded, heads = list(texts), pad(texts), course.shape.heads
    trials = mask_each_head(*task.shape)

    def bare() -> None:
        for batch in batches:
            task.checkpoint.forward(batch.inputs)

    every, count = np.ones(task.shape, bool), len(trials)
    ways: dict[str, tuple[Work, int]] = {
        "attnprobe importance": (partial(gradient_importance, data), 1),
        "importance by hooks": (partial(gate_by_hand, model, padded, heads), 1),
        "attnprobe ablation, a head": (partial(run_trials, data, trials, ["accuracy"]), count),
        "ablation by hooks, a head": (partial(ablate_by_hooks, model, padded, heads), count),
        "attnprobe patch, a head": (
            partial(patch_pairs, contrast, PatchPlan(), every, "patching", attribute=False),
            count,
        ),
        "patching by hooks, a head": (partial(patch_by_hooks, model, padded, heads), count),
    }
    if _is_there("textpruner"):
        ways[f"TextPruner {version('textpruner')} importance"] = (_open_pruner(model, padded), 1)
    for name, (way, passes) in ways.items():
        many = passes > 1  # so that one time shows enough, and what is compiled is so in the first of them
        ratios = paired_ratios(bare, way, 1 if many else repetitions, warm=many)
        yield as_figure(f"{name}, {course.name}", [ratio / passes for ratio in ratios])


def loop_over_maps(model: nn.Module, batches: Sequence[Padded]) -> list[Tensor]:
    """Compute entropy, confidence and attention to neighbours and the ends, layer by layer, in torch."""
    columns = []
    with torch.inference_mode():
        for batch in batches:
            maps = model(batch.ids, attention_mask=batch.mask, output_attentions=True).attentions
            kept = batch.mask[:, None].float()
            last = batch.mask.sum(1) - 1
            for layer in maps:
                each = [
                    -(layer * (layer + TINY).log()).sum(-1),
                    layer.amax(-1),
                    nn.functional.pad(layer.diagonal(-1, 2, 3), (1, 0)),
                    nn.functional.pad(layer.diagonal(1, 2, 3), (0, 1)),
                    layer[..., 0],
                    layer[torch.arange(len(last)), :, :, last],
                ]
                columns.append(torch.stack([(column * kept).sum((0, 2)) / kept.sum() for column in each]))
    return columns


def _open_lens(course: Course, batches: Sequence[Padded]) -> Work:
    """Read entropies out of the cache of patterns, as its documentation does."""
    from transformer_lens.model_bridge import TransformerBridge
    from transformers import AutoTokenizer

    import attnprobe

    model = BertForMaskedLM(course.shape.model("eager").config).eval().to(DEVICE)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        AutoTokenizer.from_pretrained(f"{attnprobe.__path__[0]}/demo").save_pretrained(folder)
        bridge = TransformerBridge.boot_transformers(folder, hf_model=model, device=DEVICE.type)

    def measure() -> list[Tensor]:
        entropies = []
        with torch.inference_mode():
            for batch in batches:
                _, cache = bridge.run_with_cache(
                    batch.ids,
                    attention_mask=batch.mask,
                    names_filter=lambda name: name.endswith("hook_pattern"),
                )
                patterns = [pattern for name, pattern in cache.items() if name.endswith("hook_pattern")]
                if len(patterns) != course.shape.layers:
                    raise RuntimeError(f"{len(patterns)} patterns of {course.shape.layers} layers")
                entropies += [
                    -(pattern * (pattern + TINY).log()).sum(-1).mean((0, 2)) for pattern in patterns
                ]
        return entropies

    return measure


def prepare_view(model: nn.Module, ids: Tensor) -> list[Any]:
    """Make the page of a head view for each sequence."""
    from bertviz import head_view

    pages = []
    with torch.inference_mode():
        for sequence in ids:
            maps = model(sequence[None], output_attentions=True).attentions
            pages.append(head_view(maps, list(map(str, sequence.tolist())), html_action="return"))
    return pages


def _open_pruner(model: Any, batches: Sequence[Padded]) -> Work:
    """Sum up what TextPruner ranks heads by; it needs gradients of all weights."""
    from textpruner import GeneralConfig, TransformerPruner, TransformerPruningConfig

    with tempfile.TemporaryDirectory() as folder:
        settings = GeneralConfig(output_dir=folder)
        pruner = TransformerPruner(model, TransformerPruningConfig(pruning_method="iterative"), settings)
    labelled = [
        {"input_ids": batch.ids, "attention_mask": batch.mask, "labels": _labels(batch)} for batch in batches
    ]

    def measure() -> object:
        model.requires_grad_(True)
        try:
            return pruner.get_importance_score(labelled)
        finally:
            model.zero_grad()
            model.requires_grad_(False)

    return measure


def _labels(batch: Padded) -> Tensor:
    return torch.tensor([member % 2 for member in batch.members], device=DEVICE)


def _projections(model: Any) -> list[nn.Module]:
    return [layer.attention.output.dense for layer in model.bert.encoder.layer]


def gate_by_hand(model: Any, batches: Sequence[Padded], heads: int) -> Tensor:
    """Give the mean size of the derivative of an example's loss by a gate of its own for each head."""
    sizes = []
    for batch in batches:
        gates = [
            torch.ones(len(batch.ids), 1, heads, 1, device=DEVICE, requires_grad=True)
            for _ in _projections(model)
        ]

        def hook(gate: Tensor) -> Callable[..., tuple[Tensor]]:
            return lambda _, given: ((given[0].unflatten(-1, (heads, -1)) * gate).flatten(2),)

        handles = [
            projection.register_forward_pre_hook(hook(gate))
            for projection, gate in zip(_projections(model), gates, strict=True)
        ]
        logits = model(batch.ids, attention_mask=batch.mask).logits
        loss = nn.functional.cross_entropy(logits, _labels(batch), reduction="sum")
        derivatives = torch.autograd.grad(loss, gates)
        for handle in handles:
            handle.remove()
        sizes.append(torch.stack([derivative.abs().sum(0).flatten() for derivative in derivatives]))
    return torch.stack(sizes).sum(0) / sum(len(batch.ids) for batch in batches)


def ablate_by_hooks(model: Any, batches: Sequence[Padded], heads: int) -> list[Tensor]:
    """Run the model once for each head, whose part of what the projection reads is set to zero."""
    return [logits for batch in batches for logits in _replace_heads(model, batch, heads, None)]


def patch_by_hooks(model: Any, batches: Sequence[Padded], heads: int) -> list[Tensor]:
    """Run the model once for each head, whose part is taken from a run on another text."""
    scores = []
    for batch in batches:
        outputs: dict[nn.Module, Tensor] = {}

        def keep(module: nn.Module, given: tuple[Tensor], outputs: dict[nn.Module, Tensor] = outputs) -> None:
            outputs[module] = given[0]

        handles = [projection.register_forward_pre_hook(keep) for projection in _projections(model)]
        with torch.inference_mode():
            model(batch.ids.clamp_max(1_000), attention_mask=batch.mask)
        for handle in handles:
            handle.remove()
        scores += _replace_heads(model, batch, heads, outputs)
    return scores


def _replace_heads(
    model: Any, batch: Padded, heads: int, others: dict[nn.Module, Tensor] | None
) -> Iterator[Tensor]:
    """Give the logits with each head in turn as in ``others``, or at zero."""
    for projection in _projections(model):
        width = projection.in_features // heads
        for begin, end in pairwise(range(0, projection.in_features + 1, width)):

            def hook(module: nn.Module, given: tuple[Tensor], begin: int = begin, end: int = end) -> Any:
                changed = given[0].clone()
                changed[..., begin:end] = 0 if others is None else others[module][..., begin:end]
                return (changed,)

            handle = projection.register_forward_pre_hook(hook)
            with torch.inference_mode():
                yield model(batch.ids, attention_mask=batch.mask).logits
            handle.remove()


def _is_there(package: str) -> bool:
    return importlib.util.find_spec(package) is not None
