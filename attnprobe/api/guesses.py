"""What people guess first that is called otherwise here, or is not there: each is answered.

Answers name options as the command line spells them; see ``attnprobe.spelling``.
"""

from collections.abc import Container, Sequence

from attnprobe.spelling import in_python

_DEVICE = {name: f"use --device {name}" for name in ("cpu", "cuda", "mps")}
_TYPES = {
    guess: f"use --dtype {name}"
    for name, guesses in {
        "bfloat16": ("bf16", "bfloat16"),
        "float16": ("fp16", "half", "float16"),
        "float32": ("fp32", "float32"),
        "float64": ("fp64", "double", "float64"),
    }.items()
    for guess in guesses
}
#: What is meant, and its guesses.
_MEANT = {
    "use --dataset": ("data", "data-path", "data-file", "file", "input", "input-file", "text", "corpus"),
    "use --output": ("out", "output-file", "output-path", "save-to", "out-file", "csv"),
    "use --max-length": (
        *("max-len", "max-seq-length", "max-seq-len", "sequence-length", "seq-length", "max-tokens"),
        *("window", "context-length"),
    ),
    "use --limit": (
        "max-samples",
        "num-samples",
        "max-examples",
        "num-examples",
        "samples",
        "n",
        "max-docs",
    ),
    "use --device cuda": ("gpu", "gpus", "use-cuda", "use-gpu"),
    "use --workers": ("num-workers", "n-workers", "jobs", "n-jobs", "num-proc", "processes"),
    "use --threads": ("num-threads", "n-threads", "cores"),
    "use --text-column": ("text-col", "column", "text-field", "text-key", "sentence-column"),
    "use --text-pair-column": ("pair-column", "text2", "text-column-2", "second-column"),
    "use --label-column": ("label", "labels", "label-col", "target", "target-col", "label-field"),
    "use --seed": ("random-seed", "random-state"),
    "use --overwrite": ("force", "replace", "overwrite-output", "f"),
    "use --resume": ("checkpoint", "resume-from", "state", "continue"),
    "use --precision": ("digits", "decimals", "round"),
    "use --verbose": ("debug", "traceback", "log-level"),
    "use --dataset-config": ("subset", "dataset-name", "config-name"),
    "use --token": ("hf-token", "auth-token", "use-auth-token", "api-key"),
    "use --memory": ("max-memory", "memory-limit"),
    "use --offline": ("local-files-only", "no-network"),
    "use --metric": ("score", "metrics", "scoring"),
    "use --objective": ("task", "loss"),
    "use --content-only": ("no-special-tokens", "skip-special-tokens", "exclude-special"),
    "the model comes first, without an option's name: a hub id, a folder, or demo": (
        *("model", "model-name", "model-name-or-path", "model-path", "pretrained", "m"),
    ),
    "its own tokenizer is loaded with each checkpoint": ("tokenizer", "tokenizer-name"),
    "use --batch-tokens, which counts tokens: batches hold sequences of one length, whose number depends "
    "on how long they are, and no result depends on it": ("batch-size", "batchsize", "bs", "batch"),
    "the checkpoint has the heads that it has, and each gets a row": ("num-heads", "n-heads", "heads"),
    "all layers are measured here; census, entropy and others that read attention have it, and a table of "
    "heads has a column layer": ("layers", "layer"),
    "no language needs to be named: the checkpoint's tokenizer reads the text": ("lang", "language"),
    "write the table to a file, and `attnprobe plot TABLE` draws it; in Python, table.plot() does": (
        *("plot", "figure", "heatmap", "chart", "picture", "draw"),
    ),
}
#: The answer to each guess, by its name as an option.
ANSWERS = {guess: answer for answer, guesses in _MEANT.items() for guess in guesses} | _DEVICE | _TYPES


#: What a function has no keyword for, and how else it is done.
_ELSEWHERE = {
    "output": "the table that it returns has save(PATH)",
    "overwrite": "the table that it returns has save(PATH, overwrite=True)",
}
#: What people call a command, and its name.
_COMMANDS = {
    "census": (
        *(
            "heads",
            "head",
            "attention",
            "measure",
            "stats",
            "statistics",
            "probe",
            "run",
            "analyze",
            "analyse",
        ),
        "all",
    ),
    "positional": ("position", "positions", "offset", "offsets", "previous", "next"),
    "special": ("separator", "cls", "sep", "delimiter", "delimiters"),
    "distance": ("similarity", "cluster", "clusters", "jsd", "divergence", "map"),
    "syntax": ("dependency", "dependencies", "relations", "parse", "ud", "treebank"),
    "coreference": ("coref", "pronouns"),
    "links": ("alignment", "align", "gold"),
    "importance": ("gradient", "gradients", "saliency", "sensitivity", "relevance", "lrp", "score"),
    "ablate": ("ablation", "mask", "knockout", "remove"),
    "compare": ("diff", "difference", "versus"),
    "correlate": ("correlation", "transfer", "domains"),
    "prune": ("cut", "drop", "compress"),
    "dynamics": ("training", "steps", "checkpoints"),
    "view": ("show", "look", "visualize", "visualise", "bertviz", "text"),
    "report": ("page", "dossier", "summary", "html"),
    "plot": ("figure", "heatmap", "chart", "picture", "draw", "graph"),
    "doctor": ("check", "verify", "test", "info", "diagnose"),
    "rerun": ("reproduce", "repeat", "again"),
    "merge": ("join", "concat", "combine", "add"),
}
COMMANDS = {guess: name for name, guesses in _COMMANDS.items() for guess in guesses}


def answer(guess: str, known: Container[str]) -> str | None:
    """Answer a guess, spelled as an option or as a keyword; None where there is no answer.

    Args:
        guess: What was written.
        known: The parameters that there are, in Python's spelling. What sends to another is no answer.
    """
    said = ANSWERS.get(guess.strip("-").replace("_", "-").lower())
    if said is None or not said.startswith("use --"):
        return said
    name = said.removeprefix("use --").split(",")[0].split()[0]
    meant = in_python(f"--{name}").partition("=")[0]
    there = name.replace("-", "_") in known or meant in known
    return said if there else _ELSEWHERE.get(name)


def command_for(guess: str, names: Sequence[str]) -> str | None:
    """Name the command that is meant by a guess; None where no name is near."""
    import difflib

    word = guess.replace("_", "-").lower()
    near = difflib.get_close_matches(word, [*names, *COMMANDS], 1, 0.7)
    return COMMANDS.get(word) or next((COMMANDS.get(one, one) for one in near), None)
