"""Natural guesses work, or are answered: by commands in options, by functions in keywords."""

import ast
import inspect
import re
from pathlib import Path

import pytest
from typer.main import get_command

import attnprobe
from attnprobe import AttnprobeError, commands
from attnprobe.cli.app import COMMANDS, app
from attnprobe.cli.rerun import RERUN
from attnprobe.commands.registry import find_answers
from attnprobe.wording import in_python

GUESSES = {
    "--batch-size": "--batch-tokens",
    "--batch_size": "--batch-tokens",
    "--max-len": "use --max-length",
    "--gpu": "use --device cuda",
    "--cpu": "use --device cpu",
    "--bf16": "use --dtype bfloat16",
    "--fp16": "use --dtype float16",
    "--data": "use --dataset",
    "--output-file": "use --output",
    "--model": "the model comes first",
    "--num-heads": "the checkpoint has the heads that it has",
    "--lang": "no language needs to be named",
    "--statistics": "census has it",
    "--keep-one": "ablate has it",
    "--max-lenght": "--max-length",
}


@pytest.mark.parametrize("guess", GUESSES)
def test_options(refused, guess):
    said = refused("entropy", "demo", guess, "4")
    assert GUESSES[guess] in said
    assert said.endswith("See `attnprobe entropy --help`.")


@pytest.mark.parametrize("command", ["importance", "ablate", "prune"])
def test_layers_where_all_heads_are_measured(refused, command):
    said = refused(command, "demo", "--layers", "0")
    assert "census, entropy and others that read attention have it" in said
    assert '"layers"' not in said


@pytest.mark.parametrize("command", ["mixing", "rank"])
def test_weights_where_logits_are_measured(refused, command):
    said = refused(command, "demo", "--weights", "norm")
    assert (
        "census, entropy, positional, special, rare, modality, distance, links, compare, dynamics have it"
        in said
    )
    with pytest.raises(AttnprobeError, match="no keyword 'weights'"):
        getattr(attnprobe, command)("demo", ["a b"], weights="norm")


@pytest.mark.parametrize(
    ("guess", "says"),
    [
        ("batch_size", "entropy() has no keyword 'batch_size': use batch_tokens, which counts tokens"),
        ("max_seq_length", "use max_length."),
        ("gpu", 'use device="cuda".'),
        ("fp16", 'use dtype="float16".'),
        ("overwrite_output", "save(PATH, overwrite=True)."),
        ("max_lenght", "Did you mean max_length?"),
    ],
)
def test_keywords(guess, says):
    with pytest.raises(AttnprobeError) as caught:
        attnprobe.entropy("demo", ["a b"], **{guess: 4})
    assert says in str(caught.value)
    assert "--" not in str(caught.value)


def test_answers_name_options_that_there_are():
    known = {
        f"--{name.replace('_', '-')}"
        for command in COMMANDS
        for name in inspect.signature(command).parameters
    }
    for guess, said in find_answers().items():
        named = {word.strip(",;:.") for word in said.split() if word.startswith("--")}
        assert named <= known, guess


@pytest.mark.parametrize("guess", ["--plot", "--heatmap", "--chart", "--figure"])
def test_pictures_are_drawn_by_plot(refused, guess):
    assert "`attnprobe plot TABLE` draws it" in refused("entropy", "demo", guess)
    with pytest.raises(AttnprobeError, match=r"table\.plot\(\) does"):
        attnprobe.entropy("demo", ["a b"], **{guess.strip("-"): True})


def test_an_answer_sends_to_what_the_command_has(refused):
    """plot runs on no device, and a function writes no file."""
    assert "use --device" not in refused("plot", "x.csv", "--gpu")
    with pytest.raises(AttnprobeError, match=r"the table that it returns has save\(PATH\)"):
        attnprobe.entropy("demo", ["a b"], out="heads.csv")


@pytest.mark.parametrize(
    ("guess", "command"),
    [
        ("heads", "census"),
        ("heatmap", "plot"),
        ("entropie", "entropy"),
        ("corelate", "correlate"),
        ("visualise", "view"),
        ("head-importance", None),
        ("demo", "census"),
        ("bert/base", "census"),
    ],
)
def test_commands_that_there_are_not(refused, guess, command):
    said = refused(guess, "demo")
    assert guess in said
    if command:
        assert f"`attnprobe {command}" in said


def test_commands_that_are_meant_are_there():
    meant = [guess for command in [*commands.COMMANDS.values(), RERUN] for guess in command.guesses]
    assert len(meant) == len(set(meant)) > 50
    assert not set(meant) & {command.__name__ for command in COMMANDS}


def strings():
    """Give every string of the package that is no docstring of a module, with its file."""
    folder = Path(attnprobe.__file__).parent
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield path.relative_to(folder).as_posix(), node.value


def test_every_option_that_is_named_exists_and_every_keyword():
    """Advice names no option that is gone; and what a function's errors name, some function has."""
    named = {
        (option, where)
        for where, said in strings()
        for option in re.findall(r"(?<![\w(-])--([a-z]+(?:-[a-z]+)*)", said)
    }
    given = {}
    for command in get_command(app).commands.values():
        for parameter in command.params:
            for option in (*parameter.opts, *parameter.secondary_opts):
                given.setdefault(option, []).append(parameter)
    unknown = {(option, where) for option, where in named if f"--{option}" not in given}
    assert {option for option, _ in unknown} <= {"help", "version"}, unknown
    keywords = {
        name
        for function in (getattr(attnprobe, name) for name in attnprobe.__all__)
        if inspect.isfunction(function)
        for name in inspect.signature(function).parameters
    }
    # What is said by the command line alone, or in docstrings.
    only_options = {
        *("anyway", "bom", "check", "format", "full", "help", "no-progress", "output", "precision", "quiet"),
        *("save-clusters", "verbose", "version"),
    }
    for option, where in sorted(named):
        if option in only_options or where.startswith("cli/"):
            continue
        keyword, _, value = in_python(f"--{option}").partition("=")
        assert keyword in keywords, (option, where)
        switch = all(one.is_flag for one in given[f"--{option}"])
        assert value == (str(not option.startswith("no-")) if switch else ""), (option, where)


