"""`rota history` and `logs`."""

import sys
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, NoReturn

import click
from click.core import ParameterSource
from msgspec import Struct

from rota.cli.invocation import Invocation, RotaCommand, print_json, print_line
from rota.cli.output import Cell, Column, colour_of, print_table
from rota.model.amounts import counted
from rota.model.clock import iso
from rota.model.errors import DatabaseBusy, DatabaseGone
from rota.model.ids import is_id
from rota.model.serialize import run_json
from rota.text.ansi import clean_for_terminal, plain
from rota.text.format import read_instant

if TYPE_CHECKING:
    from rota.model.records import Run
    from rota.model.spec import JobSpec
    from rota.operations.project.locate import ProjectPaths
    from rota.operations.runs import RunFilter, SearchResult, Stretch
    from rota.store.driver import Store


LIMIT = 50


@click.command("history", cls=RotaCommand)
@click.argument("job", required=False)
@click.option("--status", "statuses", metavar="S", multiple=True, help="Only runs with this status. Repeatable.")
@click.option("--reason", "reasons", metavar="R", multiple=True, help="Only runs with this reason. Repeatable.")
@click.option("--label", "labels", metavar="L", multiple=True, help="Only runs of jobs with this label.")
@click.option("--trigger", "triggers", metavar="T", multiple=True, help="Only runs with this trigger.")
@click.option("--agent", metavar="NAME", default="", help="Only runs of this agent.")
@click.option(
    "--since",
    metavar="TIME",
    help="Only runs since this time: 30d, 2h, today, yesterday, 2026-11-15, 2026-11-15T20:41Z.",
)
@click.option("--until", metavar="TIME", help="Only runs before this time; same formats as --since.")
@click.option(
    "--grep", "text", metavar="TEXT", help="Only runs whose summary or error contains this text; ignores case."
)
@click.option(
    "--limit", "-n", type=click.IntRange(1, 100_000), default=LIMIT, show_default=True, help="Maximum number of lines."
)
@click.option("--all", "each", is_flag=True, help="Print one line per run; do not collapse equal runs.")
@click.option(
    "-f", "--follow", is_flag=True, help="Print runs as they end, until Ctrl-C; with --json one object per line."
)
@click.pass_obj
def history_command(
    invocation: Invocation,
    *,
    job: str | None,
    statuses: tuple[str, ...],
    reasons: tuple[str, ...],
    labels: tuple[str, ...],
    triggers: tuple[str, ...],
    agent: str,
    since: str | None,
    until: str | None,
    text: str | None,
    limit: int,
    each: bool,
    follow: bool,
) -> None:
    """Show runs, newest first. Equal adjacent runs of a job share a line, `disk-check ×288`; not with --json."""
    from rota.operations.runs import Lines, RunFilter, history_lines, history_with, stretch_of

    now = invocation.now()
    with invocation.store() as (_, store):
        zone = invocation.zone(store)
        asked = RunFilter(
            job=job,
            statuses=statuses,
            reasons=reasons,
            labels=labels if job else invocation.labels(labels),
            triggers=triggers,
            agent=agent,
            since=read_instant(since, zone, now=now) if since else None,
            until=read_instant(until, zone, now=now) if until else None,
        )
        if follow:
            if until:
                raise click.UsageError("--follow has no end: it goes without --until")
            first = limit if since or given("limit") else SHOWN_BEFORE
            _follow_history(invocation, store, text, asked, first=first, zone=zone)
        if invocation.as_json:
            print_json([run_json(run) for run in history_with(store, text, limit=limit, **asked)])
            return
        if each:
            runs = history_with(store, text, limit=limit + 1, **asked)
            lines = Lines(tuple(stretch_of([run]) for run in runs[:limit]), len(runs) > limit)
        else:
            lines = history_lines(store, text, limit=limit, **asked)
    if job is None:
        invocation.tell_scope()
    _show(lines.stretches, zone, now=now)
    if lines.more:
        click.echo(f"the newest {counted(len(lines.stretches), 'line')}; more with --limit")


