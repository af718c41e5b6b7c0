"""The output of `rota run --dry-run`."""

import shlex
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from rota.cli.invocation import Invocation, print_json
from rota.model.amounts import counted
from rota.model.clock import iso
from rota.model.serialize import fields_json
from rota.model.spec import SessionMode
from rota.rules.admission import Defer, Refuse, Skip
from rota.rules.budgets import judge, say_amount, say_used
from rota.rules.outcome import say_retry
from rota.text.ansi import plain
from rota.text.jobs import say_brief, say_room
from rota.text.schedule import say_quiet_now

if TYPE_CHECKING:
    from rota.operations.dry_run import DryRunReport

NOTHING = "nothing was started, claimed or spent"


def show_rehearsal(
    invocation: Invocation, job: str, params: dict[str, Any], *, force: bool, full: bool = False, retry: bool = False
) -> int:
    """Print the dry run of a start."""
    from rota.operations.dry_run import rehearse

    place = invocation.place()
    with invocation.store_if_applied() as store:
        dry_run = rehearse(
            place, job, store=store, clock=invocation.clock, environ=invocation.environ, params=params, force=force
        )
    if invocation.as_json:
        print_json(_as_json(dry_run))
        return 0
    _show(dry_run, force=force, retry=retry, now=invocation.now())
    if full and dry_run.asked is not None:
        click.echo(f"\n{dry_run.asked.prompt}")
    return 0


def _show(found: "DryRunReport", *, force: bool, retry: bool, now: datetime) -> None:
    for label, text in _pairs(found, force=force, retry=retry, now=now):
        click.echo(f"{label:12} {text}")
    asked = any(condition.command for condition in found.spec.gates.conditions) and not force
    click.echo(NOTHING + ("; the commands of its conditions were really run" if asked else ""))


def _pairs(found: "DryRunReport", *, force: bool, retry: bool, now: datetime) -> Iterator[tuple[str, str]]:
    import json

    from rota.operations.dry_run import overlap_words

    spec = found.spec
    note = "" if found.applied else " (as the file says; it is not applied yet)"
    yield "would run", f"{spec.name}, {_where(found)}{note}"
    yield "members" if spec.work.members else "command", plain(_work(found))
    yield from ((label, plain(text)) for label, text in _asked(found))
    if found.params:
        yield "params", plain(json.dumps(dict(found.params), ensure_ascii=False))
    yield from (("conditions", text) for text in _conditions(found, force=force))
    yield from (("budget", text) for text in _budgets(found))
    if found.work is not None:
        yield "work", plain(found.work.text)
    if found.pools:
        yield "pools", say_room(spec.pools, found.pools, zone=spec.schedule.timezone, now=now)
    if (quiet := _quiet(found, now)) is not None:
        yield "quiet hours", quiet
    yield "overlap", "ignored, --force" if force else overlap_words(found)
    if not spec.work.members:
        yield (
            "retry",
            say_retry(spec.retry) if retry else "none: `rota run` makes one attempt; --retry keeps the policy",
        )
    if found.environment:
        yield "environment", f"{_names(found.environment)} (names only)"
    yield from (("but", text) for text in _obstacles(found))


def _where(found: "DryRunReport") -> str:
    agent_request = found.asked
    if agent_request is None:
        return f"in {found.cwd}"
    program = " ".join(part for part in (agent_request.work.adapter, agent_request.version) if part)
    details = ", ".join(part for part in (program, agent_request.work.model) if part)
    place = f"in {found.cwd}" if agent_request.workspace is None else f"in {agent_request.workspace}"
    listed = (
        f" of [{', '.join(choice.title for choice in agent_request.work.choices)}]"
        if agent_request.work.choices
        else ""
    )
    return f"agent {agent_request.work.agent} ({details}){listed}, {place}"


def _asked(found: "DryRunReport") -> list[tuple[str, str]]:
    agent_request = found.asked
    if agent_request is None:
        return []
    given = dict(say_brief(agent_request.work))
    source = f"{agent_request.work.prompt_file}, " if agent_request.work.prompt_file else ""
    told = [("prompt", f"{source}{counted(len(agent_request.prompt), 'character')}, shown with --full")]
    if agent_request.work.session is SessionMode.RESUME:
        told.append(
            (
                "session",
                f"resume: continues {agent_request.session}" if agent_request.session else "resume: starts a new one",
            )
        )
    return told + [(label, given[label]) for label in ("carry", "after") if label in given]


