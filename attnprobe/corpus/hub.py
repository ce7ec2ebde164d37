"""The Hugging Face Hub: datasets without scripts, streamed through the optional package datasets."""

import importlib
import importlib.util
import re
import warnings
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from attnprobe.corpus.cells import Row, Table, find_class_names, make_table
from attnprobe.corpus.source import Source
from attnprobe.corpus.streams import shorten
from attnprobe.errors import AttnprobeWarning, DataError

#: Held-out text first: attention on the text that a model was trained on is the odd case.
USUAL_SPLITS = ("test", "validation", "train")
#: Rows that a stream holds, and draws the next one from.
SHUFFLE_BUFFER = 10_000
#: Older releases run a Python script that comes with the data.
_WITHOUT_SCRIPTS = 4
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)


def looks_like_hub_id(spec: str) -> bool:
    """Tell whether a name has the form ``name`` or ``org/name``."""
    return _HUB_ID.fullmatch(spec) is not None


def read_hub(source: Source) -> Table:
    """Stream the rows of a split; in a random order, its shards at random and rows from a buffer.

    They come in their own order where the first of them are wanted, or whole documents.
    """
    data, chosen = open_split(source.spec, source.config, source.split)
    features = getattr(data, "features", None)
    return make_table(source.spec, _read_rows(source, data, chosen), find_class_names(features))


def _read_rows(source: Source, data: Any, chosen: str) -> Iterator[Row]:
    order = source.order
    try:
        shuffled = order is not None and order.whole and source.document_column is None
        if order is not None and shuffled and hasattr(data, "shuffle"):
            known = getattr(getattr(data, "info", None), "splits", None) or {}
            order.total = getattr(known.get(chosen), "num_examples", None)
            order.arranged = True
            data = data.shuffle(seed=order.seed, buffer_size=SHUFFLE_BUFFER)
        for name, kind in (getattr(data, "features", None) or {}).items():
            if type(kind).__name__ == "Image":  # whose bytes are decoded here, within bounds, or not at all
                data = data.cast_column(name, type(kind)(decode=False))
        for number, cells in enumerate(data, start=1):
            yield Row(f"row {number} of {source.spec}", cells)
    except Exception as error:  # the network, a decoder, a file of the dataset: any type at all
        raise _explain_failure(source.spec, error) from error


@lru_cache(maxsize=8)
def open_split(spec: str, config: str | None, split: str | None) -> tuple[Any, str]:
    """Open a split of a hub dataset once: the one asked for, else the first of test, validation, train."""
    datasets = _import_datasets(spec)
    try:
        # Without a split this is a dict of them; streaming, so nothing is downloaded yet.
        data = datasets.load_dataset(spec, name=config, split=split, streaming=True)
    except Exception as error:  # datasets, huggingface_hub and the network each have their own types
        raise _explain_failure(spec, error) from error
    if split is not None:
        return data, split
    names = list(data)
    chosen = next((usual for usual in USUAL_SPLITS if usual in names), None)
    if chosen is None:
        raise DataError(f"{spec} has no split test, validation or train; pass --split with one of {names}")
    sentence = f"the split {chosen!r} of {spec} is read; name another with --split."
    warnings.warn(sentence, AttnprobeWarning, stacklevel=2)
    return data[chosen], chosen


def _import_datasets(spec: str) -> Any:
    try:
        datasets = importlib.import_module("datasets")
        major = int(datasets.__version__.split(".")[0])
    except (ImportError, AttributeError):  # no version: a folder called datasets that Python took for it
        raise DataError(
            f"{spec} is not a file here; to read it from the Hugging Face Hub: pip install datasets"
        ) from None
    if major < _WITHOUT_SCRIPTS:
        raise DataError(
            f"datasets {datasets.__version__} may run a script that comes with {spec}; "
            "pip install 'datasets>=4'"
        )
    try:
        # load_dataset("text") would read what lies in the working folder, and "pandas" would unpickle it.
        local = importlib.util.find_spec(f"datasets.packaged_modules.{spec}") is not None
    except (ImportError, ValueError):
        local = False
    if local:
        raise DataError(f"{spec} is neither a file here nor the id of a hub dataset; give one of the two")
    return datasets


def _explain_failure(spec: str, error: Exception) -> DataError:
    return DataError(
        f"{spec} is not a file here and can't be read from the Hugging Face Hub ({shorten(error)}); "
        "check the name, --split, --dataset-config and the network"
    )