def _show(stretches: "tuple[Stretch, ...]", zone: str, *, now: datetime) -> None:
    from rota.operations.text import cost_words, token_words

    if not stretches:
        click.echo("no runs")
        return
    told = (("COST", cost_words), ("TOKENS", token_words))
    amounts = [(name, of) for name, of in told if any(of(stretch) for stretch in stretches)]
    names = ("RUN", "STATUS", "REASON", f"STARTED ({zone})", "TOOK", *(name for name, _ in amounts))
    rows = []
    for stretch in stretches:
        *row, why = _row(stretch, zone, now=now)
        rows.append([*row, *(of(stretch) for _, of in amounts), why])
    spare = {"TOKENS"} | (set() if any(row[2] for row in rows) else {"REASON"})
    print_table([*(Column(name, spare=name in spare) for name in names), Column("WHY", flexible=True)], rows)


def _row(stretch: "Stretch", zone: str, *, now: datetime) -> "list[Cell | str]":
    from rota.operations.text import denied_words, shown_status, started_words, took, why_words

    newest, times = stretch.newest, stretch.times
    name = newest.handle if stretch.runs == 1 else newest.job
    status = ", ".join(
        part for part in (shown_status(newest), "checked" if newest.checked else "", denied_words(newest)) if part
    )
    return [
        f"{name} ×{times:,}" if times > 1 else name,
        Cell(status, colour_of(newest)),
        newest.reason.value if newest.reason else f"waits: {newest.waiting_for}" if newest.waiting_for else "",
        started_words(stretch, zone, now=now),
        took(newest, now=now),
        plain(why_words(newest, zone, now=now)),
    ]


FOLLOW_SECONDS = 0.5
SHOWN_BEFORE = 10
FOLLOWED = (("RUN", 24), ("STATUS", 10), ("REASON", 14), ("ENDED", 8), ("TOOK", 8))
"""The columns of a followed history and their least widths; the reason in words follows."""


def given(option: str) -> bool:
    """Return whether an option was written."""
    return click.get_current_context().get_parameter_source(option) is not ParameterSource.DEFAULT


def _follow_history(
    invocation: Invocation, store: "Store", text: str | None, asked: "RunFilter", *, first: int, zone: str
) -> NoReturn:
    """Print ended runs of the past, `first` at most, then runs as they end. A scheduler need not run meanwhile."""
    from rota.model.states import SHOWN
    from rota.operations.runs import history_with
    from rota.operations.status.feed import HistoryFollower

    follower = HistoryFollower(store, text, **asked)
    final = [status.value for status in SHOWN if status.final]
    chosen: RunFilter = {**asked, "statuses": asked.get("statuses") or final}
    past = [run for run in history_with(store, text, limit=first, **chosen) if run.status.final] if first else []
    follower.skip(past)
    if not invocation.as_json:
        click.echo("  ".join([*(title.ljust(width) for title, width in FOLLOWED), "WHY"]))
    failing = False
    fresh = past[::-1]
    while True:
        for run in fresh:
            _print_ended(invocation, run, zone)
        if follower.missed:
            follower.missed = False
            click.echo("rota: some runs are missing here: their changes were removed before they were read", err=True)
        invocation.pause(FOLLOW_SECONDS)
        try:
            fresh = follower.look()
            failing = False
        except (DatabaseGone, DatabaseBusy) as error:
            if not failing:
                click.echo(f"rota: {error}; retrying", err=True)
            fresh, failing = [], True


def _print_ended(invocation: Invocation, run: "Run", zone: str) -> None:
    from rota.operations.text import shown_status, took, why_words
    from rota.text.format import clock_time

    if invocation.as_json:
        print_line(run_json(run))
        return
    now = invocation.now()
    count = f" ×{run.count:,}" if run.count and run.count > 1 else ""
    texts = [f"{run.handle}{count}", shown_status(run), run.reason.value if run.reason else ""]
    texts += [clock_time(run.finished_at or run.created_at, zone), took(run, now=now)]
    cells = [text.ljust(width) for text, (_, width) in zip(texts, FOLLOWED, strict=True)]
    colour = colour_of(run)
    if colour is not None:
        cells[1] = click.style(cells[1], fg=colour)
    click.echo("  ".join([*cells, plain(why_words(run, zone, now=now))]).rstrip())


def show_matches(invocation: Invocation, text: str, *, name: str | None, since: str | None, limit: int) -> None:
    """Print the lines that contain `text`, of one run, a job's runs or all runs, newest first."""
    from rota.operations.runs import search_output

    with invocation.store() as (place, store):
        start = read_instant(since, invocation.zone(store), now=invocation.now()) if since else None
        search = search_output(
            store, place.state, text, name=name, labels=invocation.labels(), since=start, limit=limit
        )
    if invocation.as_json:
        matches = [{"run": match.run.handle, "line": match.line, "text": match.text} for match in search.matches]
        print_json({"matches": matches, "runs": search.runs, "stopped": search.stopped})
        return
    _print_match(search, text)


