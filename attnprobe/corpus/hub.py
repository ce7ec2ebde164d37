"""The Hugging Face Hub: datasets without scripts, streamed through the optional package datasets."""

import importlib
import importlib.util
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any

from attnprobe.corpus.cells import Row, Table, find_class_names, make_table
from attnprobe.corpus.source import Source
from attnprobe.corpus.streams import shorten
from attnprobe.errors import DataError

#: Held-out text first: attention on the text that a model was trained on is the odd case.
USUAL_SPLITS = ("test", "validation", "train")
#: Rows that a stream holds, and draws the next one from.
SHUFFLE_BUFFER = 10_000
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)


def looks_like_hub_id(spec: str) -> bool:
    """Tell whether a name has the form ``name`` or ``org/name``."""
    return _HUB_ID.fullmatch(spec) is not None


def read_hub(source: Source) -> Table:
    """Stream the rows of a split; in a random order, its shards at random and rows from a buffer.

    They come in their own order where the first of them are wanted, or whole documents.
    """
    data, chosen = open_split(source.spec, source.config, source.split)
    features = getattr(data, "features", None) or {}

    def read(data: Any) -> Iterator[Row]:
        order = source.order
        shuffled = order is not None and order.whole and source.document_column is None
        with _explain_failure(source.spec):
            if order is not None and shuffled and hasattr(data, "shuffle"):
                known = getattr(getattr(data, "info", None), "splits", None) or {}
                order.total = getattr(known.get(chosen), "num_examples", None)
                order.arranged = True
                data = data.shuffle(seed=order.seed, buffer_size=SHUFFLE_BUFFER)
            for name, kind in features.items():
                if (
                    type(kind).__name__ == "Image"
                ):  # whose bytes are decoded here, within bounds, or not at all
                    data = data.cast_column(name, type(kind)(decode=False))
            for number, cells in enumerate(data, start=1):
                yield Row(f"row {number} of {source.spec}", cells)

    return make_table(source.spec, read(data), find_class_names(features))


@lru_cache(maxsize=8)
def open_split(spec: str, config: str | None, split: str | None) -> tuple[Any, str]:
    """Open a split of a hub dataset once: the one asked for, else the first of test, validation, train."""
    datasets = _import_datasets(spec)
    with _explain_failure(spec):
        # Without a split this is a dict of them; streaming, so nothing is downloaded yet.
        data = datasets.load_dataset(spec, name=config, split=split, streaming=True)
    if split is not None:
        return data, split
    names = list(data)
    chosen = next((usual for usual in USUAL_SPLITS if usual in names), None)
    if chosen is None:
        raise DataError(f"{spec} has no split test, validation or train; pass --split with one of {names}")
    return data[chosen], chosen


def _import_datasets(spec: str) -> Any:
    datasets = None
    with suppress(ImportError):
        datasets = importlib.import_module("datasets")
    # A folder called datasets that Python took for it has no version.
    if int(getattr(datasets, "__version__", "0").split(".")[0]) < 4:
        raise DataError(
            f"{spec} is not a file here; to read it from the Hugging Face Hub, without running a script that "
            "may come with it: pip install 'datasets>=4'"
        )
    try:
        # load_dataset("text") would read what lies in the working folder, and "pandas" would unpickle it.
        local = importlib.util.find_spec(f"datasets.packaged_modules.{spec}") is not None
    except (ImportError, ValueError):
        local = False
    if local:
        raise DataError(f"{spec} is neither a file here nor the id of a hub dataset; give one of the two")
    return datasets


@contextmanager
def _explain_failure(spec: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # datasets, huggingface_hub, the network, a decoder: each has its own types
        raise DataError(
            f"{spec} is not a file here and can't be read from the Hugging Face Hub ({shorten(error)}); "
            "check the name, --split, --dataset-config and the network"
        ) from error
