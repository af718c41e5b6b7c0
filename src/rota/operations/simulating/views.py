"""A simulation's report as JSON."""

from typing import Any

from rota.model.clock import iso
from rota.operations.simulating.reporting import AccountReport, JobReport, LevelReport, Report


def report_json(report: Report) -> dict[str, Any]:
    """Return all figures of a simulation; counts by hour begin at `hours_from`."""
    return {
        "from": iso(report.since),
        "until": iso(report.until),
        "days": report.days,
        "timezone": report.timezone,
        "hours_from": iso(report.hours_from),
        "totals": _totals(report),
        "jobs": [_job(report, job) for job in report.shown],
        "remote_calls": _calls(report),
        "budgets": [_account(one) for one in report.accounts],
        "slots": _level(report.slots),
        "pools": [_level(one) for one in report.pools],
        "collisions": {
            "seconds": report.collided,
            "most": [{"at": iso(one.at), "jobs": list(one.jobs), "times": one.times} for one in report.collisions],
        },
        "assumptions": list(report.assumptions),
        "notes": list(report.notes),
    }


def _totals(report: Report) -> dict[str, Any]:
    shown = report.shown
    return {
        "fires": sum(job.fires for job in shown),
        "runs": sum(job.runs for job in shown),
        "skipped": sum(sum(job.skipped.values()) for job in shown),
        "retries": sum(job.retries for job in shown),
        "cost": summed_cost(report),
    }


def summed_cost(report: Report) -> dict[str, int]:
    """Return what all runs are expected to use of tokens and of millionths of a dollar."""
    units = dict.fromkeys(unit for job in report.shown for unit in job.cost)
    return {unit: sum(job.cost.get(unit, 0) for job in report.shown) for unit in units}


def _job(report: Report, job: JobReport) -> dict[str, Any]:
    return {
        "name": job.name,
        "fires": job.fires,
        "runs": job.runs,
        "retries": job.retries,
        "ends": dict(job.ends),
        "skipped": dict(job.skipped),
        "waits": dict(job.waits),
        "unfinished": job.unfinished,
        "paused": job.paused,
        "takes_seconds": job.takes.duration.total_seconds(),
        "takes_known": job.takes.known,
        "running_seconds": job.running.total_seconds(),
        "longest_wait_seconds": job.longest_wait.total_seconds(),
        "remote_calls": job.calls,
        "cost": dict(job.cost),
        "busiest_hour": {"at": iso(report.hour(job.busiest)), "fires": job.hours[job.busiest]} if job.fires else None,
        "hours": list(job.hours),
        "skipped_hours": list(job.skipped_hours),
        "modes": [{"at": iso(one.at), "mode": one.mode.value} for one in job.modes],
    }


def _calls(report: Report) -> dict[str, Any]:
    polls = sum(job.calls for job in report.jobs if job.is_poll)
    against = report.against
    return {
        "total": report.calls,
        "a_day": report.calls / report.days,
        "polls": polls,
        "jobs": report.calls - polls,
        "by_day": [{"date": one.date, "calls": one.calls} for one in report.calls_by_day],
        "single_tick": None
        if against is None
        else {
            "interval_seconds": against.interval.total_seconds(),
            "calls": against.calls,
            "a_day": against.a_day,
            "total": against.a_day * report.days,
        },
    }


def _account(one: AccountReport) -> dict[str, Any]:
    account = one.account
    return {
        "name": account.name,
        "unit": account.unit.value,
        "limit": account.limit,
        "per": account.per.value,
        "policy": account.policy.value,
        "most": one.most,
        "windows": [
            {"since": iso(window.since), "until": iso(window.until), "used": window.used} for window in one.windows
        ],
    }


def _level(one: LevelReport) -> dict[str, Any]:
    return {
        "name": one.name,
        "capacity": one.capacity,
        "peak": one.peak,
        "mean": round(one.mean, 3),
        "share_full": round(one.share_full, 5),
        "longest_wait_seconds": one.longest_wait.total_seconds(),
    }
