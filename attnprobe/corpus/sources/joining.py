"""Several sources, read one after the other as if they were one."""

from collections.abc import Sequence
from itertools import chain

from attnprobe.corpus.sources.text import OpenSource
from attnprobe.errors import AttnprobeError


def joined(sources: Sequence[OpenSource]) -> OpenSource:
    """Chain sources of text; one alone is given back as it is.

    The name joins theirs by " + ", and the record has under ``sources`` what each of them has there.

    Args:
        sources: At least one.

    Raises:
        AttnprobeError: When one of them holds images or sound, or is there twice.
    """
    if len(sources) == 1:
        return sources[0]
    known: dict[str, str] = {}
    for source in sources:
        if source.kind != "text":
            raise AttnprobeError(
                f"{source.name} holds {source.kind}; only files of text can be read together."
            )
        digest = source.described.get("sha256")
        if digest is not None and digest in known:
            other = known[digest]
            twice = f"{source.name} is" if other == source.name else f"{source.name} and {other} are"
            raise AttnprobeError(f"{twice} the same file named twice; name it once.")
        if digest is not None:
            known[digest] = source.name
    name = " + ".join(source.name for source in sources)
    described = {"name": name, "sources": [source.described for source in sources]}
    return OpenSource(chain.from_iterable(source.documents for source in sources), name, described)
