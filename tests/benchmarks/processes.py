"""What several cores gain, and peak memory: ``python processes.py TASK ...`` prints seconds or bytes."""

import json
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, cycle, islice, repeat
from pathlib import Path
from statistics import median

import torch
from figures import Figure
from shapes import LONG, MINILM, TINY, random_batch, word_tokenizer
from transformers import BertForSequenceClassification

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


def thread_gains(*, quick: bool) -> Iterator[Figure]:
    """Compare a census of short sentences on two cores with one, in one process."""
    run = partial(_run, "census")
    yield _gain("census of short sentences, 2 cores over 1", run, {"threads": 2}, quick=quick)


def process_gains(*, quick: bool) -> Iterator[Figure]:
    """Compare an ablation by two processes with one."""
    run = partial(_run, "ablate")
    yield _gain("ablation, 2 processes over 1", run, {"processes": 2}, quick=quick)


def _gain(name: str, run: Callable[..., dict[str, float]], more: dict[str, int], *, quick: bool) -> Figure:
    ratios = [run()["seconds"] / run(**more)["seconds"] for _ in range(1 if quick else 5)]
    note = f"{min(ratios):.2f} to {max(ratios):.2f} in {len(ratios)} pairs of runs; without start-up"
    return Figure(name, median(ratios), "x", 1.6, 1.9, note, gain=True)


def text_memory(*, quick: bool) -> Iterator[Figure]:
    """Compare a census of a text with one of a hundred times the text."""
    copies = COPIES // 4 if quick else COPIES
    less, more = (_run("corpus", copies, times)["peak"] for times in (1, 100))
    number = copies * len(_sentences()[::10])
    note = f"whole process {less / MIB:.0f} to {more / MIB:.0f} MiB; {number:,} sentences x 100"
    yield Figure("peak memory, 100 x the text", 100 * (more / less - 1), "%", 5, 0, note)


def length_memory(*, quick: bool) -> Iterator[Figure]:
    """Compare a census of one long sequence with the bare forward pass, and with the model at rest."""
    bare, census = _run("long", 0), _run("long", 1)
    forward, working = (ran["peak"] - ran["loaded"] for ran in (bare, census))
    note = f"bare forward pass {forward / MIB:.0f} MiB above the loaded model, census {working / MIB:.0f} MiB"
    name = f"peak memory over the bare model, {LENGTH:,} tokens"
    yield Figure(name, (census["peak"] - bare["peak"]) / MIB, "MiB", 256, 100, note)


def _run(task: str, *numbers: int, threads: int = 1, processes: int = 1) -> dict[str, float]:
    """Run a task in fresh processes; give the most of each number that they print."""
    start = [sys.executable]
    if processes > 1:
        start += ["-m", "torch.distributed.run", "--nproc-per-node", str(processes)]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE"}
    command = [*start, __file__, task, *map(str, numbers)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    printed = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {name: max(numbers[name] for numbers in printed) for name in printed[0]}


# In the processes


def _sentences() -> list[str]:
    return [document.text for document in read_documents(Source(EMBEDDED))]


def census() -> dict[str, float]:
    tokenizer, model = word_tokenizer(_sentences()), MINILM.model("sdpa")
    texts = list(islice(cycle(_sentences()), 1_500))
    return _time(texts, lambda part: attnprobe.census(model, part, tokenizer=tokenizer))


def ablate() -> dict[str, float]:
    tokenizer, texts = word_tokenizer(_sentences()), list(islice(cycle(_sentences()), 96))
    model = BertForSequenceClassification(MINILM.model("sdpa").config).eval()
    options = {"objective": "classification", "metric": "loss", "batch_tokens": 512, "tokenizer": tokenizer}

    def work(part: list[str]) -> object:
        return attnprobe.ablate(model, part, [place % 2 for place in range(len(part))], **options)

    return _time(texts, work)


def _time(texts: list[str], work: Callable[[list[str]], object]) -> dict[str, float]:
    work(texts[:8])  # compile, load, fill caches
    start = time.perf_counter()
    work(texts)
    return {"seconds": time.perf_counter() - start}


def corpus(copies: int, times: int) -> dict[str, float]:
    sentences = _sentences()[::10]
    # Nothing but an iterator, as a file would be: the text itself must not count.
    texts = chain.from_iterable(repeat(sentences, copies * times))
    budget = TOKENS_PER_COPY * copies
    attnprobe.census(TINY.model(), texts, tokenizer=word_tokenizer(sentences), batch_tokens=budget)
    return {"peak": _peak()}


def long(measured: int) -> dict[str, float]:
    """Run one long sequence, bare or measured."""
    checkpoint, batch = LONG.checkpoint(), random_batch(1, LENGTH)
    loaded = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    if measured:
        with open_evaluator(checkpoint, LONG.architecture(), census_statistics()) as evaluator:
            evaluator.measurement(batch)
    else:
        checkpoint.forward(batch.inputs)
    return {"peak": _peak(), "loaded": loaded}


def _peak() -> int:
    """Not ru_maxrss, which a process inherits from the one that started it."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1))


if __name__ == "__main__":
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    task = {function.__name__: function for function in (census, ablate, corpus, long)}[sys.argv[1]]
    sys.stdout.write(json.dumps(task(*map(int, sys.argv[2:]))) + "\n")
