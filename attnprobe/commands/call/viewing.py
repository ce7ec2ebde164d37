"""What every head looks at in one sentence, an image or a sound, and what is shown of it first."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnprobe.corpus.alignments import align_document
from attnprobe.corpus.document import Document
from attnprobe.corpus.media import BOTH, EXTENSIONS, Item, MediaFolder, Picture
from attnprobe.errors import UsageError
from attnprobe.session.session import check_model, load_model, open_call
from attnprobe.table.naming import join_names

if TYPE_CHECKING:
    from attnprobe.reports.view.packing import Start
    from attnprobe.table.sequence import SequenceAttention
    from attnprobe.table.table import HeadTable


def look_at(
    model: Any,
    text: str | Path,
    text_pair: str | None,
    target: str | None,
    max_length: int | None,
    image: Path | str | None,
    options: Mapping[str, Any],
    *,
    rollout: bool,
    alignment: str | None,
) -> "SequenceAttention":
    """Read the attention of every head to a text; the arguments are those of ``view``."""
    documents = _read_input(text, text_pair, target) if image is None else _read_both(text, text_pair, image)
    if alignment is not None:
        documents = _align(documents, alignment)
    kind = documents.kind if isinstance(documents, MediaFolder) else "text" if image is None else BOTH
    with open_call(options, model) as call:
        check_model(model, call.tokenizer, options)
        from attnprobe.run.preparation import examine_part
        from attnprobe.survey.maps import read_maps

        call.progress.stage("loading", None)
        checkpoint = load_model(model, call.tokenizer, call.load, kind)
        checkpoint, documents, architecture = examine_part(checkpoint, documents, call.progress)
        watched = {"max_length": max_length, "target": target, "rolled": rollout}
        watched["aligned"] = alignment is not None
        return read_maps(checkpoint, architecture, documents, **watched, progress=call.progress)


def find_head(
    found: "SequenceAttention", attention: str | None, role: str, tables: "Sequence[HeadTable]"
) -> tuple[int, int]:
    """Find the head that has a role most clearly: the number of its layer, and its own."""
    from attnprobe.reports.view.notes import find_role

    maps = found.of(attention)
    place, head = find_role(tables, role, maps)
    return maps.layers[place], head


def find_aligned(found: "SequenceAttention", attention: str | None) -> str:
    """Name the attention that lies between two texts that are aligned; the one that is asked for, if any."""
    between = [one.kind.value for one in found.maps if one.alignment is not None]
    if attention is not None and found.of(attention).alignment is None:
        raise UsageError(
            f"The two texts are aligned in the {join_names(between)} attention of this model, not in that of "
            f"its {attention}; leave out --attention."
        )
    return attention or between[0]


def choose_start(
    found: "SequenceAttention",
    attention: str | None,
    layer: int | None,
    head: int | None,
    draw: str | None,
    *,
    words: bool,
    special: bool,
) -> "Start":
    """Choose what is shown first, or refuse what is not there; ``special`` shows special tokens too."""
    from attnprobe.reports.view.packing import Start
    from attnprobe.survey.finder import find_best_head
    from attnprobe.survey.maps import find_sharpest

    maps, place = found.of(attention), 0
    find_first = find_sharpest if maps.alignment is None else find_best_head
    heads = maps.rows.shape[1]
    if layer is not None:
        if layer not in maps.layers:
            there = _list_layers(maps.layers)
            raise UsageError(f"There is no layer {layer}; the layers of the {maps.kind.value} are {there}.")
        place = maps.layers.index(layer)
    if head is not None and head >= heads:
        raise UsageError(f"There is no head {head}; a layer has heads 0 to {heads - 1}.")
    if head is not None and not maps.kept[place, head]:
        raise UsageError(f"Head {head} of layer {layer} was removed from this checkpoint.")
    if layer is not None and head is None and maps.rolled is None:
        raise UsageError("Cross-attention has no rollout; give a --head.")
    shown = heads if head is None else head  # of a layer without a head, its rollout
    if layer is None:
        place, shown = find_first(maps)
    sides = (maps.queries, maps.keys)
    if words and any(side.words is None for side in sides):
        raise UsageError(
            "Nobody tells which tokens make a word here: words need a text, and a tokenizer that says "
            "which characters a token covers; leave out --words."
        )
    if not special and any(side.special.all() for side in sides):
        raise UsageError("Every token is a special one; leave out --hide-special.")
    if maps.keys.grid is not None:
        if draw == "lines":
            raise UsageError("Lines are for text; leave out --draw for the patches of an image, or give map.")
        draw = draw or "patches"
    return Start(maps.kind.value, place, shown, draw or "lines", words, special)


def _read_input(text: str | Path, pair: str | None, target: str | None) -> list[Document] | MediaFolder:
    path = Path(text)
    named = path.suffix.lower() in EXTENSIONS and "\n" not in str(text)
    if named and _is_file(path):
        if pair is not None:
            raise UsageError("A second text goes with a text, not with an image or sound; leave it out.")
        kind = EXTENSIONS[path.suffix.lower()]
        if kind == "image" and target is not None:
            raise UsageError("An image has no --target; leave it out.")
        return MediaFolder(path, kind, (Item(path, target),))
    if isinstance(text, Path) or (named and len(str(text).split()) == 1):
        raise UsageError(f"There is no image or sound {str(text)!r}.")
    if not text.strip() or (pair is not None and not pair.strip()):
        raise UsageError("The text is blank; give one with words in it.")
    return [Document(text, pair, label=target)]


def _align(documents: list[Document] | MediaFolder, line: str) -> list[Document]:
    """Give two texts their gold alignment."""
    if isinstance(documents, MediaFolder):
        raise UsageError("--alignment is between words of text; leave it out for an image or sound.")
    if not isinstance(line, str):
        raise UsageError(f"An alignment is a string such as '0-0 1-2', not of type {type(line).__name__}.")
    if not line.strip():
        raise UsageError("The alignment is blank; write links such as 0-0 1-2, or leave out --alignment.")
    (document,) = documents
    if document.pair is None and not str(document.label).strip():
        raise UsageError("The target is blank; give one with words in it.")
    return [align_document(document, line, "--alignment") or document]


def _read_both(text: str | Path, pair: str | None, image: Path | str) -> list[Document]:
    if pair is not None:
        raise UsageError("An image is read with one text; leave out the second.")
    if not str(text).strip():
        raise UsageError("The text is blank; give one with words in it.")
    path = Path(image)
    if not _is_file(path):
        raise UsageError(f"There is no image {str(image)!r}.")
    return [Document(str(text), image=Picture("--image", path))]


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # no path at all
        return False


def _list_layers(layers: tuple[int, ...]) -> str:
    even: Any = tuple(range(layers[0], layers[0] + len(layers)))
    return f"{layers[0]} to {layers[-1]}" if layers == even else ", ".join(map(str, layers))
