"""Which docstring defines a column of a command: ``pages.py`` writes it into the pages."""

#: Columns of the commands that switch heads, and whose docstring defines them.
SWITCHED = {
    "importance": {
        "`importance`, `gradient_signed`, `fisher`": "attnprobe.intervention.gradient:gradient_importance",
        "`importance`, with --method confidence": "attnprobe.statistics.entropy:confidence",
        "`importance_normalized`": "attnprobe.intervention.gradient:Attributions.normalized",
        "`ig`, `ig_abs`, with --method ig": "attnprobe.intervention.gradient:integrate_gradients",
        "`relevance`, `relevance_abs`, with --method lrp": "attnprobe.intervention.gradient:head_relevance",
        "`relevance_share`": "attnprobe.intervention.gradient:Attributions.share",
    },
    "ablate": {
        "`baseline`, `score`, `delta`, `p`": "attnprobe.intervention.ablation:ScoreDeltas",
        "`p_adjusted`": "attnprobe.sums.inference:adjust",
        "`moved`, `moved_se`": "attnprobe.intervention.ablation:measure_moves",
        "replaced_by: `mean`": "attnprobe.intervention.replacing:replace_by_means",
        "replaced_by: `resample`": "attnprobe.intervention.replacing:replace_by_examples",
    },
    "interact": {
        "`interaction`": "attnprobe.intervention.interaction:confirm_pairs",
        "`proposed`": "attnprobe.intervention.interaction:propose_pairs",
    },
    "patch": {
        "`effect`, `attribution`": "attnprobe.intervention.patching.passes:patch_pairs",
        "`recovered`": "attnprobe.intervention.patching.table:compute_share",
        "`p`": "attnprobe.sums.inference:Estimate.p",
        "`p_adjusted`": "attnprobe.intervention.patching.table:adjust_tests",
    },
    "correlate": {
        "`pearson`, `pearson_low`, `pearson_high`, `pearson_p`": (
            "attnprobe.findings.correlation:correlate_sides"
        ),
        "`pearson_true`, `pearson_true_low`, `pearson_true_high`": "attnprobe.findings.noise:disattenuate",
        "`spearman`, `spearman_p`, `kendall`, `kendall_p`": "attnprobe.findings.correlation:correlate_sides",
        "`reliability_in`, `reliability_out`": "attnprobe.findings.noise:Sample.reliability",
        "`disagreement`, with --by head": "attnprobe.findings.correlation:tabulate_disagreement",
    },
    "prune": {
        "The orders of --by": "attnprobe.intervention.pruning.orders:measure_importance",
        "`heads_removed`, `share_removed`, `score`": "attnprobe.intervention.pruning.curve:prune_in_steps",
        "`delta`, `delta_se`, `p`, `p_adjusted`": "attnprobe.intervention.ablation:ScoreDeltas",
        "`bound`": "attnprobe.intervention.pruning.differences:bound_losses",
        "The steps of --margin": "attnprobe.intervention.pruning.curve:walk_within",
        "`delta_random`, `delta_random_se`, `p_random`, `p_random_adjusted`": (
            "attnprobe.intervention.pruning.differences:compare_with_random"
        ),
        "`rank_among_random`": "attnprobe.intervention.pruning.differences:rank_among",
    },
}
#: Columns of the commands that look inside heads, beside those that are statistics themselves.
INSIDE = {
    "mixing": {
        "`explained_by_others`, `explained_by_others_null`": (
            "attnprobe.statistics.mixing:explained_by_others"
        ),
        "`effective_heads`, `effective_heads_null`": "attnprobe.statistics.mixing:effective_heads",
        "`NAME_se`": "attnprobe.sums.blocked:jackknife",
    },
    "dynamics --by step": {
        "`spearman_last`, `kendall_last`, `spearman_previous`, `kendall_previous`": (
            "attnprobe.findings.dynamics:tabulate_orders"
        ),
    },
    "census --weights": {
        "`NAME_norm`": "attnprobe.attention.block:AttentionBlock.by_norm",
    },
}
#: Columns of the command that compares two checkpoints.
COMPARED = {
    "compare": {
        "`jsd`": "attnprobe.survey.pairing:compare_maps",
        "`nearest_layer`, `nearest_head`, `jsd_nearest`": "attnprobe.findings.partners:find_nearest",
        "`matched_layer`, `matched_head`, `jsd_matched`, also with --match outputs": (
            "attnprobe.findings.partners:match_heads"
        ),
        "`cka`, `cka_matched`": "attnprobe.sums.cross_moments:CrossMoments.cka",
        "`NAME_a`, `NAME_b`, `NAME_delta`, `NAME_delta_se`, `NAME_p_adjusted`": (
            "attnprobe.findings.comparison:compare_paired"
        ),
        "Between words: `jsd`": "attnprobe.survey.pairing:pool_words",
    },
}
#: Columns of the commands that ask what heads find, and whose docstring defines them.
FOUND = {
    "syntax, coreference, links": {
        "`accuracy`": "attnprobe.statistics.questions:questions_of",
        "`n`, `baseline`, `gain`, `accuracy_selected`, `accuracy_far`, `chosen`, `control`, `selectivity`": (
            "attnprobe.statistics.links:LinkTables.by_label"
        ),
        "`accuracy_se`, `gain_se`, `control_se`, `selectivity_se`": (
            "attnprobe.sums.links:Difference.estimate"
        ),
        "`p`": "attnprobe.sums.links:Difference.p",
        "Draws of the errors and of p": "attnprobe.sums.links:CrossFit.draw",
        "`p_adjusted`": "attnprobe.sums.inference:adjust",
        "--control links: `moved`": "attnprobe.statistics.questions:move_links",
        "--by head: `accuracy_se`": "attnprobe.sums.blocked:find_share",
    },
    "probe": {
        "The probe": "attnprobe.survey.probe:ProbeData.fit",
        "`accuracy`": "attnprobe.survey.probe:ProbeData.cross_fit",
        "`best_head_accuracy`, `baseline`, `gain`, `chosen`": "attnprobe.survey.probe:tabulate_labels",
        "`NAME_se`": "attnprobe.sums.blocked:find_share",
        "`p`": "attnprobe.sums.inference:sign_flip",
        "`weight`, `share`, with --by head": "attnprobe.survey.probe:tabulate_heads",
    },
    "syntax --trees": {
        "`uuas`, `baseline`, `gain`, `p`, `uas`, `uas_baseline`, `uas_gain`, `uas_p`, `uas_p_adjusted`": (
            "attnprobe.statistics.trees:compare_with_gold"
        ),
    },
    "roles": {
        "`role`, `measure`, `value`, `threshold`, `also`": "attnprobe.statistics.role_table:decide_roles",
        "`syntactic`, `coreference`, `links`": "attnprobe.statistics.role_table:find_known_relations",
        "`pattern`": "attnprobe.statistics.role_table:name_patterns",
    },
    "--by-group": {
        "`group`, `NAME_q`, `NAME_q_p`, `NAME_q_p_adjusted`": (
            "attnprobe.statistics.tabulation:tabulate_groups"
        ),
        "Q and its p": "attnprobe.sums.inference:compare_groups",
        "Of syntax, coreference and links": "attnprobe.statistics.links:LinkTables.by_label_and_group",
    },
}
