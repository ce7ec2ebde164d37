"""Ctrl-C and SIGTERM, at any moment: one sentence, and an exit code of its own.

Nothing slow is imported here, so that signals are listened to before anything slow is.
"""

import atexit
import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from typing import Any

#: What the exit code of a program that was ended by a signal begins at: 130 for Ctrl-C, 143 for SIGTERM.
ENDED = 128
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SHOW_CURSOR = "\x1b[?25h"


class Stopping:
    """The handling of signals.

    While there is nothing to put away (imports, options), the program ends on the spot: a module that is half
    imported could swallow an exception. While a command works, the signal becomes a KeyboardInterrupt, so
    that states are written and temporary files go away.

    Attributes:
        received: The first signal, or None.
        cleans_up: Whether there may be files to put away, so that a signal is raised as KeyboardInterrupt.
        outcome: What a program that is stopped at this moment leaves, as a clause.
    """

    def __init__(self) -> None:
        self.words: Sequence[str] = ()
        self.received: int | None = None
        self.outcome = ""
        self.cleans_up = False

    def listen(self, words: Sequence[str]) -> None:
        """Install the handlers of signals for the rest of the process; ``words`` are the command line."""
        self.reset(words)
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as of a job in the background
                signal.signal(number, self._handle_signal)
        sys.unraisablehook = self._ignore_interrupt

    def reset(self, words: Sequence[str]) -> None:
        self.words, self.received, self.cleans_up = words, None, False
        options = {word.partition("=")[0] for word in words}
        kept = bool({"--resume", "--save-tables"} & options)
        self.outcome = "give the same command again to go on" if kept else "nothing was written"

    @contextlib.contextmanager
    def working(self, *, cleans_up: bool = False) -> Iterator[None]:
        """Enclose a command: with ``cleans_up`` set, a signal interrupts it rather than end the process."""
        self.cleans_up = cleans_up
        try:
            yield
        except KeyboardInterrupt as interrupt:
            # A run that keeps a state listens to SIGTERM itself.
            terminated = type(interrupt).__name__ == "Terminated"
            self.received = self.received or (signal.SIGTERM if terminated else signal.SIGINT)
            raise
        finally:
            self.cleans_up = False

    def reraise(self) -> None:
        """Raise again what somebody else's code may have swallowed."""
        if self.received is not None:
            raise KeyboardInterrupt

    @property
    def code(self) -> int:
        return ENDED + (self.received or signal.SIGINT)

    def leave(self, code: Any) -> None:
        """End the process once all is flushed, without Python's shutdown; ``code`` is 0 if no number."""
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(code if isinstance(code, int) else 0)

    def report(self) -> None:
        """Say that the program was stopped; of several processes, the first one does."""
        if os.environ.get("RANK", "0") == "0" or os.environ.get("WORLD_SIZE", "1") == "1":
            print(f"\nattnprobe: stopped; {self.outcome}.", file=sys.stderr, flush=True)

    def _ignore_interrupt(self, what: "sys.UnraisableHookArgs") -> None:
        """Print no interrupt that was raised where nobody could catch it; ``reraise`` raises it again."""
        if self.received is None or not issubclass(what.exc_type, KeyboardInterrupt):
            sys.__unraisablehook__(what)

    def _handle_signal(self, number: int, _: Any) -> None:
        self.received = self.received or number
        if self.cleans_up:
            raise KeyboardInterrupt
        with contextlib.suppress(Exception):  # of a closed terminal, for one
            if sys.stderr.isatty():
                sys.stderr.write(_SHOW_CURSOR)
            self.report()
        os._exit(self.code)


#: Of this process, which has one standard error and one exit code.
stopping = Stopping()
