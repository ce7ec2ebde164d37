"""What a second core gains: ``python cores.py TASK THREADS`` prints the seconds of the work alone."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from statistics import median

import torch
from figures import Figure
from shapes import MINILM, word_tokenizer
from transformers import BertForSequenceClassification

import attnprobe
from attnprobe.corpus.open import read_documents
from attnprobe.corpus.source import EMBEDDED, Source

SENTENCES = {"census": 1_500, "ablate": 96}


def thread_gains(*, quick: bool) -> Iterator[Figure]:
    """Compare a census of short sentences on two cores with one, in one process."""
    ratios = [_seconds("census", 1) / _seconds("census", 2) for _ in range(1 if quick else 5)]
    note = f"{min(ratios):.2f} to {max(ratios):.2f} in {len(ratios)} pairs of runs; without start-up"
    yield Figure("census of short sentences, 2 cores over 1", median(ratios), "x", 1.6, 1.9, note, gain=True)


def process_gains(*, quick: bool) -> Iterator[Figure]:
    """Compare an ablation by two processes with one."""
    ratios = [_seconds("ablate", 1) / _seconds("ablate", 1, processes=2) for _ in range(1 if quick else 5)]
    note = f"{min(ratios):.2f} to {max(ratios):.2f} in {len(ratios)} pairs of runs; without start-up"
    yield Figure("ablation, 2 processes over 1", median(ratios), "x", 1.6, 1.9, note, gain=True)


def _seconds(task: str, threads: int, processes: int = 1) -> float:
    start = [sys.executable]
    if processes > 1:
        start += ["-m", "torch.distributed.run", "--nproc-per-node", str(processes)]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE"}
    command = [*start, __file__, task, str(threads)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    return max(json.loads(line)["seconds"] for line in done.stdout.splitlines() if line.startswith("{"))


def _main(task: str, threads: str) -> None:
    torch.set_num_threads(int(threads))
    sentences = [document.text for document in read_documents(Source(EMBEDDED))]
    texts, tokenizer = list(islice(cycle(sentences), SENTENCES[task])), word_tokenizer(sentences)
    model = MINILM.model("sdpa")
    if task == "census":

        def work(some: list[str]) -> None:
            attnprobe.census(model, some, tokenizer=tokenizer)
    else:
        model = BertForSequenceClassification(model.config).eval()
        labels = [place % 2 for place in range(len(texts))]

        def work(some: list[str]) -> None:
            attnprobe.ablate(
                model, some, labels[: len(some)],
                tokenizer=tokenizer, objective="classification", metric="loss", batch_tokens=512,
            )  # fmt: skip

    work(texts[:8])  # compile, load, fill caches
    start = time.perf_counter()
    work(texts)
    sys.stdout.write(json.dumps({"seconds": time.perf_counter() - start, "file": Path(__file__).name}) + "\n")


if __name__ == "__main__":
    _main(*sys.argv[1:])
