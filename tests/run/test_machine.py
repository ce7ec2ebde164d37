"""What the machine computes on, as torch itself says it."""

import subprocess
import sys

import pytest

from attnprobe.errors import AttnprobeError
from attnprobe.model.load import find_device
from attnprobe.run import machine
from attnprobe.run.machine import count_threads, name_device

THREADS = """
import sys
from attnprobe.run.machine import count_threads
told = count_threads()
assert ("torch" in sys.modules) == (sys.argv[1] == "asked")
import torch
assert told == torch.get_num_threads(), (told, torch.get_num_threads())
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "environment",
    [{}, {"OMP_NUM_THREADS": "1"}, {"OMP_NUM_THREADS": "1000"}, {"MKL_NUM_THREADS": "1"}],
    ids=str,
)
def test_threads_are_those_of_torch(environment, monkeypatch):
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    plain = sys.platform == "linux" and machine.platform.machine() == "x86_64"
    way = "told" if plain and "MKL_NUM_THREADS" not in environment else "asked"
    subprocess.run([sys.executable, "-c", THREADS, way], check=True)


@pytest.mark.parametrize(("asked", "told"), [("", 3), ("2", 2), ("8", 3)])
def test_two_processors_of_one_core_share_a_thread(asked, told, tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "_TOPOLOGY", tmp_path)
    monkeypatch.setattr(machine.sys, "platform", "linux")
    monkeypatch.setattr(machine.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: {0, 1, 2, 5}, raising=False)
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    for number, (package, core) in enumerate([(0, 0), (0, 0), (0, 1), (0, 1), (1, 0), (1, 0)]):
        folder = tmp_path / f"cpu{number}" / "topology"
        folder.mkdir(parents=True)
        (folder / "physical_package_id").write_text(f"{package}\n")
        (folder / "core_id").write_text(f"{core}\n")
    assert count_threads() == told  # 0 and 1 are one core, 2 another, 5 another package's


def test_torch_is_asked_where_the_machine_does_not_say(tmp_path, monkeypatch):
    import torch

    monkeypatch.setattr(machine, "_TOPOLOGY", tmp_path)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
    assert count_threads() == 7


def test_devices(monkeypatch):
    import torch

    assert name_device("cpu") == "cpu"
    assert name_device() == str(find_device("auto"))
    with pytest.raises(AttnprobeError, match="There is no device 'the:gpu'"):
        name_device("the:gpu")
    monkeypatch.setattr(machine, "_may_have_accelerator", lambda: True)
    monkeypatch.setattr("attnprobe.model.load.find_device", lambda name: torch.device("cuda", 1))
    assert name_device() == "cuda:1"  # as torch says it
    assert name_device("cpu") == "cpu"
    monkeypatch.setattr(machine, "_may_have_accelerator", lambda: False)
    assert name_device() == "cpu"
