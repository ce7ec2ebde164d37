"""The record of a run, and what differs between it and the same run here and now.

What is on record came in a file, which anybody may have written: nothing in it is taken for sound, and every
word of it is cleaned before it is shown. Versions are told without importing any of the packages.
"""

import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnprobe.corpus.sources.contrasts import ContrastColumns
from attnprobe.corpus.sources.opening import open_anything
from attnprobe.corpus.sources.text import EMBEDDED, STDIN, Source, describe_source
from attnprobe.errors import AttnprobeError, first_line
from attnprobe.run.machine import count_threads, name_device
from attnprobe.run.process_group import Ranks
from attnprobe.table.cells import clean
from attnprobe.table.head_table import describe_table

if TYPE_CHECKING:
    from attnprobe.model.checkpoint import Checkpoint
    from attnprobe.model.hub import CheckpointFiles
    from attnprobe.model.location import LoadOptions
    from attnprobe.model.verifying.architecture import Architecture
    from attnprobe.run.options import CorpusOptions
    from attnprobe.run.passes import Workers
    from attnprobe.run.preparation import Corpus


def record_provenance(
    checkpoint: "Checkpoint",
    architecture: "Architecture",
    corpus: "Corpus",
    options: "CorpusOptions",
    workers: "Workers",
) -> dict[str, Any]:
    """Record what a run depends on: checkpoint, text, options, machine and versions."""
    import torch

    settings, frequencies = options.settings, options.frequencies
    named = {} if frequencies is None else {"frequencies": str(frequencies)}
    remarks = {"remarks": list(checkpoint.remarks)} if checkpoint.remarks else {}
    chosen = {"max_length": corpus.window, "batch_tokens": options.batch_tokens or "auto"}
    return {
        "model": {"name": checkpoint.name, **checkpoint.origin, **remarks},
        "architecture": architecture.describe(),
        "options": settings | named | chosen,
        "corpus": asdict(corpus.reading)
        | {
            "sequences": corpus.sequences,
            "clusters": corpus.documents,
            "tokens": corpus.tokens,
            "rare_types": corpus.rare_types,
            "texts": [corpus.batches.digest],
            "rarity": corpus.batches.rarity_digest,
            "rare_decided": corpus.rarity is not None and corpus.rarity.decided,
        },
        "device": checkpoint.devices,
        "threads": torch.get_num_threads(),
        "workers": workers.number,
        "processes": Ranks.detect().size,
        **({} if frequencies is None else {"frequencies": describe_table(Path(frequencies))}),
        **record_versions(),
    }


