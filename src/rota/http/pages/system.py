"""The page of the system: scheduler, loops, workers, notifications, audit, configuration, versions, doctor."""

from datetime import datetime
from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from rota.http.api.jobs import pause_jobs, resume_jobs
from rota.http.context import TargetName, Word
from rota.http.pages.page import Pages, VisitOf
from rota.http.schemas import PauseWish
from rota.model.amounts import counted
from rota.model.errors import InvalidValue
from rota.operations.admin.access import Scope
from rota.operations.admin.audit import read_trail
from rota.operations.group_actions import drain_worker
from rota.operations.notifications import enable_target, list_deliveries, list_targets, retry_deliveries
from rota.operations.pause import JobSelection, pause
from rota.operations.project.load import configuration, versions
from rota.operations.project.locate import ProjectPaths
from rota.operations.status.summary import summarise
from rota.operations.workers import remote_workers
from rota.rules.health_checks import Severity

pages = Pages()
DELIVERIES = 12
ENTRIES = 15
LEVELS = {Severity.OK: "ok", Severity.NOTE: "queued", Severity.WARNING: "warning", Severity.PROBLEM: "failed"}


@pages.show("/ui/system")
def show_system(visit: VisitOf, before: Annotated[int | None, Query(ge=1, le=2**53)] = None) -> Response:
    """Show the scheduler, its configuration and its state."""
    store, settings = visit.ctx.store, visit.ctx.context.settings
    entries = read_trail(store, limit=ENTRIES + 1, before=before) if visit.may_admin and visit.wants("audit") else []
    answer = visit.health.heartbeat.answer
    view = {
        "summary": summarise(store, visit.ctx.state, now=visit.now),
        "started_at": _instant(answer.get("started_at")),
        "loops": [{**loop, "last_at": _instant(loop["last_at"])} for loop in answer.get("loops", ())],
        "remote": store.read(remote_workers),
        "targets": list_targets(store),
        "deliveries": list_deliveries(store, status=None, about=None, target=None, limit=DELIVERIES),
        "entries": entries[:ENTRIES],
        "following": entries[ENTRIES - 1].number if len(entries) > ENTRIES else None,
        "sections": configuration(store, settings) if visit.wants() else (),
        "versions": versions(store, visit.ctx.state, settings),
    }
    return visit.show("system.html", view, title="System", section="system")


def _instant(written: str | None) -> datetime | None:
    return datetime.fromisoformat(written) if written else None


@pages.show("/ui/system/doctor", scope=Scope.ADMIN)
def show_doctor(visit: VisitOf) -> Response:
    """Check the machine, the file, the scheduler, the database and the agents, as `rota doctor` does."""
    from rota.operations.admin.doctor import examine  # it starts every agent program: load it for this page alone

    context = visit.ctx.context
    place = ProjectPaths(context.folder, context.state, store=context.settings.store if context.settings else "sqlite")
    findings = examine(place, context.environ, clock=context.clock)
    order = (Severity.PROBLEM, Severity.WARNING, Severity.NOTE, Severity.OK)
    problems, warnings = (sum(finding.level is level for finding in findings) for level in order[:2])
    view = {
        "findings": sorted(findings, key=lambda finding: order.index(finding.level)),
        "levels": LEVELS,
        "problems": counted(problems, "problem"),
        "warnings": counted(warnings, "warning"),
    }
    return visit.show("doctor.html", view, title="Doctor", section="system")


@pages.act("/ui/scheduler/stop", back="/ui/system", scope=Scope.ADMIN)
def stop_scheduler(visit: VisitOf) -> Response:
    """Pause everything: nothing fires or starts."""
    chosen, reason = JobSelection(everything=True), visit.form.get("reason", "").strip()[:1000]
    if not visit.confirmed:
        result = pause(visit.ctx.store, chosen, until=None, reason=reason, now=visit.now, dry_run=True)
        detail = (f"{counted(len(result.jobs), 'job stops', 'jobs stop')} firing, and no queued run starts.",)
        going = counted(len(result.running), "running run continues to its end.", "running runs continue to their end.")
        says = "Nothing fires or starts until you resume it. Instants that pass meanwhile are recorded as paused."
        return visit.confirm(
            "Pause everything?", says=says, button="Pause everything", back="/ui/system", detail=(*detail, going)
        )
    pause_jobs(visit.ctx, chosen, PauseWish(until=None, seconds=None, reason=reason))
    return visit.done("everything is paused", back="/ui/system")


@pages.act("/ui/scheduler/start", back="/ui/system", scope=Scope.ADMIN)
def start_scheduler(visit: VisitOf) -> Response:
    """Resume everything."""
    resume_jobs(visit.ctx, JobSelection(everything=True), catch_up=visit.form.get("catch_up") == "once", dry_run=False)
    return visit.done("everything is resumed", back="/ui/system")


@pages.act("/ui/workers/{worker}/drain", back="/ui/system", scope=Scope.ADMIN)
def drain(visit: VisitOf, worker: Word) -> Response:
    """Drain a worker, so that it finishes its runs and claims no more; or resume it."""
    draining = visit.form.get("draining") == "yes"
    drain_worker(visit.ctx.store, worker, draining=draining)
    visit.ctx.wake()
    return visit.done(f"{worker} {'is draining' if draining else 'claims runs again'}", back="/ui/system")


@pages.act("/ui/deliveries/retry", back="/ui/system")
def retry_sent(visit: VisitOf) -> Response:
    """Resend one notification, or all that failed."""
    chosen, failed = visit.form.get("id", ""), visit.form.get("failed") == "yes"
    if not chosen and not failed:
        raise InvalidValue("no notification is named", hint="reload the page")
    names = [chosen] if chosen else []
    deliveries = retry_deliveries(visit.ctx.store, names, failed=failed, now=visit.now, dry_run=False)
    visit.ctx.wake()
    what = counted(len(deliveries), "notification is", "notifications are")
    return visit.done(f"{what} resent", back="/ui/system")


@pages.act("/ui/notify/{target}/enable", back="/ui/system")
def enable_notify(visit: VisitOf, target: TargetName) -> Response:
    """Enable a target that was disabled, or that is in backoff after failures."""
    changed = enable_target(visit.ctx.store, target)
    visit.ctx.wake()
    return visit.done(f"{target} is enabled again" if changed else f"{target} was not disabled", back="/ui/system")
