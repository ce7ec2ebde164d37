"""The sections of a report: measured one after the other, each kept as soon as it is done."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnprobe.commands.call.assigning import RoleOptions, name_columns, open_sources, request_roles
from attnprobe.commands.call.call import Call, load_model, read_first
from attnprobe.commands.call.correlating import compare_sides
from attnprobe.commands.call.quick import Budget, describe_section, measure_budget, write_command
from attnprobe.commands.call.record import describe_call
from attnprobe.commands.call.several import make_state_key
from attnprobe.commands.call.surveying import ask_census, ask_distance
from attnprobe.commands.call.texts import Gold, open_gold, open_texts, open_to_replay
from attnprobe.commands.census import census, distance
from attnprobe.commands.compare import correlate
from attnprobe.commands.intervene import importance
from attnprobe.commands.links import coreference, links, syntax
from attnprobe.commands.prune import prune
from attnprobe.commands.roles import roles
from attnprobe.corpus.sources.opening import select
from attnprobe.corpus.sources.order import Order
from attnprobe.corpus.sources.text import OpenSource
from attnprobe.corpus.tokenization import Tokenizer
from attnprobe.errors import AttnprobeError, StateError, UnfinishedError, first_line
from attnprobe.files import write_together
from attnprobe.intervention.request import peek
from attnprobe.option import Group
from attnprobe.options import Batches, Frequencies, Hub, Metric, Model, Reading, Task, list_names
from attnprobe.reports.report_page.report import OF_A_TASK, OF_GOLD, Section
from attnprobe.reports.report_page.sentences import FILE, Sentences, encode_sentences
from attnprobe.run.process_group import Ranks
from attnprobe.run.progress import PartProgress
from attnprobe.run.state import TableStore, decode_table, encode_table
from attnprobe.table.head_table import HeadTable
from attnprobe.table.naming import join_names
from attnprobe.tasks import OBJECTIVES, RELATIONS

if TYPE_CHECKING:
    from attnprobe.survey.survey import TableRequest

#: The tables of each section by the numbers that a state knows them by; several sections share number 0.
_TABLES: dict[Section, dict[str, int]] = {
    "census": {"census": 1, "profile": 12},
    "roles": {"roles": 2},
    "sentences": {},
    "distance": {"distance": 3},
    "importance": {"importance": 4},
    "prune": {"prune": 5},
    "correlate": {"correlate": 6, "correlate_by_head": 7},
    "syntax": {"syntax": 8},
    "coreference": {"coreference": 9},
    "links": {"links": 10},
    "groups": {"groups": 11},
}
_NUMBERS = {name: number for tables in _TABLES.values() for name, number in tables.items()}
_SHARED = 0
#: The table of the atlas, and the statistic in it.
PROFILE = "profile"
#: Sections that are about the texts as they are, and so can share a pass over them.
_OF_THE_TEXTS: tuple[Section, ...] = ("census", "roles", "distance")
#: Options that say what of the data is read, of which no file with gold links has anything.
_OF_THE_DATA = ("split", "dataset_config", "name")
#: Sections that not every model and not all data have.
_OPTIONAL = ("roles", "distance")


class TableFolder:
    """A folder for the tables of a report, each saved as soon as it is done; without a path, none is.

    What can't be saved then is tried again at the end. Of several processes, the first one saves.
    """

    def __init__(self, path: Path | None, *, overwrite: bool) -> None:
        self.path, self._overwrite = path, overwrite
        self._waiting: dict[Path, Callable[[], object]] = {}

    def check(self, names: list[str], *, sentences: bool) -> None:
        """Refuse a folder in which tables, or sentences, can't be written."""
        if self.path is None:
            return
        from attnprobe.reports.report_page.report import check_tables_folder

        check_tables_folder(self.path, names, overwrite=self._overwrite)
        path = self.path / FILE
        if sentences and path.exists() and not self._overwrite:
            raise AttnprobeError(f"{path} already exists; choose another folder, or add --overwrite.")

    def save(self, name: str, table: HeadTable, progress: PartProgress) -> None:
        """Save a table, unless an earlier run has saved it."""
        if self.path is None:
            return
        path = self.path / f"{name}.csv"
        if self._overwrite or not path.exists() or path.read_bytes() != table.to_csv().encode():
            self._try(path, partial(table.save, path, overwrite=self._overwrite), progress)

    def save_sentences(self, watched: Sentences, progress: PartProgress) -> None:
        if self.path is not None:
            path = self.path / FILE
            self._try(path, partial(write_together, {path: encode_sentences(watched)}), progress)

    def save_rest(self, progress: PartProgress) -> str:
        """Save what could not be saved before; return a sentence on what still can't, or nothing."""
        waiting, self._waiting = self._waiting, {}
        for path, save in waiting.items():
            self._try(path, save, progress)
        if not self._waiting:
            return ""
        names = join_names([path.name for path in self._waiting])
        return f"{names} could not be saved in {self.path}; the page holds all tables."

    def _try(self, path: Path, save: Callable[[], object], progress: PartProgress) -> None:
        if not Ranks.detect().first:
            return
        try:
            path.parent.mkdir(exist_ok=True)
            save()
        except (AttnprobeError, OSError) as error:
            self._waiting[path] = save
            progress.say(f"{path.name} could not be saved yet: {error}")


