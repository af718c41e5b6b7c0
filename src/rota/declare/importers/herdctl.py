"""Import of herdctl fleets and agents."""

import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from rota.declare.importers.prompts import access_for, map_of, plain_prompt, texts_of
from rota.declare.importers.translation import (
    CronLibrary,
    ImportedJob,
    KeptKey,
    Reading,
    Remark,
    Section,
    Source,
    Translation,
    TranslationDraft,
    Unmappable,
    comments_above,
    every,
    free_name,
    library_reading,
    plain_defaults,
    readable_cron,
)
from rota.declare.yaml import Document, parse
from rota.model.clock import parse_duration
from rota.model.errors import FileProblems, Problem, RotaError

_ACCESS = {
    **dict.fromkeys(("default", "plan", "dontAsk", "delegate"), "read"),
    "acceptEdits": "write",
    "bypassPermissions": "full",
}
_LEVELS = ("read", "write", "full")
_MAPPED = {
    *("name", "description", "schedules", "model", "max_turns", "permission_mode", "allowed_tools", "denied_tools"),
    *("working_directory", "instances", "session", "system_prompt", "default_prompt", "work_source", "identity"),
}
_OF_SCHEDULE = {
    *("type", "interval", "expression", "cron", "prompt", "work_source", "enabled", "resume_session"),
    *("outputToFile", "output_to_file"),
}
_WITHOUT = {
    "docker": "`sandbox: {container: IMAGE}` starts a job in one",
    "chat": "rota does not listen to chats here; `notify:` sends messages",
    "mcp_servers": "the agent's own configuration holds its servers",
    "hooks": "`after:` runs a step behind a successful agent, `notify:` tells of failures",
    "repo": "write the folder of the repository as `cwd`",
    "metadata_file": "the agent's answer is the result of its run",
    "setting_sources": "`trust_project: true` lets project settings take effect",
    "runtime": "rota starts the program `claude`",
}
_KEPT = (
    KeptKey("retry: false", "an agent has one attempt"),
    KeptKey("session: resume", "herdctl continues an agent's session unless a schedule says `resume_session: false`"),
    KeptKey("overlap: forbid", "rota's default, as in herdctl"),
)
_TASK = "Execute scheduled task"


class _Agent(Struct, frozen=True):
    """An agent of a fleet, with the defaults of the fleet."""

    name: str
    body: Mapping[str, Any]
    document: Document
    lines: Sequence[str]

    def line(self, *path: str) -> int:
        """Return the line of a key, that of the agent if the fleet sets it."""
        older = ("permissions", *path)
        return self.document.position(older if older in self.document.keys else path)[0]


