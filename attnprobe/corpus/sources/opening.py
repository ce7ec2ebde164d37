"""Opening whatever a user names: text, or a folder of images, sound or videos."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from attnprobe.corpus.sources.embedded import EMBEDDED
from attnprobe.corpus.sources.media import VIDEO, MediaFolder, find_media, is_media
from attnprobe.corpus.sources.pictures import BOTH, open_captioned
from attnprobe.corpus.sources.relations import is_benchmark, open_benchmark
from attnprobe.corpus.sources.text import STDIN, OpenSource, Source, holds_text, open_source
from attnprobe.corpus.sources.video import open_video_table
from attnprobe.errors import AttnprobeError


def open_anything(source: Source) -> OpenSource:
    """Open a source; a bad name is refused at once.

    Raises:
        AttnprobeError: With one sentence on what is wrong and what to do.
    """
    if source.spec in {EMBEDDED, STDIN} or source.coreference:
        return open_source(source)
    path = Path(source.spec)
    try:
        media = path.exists() and is_media(path) and not _holds_only_text(path)
        benchmark = is_benchmark(path)
    except (OSError, ValueError):  # a name too long, or with a NUL in it, which is told elsewhere
        media = benchmark = False
    if benchmark:
        return _open_benchmark(path, source)
    videos = None if media or source.annotated else _find_videos(path, source)
    if not media and videos is None:
        return open_source(source)
    if source.annotated:
        raise AttnprobeError(
            f"{source.spec} is {'a folder' if path.is_dir() else 'an image or sound'}, and gold links are "
            "between words of text; name a file that has them."
        )
    if source.text_column is not None and path.is_dir() and source.sees is not None:
        return _open_captioned(path, source)
    folder = videos or MediaFolder.open(path, source.label_column)
    holds = "videos" if folder.kind == VIDEO else "images or sound"
    if source.image_column is not None:
        raise AttnprobeError(
            f"{source.spec} holds {holds}; leave out --image-column, or name the column of captions with "
            "--text-column."
        )
    _refuse_options(source, holds, split=source.split, label=None)
    described = folder.described | {"label_column": source.label_column}
    return OpenSource(folder, str(described["name"]), described, folder.kind)


def _find_videos(path: Path, source: Source) -> MediaFolder | None:
    """Find the videos that a table names, where nothing else of it is asked for."""
    texts = source.text_column or source.pair_column
    try:
        return None if texts else open_video_table(path, source.label_column)
    except (OSError, ValueError):  # a name too long, or with a NUL in it
        return None


def _open_captioned(path: Path, source: Source) -> OpenSource:
    """Open a folder of images with captions, which are read together."""
    column, others = source.text_column, replace(source, text_column=None)
    assert column is not None
    _refuse_options(others, "images", split=source.split, label=source.label_column)
    described = MediaFolder.open(path).described | {"kind": BOTH, "text_column": column}
    return OpenSource(open_captioned(path, column), str(described["name"]), described, BOTH)


def _holds_only_text(path: Path) -> bool:
    return path.is_dir() and holds_text(path) and next(find_media(path), None) is None


def _open_benchmark(path: Path, source: Source) -> OpenSource:
    """Open a folder of queries and passages, for a task."""
    if not source.find_labels:
        raise AttnprobeError(
            f"{source.spec} is a folder of queries and passages, which are for --objective retrieval; give "
            "one file of it, such as corpus.jsonl."
        )
    _refuse_options(source, "queries and passages", split=None, label=source.label_column)
    return open_benchmark(path, source.split)


def _refuse_options(source: Source, holds: str, *, split: str | None, label: str | None) -> None:
    """Refuse options of tables and of the hub; ``split`` and ``label`` are None where they mean something."""
    given = {
        "--split": split,
        "--dataset-config": source.config,
        "--text-column": source.text_column,
        "--text-pair-column": source.pair_column,
        "--label-column": label,
        "--document-column": source.document_column,
    }
    for option, value in given.items():
        if value is not None:
            raise AttnprobeError(f"{source.spec} holds {holds}; leave out {option}.")


def join_sources(sources: Sequence[OpenSource]) -> OpenSource:
    """Chain sources of text; one alone is given back as it is.

    The name joins theirs by " + ", and the record has under ``sources`` what each of them has there.

    Raises:
        AttnprobeError: When one of several holds images or sound, or is there twice.
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
        if digest in known:
            other = known[digest]
            twice = f"{source.name} is" if other == source.name else f"{source.name} and {other} are"
            raise AttnprobeError(f"{twice} the same file named twice; name it once.")
        if digest is not None:
            known[digest] = source.name
    name = " + ".join(source.name for source in sources)
    described = {"name": name, "sources": [source.described for source in sources]}
    return OpenSource(chain.from_iterable(source.documents for source in sources), name, described)
