"""Loaded models are read in evaluation mode by a thread at a time, without wrappers, with their adapters."""

import copy
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import peft
import pytest
import torch
from torch import distributed
from torch.nn.parallel import DataParallel, DistributedDataParallel
from transformers import BertForSequenceClassification

import attnprobe
from attnprobe import AttnprobeError
from attnprobe.model.borrowing import borrow
from attnprobe.model.load import load_checkpoint

TEXTS = ["the river bank was slow", "a bird ran over the red house", "stone", "the dog and the cat"]
LABELS = [0, 1, 0, 1]


@pytest.fixture
def classifier(tiny):
    """Make a tiny classifier with much dropout, in its head too, in train mode; and its tokenizer."""
    body, tokenizer = tiny("bert")
    config = copy.deepcopy(body.config)
    config.classifier_dropout = config.hidden_dropout_prob = 0.4
    torch.manual_seed(5)
    model = BertForSequenceClassification(config)
    model.bert.load_state_dict(body.state_dict(), strict=False)
    torch.nn.init.normal_(model.classifier.weight)
    return model.train(), tokenizer


COMMANDS = {
    "importance": lambda model, tokenizer: attnprobe.importance(model, TEXTS, LABELS, tokenizer=tokenizer),
    "ablate": lambda model, tokenizer: attnprobe.ablate(model, TEXTS, LABELS, tokenizer=tokenizer),
    "census": lambda model, tokenizer: attnprobe.census(model, TEXTS, tokenizer=tokenizer),
}
MEASURES = {"importance": "importance", "ablate": "score", "census": "entropy"}


@pytest.mark.parametrize("command", COMMANDS)
class TestTraining:
    def test_a_model_in_train_mode_is_asked_in_evaluation_mode(self, classifier, command):
        """What it gives is what the model gives that was put into evaluation mode by hand."""
        model, tokenizer = classifier
        values = COMMANDS[command](model, tokenizer)[MEASURES[command]]
        assert all(part.training for part in model.modules())
        expected = COMMANDS[command](model.eval(), tokenizer)[MEASURES[command]]
        np.testing.assert_array_equal(values, expected)

    def test_steps_go_on_bit_for_bit(self, classifier, command):
        """Losses and weights of a run with a command after every step are those of a run without."""
        model, tokenizer = classifier
        runs = [(copy.deepcopy(model), probing) for probing in (False, True)]
        losses: list[list[float]] = []
        for trained, probing in runs:
            torch.manual_seed(7)
            optimizer = torch.optim.SGD(trained.parameters(), 0.1)
            losses.append([])
            for text, label in zip(TEXTS, LABELS, strict=True):
                given = tokenizer(text, return_tensors="pt")
                loss = trained(**given, labels=torch.tensor([label])).loss
                losses[-1].append(loss.item())
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                if probing:
                    COMMANDS[command](trained, tokenizer)
        assert losses[0] == losses[1]
        plain, probed = (trained.state_dict() for trained, _ in runs)
        assert all(torch.equal(plain[key], probed[key]) for key in plain)

    def test_mixed_precision_of_the_caller_is_left(self, classifier, command):
        model, tokenizer = classifier
        expected = COMMANDS[command](model, tokenizer)[MEASURES[command]]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            values = COMMANDS[command](model, tokenizer)[MEASURES[command]]
            assert torch.is_autocast_enabled("cpu")
        np.testing.assert_array_equal(values, expected)


def test_random_numbers_that_are_drawn_meanwhile(tiny):
    """No measurement draws of torch today, but models of others may."""
    before = torch.get_rng_state()
    with borrow([tiny("bert")[0]]):
        torch.rand(3)
    assert torch.equal(torch.get_rng_state(), before)


def test_random_numbers_of_a_named_model(saved):
    torch.manual_seed(3)
    before = torch.get_rng_state()
    load_checkpoint(str(saved("bert")))
    assert torch.equal(torch.get_rng_state(), before)
    attnprobe.importance("demo", TEXTS[:2])
    assert torch.equal(torch.get_rng_state(), before)


def test_two_threads_on_one_model(tiny):
    """Both get the table that one thread alone gets, and the model is left as it was found."""
    model, tokenizer = tiny("bert")
    before = model.config._attn_implementation
    alone = [_importance(model, tokenizer), _entropy(model, tokenizer)]
    meeting = Barrier(2)

    def work(command):
        meeting.wait()
        return [command(model, tokenizer) for _ in range(2)]

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(work, [_importance, _entropy]))
    for each, expected in zip(results, alone, strict=True):
        for values in each:
            np.testing.assert_array_equal(values, expected)
    assert model.config._attn_implementation == before


def _importance(model, tokenizer):
    return attnprobe.importance(model, TEXTS, tokenizer=tokenizer)["importance"]


def _entropy(model, tokenizer):
    return attnprobe.census(model, TEXTS, statistics=["entropy"], tokenizer=tokenizer)["entropy"]


DENSE = ["query", "key", "value", "dense"]

