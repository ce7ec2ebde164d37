"""``attnprobe dynamics``: steps as runs of their own, orders of heads, resuming, revisions, refusals."""

import gc
import json
import shutil
import weakref

import pandas
import pytest
from scipy.stats import kendalltau, spearmanr

import attnprobe
from attnprobe.model import load

pytestmark = pytest.mark.slow

STEPS = [0, 50, 100, 1000]
REVIEWS = [
    ("the river bank was slow", "bad"),
    ("a bird ran over the red house", "bad"),
    ("the dog and the cat", "good"),
    ("never stop by the river at night", "good"),
    ("he and she walk to the train stop , never by night , always by day", "good"),
    ("the parcel came early", "bad"),
    ("a cat ran under the green house", "bad"),
    ("quick bird", "good"),
]


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "reviews.tsv"
    path.write_text("\n".join(map("\t".join, [("text", "label"), *REVIEWS])) + "\n")
    return path


@pytest.fixture
def checkpoints(training):
    return [training / f"checkpoint-{step}" for step in STEPS]


@pytest.fixture
def own_run(training, tmp_path):
    """Copy the training run, so that a test may change it."""
    shutil.copytree(training, tmp_path / "own")
    return tmp_path / "own"


# The same numbers as a run of its own


@pytest.mark.parametrize(
    ("measure", "words"),
    [
        ([], ["importance"]),
        (["--method", "lrp"], ["importance", "--method", "lrp"]),
        (["--method", "confidence"], ["importance", "--method", "confidence"]),
        (["--measure", "entropy,previous"], ["census", "--statistics", "entropy,previous"]),
        (["--measure", "positional", "--layers", "1,2"], ["positional", "--layers", "1,2"]),
        (["--measure", "census", "--weights", "both"], ["census", "--weights", "both"]),
        (["--measure", "norm", "--content-only"], ["census", "--statistics", "norm", "--content-only"]),
        *(pytest.param(*case, marks=pytest.mark.exhaustive) for case in (
            (["--measure", "everything"], ["census", "--everything"]),
            (["--measure", "rank"], ["rank"]),
            (["--measure", "mixing"], ["mixing"]),
            (
                ["--measure", "prune", "--prune-step", "0.5", "--random-orders", "1", "--metric", "loss"],
                ["prune", "--step", "0.5", "--random-orders", "1", "--metric", "loss"],
            ),
            (
                ["--measure", "prune", "--prune-by", "fisher", "--prune-step", "1",
                 "--random-orders", "0"],
                ["prune", "--by", "fisher", "--step", "1", "--random-orders", "0"],
            ),
        )),
    ],
    ids=" ".join,
)  # fmt: skip
def test_every_step_is_a_run_of_its_own(tabulate, training, checkpoints, data, measure, words):
    """Of all four steps for the measure that is the default, of two for the others."""
    steps, given = (STEPS[1::2], checkpoints[1::2]) if measure else (STEPS, [training / "checkpoint-*"])
    table = tabulate("dynamics", *given, "-d", data, *measure)
    assert list(table)[:3] == ["model", "dataset", "step"]
    assert list(dict.fromkeys(table["step"])) == steps
    for step in steps:
        alone = tabulate(words[0], training / f"checkpoint-{step}", "-d", data, *words[1:])
        rows = table[table["step"] == step].drop(columns="step").reset_index(drop=True)
        rows = rows.rename(columns={"pruning_step": "step"})
        pandas.testing.assert_frame_equal(rows, alone, check_exact=True)
    assert len(table.drop(columns=["model", "step"]).drop_duplicates()) > len(rows)  # training changes them


# The order of heads


def test_the_order_of_heads(tabulate, training, data):
    words = ["dynamics", training / "checkpoint-*", "-d", data, "--measure", "entropy"]
    wide = tabulate(*words).pivot(index="step", columns=["layer", "head"], values="entropy")
    table = tabulate(*words, "--by", "step").set_index("step")
    assert list(table.index) == STEPS
    assert list(table)[:3] == ["model", "dataset", "measure"]
    assert table["model"].tolist() == [f"checkpoint-{step}" for step in STEPS]
    for place, step in enumerate(STEPS):
        this, last = wide.loc[step], wide.loc[1000]
        assert table["spearman_last"][step] == pytest.approx(spearmanr(this, last).statistic, abs=1e-12)
        assert table["kendall_last"][step] == pytest.approx(kendalltau(this, last).statistic, abs=1e-12)
        if place:
            before = wide.loc[STEPS[place - 1]]
            expected = spearmanr(this, before).statistic
            assert table["spearman_previous"][step] == pytest.approx(expected, abs=1e-12)
    assert table[["spearman_previous", "kendall_previous"]].loc[0].isna().all()
    assert table["heads_last"].tolist() == [12] * 4
    assert table["heads_previous"].tolist() == [0, 12, 12, 12]
    assert (table["spearman_last"].iloc[:3] < 0.95).all()


# One dataset, one checkpoint at a time


