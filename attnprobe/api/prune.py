"""The function that asks how many heads can go, and lets them go."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from attnprobe.api.calls import called, check_model, loader_of, peeked, task_of
from attnprobe.api.commands import command
from attnprobe.api.keywords import ScoredKeywords, TextKeywords, given, spelled_out
from attnprobe.api.texts import Texts, opened
from attnprobe.corpus.sources.document import Label
from attnprobe.corpus.sources.text import Source
from attnprobe.corpus.tokens.tokenization import Tokenizer
from attnprobe.errors import AttnprobeError, UnfinishedError
from attnprobe.files import lies_in
from attnprobe.intervention.pruning.options import Criterion, PruneOptions
from attnprobe.model.folders import check_free
from attnprobe.run.process_group import Ranks
from attnprobe.table.destination import check_outside
from attnprobe.table.head_table import HeadTable

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_STDIN = "-"


@spelled_out
def prune(
    model: "str | Path | PreTrainedModel",
    texts: Texts = None,
    labels: Iterable[Label] | None = None,
    *,
    by: str = "gradient",
    highest_first: bool = False,
    step: float = 0.1,
    rerank: bool = False,
    random_orders: int = 5,
    rank_texts: Texts = None,
    save: Path | str | None = None,
    share: float | None = None,
    physical: bool = False,
    margin: float | None = None,
    overwrite: bool = False,
    tokenizer: Tokenizer | None = None,
    **options: Unpack[ScoredKeywords],
) -> HeadTable:
    """Score a model while its heads are removed step by step, and write it without some.

    Args:
        model: As for ``importance``.
        texts: As for ``importance``.
        labels: As for ``importance``.
        by: ``"gradient"``, ``"lrp"``, ``"ablation"``, ``"entropy"``, ``"confidence"`` or ``"FILE:COLUMN"``.
        highest_first: Of a column, remove the heads with the highest value first.
        step: Share of all heads that goes in one step.
        rerank: Rank the heads that are left anew after each step.
        random_orders: How many random orders stand beside.
        rank_texts: Texts to rank on; by default one half of ``texts``, and scores are of the other.
        save: Folder to write the pruned checkpoint to, without ``share`` of its heads, or those that can go
            within ``margin``.
        share: Share of all heads that ``save`` removes.
        physical: Write a smaller checkpoint, which only attnprobe reads, instead of weights at zero.
        margin: Loss of score that is allowed, in the score's unit: the notes name the last step at which,
            as at all before it, the loss is at most that (one-sided 95 %).
        overwrite: Replace a pruned checkpoint that lies at ``save``.
        tokenizer: The tokenizer of a loaded model.
        options: As for ``ablate``.

    Returns:
        One row for each step of each order.

    Raises:
        AttnprobeError: With one sentence on what is wrong and what to do. Where only the checkpoint could
            not be written, it has the table as ``error.table``.
    """
    folder = None if save is None else Path(save)
    if (folder is None and share is not None) or (folder is not None and share is None and margin is None):
        raise AttnprobeError("--save and --share go together: --save DIR --share 0.4, or --margin 0.01.")
    if physical and folder is None:
        raise AttnprobeError("--physical says how --save writes; add --save DIR --share 0.4.")
    criterion = Criterion.parse(by, highest_first=highest_first)
    pruning = PruneOptions(
        criterion, step, rerank, random_orders, share, physical, margin, folder is not None
    )
    if criterion.side is not None and rank_texts is not None:
        raise AttnprobeError(
            "--by reads the order of heads from a table, so that --rank-data has nothing to rank."
        )
    if folder is not None:
        _check_apart(folder, (model, texts, rank_texts, by.rpartition(":")[0]), options.get("resume"))
        check_free(folder, overwrite=overwrite)
    if all(isinstance(one, str) and one == _STDIN for one in (texts, rank_texts)):
        raise AttnprobeError("Standard input can be read once; give a file for --rank-data or -d.")
    label_column, named = options.get("label_column"), given(options, TextKeywords)
    columns = {"label_column": label_column, "find_labels": True}
    with called(options, model) as call:
        task = task_of(options, labels_named=labels is not None or label_column is not None)
        check_model(model, tokenizer, options)
        source = peeked(opened(texts, labels, named=named, **columns), task)
        rank_named = named | {"name": None, "split": None, "dataset_config": None}
        rank_source = None if rank_texts is None else opened(rank_texts, named=rank_named, **columns)
        rank_source = None if rank_source is None else peeked(rank_source, task)
        from attnprobe.intervention.pruning.curve import pruned_in_steps
        from attnprobe.intervention.pruning.writing import remove_heads

        call.progress.stage("loading", None)
        said = command("prune")
        with pruned_in_steps(
            loader_of(model, tokenizer, call.load),
            source,
            rank_source,
            call.corpus,
            task,
            pruning,
            facts={"command": said, "dataset": source.described} | _order(by, criterion),
            resume=call.resume,
            workers=call.workers,
            progress=call.progress,
        ) as (found, bench):
            if folder is None or not Ranks.found().first:
                return found.table
            if not found.removed:
                raise UnfinishedError(
                    f"No step lies within --margin {margin:g}, so nothing is written; take more examples, "
                    "a wider margin or --share.",
                    found.table,
                )
            try:
                return remove_heads(
                    found,
                    bench,
                    folder,
                    physical=physical,
                    overwrite=overwrite,
                    record={"command": said},
                    progress=call.progress,
                )
            except AttnprobeError as error:  # a full disk must not take hours of scores along
                raise UnfinishedError(str(error), found.table) from error


def _check_apart(folder: Path, reads: Iterable[Any], resume: Path | str | None) -> None:
    """Refuse to write a checkpoint over, or around, what is read or kept."""
    for read in reads:
        named = read.spec if isinstance(read, Source) else read
        path = Path(named) if isinstance(named, str | Path) and str(named) not in {"", _STDIN} else None
        if path is not None and path.exists() and lies_in(path, folder):
            raise AttnprobeError(f"--save would write over {path}, which is read; choose another folder.")
    if resume is not None:
        check_outside(Path(resume), folder, "--resume")


def _order(by: str, criterion: Criterion) -> dict[str, Any]:
    """Put the table that orders the heads on record, if one does."""
    if criterion.side is None:
        return {}
    from attnprobe.table.reading import describe_table

    return {"order": describe_table(Path(by.rpartition(":")[0]))}
