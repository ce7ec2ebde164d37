"""Write into the pages of docs/ whatever the code itself says, so that they are whole wherever they are read.

    python docs/scripts/pages.py

A generated part stands between a comment such as ``<!-- statistics -->`` and ``<!-- end of statistics -->``.
Run this after a change of an option, of a docstring of a number, or of the layout;
``tests/docs/test_pages.py`` fails while a page is old. Only the run over all types of models takes long, and
its record lies in docs/model-types.md (``python tests/model/test_every_type.py > docs/model-types.md``).
"""

import ast
import inspect
import pkgutil
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "docs" / "model-types.md"

#: Columns of the commands that switch heads, and whose docstring defines them.
SWITCHED = {
    "importance": {
        "importance, gradient_signed, fisher": "attnprobe.intervention.gradient:gradient_importance",
        "importance, with --method confidence": "attnprobe.statistics.entropy:confidence",
        "importance_normalized": "attnprobe.intervention.gradient:Importance.normalized",
        "ig, ig_abs, with --method ig": "attnprobe.intervention.integration:integrate_gradients",
        "how nearly the heads of a layer add up, with --method ig": (
            "attnprobe.intervention.integration:Integrals.errors"
        ),
        "relevance, relevance_abs, with --method lrp": "attnprobe.intervention.relevance:head_relevance",
        "relevance_share": "attnprobe.intervention.gradient:Importance.share",
    },
    "ablate": {
        "baseline, score, delta, p": "attnprobe.intervention.metrics.metric:Comparison",
        "p_adjusted": "attnprobe.sums.resampling:adjust",
        "moved, moved_se": "attnprobe.intervention.changes:Moves",
        "reliability, delta_reliability": "attnprobe.sums.reliability:split_half_reliability",
        "rank_low, rank_high": "attnprobe.sums.ranks:rank_cells",
        "n, with --until": "attnprobe.intervention.rounds:measure_widths",
        "replaced_by: mean": "attnprobe.intervention.replacing:average_outputs",
        "replaced_by: resample": "attnprobe.intervention.replacing:OtherExamples",
        "Of several draws: score, delta and errors": "attnprobe.intervention.changes:Changes",
    },
    "interact": {
        "interaction": "attnprobe.intervention.interaction:confirm_pairs",
        "proposed": "attnprobe.intervention.interaction:propose_pairs",
        "replaced_share, with --by head": ("attnprobe.intervention.interaction:Interactions.measure_share"),
    },
    "patch": {
        "effect, attribution": "attnprobe.intervention.patching.passes:patch_pairs",
        "recovered": "attnprobe.intervention.patching.pairs:PatchedPairs.recovered",
        "p": "attnprobe.intervention.patching.pairs:compute_p",
        "p_adjusted": "attnprobe.intervention.patching.pairs:adjust_tests",
    },
    "correlate": {
        "pearson, pearson_low, pearson_high, pearson_p": "attnprobe.findings.correlation:correlate_sides",
        "pearson_true, pearson_true_low, pearson_true_high": "attnprobe.findings.noise:disattenuate",
        "spearman, spearman_p, kendall, kendall_p": "attnprobe.findings.correlation:correlate_sides",
        "spearman_true, spearman_true_low, spearman_true_high": (
            "attnprobe.findings.rank_noise:disattenuate_ranks"
        ),
        "reliability_in, reliability_out": "attnprobe.findings.pair:Side.reliability",
        "disagreement, with --by head": "attnprobe.findings.correlation:tabulate_disagreement",
    },
    "prune": {
        "The orders of --by": "attnprobe.intervention.pruning.ranking:measure_worth",
        "--by norm": "attnprobe.intervention.strength:measure_norms",
        "--by magnitude": "attnprobe.intervention.strength:measure_magnitudes",
        "heads_removed, share_removed, score": "attnprobe.intervention.pruning.curve:prune_in_steps",
        "delta, delta_se, p, p_adjusted": "attnprobe.intervention.pruning.differences:compare_with_whole",
        "bound": "attnprobe.intervention.pruning.differences:bound_losses",
        "tried, with --search bisect": "attnprobe.intervention.pruning.search:search_steps",
        "delta_random, delta_random_se, p_random, p_random_adjusted": (
            "attnprobe.intervention.pruning.differences:compare_with_random"
        ),
        "rank_among_random": "attnprobe.intervention.pruning.differences:rank_among",
    },
}
#: Columns of the commands that look inside heads, beside those that are statistics themselves.
INSIDE = {
    "mixing": {
        "explained_by_others, explained_by_others_null": ("attnprobe.statistics.mixing:explained_by_others"),
        "effective_heads, effective_heads_null": "attnprobe.statistics.mixing:effective_heads",
        "NAME_se": "attnprobe.sums.resampling:Jackknife",
    },
    "rank": {
        "head_width, longer": "attnprobe.statistics.rank:longer",
        "logit_rank, logit_rank_share": "attnprobe.statistics.rank:logit_rank",
        "notes": "attnprobe.statistics.rank:rank_notes",
    },
    "dynamics --by step": {
        "spearman_last, kendall_last, spearman_previous, kendall_previous": (
            "attnprobe.findings.settling:tabulate_orders"
        ),
        "spearman_last_true, spearman_last_true_low, spearman_last_true_high": (
            "attnprobe.findings.rank_noise:disattenuate_ranks"
        ),
        "settled, settled_true, settled_low, settled_high": "attnprobe.findings.settling:Settling",
    },
    "census --weights": {
        "NAME_norm": "attnprobe.attention.block:AttentionBlock.by_norm",
    },
}
#: Columns of the command that compares two checkpoints.
COMPARED = {
    "compare": {
        "jsd": "attnprobe.survey.divergences:Divergences.compare",
        "nearest_layer, nearest_head, jsd_nearest": "attnprobe.findings.partners:find_nearest",
        "matched_layer, matched_head, jsd_matched": "attnprobe.findings.partners:match_heads",
        "cka, cka_matched": "attnprobe.sums.cross_moments:CrossMoments.cka",
        "cka_se, cka_matched_se": "attnprobe.survey.head_outputs:OutputPulls",
        "With --match outputs: matched_layer, matched_head": ("attnprobe.survey.head_outputs:match_outputs"),
        "NAME_a, NAME_b, NAME_delta, NAME_delta_se, NAME_p_adjusted": (
            "attnprobe.findings.differences:compare_paired"
        ),
        "Between words: jsd": "attnprobe.survey.pairing:pool_words",
    },
    "compare --by layer": {
        "nearest_layer, jsd_nearest": "attnprobe.findings.partners:find_nearest_layers",
    },
    "compare --measure importance": {
        "importance_a, importance_b, importance_delta, importance_p_adjusted": (
            "attnprobe.findings.differences:tabulate_importance_change"
        ),
    },
    "compare --spread": {
        "layers, heads, seeds, layers_by_seed, heads_by_seed, texts, layers_by_text, heads_by_text, "
        "seeds_by_text, rest": "attnprobe.findings.spread:estimate_components",
        "The root of the variance: sd": "attnprobe.findings.spread:Components",
    },
}
#: Columns of the command that cuts the tree of heads.
CLUSTERED = {
    "plot --save-clusters": {
        "cluster": "attnprobe.reports.pairs:cluster_heads",
        "heads, mean_distance": "attnprobe.reports.pairs:tabulate_clusters",
    },
}
#: Columns of the commands that ask what heads find, and whose docstring defines them.
FOUND = {
    "syntax, coreference, links": {
        "accuracy": "attnprobe.statistics.questions:questions_of",
        "n, baseline, gain, accuracy_selected, accuracy_far, chosen, control, selectivity": (
            "attnprobe.statistics.links:by_label_table"
        ),
        "accuracy_se, gain_se, control_se, selectivity_se": "attnprobe.sums.crossfit:Contrast.error",
        "p": "attnprobe.sums.crossfit:Contrast.chance",
        "In both: draws": "attnprobe.sums.crossfit:CrossFit.draw",
        "p_adjusted": "attnprobe.sums.resampling:adjust",
        "--control links: moved": "attnprobe.statistics.moved_links:move_links",
        "--control weights: random": "attnprobe.model.random_weights:randomise_weights",
        "--by head, --selection half: accuracy_se": "attnprobe.sums.tally:Tally.accuracy",
        "--selection half: p": "attnprobe.statistics.best_heads:Compared.chance",
        "Where each sequence is a document: mcnemar": "attnprobe.sums.resampling:mcnemar",
        "Where documents have several sequences: sign_flip": "attnprobe.sums.resampling:sign_flip",
    },
    "probe": {
        "The probe": "attnprobe.kernels.probing:answer",
        "How it is fitted": "attnprobe.survey.probe:ProbeData.fit",
        "accuracy, control, selectivity": "attnprobe.survey.probe:ProbeData.cross_fit",
        "bits": "attnprobe.survey.probe:ProbeData.encode",
        "bits_uniform": "attnprobe.survey.probe:ProbeData.uniform",
        "best_head_accuracy, baseline, gain, chosen": "attnprobe.survey.probe_table:tabulate_labels",
        "NAME_se": "attnprobe.sums.groups:Ratio.of_totals",
        "p": "attnprobe.sums.resampling:sign_flip",
        "weight, share, with --by head": "attnprobe.survey.probe_table:tabulate_heads",
        "Random weights": "attnprobe.model.random_weights:randomise_weights",
    },
    "syntax --trees": {
        "uuas, baseline, uuas_random": "attnprobe.statistics.trees:edges_in_trees",
        "gain, p, p_adjusted": "attnprobe.statistics.trees:edge_columns",
        "uas, uas_from_head, uas_baseline": "attnprobe.statistics.trees:arcs_in_trees",
        "uas_gain, uas_p, uas_p_adjusted, uas_from_head_gain, uas_from_head_p, uas_from_head_p_adjusted": (
            "attnprobe.statistics.trees:arc_columns"
        ),
    },
    "roles": {
        "role, also": "attnprobe.statistics.role_evidence:decide_roles",
        "syntactic, coreference, links": "attnprobe.statistics.role_table:find_known_relations",
        "measure, value, threshold": "attnprobe.statistics.role_evidence:Role",
        "stability": "attnprobe.statistics.role_table:stability",
        "pattern": "attnprobe.statistics.role_evidence:name_patterns",
        "nearest, nearest_measure, nearest_value, nearest_threshold": (
            "attnprobe.statistics.role_evidence:find_nearest"
        ),
        "The nearest relation": "attnprobe.statistics.role_table:find_nearest_relation",
    },
    "positional --control": {
        "notes": "attnprobe.statistics.positional:controlled_table",
    },
    "--by-group": {
        "group, NAME_q, NAME_q_p, NAME_q_p_adjusted": "attnprobe.statistics.by_group:tabulate_groups",
        "Q and its p": "attnprobe.sums.heterogeneity:compare_groups",
        "Of syntax, coreference and links": ("attnprobe.statistics.links_by_group:by_label_and_group_table"),
    },
    "induction": {
        "notes": "attnprobe.statistics.induction:induction_table",
    },
}
#: Where the prose of a docstring ends and its lists begin.
_LISTS = re.compile(r"^(Args|Returns|Raises|Yields|Warns|Examples):$")