def test_each_model_is_freed_before_the_next(checkpoints, monkeypatch):
    alive, loaded = [], []
    load_checkpoint = load.load_checkpoint

    def watched(*given, **named):
        alive.append(sum(model() is not None for model in loaded))
        checkpoint = load_checkpoint(*given, **named)
        loaded.append(weakref.ref(checkpoint.model))
        vars(checkpoint.model)["itself"] = checkpoint.model  # as hooks of accelerate lead back to their model
        return checkpoint

    monkeypatch.setattr(load, "load_checkpoint", watched)
    gc.disable()  # what is freed is freed by hand
    try:
        for measure in ("importance", "prune", "everything"):
            attnprobe.dynamics(checkpoints[:3], [text for text, _ in REVIEWS], measure=measure)
    finally:
        gc.enable()
    assert len(alive) == 9
    assert set(alive) == {0}


# Resuming


MEASURE = ["--measure", "entropy", "--batch-tokens", "8", "--threads", "1"]


def test_stopped_and_resumed_bit_for_bit(invoke, checkpoints, data, passes, tmp_path):
    words, state = ["dynamics", *checkpoints, "-d", data, *MEASURE], tmp_path / "state"
    _, expected, _ = invoke(*words)
    total, passes["batches"] = passes["batches"], 0
    for stop in (3, total // 2, total // 3):
        passes |= {"batches": 0, "stop": stop}
        code, out, error = invoke(*words, "--resume", state)
        assert (code, out) == (130, "")
        assert error.endswith("stopped; give the same command again to go on.\n")
    passes |= {"batches": 0, "stop": None}
    code, out, error = invoke(*words, "--resume", state)
    assert (code, out) == (0, expected)
    assert passes["batches"] == total - 3 - total // 2 - total // 3
    assert f"going on from {state}.step50" in error
    assert sorted(path.name for path in tmp_path.glob("state*")) == sorted(f"state.step{n}" for n in STEPS)
    passes["batches"] = 0
    code, out, _ = invoke(*words, "--resume", state, "--by", "head")
    assert (code, out, passes["batches"]) == (0, expected, 0)


# Revisions


COMMITS = {"step1000": "a" * 40, "step2000": "b" * 40, "step10000": "c" * 40}


@pytest.fixture
def cache(training, use_cache, tmp_path):
    """Lay three checkpoints out as the hub's cache does, each a revision of org/tiny."""
    repository = tmp_path / "cache" / "models--org--tiny"
    (repository / "refs").mkdir(parents=True)
    for (revision, commit), step in zip(COMMITS.items(), STEPS[:3], strict=True):
        (repository / "refs" / revision).write_text(commit)
        shutil.copytree(training / f"checkpoint-{step}", repository / "snapshots" / commit)
    use_cache(tmp_path / "cache")
    return tmp_path / "cache"


def test_revisions(invoke, tabulate, refused, cache, checkpoints, data, tmp_path):
    hub = ["dynamics", "org/tiny", "-d", data, *MEASURE]
    path, before = tmp_path / "found.json", sorted(cache.rglob("*"))
    words = [*hub, "--revisions", "step10000,step1000, step2000"]
    assert invoke(*words, "-o", path)[0] == 0
    assert sorted(cache.rglob("*")) == before  # nothing of it was downloaded by this run
    record, alone = (
        json.loads(path.read_text()),
        tabulate("dynamics", *checkpoints[:3], "-d", data, *MEASURE),
    )
    rows = pandas.DataFrame(record["rows"])
    assert list(dict.fromkeys(rows["step"])) == [1000, 2000, 10000]
    assert rows["entropy"].tolist() == alone["entropy"].tolist()
    assert set(rows["model"]) == {"org/tiny"}
    steps = record["provenance"]["steps"]
    assert [step["revision"] for step in steps] == list(COMMITS)
    assert [step["model"]["commit"] for step in steps] == list(COMMITS.values())
    assert "HF_HUB_OFFLINE is set" in refused(*hub, "--revisions", "step1000,step9")
    assert "--revision is one of" in refused(*hub, "--revisions", "step1000,step2000", "--revision", "main")


# Refusals


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run/checkpoint-50"], "at least two"),
        (["run/checkpoint-50", "run/checkpoint-50"], "both of step 50"),
        (["run/checkpoint-50", "./run/nothing-9"], "says no step"),
        (["run/gone-*", "run/checkpoint-50"], "No folder matches run/gone-*"),
        (["run/*", "--steps", "1,2,3,4"], "in no order"),
        (["run/checkpoint-50", "run/checkpoint-0", "--steps", "1,-2"], "--steps must be whole numbers"),
        (["run/checkpoint-50", "--revisions", "step1,step2"], "no revisions"),
        (["run/*", "--measure", "nonsense"], "--measure takes importance"),
        (["run/*", "--measure", "prune", "--by", "step"], "have none"),
        (["run/*", "--measure", "entropy", "--metric", "loss"], "--metric is for --measure prune"),
        (["run/*", "--measure", "rank", "--method", "lrp"], "--method is for --measure importance"),
        (["run/*", "--content-only"], "--content-only is for --method confidence"),
        (["run/*", "-o", "run/checkpoint-50/config.json"], "--overwrite"),
    ],
)
def test_refused_before_a_checkpoint_is_loaded(refused, own_run, monkeypatch, words, says):
    monkeypatch.chdir(own_run.parent)
    own_run.rename("run")
    (own_run.parent / "run" / "x.tsv").write_text("text\tlabel\nthe dog\tgood\n")

    def looked(*_, **__):
        raise AssertionError("a model was loaded")

    monkeypatch.setattr(load, "read_weights", looked)
    assert says in refused("dynamics", *words)
