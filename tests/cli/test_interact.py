"""interact on the command line: columns, and the strongest proposals first."""

PAIRS = [
    *("model", "dataset", "objective", "layer_a", "head_a", "layer_b", "head_b", "n"),
    *("proposed", "interaction", "interaction_se", "p", "p_adjusted"),
]


def test_columns(tabulate):
    table = tabulate("interact", "demo", "-L", 12, "--pairs", 3, "-q", "--threads", 1)
    assert list(table) == PAIRS
    assert len(table) == 3
    assert (table["proposed"].abs().diff().dropna() <= 0).all()
