"""The command that gives each head a role."""

from attnprobe.cli.options import ModelOptions, OutputOptions, RoleOptions, takes
from attnprobe.cli.session import call, emit, keywords, prepare


@takes(ModelOptions, RoleOptions, OutputOptions)
def roles(
    model: ModelOptions,
    source: RoleOptions,
    output: OutputOptions,
) -> None:
    """Name what each head does, in one word with its evidence.

    previous, next, self, offset: it looks at one place, and still does with the tokens shuffled; delimiter:
    at special tokens or punctuation, beyond what uniform attention gives them; rare words; syntactic: it
    finds a dependency relation (with a treebank); coreference: it finds antecedents (with a file that has
    them); induction, duplicate: it looks at what came after, or at the same token, in random tokens that come
    twice; broad: everywhere; block: within its own
    text of two; mixed: none of these. A role holds where the whole interval of its evidence lies beyond its
    threshold. The first that holds names the head, and [bold]also[/bold] lists the others.
    [bold]stability[/bold] is the share of 8 folds of the documents in which the head has the same name.

    Examples:
      attnprobe roles demo

      attnprobe roles my-bert -d corpus.txt --treebank dev.conllu -o roles.csv

      attnprobe roles gpt2 -d a.txt --thresholds positional=0.8,induction=0.4
    """
    prepare(model, output, source.stopping, source.reads)
    from attnprobe.api import roles as api

    emit(call(api.roles, output, model.model, source.data.dataset, **keywords(model, source)), output)
