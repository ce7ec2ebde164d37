"""rerun: a table is made again from what is on record of it, and what differs is said."""

import base64
import io
import json
import re
import shutil
import zlib
from pathlib import Path

import pandas
import pytest

import attnprobe
from attnprobe import AttnprobeError
from attnprobe.cli.app import run
from attnprobe.corpus.sources import text as text_of
from attnprobe.reports.page import read_page

pytestmark = pytest.mark.slow  # every record is run again

FREQUENCIES = "the\t90\nof\t40\nparcel\t1\n"
#: Words that stand for a command each; demo reads the text in the current folder.
COMMANDS = [
    "census demo -d text.txt -o heads.csv -q",
    "entropy demo -d text.txt --content_only --batch-tokens 64 --format csv -o heads.csv",
    "rare demo --dataset=text.txt --frequencies counts.tsv -o heads.csv --bom",
    "importance demo -d text.txt -o heads.csv --precision 5",
    "prune demo -L 4 --random-orders 0 --step 0.5 --by order.csv:entropy -o heads.csv",
    "compare demo demo -d text.txt --measure entropy -o heads.csv --no-nearest",
    "correlate demo --in-domain text.txt --out-domain other.txt -o heads.csv",
    "correlate demo demo -d text.txt -o heads.csv",
    "dynamics demo demo --steps 1,2 -d text.txt --measure entropy -o heads.csv --resume state",
    "merge order.csv part.json -o heads.csv",
    "induction demo --length 6 --sequences 4 -o heads.csv",
    "roles demo -d text.txt -L 3 -o heads.csv",
    "syntax demo -L 4 -o heads.csv",
    "correlate --in-domain order.csv --out-domain part.json --column entropy -o heads.csv",
    "compare demo demo -d text.txt --measure rare --frequencies counts.tsv -o heads.csv",
    "dynamics demo demo --steps 1,2 -d text.txt --measure rare --frequencies counts.tsv -o heads.csv",
    "dynamics demo demo --steps 1,2 -d text.txt --measure prune --prune-by order.csv:entropy "
    "--prune-step 0.5 --random-orders 0 -o heads.csv",
    "prune demo -L 4 --random-orders 0 --step 0.5 --by norm,order.csv:entropy,magnitude -o heads.csv",
    "importance demo -L 4 --method ig --nodes 2 -o heads.csv",
    "prune demo -d text.txt --random-orders 0 --step 0.5 --by gradient --rank-data other.txt -o heads.csv",
    "roles demo -d text.txt -L 3 --treebank a.conllu --treebank sub/a.conllu --coreference gap.tsv "
    "--frequencies counts.tsv -o heads.csv",
    "entropy demo -d text.txt --sample 2 --seed 5 -o heads.csv",
    "syntax demo -d a.conllu -d sub/a.conllu --by-group file --min-links 2 -o heads.csv",
    "patch demo -L 4 --noising --fast --top 2 -o heads.csv",
]


