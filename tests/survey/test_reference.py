"""The whole census against an independent computation, architecture by architecture.

The reference, ``by_definition``, runs one text at a time through the model as a user of transformers
would, takes the maps of ``output_attentions=True`` under eager attention, and computes every number with
numpy and scipy from the definitions. What a token is, is read off its name.
"""

import string
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from by_definition import Heard, Rarity, Sample, Text, largest_difference, read, reference
from census_differences import differences

import attnprobe
from attnprobe.attention.kinds import UNEMBEDDING
from attnprobe.corpus.document import Document
from attnprobe.model.load import load_checkpoint
from attnprobe.run.options import CorpusOptions
from attnprobe.run.progress import SilentProgress
from attnprobe.statistics import all_statistics
from attnprobe.statistics.distance import ALL_PAIRS, by_head_table, pair_table
from attnprobe.sums.base import Measurement
from attnprobe.survey.survey import CorpusRequest, TableRequest, TableRun, survey_corpora
from attnprobe.table.table import HeadTable

USUAL = ("bert", "t5", "llama")
OTHERS = (
    "albert", "bart", "bert-unframed", "camembert", "deberta-v2", "distilbert", "electra", "ernie", "esm",
    "eurobert", "marian", "mobilebert", "mpnet", "nomic_bert", "roberta", "umt5", "xlm-roberta", "gpt2",
    "minilm",
)  # fmt: skip
#: Which tokens count is asked where an encoder, a decoder and what lies between are together.
CASES = [
    *((name, False) for name in USUAL), ("t5", True),
    *(pytest.param(name, False, marks=pytest.mark.slow) for name in OTHERS),
]  # fmt: skip
TOLERANCE = 1e-5


# The two side by side


@dataclass
class Case:
    """A model asked both ways about the same texts."""

    expected: dict[str, Sample]
    table: HeadTable
    survey: TableRun
    lengths: list[int]
    kinds: list[str]  # of every layer

    @property
    def sentences(self) -> int:
        """Number of sentences."""
        return len(self.lengths)

    @property
    def differences(self) -> dict[str, float]:
        return differences(self.expected, self.table, self.sentences)

    @property
    def numbers(self) -> list[int]:
        """The number of each layer among those of its kind."""
        return [self.kinds[:layer].count(kind) for layer, kind in enumerate(self.kinds)]

    @property
    def within_layers(self) -> Measurement:
        """The survey as it is without the comparison of all heads of the model."""
        whole = self.survey.measurement
        sums = {name: one for name, one in whole.sums.items() if name != ALL_PAIRS.name}
        return Measurement(sums, whole.sequences, whole.tokens)


@pytest.fixture(scope="module")
def frequencies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """List frequencies that put some of the texts' words before, and some after, 500 other types."""
    listed = {f"filler{i}": 1000.0 - i for i in range(520)}  # the tiny WordPiece vocabulary has these
    listed |= {
        "the": 5000.0,
        "a": 4000.0,
        ".": 4500.0,
        ",": 4400.0,
        "and": 3999.5,
        "bank": 0.5,
        "river": 0.25,
    }
    listed |= {"it": 3000.0, "is": 3000.0, "late": 2000.0, "?": 2500.0, "by": 999.5}
    listed |= {mark + letter: 2222.0 for letter in string.ascii_lowercase[1:] for mark in ("", "##")}
    path = tmp_path_factory.mktemp("frequencies") / "types.tsv"
    path.write_text("token\tfrequency\n" + "".join(f"{name}\t{value}\n" for name, value in listed.items()))
    return path


@pytest.fixture(scope="module")
def case(
    saved: Callable[[str], Path], texts: list[Text], request: pytest.FixtureRequest
) -> Callable[..., Case]:
    """Ask a model both ways; every answer is kept for the tests that follow."""

    def folder(name: str) -> Path:
        return request.getfixturevalue("minilm") if name == "minilm" else saved(name)

    @cache
    def heard(name: str) -> tuple[list[list[Heard]], dict[str, int]]:
        return read(folder(name), texts)

    @cache
    def ask(name: str, *, content_only: bool, listed: Path | None = None) -> Case:
        whole, vocabulary = heard(name)
        known = dict[str, float]()
        if listed is not None:
            rows = listed.read_text().splitlines()[1:]
            known = {token: float(value) for token, value in (row.split("\t") for row in rows)}
        lines = [text[0].keys.names for text in whole]
        rarity = Rarity.of(lines, vocabulary, known)
        expected = reference(whole, rarity, content_only=content_only)
        kinds = [heard.kind for heard in whole[0] for _ in heard.maps]
        options = {"content_only": content_only, "frequencies": listed}
        table = attnprobe.census(str(folder(name)), texts, **options)
        checkpoint = load_checkpoint(str(folder(name)))
        documents = [Document(t) if isinstance(t, str) else Document(*t) for t in texts]
        statistics = [
            statistic
            for statistic in all_statistics().values()
            if statistic.family.name not in {"links", "norm", "rank", "mixing", "modality"}
            and UNEMBEDDING not in statistic.needs  # bodies have none
        ]
        corpus = CorpusRequest(documents, statistics, CorpusOptions(**options))
        (run,) = survey_corpora(checkpoint, [TableRequest([corpus], "texts", {})], progress=SilentProgress())
        return Case(expected, table, run, [len(names) for names in lines], kinds)

    return ask


