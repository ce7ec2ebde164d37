"""What fewer bits of weights and activations gain, and how far they move what a census says."""

import warnings
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from figures import Figure
from ratios import CASES, as_figure, build_census, paired_ratios
from torch import nn
from transformers import AutoModel, AutoTokenizer, PreTrainedModel

import attnprobe
from attnprobe.corpus.open import read_documents
from attnprobe.corpus.source import EMBEDDED, Source
from attnprobe.statistics import census_statistics

DEMO = Path(attnprobe.__file__).parent / "demo"
#: Flags of /proc/cpuinfo: products of bfloat16, and of bytes.
FLAGS = {"bfloat16": ("avx512_bf16", "amx_bf16"), "int8": ("avx512_vnni", "amx_int8")}


def precision_costs(*, quick: bool) -> Iterator[Figure]:
    """Compare a census in bfloat16, and with weights in 8 bits, with one in float32.

    Nothing is measured where the processor lacks instructions for it, which torch would then emulate.
    """
    about = Path("/proc/cpuinfo")
    words = about.read_text(encoding="utf-8").split() if about.exists() else []
    known = {name for name, flags in FLAGS.items() if not set(flags).isdisjoint(words)}
    for name in FLAGS.keys() - known:
        yield Figure(f"census in {name}", None, note=f"the processor has none of {', '.join(FLAGS[name])}")
    for case in CASES[:2] if quick else CASES:
        checkpoint, batch = case.build()
        precise = build_census(checkpoint, case.shape, batch, census_statistics())
        for name in sorted(known):
            model = _convert(checkpoint.model, name)
            faster = build_census(replace(checkpoint, model=model), case.shape, batch, census_statistics())
            ratios = [1 / ratio for ratio in paired_ratios(precise, faster, 3 if quick else 9)]
            yield replace(as_figure(f"census in {name} over float32, {case.name}", ratios), gain=True)
    for name in sorted(known):
        yield from _movements(name)


def _convert(model: PreTrainedModel, name: str) -> Any:
    """Copy a model with its weights in bfloat16, or with those of its linear layers in 8 bits."""
    copied = deepcopy(model)
    if name == "bfloat16":
        return copied.to(torch.bfloat16)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch will do this elsewhere one day
        return torch.ao.quantization.quantize_dynamic(copied, {nn.Linear}, dtype=torch.qint8)


def _movements(name: str) -> Iterator[Figure]:
    """Say how far the columns of a census of ``demo`` move, in their standard errors."""
    texts = [document.text for document in read_documents(Source(EMBEDDED))]
    tokenizer = AutoTokenizer.from_pretrained(DEMO)
    model = AutoModel.from_pretrained(DEMO, dtype=torch.float32).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", attnprobe.AttnprobeWarning)
        precise, moved = (
            attnprobe.census(each, texts, tokenizer=tokenizer).to_pandas()
            for each in (model, _convert(model, name))
        )
    columns = [column for column in precise if f"{column}_se" in precise]
    errors = precise[[f"{column}_se" for column in columns]].to_numpy()
    # A column whose error is 0 is the same for every text.
    shifts = ((precise[columns] - moved[columns]).abs() / errors)[errors > 0]
    worst = shifts.max()
    cells = shifts.stack()
    note = f"{worst.idxmax()}; {len(precise)} heads x {len(columns)} columns, {len(texts)} texts"
    yield Figure(f"census of demo in {name}, largest shift over its error", float(worst.max()), note=note)
    within = 100 * float((cells < 1).mean())
    yield Figure(f"census of demo in {name}, numbers that move by less than their error", within, "%")
