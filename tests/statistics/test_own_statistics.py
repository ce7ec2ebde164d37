"""Statistics of a stranger's: from a notebook, from another package, from the command line; and bad ones."""

import sys

import numpy as np
import pytest
import torch

import attnprobe
from attnprobe.cli.app import run
from attnprobe.errors import AttnprobeError
from attnprobe.statistics.registry import choose, find_statistic
from attnprobe.statistics.statistic import Statistic, statistic

TEXTS = ["The parcel came late.", "Who rang?", "She signed for it, grumbling, and shut the door."]


@statistic(unit="share")
def second(block):
    """Probability of the second most attended key, over the queries that see two."""
    return block.probabilities.sort(-1, descending=True).values[..., 1]


@statistic(unit="share", scope="map")
def column_most(block):
    """Largest share of a map's mass that a single key gets."""
    return block.probabilities.mean(2).amax(-1)


@statistic(unit="share", scope="layer", reduce=lambda values, layout: values / layout.queries.length)
def confident(block):
    """Share of queries with a key above one half, counted block by block."""
    return (block.probabilities.amax(-1) > 0.5).sum(-1)


def test_a_function_of_a_block(own_maps):
    table = attnprobe.census("demo", TEXTS, statistics=["entropy", second, column_most, confident])
    assert list(table.data)[5:] == [
        "entropy", "entropy_se", "second", "second_se", "column_most", "column_most_se",
        "confident", "confident_se",
    ]  # fmt: skip
    by_text = [own_maps(text) for text in TEXTS]  # each (layer, head, query, key)
    expected = {
        "second": [np.sort(maps)[..., -2].mean(-1) for maps in by_text],
        "column_most": [maps.mean(2).max(-1) for maps in by_text],
        "confident": [(maps.max(-1) > 0.5).mean(-1) for maps in by_text],
    }
    for name, of_texts in expected.items():
        values = np.stack(of_texts).reshape(len(TEXTS), -1)
        np.testing.assert_allclose(table[name], values.mean(0), atol=1e-6)
        np.testing.assert_allclose(table[f"{name}_se"], values.std(0, ddof=1) / np.sqrt(3), atol=1e-6)


def test_maps_are_put_together_from_blocks(monkeypatch):
    expected = attnprobe.census("demo", TEXTS, statistics=[column_most, confident])
    monkeypatch.setattr("attnprobe.model.reading.blocks.BLOCK_CPU", 1)
    monkeypatch.setattr("attnprobe.model.reading.blocks.LEAST_QUERIES", 3)
    table = attnprobe.census("demo", TEXTS, statistics=[column_most, confident])
    for name in ("column_most", "column_most_se", "confident", "confident_se"):
        np.testing.assert_allclose(table[name], expected[name], atol=1e-6)


