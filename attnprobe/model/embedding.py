"""Embedding models of sentence-transformers: how they read texts, and the vectors that their modules make.

Torch is imported late, so that an unknown prompt is refused at once.
"""

import copy
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.util import find_spec
from typing import Any

from attnprobe.errors import UsageError, first_line
from attnprobe.model.folders import CONFIG, SentenceFolder, is_inside, read_object
from attnprobe.table.cells import clean
from attnprobe.table.naming import join_names

#: The package of modules, and its classes that need only the states of a text. Others, such as Router and
#: Asym, import the classes that their files name.
_HOME, _KINDS = "sentence_transformers.", {"Pooling", "Dense", "Normalize", "LayerNorm", "Dropout"}
#: Entries whose product is the number of a module's weights, and the package of activations.
_SIZES, _ACTIVATIONS = ("in_features", "out_features", "dimension"), "torch.nn.modules."
#: Settings of the transformer that change its input or output, and their usual values.
_USUAL_SETTINGS = {
    "transformer_task": "feature-extraction",
    "modality_config": {"method": "forward", "method_output_name": "last_hidden_state"},
    "processing_kwargs": {},
}
#: Attributes of a SentenceTransformer, and of its transformer, that say how texts are read.
_DESCRIBED = ("prompts", "default_prompt_name", "truncate_dim")
_SETTINGS = ("max_seq_length", "do_lower_case", *_USUAL_SETTINGS)
#: Tokenizers without a limit report an absurdly large number.
NO_LIMIT = 1_000_000
#: The name for no prompt at all, and the names of prompts before queries and passages.
_NO_PROMPT = "none"
_ROLES = {"query": ("query",), "document": ("document", "passage", "corpus")}


def choose_prompts(
    described: Mapping[str, Any], name: str | None, model: str
) -> tuple[str | None, dict[str, str]]:
    """Choose the prompt of a ``name``, or refuse; without one that of ``encode``. "none" is no prompt at all.

    Returns its name, and the prompts by role: "" for plain texts, "query" and "document".
    """
    listed = described.get("prompts")
    listed = listed.items() if isinstance(listed, Mapping) else ()
    texts = {str(key): text for key, text in listed if isinstance(text, str)}
    if name == _NO_PROMPT and name not in texts:
        return None, dict.fromkeys(("", *_ROLES), "")
    if name is not None and name not in texts:
        known = join_names([clean(text) for text in (*texts, _NO_PROMPT)])
        raise UsageError(f"--prompt {clean(name)}: {model} has no such prompt; it knows {known}.")
    usual = described.get("default_prompt_name")
    chosen = name or (usual if isinstance(usual, str) and usual in texts else None)
    roles = {role: next(filter(None, map(texts.get, names)), "") for role, names in _ROLES.items()}
    roles |= {} if name is None else {"query": texts[name]}
    return chosen, {"": texts.get(chosen or "", ""), **roles}


@dataclass(frozen=True)
class Embedding:
    """An embedding model: reads texts and makes vectors of them as ``encode`` does."""

    source: Any = field(repr=False)  # the folder of its modules, or loaded modules
    kinds: tuple[str, ...]  # the classes of its modules after the transformer
    settings: Mapping[str, Any]  # of the transformer
    described: Mapping[str, Any]  # of the whole model
    unread: str  # why vectors can't be made, as a clause; "" where they can
    tokenizer: Any
    prompt_name: str | None
    prompts: Mapping[str, str]  # by role

    @property
    def limit(self) -> int | None:
        """The most tokens of a text that are read; None where only the model sets a limit."""
        limit = self.settings.get("max_seq_length")
        return limit if type(limit) is int and 0 < limit < NO_LIMIT else None

    @cached_property
    def modules(self) -> list[Any]:
        """The modules after the transformer, loaded when they are first needed."""
        import torch

        if self.unread:
            raise _make_error(self.unread)
        if not isinstance(self.source, SentenceFolder):  # copied, as its owner may train it
            return [copy.deepcopy(module).eval().requires_grad_(False) for module in self.source]
        if find_spec("sentence_transformers") is None:
            raise _make_error('its modules need sentence-transformers: pip install "attnprobe[embeddings]"')
        try:
            with torch.inference_mode(False), warnings.catch_warnings(action="ignore"):
                from sentence_transformers.sentence_transformer import modules

                loaded = [
                    getattr(modules, kind).load(str(self.source.root), subfolder=path, local_files_only=True)
                    for kind, (_, path) in zip(self.kinds, self.source.modules[1:], strict=True)
                ]
        except Exception as error:
            raise _make_error(f"its modules can't be read ({first_line(error)})") from error
        if not all(bool(torch.isfinite(weight).all()) for module in loaded for weight in module.parameters()):
            raise _make_error("its modules hold NaN or infinite numbers")
        return [module.eval().requires_grad_(False) for module in loaded]

    def __call__(self, states: Any, roles: Sequence[str] = ()) -> Any:
        """Make the vectors (batch, width) of texts from their last states (batch, position, width).

        ``roles`` of texts choose their prompts; without any, all have the usual one.

        Raises:
            UsageError: When a module can't be read.
        """
        import torch

        if len(set(roles)) > 1:
            return torch.cat([self(text[None], [role]) for text, role in zip(states, roles, strict=True)])
        prompt = self.prompts[roles[0] if roles else ""]
        ids = list(self.tokenizer(prompt)["input_ids"]) if prompt else []
        length = len(ids) - (bool(ids) and ids[-1] in self.tokenizer.all_special_ids)
        features = {"token_embeddings": states, "prompt_length": length}
        try:
            for module in self.modules:
                features = module.to(states)(features)
            return features["sentence_embedding"][:, : self.described.get("truncate_dim")]
        except (RuntimeError, KeyError, TypeError) as error:
            raise _make_error(f"its modules do not fit each other ({first_line(error)})") from error

    @property
    def record(self) -> dict[str, Any]:
        """How texts are read, and the modules, for the record."""
        return {
            "prompt": self.prompts[""],
            "prompt_name": self.prompt_name,
            "max_seq_length": self.limit,
            "do_lower_case": self.settings.get("do_lower_case") is True,
            **({"unread": self.unread} if self.unread else {"modules": list(self.kinds)}),
        }


