"""What people use instead, on the same batches: over the bare forward pass, as everything else here.

TransformerLens, BertViz and TextPruner take part where they are installed.
"""

import importlib.util
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from itertools import pairwise
from typing import Any

import torch
from figures import Figure
from interventions import set_up
from ratios import CASES, Case, as_figure, build_census, paired_ratios
from torch import Tensor, nn
from transformers import BertForMaskedLM

from attnprobe.intervention.gradient import gradient_importance
from attnprobe.intervention.trials import mask_each_head, run_trials
from attnprobe.statistics import census_statistics, select_statistics

TINY = 1e-12


def race(*, quick: bool) -> Iterator[Figure]:
    """Time every way of measuring the same thing in turn with the bare pass, shape by shape."""
    for case in CASES:
        checkpoint, batch = case.build()
        bare = partial(checkpoint.forward, batch.inputs)
        ways: dict[str, Callable[[], object]] = {
            "attnprobe census": build_census(checkpoint, case.shape, batch, census_statistics()),
            "attnprobe entropy": build_census(checkpoint, case.shape, batch, select_statistics("entropy")),
            "loop over output_attentions, 6 columns": partial(
                loop_over_maps, case.shape.model("eager"), batch.ids
            ),
        }
        if _is_there("transformer_lens"):
            ways[f"TransformerLens {version('transformer-lens')}, entropy"] = _open_lens(case, batch.ids)
        if _is_there("bertviz"):
            eager = case.shape.model("eager")
            ways[f"BertViz {version('bertviz')} head view, prepared"] = partial(
                prepare_view, eager, batch.ids
            )
        for name, way in ways.items():
            yield as_figure(f"{name}, {case.name}", paired_ratios(bare, way, 1 if quick else 5))
        yield from _interventions(case, quick=quick)


def _interventions(case: Case, *, quick: bool) -> Iterator[Figure]:
    data = set_up(case)
    model: Any = data.model.checkpoint.model
    batch = next(iter(data.corpus.batches))
    bare = partial(data.model.checkpoint.forward, batch.inputs)
    labels = torch.tensor([int(member) % 2 for member in batch.members])
    trials = mask_each_head(*data.model.shape)
    ways: dict[str, tuple[Callable[[], object], int]] = {
        "attnprobe importance": (partial(gradient_importance, data), 1),
        "importance by gates on the output projection": (
            partial(gate_by_hand, model, batch.ids, labels, case.shape.heads),
            1,
        ),
        "attnprobe ablation, a head": (partial(run_trials, data, trials, ["accuracy"]), len(trials)),
        "ablation by hooks, a head": (
            partial(ablate_by_hooks, model, batch.ids, case.shape.heads),
            len(trials),
        ),
    }
    for name, (way, passes) in ways.items():
        ratios = [ratio / passes for ratio in paired_ratios(bare, way, 1 if quick else 3)]
        yield as_figure(f"{name}, {case.name}", ratios)


def loop_over_maps(model: nn.Module, ids: Tensor) -> list[Tensor]:
    """Compute entropy, confidence and attention to neighbours and the ends, layer by layer, in torch."""
    with torch.inference_mode():
        maps = model(ids, output_attentions=True).attentions
        columns = []
        for layer in maps:
            entropy = -(layer * (layer + TINY).log()).sum(-1).mean((0, 2))
            confidence = layer.amax(-1).mean((0, 2))
            neighbours = [layer.diagonal(offset, 2, 3).mean((0, 2)) for offset in (-1, 1)]
            ends = [layer[..., place].mean((0, 2)) for place in (0, -1)]
            columns.append(torch.stack([entropy, confidence, *neighbours, *ends]))
    return columns


def _open_lens(case: Case, ids: Tensor) -> Callable[[], object]:
    """Read entropies out of the cache of patterns, as its documentation does."""
    from transformer_lens.model_bridge import TransformerBridge
    from transformers import AutoTokenizer

    import attnprobe

    model = BertForMaskedLM(case.shape.model("eager").config).eval()
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        AutoTokenizer.from_pretrained(f"{attnprobe.__path__[0]}/demo").save_pretrained(folder)
        bridge = TransformerBridge.boot_transformers(folder, hf_model=model, device="cpu")

    def measure() -> list[Tensor]:
        with torch.inference_mode():
            _, cache = bridge.run_with_cache(ids, names_filter=lambda name: name.endswith("hook_pattern"))
            patterns = [pattern for name, pattern in cache.items() if name.endswith("hook_pattern")]
            if len(patterns) != case.shape.layers:
                raise RuntimeError(f"{len(patterns)} patterns of {case.shape.layers} layers")
            return [-(pattern * (pattern + TINY).log()).sum(-1).mean((0, 2)) for pattern in patterns]

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


def _projections(model: Any) -> list[nn.Module]:
    return [layer.attention.output.dense for layer in model.bert.encoder.layer]


def gate_by_hand(model: Any, ids: Tensor, labels: Tensor, heads: int) -> Tensor:
    """Give the mean size of the derivative of an example's loss by a gate of its own for each head."""
    gates = [torch.ones(len(ids), 1, heads, 1, requires_grad=True) for _ in _projections(model)]

    def hook(gate: Tensor) -> Callable[..., tuple[Tensor]]:
        return lambda _, given: ((given[0].unflatten(-1, (heads, -1)) * gate).flatten(2),)

    handles = [
        projection.register_forward_pre_hook(hook(gate))
        for projection, gate in zip(_projections(model), gates, strict=True)
    ]
    loss = nn.functional.cross_entropy(model(ids).logits, labels, reduction="sum")
    derivatives = torch.autograd.grad(loss, gates)
    for handle in handles:
        handle.remove()
    return torch.stack([derivative.abs().mean(0).flatten() for derivative in derivatives])


def ablate_by_hooks(model: Any, ids: Tensor, heads: int) -> list[Tensor]:
    """Run the model once for each head, whose part of what the projection reads is set to zero."""
    scores = []
    for projection in _projections(model):
        width = projection.in_features // heads
        for begin, end in pairwise(range(0, projection.in_features + 1, width)):

            def hook(_: nn.Module, given: tuple[Tensor], begin: int = begin, end: int = end) -> tuple[Tensor]:
                masked = given[0].clone()
                masked[..., begin:end] = 0
                return (masked,)

            handle = projection.register_forward_pre_hook(hook)
            with torch.inference_mode():
                scores.append(model(ids).logits)
            handle.remove()
    return scores


def _is_there(package: str) -> bool:
    return importlib.util.find_spec(package) is not None
