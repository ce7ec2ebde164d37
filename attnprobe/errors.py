"""The two ways attnprobe says no. Both carry one plain sentence that says what to do."""


class AttnprobeError(Exception):
    """The request can't be served: bad usage, input or configuration. Exit code 2."""

    exit_code = 2


class CheckFailedError(AttnprobeError):
    """The request was understood and a check on the checkpoint failed. Exit code 1."""

    exit_code = 1


def first_line(error: BaseException) -> str:
    """Give the first line of somebody else's error, without its full stop."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