@pytest.fixture
def here(tmp_path, monkeypatch, text):
    """Work in a folder with a text, another one, and tables of both."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.txt").write_text("It rained all night.\nNobody rang, and the door was shut.\n")
    (tmp_path / "counts.tsv").write_text(FREQUENCIES)
    shipped = Path(text_of.__file__).parent / "sentences"
    treebank, snippets = next(shipped.glob("*.conllu")), next(shipped.glob("*.tsv"))
    (tmp_path / "sub").mkdir()
    shutil.copy(treebank, tmp_path / "a.conllu")
    (tmp_path / "sub" / "a.conllu").write_text("\n\n".join(treebank.read_text().split("\n\n")[:9]) + "\n\n")
    shutil.copy(snippets, tmp_path / "gap.tsv")
    return tmp_path


@pytest.fixture
def parts(here):
    for name, data in (("order.csv", "text.txt"), ("part.json", "other.txt")):
        assert run(["entropy", "demo", "-d", data, "-q", "-o", name]) == 0


@pytest.fixture
def table(here):
    """Write a table of the text."""
    assert run(["entropy", "demo", "-d", "text.txt", "-q", "-o", "heads.csv"]) == 0
    return here / "heads.csv"


def rewritten(table, **changes):
    """Change what is on record of a table."""
    path = table.with_name(f"{table.name}.json")
    about = json.loads(path.read_text())
    about["provenance"] |= changes
    path.write_text(json.dumps(about))
    return table


@pytest.mark.parametrize(
    "line", [*COMMANDS[:12], *(pytest.param(one, marks=pytest.mark.exhaustive) for one in COMMANDS[12:])]
)
def test_the_same_bytes(invoke, parts, here, line):
    assert run([*line.split()]) == 0
    code, out, error = invoke(
        "rerun", "heads.csv", "-o", "again.csv", *(["--bom"] if "--bom" in line else [])
    )
    assert code == 0, error
    assert out == ""
    assert (here / "again.csv").read_bytes() == (here / "heads.csv").read_bytes()
    assert "nothing differs here from what is on record." in error
    assert error.splitlines()[-1] == "attnprobe: the numbers are those on record, digit for digit."
    assert "options left out, which say where things go: " in error
    made = json.loads((here / "again.json").read_text())["provenance"]["command"]
    assert made[:2] == ["attnprobe", line.split()[0]]
    assert "again.csv" in made  # so that the new table can be made again too
    assert not {"--resume", "-q", "--quiet"} & set(made)


def test_standard_output_is_the_default(invoke, table):
    code, out, error = invoke("rerun", "heads.csv")
    assert (code, out) == (0, table.read_text())
    assert "on record: attnprobe entropy demo -d text.txt -q -o heads.csv" in error
    assert invoke("rerun", "heads.csv", "-q")[2] == ""


@pytest.mark.parametrize("ending", ["json", "parquet", "xlsx", "md"])
def test_every_format(invoke, here, ending):
    name = f"heads.{ending}"
    assert run(["entropy", "demo", "-d", "text.txt", "-o", name, "--precision", "4"]) == 0
    code, out, error = invoke("rerun", name, "--format", "csv")
    assert code == 0
    assert out.startswith("model,dataset,layer,head,n,entropy")
    assert ("digit for digit" in error) == (ending != "md")  # which can't be read as a table
    assert invoke("rerun", "heads.json", "--check")[0] == 0  # the json beside it, or the table itself


def test_what_differs_is_said(invoke, table):
    record = json.loads(table.with_name(f"{table.name}.json").read_text())["provenance"]
    versions = record["versions"] | {"torch": "1.0", "a\x1b[31mbc": "7"}
    rewritten(table, versions=versions, threads=77, device="cuda:3", processes=4)
    code, out, error = invoke("rerun", "heads.csv", "--check")
    assert (code, out) == (1, "")
    assert f"torch is {record['versions']['torch']} here, and 1.0 on record." in error
    assert "abc is not known here, and 7 on record." in error
    assert f"The number of threads is {record['threads']} here, and 77 on record." in error
    assert "The number of processes is 1 here, and 4 on record." in error
    assert "The device is cpu here, and cuda:3 on record." in error
    assert invoke("rerun", "heads.csv", "-o", "again.csv")[0] == 0  # versions are only said


def test_other_data_are_refused_and_their_numbers_compared(invoke, refused, table):
    (table.parent / "text.txt").write_text(
        "It rained all night, and the door was shut.\nWho rang?\nNobody.\n"
    )
    code, _, error = invoke("rerun", "heads.csv", "--check")
    assert code == 1
    assert "text.txt has changed since the record (SHA-256 " in error
    assert refused("rerun", "heads.csv").endswith("add --anyway to run the command all the same.")
    code, out, error = invoke("rerun", "heads.csv", "--anyway")
    assert code == 1
    assert out.startswith("model,dataset")
    assert "the numbers differ from those on record in " in error
    assert "beyond rounding: " in error


def test_data_that_are_gone(invoke, refused, table):
    (table.parent / "text.txt").unlink()
    code, _, error = invoke("rerun", "heads.csv", "--check")
    assert code == 1
    assert "There is no file text.txt; the command names it as seen from the folder it was run in" in error
    refused("rerun", "heads.csv")


#: What somebody put into the command: words, and what is said of them.
PUT_IN = [
    (["-d", "secret.txt"], "secret.txt is read by the command, and is not on record."),
    (["-d", "sub/secret.txt"], "sub/secret.txt is read by the command, and is not on record."),
    (["--frequencies", "secret.txt"], "secret.txt is read by the command, and is not on record."),
    (["-d", "some/dataset"], "some/dataset is read by the command, and is not on record."),
    (["-d", "-"], "- is read by the command, and is not on record."),
    (["-d", "sub/text.txt"], "sub/text.txt has changed since the record"),
]


@pytest.mark.parametrize(("words", "said"), PUT_IN)
def test_what_is_read_and_not_on_record_is_said_and_not_opened(
    invoke, refused, table, monkeypatch, words, said
):
    for name in ("secret.txt", "sub/secret.txt", "sub/text.txt"):
        (table.parent / name).write_text("a secret\t9\n")
    command = ["attnprobe", "entropy", "demo", "-d", "text.txt", *words]
    rewritten(table, command=command)
    opened = []
    before = Path.open
    monkeypatch.setattr(
        Path, "open", lambda path, *given, **more: opened.append(path.name) or before(path, *given, **more)
    )
    code, out, error = invoke("rerun", "heads.csv", "--check")
    assert (code, out) == (1, "")
    assert said in error
    assert "nothing differs" not in error
    assert refused("rerun", "heads.csv").endswith("add --anyway to run the command all the same.")
    assert "secret.txt" not in opened


def test_a_checkpoint_or_data_without_a_hash_on_record(invoke, refused, table):
    """As a stranger may write it, so that nothing seems to differ."""
    (table.parent / "secret.txt").write_text("a secret\n")
    rewritten(
        table,
        command=["attnprobe", "entropy", "demo", "-d", "secret.txt"],
        dataset={"name": "secret.txt", "sha256": None},
    )
    code, _, error = invoke("rerun", "heads.csv", "--check")
    assert code == 1
    assert "There is no hash of secret.txt on record to compare with." in error
    rewritten(table, command=["attnprobe", "entropy", "demo"], dataset={"name": "embedded"}, model={})
    code, _, error = invoke("rerun", "heads.csv", "--check")
    assert code == 1
    assert "demo is read by the command, and is not on record." in error


def test_data_that_never_end_are_not_read(invoke, table):
    rewritten(table, command=["attnprobe", "entropy", "demo", "-d", "/dev/text.txt"])
    assert invoke("rerun", "heads.csv", "--check")[0] == 1
    rewritten(
        table,
        command=["attnprobe", "entropy", "demo", "-d", "/dev/zero"],
        dataset={"name": "zero", "sha256": "0"},
    )
    code, _, error = invoke("rerun", "heads.csv", "--check")
    assert code == 1
    assert "/dev/zero was a file on record, and is none here." in error


def test_another_checkpoint(invoke, refused, here, saved):
    shutil.copytree(saved("bert"), here / "model")
    assert run(["entropy", "model", "-d", "text.txt", "-q", "-o", "heads.csv"]) == 0
    assert invoke("rerun", "heads.csv", "--check")[0] == 0
    weights = here / "model" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 64
    weights.write_bytes(content)
    (here / "model" / "config.json").rename(here / "model" / "old.json")
    shutil.copy(here / "model" / "old.json", here / "model" / "config.json")
    code, _, error = invoke("rerun", "heads.csv", "--check")
    assert code == 1
    assert "model: model.safetensors has changed since the record." in error
    assert "model: old.json is not on record." in error
    assert "another checkpoint" in refused("rerun", "heads.csv")
    shutil.rmtree(here / "model")
    code, _, error = invoke("rerun", "heads.csv", "--check")
    assert code == 1
    assert "model" in error
    refused("rerun", "heads.csv")


def test_every_checkpoint_of_a_pattern(invoke, here, saved):
    for step in (1, 2):
        shutil.copytree(saved("bert"), here / f"step{step}")
    assert run(["dynamics", "step*", "-d", "text.txt", "--measure", "entropy", "-q", "-o", "heads.csv"]) == 0
    assert invoke("rerun", "heads.csv", "--check")[0] == 0
    shutil.copytree(here / "step1", here / "step3")
    (here / "step2" / "vocab.txt").write_text("other\n")
    (here / "step2" / "tokenizer.json").unlink(missing_ok=True)
    code, _, error = invoke("rerun", "heads.csv", "--check")
    assert code == 1
    assert "step3 is read by the command, and is not on record." in error
    assert "step2: " in error
    assert "attnprobe: step1: " not in error


def test_a_page(invoke, refused, table):
    """A page is parsed, and nothing of it runs."""
    record = json.loads(table.with_name(f"{table.name}.json").read_text())["provenance"] | {"tables": []}
    block = json.dumps(record).replace("<", "\\u003c")
    page = (
        "<!doctype html><title>x</title><!-- <script type='application/json' id='attnprobe-record'>{} -->"
        "<script>let s = \"<script type='application/json' id='attnprobe-record'>\";</script>"
        f'<script type="application/json" id="attnprobe-record">{block}</script>'
    )
    path = table.with_name("report.html")
    path.write_text(page)
    code, out, error = invoke("rerun", "report.html")
    assert (code, out) == (0, table.read_text())
    assert "nothing differs here" in error
    for content in (
        "<p>none</p>",
        page + page,
        page.replace(block, "{"),
        page.replace(block, "[]"),
        "[" * 9999,
    ):
        path.write_text(content)
        refused("rerun", "report.html")
    path.write_bytes(b"\xff\xfe\x00")
    refused("rerun", "report.html")


def test_a_function_of_python(refused, invoke, here):
    attnprobe.entropy("demo", "text.txt").save("heads.csv")
    assert "only command lines can be run again" in refused("rerun", "heads.csv")
    error = invoke("rerun", "heads.csv")[2]
    assert "on record: attnprobe.entropy" in error
    assert "checkpoint demo: model.safetensors with SHA-256 " in error
    assert "data text.txt: SHA-256 " in error
    assert "options: max_length 128" in error


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["attnprobe", "entropy", "demo", "--trust-remote-code"], "runs Python code"),
        (["attnprobe", "entropy", "demo", "--trust_remote_code"], "runs Python code"),
        (["attnprobe", "entropy", "demo", "--allow-bin"], "pickled weights"),
        (["attnprobe", "rerun", "heads.csv"], "runs another command again"),
        (["attnprobe", "view", "demo", "It rained."], "draws a picture"),
        (["attnprobe", "plot", "heads.csv"], "draws a picture"),
        (["attnprobe", "nonsense\x1b[2J"], "none that this version has: nonsense."),
        (["attnprobe", "--version"], "none that this version has"),
        (["attnprobe"], "none of attnprobe"),
        (["rm", "-rf", "/\x1b]0;x\x07\n"], "none of attnprobe: rm -rf '/ '."),
        (["attnprobe", "entropy", "demo", "--nonsense\x1b[2J"], "No such option: --nonsense"),
        (["attnprobe", "entropy", "demo", "other"], "a word too many: other."),
        (["attnprobe", "entropy", "demo", "-d"], "can't be read"),
        ([], "no command on record"),
        ({"a": 1}, "no command on record"),
        (["attnprobe", 7], "no command on record"),
        (None, "no command on record"),
    ],
)
def test_a_stranger_s_record(refused, table, command, said):
    sentence = refused("rerun", rewritten(table, command=command).name)
    assert said in sentence
    assert "\x1b" not in sentence
    assert refused("rerun", table.name, "--check") == sentence


def test_names_on_record_steer_no_terminal_and_fill_no_screen(invoke, table):
    command = ["attnprobe", "entropy", "demo", *["-d", "text.txt"] * 5000, "-d", "t\u202e\x1b[2J.txt"]
    code, _, error = invoke("rerun", rewritten(table, command=command).name)
    assert code == 2
    assert "\u202e" not in error
    assert "\x1b" not in error
    assert "characters more" in error
    assert len(error) < 10_000


def test_repeated_trust_is_passed_on(invoke, table):
    command = ["attnprobe", "entropy", "demo", "-d", "text.txt", "--trust-remote-code"]
    rewritten(table, command=command)
    assert invoke("rerun", "heads.csv", "--trust-remote-code", "-o", "again.json")[0] == 0
    made = json.loads((table.parent / "again.json").read_text())["provenance"]
    assert made["model"]["trust_remote_code"] is True


@pytest.mark.parametrize(
    "changes",
    [
        {"versions": 7, "model": [], "dataset": "x", "threads": "many", "device": {"a": 1}},
        {"model": {"weights": {"../../etc/passwd": 1}, "commit": 3}, "dataset": {"name": 3, "sha256": []}},
        {"steps": [1, {"checkpoint": "demo", "model": 3}], "other": 2, "tables": [None], "pruning": 1},
    ],
)
def test_a_record_of_other_types(invoke, table, changes):
    code, _, error = invoke("rerun", rewritten(table, **changes).name, "--check")
    assert code in (0, 1)
    assert "unexpected" not in error


def test_hidden_tokens_and_help_do_nothing(invoke, table):
    command = ["attnprobe", "entropy", "--token", "***", "--help", "-d", "text.txt", "--save", "--", "demo"]
    command.remove("--save")
    rewritten(table, command=command)
    code, out, error = invoke("rerun", "heads.csv")
    assert (code, out) == (0, table.read_text())
    assert "that of `hf auth login` or HF_TOKEN is used" in error


def test_arguments_stay_arguments(invoke, table):
    """A model whose name looks like an option is none."""
    rewritten(table, command=["attnprobe", "entropy", "--", "--trust-remote-code"])
    code, _, error = invoke("rerun", "heads.csv", "--anyway")
    assert code == 2
    assert "trust" in error.splitlines()[-1]
    assert "runs Python code" not in error


def test_tables_of_a_report_are_not_written_again(invoke, here):
    words = ["report", "demo", "-L", 4, "--sections", "census", "-q"]
    assert invoke(*words, "-o", here / "page.html", "--save-tables", here / "tables")[0] == 0
    code, _, said = invoke("rerun", here / "page.html", "-o", here / "again.html")
    assert code == 0, said
    assert "--save-tables" in said
    assert (here / "again.html").exists()


def test_a_pruned_checkpoint_is_not_written(invoke, here):
    words = ["prune", "demo", "-L", "4", "--random-orders", "0", "--step", "0.5", "-o", "heads.csv"]
    assert run([*words, "--save", "less", "--share", "0.5", "-q"]) == 0
    shutil.rmtree(here / "less")
    code, _, error = invoke("rerun", "heads.csv", "-o", "again.csv")
    assert code == 0
    assert "--save, --share" in error
    assert not (here / "less").exists()
    assert (here / "again.csv").read_bytes() == (here / "heads.csv").read_bytes()


def test_the_table_on_record_is_not_replaced(refused, table):
    before = table.read_bytes()
    refused("rerun", "heads.csv", "-o", "heads.csv", "--overwrite")
    refused("rerun", "heads.csv", "-o", "heads.csv")
    assert table.read_bytes() == before


def test_no_record(refused, here):
    (here / "bare.csv").write_text("layer,head,entropy\n0,0,1.5\n")
    assert "no record of how it was made" in refused("rerun", "bare.csv")
    refused("rerun", "missing.csv")
    refused("rerun", "missing.html")
    refused("rerun", "text.txt")
    (here / "deep.json").write_text('{"rows": ' + "[" * 100_000)
    refused("rerun", "deep.json")


def test_rounding_is_told_from_other_numbers(invoke, table):
    lines = table.read_text().splitlines()
    place = lines[0].split(",").index("entropy")
    for factor, code, said in ((1 + 1e-9, 0, "but for rounding"), (1.001, 1, "beyond rounding")):
        cells = lines[1].split(",")
        cells[place] = repr(float(cells[place]) * factor)
        table.write_text("\n".join([lines[0], ",".join(cells), *lines[2:]]) + "\n")
        found, _, error = invoke("rerun", "heads.csv")
        assert found == code
        assert f"in 1 of 10 columns, {said}: entropy (" in error or f"columns, {said}: entropy (" in error
    table.write_text("\n".join(lines[:-1]) + "\n")
    found, _, error = invoke("rerun", "heads.csv")
    assert found == 1
    assert "there are 24 rows, and 23 on record." in error


def test_help(invoke):
    code, out, _ = invoke("rerun", "--help")
    assert code == 0
    assert "attnprobe rerun heads.csv --check" in out


def test_a_record_in_python(table):
    found = attnprobe.record("heads.csv")
    assert found.command[:3] == ("attnprobe", "entropy", "demo")
    assert found.table["entropy"].tolist() == attnprobe.HeadTable.read(table)["entropy"].tolist()
    assert found.differences(["demo"], ["text.txt"]) == []
    (changed,) = found.differences(
        ["demo"], [table.with_name("counts.tsv").rename(table.with_name("text.txt"))]
    )
    assert changed.decisive
    with pytest.raises(AttnprobeError, match="There is no file"):
        attnprobe.record("nothing.csv")


def test_a_long_table_of_a_report_has_fewer_digits_and_is_compared_in_these(invoke, here, monkeypatch):
    """Those of 276 pairs, where a page holds 100 rows exactly."""
    monkeypatch.setattr("attnprobe.reports.page._EXACT", 100)
    page, pairs = here / "page.html", here / "pairs.csv"
    shared = ["demo", "-L", 4, "-q", "-o"]
    assert invoke("report", *shared, page, "--sections", "distance,census")[0] == 0
    assert invoke("distance", *shared, pairs, "--all-pairs", "--precision", 8)[0] == 0
    _, tables = read_page(page)
    assert tables["distance"] == pairs.read_bytes()
    assert invoke("census", *shared, here / "heads.csv")[0] == 0
    assert tables["census"] == (here / "heads.csv").read_bytes()
    said = invoke("rerun", page, "-o", here / "again.html")[2]
    assert "the numbers of census, distance and profile are those on record, digit for digit" in said


def test_a_report_says_whether_its_numbers_are_the_same(invoke, here):
    page = here / "page.html"
    assert invoke("report", "demo", "-L", 4, "--sections", "census,distance", "-q", "-o", page)[0] == 0
    code, _, said = invoke("rerun", page, "-o", here / "again.html")
    assert code == 0
    assert "the numbers of census, distance and profile are those on record, digit for digit" in said
    _, tables = read_page(page)
    assert set(tables) == {"census", "distance", "profile"}
    frame = pandas.read_csv(io.BytesIO(tables["census"]))
    frame.loc[3, "previous"] += 0.25  # what somebody else's machine may have found
    other = base64.b64encode(zlib.compress(frame.to_csv(index=False).encode())).decode()
    content = page.read_text()
    before = re.search(r'id="table-0">([^<]*)<', content)
    assert before is not None
    page.write_text(content.replace(before[1], other))
    code, _, said = invoke("rerun", page, "-o", here / "more.html")
    assert code == 1
    assert "census: the numbers differ from those on record in 1 of" in said
    assert "previous (" in said
    assert "the numbers of distance and profile are those on record, digit for digit" in said
    assert (here / "more.html").exists()
    page.write_text(content.replace(before[1], before[1][: len(before[1]) // 2 // 4 * 4]))
    code, _, said = invoke("rerun", page, "-o", here / "most.html")
    assert code == 2
    assert said.startswith("attnprobe: The table census of ")
    assert "is damaged" in said