#: What the rows of a table of a statistic are.
_ROWS = {
    "head": "a row a head",
    "pair": "a row a pair of heads",
    "layer": "a row a layer",
    "label": "a row a label",
}


def statistics() -> str:
    """Define every number about where heads look, from the docstrings of the statistics."""
    from attnprobe.statistics.registry import all_statistics, families

    found = [line for family in families() for line in _family(family, all_statistics().values())]
    return "\n".join(found)


def _family(family: Any, every: Iterable[Any]) -> Iterator[str]:
    yield f"### {family.name}: {family.title}\n"
    for one in every:
        if one.family != family:
            continue
        unit = f"{one.unit} ({one.unit_in_patches} in images)" if one.unit_in_patches else one.unit
        where = _ROWS[one.rows]
        yield f"#### `{one.name}`\n\n*{one.title}* · unit: {unit} · {where}\n\n{prose(one.definition)}\n"


def interventions() -> str:
    """Define what the commands that switch heads tabulate, from the docstrings of the functions."""
    return "\n".join(_by_column(SWITCHED))


def inside() -> str:
    """Define what the commands tabulate that look inside heads, from the docstrings of the functions."""
    return "\n".join(_by_column(INSIDE))


def compared() -> str:
    """Define what the command tabulates that compares checkpoints, from the docstrings of the functions."""
    return "\n".join(_by_column(COMPARED))


