"""The sections of a report: measured one after the other, each saved as soon as it is done."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnprobe.commands.call.correlating import compare_sides
from attnprobe.commands.census import census, distance
from attnprobe.commands.compare import correlate
from attnprobe.commands.intervene import importance
from attnprobe.commands.links import coreference, links, syntax
from attnprobe.commands.prune import prune
from attnprobe.commands.roles import roles
from attnprobe.corpus.sources.opening import select
from attnprobe.corpus.sources.text import OpenSource
from attnprobe.corpus.tokens import Tokenizer
from attnprobe.errors import AttnprobeError, UsageError, first_line
from attnprobe.files import write_together
from attnprobe.options import FrequencyOptions, MetricOptions, ModelOptions, TaskOptions, TextOptions
from attnprobe.registry import list_names
from attnprobe.reports.report.contents import OF_A_TASK, OF_GOLD, Section, check_tables_folder
from attnprobe.run.process_group import Ranks
from attnprobe.run.progress import PartProgress
from attnprobe.session.checkpoints import make_state_key
from attnprobe.session.roles import list_gold, name_columns, open_sources, request_roles
from attnprobe.session.session import Call, describe_call, load_model, read_first
from attnprobe.session.texts import GoldLinks, open_gold, open_texts, open_to_replay
from attnprobe.table.destination import read_description
from attnprobe.table.naming import join_names
from attnprobe.table.table import HeadTable

if TYPE_CHECKING:
    from attnprobe.survey.survey import TableRequest
    from attnprobe.table.sequence import SequenceAttention

#: The tables of each section.
_TABLES: Mapping[Section, Sequence[str]] = {
    "census": ("census", "profile"),
    "roles": ("roles",),
    "sentences": (),
    "distance": ("distance",),
    "importance": ("importance",),
    "prune": ("prune",),
    "correlate": ("correlate", "correlate_by_head"),
    "syntax": ("syntax",),
    "coreference": ("coreference",),
    "links": ("links",),
    "groups": ("groups",),
}
#: The table of the atlas, and the statistic in it.
PROFILE = "profile"
#: Sections that are about the texts as they are, and so can share a pass over them.
_OF_THE_TEXTS: tuple[Section, ...] = ("census", "roles", "distance")
#: Options that say what of the data is read, of which no file with gold links has anything.
_OF_THE_DATA = ("split", "dataset_config", "name")
#: Sections that not every model and not all data have.
_OPTIONAL = ("roles", "distance")
#: The file in a folder of tables that says what each was measured of, and by which its content is known.
_MEASURED, _WHAT = "measured.json", "attnprobe report tables 1"


class TableFolder:
    """A folder for the tables of a report, each saved as soon as it is done; without a path, none is.

    A table that lies there is done where it was measured of the same model, data and options, which
    ``measured.json`` says by a hash. Of several processes, the first one saves.
    """

    def __init__(self, path: Path | None, *, overwrite: bool) -> None:
        self.path, self._overwrite = path, overwrite
        self._digest = ""
        self._unsaved: list[str] = []

    def read(self, names: Sequence[str], question: Any) -> dict[str, HeadTable]:
        """Read the tables that answer a question already, those that all processes find."""
        if self.path is None or question is None:
            return {}
        self._digest = hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()
        measured, found = self._measured, dict[str, HeadTable]()
        for name in names:
            path = self.path / f"{name}.csv"
            if measured.get(name) == self._digest and path.is_file():
                found[name] = HeadTable.read(path)
        with Ranks.detect().join() as processes:
            done = set.intersection(*processes.gather(set(found)))
        return {name: table for name, table in found.items() if name in done}

    def check(self, names: list[str]) -> None:
        """Refuse a folder in which tables can't be written."""
        if self.path is None:
            return
        check_tables_folder(self.path, names, overwrite=self._overwrite)
        if (about := self.path / _MEASURED).exists() and not self._measured:
            raise UsageError(f"{about} already exists, and is of something else; choose another folder.")

    def save(self, name: str, table: HeadTable, progress: PartProgress) -> None:
        """Save a table, and of what it was measured; a failure is said, as the page has the table too."""
        if self.path is None or not Ranks.detect().first:
            return
        path = self.path / f"{name}.csv"
        try:
            self.path.mkdir(exist_ok=True)
            if self._overwrite:  # or a table of another report could pass for this one
                path.unlink(missing_ok=True)
            about = {"what": _WHAT, "tables": {**self._measured, name: self._digest}}
            write_together({self.path / _MEASURED: json.dumps(about, indent=1).encode()})
            table.save(path, overwrite=self._overwrite)
        except (AttnprobeError, OSError) as error:
            self._unsaved.append(path.name)
            progress.say(f"{path.name} could not be saved: {error}")

    @property
    def _measured(self) -> Mapping[str, Any]:
        """For each table in the folder, the hash of what it was measured of."""
        about = {} if self.path is None else read_description(self.path / _MEASURED)
        tables = about.get("tables") if about.get("what") == _WHAT else None
        return tables if isinstance(tables, dict) else {}

    @property
    def failure(self) -> str:
        """What could not be saved, in a sentence; empty where everything was."""
        if not self._unsaved:
            return ""
        names = join_names(self._unsaved)
        return f"{names} could not be saved in {self.path}; the page holds all tables."