def _print_match(found: "SearchResult", text: str) -> None:
    for match in found.matches:
        click.echo(f"{match.run.handle}:{match.line}: {plain(match.text)}")
    if not found.matches:
        click.echo(f"rota: no output of {counted(found.runs, 'run')} holds {plain(text)!r}", err=True)
    if found.stopped:
        click.echo(f"rota: {found.stopped}", err=True)


POLL_SECONDS = 0.2


class OutputSource(Struct, frozen=True):
    """The owner of an output, its status, why it is empty, and whether it can still grow."""

    id: str
    name: str
    status: str
    final: bool
    note: str | None
    attended: bool
    spec: "JobSpec | None" = None


Look = Callable[[], OutputSource]


@click.command("logs", cls=RotaCommand)
@click.argument("run", metavar="[RUN]", required=False)
@click.option(
    "-f", "--follow", is_flag=True, help="Follow the output until the run ends; with --json one object per line."
)
@click.option("--tail", "lines", metavar="N", type=click.IntRange(0), help="Print only the last N lines.")
@click.option("--transcript", is_flag=True, help="Print the prompt, turns, tool calls and results of an agent's run.")
@click.option("--raw", is_flag=True, help="Print the raw output with control characters; for agents, the raw events.")
@click.option(
    "--grep", "text", metavar="TEXT", help="Search the output of all runs, or of one JOB, for this text; ignores case."
)
@click.option(
    "--since", metavar="TIME", help="With --grep: only runs since this time (30d, 2h, yesterday, 2026-11-15)."
)
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=200,
    show_default=True,
    help="With --grep: maximum number of lines.",
)
@click.pass_obj
def logs_command(
    invocation: Invocation,
    *,
    run: str | None,
    follow: bool,
    lines: int | None,
    raw: bool,
    transcript: bool,
    text: str | None,
    since: str | None,
    limit: int,
) -> None:
    """Print the output of a RUN (JOB:NUMBER; JOB means its newest started run; a direct call by its identifier)."""
    if text is not None:
        if follow or raw or transcript or lines is not None:
            raise click.UsageError("--grep goes with none of --follow, --tail, --raw and --transcript")
        show_matches(invocation, text, name=run, since=since, limit=limit)
        return
    if run is None or since:
        raise click.UsageError("--since belongs to --grep" if since else "name a RUN, or look for a text with --grep")
    if transcript and (follow or raw or lines is not None):
        raise click.UsageError("--transcript goes with none of --follow, --tail and --raw")
    with invocation.store() as (place, store):
        if transcript:
            _print_transcript(invocation, place, store, _meant(invocation, store, run, follow=False))
            return
        look = _look_at(invocation, place, store, _meant(invocation, store, run, follow=follow))
        source = look()
        if invocation.as_json and follow:
            _follow_as_json(invocation, place, look, lines, raw=raw)
        elif invocation.as_json:
            print_json({"run": source.name, "output": _text(place, source, lines, raw=raw), "note": source.note})
        elif follow and not source.final:
            _follow(invocation, place, look, lines, raw=raw)
        else:
            _print(place, source, lines, raw=raw)


def _meant(invocation: Invocation, store: "Store", name: str, *, follow: bool) -> str:
    """Return the run to read; for a job its newest run that started."""
    from rota.operations.runs import find_run, find_started, find_unfinished

    if is_id(name):
        return name
    newest = store.read(partial(find_run, handle=name))
    awaited = store.read(partial(find_unfinished, handle=name)) if follow else newest
    meant = awaited if follow and not awaited.status.final else store.read(partial(find_started, handle=name))
    if meant.id != newest.id and not invocation.as_json:
        reason = f" {newest.reason}" if newest.reason else ""
        click.echo(f"rota: this is {meant.handle}; {newest.handle} is {newest.status.shown}{reason}", err=True)
    return meant.id