@pytest.fixture
def own_maps():
    from attnprobe.model.load import load_checkpoint

    checkpoint = load_checkpoint("demo")
    checkpoint.model.set_attn_implementation("eager")

    def maps(text):
        ids = torch.tensor([checkpoint.tokenizer(text)["input_ids"]])
        with torch.no_grad():
            given = checkpoint.body(input_ids=ids, output_attentions=True).attentions
        return torch.cat(given).double().numpy()

    return maps


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Install a package that brings a statistic along, and two that are none."""
    (tmp_path / "stranger.py").write_text(
        "import attnprobe\n"
        "@attnprobe.statistic(unit='share', version=3)\n"
        "def mine(block):\n"
        "    'Probability of the first key.'\n"
        "    return block.probabilities[..., 0]\n"
        "nothing = 5\n"
    )
    info = tmp_path / "stranger-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[attnprobe.statistics]\nmine = stranger:mine\nbroken = strangest:mine\nnothing = stranger:nothing\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("stranger", None)


def test_on_the_command_line(package, tmp_path, capsys):
    (tmp_path / "text.txt").write_text("\n".join(TEXTS))
    words = ["census", "demo", "-d", str(tmp_path / "text.txt"), "--statistics"]
    assert run([*words, "entropy,previous,mine"]) == 0
    assert capsys.readouterr().out.splitlines()[0].split(",")[5:] == [
        "entropy", "entropy_se", "previous", "previous_se", "mine", "mine_se"
    ]  # fmt: skip
    assert find_statistic("mine").identity == "mine@3"
    for name, says in {
        "broken": "can't be imported",
        "nothing": "is no statistic",
        "other": "",
    }.items():
        assert run([*words, name]) == 2 or name == "other"
        assert says in capsys.readouterr().err
    assert run([*words, "nonsense"]) == 2
    assert "of other packages broken, mine, nothing" in capsys.readouterr().err


def test_a_state_knows_it_by_name_and_version(tmp_path, package):
    kept = {"resume": tmp_path / "state", "batch_tokens": 8}
    attnprobe.census("demo", TEXTS, statistics=["mine"], **kept)
    attnprobe.census("demo", TEXTS, statistics=["mine"], **kept)
    newer = statistic(find_statistic("mine").function, unit="share", name="mine2", version=3)
    with pytest.raises(AttnprobeError, match="another command"):
        attnprobe.census("demo", TEXTS, statistics=[newer], **kept)
    newest = Statistic("mine", "share", find_statistic("mine").function, version=4)
    with pytest.raises(AttnprobeError, match="another command"):
        attnprobe.census("demo", TEXTS, statistics=[newest], **kept)


def bad(function, **options):
    return statistic(function, unit="share", name="bad", **options)


@pytest.mark.parametrize(
    ("function", "options", "says"),
    [
        (lambda block: block.probabilities, {}, "it must be"),
        (lambda block: block.probabilities.sum(-1)[:, :1], {}, "it must be"),
        (lambda block: block.probabilities.sum(-1), {"scope": "map"}, "it must be"),
        (lambda block: block.probabilities.sum(), {}, "it must be"),
        (lambda block: 3, {}, "gave int; it must be"),
        (lambda block: block.nonsense, {}, "failed .AttributeError"),
        (lambda block: block.scores, {}, "no scores unless"),
        (lambda block: block.probabilities @ torch.ones(3, 3), {}, "failed .RuntimeError"),
        (
            lambda block: block.probabilities.sum(-1),
            {"reduce": lambda v, layout: v.mean((1, 2))},
            "gave a tensor",
        ),
        (lambda block: block.probabilities.sum(-1), {"reduce": lambda v, layout: v[0]}, "gave"),
    ],
)
def test_what_is_wrong_is_said(function, options, says):
    with pytest.raises(AttnprobeError, match=f"'bad'.*{says}"):
        attnprobe.census("demo", TEXTS, statistics=[bad(function, **options)])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"name": "Bad Name"}, "can't be called"),
        ({"name": "x_se"}, "can't be called"),
        ({"name": "<lambda>"}, "can't be called"),
        ({"scope": "galaxy"}, "choose from query, layer, map, model"),
        ({"needs": {"gold"}}, "needs 'gold'"),
        ({"needs": {"scores"}, "weights": "norm"}, "can't be weighted by norm, as it reads scores"),
    ],
)
def test_refused_where_it_is_made(options, says):
    with pytest.raises(AttnprobeError, match=says):
        statistic(lambda block: block, **{"unit": "share", "name": "fine", **options})


def test_names_are_not_taken_twice():
    other = statistic(lambda block: block.probabilities.sum(-1), unit="share", name="second")
    with pytest.raises(AttnprobeError, match="Two statistics are called 'second'"):
        choose([second, other])
    with pytest.raises(AttnprobeError, match="name of a column already"):
        choose([statistic(lambda block: block, unit="share", name="entropy")])
    with pytest.raises(AttnprobeError, match="must be names, or functions"):
        choose([len])
    assert choose([second, second, "entropy"])[1] is second


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ("entropy", "must be a list of names"),
        ([], "empty list"),
        (["entropi"], "Did you mean entropy"),
        (["previous_shuffled"], "no statistic 'previous_shuffled'"),
        (["jsd"], "not one number a head; see `distance`"),
        (["syntax"], "no 'syntax'; it is measured by attnprobe syntax"),
        (["special_excess"], "no 'special_excess'; it is measured by attnprobe roles"),
    ],
)
def test_what_is_no_statistic_of_the_census(wanted, says):
    with pytest.raises(AttnprobeError, match=says):
        choose(wanted)


def test_the_census_of_any_text():
    shown = dict.fromkeys(statistic.family.name for statistic in choose(None))
    assert list(shown) == ["entropy", "positional", "special", "rare", "distance"]
