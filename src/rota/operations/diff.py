"""Two runs side by side: definition, params, environment names, prompt, model, duration, cost and output."""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from difflib import unified_diff
from itertools import islice
from pathlib import Path
from typing import Any, TypedDict

from msgspec import Struct

from rota.declare.plan import differences
from rota.model.amounts import say_money
from rota.model.clock import MILLISECOND
from rota.model.errors import InvalidValue
from rota.model.records import cut
from rota.model.serialize import RunJson, run_json, to_shape
from rota.model.spec import JobSpec
from rota.operations.agents.transcripts import read_prompt
from rota.operations.output import fetch_output, last_lines, why_no_output
from rota.operations.runs import RunView, show_run
from rota.operations.text import outcome_words
from rota.store.driver import Store
from rota.text.ansi import plain
from rota.text.format import briefly

COMPARED_LINES = 1_000
"""The last lines of each output that are compared."""
LINE_LENGTH = 1_000
DIFF_LINES = 2_000
NONE = "–"


class DiffRow(Struct, frozen=True):
    """A fact about two runs, in words."""

    name: str
    left: str
    right: str

    @property
    def same(self) -> bool:
        """Whether it is the same in both."""
        return self.left == self.right


class DiffText(Struct, frozen=True):
    """The difference of two texts as lines of a unified diff. `note`: why it may not be the whole difference."""

    lines: tuple[str, ...]
    note: str = ""


class DiffView(Struct, frozen=True):
    """The comparison of two runs: facts, changes of the definition, prompts and outputs."""

    left: RunView
    right: RunView
    facts: tuple[DiffRow, ...]
    definition: tuple[str, ...]
    prompt: DiffText
    output: DiffText


def diff_runs(store: Store, state: Path, first: str, second: str, *, now: datetime) -> DiffView:
    """Return the comparison of two runs."""
    left, right = show_run(store, first), show_run(store, second)
    if left.run.id == right.run.id:
        hint = f"name another run; `rota history {left.run.job}` lists them"
        raise InvalidValue(f"{first!r} and {second!r} are the same run", hint=hint)
    return DiffView(
        left=left,
        right=right,
        facts=tuple(row for row in _facts(left, right, now=now) if (row.left, row.right) != (NONE, NONE)),
        definition=differences(left.spec, right.spec),
        prompt=_diff(_prompt(state, left), _prompt(state, right), left, right),
        output=_output(store, state, left, right, now=now),
    )


def _facts(left: RunView, right: RunView, *, now: datetime) -> Iterable[DiffRow]:
    def row(name: str, values: Sequence[str]) -> DiffRow:
        return DiffRow(name, *(plain(value) or NONE for value in values))

    both = (left, right)
    if left.run.job_id != right.run.job_id:
        yield row("job", [view.run.job for view in both])
    yield row("outcome", [outcome_words(view.run, now=now) for view in both])
    yield row("trigger", [view.run.trigger.value for view in both])
    yield row("attempt", [str(view.run.attempt) for view in both])
    yield row("definition", [f"version {view.run.version}" for view in both])
    yield row("duration", [_length(_took(view, now)) for view in both])
    for name in sorted({*left.run.params, *right.run.params}):
        yield row(f"param {name}", [_param(view, name) for view in both])
    yield row("environment", [", ".join(environment_names(view.spec)) for view in both])
    if any(view.spec.work.agent for view in both):
        yield row("agent", [_agent(view) for view in both])
    if any(view.run.usage for view in both):
        yield row("model", [str(view.run.usage.get("model") or "") for view in both])
        yield row("cost", [_cost(view) for view in both])
        for key in ("tokens_in", "tokens_cached", "tokens_out", "requests"):
            if any(key in view.run.usage for view in both):
                yield row(key.replace("_", " "), [_number(view.run.usage.get(key)) for view in both])
    if any(view.worker for view in both):
        yield row("worker", [view.worker.called if view.worker else "" for view in both])
    yield row("summary", [cut(view.run.result_summary or "", LINE_LENGTH) for view in both])