def _look_at(invocation: Invocation, place: "ProjectPaths", store: "Store", name: str) -> Look:
    from rota.operations.direct_calls import direct_spec, direct_view
    from rota.operations.output import fetch_output, why_no_output, why_no_output_of_call
    from rota.operations.runs import show_run
    from rota.operations.status.heartbeat import attended, serves

    called = direct_view(store, name) if is_id(name) else None
    first = show_run(store, name) if called is None else None
    run_id = first.run.id if first is not None else name

    def look() -> OutputSource:
        now = invocation.now()
        call = direct_view(store, run_id) if called is not None else None
        if call is not None:
            note = why_no_output_of_call(place.state, call)
            spec = direct_spec(store, call)
            return OutputSource(
                call.id, call.name, call.status.shown, call.status.final, note, serves(place.state), spec
            )
        view = show_run(store, run_id)
        fetch_output(store, place.state, view)
        note = why_no_output(place.state, view, now=now)
        lives = attended(store, place.state, now=now, run=view.run)
        run = view.run
        return OutputSource(run_id, run.handle, run.status.shown, run.status.final, note, lives, view.spec)

    return look


def _print_transcript(invocation: Invocation, place: "ProjectPaths", store: "Store", name: str) -> None:
    from rota.operations.agents.transcripts import shown_lines, transcript_json, transcript_of
    from rota.operations.output import fetch_output, why_no_output
    from rota.operations.runs import show_run

    view = show_run(store, name)
    fetch_output(store, place.state, view)
    transcript, note = transcript_of(place.state, view), why_no_output(place.state, view, now=invocation.now())
    if invocation.as_json:
        print_json(transcript_json(view, transcript, note))
        return
    _print_lines(shown_lines(transcript))
    if note is not None:
        click.echo(f"rota: {note}", err=True)


def _text(place: "ProjectPaths", source: OutputSource, lines: int | None, *, raw: bool) -> str:
    from rota.operations.output import output_of

    text = b"".join(output_of(place.state, source.id, lines=lines)).decode("utf-8", "replace")
    return text if raw else clean_for_terminal(text)


def _print(place: "ProjectPaths", source: OutputSource, lines: int | None, *, raw: bool) -> None:
    from rota.operations.output import follow, output_of, teller_of

    if source.note is not None:
        click.echo(f"rota: {source.note}", err=True)
    elif raw:
        sys.stdout.flush()
        for chunk in output_of(place.state, source.id, lines=lines):
            sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
    elif lines is not None and teller_of(source.spec) is None:
        click.echo(_text(place, source, lines, raw=False), nl=False)
    else:
        found = follow(place.state, source.id, spec=source.spec).rest()
        _print_last(found, lines)
        if not found:
            click.echo(f"rota: {source.name} said nothing; what it printed: rota logs --raw {source.name}", err=True)


def _print_lines(lines: list[str]) -> None:
    for line in lines:
        click.echo(line, color=True)


def _follow(invocation: Invocation, place: "ProjectPaths", look: Look, lines: int | None, *, raw: bool) -> None:
    from rota.operations.output import follow

    source = look()
    reader = follow(place.state, source.id, raw=raw, spec=source.spec)
    _print_last(reader.lines(), lines)
    while not source.final:
        if not source.attended:
            _print_lines(reader.rest())
            click.echo(f"rota: {source.name} is {source.status}, and no scheduler is running here", err=True)
            return
        invocation.pause(POLL_SECONDS)
        source = look()
        _print_lines(reader.lines())
    _print_lines(reader.rest())


def _follow_as_json(invocation: Invocation, place: "ProjectPaths", look: Look, lines: int | None, *, raw: bool) -> None:
    """Print each line as a JSON object; the last object has the status. `time` is null for a line of the past."""
    from rota.operations.output import follow

    source = look()
    reader = follow(place.state, source.id, raw=raw, spec=source.spec)
    found = reader.lines()
    past = found if lines is None else found[max(len(found) - lines, 0) :]
    for text in past:
        print_line({"run": source.name, "time": None, "text": text})
    while True:
        goes_on = not source.final and source.attended
        for text in reader.lines() if goes_on else reader.rest():
            print_line({"run": source.name, "time": iso(invocation.now()), "text": text})
        if not goes_on:
            break
        invocation.pause(POLL_SECONDS)
        source = look()
    print_line({"run": source.name, "time": iso(invocation.now()), "status": source.status, "note": source.note})


def _print_last(found: list[str], lines: int | None) -> None:
    _print_lines(found if lines is None else found[max(len(found) - lines, 0) :] if lines else [])
