"""What fewer bits gain and move, beside censuses of the whole corpus by hand, and with a clock of ours."""

import warnings
from contextlib import contextmanager
from math import inf

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

import attnprobe
from attnprobe.corpus.sources.text import EMBEDDED, Source, read_documents
from attnprobe.model import load
from attnprobe.survey import fewer_bits
from attnprobe.survey.fewer_bits import Trial, list_dtypes, measure_shifts

DEMO = attnprobe.__path__[0] + "/demo"


@pytest.fixture(scope="module")
def texts():
    return [document.text for document in read_documents(Source(EMBEDDED))][:24]


def take_census(dtype, texts):
    model = AutoModel.from_pretrained(DEMO, dtype=dtype).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", attnprobe.AttnprobeWarning)
        return attnprobe.census(model, texts, tokenizer=AutoTokenizer.from_pretrained(DEMO)).to_pandas()


def find(texts):
    """Ask doctor, and give the status and the sentence of each check."""
    table = attnprobe.doctor("demo", texts, speed=True)
    rows = zip(*(table.data[name] for name in ("check", "status", "detail")), strict=True)
    return {check: (status, said) for check, status, said in rows}


class Clock:
    """Moves on by so many seconds whenever it is read."""

    now = step = 0.0

    def perf_counter(self):
        self.now += self.step
        return self.now


@pytest.fixture
def offer(monkeypatch):
    """Let the machine multiply some types, and let a census take so many seconds in each."""

    def give(**seconds):
        monkeypatch.setattr(fewer_bits, "list_dtypes", lambda _: [one for one in seconds if one != "float32"])
        usual, clock = fewer_bits.open_meter, Clock()

        @contextmanager
        def open_meter(checkpoint, *rest):
            weight = next(checkpoint.body.parameters())
            clock.step = seconds[str(weight.dtype).removeprefix("torch.")]
            with usual(checkpoint, *rest) as meter:
                yield meter

        monkeypatch.setattr(fewer_bits, "open_meter", open_meter)
        monkeypatch.setattr(fewer_bits, "time", clock)

    return give


def test_the_largest_shift_is_that_of_two_censuses(texts, offer):
    offer(float32=2.0, bfloat16=1.0)
    status, said = find(texts)["bfloat16"]
    one, other = take_census(torch.float32, texts), take_census(torch.bfloat16, texts)
    shifts = {}
    for name in (name for name in one if f"{name}_se" in one):
        for place, row in one[one[f"{name}_se"] > 0].iterrows():
            where = f"{name} of head {row['head']} of layer {row['layer']}"
            shifts[where] = abs(row[name] - other[name][place]) / row[f"{name}_se"]
    where = max(shifts, key=shifts.__getitem__)
    assert f"at most {shifts[where]:.2g} of their standard error ({where}) over 24 documents" in said
    assert status == ("ok" if shifts[where] < 1 else "warning")
    beyond = {where.split()[0]: None for where, shift in shifts.items() if shift >= 1}
    assert [name in said.partition("or more in ")[2] for name in beyond] == [True] * len(beyond)
    moved = int((one["offset"] != other["offset"]).sum())
    assert (f"offset is another in {moved} head" in said) == (moved > 0)


@pytest.mark.slow
def test_the_fastest_whose_numbers_agree(texts, offer, monkeypatch):
    """float64 is faster still, and its weights are not those on disk."""
    usual = load.load_checkpoint

    def spoil(name, options, **more):
        checkpoint = usual(name, options, **more)
        if options.dtype == "float64":
            with torch.no_grad():
                for weight in checkpoint.model.parameters():
                    weight.mul_(1.5)
        return checkpoint

    monkeypatch.setattr(load, "load_checkpoint", spoil)
    offer(float32=3.0, bfloat16=2.0, float64=1.0)
    found = find(texts)
    assert found["bfloat16"][1].startswith("1.50 times as fast as float32")
    assert found["float64"][0] == "warning"
    assert found["float64"][1].startswith("3.00 times as fast as float32")
    assert "their error or more in entropy" in found["float64"][1]
    says = "--dtype bfloat16: 1.50 times as fast as float32, and its numbers agree"
    assert found["fastest"] == ("ok", says)


@pytest.mark.slow
def test_what_is_no_faster_is_not_recommended(texts, offer):
    offer(float32=1.0, bfloat16=0.99, float16=4.0)
    found = find(texts)
    assert found["bfloat16"][1].startswith("1.01 times")
    assert found["float16"][1].startswith("0.25 times")
    assert found["fastest"] == ("ok", "--dtype float32: nothing else is faster here")