@dataclass
class Sections:
    """The sections of a report, and what of them is measured.

    Attributes:
        wanted: The sections, in the order of the page.
        picked: Whether the user picked them; what can't be measured is then refused, and not left out.
        roles: The keywords that ``roles`` alone has.
        names: How the user named the checkpoint and the data, for a command line.
        folder: Where tables go as soon as they are done.
        quick: Whether each reads as little as its precision takes, within a budget.
        by_group: The column of the groups that a section is about.
        watched: The sentences that heads were watched on.
        unsaved: Why tables could not be saved; empty where they were.
    """

    call: Call
    model: Any
    texts: Any
    labels: Any
    out_domain: Any
    wanted: Sequence[Section]
    picked: bool
    roles: Mapping[str, Any]
    tokenizer: Tokenizer | None
    names: tuple[str, str]
    folder: TableFolder
    quick: bool = False
    by_group: str | None = None
    tables: dict[str, HeadTable] = field(default_factory=dict)
    watched: Sentences = field(default_factory=Sentences)
    unsaved: str = ""

    def __post_init__(self) -> None:
        self._options: Any = self.call.options
        self._progress = PartProgress(self.call.progress)
        self._of_texts: list[Section] = [one for one in _OF_THE_TEXTS if one in self.wanted]

    def measure(self) -> None:
        """Measure what was not measured before, and keep each section when it is done.

        Raises:
            UnfinishedError: When a section fails behind others; it has their tables.
            AttnprobeError: When the first one fails.
        """
        call = self.call
        self._identity = "" if call.resume is None else _identify(self.model, call)
        asked = {name: one for name, one in self.roles.items() if name in {"thresholds", "links_name"}}
        asked |= {"quick": True} if self.quick else {}
        asked |= {} if self.by_group is None else {"by_group": self.by_group}
        question, files = {**self._options, **asked}, [self._options.get("frequencies")]
        key = make_state_key("report", question, self._open_all, files, call)
        self._store = TableStore(call.resume, key, "section")
        with self._store.save_on_exit():
            self._restore()
            steps = self._plan()
            for number, step in enumerate(steps, start=1):
                with self._progress.part(f"{join_names(step)} ({number} of {len(steps)})"):
                    self._measure_step(step)
            if len(self._of_texts) > 1:  # one section alone leaves what several have reached
                self._store.tidy(_SHARED)  # of a run that was killed between keeping its tables
        self.unsaved = self.folder.save_rest(self._progress)

    def _restore(self) -> None:
        names = [name for section in self.wanted for name in _TABLES[section]]
        done = self._store.load({_NUMBERS[name]: self._identity for name in names})
        self.tables = {name: done[_NUMBERS[name]] for name in names if _NUMBERS[name] in done}
        if self.tables:
            verb = "was" if len(self.tables) == 1 else "were"
            those = f"{join_names(list(self.tables))} {verb} done before"
            self.call.progress.say(f"going on from {self._store.path}: {those}.")
        left = [name for name in names if name not in self.tables]
        self.folder.check(left, sentences="sentences" in self.wanted and not self.tables)
        for name, table in self.tables.items():
            self._store.tidy(_NUMBERS[name])
            self.folder.save(name, table, self._progress)

    def _plan(self) -> list[list[Section]]:
        """List the steps: sections that share a pass over the texts first, then the others one by one."""
        shared: list[Section] = []
        # With --memory they all have other batches; in a quick report, each reads as much as it takes.
        if self.call.corpus.memory is None and not self.quick:
            shared = [one for one in self._of_texts if one not in self.tables]
            # Roles may be read off a treebank alone, and not off the texts that the census is of.
            if "roles" in shared and (self.texts is None or self._open().kind != "text"):
                shared.remove("roles")
        shared = shared if len(shared) > 1 else []
        steps = [shared] if shared else []
        for section in self.wanted:
            done = _TABLES[section] and _TABLES[section].keys() <= self.tables.keys()
            if section not in shared and not done:
                steps.append([section])
        return steps

    def _measure_step(self, step: Sequence[Section]) -> None:
        store = self._store
        if len(step) > 1:
            try:
                found = self._measure_together(step, store.part_file(_SHARED))
            except StateError:
                # A run that was killed while it kept these tables loses nothing; any other loses half a pass.
                if not any(one in self.tables for one in _OF_THE_TEXTS):
                    raise
                found = {}
            except AttnprobeError:  # each says for itself what it can't do
                found = {}
            self._keep(found)
            store.tidy(_SHARED)
            step = [section for section in step if section not in found]
        for section in step:
            try:
                if section == "sentences":
                    self.watched = Sentences(*self._watch(), *self.names)
                    self.folder.save_sentences(self.watched, self._progress)
                else:
                    file = store.part_file(next(iter(_TABLES[section].values())))
                    self._keep(self._describe(section, self._measure_alone(section, file)))
            except Exception as error:
                if self.picked or section not in _OPTIONAL or not isinstance(error, AttnprobeError):
                    raise self._explain_failure(section, error) from error
                self._progress.say(f"The section {section} is left out: {error}")

    def _measure_together(self, sections: Sequence[Section], resume: Path | None) -> dict[str, HeadTable]:
        """Measure sections in one pass; one that would have other batches alone is not in the result."""
        from attnprobe.survey.survey import CorpusRequest, TableRequest, survey_corpora

        call, source = self.call, read_first(self._open())
        self._progress.stage("loading", None)
        checkpoint = load_model(self.model, self.tokenizer, call.load, source.kind)

        def request(name: str) -> "TableRequest":
            if name == "roles":
                own = RoleOptions(**self.roles)
                sources = open_sources(self.texts, own, self._options)
                return request_roles(checkpoint, {**sources, "texts": source}, call, own)
            asked = {"census": None, "profile": [PROFILE]}
            statistics, tabulation = (
                ask_census(asked[name]) if name in asked else ask_distance(all_pairs=True)
            )
            command = "census" if name in asked else name
            facts = {"command": describe_call(command), "dataset": source.described}
            corpus = CorpusRequest(source.documents, statistics, call.corpus)
            return TableRequest([corpus], source.name, facts, tabulation)

        names = [name for section in sections for name in _TABLES[section]]
        requests = [request(name) for name in names]
        found = survey_corpora(
            checkpoint, requests, resume=resume, workers=call.workers, progress=self._progress
        )
        by_request = {id(one.request): one.table for one in found}
        pairs = zip(names, requests, strict=True)
        return {name: by_request[id(one)] for name, one in pairs if id(one) in by_request}

    def _measure_alone(self, section: Section, resume: Path | None) -> dict[str, HeadTable]:
        """Measure a section as its command does."""
        more = {"tokenizer": self.tokenizer, "progress": self._progress, "resume": resume, "threads": None}
        own = self._choose_options(section) | more | self._limit(section)
        if section == "correlate":
            found = compare_sides(self.texts, self.out_domain, self.model, **own)
            return {"correlate": found.tabulate_pairs(), "correlate_by_head": found.tabulate_heads()}
        of_a_task = [self.labels] if section in OF_A_TASK else []
        texts = self.roles[OF_GOLD[section]] if section in OF_GOLD else self.texts
        command, table, found = _find_command(section), self.tables.get(section), dict[str, HeadTable]()
        if table is None:
            table = found[section] = command(self.model, texts, *of_a_task, **own)
        if section == "census":  # --resume is about that table
            own |= {"resume": None, "statistics": [PROFILE]}
            if self.quick:  # as many texts as the census took
                most = max(number for number in table.data["n"] if isinstance(number, int))
                own |= {"until": None, "sample": min(own["sample"], most)}
            found[PROFILE] = command(self.model, texts, **own)
        return found

    def _choose_options(self, section: Section) -> dict[str, Any]:
        """Choose the options that the command of a section takes."""
        own = self._pick(Model, Hub, Reading, Batches)
        match section:
            case "prune":
                return self._pick(Task, Metric) | own
            case "importance" | "correlate":  # whose score is the loss
                named = ("metric", "name") if section == "correlate" else ("metric",)
                return {name: value for name, value in (self._pick(Task) | own).items() if name not in named}
            case "syntax" | "coreference" | "links":
                named = name_columns(Gold(OF_GOLD[section]), own)
                return {name: one for name, one in named.items() if name in own and name not in _OF_THE_DATA}
            case "groups":
                return {"by_group": self.by_group} | own | self._pick(Frequencies)
            case "distance":
                return {"all_pairs": True} | own | self._pick(Frequencies)
            case _:
                return own | self._pick(Frequencies) | (dict(self.roles) if section == "roles" else {})

    def _limit(self, section: Section) -> dict[str, Any]:
        """Give the options by which a section of a quick report reads less; none of any other report."""
        sample = self._options.get("sample")
        return self._budget.choose_options(section, sample) if self.quick else {}

    @cached_property
    def _budget(self) -> Budget:
        """What a quick report may read, from the first documents of its random order."""
        reading, of_a_task = self.call.corpus, any(one in OF_A_TASK for one in self.wanted)
        order = Order(reading.seed, whole=reading.limit is None)
        _, source = open_to_replay(
            self.texts, self.labels, {**self._options, "order": order}, find_labels=of_a_task
        )
        source, kind = read_first(source), None
        if source.kind == "text":
            kind, documents = peek(source.documents)
            source = replace(source, documents=select(documents, reading.limit, None, reading.seed))
        self._progress.stage("loading", None)
        tokenizer = load_model(self.model, self.tokenizer, self.call.load, source.kind).tokenizer
        objective = OBJECTIVES.get(self._options.get("objective") or "")
        related = kind in RELATIONS or bool(objective and objective.relation)
        return measure_budget(source, order, tokenizer, related=related)

    def _describe(self, section: Section, found: dict[str, HeadTable]) -> dict[str, HeadTable]:
        """Note at the tables of a quick section what it read, and which command has them in full."""
        if not self.quick:
            return found
        name, table = next(iter(found.items()))
        notes = describe_section(section, table, self._budget, self._write_command(section))
        return found | {name: replace(table, notes=[*table.notes, *notes])}

    def _write_command(self, section: Section) -> str:
        model, data = self.names
        named = {"-d": data or ("" if self.texts is None else "DATA")}
        if section in OF_GOLD:
            files = self.roles[OF_GOLD[section]]
            files = files if isinstance(files, list | tuple) else [files]
            quoted = [shlex.quote(str(one)) if isinstance(one, str | Path) else "FILE" for one in files]
            named = {"-d": " -d ".join(quoted)}
        if section == "correlate":
            other = self.out_domain
            out = shlex.quote(str(other)) if isinstance(other, str | Path) else "OTHER"
            named = {"--in-domain": named["-d"] or "DATA", "--out-domain": out}
        options = self._choose_options(section)
        return write_command(_find_command(section), model, named, options, "-o", f"{section}.csv")

    def _watch(self) -> tuple[Any, str]:
        """Read all heads on a few sentences of the data; none of images and sound."""
        from attnprobe.survey.maps import SENTENCE_TOKENS, choose_sentences, read_sequences

        source, reading = self._open(), self.call.corpus
        if source.kind != "text":
            kind = {"image": "an image", "sound": "a sound"}.get(source.kind)
            return [], f"`attnprobe view` shows all heads on {kind}." if kind else "Videos are not shown."
        self._progress.stage("loading", None)
        checkpoint = load_model(self.model, self.tokenizer, self.call.load, "text")
        documents = select(source.documents, reading.limit, reading.sample, reading.seed)
        found = choose_sentences(documents, checkpoint.tokenizer)
        try:
            how = {"max_length": SENTENCE_TOKENS, "progress": self._progress}
            seen = read_sequences(checkpoint, found.documents, **how)
        except AttnprobeError as error:
            self._progress.say(f"No sentences are shown: {error}")
            return [], f"They could not be shown: {error}"
        return seen, found.note

    def _keep(self, found: Mapping[str, HeadTable]) -> None:
        """Keep tables in the state, and then in the folder."""
        if self._store.path is not None:
            found = {name: decode_table(encode_table(table)) for name, table in found.items()}
            for name in reversed(found):  # beside the first lies what the section has reached
                self._store.keep(_NUMBERS[name], self._identity, found[name])
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
        if self.call.resume is not None:
            verb = "is" if len(self.tables) == 1 else "are"
            text += f" {join_names(list(self.tables))} {verb} kept; the same command goes on from there."
        raised = UnfinishedError(text, dict(self.tables))
        if known:
            raised.exit_code = error.exit_code
        return raised

    def _open(self) -> OpenSource:
        return open_texts(self.texts, named=self._options)

    def _open_all(self) -> list[OpenSource]:
        """Open all that is read, to identify it."""
        options = self._options
        found = [open_to_replay(self.texts, self.labels, options, find_labels=True)[1]]
        if self.out_domain is not None:
            found.append(open_to_replay(self.out_domain, None, options, find_labels=True)[1])
        for gold, texts in RoleOptions(**self.roles).files.items():
            found.append(open_gold(texts, gold, name_columns(gold, options)))
        return found

    def _pick(self, *groups: type[Group]) -> dict[str, Any]:
        names = list_names(*groups)
        return {name: value for name, value in self._options.items() if name in names}


def _find_command(section: Section) -> Any:
    """Find the command that measures a section."""
    of_attention = {"census": census, "groups": census, "roles": roles, "distance": distance}
    of_gold = {"syntax": syntax, "coreference": coreference, "links": links}
    of_a_task = {"importance": importance, "prune": prune, "correlate": correlate}
    return {**of_attention, **of_gold, **of_a_task}[section]


def _identify(model: Any, call: Call) -> str:
    """Tell the checkpoint from any other, as far as it can be told."""
    if not isinstance(model, str | Path):
        return f"loaded {type(model).__name__}"
    from attnprobe.model.hub import CheckpointFiles

    return CheckpointFiles.read(str(model), call.load).identity
