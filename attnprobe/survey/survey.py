"""One survey: a checkpoint, a corpus, statistics; verified, measured, and put on record."""

import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import torch

from attnprobe.corpus.batches.media import MediaBatches
from attnprobe.corpus.sources.document import Document
from attnprobe.corpus.sources.folder import MediaFolder
from attnprobe.errors import AttnprobeError
from attnprobe.model.loading.checkpoint import Checkpoint
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.model.verifying.dry_run import examine
from attnprobe.run.budget import itemsize_of, price_of_statistics
from attnprobe.run.fitting import fitted
from attnprobe.run.input.corpus import Corpus, CorpusOptions, tokenised
from attnprobe.run.input.labelled import Labelled
from attnprobe.run.input.media import heard
from attnprobe.run.packing import packed
from attnprobe.run.ranks import Ranks
from attnprobe.run.state import State, Unkept
from attnprobe.statistics import Statistic
from attnprobe.survey.measurement import ALL_PAIRS_CELLS, Measurement, measure
from attnprobe.table.builder import Labels


class Progress(Protocol):
    """Who is told how far a survey is."""

    def stage(self, name: str, total: int | None) -> None:
        """Begin a stage of ``total`` steps, if known."""
        ...

    def advance(self, steps: int) -> None:
        """Count steps of the current stage."""
        ...

    def say(self, sentence: str) -> None:
        """Tell the user something worth knowing."""
        ...


class Silent:
    """A progress that nobody watches."""

    def stage(self, name: str, total: int | None) -> None:
        """Ignore."""

    def advance(self, steps: int) -> None:
        """Ignore."""

    def say(self, sentence: str) -> None:
        """Ignore."""


@dataclass(frozen=True)
class Survey:
    """What a survey found.

    Attributes:
        measurement: The moments.
        architecture: What the dry run verified.
        labels: Names and provenance for the tables.
    """

    measurement: Measurement
    architecture: Architecture
    labels: Labels