@pytest.mark.slow
def test_one_document_has_no_errors(texts, offer):
    offer(float32=2.0, bfloat16=1.0)
    found = find(texts[:1])
    says = "2.00 times as fast as float32; no number has an error to compare with over 1 document"
    assert found["bfloat16"][0] == "warning"
    assert found["bfloat16"][1].startswith(says)
    assert "nothing tells whether others agree; give more documents" in found["fastest"][1]


@pytest.mark.slow
def test_a_type_that_can_not_be_loaded_is_named(texts, offer):
    offer(float32=2.0, float33=1.0)
    found = find(texts[:5])
    assert found["float33"][0] == "warning"
    assert found["float33"][1].startswith("'float33' is no floating-point type")
    assert found["fastest"][1] == "--dtype float32: nothing else is faster here"


def test_errors_fall_and_shifts_stay():
    shifts = {"entropy": np.array([0.4, 0.1]), "previous": np.array([0.1, 0.05])}
    trial = Trial("bfloat16", 2.0, shifts, "entropy of head 0 of layer 1", 0, 100, 400)
    assert (trial.scale, trial.largest, trial.agrees) == (2, 0.4, True)
    assert trial.describe().detail.endswith("over 100 documents, 0.8 over all 400")
    longer = Trial("bfloat16", 2.0, shifts, "entropy of head 0 of layer 1", 2, 100, 1600)
    assert (longer.scale, longer.columns, longer.agrees) == (4, ["entropy"], False)
    says = "1.6 over all 1,600; by as much as their error or more in entropy; offset is another in 2 heads"
    assert longer.describe().detail.endswith(says)


def test_a_number_that_is_gone_agrees_with_nothing(texts):
    table = attnprobe.census("demo", texts[:5])
    gone = attnprobe.HeadTable(table.title, table.columns, {**table.data, "entropy": np.full(24, np.nan)})
    shifts, where = measure_shifts(table, gone)
    assert (shifts["entropy"] == inf).all()
    assert where == "entropy of head 0 of layer 0"
    assert not any(some.any() for name, some in shifts.items() if name != "entropy")


@pytest.mark.slow
def test_only_a_part_of_a_long_corpus_is_read(texts, offer, monkeypatch):
    """Of 24 sentences of some ten tokens in batches of 32, every second batch or so."""
    monkeypatch.setattr(fewer_bits, "_TOKENS", 240)
    offer(float32=2.0, bfloat16=1.0)
    table = attnprobe.doctor("demo", texts, speed=True, batch_tokens=32)
    (said,) = (one for one in table.data["detail"] if "times as fast as float32; " in one)
    read = int(said.partition("over ")[2].partition(" documents")[0])
    assert 4 <= read <= 20
    assert " over all 24" in said


@pytest.mark.parametrize(
    ("flags", "dtypes"),
    [
        ("fpu avx2 avx512_vnni", []),
        ("fpu avx512_bf16", ["bfloat16"]),
        ("fpu amx_bf16 amx_fp16", ["bfloat16", "float16"]),
        ("fp asimd bf16", ["bfloat16"]),
    ],
)
def test_types_of_processors(flags, dtypes, tmp_path, monkeypatch, texts):
    monkeypatch.setattr(fewer_bits, "_CPUINFO", tmp_path / "cpuinfo")
    assert list_dtypes(torch.device("cpu")) == []  # as on macOS
    (tmp_path / "cpuinfo").write_text(f"flags\t\t: {flags}\n")
    assert list_dtypes(torch.device("cpu")) == dtypes
    if not dtypes:
        assert "multiplies neither bfloat16 nor float16" in find(texts[:5])["fastest"][1]


def test_types_of_gpus(monkeypatch):
    for supported, dtypes in ((True, ["bfloat16", "float16"]), (False, ["float16"])):
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda supported=supported: supported)
        assert list_dtypes(torch.device("cuda")) == dtypes


def test_refusals(texts):
    with pytest.raises(attnprobe.AttnprobeError, match="tries types of weights beside float32"):
        attnprobe.doctor("demo", texts, speed=True, dtype="bfloat16")
    model = AutoModel.from_pretrained(DEMO)
    with pytest.raises(attnprobe.AttnprobeError, match="loads the checkpoint in several types"):
        attnprobe.doctor(model, ["a b"], tokenizer=AutoTokenizer.from_pretrained(DEMO), speed=True)