#: Adapters within the layers of the base, by what a table calls them.
WITHIN = {
    "lora": lambda: peft.LoraConfig(target_modules=DENSE, init_lora_weights=False),
    "ia3": lambda: peft.IA3Config(
        target_modules=["key", "value", "output.dense"], feedforward_modules=["output.dense"],
        init_ia3_weights=False,
    ),
}  # fmt: skip
#: Adapters beside them.
BESIDE = {
    "PREFIX_TUNING": lambda: peft.PrefixTuningConfig(num_virtual_tokens=3, task_type="FEATURE_EXTRACTION"),
    "PROMPT_TUNING": lambda: peft.PromptTuningConfig(num_virtual_tokens=3, task_type="FEATURE_EXTRACTION"),
}


def adapted(model, kind):
    """Put a loud adapter into a copy of a model."""
    torch.manual_seed(3)
    loaded = peft.get_peft_model(copy.deepcopy(model), WITHIN[kind]())  # type: ignore[arg-type]
    for name, weight in loaded.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(weight, std=0.3)
    return loaded.eval()


def compare(table, expected, without="no column"):
    """Hold every number of a table against another's, but for columns that begin with something."""
    for name, values in table.data.items():
        if not name.startswith(without) and np.asarray(values).dtype.kind == "f":
            np.testing.assert_allclose(values, expected.data[name], rtol=1e-3, atol=1e-5, err_msg=name)


@pytest.mark.filterwarnings("ignore")  # of packages about what will be renamed
class TestWrappers:
    @pytest.fixture(scope="class", autouse=True)
    def alone(self, tmp_path_factory):
        """Be a group of one process, as DistributedDataParallel asks for."""
        met = tmp_path_factory.mktemp("group") / "met"
        distributed.init_process_group("gloo", init_method=f"file://{met}", rank=0, world_size=1)
        yield
        distributed.destroy_process_group()

    @pytest.mark.parametrize(
        "wrap",
        [
            DataParallel,
            DistributedDataParallel,
            lambda model: torch.compile(DistributedDataParallel(model), backend="eager"),
        ],
        ids=["DataParallel", "DistributedDataParallel", "compiled DDP"],
    )
    def test_what_is_inside_is_asked(self, tiny, wrap):
        model, tokenizer = tiny("bert")
        wrapped = wrap(copy.deepcopy(model).requires_grad_(True)).train()
        table = attnprobe.census(wrapped, TEXTS[:2], tokenizer=tokenizer)
        compare(table, attnprobe.census(model, TEXTS[:2], tokenizer=tokenizer))
        assert table["model"][0] == "BertModel"
        assert all(part.training for part in wrapped.modules())

    def test_what_is_no_model_of_transformers(self, tiny):
        model, tokenizer = tiny("bert")
        with pytest.raises(AttnprobeError, match=r"Sequential is no model of transformers"):
            attnprobe.census(torch.nn.Sequential(model), TEXTS[:2], tokenizer=tokenizer)
        with pytest.raises(AttnprobeError, match=r"The loaded Linear is no model of transformers\."):
            attnprobe.census(torch.nn.Linear(2, 2), TEXTS[:2], tokenizer=tokenizer)


@pytest.mark.filterwarnings("ignore")  # of packages about what will be renamed
class TestAdapters:
    @pytest.mark.parametrize("kind", WITHIN)
    def test_every_number_is_that_of_the_merged_model(self, tiny, kind):
        """Columns that need the output projection are left out where an adapter changes what it gives."""
        model, tokenizer = tiny("bert")
        loaded = adapted(model, kind)
        table = attnprobe.census(loaded, TEXTS[:2], tokenizer=tokenizer, everything=True)
        merged = copy.deepcopy(loaded).merge_and_unload()
        expected = attnprobe.census(merged, TEXTS[:2], tokenizer=tokenizer, everything=True)
        compare(table, expected, without="qk_")
        bare = attnprobe.census(model, TEXTS[:2], tokenizer=tokenizer)
        assert np.abs(table["entropy"] - bare["entropy"]).max() > 1e-2
        assert "norm_total" not in table.data
        assert "norm_total" in expected.data

    @pytest.mark.parametrize("kind", BESIDE)
    def test_virtual_tokens_are_refused(self, tiny, kind):
        model, tokenizer = tiny("bert")
        loaded = peft.get_peft_model(copy.deepcopy(model), BESIDE[kind]())
        with pytest.raises(AttnprobeError, match=rf"The adapter default \({kind}\) .*get_base_model"):
            attnprobe.census(loaded, TEXTS[:2], tokenizer=tokenizer)

    def test_an_adapter_is_merged_before_it_is_saved(self, tiny, tmp_path):
        model, tokenizer = tiny("bert")
        loaded = adapted(model, "lora")
        with pytest.raises(AttnprobeError, match="while an adapter is in it; merge it first"):
            attnprobe.prune(loaded, TEXTS[:2], tokenizer=tokenizer, save=tmp_path / "pruned", share=0.3)
