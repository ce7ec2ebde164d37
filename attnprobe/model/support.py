"""Which architectures are refused before they are tried, by name and with the reason."""

from attnprobe.errors import AttnprobeError

_NOT_YET = "it does not use transformers' attention registry, and the other ways to it are not built yet"
_NO_MAP = "it has no attention map"

#: ``config.model_type`` to the reason. Everything else is tried, and refused if the dry run fails.
REFUSED = {
    "fnet": f"{_NO_MAP}; it mixes tokens by Fourier transform",
    "mra": f"{_NO_MAP}; it approximates attention at several resolutions",
    "yoso": f"{_NO_MAP}; it samples attention by hashing",
    "nystromformer": f"{_NO_MAP}; it approximates attention from landmarks",
    "reformer": f"{_NO_MAP} over all keys; it attends within hash buckets",
    "big_bird": "its block-sparse attention has no full map",
    "bigbird_pegasus": "its block-sparse attention has no full map",
    "longformer": "its attention is a band with global tokens, not a full map",
    "led": "its attention is a band with global tokens, not a full map",
    "xlnet": _NOT_YET,
    "funnel": "its layers pool the queries, so that queries and keys no longer match tokens",
}


class BadCheckpointError(AttnprobeError):
    """The files of a checkpoint are there, but can't be used."""


class UnsupportedModelError(BadCheckpointError):
    """The attention of this architecture can't be read, or not yet."""

    def __init__(self, architecture: str, reason: str) -> None:
        """Say which architecture and why."""
        super().__init__(f"attnprobe can't read the attention of {architecture!r}: {reason}.")
        self.architecture, self.reason = architecture, reason


def refuse_by_name(model_type: str) -> None:
    """Raise UnsupportedModelError for an architecture known to be out of reach."""
    if model_type in REFUSED:
        raise UnsupportedModelError(model_type, REFUSED[model_type])


def not_routed(model_type: str) -> UnsupportedModelError:
    """Build the refusal of a model whose attention never came by."""
    return UnsupportedModelError(model_type, _NOT_YET)
