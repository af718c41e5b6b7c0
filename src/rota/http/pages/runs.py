"""The pages of runs and one run."""

from datetime import datetime
from functools import partial
from typing import Annotated, Any

from fastapi import Depends, Query
from msgspec import Struct
from msgspec.structs import replace
from pydantic import AfterValidator
from starlette.responses import Response

from rota.http.context import RunName, segment
from rota.http.pages.groups import group_path, run_gantt
from rota.http.pages.page import PageContext, Pages, View, VisitOf, fit
from rota.http.pages.stats import As
from rota.model.errors import RotaError
from rota.model.records import cut
from rota.model.states import SHOWN, Reason, Trigger
from rota.operations import text as words
from rota.operations.agents.transcripts import transcript_of
from rota.operations.agents.worktrees import WorktreeChanges, worktree_changes
from rota.operations.diff import DIFF_LINES, DiffView, diff_runs
from rota.operations.explain import explain
from rota.operations.groups import group_around
from rota.operations.output import IMAGE, JSON, TEXT, fetch_output, files_of, preview, timed_lines, why_no_output
from rota.operations.run_actions import cancel_run, retry_run, stop_unattended
from rota.operations.runs import Query as RunQuery
from rota.operations.runs import (
    RunsPage,
    RunView,
    Stretch,
    collapsed,
    history,
    page_of_runs,
    shorter,
    show_run,
    stretch_of,
)
from rota.rules.budgets import say_usage
from rota.store.tables.run_queries import neighbours
from rota.text.ansi import StyledSpan, plain, styled_lines
from rota.text.format import clock_time, read_instant
from rota.text.runs import attempts_of

pages = Pages()
PATH = "/ui/runs"
LINES = 50
ROWS = 300
WHY_LENGTH = 400
"""Characters of an error or summary in the list; the page of the run has all of it."""
SPANS = (("", "Any time"), ("1h", "Last hour"), ("1d", "Last day"), ("7d", "Last week"), ("30d", "Last 30 days"))
TRIGGERS = tuple(trigger.value for trigger in Trigger if trigger is not Trigger.DIRECT)


Stripped = Annotated[str, AfterValidator(str.strip)]


class RunsForm(Struct, frozen=True):
    """The fields of the form."""

    q: Annotated[Stripped, Query(max_length=200)] = ""
    job: Annotated[Stripped, Query(max_length=300)] = ""
    status: Annotated[Stripped, Query(max_length=20)] = ""
    reason: Annotated[Stripped, Query(max_length=50)] = ""
    label: Annotated[Stripped, Query(max_length=100)] = ""
    agent: Annotated[Stripped, Query(max_length=100)] = ""
    trigger: Annotated[Stripped, Query(max_length=20)] = ""
    since: Annotated[Stripped, Query(max_length=64)] = ""
    until: Annotated[Stripped, Query(max_length=64)] = ""

    @property
    def anything(self) -> bool:
        """Whether any filter is set."""
        return any(getattr(self, name) for name in self.__struct_fields__)

    @property
    def rarely(self) -> bool:
        """Whether a filter is set that the first line of the form does not show."""
        return any((self.reason, self.label, self.agent, self.trigger, self.until))