@dataclass
class Sections:
    """The sections of a report, and what of them is measured."""

    call: Call
    model: Any
    texts: Any
    labels: Any
    out_domain: Any
    wanted: Sequence[Section]
    picked: bool
    roles: Mapping[str, Any]
    tokenizer: Tokenizer | None
    folder: TableFolder
    by_group: str | None = None
    tables: dict[str, HeadTable] = field(default_factory=dict)
    watched: "tuple[Sequence[SequenceAttention], str]" = ((), "")

    def __post_init__(self) -> None:
        self._options: Any = self.call.options
        self._progress = PartProgress(self.call.progress)

    def measure(self) -> None:
        """Measure what does not lie in the folder, and save each section when it is done.

        Raises:
            AttnprobeError: When a section fails; it has the tables of those before it.
        """
        self._read_folder()
        steps = self._plan()
        for number, step in enumerate(steps, start=1):
            with self._progress.part(f"{join_names(step)} ({number} of {len(steps)})"):
                self._measure_step(step)

    def _read_folder(self) -> None:
        names = [name for section in self.wanted for name in _TABLES[section]]
        told = self.folder.path is not None and isinstance(self.model, str | Path)
        self.tables = self.folder.read(names, self._describe_question() if told else None)
        if self.tables:
            verb = "was" if len(self.tables) == 1 else "were"
            self.call.progress.say(f"{join_names(list(self.tables))} {verb} done before.")
        self.folder.check([name for name in names if name not in self.tables])

    def _describe_question(self) -> list[Any]:
        """List all that the numbers depend on."""
        from attnprobe.model.hub import CheckpointFiles

        asked = {name: one for name, one in self.roles.items() if name in {"thresholds", "links_name"}}
        asked |= {} if self.by_group is None else {"by_group": self.by_group}
        files = [self._options.get("frequencies")]
        key = make_state_key("report", {**self._options, **asked}, self._open_all, files, self.call)
        return [key, CheckpointFiles.read(str(self.model), self.call.load).identity]

    def _plan(self) -> list[list[Section]]:
        """List the steps: sections that share a pass over the texts first, then the others one by one."""
        wanted: list[Section] = [one for one in self.wanted if one in _OF_THE_TEXTS]
        shared: list[Section] = [one for one in wanted if one not in self.tables]
        # Roles may be read off a treebank alone, and not off the texts that the census is of.
        if "roles" in shared and (self.texts is None or self._open().kind != "text"):
            shared.remove("roles")
        shared = shared if len(shared) > 1 else []
        steps: list[list[Section]] = [shared] if shared else []
        for section in self.wanted:
            done = bool(_TABLES[section]) and set(_TABLES[section]) <= self.tables.keys()
            if section not in shared and not done:
                steps.append([section])
        return steps

    def _measure_step(self, step: Sequence[Section]) -> None:
        if len(step) > 1:
            try:
                found = self._measure_together(step)
            except AttnprobeError:  # each says for itself what it can't do
                found = {}
            self._keep(found)
            step = [section for section in step if section not in found]
        for section in step:
            try:
                if section == "sentences":
                    self.watched = self._watch()
                else:
                    self._keep(self._measure_alone(section))
            except Exception as error:
                if self.picked or section not in _OPTIONAL or not isinstance(error, AttnprobeError):
                    raise self._explain_failure(section, error) from error
                self._progress.say(f"The section {section} is left out: {error}")

    def _measure_together(self, sections: Sequence[Section]) -> dict[str, HeadTable]:
        from attnprobe.statistics.distance import BY_PAIR
        from attnprobe.statistics.registry import choose, select_statistics
        from attnprobe.statistics.tabulation import HEADS
        from attnprobe.survey.survey import CorpusRequest, TableRequest, survey_corpora

        call, source = self.call, read_first(self._open())
        self._progress.stage("loading", None)
        checkpoint = load_model(self.model, self.tokenizer, call.load, source.kind)

        def request(name: str) -> "TableRequest":
            if name == "roles":
                named = {**self._options, **self.roles, "label_column": None}
                sources = open_sources(self.texts, named)
                return request_roles(checkpoint, {**sources, "texts": source}, call, named)
            command = "distance" if name == "distance" else "census"
            if name == "distance":
                statistics, tabulation = select_statistics("distance"), BY_PAIR
            else:
                statistics, tabulation = choose(None if name == "census" else [PROFILE]), HEADS
            facts = {"command": describe_call(command), "dataset": source.described}
            corpus = CorpusRequest(source.documents, statistics, call.corpus)
            return TableRequest([corpus], source.name, facts, tabulation)

        names = [name for section in sections for name in _TABLES[section]]
        requests = [request(name) for name in names]
        found = survey_corpora(checkpoint, requests, workers=call.workers, progress=self._progress)
        return {name: one.table for name, one in zip(names, found, strict=True)}

    def _measure_alone(self, section: Section) -> dict[str, HeadTable]:
        more = {"tokenizer": self.tokenizer, "progress": self._progress, "threads": None}
        own = self._choose_options(section) | more
        if section == "correlate":
            found = compare_sides(self.texts, self.out_domain, self.model, **own)
            return {"correlate": found.tabulate_pairs(), "correlate_by_head": found.tabulate_heads()}
        of_a_task = [self.labels] if section in OF_A_TASK else []
        texts = self.roles[OF_GOLD[section]] if section in OF_GOLD else self.texts
        measured: dict[str, HeadTable] = {}
        if section not in self.tables:
            measured[section] = _find_command(section)(self.model, texts, *of_a_task, **own)
        if section == "census":
            measured[PROFILE] = census(self.model, texts, statistics=[PROFILE], **own)
        return measured

    def _choose_options(self, section: Section) -> dict[str, Any]:
        own = self._pick(ModelOptions, TextOptions)
        match section:
            case "prune":
                return self._pick(TaskOptions, MetricOptions) | own
            case "importance" | "correlate":  # whose score is the loss
                named = ("metric", "name") if section == "correlate" else ("metric",)
                return {
                    name: value
                    for name, value in (self._pick(TaskOptions) | own).items()
                    if name not in named
                }
            case "syntax" | "coreference" | "links":
                named = name_columns(GoldLinks(OF_GOLD[section]), own)
                return {name: one for name, one in named.items() if name in own and name not in _OF_THE_DATA}
            case "groups":
                return {"by_group": self.by_group} | own | self._pick(FrequencyOptions)
            case "distance":
                return {"all_pairs": True} | own | self._pick(FrequencyOptions)
            case _:
                return own | self._pick(FrequencyOptions) | (dict(self.roles) if section == "roles" else {})

    def _watch(self) -> "tuple[Sequence[SequenceAttention], str]":
        """Read all heads on a few sentences of the data, with how they were chosen, or why there are none."""
        from attnprobe.survey.maps import SENTENCE_TOKENS, choose_sentences, read_sequences

        source, reading = self._open(), self.call.corpus
        if source.kind != "text":
            kind = {"image": "an image", "sound": "a sound"}.get(source.kind)
            return [], f"`attnprobe view` shows all heads on {kind}." if kind else "Videos are not shown."
        self._progress.stage("loading", None)
        checkpoint = load_model(self.model, self.tokenizer, self.call.load, "text")
        documents = select(source.documents, reading.limit, reading.sample, reading.seed)
        chosen, note = choose_sentences(documents, checkpoint.tokenizer)
        try:
            how = {"max_length": SENTENCE_TOKENS, "progress": self._progress}
            seen = read_sequences(checkpoint, chosen, **how)
        except AttnprobeError as error:
            self._progress.say(f"No sentences are shown: {error}")
            return [], f"They could not be shown: {error}"
        return seen, note

    def _keep(self, found: Mapping[str, HeadTable]) -> None:
        self.tables |= found
        for name, table in found.items():
            self.folder.save(name, table, self._progress)

    def _explain_failure(self, section: Section, error: Exception) -> Exception:
        """Say what becomes of the tables before the section that failed."""
        if not self.tables:
            return error
        known = isinstance(error, AttnprobeError)
        why = str(error) if known else f"{type(error).__name__}: {first_line(error)}"
        text = f"The section {section} failed: {why.rstrip('.')}."
        raised = AttnprobeError(text)
        raised.table = dict(self.tables)
        if known:
            raised.exit_code = error.exit_code
        return raised

    def _open(self) -> OpenSource:
        return open_texts(self.texts, named=self._options)

    def _open_all(self) -> list[OpenSource]:
        options = self._options
        found = [open_to_replay(self.texts, self.labels, options, find_labels=True)[1]]
        if self.out_domain is not None:
            found.append(open_to_replay(self.out_domain, None, options, find_labels=True)[1])
        for gold, texts in list_gold(self.roles).items():
            named = name_columns(gold, {**options, "label_column": None})
            found.append(open_gold(texts, gold, named))
        return found

    def _pick(self, *groups: type) -> dict[str, Any]:
        names = list_names(*groups)
        return {name: value for name, value in self._options.items() if name in names}


def _find_command(section: Section) -> Any:
    of_attention = {"census": census, "groups": census, "roles": roles, "distance": distance}
    of_gold = {"syntax": syntax, "coreference": coreference, "links": links}
    of_a_task = {"importance": importance, "prune": prune, "correlate": correlate}
    return {**of_attention, **of_gold, **of_a_task}[section]