# Errors in the language of whoever reads them


BOTH = [
    ("max_length", 0, "must be at least 1, not 0."),
    ("max_length", 999, "is more than the 128 tokens that demo takes."),
    ("memory", "much", "must be a size with its unit, such as 256MiB or 2GB, not 'much'."),
    ("text_column", "x", "embedded text is text without columns"),
]


@pytest.mark.parametrize(("keyword", "value", "says"), BOTH)
def test_errors_speak_python_to_programs_and_options_to_commands(refused, keyword, value, says):
    option = f"--{keyword.replace('_', '-')}"
    said = refused("entropy", "demo", option, value) if value else None  # Typer refuses a 0 itself
    if said is not None:
        assert says in said
        assert option in said
    with pytest.raises(AttnprobeError) as caught:
        attnprobe.entropy("demo", **{keyword: value})
    assert says in str(caught.value)
    assert keyword in str(caught.value)
    assert "--" not in str(caught.value)


def test_remarks_speak_python_too(tmp_path):
    path = tmp_path / "two.csv"
    path.write_text("sentence,text\na b,The parcel came late.\n")
    with pytest.warns(attnprobe.AttnprobeWarning, match="name another with text_column"):
        attnprobe.entropy("demo", path)


def test_tables_speak_python_too(tmp_path):
    table = attnprobe.entropy("demo", ["a b"])
    table.save(tmp_path / "heads.csv")
    with pytest.raises(AttnprobeError, match="or add overwrite=True to replace it"):
        table.save(tmp_path / "heads.csv")


@pytest.mark.parametrize(
    ("said", "spelled"),
    [
        ("--objective masked-lm needs labels", 'objective="masked-lm" needs labels'),
        ("leave out --device cuda:0.", 'leave out device="cuda:0".'),
        ("add --save DIR --share 0.4.", "add save=DIR share=0.4."),
        ("give a file for --rank-data or -d.", "give a file for rank_texts or texts."),
        ("another --objective, or pass --force-head.", "another objective, or pass force_head=True."),
        ("--memory 64MiB is too little", 'memory="64MiB" is too little'),
        ("--metric bleu needs sacrebleu", 'metric="bleu" needs sacrebleu'),
        ("the file a--b and --", "the file a--b and --"),
    ],
)
def test_spelling(said, spelled):
    assert in_python(said) == spelled


# Layers


def rows(table):
    return list(zip(table["layer"].tolist(), table["head"].tolist(), table["entropy"].tolist(), strict=True))


@pytest.mark.parametrize("layers", ["0,2-3", "2 - 3, 0", [3, 0, 2]])
def test_layers(layers):
    texts = ["The parcel came late.", "Who rang?"]
    whole, some = attnprobe.entropy("demo", texts), attnprobe.entropy("demo", texts, layers=layers)
    assert rows(some) == [row for row in rows(whole) if row[0] in {0, 2, 3}]
    assert some.notes[-1] == "Only rows of layers 0, 2, 3 are shown; all layers were measured."
    assert some.provenance["layers"] == [0, 2, 3]
    pairs = attnprobe.distance("demo", texts, layers=layers, all_pairs=True)
    assert len(pairs) == 12 * 11 // 2
    assert {*pairs["layer_a"].tolist(), *pairs["layer_b"].tolist()} == {0, 2, 3}


def test_layers_of_a_command(invoke, refused):
    code, out, error = invoke("entropy", "demo", "-L", "2", "--layers", "5")
    assert (code, out.count("\n")) == (0, 5)
    assert "Only rows of layer 5 are shown" in error
    assert "demo has layers 0 to 5, and no layer 6." in refused("entropy", "demo", "--layers", "4-6")


@pytest.mark.parametrize("layers", ["", "a", "3-1", "-1", "1,,2", [-1], [1.5], [True], [], 0.5])
def test_what_names_no_layers(layers):
    with pytest.raises(AttnprobeError, match="layers must be numbers from 0"):
        attnprobe.entropy("demo", ["a b"], layers=layers)


# Tables, threads, packages


@pytest.mark.parametrize(
    ("guess", "says"),
    [
        ("heatmap", "table.plot()"),
        ("frame", "to_pandas"),
        ("to_excel", "save"),
    ],
)
def test_what_a_table_is_asked_first(guess, says):
    table = attnprobe.entropy("demo", ["a b"])
    with pytest.raises(AttributeError, match=f"a HeadTable has no '{guess}'") as caught:
        getattr(table, guess)()
    assert says in str(caught.value)
    assert not hasattr(table, "nonsense")


def test_too_many_threads(invoke, monkeypatch):
    from attnprobe.run import preparation

    def broken(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(preparation, "examine", broken)
    code, out, error = invoke("entropy", "demo")
    assert (code, out) == (2, "")
    assert error.endswith("this machine starts no more threads; try a smaller --threads or --workers.\n")


def test_packages_are_named_by_their_own_names():
    """No index has an attnprobe yet, and who registers it one day may be anybody."""
    from pathlib import Path

    folder = Path(attnprobe.__file__).parent
    assert [path for path in folder.rglob("*.py") if "attnprobe[" in path.read_text("utf-8")] == []