def _quiet(found: "DryRunReport", now: datetime) -> str | None:
    """Return the job's quiet hours, which a manual start ignores."""
    told = say_quiet_now(found.spec.schedule, now=now)
    return told if told is None or told.endswith("open") else f"{told}; a start by hand ignores them"


def _work(found: "DryRunReport") -> str:
    from rota.operations.text import work_words

    work = found.spec.work
    if work.members:
        return work_words(found.spec)
    if not work.in_process:
        return shlex.join(found.argv)
    if work.agent is not None and not work.agent.function:
        return f"a request to {work.agent.adapter}, inside the scheduler"
    function = work.function if work.agent is None else work.agent.function
    return f"python function {function}, inside the scheduler"


def _names(environment: tuple[str, ...]) -> str:
    own = [name for name in environment if not name.startswith("ROTA_")]
    return " ".join([*own, "+ ROTA_*"])


def _conditions(found: "DryRunReport", *, force: bool) -> list[str]:
    conditions = found.spec.gates.conditions
    if not conditions:
        return ["none"]
    if force:
        return ["ignored, --force"]
    told = [
        plain(f"{result.title} → {result.answer} ({f'{result.detail}, ' if result.detail else ''}{result.took_ms} ms)")
        for result in found.conditions
    ]
    left = conditions[len(told) :]
    return [*told, *(f"{plain(condition.title)} → not checked" for condition in left)]


def _budgets(found: "DryRunReport") -> list[str]:
    told = []
    for one in found.charges:
        used = say_used(one.used, one.account.limit, one.account.unit)
        wanted = f"{say_amount(one.estimate.amount, one.account.unit)} (by {one.estimate.origin})"
        told.append(f"{one.account.name}  {used} used or reserved, would reserve {wanted} → {one.answer}")
    return told


def _budget_obstacles(found: "DryRunReport") -> list[str]:
    verdict = judge(found.charges)
    if isinstance(verdict, Skip):
        return [f"it would be SKIPPED {verdict.reason}: {verdict.why}"]
    return [f"it would wait for its budget until {iso(verdict.until)}"] if isinstance(verdict, Defer) else []


def _obstacles(found: "DryRunReport") -> list[str]:
    told = [f"it would be refused: {found.refused}"] if found.refused else []
    if found.problem:
        told.append(f"it would fail at once: {plain(found.problem)}")
    if isinstance(found.overlap.verdict, Refuse):
        told.append("it would be refused")
    if isinstance(found.admission, Skip):
        told.append(f"it would be SKIPPED {found.admission.reason}: {plain(found.admission.why)}")
    if isinstance(found.admission, Defer):
        told.append("it would wait until its condition is true")
    if found.work is not None and found.work.obstacle is not None:
        told.append(found.work.obstacle)
    return told + _budget_obstacles(found)


def _as_json(found: "DryRunReport") -> dict[str, Any]:
    from rota.engine.transactions.budgets import charge_json
    from rota.operations.dry_run import peeked_json

    return {
        "job": found.spec.name,
        "applied": found.applied,
        "kind": found.spec.work.kind.value,
        **fields_json(found, "argv", "cwd", "params", "environment"),
        "conditions": [
            fields_json(condition, "title", "answer", "detail", "took_ms") for condition in found.conditions
        ],
        "budgets": [charge_json(charge) for charge in found.charges],
        "work": peeked_json(found.work),
        "pools": [fields_json(pool, "name", "capacity", "used", "held_until") for pool in found.pools],
        "agent": _agent_json(found),
        "obstacles": _obstacles(found),
    }


def _agent_json(found: "DryRunReport") -> dict[str, Any] | None:
    agent_request = found.asked
    if agent_request is None:
        return None
    return {
        "agent": agent_request.work.agent,
        "adapter": agent_request.work.adapter,
        "version": agent_request.version or None,
        "model": agent_request.work.model,
        **fields_json(agent_request, "workspace", "session", "prompt"),
    }