def add_corpora(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Add up what is on record of two parts of a corpus, in which nothing was counted as rare."""
    found = {name: value + other[name] for name, value in one.items() if type(value) is int}
    return {
        **one,
        **found,
        "spelled_token": one["spelled_token"] or other["spelled_token"],
        "texts": [*one["texts"], *other["texts"]],
    }


#: What is on record of rare tokens where nobody counted a whole corpus.
NOT_COUNTED = {"rare_types": 0, "rarity": "", "rare_decided": False}

_PACKAGES = ("attnprobe", "torch", "transformers", "numpy", "numba", "scipy")


def record_versions() -> dict[str, Any]:
    """Record the versions that compute, and when."""
    return {"versions": dict(_versions()), "created": datetime.now(UTC).isoformat(timespec="seconds")}


@cache
def _versions() -> dict[str, str]:
    """Parse the metadata of the packages, once a process."""
    return {"python": platform.python_version()} | {name: version(name) for name in _PACKAGES}


#: How much of a hash is shown.
_SHOWN = 12
#: How many names a sentence lists.
_LISTED = 3


@dataclass(frozen=True)
class Difference:
    """One thing that is other here than on record; decisive if it is the checkpoint or the data."""

    sentence: str
    decisive: bool = False


def compare_versions(recorded: Mapping[str, Any]) -> Iterator[Difference]:
    """Compare the versions of Python and of packages."""
    here = record_versions()["versions"]
    for name, then in recorded.items():
        now = here.get(name, "not known")
        if str(then) != now or name not in here:
            package = "Python" if name == "python" else clean(str(name))
            yield Difference(f"{package} is {now} here, and {clean(str(then))} on record.")


def compare_machine(
    record: Mapping[str, Any], device: str = "auto", threads: int | None = None
) -> Iterator[Difference]:
    """Compare device, threads (None for all) and processes with a provenance."""
    then = record.get("device")
    if isinstance(then, str):
        try:
            now = name_device(device)
        except AttnprobeError as error:
            yield Difference(str(error))
        else:
            if now.partition(":")[0] != then.partition(":")[0]:
                yield Difference(f"The device is {now} here, and {clean(then)} on record.")
    here = {"threads": threads or count_threads(), "processes": Ranks.detect().size}
    for name, number in here.items():
        known = record.get(name)
        if isinstance(known, int) and known != number:
            yield Difference(f"The number of {name} is {number} here, and {known} on record.")


def compare_checkpoint(
    recorded: Mapping[str, Any], name: str, options: "LoadOptions"
) -> Iterator[Difference]:
    """Compare the files of a checkpoint: its commit on the hub, or the SHA-256 of each file of a folder."""
    from attnprobe.model.hub import CheckpointFiles

    try:
        yield from _compare_files(recorded, name, CheckpointFiles.read(name, options))
    except (AttnprobeError, OSError, ValueError) as error:
        yield Difference(f"{clean(first_line(error))}{_explain_relative_path(name)}.", decisive=True)


def _compare_files(
    recorded: Mapping[str, Any], name: str, checkpoint: "CheckpointFiles"
) -> Iterator[Difference]:
    from attnprobe.model.folders import find_weights, hash_file, list_descriptions

    name, then, base = clean(name), recorded.get("commit"), checkpoint.base
    if base is not None:
        recorded_base = recorded.get("base")
        yield from _compare_files(recorded_base if isinstance(recorded_base, dict) else {}, base.name, base)
    if checkpoint.commit:
        if not isinstance(then, str):
            sentence = f"{name} is a checkpoint of the hub here, and a folder on record."
            yield Difference(sentence, decisive=True)
        elif checkpoint.commit != then:
            yield Difference(
                f"{name} is at commit {checkpoint.commit} on the hub, and at {clean(then)} on record; give "
                "that to --revision.",
                decisive=True,
            )
        return
    # Pickled weights are hashed here, and not loaded.
    weights = find_weights(checkpoint.folder, name, allow_bin=True)
    now = {path.name: path for path in weights}
    now |= {
        path.relative_to(checkpoint.folder).as_posix(): path for path in list_descriptions(checkpoint.folder)
    }
    now |= checkpoint.modules
    known = {
        file: digest
        for part in ("weights", "files", "modules")
        for file, digest in _list_pairs(recorded, part)
    }
    if not known:
        yield _missing_hash(name)
        return
    changed = [file for file in known if file in now and hash_file(now[file]) != known[file]]
    gone, new = [file for file in known if file not in now], [file for file in now if file not in known]
    for found, one, several in (
        (changed, "has changed since the record", "have changed since the record"),
        (gone, "is gone", "are gone"),
        (new, "is not on record", "are not on record"),
    ):
        if found:
            change = one if len(found) == 1 else several
            yield Difference(f"{name}: {_list_names(found)} {change}.", decisive=True)


def compare_data(recorded: Mapping[str, Any], spec: str | None) -> Iterator[Difference]:
    """Compare the SHA-256 of data; without ``spec``, of the text that ships with attnprobe."""
    then = recorded.get("sha256")
    name = "The text that ships with attnprobe" if spec in (None, EMBEDDED) else clean(str(spec))
    if not isinstance(then, str):
        if spec not in (None, EMBEDDED, STDIN) and _exists(str(spec)):
            yield _missing_hash(name)  # as data of the hub and of standard input, which have none
        return
    try:
        now = _hash_data(spec or EMBEDDED, recorded)
    except (AttnprobeError, OSError, ValueError) as error:
        yield Difference(f"{clean(first_line(error))}{_explain_relative_path(spec or '')}.", decisive=True)
        return
    if then not in now:
        yield Difference(f"{name} has changed since the record{_format_hashes(now, then)}.", decisive=True)


def _missing_hash(name: str) -> Difference:
    return Difference(f"There is no hash of {name} on record to compare with.", decisive=True)


def _exists(name: str) -> bool:
    try:
        return Path(name).exists()
    except (OSError, ValueError):
        return False


def _hash_data(spec: str, recorded: Mapping[str, Any]) -> list[str]:
    """Compute the SHA-256 of data; of what ships with attnprobe, that of each of its parts."""
    if spec == EMBEDDED:
        plain = Source(EMBEDDED)
        pairs = replace(plain, read_rows=ContrastColumns().read)
        parts = plain, replace(plain, annotated=True), replace(plain, coreference=True), pairs
        return [str(describe_source(part)["sha256"]) for part in parts]
    path = Path(spec)
    if not path.exists():
        raise AttnprobeError(f"There is no file {clean(spec)}")
    if "kind" in recorded:  # a folder: of images or sound, whose names and labels count too; of passages
        column, split = (
            one if isinstance(one := recorded.get(name), str) else None for name in ("label_column", "split")
        )
        source = Source(spec, split=split, label_column=column, find_labels=True)
        return [str(open_anything(source).described.get("sha256"))]
    if not path.is_file():  # a folder, or a device that never ends
        raise AttnprobeError(f"{clean(spec)} was a file on record, and is none here")
    return [describe_table(path)["sha256"]]


def _format_hashes(now: Sequence[str], then: str) -> str:
    if len(now) > 1:
        return ""
    return f" (SHA-256 {now[0][:_SHOWN]} now, {clean(then)[:_SHOWN]} on record)"


def _list_pairs(recorded: Mapping[str, Any], part: str) -> Sequence[tuple[str, Any]]:
    found = recorded.get(part)
    return [(str(name), one) for name, one in found.items()] if isinstance(found, Mapping) else []


def _list_names(names: Sequence[str]) -> str:
    shown = [clean(name) for name in names[:_LISTED]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _explain_relative_path(name: str) -> str:
    if not name or Path(name).expanduser().is_absolute() or (os.sep not in name and "." not in name):
        return ""
    return "; the command names it as seen from the folder it was run in, so run this there"