class _Import:
    """One pass over the agents and fleets; a path is relative to the fleet that names it."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.draft = TranslationDraft()
        self.agents: dict[str, Any] = {}
        self.read = 0

    def take(self, agent: _Agent) -> None:
        """Add an agent and its schedules."""
        body = agent.body
        self._tell_unmapped(agent)
        self.agents[agent.name] = self._agent_keys(agent)
        schedules = map_of(body.get("schedules"))
        for name, schedule in schedules.items():
            self.read += 1
            self._schedule(agent, str(name), map_of(schedule))
        if body.get("default_prompt"):
            self.read += 1
            line = agent.line("default_prompt")
            keys = {**plain_prompt(str(body["default_prompt"]).strip()), "agent": agent.name}
            self._add(agent, agent.name, line, keys, None)
            told = f"{agent.name}: default_prompt is a job without a schedule: `rota run {self.draft.jobs[-1].name}`"
            self.tell(agent, line, told)

    def tell(self, agent: _Agent, line: int, text: str) -> None:
        """Add a remark on a line of the agent's file."""
        self.draft.by_hand.append(Remark(line, text, agent.document.file))

    def _add(self, agent: _Agent, name: str, line: int, keys: dict[str, Any], reading: Reading | None) -> None:
        free = free_name(name, taken=self.draft.names)
        comments = comments_above(agent.lines, line)
        self.draft.jobs.append(ImportedJob(free, line, keys, comments, reading, file=agent.document.file))

    def _agent_keys(self, agent: _Agent) -> dict[str, Any]:
        body = agent.body
        session = map_of(body.get("session"))
        keys: dict[str, Any] = {"adapter": "claude"}
        if model := body.get("model") or session.get("model"):
            keys["model"] = model
        allowed, denied = texts_of(body.get("allowed_tools")), texts_of(body.get("denied_tools"))
        tools = [tool for tool in allowed if tool not in denied]
        access = _ACCESS.get(str(body.get("permission_mode")), "write")
        keys["access"] = max(access, access_for(tools), key=_LEVELS.index)
        if keys["access"] != access:
            told = f"{agent.name}: access is {keys['access']}, because of its allowed_tools"
            self.tell(agent, agent.line("allowed_tools"), told)
        if tools:
            keys["allowed_tools"] = tools
        if denied and not allowed:
            told = "rota has no list of denied tools: write `allowed_tools` without them"
            self.tell(agent, agent.line("denied_tools"), f"{agent.name}: denied_tools {', '.join(denied)}: {told}")
        elif denied:
            told = f"{agent.name}: denied_tools are dropped: only the allowed tools can be used"
            self.tell(agent, agent.line("denied_tools"), told)
        if turns := body.get("max_turns") or session.get("max_turns"):
            keys["max_turns"] = turns
        if count := map_of(body.get("instances")).get("max_concurrent"):
            keys["max_concurrent"] = count
        folder = body.get("working_directory")
        folder = map_of(folder).get("root") if isinstance(folder, dict) else folder
        if folder:
            keys["working_directory"] = str(folder)
        if prompt := _system_prompt(body):
            keys["system_prompt"] = prompt
        if body.get("description"):
            keys["description"] = str(body["description"])[:1000]
        return keys

    def _tell_unmapped(self, agent: _Agent) -> None:
        for key in agent.body:
            if key not in _MAPPED:
                why = _WITHOUT.get(key, "it has no counterpart")
                self.tell(agent, agent.line(key), f"{agent.name}: {key} is not mapped: {why}")
        if map_of(agent.body.get("identity")):
            told = f"{agent.name}: identity stands at the head of its system_prompt"
            self.tell(agent, agent.line("identity"), told)

    def _schedule(self, agent: _Agent, name: str, schedule: Mapping[str, Any]) -> None:
        line = agent.line("schedules", name)
        full = f"{agent.name}-{name}"
        try:
            when, reading = _when(schedule, self.source.timezone)
            source = self._work_source(agent, schedule.get("work_source") or agent.body.get("work_source"), name)
        except Unmappable as error:
            self.draft.left_out.append(Remark(line, f"{full}: {error}", agent.document.file))
            return
        keys: dict[str, Any] = {**when, "agent": agent.name}
        prompt = schedule.get("prompt") or agent.body.get("default_prompt") or _TASK
        keys |= plain_prompt(str(prompt).strip())
        keys["session"] = "fresh" if schedule.get("resume_session") is False else "resume"
        keys |= source
        if schedule.get("enabled") is False:
            keys["enabled"] = False
        limit = map_of(agent.body.get("session")).get("timeout")
        if limit:
            keys["timeout"] = str(limit)
        for key in schedule:
            if key not in _OF_SCHEDULE:
                self.tell(agent, agent.line("schedules", name, key), f"{full}: {key} is not mapped")
        self._add(agent, full, line, keys, reading)

    def _work_source(self, agent: _Agent, raw: Any, name: str) -> dict[str, Any]:
        body = map_of(raw)
        if not body:
            return {}
        if not body.get("repo"):
            raise Unmappable("its work_source names no repo")
        labels, auth = map_of(body.get("labels")), map_of(body.get("auth"))
        found: dict[str, Any] = {"github": str(body["repo"]), "label": str(labels.get("ready") or "ready")}
        found["claimed_label"] = str(labels.get("in_progress") or "agent-working")
        found["token"] = {"secret": str(auth.get("token_env") or "GITHUB_TOKEN")}
        if excluded := texts_of(body.get("exclude_labels")):
            told = f"{agent.name}-{name}: exclude_labels {', '.join(excluded)} are not mapped"
            self.tell(agent, agent.line("schedules", name), told)
        return {"work_source": found}

    def take_fleet(
        self, fleet: Document, *, folder: str, prefix: str, defaults: Mapping[str, Any], above: tuple[str, ...]
    ) -> None:
        """Add the agents of a fleet, then those of its fleets: `prefix` stands before their names."""
        defaults = _merged(defaults, map_of(fleet.data.get("defaults")))
        for key in fleet.data:
            if key not in ("version", "fleet", "defaults", "agents", "fleets", "working_directory"):
                told = f"{key} of the fleet is not mapped"
                self.draft.by_hand.append(Remark(fleet.position((key,))[0], told, fleet.file))
        for kind in ("agents", "fleets"):
            references = fleet.data.get(kind)
            for index, reference in enumerate(references if isinstance(references, list) else []):
                line = fleet.position((kind, index, "path"))[0]
                path = str(map_of(reference).get("path") or reference or index + 1)
                place = posixpath.normpath(posixpath.join(folder, path))
                read = self._read(place, line, fleet, above, what=kind.removesuffix("s"))
                if read is None:
                    continue
                document, content = read
                if kind == "agents":
                    name = self._name(prefix, str(document.data.get("name") or "agent"))
                    overrides = map_of(map_of(reference).get("overrides"))
                    self.take(_agent(document, content, defaults, overrides, name=name))
                    continue
                own = map_of(reference).get("name") or map_of(document.data.get("fleet")).get("name")
                self.take_fleet(
                    document,
                    folder=posixpath.dirname(place),
                    prefix=f"{prefix}{own or posixpath.basename(posixpath.dirname(place)) or 'fleet'}-",
                    defaults=defaults,
                    above=(*above, place),
                )

    def _name(self, prefix: str, name: str) -> str:
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{prefix}{name}").strip("-._") or "agent"
        return free_name(plain, taken=self.agents)

    def _read(
        self, path: str, line: int, fleet: Document, above: tuple[str, ...], *, what: str
    ) -> tuple[Document, bytes] | None:
        content = self.source.read(path)
        file = posixpath.join(posixpath.dirname(self.source.file), path)
        problems = [Problem(f"the {what} {path} cannot be read", "import_file", fleet.file, line)]
        if path in above:
            problems = [Problem(f"the {what} {path} contains itself", "import_file", fleet.file, line)]
        elif content is not None:
            try:
                return _document(content, file), content
            except FileProblems as error:
                problems = list(error.problems)
        self.read += 1
        self.draft.left_out += [Remark(problem.line, problem.message, problem.file) for problem in problems]
        return None


