"""Can this checkpoint be read, and how is that known?"""

from collections import Counter
from collections.abc import Iterator
from typing import Literal, NamedTuple

from attnprobe.attention.kinds import OBSERVABLE, Kind
from attnprobe.corpus.tokenizer import Frame
from attnprobe.errors import AttnprobeError
from attnprobe.model.check.architecture import Architecture
from attnprobe.model.check.dry_run import examine
from attnprobe.model.check.gates import check_gates
from attnprobe.model.check.observed import UnobservableError, check_observations
from attnprobe.model.checkpoint import Checkpoint, resolve_max_length
from attnprobe.model.task_heads import find_head, list_stated_heads
from attnprobe.table.builder import Labels, TableBuilder
from attnprobe.table.cells import clean
from attnprobe.table.table import HeadTable


class Finding(NamedTuple):
    """One line of a diagnosis."""

    check: str
    status: Literal["ok", "warning", "failed"]
    detail: str


def diagnose(checkpoint: Checkpoint) -> list[Finding]:
    """Check what can be read of a loaded checkpoint, and whether its heads can be masked."""
    findings = [*_describe_files(checkpoint)]
    try:
        checkpoint, architecture = examine(checkpoint)
        frame = Frame.of(checkpoint.tokenizer) if checkpoint.modality == "text" else None
    except AttnprobeError as error:
        return [*findings, Finding("attention", "failed", str(error))]
    findings += _describe_architecture(architecture)
    findings.append(_check_observable(checkpoint, architecture))
    try:
        findings.append(Finding("head mask", "ok", check_gates(checkpoint, architecture).evidence))
    except AttnprobeError as error:
        findings.append(Finding("head mask", "warning", f"heads can't be masked: {error}"))
    if frame is not None:
        findings += _describe_reading(checkpoint, frame)
    head = find_head(type(checkpoint.model).__name__)
    # The weights of another head are those that the encoder alone does not use.
    stated = list_stated_heads(checkpoint.model.config) if checkpoint.unused else []
    names = [each.name for each in ([head] if head else stated)]
    return [*findings, Finding("trained heads", "ok", ", ".join(names) or "none")]


def make_findings_table(findings: list[Finding], labels: Labels) -> HeadTable:
    build = TableBuilder(labels, len(findings))
    for name in Finding._fields:
        build.key(name, [getattr(one, name) for one in findings])
    return build.table("diagnosis")


def _describe_files(checkpoint: Checkpoint) -> Iterator[Finding]:
    origin, commit = checkpoint.origin, checkpoint.origin.get("commit")
    where = f"hub {origin['hub']}, commit {commit}" if commit else f"folder {origin.get('folder', '?')}"
    yield Finding("checkpoint", "ok", where)
    files = list(origin.get("weights", {}))
    safe = all(name.endswith(".safetensors") for name in files)
    size = f"{checkpoint.body.num_parameters():,} parameters without a task head"
    detail = f"{'safetensors' if safe else 'pickled'} ({', '.join(files)}), {size}"
    yield Finding("weights", "ok" if safe else "warning", detail)
    if checkpoint.quantisation:
        read = "weights are read dequantised or not at all; no gradients, no heads removed"
        yield Finding("quantisation", "ok", f"{checkpoint.quantisation}: {read}")
    if (method := origin.get("adapter")) is not None:
        base = origin["base"].get("hub", origin["base"].get("folder", "?"))
        yield Finding("adapter", "ok", f"{method}, merged into its base {base}")
    for remark in checkpoint.remarks:
        yield Finding("checkpoint", "warning", remark)
    if (embedding := checkpoint.embedding) is not None:
        prompt = embedding.prompt_name
        used = f"the prompt {prompt} stands before each text" if prompt else "no prompt"
        yield Finding("embedding", "ok", clean(f"{', '.join(embedding.kinds)}; {used}"))
    if checkpoint.scores_pairs:
        yield Finding("cross-encoder", "ok", "a classifier of two texts")


def _describe_architecture(architecture: Architecture) -> Iterator[Finding]:
    layers, kinds = f"{architecture.layers}", Counter(architecture.kinds)
    if any(place.kind is not None for place in architecture.places):
        layers = " + ".join(f"{kinds[kind]} {kind}" for kind in Kind if kinds[kind])
    counts = architecture.layer_heads or (architecture.heads,)
    heads = str(counts[0]) if len({*counts}) == 1 else ", ".join(map(str, counts))
    shape = f"{layers} layers x {heads} heads, {architecture.head_width} wide each"
    yield Finding("architecture", "ok", f"{architecture.model_type}: {shape}")
    if architecture.removed:
        left = zip(architecture.kept.sum(1), architecture.places, strict=True)
        detail = (
            f"{len(architecture.removed)} of {architecture.kept.size} are removed, and the others keep "
            f"their numbers; left are {', '.join(f'{number} in {place}' for number, place in left)}"
        )
        yield Finding("heads", "warning", detail)
    yield Finding("attention", "ok", f"reached through the {architecture.way}")
    for sentence in architecture.evidence:
        yield Finding("dry run", "ok", sentence)
    for sentence in architecture.warnings:
        yield Finding("dry run", "warning", sentence)


def _describe_reading(checkpoint: Checkpoint, frame: Frame) -> Iterator[Finding]:
    if checkpoint.longest is not None:
        yield Finding("maximum length", "ok", f"{checkpoint.longest:,} tokens")
    else:
        max_length = resolve_max_length(None, checkpoint)
        detail = f"no limit is stated; windows of {max_length} tokens without --max-length"
        yield Finding("maximum length", "warning", detail)
    names = checkpoint.tokenizer.convert_ids_to_tokens
    framed = " ".join([*names(list(frame.before)), "text", *names(list(frame.after))])
    yield Finding("tokenizer", "ok", f"{len(checkpoint.tokenizer):,} tokens, frames a text as {framed}")


def _check_observable(checkpoint: Checkpoint, architecture: Architecture) -> Finding:
    reasons: dict[str, str] = {}
    for name in OBSERVABLE:
        try:
            check_observations(checkpoint, architecture, {name})
        except UnobservableError as error:
            reasons[name] = error.reason
    if not reasons:
        return Finding("observations", "ok", f"statistics may ask for {', '.join(OBSERVABLE)}")
    why = "; ".join(dict.fromkeys(reasons.values()))
    return Finding("observations", "warning", f"statistics can't ask for {', '.join(reasons)}: {why}")