def attach_embedding(checkpoint: Any, source: Any, prompt: str | None) -> Any:
    """Copy a checkpoint so that it reads texts as the embedding model around its transformer does.

    ``source`` is a SentenceFolder or a loaded SentenceTransformer. Texts stand behind the ``prompt`` of that
    name, or the usual one.
    """
    from attnprobe.model.quirks import EMBEDDING_ENCODERS

    tokenizer, unread, config = checkpoint.tokenizer, "", checkpoint.model.config
    if isinstance(source, SentenceFolder):
        kinds = tuple(kind.removeprefix(_HOME).rpartition(".")[2] for kind, _ in source.modules[1:])
        settings, described, unread = source.settings, source.described, _find_unsafe(source)
        if settings.get("do_lower_case") is True:
            tokenizer = _lower_case(tokenizer)
    else:
        whole, (first, *source) = source, source.children()
        described = {key: getattr(whole, key, None) for key in _DESCRIBED}
        kinds = tuple(type(module).__qualname__ for module in source)
        settings = {key: getattr(first, key, None) for key in _SETTINGS}
    encodes = bool(config.is_encoder_decoder) and config.model_type in EMBEDDING_ENCODERS
    if not unread:
        unread = _find_unread(kinds, settings)
    if not unread and config.is_encoder_decoder and not encodes:
        unread = "it pools what a decoder beside an encoder gives"
    chosen = choose_prompts(described, prompt, checkpoint.name)
    embedding = Embedding(source, kinds, settings, described, unread, tokenizer, *chosen)
    remark = f"the attention of its transformer is read, but its embeddings are not: {unread}"
    return replace(
        checkpoint,
        tokenizer=tokenizer,
        origin=checkpoint.origin | {"embedding": embedding.record},
        encoder_only=encodes,
        embedding=embedding,
        remarks=(*checkpoint.remarks, remark) if unread else checkpoint.remarks,
    )


def _lower_case(tokenizer: Any) -> Any:
    """Copy a tokenizer so that it takes texts in lower case."""
    from tokenizers import normalizers

    tokenizer = copy.deepcopy(tokenizer)
    backend = tokenizer.backend_tokenizer
    steps = [normalizers.Lowercase(), *filter(None, [backend.normalizer])]
    backend.normalizer = normalizers.Sequence(steps)
    return tokenizer


def _find_unread(kinds: Sequence[str], settings: Mapping[str, Any]) -> str:
    """Find why embeddings can't be made of a model's states; "" where they can."""
    if others := [kind for kind in kinds if kind not in _KINDS]:
        return f"attnprobe does not read its module {clean(others[0])}"
    if "Pooling" not in kinds:
        return "it has no Pooling"
    for name, usual in _USUAL_SETTINGS.items():
        value = settings.get(name)
        if name == "modality_config" and isinstance(value, Mapping):
            value = "that of a chat" if "message" in value else value.get("text")
        if value not in (None, usual):
            return f"its transformer has another {name}"
    return ""


def _find_unsafe(folder: SentenceFolder) -> str:
    """Find why sentence-transformers must not load the modules of a folder; "" where it may."""
    for kind, path in folder.modules[1:]:
        place = folder.root / path
        if not kind.startswith(_HOME):
            return f"attnprobe does not read its module {clean(kind)}, which is code of its own"
        if not all(is_inside(folder.root, file.relative_to(folder.root)) for file in place.glob("*")):
            return f"its {clean(path)} has a link that leads out of the folder"
        weights, described = place / "model.safetensors", read_object(place / CONFIG)
        if (place / "pytorch_model.bin").is_file() and not weights.is_file():
            return f"its {clean(path)} holds only pickled weights, which can run code when they are loaded"
        activation = str(described.get("activation_function", _ACTIVATIONS))
        if not activation.startswith(_ACTIVATIONS):  # encode() would take Tanh in its place
            return f"attnprobe does not know the activation {clean(activation)[:80]}"
        sizes = [described[key] for key in _SIZES if type(described.get(key)) is int]
        if sizes and math.prod(sizes) > (weights.stat().st_size if weights.is_file() else 0):
            return f"its {clean(path)} describes more weights than its file holds"
    return ""


def _make_error(reason: str) -> UsageError:
    return UsageError(
        f"The embeddings of this model can't be made: {reason}. What needs none, such as census, works."
    )