@pytest.mark.parametrize(("name", "content_only"), CASES)
class TestReference:
    """Every table, every number, within 1e-5."""

    def test_census(self, case: Callable[..., Case], name: str, content_only: bool):
        result = case(name, content_only=content_only)
        wrong = {column: off for column, off in result.differences.items() if not off <= TOLERANCE}
        assert not wrong
        assert (result.table["n"] == result.sentences).all()
        keys = {"model", "dataset", "layer", "head", "n"}
        assert set(result.table.data) - {"attention"} == keys | {*result.differences}
        layers, heads = result.expected["entropy"].mean.shape
        several = set(result.kinds) == {"encoder", "decoder", "cross"}
        assert result.table["layer"].tolist() == [place for place in result.numbers for _ in range(heads)]
        assert result.table["head"].tolist() == [*range(heads)] * layers
        if several:
            assert list(result.table.data)[2] == "attention"
            assert result.table["attention"].tolist() == [kind for kind in result.kinds for _ in range(heads)]

    @pytest.mark.parametrize("whole", [False, True], ids=["layer", "all"])
    def test_pairs(self, case: Callable[..., Case], name: str, content_only: bool, whole: bool):
        result = case(name, content_only=content_only)
        measurement = result.survey.measurement if whole else result.within_layers
        heads = result.expected["entropy"].mean.shape[1]
        table = pair_table("pairs", measurement, result.survey.statistics, result.survey.labels)
        expected = result.expected["jsd_all_pairs" if whole else "jsd"]
        assert table["n"].tolist() == expected.count.ravel().tolist()
        assert largest_difference(table["jsd"], expected.mean) <= TOLERANCE
        assert largest_difference(table["jsd_se"], expected.error) <= TOLERANCE
        root = np.sqrt(expected.mean)
        assert largest_difference(table["js_distance"], root) <= TOLERANCE / root.min()
        assert (
            largest_difference(table["js_distance_se"], expected.error / (2 * root))
            <= TOLERANCE / expected.mean.min()
        )
        rows = list(zip(*(table[c] for c in ("layer_a", "head_a", "layer_b", "head_b")), strict=True))
        numbers = Counter(result.kinds)
        expected_rows = []
        for kind in dict.fromkeys(result.kinds):
            every = [(layer, head) for layer in range(numbers[kind]) for head in range(heads)]
            expected_rows += [(kind, *a, *b) for a, b in combinations(every, 2) if whole or a[0] == b[0]]
        if "attention" in table.data:
            assert [(kind, *row) for kind, row in zip(table["attention"], rows, strict=True)] == expected_rows
        else:
            assert rows == [row[1:] for row in expected_rows]

    def test_by_head(self, case: Callable[..., Case], name: str, content_only: bool):
        result = case(name, content_only=content_only)
        pairs, mean = result.expected["jsd"], result.expected["jsd_mean"]
        layers, heads = mean.mean.shape
        run = result.survey
        table = by_head_table("heads", run.measurement, run.statistics, run.labels)
        assert largest_difference(table["jsd_mean"], mean.mean) <= TOLERANCE
        assert largest_difference(table["jsd_mean_se"], mean.error) <= TOLERANCE
        assert (table["n"] == mean.count.ravel()).all()
        of = {pair: place for place, pair in enumerate(combinations(range(heads), 2))}
        for row, (layer, head) in enumerate(np.ndindex(layers, heads)):
            others = [h for h in range(heads) if h != head]
            place = [of[min(head, h), max(head, h)] for h in others]
            best = int(np.argmin(pairs.mean[layer, place]))
            assert table["nearest_head"][row] == others[best]
            assert largest_difference(table["jsd_nearest"][row], pairs.mean[layer, place[best]]) <= TOLERANCE
            assert (
                largest_difference(table["jsd_nearest_se"][row], pairs.error[layer, place[best]]) <= TOLERANCE
            )


def test_known_frequencies_decide_what_is_rare(case: Callable[..., Case], frequencies: Path):
    result = case("bert", content_only=False, listed=frequencies)
    wrong = {column: off for column, off in result.differences.items() if not off <= TOLERANCE}
    assert not wrong
    without = case("bert", content_only=False).expected
    assert np.abs(result.expected["rare_mass"].mean - without["rare_mass"].mean).max() > 100 * TOLERANCE
    # The two rarest are asked about only outside the 500 most frequent types.
    count = result.expected["rarest_two_share"].count
    assert ((count > 1) & (count < result.sentences)).all()