@pages.show("/ui/runs")
def show_runs(
    visit: VisitOf,
    asked: Annotated[RunsForm, Depends()],
    each: Annotated[bool, Query()] = False,  # noqa: FBT002
    cursor: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    """Show runs, newest first."""
    page, query, problem = _found(visit, asked, each=each, cursor=cursor)

    def show(runs: int) -> Response:
        part = page if query is None else shorter(page, query, count=runs)
        first = _href(visit, asked, each=each) if cursor else ""
        view = {**_view(visit, asked, part, each=each), "problem": problem, "first": first}
        return visit.show("runs.html", view, title="Runs", section="runs")

    return fit(show, lines=len(page.runs))


def _view(visit: PageContext, asked: RunsForm, found: RunsPage, *, each: bool) -> View:
    stretches = [stretch_of([run]) for run in found.runs] if each else collapsed(found.runs)
    rows = [_row(visit, stretch) for stretch in stretches]
    return {
        "asked": asked,
        "rows": rows,
        "costs": any(row["cost"] or row["tokens"] for row in rows),
        "each": each,
        "after": _href(visit, asked, each=each, cursor=found.cursor) if found.cursor else "",
        "other": _href(visit, asked, each=not each),  # the same runs, collapsed or not
        "back_to": found.back_to if len(found.runs) < LINES else None,  # the search for a text stopped there
        "statuses": tuple(SHOWN),
        "reasons": sorted(Reason),
        "triggers": TRIGGERS,
        "spans": SPANS,
    }


def _found(
    visit: PageContext, asked: RunsForm, *, each: bool, cursor: str
) -> tuple[RunsPage, RunQuery | None, RotaError | None]:
    """Return the runs of the page and their query; an invalid filter finds none and is the problem."""
    try:
        query = RunQuery(
            job=asked.job or None,
            statuses=_list(asked.status),
            reasons=_list(asked.reason),
            labels=_list(asked.label),
            triggers=_list(asked.trigger),
            agent=asked.agent,
            text=asked.q,
            since=_instant(visit, asked.since),
            until=_instant(visit, asked.until),
        )
        limit = LINES if each or asked.q else ROWS
        return page_of_runs(visit.ctx.store, query, cursor=cursor or None, limit=limit), query, None
    except RotaError as error:
        return RunsPage((), None), None, error


def _list(word: str) -> tuple[str, ...]:
    return (word,) if word else ()


def _instant(visit: PageContext, written: str) -> datetime | None:
    return read_instant(written, visit.zone, now=visit.now) if written else None


def _row(visit: PageContext, stretch: Stretch) -> View:
    newest = stretch.newest
    alike = RunsForm(job=newest.job, status=newest.status.shown.value, reason=newest.reason or "")
    return {
        "run": newest,
        "path": _page(newest.handle),
        "each": _href(visit, alike, each=True),
        "times": stretch.times,
        "started": words.started_words(stretch, visit.zone, now=visit.now),
        "unstarted": words.unstarted_word(newest),
        "cost": words.cost_words(stretch),
        "tokens": words.token_words(stretch),
        "why": cut(plain(words.why_words(newest, visit.zone, now=visit.now)), WHY_LENGTH),
    }


def _href(visit: PageContext, asked: RunsForm, *, each: bool, cursor: str | None = None) -> str:
    given: dict[str, Any] = {name: getattr(asked, name) for name in asked.__struct_fields__}
    return visit.href(PATH, **given, each="true" if each else "", cursor=cursor)


OUTPUT_LINES = 300
MAX_LINES = 5_000
LONGEST_LINE = 4_000
TRANSCRIPT_SIZE = 20_000
"""The characters of the transcript; `rota logs --transcript` and the API have all of it."""
TRANSCRIPT_TEXT = 2_000
OWN_PARTS = (
    *("error", "summary", "result", "denied", "told", "chain", "attempt"),
    *("due", "started", "took", "used", "next try"),
)
"""Facts with a place of their own on the page."""


class Written(Struct, frozen=True):
    """The last lines of the output."""

    lines: tuple[tuple[StyledSpan, ...], ...] = ()
    times: tuple[str, ...] = ()
    """The time of each line; an empty text: not known."""
    cut: bool = False
    large: bool = False
    """Whether more lines would make the page too large."""
    why: str = ""
    more: str = ""
    all: str = ""

    @property
    def timed(self) -> bool:
        """Whether the time of any line is known."""
        return any(self.times)


@pages.show("/ui/runs/{run}")
def show_one_run(
    visit: VisitOf, run: RunName, lines: Annotated[int, Query(ge=1, le=MAX_LINES)] = OUTPUT_LINES, shown: As = ""
) -> Response:
    """Show a run."""
    ctx = visit.ctx
    run_view = show_run(ctx.store, run)
    handle = run_view.run.handle
    beside = ctx.store.read(partial(neighbours, run=run_view.run))
    as_table = shown == "table"
    following = [attempt for attempt in run_view.chain if attempt.attempt == run_view.run.attempt + 1]
    written = _written(visit, run_view, lines=lines) if visit.wants("output") else Written()
    view = {
        "view": run_view,
        "path": _page(handle),
        "before": None if beside.before is None else f"{run_view.run.job}:{beside.before}",
        "after": None if beside.after is None else f"{run_view.run.job}:{beside.after}",
        "used": say_usage(run_view.run.usage) if run_view.run.usage else "",
        "gantt": run_gantt(visit, run_view.run, path=_page(handle), as_table=as_table)
        if visit.wants("spans")
        else None,
        "job_path": f"/ui/jobs/{segment(run_view.run.job)}",
        "pairs": [
            pair for pair in words.run_pairs(run_view, zone=visit.zone, now=visit.now) if pair[0] not in OWN_PARTS
        ],
        "why": explain(ctx.store, run_view.run.id, state=ctx.state, now=visit.now) if visit.wants("why") else None,
        "chain": run_view.chain if len(run_view.chain) > 1 else (),
        "group": ctx.store.read(partial(group_around, run=run_view.run)),
        "attempts": attempts_of(run_view.run, run_view.spec),
        "group_path": group_path,
        "successor": next(iter(following), None),
        "transcript": _transcript(visit, run_view),
        "files": _files(visit, run_view) if visit.wants("files") else (),
    }

    def show(count: int) -> Response:
        return visit.show("run.html", {**view, "written": _last(written, count)}, title=handle, section="runs")

    return fit(show, lines=len(written.lines))


def _written(visit: PageContext, found: RunView, *, lines: int) -> Written:
    ctx = visit.ctx
    fetch_output(ctx.store, ctx.state, found)
    timed_line_list = timed_lines(ctx.state, found, lines=lines + 1)
    path, more = _page(found.run.handle), len(timed_line_list) > lines
    return Written(
        lines=tuple(styled_lines(cut(line.text, LONGEST_LINE) for line in timed_line_list[-lines:])),
        times=tuple(clock_time(line.at, visit.zone) if line.at else "" for line in timed_line_list[-lines:]),
        cut=more,
        why="" if timed_line_list else why_no_output(ctx.state, found, now=visit.now) or "",
        more=visit.href(path, lines=min(lines * 4, MAX_LINES)) if more and lines < MAX_LINES else "",
        all=visit.href(f"/api/v1/runs/{segment(found.run.handle)}/output") if timed_line_list else "",
    )


def _transcript(visit: PageContext, found: RunView) -> object | None:
    """Return the last turns of an agent's run; None for other work, or without a turn."""
    if found.spec.work.agent is None or found.run.started_at is None or not visit.wants("transcript"):
        return None
    transcript = transcript_of(visit.ctx.state, found, size=TRANSCRIPT_SIZE, limit=TRANSCRIPT_TEXT)
    return transcript if transcript.turns else None


FILES_SHOWN = 30
PREVIEWS = 5
PREVIEW_LENGTH = 3_000
IMAGE_SIZE = 2_000_000


def _files(visit: PageContext, found: RunView) -> list[View]:
    """Return the files of the result; the first texts and images are shown."""
    views, shown = [], 0
    for file in files_of(visit.ctx.state, found)[:FILES_SHOWN]:
        drawn = file.kind == IMAGE and (file.size or 0) <= IMAGE_SIZE
        text = preview(file, limit=PREVIEW_LENGTH) if file.kind in (TEXT, JSON) and file.kept else ""
        drawn, text = (drawn, text) if shown < PREVIEWS else (False, "")
        shown += bool(drawn or text)
        path = f"/api/v1/runs/{segment(found.run.handle)}/files/{file.number}"
        views.append({"file": file, "href": visit.href(path), "drawn": drawn, "text": text})
    return views


def _last(written: Written, count: int) -> Written:
    """Return the last `count` lines; if that omits some, the page had no room for more."""
    if count >= len(written.lines):
        return written
    return replace(written, lines=written.lines[-count:], times=written.times[-count:], cut=True, large=True, more="")


@pages.show("/ui/runs/{run}/diff")
def compare_runs(
    visit: VisitOf, run: RunName, other: Annotated[Stripped, Query(alias="with", max_length=300)] = ""
) -> Response:
    """Compare a run with another one, by default with the previous run of its job."""
    ctx = visit.ctx
    found = show_run(ctx.store, run).run
    chosen, problem, compared = other, None, None
    if not other:
        before = ctx.store.read(partial(neighbours, run=found)).before
        chosen = "" if before is None else f"{found.job}:{before}"
    try:
        compared = diff_runs(ctx.store, ctx.state, chosen, found.handle, now=visit.now) if chosen else None
    except RotaError as error:
        problem = error
    view = {
        "run": found,
        "path": _page(found.handle),
        "other": chosen,
        "problem": problem,
        "compared": compared,
        "recent": [one.handle for one in history(ctx.store, job=found.job, limit=RECENT) if one.id != found.id],
    }

    def show(count: int) -> Response:
        texts = () if compared is None else _diffs(compared, count)
        return visit.show("diff.html", {**view, "texts": texts}, title=f"Compare {found.handle}", section="runs")

    return fit(show, lines=DIFF_LINES)


@pages.show("/ui/runs/{run}/changes")
def show_changes(visit: VisitOf, run: RunName) -> Response:
    """Show what a run of an agent changed in its worktree."""
    run_view = show_run(visit.ctx.store, run)
    tree = run_view.worktree
    changes = WorktreeChanges(problem="it has no worktree") if tree is None else worktree_changes(tree)
    lines = changes.patch.splitlines()
    files = changes.files
    view = {
        "run": run_view.run,
        "path": _page(run_view.run.handle),
        "tree": tree,
        "problem": changes.problem,
        "files": files[:CHANGED_FILES],
        "more_files": max(len(files) - CHANGED_FILES, 0),
        "count": len(files),
        "insertions": sum(change.insertions or 0 for change in files),
        "deletions": sum(change.deletions or 0 for change in files),
    }

    def show(count: int) -> Response:
        shown = [_diff_line(line, head=line.startswith(_HEADS)) for line in lines[:count]]
        rest = {"lines": shown, "cut": changes.cut or count < len(lines)}
        return visit.show("changes.html", {**view, **rest}, title=f"Changes of {run_view.run.handle}", section="runs")

    return fit(show, lines=len(lines))


CHANGED_FILES = 200
_HEADS = ("+++ ", "--- ")
RECENT = 20


def _diffs(compared: DiffView, count: int) -> list[View]:
    """Return the differences of prompt and output with at most so many lines in all."""
    found = []
    for title, text in (("Prompt", compared.prompt), ("Output", compared.output)):
        lines = [_diff_line(line, head=number < 2) for number, line in enumerate(text.lines)]
        found.append(
            {"title": title, "lines": lines[:count], "left_out": max(len(lines) - count, 0), "note": text.note}
        )
        count = max(count - len(lines), 0)
    return found


def _diff_line(line: str, *, head: bool) -> View:
    return {"text": cut(line, LONGEST_LINE // 4), "kind": "" if head else _DIFF_KINDS.get(line[:1], "")}


_DIFF_KINDS = {"+": "added", "-": "removed", "@": "place"}


@pages.act("/ui/runs/{run}/cancel", back=PATH)
def cancel_one_run(visit: VisitOf, run: RunName) -> Response:
    """Cancel a run: remove a queued one, stop a running one."""
    if not visit.confirmed:
        found = cancel_run(visit.ctx.store, run, now=visit.now, dry_run=True)
        says = "It has not started and will not start." if found.final else "It runs now: its processes are stopped."
        return visit.confirm(f"Cancel {found.run.handle}?", says=says, button="Cancel it", back=_page(run))
    done = cancel_run(visit.ctx.store, run, now=visit.now)
    visit.ctx.wake()
    if not done.final:
        stop_unattended(visit.ctx.store, visit.ctx.state, [done.run.id])
    return visit.done(f"{done.run.handle} is {'cancelled' if done.final else 'being stopped'}", back=_page(run))


@pages.act("/ui/runs/{run}/retry", back=PATH)
def retry_one_run(visit: VisitOf, run: RunName) -> Response:
    """Run a finished run again, as a new run."""
    again = visit.form.get("again") == "yes"
    done = retry_run(visit.ctx.store, run, now=visit.now, again=again)
    visit.ctx.wake()
    made = show_run(visit.ctx.store, done.born.id).run if done.born else done.run
    return visit.done(f"{made.handle} retries {done.run.handle}", back=_page(made.handle))


def _page(handle: str) -> str:
    return f"{PATH}/{segment(handle)}"
