"""Checkpoints by name: what their files say before weights are loaded."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from attnprobe.errors import UsageError
from attnprobe.model.folders import (
    DEMO,
    SentenceFolder,
    check_config,
    find_weights,
    hash_file,
    list_descriptions,
)
from attnprobe.model.location import (
    LoadOptions,
    choose_base_options,
    find_adapter,
    list_tokenizer_files,
    locate,
)

#: What must be alike in the configurations of one training run, and what a person calls it.
_SHAPE = {
    "num_hidden_layers": "layers",
    "num_attention_heads": "heads a layer",
    "hidden_size": "numbers a token",
}


@dataclass(frozen=True)
class CheckpointFiles:
    """What is known of a checkpoint from its files, before its weights are loaded.

    ``commit`` is that on the hub, empty for a folder; ``base`` is what an adapter was trained on;
    ``sentences`` is the folder of sentence-transformers that ``folder`` is the transformer of.
    """

    name: str
    options: LoadOptions
    folder: Path
    commit: str = ""
    base: "CheckpointFiles | None" = None
    sentences: SentenceFolder | None = None

    @classmethod
    def read(cls, name: str, options: LoadOptions) -> "CheckpointFiles":
        """Find a checkpoint and, if it is on the hub, download its descriptions."""
        place = locate(name, options, weights=False)
        folder, origin = place.folder, place.origin
        if name == DEMO:
            return cls(name, options, folder)
        adapter = find_adapter(folder, name, options.base, hub="hub" in origin)
        if not origin.get("commit"):
            find_weights(folder, name, allow_bin=options.allow_bin)
        elif adapter is None:
            check_config(folder, name)
        base = None
        if adapter is not None:
            base = cls.read(adapter.base, choose_base_options(adapter, options))
        return cls(name, options, folder, origin.get("commit", ""), base, place.sentences)

    @property
    def full_name(self) -> str:
        """Its name in sentences, with its revision."""
        return f"{self.name} at {self.options.revision}" if self.options.revision else self.name

    @property
    def root(self) -> Path:
        """The folder that was named or fetched."""
        return self.folder if self.sentences is None else self.sentences.root

    @cached_property
    def identity(self) -> str:
        """What tells it from any other: the commit on the hub, or the SHA-256 of its files."""
        if self.commit:
            return f"{self.name} {self.commit}{f' on {self.base.identity}' if self.base else ''}"
        weights = find_weights(self.folder, self.name, allow_bin=self.options.allow_bin)
        paths = {path.name: path for path in (*weights, *list_descriptions(self.folder))} | self.modules
        listed = "".join(f"{name} {hash_file(path)}\n" for name, path in paths.items())
        return hashlib.sha256(f"{listed}{self.base.identity if self.base else ''}".encode()).hexdigest()

    @property
    def modules(self) -> dict[str, Path]:
        """What beside its transformer decides what an embedding is, by its path in the folder."""
        return {} if self.sentences is None else self.sentences.list_files()

    @cached_property
    def config(self) -> Any:
        """Its configuration; of an adapter, that of its base."""
        if self.base is not None:
            return self.base.config
        import transformers

        from attnprobe.model.configuration import read_config

        transformers.logging.set_verbosity_error()
        return read_config(self.folder, self.full_name, trust_remote_code=self.options.trust_remote_code)

    @property
    def label(self) -> str:
        return self.name if self.commit or self.name == DEMO else self.root.resolve().name

    def shares_tokenizer(self, other: "CheckpointFiles") -> bool:
        return self.tokenizer_hashes == other.tokenizer_hashes or self.vocabulary == other.vocabulary

    @cached_property
    def tokenizer_hashes(self) -> dict[str, str]:
        own = {path.name: hash_file(path) for path in list_tokenizer_files(self.folder) if path.is_file()}
        return self.base.tokenizer_hashes if self.base is not None and not own else own

    @cached_property
    def vocabulary(self) -> dict[str, int]:
        if self.base is not None and not list_tokenizer_files(self.folder):
            return self.base.vocabulary
        from attnprobe.model.load import load_tokenizers

        shared = {"trust_remote_code": self.options.trust_remote_code, "local_files_only": True}
        tokenizer: Any = load_tokenizers(self.folder, self.full_name, self.config.model_type, **shared)[0]
        return tokenizer.get_vocab()


def check_one_run(checkpoints: Sequence[CheckpointFiles]) -> None:
    """Refuse checkpoints that can't be of one training run: other shapes, other tokenizers."""
    first, *others = checkpoints
    for one in others:
        if one.config.model_type != first.config.model_type:
            raise UsageError(
                f"{first.full_name} is of type {first.config.model_type} and {one.full_name} of type "
                f"{one.config.model_type}; give checkpoints of one training run."
            )
        ours, theirs = (each.config.get_text_config() for each in (first, one))
        for name, words in _SHAPE.items():
            mine, other = getattr(ours, name, None), getattr(theirs, name, None)
            if mine != other:
                raise UsageError(
                    f"{first.full_name} has {mine} {words} and {one.full_name} {other}; give checkpoints of "
                    "one training run."
                )
        if not one.shares_tokenizer(first):
            raise UsageError(
                f"{first.full_name} and {one.full_name} have different tokenizers, which read the texts "
                "differently; give checkpoints with one tokenizer."
            )


def find_checkpoints(run: Iterable[tuple[str, str | None]], options: LoadOptions) -> list[CheckpointFiles]:
    """Read the files of checkpoints, each a name and a revision, or None for that of the options."""
    return [
        CheckpointFiles.read(name, options if revision is None else replace(options, revision=revision))
        for name, revision in run
    ]
