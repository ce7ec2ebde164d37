"""The example that trained the demo encoder still trains, and what it writes can be read."""

import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import torch

import attnprobe
from attnprobe.attention.block import AttentionBlock, uniform_block
from attnprobe.attention.observed import Observed
from attnprobe.corpus.sources.text import embedded_documents

EXAMPLES = Path(__file__).parents[1] / "examples"


def load_script(name="train_demo_encoder"):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_few_steps_give_a_checkpoint(tmp_path):
    text = tmp_path / "english.txt"
    text.write_text("\n".join(document.text for document in embedded_documents()), encoding="utf-8")
    output = tmp_path / "encoder"
    small = {"layers": 2, "heads": 2, "width": 16, "feed_forward": 16, "vocabulary": 300, "batch_tokens": 256}
    load_script().main(text, output, steps=3, snapshots=2, **small)
    assert json.loads((output / "training.json").read_text())["step"] == 3
    for folder in (output, output / "snapshots" / "step-2"):
        table = attnprobe.census(str(folder), ["The parcel came late."], statistics=["entropy"])
        assert len(table) == 4


def test_masking_keeps_special_tokens_and_labels_only_what_it_chose():
    script = load_script()
    blocks = torch.randint(0, 50, (200, 64), generator=torch.Generator().manual_seed(0))
    masked, labels = script.mask_blocks(blocks, torch.Generator().manual_seed(1), 50)
    chosen = labels != -100
    assert (labels[chosen] == blocks[chosen]).all()
    assert (masked[~chosen] == blocks[~chosen]).all()
    assert not chosen[blocks < len(script.SPECIAL)].any()
    mask = script.SPECIAL.index("[MASK]")
    assert abs(chosen.sum() / (blocks >= len(script.SPECIAL)).sum() - 0.2) < 0.02
    assert abs((masked[chosen] == mask).double().mean() - 0.8) < 0.03


def test_a_statistic_of_ones_own(capsys):
    script = load_script("own_statistic")
    uniform = uniform_block(5)
    block = replace(uniform, observed=Observed(scores=torch.zeros(1, 1, 5, 5)))
    assert (script.above_mean(block) == 0).all()
    one = torch.full((1, 1, 5, 5), -9.0)
    one[..., 2] = 9.0
    sure = AttentionBlock(one.softmax(-1), block.layout, observed=Observed(one))
    assert (script.above_mean(sure) > 0.99).all()
    script.main("demo")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["layer", "head", "n", "above_mean", "above_mean_se", "entropy"]
    assert len(lines) == 6
