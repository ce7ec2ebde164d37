"""Ctrl-C and SIGTERM at any moment end in one sentence and an exit code of their own."""

import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

# A process that sends itself a signal when a module is asked for, or when a function is called.
BEGIN = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever the tests were started with
def strike():
    os.kill(os.getpid(), signal.{signal})
class Waiting:
    def find_spec(self, name, *_):
        if name == {module!r}:
            sys.meta_path.remove(self)
            strike()
sys.meta_path.insert(0, Waiting())
sys.argv = ["attnprobe", "entropy", "demo", "-L", "2", "--threads", "1", *{words!r}]
"""
RUN = """
from attnprobe.__main__ import main
main()
"""
CODES = {"SIGINT": 130, "SIGTERM": 143}


def process(code):
    return subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=120
    )


def ended(name, *words, module="", between=""):
    code = BEGIN.format(signal=name, module=module, words=[str(word) for word in words]) + between + RUN
    done = process(code)
    assert done.returncode == CODES[name], done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout, done.stderr


@pytest.mark.parametrize(
    ("name", "module"),
    [("SIGINT", "typer"), ("SIGTERM", "torch"), ("SIGINT", "torch"), ("SIGINT", "transformers")],
)
def test_while_modules_are_imported(name, module):
    assert ended(name, module=module) == ("", "\nattnprobe: stopped; nothing was written.\n")


@pytest.mark.parametrize(("name", "kept"), [("SIGINT", True), ("SIGTERM", False), ("SIGTERM", True)])
def test_while_a_model_is_examined(tmp_path, name, kept):
    struck = """
import attnprobe.survey.survey as survey
before = survey.examine_part
def examined(*given):
    strike()
    return before(*given)
survey.examine_part = examined
"""
    words = ["--resume", tmp_path / "state"] if kept else []
    left = "give the same command again to go on" if kept else "nothing was written"
    assert ended(name, *words, between=struck) == ("", f"\nattnprobe: stopped; {left}.\n")
    assert not list(tmp_path.iterdir())


SWALLOWED = {
    "swallowed": """
    try:
        strike()
    except BaseException:
        pass
""",
    "turned into another": """
    try:
        strike()
    except BaseException as error:
        raise ImportError("half") from error
""",
    "in a callback": """
    import weakref
    thing = strike.__class__(strike.__code__, globals())
    seen = weakref.ref(thing, lambda _: strike())
    del thing
""",
}


@pytest.mark.parametrize("how", SWALLOWED)
def test_an_interrupt_that_somebody_else_catches(how):
    struck = f"""
import attnprobe.survey.survey as survey
before = survey.examine_part
def examined(*given):
{SWALLOWED[how]}
    return before(*given)
survey.examine_part = examined
"""
    assert ended("SIGINT", between=struck) == ("", "\nattnprobe: stopped; nothing was written.\n")


def test_when_the_table_is_written(tmp_path):
    """What is said is true when the program is on its way out, too."""
    struck = "import atexit; atexit.register(strike)"
    target = tmp_path / "heads.csv"
    _, error = ended("SIGTERM", "-o", target, "-q", between=struck)
    assert error == f"\nattnprobe: stopped; {target} was written.\n"
    assert target.exists()


def test_a_signal_that_is_ignored_stays_ignored():
    """As Ctrl-C is by a job in the background of a shell."""
    code = BEGIN.format(signal="SIGINT", module="torch", words=[])
    code += "signal.signal(signal.SIGINT, signal.SIG_IGN)" + RUN
    done = process(code)
    assert (done.returncode, done.stdout.count("\n")) == (0, 25)


def test_of_several_processes_the_first_says_it(monkeypatch, capfd):
    from attnprobe.cli.stopping import Stopping

    stopping = Stopping()
    stopping.reset(["entropy", "demo"])
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        stopping.report()
    assert capfd.readouterr().err.count("stopped") == 1
    assert stopping.code == 128 + signal.SIGINT