def _system_prompt(body: Mapping[str, Any]) -> str:
    identity = map_of(body.get("identity"))
    who = [f"Your {key}: {identity[key]}." for key in ("name", "role", "personality") if identity.get(key)]
    parts = (" ".join(who), str(body.get("system_prompt") or "").strip())
    return "\n\n".join(part for part in parts if part)


def import_herdctl(source: Source) -> Translation:
    """Return the translation of a fleet (`herdctl.yaml`) with its agents and fleets, or of one agent."""
    document = _document(source.content, source.file)
    found = _Import(source)
    if isinstance(document.data.get("agents"), list) or isinstance(document.data.get("fleets"), list):
        found.take_fleet(document, folder="", prefix="", defaults={}, above=(source.file,))
    elif "name" in document.data:
        found.take(_agent(document, source.content, {}, {}, name=str(document.data["name"])))
    else:
        hint = "a fleet has a list of `agents:`, an agent has a `name:`"
        raise FileProblems([Problem("is neither a fleet nor an agent", "import_file", source.file, 1, 1, hint=hint)])
    defaults, agents = {"retry": plain_defaults()["retry"]}, Section("agents", found.agents)
    return found.draft.translation(source.timezone, defaults, agents, read=found.read, kept=_KEPT)


def _document(content: bytes, file: str) -> Document:
    document = parse(content, file)
    if document.problems:
        raise FileProblems(document.problems)
    if not isinstance(document.data, dict):
        raise FileProblems([Problem("is not a map of keys", "import_file", file, 1, 1)])
    return document


def _agent(
    document: Document, content: bytes, defaults: Mapping[str, Any], overrides: Mapping[str, Any], *, name: str
) -> _Agent:
    body = _merged(_merged(defaults, _flat(document.data)), overrides)
    return _Agent(name, body, document, content.decode("utf-8", "replace").splitlines())


def _flat(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return an agent with the keys of the older `permissions:` beside its others."""
    older = map_of(body.get("permissions"))
    names = {"mode": "permission_mode", "allowed_tools": "allowed_tools", "denied_tools": "denied_tools"}
    flat = {names[key]: value for key, value in older.items() if key in names}
    return {**flat, **{key: value for key, value in body.items() if key != "permissions" or set(older) - set(names)}}


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return two maps as herdctl merges them: maps key by key, everything else from above."""
    found = dict(below)
    for key, value in above.items():
        both = isinstance(value, dict) and isinstance(found.get(key), dict)
        found[key] = _merged(found[key], value) if both else value
    return found


def _when(schedule: Mapping[str, Any], timezone: str) -> tuple[dict[str, Any], Reading]:
    kind = schedule.get("type")
    if kind == "interval":
        text = str(schedule.get("interval") or "")
        try:
            seconds = parse_duration(text).total_seconds()
        except RotaError as error:
            raise Unmappable(f"interval {text!r}: {error.message}") from None
        return {"interval": text}, every(seconds)
    if kind == "cron":
        expression = str(schedule.get("expression") or schedule.get("cron") or "")
        readable_cron(expression)
        return {"cron": expression}, library_reading(expression, timezone, CronLibrary.CRON_PARSER)
    raise Unmappable(f"schedule type {kind!r} starts it on an event, not at a time")
