"""Keywords that several functions share, declared once; an editor and ``help`` see each of them.

A function takes them as ``**options: Unpack[Group]``. ``spelled_out`` puts every one of them into the
signature, with its default, and refuses others.
"""

import difflib
import inspect
from collections.abc import Callable, Collection, Sequence
from functools import wraps
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, ParamSpec, TypedDict, TypeVar, Union, get_args, get_origin, get_type_hints

from attnprobe.api.guesses import answer
from attnprobe.errors import AttnprobeError
from attnprobe.run.progress import Progress
from attnprobe.spelling import speaks_python

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class ModelKeywords(TypedDict, total=False):
    """Which checkpoint, and how it is loaded; they have no say over a loaded model.

    Attributes:
        revision: Branch, tag or commit on the hub.
        cache_dir: Folder of the hub's cache.
        token: Access token for gated or private checkpoints.
        offline: Use local files only; no network at all.
        trust_remote_code: Run Python code that the checkpoint brings along.
        allow_bin: Read pickled weights (``.bin``), which can run code.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:0"``, ``"mps"``.
        device_map: ``"auto"``, ``"balanced"``, ...: spread a model too large for one device.
        dtype: ``"float32"``, ``"bfloat16"``, ``"float16"``, ``"float64"``. In half precision keys tie, and
            the first of a tie counts as the most attended: ``bfloat16`` moves ``offset`` by a token in some
            heads (3 of 72 of a MiniLM), and the error of its share by up to a third.
        threads: Processor threads; all by default.
    """

    revision: str | None
    cache_dir: Path | str | None
    token: str | None
    offline: bool
    trust_remote_code: bool
    allow_bin: bool
    device: str
    device_map: str | dict[str, Any] | None
    dtype: str
    threads: int | None


class BatchKeywords(TypedDict, total=False):
    """How sequences are put together; no result depends on it.

    Attributes:
        batch_tokens: Tokens in a batch; changes speed and memory, not results.
        memory: Memory above the model's own forward pass, with its unit: ``"256MiB"``, ``"2GB"``.
    """

    batch_tokens: int | None
    memory: str | None


class TextKeywords(BatchKeywords, total=False):
    """Which text, and how it becomes sequences.

    Attributes:
        split: Split of a hub dataset.
        dataset_config: Configuration of a hub dataset.
        text_column: Column that holds the text, of a file, a DataFrame, a dict or a dataset.
        text_pair_column: Column that holds the second text of a pair.
        document_column: Column that names documents: rows with one value are parts of one document, over
            which standard errors are taken.
        max_length: Tokens in a window; longer documents are cut into windows.
        truncate: Keep only the first window of a document.
        limit: Read so many documents, the first ones.
        sample: Draw so many documents at random, of those that ``limit`` leaves. Sentences that follow one
            another in one document of a treebank are drawn together.
        seed: Of all that is drawn: the sample, masks, random directions and orders, shuffled tokens,
            randomisation tests.
        name: What the ``dataset`` column says.
    """

    split: str | None
    dataset_config: str | None
    text_column: str | None
    text_pair_column: str | None
    document_column: str | None
    max_length: int | None
    truncate: bool
    limit: int | None
    sample: int | None
    seed: int
    name: str | None


class FrequencyKeywords(TypedDict, total=False):
    """What is rare.

    Attributes:
        frequencies: A file of token frequencies that decide what is rare.
    """

    frequencies: Path | str | None


class TokenKeywords(FrequencyKeywords, total=False):
    """How tokens are told apart.

    Attributes:
        content_only: Drop special tokens as queries and keys, and renormalise the rows.
    """

    content_only: bool


class WorkKeywords(TypedDict, total=False):
    """How the work goes.

    Attributes:
        workers: Batches in flight; by default as many as there are threads, up to 8.
        progress: ``True`` for a bar on standard error, or an object that is told how far it is.
    """

    workers: int | None
    progress: bool | Progress


class RunKeywords(WorkKeywords, total=False):
    """How a run goes.

    Attributes:
        resume: Keep the state of the run in this file, and go on from it.
    """

    resume: Path | str | None


class TaskKeywords(TypedDict, total=False):
    """What the model is asked to do while its heads are switched.

    Attributes:
        objective: By default chosen from the trained head and the labels.
        label_column: Column that holds the class, the number or the target text; a list of labels (names,
            numbers, a row of 0 and 1, or one string parted by ``|`` or ``,``); a label for each word; or
            answers as SQuAD has them. Of CoNLL-U, ``upos``, ``xpos`` or ``deprel``. ``target_column`` is
            another name.
        force_head: Make up a head that the checkpoint was not trained with; its numbers mean little.
    """

    objective: (
        Literal[
            "classification",
            "multi-label",
            "regression",
            "token-classification",
            "question-answering",
            "seq2seq",
            "masked-lm",
            "causal-lm",
            "representation",
        ]
        | None
    )
    label_column: str | None
    force_head: bool


class MetricKeywords(TypedDict, total=False):
    """What an answer is scored by.

    Attributes:
        metric: As far as the objective has it; by default its first.
    """

    metric: (
        Literal[
            "accuracy",
            "mcc",
            "f1",
            "f1_micro",
            "f1_macro",
            "exact_match",
            "pearson",
            "spearman",
            "mse",
            "loss",
            "similarity",
            "bleu",
        ]
        | None
    )


