"""The sections of a report: measured one after the other, each kept as soon as it is done."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnprobe.api.checkpoints import readable, setting_of
from attnprobe.api.correlate import compared
from attnprobe.commands.call.call import Call, begun, checkpoint_of
from attnprobe.commands.call.record import describe_call
from attnprobe.commands.call.roles import asked_of_roles, role_table_of, sources_of_roles
from attnprobe.commands.call.surveying import ask_census, ask_distance
from attnprobe.commands.call.texts import Gold, opened, opened_gold
from attnprobe.commands.census import census, distance
from attnprobe.commands.intervene import importance
from attnprobe.commands.prune import prune
from attnprobe.commands.roles import roles
from attnprobe.corpus.sources.sampling import select
from attnprobe.corpus.sources.text import OpenSource
from attnprobe.corpus.tokens.tokenization import Tokenizer
from attnprobe.errors import AttnprobeError, StateError, UnfinishedError, first_line
from attnprobe.files import write_together
from attnprobe.option import Group
from attnprobe.options import Batches, Frequencies, Hub, Metric, Model, Reading, Task, names_of
from attnprobe.reports.dossier.contents import Section
from attnprobe.reports.dossier.sentences import FILE, Watched, written
from attnprobe.run.finished import Finished, restored
from attnprobe.run.finished import written as kept_of
from attnprobe.run.process_group import Ranks
from attnprobe.run.relay import Relay
from attnprobe.table.head_table import HeadTable
from attnprobe.table.naming import listed

if TYPE_CHECKING:
    from attnprobe.survey.request import Asked

#: The tables of a report by the numbers that a state knows them by; what several share has the number 0.
_NUMBERS = {
    name: number
    for number, name in enumerate(
        ("census", "roles", "distance", "importance", "prune", "correlate", "correlate_by_head"), start=1
    )
}
_SHARED = 0
#: Sections that are about the texts as they are, and so can share a pass over them.
_OF_THE_TEXTS: tuple[Section, ...] = ("census", "roles", "distance")
#: Sections that not every model and not all data have.
LEFT_OUT = ("roles", "distance")


@dataclass(frozen=True)
class Wanted:
    """What a report is to be about.

    Attributes:
        model: The checkpoint.
        texts: The data.
        labels: Of texts that come one by one.
        out_domain: Other data.
        sections: What is measured, in the order of the page.
        named: Whether somebody picked them; what is not there is then refused, and not left out.
        roles: The keywords that ``roles`` alone has.
        tokenizer: Of a loaded model.
        options: All other keywords.
        names: How the user named the checkpoint and the data, for a command line.
        folder: Where tables go as soon as they are done.
        overwrite: Whether tables there are replaced.
    """

    model: Any
    texts: Any
    labels: Any
    out_domain: Any
    sections: Sequence[Section]
    named: bool
    roles: Mapping[str, Any]
    tokenizer: Tokenizer | None
    options: Any
    names: tuple[str, str]
    folder: Path | None
    overwrite: bool


def tables_of(section: Section) -> list[str]:
    """Name the tables of a section."""
    if section == "correlate":
        return ["correlate", "correlate_by_head"]
    return [] if section == "sentences" else [section]


class Sections:
    """Sections that are being measured.

    Attributes:
        tables: What was measured, by name.
        watched: The sentences that heads were watched on.
        unsaved: Why tables could not be saved; empty where they were.
    """

    def __init__(self, wanted: Wanted, call: Call) -> None:
        """Measure nothing yet."""
        self._wanted, self._call = wanted, call
        self._relay = Relay(call.progress)
        self.tables: dict[str, HeadTable] = {}
        self.watched = Watched()
        self.unsaved = ""
        self._identity = ""
        self._waiting: dict[Path, Callable[[], object]] = {}

    def measure(self) -> None:
        """Measure what was not measured before, and keep each section when it is done.

        Raises:
            UnfinishedError: When a section fails behind others; it has their tables.
            AttnprobeError: When the first one fails.
        """
        wanted, call = self._wanted, self._call
        key: dict[str, str] = {}
        if call.resume is not None:
            self._identity = _identity(wanted.model, call)
            key = {"measure": "report", **setting_of(self._question(), self._sources(), self._files(), call)}
        finished = Finished(call.resume, key, "section")
        with finished.guarded():
            self._take_up(finished)
            steps = self._steps()
            for number, step in enumerate(steps, start=1):
                with self._relay.at(f"{listed(step)} ({number} of {len(steps)})"):
                    self._do(finished, step)
            if len(self._of_the_texts) > 1:  # one section alone leaves what several have reached
                finished.tidy(_SHARED)  # of a run that was killed between keeping its tables
        self._save_the_rest()

    def _steps(self) -> list[list[Section]]:
        """List what is to be done, those together that share a pass over the texts."""
        wanted, options = self._wanted, self._call.corpus
        sharing: list[Section] = []
        if options.memory is None:  # which would make other batches for them all
            sharing = [one for one in self._of_the_texts if one not in self.tables]
            if "roles" in sharing and not self._has_roles:
                sharing.remove("roles")
        sharing = sharing if len(sharing) > 1 else []
        steps = [sharing] if sharing else []
        for section in wanted.sections:
            names = tables_of(section)
            if section not in sharing and not (names and set(names) <= set(self.tables)):
                steps.append([section])
        return steps

    @property
    def _of_the_texts(self) -> list[Section]:
        return [one for one in _OF_THE_TEXTS if one in self._wanted.sections]

    @property
    def _has_roles(self) -> bool:
        """Whether roles are read off the texts that the census is of, and not off a treebank alone."""
        texts = self._wanted.texts
        return texts is not None and self._opened().kind == "text"

    def _do(self, finished: Finished, step: Sequence[Section]) -> None:
        if len(step) > 1:
            try:
                found = self._together(step, finished.beside(_SHARED))
            except StateError:
                # A run that was killed while it kept these tables loses nothing; any other loses half a pass.
                if not any(one in self.tables for one in _OF_THE_TEXTS):
                    raise
                found = {}
            except AttnprobeError:  # each says for itself what it can't do
                found = {}
            self._keep(finished, found)
            finished.tidy(_SHARED)
            step = [section for section in step if section not in found]
        for section in step:
            try:
                if section == "sentences":
                    self._watch()
                else:
                    beside = finished.beside(_NUMBERS[tables_of(section)[0]])
                    self._keep(finished, self._alone(section, beside))
            except AttnprobeError as error:
                if self._wanted.named or section not in LEFT_OUT:
                    raise self._stopped(section, error) from error
                self._relay.say(f"The section {section} is left out: {error}")
            except Exception as error:
                raise self._stopped(section, error) from error

    def _together(self, sections: Sequence[Section], resume: Path | None) -> dict[str, HeadTable]:
        """Measure sections in one pass; one that would have other batches alone is not in the result."""
        from attnprobe.survey.request import Asked, Part
        from attnprobe.survey.survey import surveyed_together

        wanted, call = self._wanted, self._call
        source = begun(self._opened())
        self._relay.stage("loading", None)
        checkpoint = checkpoint_of(wanted.model, wanted.tokenizer, call.load, source.kind)

        def asked(section: Section) -> "Asked":
            if section == "roles":
                named = wanted.roles
                sources = sources_of_roles(
                    wanted.texts, named.get("treebank"), named.get("coreference"), wanted.options
                )
                question = asked_of_roles(named.get("thresholds"), wanted.options.get("seed", 42))
                return role_table_of(checkpoint, {**sources, "texts": source}, call, question)
            statistics, tabulation = (ask_census() if section == "census" else ask_distance(all_pairs=True))()
            facts = {"command": describe_call(section), "dataset": source.described}
            return Asked([Part(source.documents, statistics, call.corpus)], source.name, facts, tabulation)

        found = surveyed_together(
            checkpoint,
            [asked(section) for section in sections],
            resume=resume,
            workers=call.workers,
            progress=self._relay,
        )
        return {section: one.table for section, one in zip(sections, found, strict=True) if one is not None}

    def _alone(self, section: Section, resume: Path | None) -> dict[str, HeadTable]:
        """Measure a section as its command does."""
        wanted = self._wanted
        model, texts = wanted.model, wanted.texts
        more = {"tokenizer": wanted.tokenizer, "progress": self._relay, "resume": resume, "threads": None}
        untasked = (Model, Hub, Reading, Batches)
        own, task = (_of(wanted.options, *some) | more for some in (untasked, (*untasked, Task, Metric)))
        counted = _of(wanted.options, Frequencies)
        labelled = {"texts": texts, "labels": wanted.labels}
        scoreless = {name: value for name, value in task.items() if name != "metric"}
        if section == "correlate":
            named = {name: value for name, value in scoreless.items() if name != "name"}
            found = compared(texts, wanted.out_domain, model, **named)
            return {"correlate": found.in_one_row(), "correlate_by_head": found.by_head()}
        measuring: dict[Section, Callable[[], HeadTable]] = {
            "census": partial(census, model, texts, **own, **counted),
            "roles": partial(roles, model, texts, **own, **counted, **wanted.roles),
            "distance": partial(distance, model, texts, all_pairs=True, **own, **counted),
            "importance": partial(importance, model, **labelled, **scoreless),
            "prune": partial(prune, model, **labelled, **task),
        }
        return {section: measuring[section]()}

    def _watch(self) -> None:
        """Show all heads on a few sentences of the data; none of images and sound."""
        wanted = self._wanted
        self.watched = Watched(*self._seen(), *wanted.names)
        if wanted.folder is not None:
            path = wanted.folder / FILE
            self._save(path, partial(write_together, {path: written(self.watched)}))

    def _seen(self) -> tuple[Any, str]:
        from attnprobe.survey.viewing.viewing import SENTENCE_TOKENS, chosen, seen_each

        wanted, call = self._wanted, self._call
        source = self._opened()
        if source.kind != "text":
            kind = "an image" if source.kind == "image" else "a sound"
            return [], f"`attnprobe view` shows all heads on {kind}."
        self._relay.stage("loading", None)
        checkpoint = checkpoint_of(wanted.model, wanted.tokenizer, call.load, "text")
        reading = call.corpus
        documents = select(source.documents, reading.limit, reading.sample, reading.seed)
        found = chosen(documents, checkpoint.tokenizer)
        try:
            return seen_each(
                checkpoint, found.documents, max_length=SENTENCE_TOKENS, progress=self._relay
            ), found.said
        except AttnprobeError as error:
            self._relay.say(f"No sentences are shown: {error}")
            return [], f"They could not be shown: {error}"

    def _opened(self) -> OpenSource:
        return opened(self._wanted.texts, named=self._wanted.options)

    # What is kept

    def _take_up(self, finished: Finished) -> None:
        """Take up the tables that are done."""
        wanted = self._wanted
        names = [name for section in wanted.sections for name in tables_of(section)]
        done = finished.taken_up({_NUMBERS[name]: self._identity for name in names})
        self.tables = {name: done[_NUMBERS[name]] for name in names if _NUMBERS[name] in done}
        if self.tables:
            verb = "was" if len(self.tables) == 1 else "were"
            self._call.progress.say(
                f"going on from {finished.named}: {listed(list(self.tables))} {verb} done before."
            )
        if wanted.folder is not None:
            self._check_folder(wanted.folder, [name for name in names if name not in self.tables])
            path = wanted.folder / FILE
            if "sentences" in wanted.sections and path.exists() and not (wanted.overwrite or self.tables):
                raise AttnprobeError(f"{path} already exists; choose another folder, or add --overwrite.")
        for name in self.tables:
            finished.tidy(_NUMBERS[name])
            self._save_table(name)

    def _check_folder(self, folder: Path, names: Sequence[str]) -> None:
        from attnprobe.reports.dossier.report import check_tables_folder

        check_tables_folder(folder, list(names), overwrite=self._wanted.overwrite)

    def _keep(self, finished: Finished, found: Mapping[str, HeadTable]) -> None:
        """Keep tables in the state, and then in the folder."""
        if finished.named is not None:
            found = {name: restored(kept_of(table)) for name, table in found.items()}
            for name in reversed(found):  # beside the first lies what the section has reached
                finished.keep(_NUMBERS[name], self._identity, found[name])
        self.tables |= found
        for name in found:
            self._save_table(name)

    def _save_table(self, name: str) -> None:
        folder, table = self._wanted.folder, self.tables[name]
        if folder is None:
            return
        path, overwrite = folder / f"{name}.csv", self._wanted.overwrite
        if path.exists() and not overwrite and path.read_bytes() == table.to_csv().encode():
            return  # by the run that was stopped
        self._save(path, partial(table.save, path, overwrite=overwrite))

    def _save(self, path: Path, save: Callable[[], object]) -> None:
        """Save a table now, or at the end where it can't be done now; of several processes, one does."""
        if not Ranks.found().first:
            return
        try:
            path.parent.mkdir(exist_ok=True)
            save()
        except (AttnprobeError, OSError) as error:
            self._waiting[path] = save
            self._relay.say(f"{path.name} could not be saved yet: {error}")

    def _save_the_rest(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for path, save in waiting.items():
            self._save(path, save)
        if self._waiting:
            names = listed([path.name for path in self._waiting])
            self.unsaved = f"{names} could not be saved in {self._wanted.folder}; the page holds all tables."

    def _stopped(self, section: Section, error: Exception) -> Exception:
        """Say what becomes of the tables before the section that failed."""
        if not self.tables:
            return error
        why = str(error)
        if not isinstance(error, AttnprobeError):
            why = f"{type(error).__name__}: {first_line(error)}"
        before, text = listed(list(self.tables)), f"The section {section} failed: {why.rstrip('.')}."
        verb = "is" if len(self.tables) == 1 else "are"
        if self._call.resume is not None:
            text += f" {before} {verb} kept; the same command goes on from there."
        raised = UnfinishedError(text, dict(self.tables))
        if isinstance(error, AttnprobeError):
            raised.exit_code = error.exit_code
        return raised

    # What the numbers depend on

    def _question(self) -> dict[str, Any]:
        named = {name: one for name, one in self._wanted.roles.items() if name == "thresholds"}
        return {**self._wanted.options, **named}

    def _files(self) -> list[Any]:
        return [self._wanted.options.get("frequencies")]

    def _sources(self) -> list[OpenSource]:
        wanted, options = self._wanted, self._wanted.options
        _, source = readable(wanted.texts, wanted.labels, options, find_labels=True)
        found = [source]
        if wanted.out_domain is not None:
            found.append(readable(wanted.out_domain, None, options, find_labels=True)[1])
        for name, gold in (("treebank", Gold.TREEBANK), ("coreference", Gold.COREFERENCE)):
            if wanted.roles.get(name) is not None:
                found.append(opened_gold(wanted.roles[name], gold, {**options, "name": None}))
        return found


def _identity(model: Any, call: Call) -> str:
    """Tell the checkpoint from any other, as far as it can be told."""
    if not isinstance(model, str | Path):
        return f"loaded {type(model).__name__}"
    from attnprobe.model.loading.revisions import Glance

    return Glance.at(str(model), call.load).identity


def _of(options: Mapping[str, Any], *groups: type[Group]) -> dict[str, Any]:
    """Pick the keywords of groups that are given."""
    names = names_of(*groups)
    return {name: value for name, value in options.items() if name in names}
