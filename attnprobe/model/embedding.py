"""What sentence-transformers makes of texts: embeddings of each, and scores of two (cross-encoders)."""

import contextlib
import copy
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor, nn

from attnprobe.corpus.tokens import count_prompt_tokens
from attnprobe.errors import UsageError
from attnprobe.model.folders import DESCRIPTION, Prompts, SentenceFolder, find_kind, quote, read_object
from attnprobe.model.pooling import (
    Config,
    FirstNumbers,
    Pooling,
    Step,
    UnreadError,
    read_module_weights,
    read_modules,
)
from attnprobe.table.cells import clean
from attnprobe.table.naming import join_names

#: How the transformer is run, where nothing is said.
_TASK, _OUTPUT = "feature-extraction", {"method": "forward", "method_output_name": "last_hidden_state"}
#: What tokenizers without a limit state is more.
_NO_LIMIT = 1_000_000
#: Settings of the transformer that change what it reads, beside those that are followed.
_UNREAD_SETTINGS = ("processing_kwargs", "query_expansion", "query_length", "document_length")
#: Of whose types sentence-transformers runs the encoder alone.
_ENCODERS = {"t5", "mt5", "umt5", "longt5"}


@dataclass(frozen=True)
class Embedding:
    """How an embedding model reads a text and makes a vector of it, as ``SentenceTransformer.encode`` does.

    Attributes:
        folder: Where its modules lie, or None for a model that was handed over.
        pooling: How the states of a text become one.
        steps: What is applied after that.
        limit: Most tokens that are read of a text; None where only the model limits it.
        lower: Whether texts are written in lower case.
        prompts: The prompts that the model knows.
        prompt_name: Which of them is put before texts, or None.
        prompt: Its text, "" for none.
        prompt_tokens: How many tokens it has, with what stands before it.
        role_prompts: The prompts of queries and of what they look for, by role.
        role_tokens: How many tokens these have, in the same way.
        unread: Why the vector can't be made, a clause; "" where it can.
    """

    folder: SentenceFolder | None = None
    pooling: Pooling = field(default_factory=Pooling)
    steps: tuple[Step, ...] = ()
    limit: int | None = None
    lower: bool = False
    prompts: Prompts = field(default_factory=Prompts)
    prompt_name: str | None = None
    prompt: str = ""
    prompt_tokens: int = 0
    role_prompts: Mapping[str, str] = field(default_factory=dict)
    role_tokens: Mapping[str, int] = field(default_factory=dict)
    unread: str = ""

    @classmethod
    def read(cls, folder: SentenceFolder, name: str, prompt: str | None, *, allow_bin: bool) -> "Embedding":
        """Read how a model embeds texts; ``prompt`` is the name of one, or None for its usual one."""
        described = [
            (module.kind, read_object(folder.root / module.path / DESCRIPTION) if module.path else {})
            for module in folder.modules[1:]
        ]

        def read_weights(number: int) -> dict[str, Tensor]:
            place = folder.modules[number + 1].path
            return read_module_weights(folder.root / place, place, allow_bin=allow_bin)

        found = cls._build(folder.settings, folder.described, described, read_weights)
        return replace(found.choose(prompt, name), folder=folder)

    @classmethod
    def of(cls, modules: list[nn.Module], described: Config, prompt: str | None, name: str) -> "Embedding":
        """Take over how a loaded SentenceTransformer embeds texts; its modules, the transformer first."""
        named = (f"{type(one).__module__}.{type(one).__qualname__}" for one in modules)
        listed = [(find_kind(kind), _describe(one)) for kind, one in zip(named, modules, strict=True)]
        settings = {key: value for key, value in listed[0][1].items() if key != "max_seq_length"}
        limit = getattr(modules[0], "max_seq_length", None)

        def read_weights(number: int) -> dict[str, Tensor]:
            return {key: weight.detach() for key, weight in modules[number + 1].state_dict().items()}

        found = cls._build(settings | {"max_seq_length": limit}, described, listed[1:], read_weights)
        return found.choose(prompt, name)

    @classmethod
    def _build(
        cls,
        settings: Config,
        described: Config,
        modules: Sequence[tuple[str, Config]],
        read_weights: Callable[[int], dict[str, Tensor]],
    ) -> "Embedding":
        limit = settings.get("max_seq_length")
        found = cls(
            limit=limit if type(limit) is int and 0 < limit < _NO_LIMIT else None,
            lower=settings.get("do_lower_case") is True,
            prompts=Prompts.parse(described),
        )
        try:
            _check_settings(settings)
            pooling, steps = read_modules(modules, read_weights)
            width = described.get("truncate_dim")
            cut = (FirstNumbers(width),) if type(width) is int and width > 0 else ()
            return replace(found, pooling=pooling, steps=(*steps, *cut))
        except UnreadError as error:
            return replace(found, unread=str(error))

    def choose(self, prompt: str | None, name: str) -> "Embedding":
        """Put another prompt before texts, by its name; None for the usual one. ``fit`` counts its tokens."""
        chosen, text = self.prompts.choose(prompt, name)
        by_role = self.prompts.choose_by_role(prompt)
        return replace(self, prompt_name=chosen, prompt=text, role_prompts=by_role)

    def fit(self, tokenizer: Any, config: Any) -> tuple["Embedding", Any]:
        """Fit it to a transformer and its tokenizer.

        Vectors of states of a decoder beside an encoder are not made.

        Returns:
            It, with the tokens of its prompt counted; and the tokenizer as it reads texts.
        """
        tokenizer = self._lower_case(tokenizer)
        by_role = {role: count_prompt_tokens(tokenizer, text) for role, text in self.role_prompts.items()}
        tokens = count_prompt_tokens(tokenizer, self.prompt)
        found = replace(self, prompt_tokens=tokens, role_tokens=by_role)
        if config.is_encoder_decoder and not self.reads_encoder(config) and not self.unread:
            found = replace(found, unread="it pools what a decoder beside an encoder gives")
        if self.lower and getattr(tokenizer, "backend_tokenizer", None) is None and not found.unread:
            found = replace(
                found, unread="its tokenizer does not write texts in lower case, as encode() does"
            )
        return found, tokenizer

    @staticmethod
    def reads_encoder(config: Any) -> bool:
        """Tell whether vectors are made of what an encoder gives, without the decoder beside it."""
        return bool(config.is_encoder_decoder) and config.model_type in _ENCODERS

    def __call__(self, states: Tensor, role: str = "") -> Tensor:
        """Make the vectors of texts of their last states: (batch, position, width) to (batch, width).

        ``role`` says whether they are queries or what queries look for, whose prompts differ.

        Raises:
            AttnprobeError: When a module can't be read.
        """
        if self.unread:
            raise UsageError(
                f"The embeddings of this model can't be made: {self.unread}. What needs none, such as "
                "census, works."
            )
        found = self.pooling(states, self.role_tokens[role] if role else self.prompt_tokens)
        for step in self.steps:
            found = step(found)
        return found

    @property
    def record(self) -> dict[str, Any]:
        """What is on record of how texts are read, and of what is made of them."""
        made = {"unread": self.unread} if self.unread else {"modules": self.stages}
        read = {"prompt": self.prompt, "prompt_name": self.prompt_name, "max_seq_length": self.limit}
        return {**read, "do_lower_case": self.lower, **made}

    @property
    def stages(self) -> list[str]:
        """What is done to the states of a text, one after the other."""
        left_out = "" if self.pooling.include_prompt else ", without the tokens of a prompt"
        return [f"pooled by {join_names(list(self.pooling.modes))}{left_out}", *map(str, self.steps)]

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is not read of it, a sentence without its full stop; nothing where all of it is."""
        said = f"the attention of its transformer is read, but its embeddings are not: {self.unread}"
        return (said,) if self.unread else ()

    def describe(self) -> Iterator[tuple[str, str]]:
        """Say what was found: the thing, and how it is."""
        if not self.unread:
            yield "embedding", ", ".join(self.stages)
        known = [f"{clean(name)} ({quote(text)})" for name, text in self.prompts.texts.items() if text]
        used = f"{clean(self.prompt_name)} stands before each text" if self.prompt_name else "none is put"
        if known:
            yield "prompts", f"{join_names(known)}; {used}"
        if self.lower:
            yield "letter case", "texts are written in lower case"

    def _lower_case(self, tokenizer: Any) -> Any:
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if not self.lower or backend is None:
            return tokenizer
        from tokenizers import normalizers

        before = json.loads(backend.to_str()).get("normalizer") or {}
        listed = before.get("normalizers", [before])
        if any(one.get("type") == "Lowercase" for one in listed):
            return tokenizer
        found = copy.deepcopy(tokenizer)
        steps = [normalizers.Lowercase(), *filter(None, [found.backend_tokenizer.normalizer])]
        found.backend_tokenizer.normalizer = normalizers.Sequence(steps)
        return found


@dataclass(frozen=True)
class SentenceParts:
    """A loaded SentenceTransformer, or a CrossEncoder, which scores ``pairs`` of texts.

    It has its modules, the transformer first, and what describes the whole.
    """

    model: Any
    tokenizer: Any
    modules: list[nn.Module]
    described: Config
    pairs: bool = False


def unwrap_sentence_transformer(model: nn.Module) -> SentenceParts | None:
    """Take a loaded SentenceTransformer apart; None for any other model.

    Raises:
        AttnprobeError: When its first module is no transformer.
    """
    own = sys.modules.get("sentence_transformers")
    if own is None or not isinstance(model, own.SentenceTransformer | own.CrossEncoder):
        return None
    modules = list(model.children())
    inner = getattr(modules[0], "auto_model", None) if modules else None
    if inner is None:
        raise UsageError(
            f"The first module of the loaded {type(model).__name__} is no transformer, and has no attention; "
            "give another model."
        )
    names = ("prompts", "default_prompt_name", "truncate_dim")
    described = {name: getattr(model, name, None) for name in names}
    tokenizer = getattr(modules[0], "tokenizer", None)
    return SentenceParts(inner, tokenizer, modules, described, isinstance(model, own.CrossEncoder))


def _describe(module: Any) -> Config:
    """Ask a loaded module for what its folder would say; nothing where it can't."""
    with contextlib.suppress(Exception):  # code of whoever wrote it
        found = module.get_config_dict()
        return json.loads(json.dumps(found, default=str)) if isinstance(found, Mapping) else {}
    return {}


def _check_settings(settings: Config) -> None:
    task, shown = settings.get("transformer_task"), settings.get("modality_config")
    if task not in (None, _TASK):
        raise UnreadError(f"its transformer is run for {clean(str(task))}")
    if isinstance(shown, Mapping):
        if "message" in shown:
            raise UnreadError("texts go through a chat template first")
        if shown.get("text", _OUTPUT) != _OUTPUT:
            raise UnreadError("its embedding is not made of its last states")
    for name in _UNREAD_SETTINGS:
        if settings.get(name):
            raise UnreadError(f"its transformer has the setting {name}")


@dataclass(frozen=True)
class PairScoring:
    """A cross-encoder of sentence-transformers, a classifier of two texts; with its folder, if it has one."""

    folder: SentenceFolder | None = None

    @classmethod
    def read(cls, folder: SentenceFolder | None) -> "PairScoring | None":
        """Read it off a folder; None where that holds no cross-encoder."""
        return cls(folder) if folder is not None and folder.scores_pairs else None