class LabelKeywords(TypedDict, total=False):
    """What is said of a text: what a decoder beside an encoder reads.

    Attributes:
        label_column: Column of the target texts; by default the decoder reads the text itself.
            ``target_column`` is another name for it.
    """

    label_column: str | None


class LayerKeywords(TypedDict, total=False):
    """Which rows the table has.

    Attributes:
        layers: Only rows of these, counted from 0: ``"0,3-5"``, or numbers. All layers are measured.
    """

    layers: str | int | Sequence[int] | None


class WeightKeywords(TypedDict, total=False):
    """What rows of attention hold.

    Attributes:
        weights: ``"attention"``; ``"norm"`` weights each key by the length of what it gives to the residual
            stream, ||W_O,h v_j|| (Kobayashi et al. 2020), divides each row by its sum, and gives columns that
            end in ``_norm``; ``"both"`` gives both side by side.
    """

    weights: Literal["attention", "norm", "both"]


class SurveyKeywords(
    ModelKeywords,
    TextKeywords,
    TokenKeywords,
    LabelKeywords,
    LayerKeywords,
    RunKeywords,
    total=False,
):
    """All that a survey of attention takes."""


class WeightedKeywords(SurveyKeywords, WeightKeywords, total=False):
    """All that the census and its families take."""


class RoleKeywords(ModelKeywords, TextKeywords, FrequencyKeywords, LayerKeywords, RunKeywords, total=False):
    """All that asking for roles takes."""


class LinkKeywords(ModelKeywords, TextKeywords, LayerKeywords, RunKeywords, total=False):
    """All that asking for gold links takes."""


class DrawnKeywords(ModelKeywords, BatchKeywords, LayerKeywords, RunKeywords, total=False):
    """All that a survey of sequences takes that are drawn, not read."""


class InterventionKeywords(ModelKeywords, TextKeywords, TaskKeywords, RunKeywords, total=False):
    """All that switching heads takes."""


class ScoredKeywords(InterventionKeywords, MetricKeywords, total=False):
    """The same, where answers are scored."""


class FollowedKeywords(
    ModelKeywords,
    TextKeywords,
    TokenKeywords,
    TaskKeywords,
    MetricKeywords,
    WeightKeywords,
    LayerKeywords,
    RunKeywords,
    total=False,
):
    """All that any measure over checkpoints takes."""


class ComparedKeywords(
    ModelKeywords,
    TextKeywords,
    TokenKeywords,
    TaskKeywords,
    WeightKeywords,
    LayerKeywords,
    RunKeywords,
    total=False,
):
    """All that comparing checkpoints takes."""


#: What a keyword is where it is not given; None where nothing stands here.
DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(("offline", "trust_remote_code", "allow_bin", "truncate"), False),
    **dict.fromkeys(("content_only", "force_head", "progress"), False),
    "device": "auto",
    "dtype": "float32",
    "weights": "attention",
    "seed": 42,
}


#: Other names of keywords.
ALIASES = {"target_column": "label_column", "method": "measure"}


def _words(annotation: Any) -> list[Any]:
    """List what a keyword may be, if it is one of a few words, or None; otherwise nothing."""
    parts = get_args(annotation) if get_origin(annotation) in {Union, UnionType} else (annotation,)
    if not all(part is NoneType or get_origin(part) is Literal for part in parts):
        return []
    return [word for part in parts for word in ((None,) if part is NoneType else get_args(part))]


def _hint(name: str, known: Collection[str]) -> str:
    said = answer(name, known)
    if said is not None:
        return f": {said}."
    close = difflib.get_close_matches(name, known, 1)
    return f". Did you mean {close[0]}?" if close else "."


def given(options: Any, group: Any) -> dict[str, Any]:
    """Pick the keywords of a group out of options, each with its default."""
    return {name: options.get(name, DEFAULTS.get(name)) for name in get_type_hints(group)}


def spelled_out(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Show every keyword of ``**options: Unpack[Group]`` in a function's signature, and refuse others.

    A path may also be given as a string.
    """
    signature = inspect.signature(function)
    own = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    rest = next(p for p in signature.parameters.values() if p.kind is inspect.Parameter.VAR_KEYWORD)
    group = get_args(rest.annotation)[0]
    shared = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=DEFAULTS.get(name), annotation=annotation
        )
        for name, annotation in get_type_hints(group).items()
    ]
    known = {parameter.name: _words(parameter.annotation) for parameter in (*own, *shared)}

    @speaks_python
    @wraps(function)
    def checked(*arguments: Parameters.args, **options: Parameters.kwargs) -> Result:
        for alias, name in ALIASES.items():
            if alias in options and name in known and alias not in known:
                if options.get(name) is not None:
                    raise AttnprobeError(f"{alias} is another name of {name}; give one of them.")
                options[name] = options.pop(alias)
        for name, value in options.items():
            if name not in known:
                raise AttnprobeError(f"{function.__name__}() has no keyword {name!r}{_hint(name, known)}")
            if known[name] and value not in known[name]:
                words = ", ".join(str(word) for word in known[name] if word is not None)
                raise AttnprobeError(f"{name} must be one of {words}, not {value!r}.")
        return function(*arguments, **options)

    checked.__signature__ = signature.replace(parameters=[*own, *shared])  # type: ignore[attr-defined]
    return checked
