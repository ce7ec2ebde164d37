"""Can this checkpoint be read, and how is that known?"""

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from attnprobe.attention.kinds import Kind
from attnprobe.attention.observed import OBSERVABLE
from attnprobe.corpus.tokenization import Frame
from attnprobe.errors import AttnprobeError
from attnprobe.model.checkpoint import Checkpoint, resolve_window
from attnprobe.model.task_heads import find_trained_heads, infer_head
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.model.verifying.dry_run import examine
from attnprobe.model.verifying.observations import UnobservableError, check_observations
from attnprobe.model.verifying.switching import check_gates
from attnprobe.table.builder import Labels
from attnprobe.table.table import Column, HeadTable

Status = Literal["ok", "warning", "failed"]


@dataclass(frozen=True)
class Finding:
    """One line of a diagnosis."""

    check: str
    status: Status
    detail: str


def diagnose(checkpoint: Checkpoint) -> list[Finding]:
    """Check a loaded checkpoint."""
    findings = [_report_origin(checkpoint), _report_weights(checkpoint)]
    if checkpoint.quantisation is not None:
        findings.append(Finding("quantisation", "ok", checkpoint.quantisation.describe()))
    if (method := checkpoint.origin.get("adapter")) is not None:
        base = checkpoint.origin["base"]
        detail = f"{method}, merged into its base {base.get('hub', base.get('folder', '?'))}"
        findings.append(Finding("adapter", "ok", detail))
    findings += [Finding("checkpoint", "warning", remark) for remark in checkpoint.remarks]
    if checkpoint.embedding is not None:
        findings += [Finding(thing, "ok", detail) for thing, detail in checkpoint.embedding.describe()]
    if checkpoint.scoring is not None:
        findings.append(Finding("cross-encoder", "ok", "a classifier of two texts"))
    try:
        checkpoint, architecture = examine(checkpoint)
        frame = Frame.of(checkpoint.tokenizer) if checkpoint.modality == "text" else None
    except AttnprobeError as error:
        return [*findings, Finding("attention", "failed", str(error))]
    heads, width = _count_heads(architecture), architecture.head_width
    shape = f"{_count_layers(architecture)} x {heads} heads, {width} wide each"
    findings.append(Finding("architecture", "ok", f"{architecture.model_type}: {shape}"))
    findings += _report_removed(architecture)
    findings.append(Finding("attention", "ok", f"reached through the {architecture.way}"))
    findings += [Finding("dry run", "ok", sentence) for sentence in architecture.evidence]
    findings += [Finding("dry run", "warning", sentence) for sentence in architecture.warnings]
    findings += [
        _check_observable(checkpoint, architecture),
        _check_heads(checkpoint, architecture),
    ]
    if frame is not None:
        findings += [_report_length(checkpoint), _report_tokenizer(checkpoint, frame)]
    findings.append(_report_trained_heads(checkpoint))
    return findings


def make_findings_table(findings: list[Finding], labels: Labels) -> HeadTable:
    data: dict[str, list[str]] = {
        "model": [labels.model] * len(findings),
        "dataset": [labels.dataset] * len(findings),
        **{name: [getattr(one, name) for one in findings] for name in ("check", "status", "detail")},
    }
    columns = [Column(name, role="key") for name in data]
    return HeadTable("diagnosis", columns, data, (), labels.provenance)


def _report_removed(architecture: Architecture) -> list[Finding]:
    if not architecture.removed:
        return []
    left = zip(architecture.standing.sum(1), architecture.places, strict=True)
    listed = ", ".join(f"{number} in {place}" for number, place in left)
    detail = (
        f"{len(architecture.removed)} of {architecture.standing.size} are removed, and the others keep their "
        f"numbers; left are {listed}"
    )
    return [Finding("heads", "warning", detail)]


def _count_layers(architecture: Architecture) -> str:
    if all(place.kind is None for place in architecture.places):
        return f"{architecture.layers} layers"
    counts = Counter(architecture.kinds)
    return " + ".join(f"{counts[kind]} {kind}" for kind in Kind if counts[kind]) + " layers"


def _count_heads(architecture: Architecture) -> str:
    counts = architecture.layer_heads or (architecture.heads,)
    return str(counts[0]) if len({*counts}) == 1 else ", ".join(map(str, counts))


def _report_origin(checkpoint: Checkpoint) -> Finding:
    origin = checkpoint.origin
    commit = origin.get("commit")
    where = f"hub {origin['hub']}, commit {commit}" if commit else f"folder {origin.get('folder', '?')}"
    return Finding("checkpoint", "ok", where)


def _report_weights(checkpoint: Checkpoint) -> Finding:
    files = list(checkpoint.origin.get("weights", {}))
    safe = all(name.endswith(".safetensors") for name in files)
    parameters = checkpoint.body.num_parameters()
    kind = "safetensors" if safe else "pickled"
    detail = f"{kind} ({', '.join(files)}), {parameters:,} parameters without a task head"
    return Finding("weights", "ok" if safe else "warning", detail)


def _report_length(checkpoint: Checkpoint) -> Finding:
    if checkpoint.longest is not None:
        return Finding("maximum length", "ok", f"{checkpoint.longest:,} tokens")
    window = resolve_window(None, checkpoint)
    detail = f"no limit is stated; windows of {window} tokens without --max-length"
    return Finding("maximum length", "warning", detail)


def _report_tokenizer(checkpoint: Checkpoint, frame: Frame) -> Finding:
    names = checkpoint.tokenizer.convert_ids_to_tokens
    before, after = " ".join(names(list(frame.before))), " ".join(names(list(frame.after)))
    framed = " ".join(part for part in (before, "text", after) if part)
    return Finding("tokenizer", "ok", f"{len(checkpoint.tokenizer):,} tokens, frames a text as {framed}")


def _check_observable(checkpoint: Checkpoint, architecture: Architecture) -> Finding:
    observable, reasons = [], []
    for name in OBSERVABLE:
        try:
            check_observations(checkpoint, architecture, {name})
            observable.append(name)
        except UnobservableError as error:
            reasons.append(error.reason)
    absent = [name for name in OBSERVABLE if name not in observable]
    if not absent:
        return Finding("observations", "ok", f"statistics may ask for {', '.join(observable)}")
    detail = f"statistics can't ask for {', '.join(absent)}: {'; '.join(dict.fromkeys(reasons))}"
    return Finding("observations", "warning", detail)


def _check_heads(checkpoint: Checkpoint, architecture: Architecture) -> Finding:
    """Say whether heads can be switched, which importance, ablation and pruning need."""
    try:
        return Finding("head mask", "ok", check_gates(checkpoint, architecture).evidence)
    except AttnprobeError as error:
        return Finding("head mask", "warning", f"heads can't be masked: {error}")


def _report_trained_heads(checkpoint: Checkpoint) -> Finding:
    head = infer_head(checkpoint.model)
    names = [head.name] if head else find_trained_heads(checkpoint.folder)
    return Finding("trained heads", "ok", ", ".join(names) or "none")
