"""Folders of sentence-transformers: where their transformer lies, and what of ``encode`` is passed over."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attnprobe.corpus.tokens.tokenization import Tokenizer
from attnprobe.model.loading.support import BadCheckpointError
from attnprobe.table.cleaning import clean
from attnprobe.table.naming import listed

#: What lists the modules of a model, one after the other.
_MODULES = "modules.json"
#: Modules that keep what the mean over tokens is, but for its length.
_HARMLESS = {"Transformer", "Pooling", "Normalize", "Dropout"}
#: Letters by which a tokenizer that ignores case is known.
_CASED = "The Parcel Came Late"


def check_place(folder: Path, name: str, *, weights: bool) -> None:
    """Refuse a folder whose transformer lies in a folder of its own, and say where.

    Args:
        folder: Of the checkpoint.
        name: What the user calls it.
        weights: Whether the folder itself holds weights.

    Raises:
        BadCheckpointError: Naming that folder.
    """
    place = next((one["path"] for one in _modules(folder)), "")
    if weights or not place:
        return
    if (folder / place / "config.json").is_file():
        raise BadCheckpointError(
            f"{name} is a folder of sentence-transformers, and its transformer lies in a folder of its own; "
            f"give {name.rstrip('/')}/{clean(place)}."
        )
    raise BadCheckpointError(
        f"{name} is of sentence-transformers, and its transformer lies in a folder of its own, "
        f"{clean(place)}; download all of {name}, and give that folder."
    )


def passed_over(folder: Path, tokenizer: Tokenizer, longest: int | None) -> tuple[str, ...]:
    """Say what ``encode`` of sentence-transformers does to texts, and attnprobe does not.

    Args:
        folder: Of the transformer.
        tokenizer: Its tokenizer.
        longest: Most tokens that it takes, as attnprobe reads it.

    Returns:
        One sentence without its full stop, or none where texts are read alike.
    """
    root = _root(folder)
    if root is None:
        return ()
    model, own = _read(root / "config_sentence_transformers.json"), _settings(folder)
    done, advice = [], []
    prompts = model.get("prompts")
    prompts = prompts if isinstance(prompts, dict) else {}
    usual = prompts.get(str(model.get("default_prompt_name")))
    if isinstance(usual, str) and usual:
        done.append(f"puts the prompt {_quoted(usual)} before each text")
        advice.append("write it into the texts")
    elif named := [key for key, prompt in prompts.items() if isinstance(prompt, str) and prompt]:
        done.append(f"knows prompts ({', '.join(clean(str(key)) for key in named)}) to put before texts")
        advice.append("write the one you use into the texts")
    limit = own.get("max_seq_length")
    if type(limit) is int and limit > 0 and (longest is None or limit < longest):
        done.append(f"cuts texts after {limit} tokens")
        advice.append(f"pass --max-length {limit} --truncate")
    spell: Any = tokenizer
    if own.get("do_lower_case") is True and spell.tokenize(_CASED) != spell.tokenize(_CASED.lower()):
        done.append("writes texts in lower case")
        advice.append("write them so")
    if not done:
        return ()
    return (
        f"with encode(), sentence-transformers {listed(done)}, and attnprobe does not; to read what it "
        f"reads, {listed(advice)}",
    )


def pooled_otherwise(folder: Path | None) -> str | None:
    """Say how sentence-transformers makes one vector of a text, where it is not the mean over all tokens."""
    root = None if folder is None else _root(folder)
    if root is None:
        return None
    done = []
    for module in _modules(root):
        kind, place = module["type"].rpartition(".")[2], root / module["path"]
        if kind == "Pooling":
            config = _read(place / "config.json")
            modes = [*_modes(config)] if config else [f"as {clean(module['path'])} says"]
            if modes != ["mean"]:
                done.append(f"pools by {listed(modes)}" if config else f"pools {modes[0]}")
        elif kind not in _HARMLESS:
            done.append(f"applies {clean(kind)}")
    if not done:
        return None
    return (
        f"sentence-transformers {listed(done)}; the representation measured here is the mean of the last "
        "states over all tokens."
    )


def _root(folder: Path) -> Path | None:
    """Find the folder that lists the modules: that of the transformer, or the one around it."""
    if _modules(folder):
        return folder
    around = folder.resolve().parent
    return around if any(one["path"] == folder.resolve().name for one in _modules(around)) else None


def _modules(folder: Path) -> list[dict[str, str]]:
    """List the modules: the folder and the class of each."""
    listed = _json(folder / _MODULES)
    found = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    return [
        {"path": one["path"], "type": one["type"]}
        for one in found
        if isinstance(one.get("path"), str) and isinstance(one.get("type"), str)
    ]


def _settings(folder: Path) -> dict[str, Any]:
    """Read the settings of the transformer, whose file is named after its kind in old folders."""
    paths = [folder / "sentence_bert_config.json", *sorted(folder.glob("sentence_*_config.json"))]
    return next((found for path in paths if (found := _read(path))), {})


def _modes(config: dict[str, Any]) -> Iterator[str]:
    """Name the kinds of pooling: a list of names, or a switch for each in old folders."""
    stated = config.get("pooling_mode")
    if stated is not None:
        yield from (clean(str(one)) for one in (stated if isinstance(stated, list) else [stated]))
        return
    for name, on in config.items():
        if name.startswith("pooling_mode_") and on is True:
            yield clean(name.removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token"))


def _read(path: Path) -> dict[str, Any]:
    found = _json(path)
    return found if isinstance(found, dict) else {}


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def _quoted(prompt: str, most: int = 60) -> str:
    shown = clean(prompt)
    return f"'{shown}'" if len(shown) <= most else f"'{shown[:most]}...'"
