"""The sections of a report: measured one after the other, each saved as soon as it is done."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnprobe.commands.census import census, distance
from attnprobe.commands.correlate import correlate, measure_domains
from attnprobe.commands.intervene import importance, prune
from attnprobe.commands.links import coreference, links, syntax
from attnprobe.commands.roles import roles
from attnprobe.corpus.source import OpenSource
from attnprobe.corpus.store import select
from attnprobe.errors import AttnprobeError, UsageError, first_line
from attnprobe.files import hash_file, write_together
from attnprobe.findings.correlation import correlate_sides, tabulate_disagreement
from attnprobe.options import FREE
from attnprobe.reports.report.contents import OF_A_TASK, OF_GOLD, check_tables_folder
from attnprobe.run.options import record_versions
from attnprobe.run.process_group import Ranks
from attnprobe.run.progress import PartProgress
from attnprobe.session.roles import list_gold, name_columns, open_sources, request_roles
from attnprobe.session.session import Call, check_labels, describe_call, read_first, read_task
from attnprobe.session.survey import check_groups
from attnprobe.session.texts import identify_source, open_gold, open_texts, open_to_replay
from attnprobe.table.destination import read_description
from attnprobe.table.naming import join_names
from attnprobe.table.table import HeadTable

if TYPE_CHECKING:
    from attnprobe.survey.survey import TableRequest
    from attnprobe.table.sequence import SequenceAttention

_PROFILE = "profile"
#: Options that say what of the data is read, of which no file with gold links has anything.
_OF_THE_DATA = {"split", "dataset_config", "name", "label_column", "by_group"}
_COLUMNS = {"text_column", "text_pair_column", "document_column", "no_header"}
#: What measures a section, and the options of the report that are not about it.
_MEASURED: Mapping[str, tuple[Any, set[str]]] = {
    "census": (census, {"label_column"}),
    "roles": (roles, {"label_column"}),
    "distance": (distance, {"label_column"}),
    "groups": (census, {"label_column"}),
    "syntax": (syntax, _OF_THE_DATA | _COLUMNS),
    "coreference": (coreference, _OF_THE_DATA | _COLUMNS),
    "links": (links, _OF_THE_DATA),
    "importance": (importance, set()),
    "prune": (prune, set()),
    "correlate": (correlate, {"metric", "name"}),
}
#: The tables of sections that have others than one of their own name.
_TABLES: Mapping[str, Sequence[str]] = {
    "census": ("census", _PROFILE),
    "sentences": (),
    "correlate": ("correlate", "correlate_by_head"),
}
#: Sections that are about the texts as they are, and so can share a pass over them.
_OF_THE_TEXTS = ("census", "roles", "distance")
#: Sections that not every model and not all data have.
_OPTIONAL = ("roles", "distance")
#: The file in a folder of tables that says what each was measured of, and by which its content is known.
_RECORD, _WHAT = "measured.json", "attnprobe report tables 1"


def list_tables(sections: Sequence[str]) -> list[str]:
    """Name the tables of sections; most have one of their own name."""
    return [name for section in sections for name in _TABLES.get(section, (section,))]


@dataclass
class Sections:
    """What the sections are measured of."""

    call: Call
    model: Any
    texts: Any
    labels: Any
    out_domain: Any
    options: dict[str, Any]
    picked: bool  # whether somebody named the sections

    def __post_init__(self) -> None:
        self.progress = PartProgress(self.call.progress)
        self.by_group = self.options["by_group"]
        self.options["by_group"] = None  # of one section alone
        self.roles = self.options | {"label_column": None}

    def check(self, wanted: Sequence[str]) -> None:
        """Refuse data that a later section would refuse, and keep what can be read once only."""
        of_a_task = any(section in OF_A_TASK for section in wanted)
        self.texts, source = open_to_replay(self.texts, self.options, self.labels, find_labels=of_a_task)
        if of_a_task:
            check_labels(source, read_task(self.options, self.labels))
        else:
            read_first(source)
        if "roles" in wanted and (self.picked or list_gold(self.roles) or self.roles["thresholds"]):
            open_sources(self.texts, self.roles)
        if self.by_group is not None:
            source = open_texts(self.texts, {**self.roles, "by_group": self.by_group})
            read_first(check_groups(source, self.by_group))
        if self.out_domain is not None:
            self.out_domain, _ = open_to_replay(self.out_domain, self.options, find_labels=True)

    def hash_request(self) -> str:
        """Hash all that the numbers depend on: model, data, options and versions."""
        from attnprobe.model.locate import locate

        options, free = self.options, {*FREE, *OF_GOLD.values()}
        sources = [open_to_replay(self.texts, options, self.labels, find_labels=True)[1]]
        if self.out_domain is not None:
            sources.append(open_to_replay(self.out_domain, options, find_labels=True)[1])
        for kind, texts in list_gold(self.roles).items():
            sources.append(open_gold(texts, kind, name_columns(kind, self.roles)))
        question = {name: value for name, value in options.items() if name not in free}
        table = options["frequencies"] and hash_file(Path(options["frequencies"]))
        data = [identify_source(source, self.call.corpus) for source in sources]
        checkpoint = locate(str(self.model), self.call.load, weights=False).identity
        key = [question, self.by_group, table, data, checkpoint, record_versions()["versions"]]
        return hashlib.sha256(json.dumps(key, sort_keys=True, default=str).encode()).hexdigest()

    def measure_all(
        self, wanted: Sequence[str], folder: "TableFolder"
    ) -> "tuple[dict[str, HeadTable], Sequence[SequenceAttention], str]":
        """Measure what does not lie in the folder, and save each section when it is done.

        Returns the tables by name, sentences with the attention of all heads, and how these were chosen. An
        error has the tables of the sections before it.
        """
        tables = folder.open(list_tables(wanted), self)
        seen: Sequence[SequenceAttention] = ()
        chosen, measured = "", dict[str, HeadTable]()
        shared = [one for one in wanted if one in _OF_THE_TEXTS and one not in tables]
        # Roles may be read off a treebank alone, and not off the texts that the census is of.
        if "roles" in shared and (self.texts is None or self._open().kind != "text"):
            shared.remove("roles")
        if len(shared) > 1:
            self.progress.part = join_names(shared)
            with suppress(AttnprobeError):  # each says why, alone
                measured = self.measure_together(shared)
        for number, section in enumerate(wanted, start=1):
            self.progress.part = f"{section} ({number} of {len(wanted)})"
            try:
                names = list_tables([section])
                if section == "sentences":
                    seen, chosen = self.read_sentences()
                elif not set(names) <= {*tables, *measured}:
                    measured |= self.measure(section, tables)
                for name in [name for name in names if name not in tables]:
                    tables[name] = measured[name]
                    folder.save(name, tables[name])
            except Exception as error:
                known = isinstance(error, AttnprobeError)
                if known and not self.picked and section in _OPTIONAL:
                    self.progress.say(f"The section {section} is left out: {error}")
                    continue
                if not tables:
                    raise
                why = str(error) if known else f"{type(error).__name__}: {first_line(error)}"
                raised = AttnprobeError(f"The section {section} failed: {why.rstrip('.')}.")
                raised.table = dict(tables)
                raise raised from error
        return tables, seen, chosen

    def _open(self) -> OpenSource:
        return open_texts(self.texts, self.roles)

    def _load(self, kind: str) -> Any:
        return replace(self.call, progress=self.progress).load_checkpoint(modality=kind)

    def measure_together(self, sections: Sequence[str]) -> dict[str, HeadTable]:
        """Measure sections in one pass over the texts; return their tables by name."""
        from attnprobe.statistics.distance import BY_PAIR
        from attnprobe.statistics.registry import choose, select_statistics
        from attnprobe.statistics.tabulation import HEADS
        from attnprobe.survey.survey import CorpusRequest, TableRequest, survey_corpora

        call, source = self.call, read_first(self._open())
        checkpoint = self._load(source.kind)

        def make_request(name: str) -> "TableRequest":
            if name == "roles":
                sources = open_sources(self.texts, self.roles)
                return request_roles(checkpoint, {**sources, "texts": source}, call, self.roles)
            if name == "distance":
                statistics, tabulation = select_statistics("distance"), BY_PAIR
            else:
                statistics, tabulation = choose([_PROFILE] if name == _PROFILE else None), HEADS
            called = describe_call("census" if name == _PROFILE else name)
            facts = {"command": called, "dataset": source.described}
            corpus = CorpusRequest(source.documents, statistics, call.corpus)
            return TableRequest([corpus], source.name, facts, tabulation)

        names = list_tables(sections)
        workers = self.options["workers"]
        results = survey_corpora(
            checkpoint, [make_request(name) for name in names], workers=workers, progress=self.progress
        )
        return {name: result.table for name, result in zip(names, results, strict=True)}

    def measure(self, section: str, done: Mapping[str, Any]) -> dict[str, HeadTable]:
        """Measure a section by its command; return its tables by name, but for its main one if ``done``."""
        function, left_out = _MEASURED[section]
        taken = function.command.keywords.keys() - left_out
        options = {name: value for name, value in self.options.items() if name in taken}
        options |= {"progress": self.progress, "threads": None}
        if section == "correlate":
            options = correlate.command.complete(options)  # type: ignore[attr-defined]
            given = measure_domains(self.model, self.texts, self.out_domain, "gradient", options)
            return {"correlate": correlate_sides(*given), "correlate_by_head": tabulate_disagreement(*given)}
        options |= {"distance": {"all_pairs": True}, "groups": {"by_group": self.by_group}}.get(section, {})
        texts = self.options[OF_GOLD[section]] if section in OF_GOLD else self.texts
        labels = [self.labels] if section in OF_A_TASK else []
        measured = {} if section in done else {section: function(self.model, texts, *labels, **options)}
        if section == "census":
            measured[_PROFILE] = census(self.model, texts, statistics=[_PROFILE], **options)
        return measured

    def read_sentences(self) -> "tuple[Sequence[SequenceAttention], str]":
        """Read all heads on a few sentences of the data, with how they were chosen, or why there are none."""
        from attnprobe.survey.maps import SENTENCE_TOKENS, choose_sentences, read_sequences

        source, reading = self._open(), self.call.corpus
        if source.kind != "text":
            return [], f"`attnprobe view` shows all heads on one {source.kind}."
        checkpoint = self._load("text")
        documents = select(source.documents, reading.limit, reading.sample, reading.seed)
        chosen, note = choose_sentences(documents, checkpoint.tokenizer)
        try:
            how = {"max_length": SENTENCE_TOKENS, "progress": self.progress}
            return read_sequences(checkpoint, chosen, **how), note
        except AttnprobeError as error:
            self.progress.say(f"No sentences are shown: {error}")
            return [], f"They could not be shown: {error}"


class TableFolder:
    """A folder for the tables of a report, each saved as soon as it is done; without a path, none is.

    A table that lies there is done where ``measured.json`` has the hash of the same model, data and options.
    """

    def __init__(self, path: Path | None, overwrite: bool) -> None:
        self.path, self._overwrite = path, overwrite
        self._digest = ""

    def open(self, names: Sequence[str], run: Sections) -> dict[str, HeadTable]:
        """Read the tables that are done, and refuse a folder in which the others can't be written."""
        if self.path is None:
            return {}
        tables: dict[str, HeadTable] = {}
        if isinstance(run.model, str | Path):
            self._digest = run.hash_request()
            for name in names:
                path = self.path / f"{name}.csv"
                if self._digests.get(name) == self._digest and path.is_file():
                    tables[name] = HeadTable.read(path)
            with Ranks.detect().join() as processes:
                done = set.intersection(*processes.gather(set(tables)))
            tables = {name: table for name, table in tables.items() if name in done}
        if tables:
            run.call.progress.say(f"Done before: {join_names(list(tables))}.")
        left = [name for name in names if name not in tables]
        check_tables_folder(self.path, left, overwrite=self._overwrite)
        if (record := self.path / _RECORD).exists() and not self._digests:
            raise UsageError(f"{record} already exists, and is of something else; choose another folder.")
        return tables

    def save(self, name: str, table: HeadTable) -> None:
        """Save a table and the hash of what it answers, in the first process alone."""
        if self.path is None or not Ranks.detect().first:
            return
        path = self.path / f"{name}.csv"
        self.path.mkdir(exist_ok=True)
        if self._overwrite:  # or a table of another report could pass for this one
            path.unlink(missing_ok=True)
        about = {"what": _WHAT, "tables": {**self._digests, name: self._digest}}
        write_together({self.path / _RECORD: json.dumps(about, indent=1).encode()})
        table.save(path, overwrite=self._overwrite)

    @property
    def _digests(self) -> Mapping[str, str]:
        """The hash on record for each table in the folder, of the request that it answers."""
        about = {} if self.path is None else read_description(self.path / _RECORD)
        tables = about.get("tables") if about.get("what") == _WHAT else None
        return tables if isinstance(tables, dict) else {}
