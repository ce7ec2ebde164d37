"""The function that shows the attention of one sequence."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from attnprobe.api.calls import called, check_model, checkpoint_of
from attnprobe.api.keywords import ModelKeywords, WorkKeywords, spelled_out
from attnprobe.corpus.sources.document import Document
from attnprobe.corpus.sources.media import EXTENSIONS, Item, MediaFolder
from attnprobe.corpus.tokens.tokenization import Tokenizer
from attnprobe.errors import AttnprobeError
from attnprobe.reports.theme import ThemeName
from attnprobe.reports.view.view import View, check_look

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from attnprobe.reports.view.page import Start
    from attnprobe.survey.viewing.tokens import SequenceAttention


class ViewKeywords(ModelKeywords, WorkKeywords, total=False):
    """All that a picture takes beside what it shows; it keeps no state, and has one batch."""


@spelled_out
def view(
    model: "str | Path | PreTrainedModel",
    text: str | Path,
    text_pair: str | None = None,
    *,
    target: str | None = None,
    attention: Literal["encoder", "decoder", "cross"] | None = None,
    layer: int | None = None,
    head: int | None = None,
    draw: Literal["lines", "map"] | None = None,
    words: bool = False,
    hide_special: bool = False,
    rollout: bool = False,
    max_length: int | None = None,
    theme: ThemeName | None = None,
    width: int | None = None,
    tokenizer: Tokenizer | None = None,
    **options: Unpack[ViewKeywords],
) -> View:
    """Show what every head looks at in one sentence, a pair of sentences, or an image.

    Args:
        model: As for ``census``.
        text: A sentence; or the path of an image or of sound, for a model that sees or hears.
        text_pair: A second text that the model reads together with the first.
        target: What the decoder beside an encoder reads; by default the text itself. Of sound, what is said
            in it, without which only the encoder is read.
        attention: Which kind is shown first, of a model with an encoder and a decoder.
        layer: The layer that is shown first; in a graphic the only one. Counted from 0, as tables do.
        head: The head that is shown first; in a graphic the only one. A graphic of no head shows all, small.
        draw: ``"lines"`` between tokens, or a ``"map"``; of an image, its patches are shown by default.
        words: Show whole words: attention to a word is the sum over its tokens, from a word their mean.
        hide_special: Leave special tokens out of the picture. Other numbers stay what they are.
        rollout: Show attention rolled out over layers too, behind the heads of each layer.
        max_length: Read only so many tokens of the text, special tokens included.
        theme: Of a graphic: ``"light"`` by default, ``"dark"``, or ``"paper"``, with black ink for print.
            A page is as its reader's screen.
        width: About how wide a graphic is, in pixels, of which 96 make an inch; by default as its tokens
            need. Labels keep their size.
        tokenizer: The tokenizer of a loaded model.
        options: See ``ModelKeywords`` and ``WorkKeywords`` in ``attnprobe.api.keywords``.

    Returns:
        A picture that shows itself in a notebook, with ``save`` for .html, .svg, .png and .pdf, and
        ``attention`` for the numbers: (layer, head, query, key) by kind.

    Raises:
        AttnprobeError: With one sentence on what is wrong and what to do, such as for a text of more than
            256 tokens.

    References:
        Abnar and Zuidema (2020), Quantifying attention flow in transformers (rollout). Clark et al. (2019),
        What does BERT look at? (words).

    Examples:
        >>> seen = view("demo", "The parcel came late.", layer=3, head=2)
        >>> seen.attention["encoder"].shape
        (6, 4, 9, 9)
    """
    _check(layer, head, max_length, rollout=rollout)
    check_look(theme, width)
    documents = _documents(text, text_pair, target)
    media = isinstance(documents, MediaFolder)
    with called(options, model) as call:
        check_model(model, tokenizer, options)
        from attnprobe.survey.viewing.maps import read_sequence

        call.progress.stage("loading", None)
        checkpoint = checkpoint_of(model, tokenizer, call.load, documents.kind if media else "text")
        found = read_sequence(
            checkpoint,
            documents,
            max_length=max_length,
            target=target,
            rolled=rollout,
            progress=call.progress,
        )
    start = _start(found, attention, layer, head, draw, words=words, special=not hide_special, rolled=rollout)
    return View(found, start, layer is not None, theme, width)


def _check(layer: int | None, head: int | None, max_length: int | None, *, rollout: bool) -> None:
    for name, value in (("layer", layer), ("head", head)):
        if value is not None and value < 0:
            raise AttnprobeError(f"--{name} must be at least 0, not {value}.")
    if max_length is not None and max_length < 1:
        raise AttnprobeError(f"--max-length must be at least 1, not {max_length}.")
    if head is not None and layer is None:
        raise AttnprobeError("--head needs the --layer that it is in.")
    if layer is not None and head is None and not rollout:
        raise AttnprobeError("--layer needs a --head; or --rollout, which has one map for each layer.")


def _documents(text: str | Path, pair: str | None, target: str | None) -> list[Document] | MediaFolder:
    """Take a text, or the path of an image or of sound, which its name tells."""
    path = Path(text)
    named = path.suffix.lower() in EXTENSIONS and "\n" not in str(text)
    if named and _is_file(path):
        if pair is not None:
            raise AttnprobeError("A second text goes with a text, not with an image or sound; leave it out.")
        kind = EXTENSIONS[path.suffix.lower()]
        if kind == "image" and target is not None:
            raise AttnprobeError("An image has no --target; leave it out.")
        return MediaFolder(path, kind, (Item(path, target),))
    if isinstance(text, Path) or (named and len(str(text).split()) == 1):
        raise AttnprobeError(f"There is no image or sound {str(text)!r}.")
    if not text.strip() or (pair is not None and not pair.strip()):
        raise AttnprobeError("The text is blank; give one with words in it.")
    return [Document(text, pair, label=target)]


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # no path at all
        return False


def _start(
    found: "SequenceAttention",
    attention: str | None,
    layer: int | None,
    head: int | None,
    draw: str | None,
    *,
    words: bool,
    special: bool,
    rolled: bool,
) -> "Start":
    """Settle what is shown first, or refuse what is not there."""
    from attnprobe.reports.view.page import Start

    maps = found.of(attention)
    heads, place = maps.rows.shape[1], 0
    if layer is not None:
        if layer not in maps.layers:
            raise AttnprobeError(
                f"There is no layer {layer}; the layers of the {maps.kind.value} are {_range(maps.layers)}."
            )
        place = maps.layers.index(layer)
    if head is not None and head >= heads:
        raise AttnprobeError(f"There is no head {head}; a layer has heads 0 to {heads - 1}.")
    if head is not None and not maps.standing[place, head]:
        raise AttnprobeError(f"Head {head} of layer {layer} was removed from this checkpoint.")
    if layer is not None and head is None and maps.rolled is None:
        raise AttnprobeError("Cross-attention has no rollout; give a --head.")
    # Of a layer without a head, its rollout; of no layer, the first head that is there.
    first = heads if layer is not None else int(maps.standing[place].argmax())
    shown = first if head is None else head
    sides = (maps.queries, maps.keys)
    if words and any(side.words is None for side in sides):
        raise AttnprobeError(
            "Nobody tells which tokens make a word here: words need a text, and a tokenizer that says which "
            "characters a token covers; leave out --words."
        )
    if not special and any(side.special.all() for side in sides):
        raise AttnprobeError("Every token is a special one; leave out --hide-special.")
    if maps.keys.grid is not None:
        if draw == "lines":
            raise AttnprobeError(
                "Lines are for text; leave out --draw for the patches of an image, or give map."
            )
        return Start(maps.kind.value, place, shown, draw if draw == "map" else "patches", words, special)
    return Start(maps.kind.value, place, shown, draw or "lines", words, special)


def _range(layers: tuple[int, ...]) -> str:
    even: Any = tuple(range(layers[0], layers[0] + len(layers)))
    return f"{layers[0]} to {layers[-1]}" if layers == even else ", ".join(map(str, layers))