def clustered() -> str:
    """Define what is tabulated of clusters of heads, from the docstrings of the functions."""
    return "\n".join(_by_column(CLUSTERED))


def found() -> str:
    """Define what the commands tabulate that ask what heads find, from the docstrings of the functions."""
    return "\n".join(_by_column(FOUND))


def _by_column(commands: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    for command, columns in commands.items():
        yield f"### {command}\n"
        for names, home in columns.items():
            heading = re.sub(r"(?<![\w-])[\w-]+(?=,|$)", r"`\g<0>`", names)
            yield f"#### {heading}\n\n{prose(inspect.getdoc(_at(home)) or '')}\n"


def objectives() -> str:
    """List what a model can be asked to do, the loss of an example, and the scores."""
    from attnprobe.intervention.objectives.choosing import import_objective
    from attnprobe.tasks import OBJECTIVES

    lines = ["| objective | what it is | scores, the usual one first |", "|---|---|---|"]
    for name in sorted(OBJECTIVES):
        named = ", ".join(f"`{metric}`" for metric in OBJECTIVES[name].metrics)
        lines.append(f"| `{name}` | {import_objective(name).about} | {named} |")
    return "\n".join(lines)


def metrics() -> str:
    """Define every score, from the docstrings of the metrics and of the functions they are made of."""
    from attnprobe.intervention.metrics.metric import Metric

    lines = []
    for module in _modules("attnprobe.intervention.metrics"):
        named = vars(module).values()
        own = [one for one in named if getattr(one, "__module__", "") == module.__name__]
        kinds = [one for one in own if inspect.isclass(one) and issubclass(one, Metric) and one is not Metric]
        formulas = [
            one
            for one in own
            if inspect.isfunction(one) and {"matrix", "ranks"} & {*inspect.signature(one).parameters}
        ]
        if kinds or formulas:
            title = kinds[0].title if kinds else (module.__doc__ or "").splitlines()[0].rstrip(".")
            lines.append(f"#### {title}\n")
            public = [one for one in (*kinds, *formulas) if not one.__name__.startswith("_")]
            lines += [f"{prose(inspect.getdoc(one) or '')}\n" for one in public]
    return "\n".join(lines)


def _modules(package: str) -> list[Any]:
    folder = import_module(package).__path__
    return [import_module(f"{package}.{found.name}") for found in pkgutil.iter_modules(folder)]


def _subclasses(package: str, kind: type) -> Iterator[Any]:
    """Give the classes in a package that are a kind of another and can be used."""
    for module in _modules(package):
        for one in vars(module).values():
            usable = inspect.isclass(one) and issubclass(one, kind) and not inspect.isabstract(one)
            if usable and one.__module__ == module.__name__:
                yield one


def _at(home: str) -> Any:
    module, _, path = home.partition(":")
    found = import_module(module)
    for name in path.split("."):
        found = getattr(found, name)
    return found


def prose(docstring: str) -> str:
    """Turn a docstring into Markdown: its prose and its sources, without arguments and doctests."""
    kept, skipping = [], False
    for paragraph in docstring.split("\n\n"):
        first = paragraph.strip().splitlines()[0] if paragraph.strip() else ""
        if first == "References:":
            sources = " ".join(line.strip() for line in paragraph.strip().splitlines()[1:])
            kept.append(f"Source: {sources}")
            skipping = False
            continue
        if first == "Attributes:":
            kept.append(_attributes(paragraph))
            continue
        skipping = bool(_LISTS.match(first)) or (skipping and paragraph.startswith("  "))
        if not skipping and not first.startswith(">>>"):
            kept.append(paragraph)
    text = "\n\n".join(kept).replace("``", "`")
    # A star or an underscore in a formula is no emphasis, and [CLS] is no link; code is left as it is.
    outside = re.split(r"(`[^`]*`|^    .*$)", text, flags=re.M)
    outside[::2] = [re.sub(r"([*_\[\]<])", r"\\\1", part) for part in outside[::2]]
    return re.sub(r"(?m)^(Limits|Source|Unit|Returns):", r"**\1:**", "".join(outside))


def _attributes(paragraph: str) -> str:
    lines = [line.strip() for line in inspect.cleandoc(paragraph).splitlines()[1:]]
    named = [re.sub(r"^(\w+): ", r"- `\1`: ", line) for line in lines]
    return " ".join(named).replace(" - `", "\n- `")


def commands() -> str:
    """Show every command with its options, as Typer documents them."""
    import typer
    from typer.cli import get_docs_for_click
    from typer.main import get_command

    from attnprobe.cli.app import app

    command = get_command(app)
    found = get_docs_for_click(obj=command, ctx=typer.Context(command), name="attnprobe")
    found = re.sub(
        r'(?:<span style="font-weight: bold">|\[bold\])(.*?)(?:</span>|\[/bold\])', r"**\1**", found
    )
    found = re.sub(r"(?m)^Examples:\n((?:  .*\n|\n)+)", _as_code, found)
    found = found.replace("```console\n", "```text\n")  # which says how it is used, and is no example
    found = found.partition("## `attnprobe census`")[2]
    return "## `attnprobe census`" + re.sub(r"(?m)^\* `(?:-h, )?--help`.*\n", "", found)


def _as_code(examples: re.Match[str]) -> str:
    lines = [line.strip().replace("&gt;", ">") for line in examples[1].splitlines() if line.strip()]
    return "\n```sh\n" + "\n".join(lines) + "\n```\n\n"


def functions() -> str:
    """Document the function of every command, with the keywords that it alone has."""
    from attnprobe.commands import COMMANDS

    lines = []
    for name, command in COMMANDS.items():
        said, _, more = command.documentation.partition("\n\nArgs:\n")
        used = [group for group, some in _groups().items() if any(one in command.options for one in some)]
        shared = [one for group in used for one in group.options]
        own = _keywords(one for one in command.keywords.values() if one not in shared)
        named = ", ".join(f"[{group.__name__}](#{group.__name__.lower()})" for group in used)
        lines += [f"### attnprobe.{name}", prose(said), own, f"Shared keywords: {named}." if named else ""]
        lines += [_as_list(more.partition("\n\n")[2])]
    return "\n\n".join(line for line in lines if line)


def _as_list(sections: str) -> str:
    """Turn the sections of a docstring behind its arguments into a list, without examples."""
    plain = sections.partition(">>>")[0].replace("``", "`")
    return re.sub(r"(?m)^(\w+):\n +", r"- **\1**: ", plain).replace("\n\n- ", "\n- ").strip()


def keywords() -> str:
    """Document the keywords that functions share."""
    return "\n\n".join(
        f"### {group.__name__}\n\n{_first_paragraph(group.__doc__ or '')}\n\n{_keywords(options)}"
        for group, options in _groups().items()
    )


def _groups() -> dict[Any, list[Any]]:
    """Give the groups of options that commands share, each with those that no group before it has."""
    from attnprobe import options

    found: dict[Any, list[Any]] = {}
    for one in vars(options).values():
        if inspect.isclass(one) and issubclass(one, options.Group) and one.options:
            before = [option for some in found.values() for option in some]
            found[one] = [option for option in one.options if option not in before]
    return found


def _keywords(options: Iterable[Any]) -> str:
    from attnprobe.wording import in_python

    said = ((one.keyword, prose(one.doc or in_python(one.help))) for one in options)
    return "\n".join(f"- `{name}`: {text}" for name, text in said)


def models() -> str:
    """Group the types of models by the way to their attention, or the reason why there is none."""
    ways: dict[tuple[str, str], list[str]] = {}
    reasons: dict[str, list[str]] = {}
    for name, way, lacking, evidence in recorded():
        if way in {"refused", "not tried"}:
            said = evidence if way == "refused" else f"not tried: {evidence}"
            reasons.setdefault(_shortened(said, name), []).append(name)
        else:
            ways.setdefault((way, lacking), []).append(name)
    read = sum(len(names) for names in ways.values())
    lines = [
        f"The last run read {read} and refused {sum(map(len, reasons.values()))}, where a model with towers "
        "counts once a tower.\n",
        "## Read\n\nEvery command works on them but those that the second column names.\n",
        "| way to the attention | refused by | model types |\n|---|---|---|",
        *(
            f"| {way} ({len(names)}) | {_listed(lacking.split(', ')) if lacking else ''} | {_listed(names)} |"
            for (way, lacking), names in sorted(ways.items())
        ),
        "\n## Refused\n\n| reason | model types |\n|---|---|",
        *(f"| {reason} | {_listed(names)} |" for reason, names in reasons.items()),
    ]
    return "\n".join(lines)


def recorded() -> Iterator[tuple[str, str, str, str]]:
    """Read what the run over all types wrote: type, way, what refuses it, and evidence or reason."""
    for line in RECORD.read_text(encoding="utf-8").splitlines()[2:]:
        name, way, lacking, evidence = (cell.strip() for cell in line.strip().strip("|").split("|", 3))
        yield name.strip("`"), way, lacking, evidence


def _shortened(reason: str, name: str) -> str:
    """Let types that are refused for one reason share a row."""
    if "layers came by" in reason:
        return "only some of its layers attend"
    plain = re.sub(r" *\(.*\)", "", reason.partition(";")[0].replace(name.partition(",")[0], "it"))
    return "its maps are not from tokens to tokens" if re.search(r"\d x \d", plain) else plain.strip(" .")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def rooms() -> str:
    """List the packages in the order in which they import, and what each one's docstring says."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    lines = ["| room | what it does |", "|---|---|"]
    for layer in layers:
        path = ROOT / "attnprobe" / layer
        source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        said = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or ""
        lines.append(f"| `{layer}{'/' if path.is_dir() else '.py'}` | {_first_paragraph(said)} |")
    return "\n".join(lines)


def _first_paragraph(docstring: str) -> str:
    return docstring.partition("\n\n")[0].replace("\n", " ").replace("``", "`")


GENERATED: dict[str, Callable[[], str]] = {
    "statistics": statistics,
    "inside": inside,
    "compared": compared,
    "clustered": clustered,
    "found": found,
    "interventions": interventions,
    "objectives": objectives,
    "metrics": metrics,
    "commands": commands,
    "functions": functions,
    "keywords": keywords,
    "models": models,
    "rooms": rooms,
}


_PART = re.compile(r"(?ms)^<!-- (?P<name>\w+) -->\n.*?^<!-- end of (?P=name) -->$")


def fill(markdown: str) -> str:
    """Generate anew the parts of a page that the code says."""

    def generate(part: re.Match[str]) -> str:
        name = part["name"]
        return f"<!-- {name} -->\n\n{GENERATED[name]().strip()}\n\n<!-- end of {name} -->"

    return _PART.sub(generate, markdown)


def main() -> None:
    """Write the pages anew that hold a generated part."""
    for path in sorted((ROOT / "docs").glob("*.md")):
        page = path.read_text(encoding="utf-8")
        if _PART.search(page):
            path.write_text(fill(page), encoding="utf-8")


if __name__ == "__main__":
    main()