def survey(
    checkpoint: Checkpoint,
    documents: Iterable[Document] | MediaFolder,
    options: CorpusOptions,
    statistics: Sequence[Statistic],
    *,
    dataset: str,
    facts: Mapping[str, Any],
    all_pairs: bool = False,
    labelled: bool = False,
    resume: Path | None = None,
    progress: Progress | None = None,
) -> Survey | None:
    """Verify the capture, tokenise the corpus, and measure it in one pass.

    Started by torchrun, each process measures its share of the batches; the first gets the whole.

    Args:
        checkpoint: Which encoder is asked.
        documents: The text.
        options: How it is cut into sequences.
        statistics: What is measured.
        dataset: What the ``dataset`` column says.
        facts: What the caller adds to the provenance: command, source of the text.
        all_pairs: Whether all heads of the model are compared, not only those of a layer.
        labelled: Whether labels are target texts, for the decoder beside an encoder.
        resume: A file that keeps the state of the run, so that it can go on after it was stopped.
        progress: Who is told how far it is.

    Returns:
        What was found; None in all processes but the first.
    """
    progress, ranks = progress or Silent(), Ranks.found()
    progress.stage("dry run", None)
    checkpoint, documents = heard(checkpoint, documents, progress.say)
    if checkpoint.modality != "text" and all(statistic.family == "rare" for statistic in statistics):
        raise AttnprobeError("What is rare is counted in text; images and sound have no rare tokens.")
    targets = Labelled(documents, "target text")
    if labelled:
        if not checkpoint.decodes:
            raise AttnprobeError(
                f"{checkpoint.name} has no decoder beside an encoder that could read targets; leave out "
                "--target-column."
            )
        documents, options = targets.examples, replace(options, truncate=True)
    checkpoint, architecture = examine(checkpoint)
    for warning in architecture.warnings:
        progress.say(f"{warning}.")
    if architecture.grid is None:
        asked = statistics
        statistics = [statistic for statistic in asked if statistic.of == "everything"]
        if not statistics:
            raise AttnprobeError(f"{asked[0].name} is about images, in which patches lie in rows.")
    cells = max(1, ALL_PAIRS_CELLS // (architecture.layers * architecture.heads)) if all_pairs else None
    price = None
    if options.budget is not None:
        price = price_of_statistics(architecture, statistics, itemsize_of(checkpoint), all_pairs=all_pairs)
    progress.stage("tokenising", None)
    with (
        tokenised(
            checkpoint,
            documents,
            options,
            cells=cells,
            labelled=labelled,
            architecture=architecture,
            price=price,
            progress=progress.advance,
        ) as corpus,
        fitted(checkpoint, architecture, corpus, options.budget, price, progress.say),
    ):
        for sentence in (*remarks(corpus), *targets.remarks()):
            progress.say(sentence)
        asked = [*(statistic.name for statistic in statistics), *(["all pairs"] if all_pairs else [])]
        question = {"command": " ".join(asked)}
        state = taken_up(resume, checkpoint, corpus, options, question, progress, ranks)
        ranks.check(len(corpus.batches))
        mine = corpus.batches.shared_out(ranks.rank, ranks.size)
        progress.stage("measuring", mine.tokens)
        with ranks.joined():
            measurement = measure(
                checkpoint,
                architecture,
                mine.after(state.done),
                statistics,
                all_pairs=all_pairs,
                state=state,
                progress=progress.advance,
            )
            measurement = ranks.gathered(measurement)
        if measurement is None:
            return None
        record = provenance(checkpoint, architecture, corpus, options) | dict(facts)
        record["measurement"] = packed(measurement, [statistic.name for statistic in statistics])
    return Survey(
        measurement,
        architecture,
        Labels(checkpoint.name, dataset, record, architecture.places, architecture.grid is not None),
    )


def remarks(corpus: Corpus) -> list[str]:
    """Say what happened to documents that did not go in as they were."""
    reading = corpus.reading
    said = []
    media = isinstance(corpus.batches, MediaBatches)
    noun, limit = ("file", "what the checkpoint takes") if media else ("document", f"{corpus.window} tokens")
    if reading.cut:
        said.append(
            f"{_count(reading.cut, noun)} longer than {limit} cut into {reading.windows} windows, each a "
            "sequence of its own."
        )
    if reading.truncated:
        said.append(f"{_count(reading.truncated, noun)} truncated to {limit}.")
    if reading.empty and media:
        said.append(f"{_count(reading.empty, noun)} too short to be heard skipped.")
    elif reading.empty:
        said.append(f"{_count(reading.empty, 'document')} without a single token skipped.")
    return said


def provenance(
    checkpoint: Checkpoint, architecture: Architecture, corpus: Corpus, options: CorpusOptions
) -> dict[str, Any]:
    """Record everything that is needed to make the table again."""
    settings = {
        name: str(value) if name == "frequencies" and value else value
        for name, value in asdict(options).items()
    }
    return {
        "model": {"name": checkpoint.name, **checkpoint.origin},
        "architecture": asdict(architecture),
        "options": settings | {"max_length": corpus.window, "batch_tokens": options.batch_tokens or "auto"},
        "corpus": asdict(corpus.reading)
        | {
            "sequences": corpus.sequences,
            "tokens": corpus.tokens,
            "rare_types": corpus.rare_types,
            "texts": [corpus.batches.digest],
            "rarity": corpus.batches.rarity_digest,
        },
        "device": checkpoint.devices,
        "threads": torch.get_num_threads(),
        "processes": Ranks.found().size,
        **made_with(),
    }


def taken_up(
    path: Path | None,
    checkpoint: Checkpoint,
    corpus: Corpus,
    options: CorpusOptions,
    question: Mapping[str, str],
    progress: Progress,
    ranks: Ranks = Ranks(),  # noqa: B008 - it never changes
) -> State:
    """Take up the state of a run, and refuse one of another model, text, question or setting.

    Args:
        path: The file, or None to keep nothing.
        checkpoint: Which model is asked.
        corpus: Which text it reads.
        options: How the text becomes sequences.
        question: What else the numbers depend on, each by its name.
        progress: Who is told that the run goes on.
        ranks: Which of several processes this is; each keeps a state of its own.
    """
    if path is None:
        return Unkept()
    # What the memory changes is the plan of batches, or nothing that a state depends on.
    settings = {name: str(value) for name, value in asdict(options).items() if name != "memory"}
    key = {
        "model": json.dumps(checkpoint.origin, sort_keys=True, default=str),
        "dataset": corpus.batches.digest,
        "setting": json.dumps([settings, corpus.batches.rarity_digest]),
        "plan of batches": corpus.batches.plan_digest,
        **question,
        "device or number of threads": f"{checkpoint.devices} {torch.get_num_threads()}",
        "version of a package": json.dumps(made_with()["versions"]),
    }
    if ranks.size > 1:
        path = path.with_name(f"{path.name}.{ranks.rank}")
        key["number of processes"] = f"{ranks.rank} of {ranks.size}"
    state = State(path, key)
    if state.done:
        done, total = state.done, len(corpus.batches)
        progress.say(f"going on from {path}: {done:,} of {total:,} batches are done.")
    return state


def made_with() -> dict[str, Any]:
    """Record the versions that compute, and when."""
    packages = ("attnprobe", "torch", "transformers", "numpy", "numba", "scipy")
    return {
        "versions": {"python": platform.python_version()} | {name: version(name) for name in packages},
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