def environment_names(spec: JobSpec) -> list[str]:
    """Return the names of a job's environment variables; values may be private."""
    return sorted({*(value.name for value in spec.work.env), *spec.work.env_pass})


def _took(view: RunView, now: datetime) -> timedelta | None:
    run = view.run
    return None if run.started_at is None else (run.finished_at or now) - run.started_at


def _length(length: timedelta | None) -> str:
    return "" if length is None else briefly(length)


def _param(view: RunView, name: str) -> str:
    params = view.run.params
    return cut(json.dumps(params[name], ensure_ascii=False), LINE_LENGTH) if name in params else ""


def _agent(view: RunView) -> str:
    work = view.spec.work.agent
    return "" if work is None else f"{work.agent}, access {work.access.value}"


def _cost(view: RunView) -> str:
    usd = view.run.usage.get("usd_millionths")
    return "" if usd is None else say_money(usd)


def _number(value: Any) -> str:
    return "" if value is None else f"{value:,}"


def _prompt(state: Path, view: RunView) -> list[str]:
    """Return the prompt that the agent got, else the one of the definition."""
    work = view.spec.work.agent
    if work is None:
        return []
    return (read_prompt(state, view) or work.prompt).splitlines()


def _output(store: Store, state: Path, left: RunView, right: RunView, *, now: datetime) -> DiffText:
    texts, notes = [], []
    for view in (left, right):
        fetch_output(store, state, view)
        lines = last_lines(state, view, lines=COMPARED_LINES + 1)
        if len(lines) > COMPARED_LINES:
            notes.append(f"only the last {COMPARED_LINES:,} lines of {view.run.handle} are compared")
        elif not lines and (why := why_no_output(state, view, now=now)):
            notes.append(why)
        texts.append([cut(plain(line), LINE_LENGTH) for line in lines[-COMPARED_LINES:]])
    return _diff(texts[0], texts[1], left, right, notes=notes)


def _diff(
    before: Sequence[str], after: Sequence[str], left: RunView, right: RunView, *, notes: Sequence[str] = ()
) -> DiffText:
    lines = unified_diff(before, after, left.run.handle, right.run.handle, lineterm="")
    found = list(islice(lines, DIFF_LINES + 1))
    if len(found) > DIFF_LINES:
        notes = [*notes, f"only the first {DIFF_LINES:,} lines of the difference are shown"]
    return DiffText(tuple(found[:DIFF_LINES]), "; ".join(notes))


class DiffRowJson(TypedDict):
    """A fact about two runs, in words."""

    name: str
    left: str
    right: str
    same: bool


class DiffTextJson(TypedDict):
    """The lines of a unified diff. `note`: why it may not be the whole difference."""

    lines: list[str]
    note: str


class RunDiffJson(TypedDict):
    """The comparison of two runs, as `rota diff --json`; `duration_ms` is right minus left."""

    left: RunJson
    right: RunJson
    duration_ms: int | None
    facts: list[DiffRowJson]
    definition: list[str]
    prompt: DiffTextJson
    output: DiffTextJson


def diff_json(view: DiffView, *, now: datetime) -> RunDiffJson:
    """Return the comparison of two runs as JSON."""
    lengths = [_took(run, now) for run in (view.left, view.right)]
    known = [length for length in lengths if length is not None]
    return {
        "left": run_json(view.left.run),
        "right": run_json(view.right.run),
        "duration_ms": (known[1] - known[0]) // MILLISECOND if len(known) == 2 else None,
        "facts": [to_shape(DiffRowJson, row, same=row.same) for row in view.facts],
        "definition": list(view.definition),
        "prompt": to_shape(DiffTextJson, view.prompt),
        "output": to_shape(DiffTextJson, view.output),
    }
