"""Peak memory, each figure from fresh processes: ``python memory.py TASK ...`` prints bytes."""

import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path

import torch
from figures import Figure
from shapes import LONG, TINY, random_batch, word_tokenizer

import attnprobe
from attnprobe.corpus.open import read_documents
from attnprobe.corpus.source import EMBEDDED, Source
from attnprobe.statistics import census_statistics
from attnprobe.survey.measure import open_evaluator

MIB = 2**20
LENGTH = 8192
#: Every tenth embedded sentence, so often. Copies alone fill the batches of the smaller text: fuller
#: batches need more memory, in the bare model too, and that is no growth with the text.
COPIES = 32
TOKENS_PER_COPY = 24


def text_memory(*, quick: bool) -> Iterator[Figure]:
    """Compare a census of a text with one of a hundred times the text."""
    copies = COPIES // 4 if quick else COPIES
    less, more = (_measured("corpus", copies, times)["peak"] for times in (1, 100))
    number = copies * len(_sentences())
    note = f"whole process {less / MIB:.0f} to {more / MIB:.0f} MiB; {number:,} sentences x 100"
    yield Figure("peak memory, 100 x the text", 100 * (more / less - 1), "%", 5, 0, note)


def length_memory(*, quick: bool) -> Iterator[Figure]:
    """Compare a census of one long sequence with the bare forward pass, and with the model at rest."""
    bare, census = _measured("bare"), _measured("census")
    forward, working = (found["peak"] - found["loaded"] for found in (bare, census))
    note = f"bare forward pass {forward / MIB:.0f} MiB above the loaded model, census {working / MIB:.0f} MiB"
    name = f"peak memory over the bare model, {LENGTH:,} tokens"
    yield Figure(name, (census["peak"] - bare["peak"]) / MIB, "MiB", 256, 100, note)


def _measured(task: str, *numbers: int) -> dict[str, int]:
    command = [sys.executable, __file__, task, *map(str, numbers)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def _sentences() -> list[str]:
    return [document.text for document in read_documents(Source(EMBEDDED))][::10]


def _corpus(copies: int, times: int) -> None:
    sentences = _sentences()
    # Nothing but an iterator, as a file would be: the text itself must not count.
    texts = chain.from_iterable(repeat(sentences, copies * times))
    budget = TOKENS_PER_COPY * copies
    attnprobe.census(TINY.model(), texts, tokenizer=word_tokenizer(sentences), batch_tokens=budget)


def _long(task: str) -> int:
    """Run one long sequence; give the bytes in memory before."""
    checkpoint, batch = LONG.checkpoint(), random_batch(1, LENGTH)
    loaded = _resident()
    if task == "bare":
        checkpoint.forward(batch.inputs)
    else:
        with open_evaluator(checkpoint, LONG.architecture(), census_statistics()) as measure:
            measure.measurement(batch)
    return loaded


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _main(task: str, *numbers: str) -> None:
    torch.set_num_threads(1)
    loaded = 0
    if task == "corpus":
        _corpus(*map(int, numbers))
    else:
        loaded = _long(task)
    # Not ru_maxrss, which a process inherits from the one that started it.
    status = Path("/proc/self/status").read_text()
    peak = 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1))
    sys.stdout.write(json.dumps({"peak": peak, "loaded": loaded}) + "\n")


if __name__ == "__main__":
    _main(*sys.argv[1:])
