"""A job's definition in words: what it does and under which policies, in the words of the file."""

import json
import shlex
from collections.abc import Iterable

from rota.model.durations import say_duration, write_duration
from rota.model.records import cut
from rota.model.spec import AgentWork, JobSpec, Kind
from rota.operations.words import counted, plain
from rota.rules.brief_words import say_brief
from rota.rules.budget_words import say_spend
from rota.rules.pool_words import say_draws
from rota.rules.retry import say_retry

Pairs = Iterable[tuple[str, str]]


def spec_pairs(spec: JobSpec) -> Pairs:
    """Yield what a job does and under which policies, in the words of the file."""
    work, gates = spec.work, spec.gates
    yield from _work_pairs(spec)
    if work.params:
        yield "params", plain(json.dumps(dict(work.params), ensure_ascii=False))
    names = [*(variable.name for variable in work.env), *work.env_pass, *([work.env_file] if work.env_file else [])]
    if names:
        yield "environment", plain(" ".join(names))
    if work.kind is not Kind.GROUP:
        yield "timeout", say_duration(work.timeout) if work.timeout else "never"
    if gates.conditions:
        yield "conditions", f"{', '.join(one.title for one in gates.conditions)}; when false: {gates.when_false}"
    if work.kind is not Kind.GROUP:
        yield "retry", say_retry(spec.retry)
    if spec.on_repeated_failure:
        most = write_duration(spec.on_repeated_failure.backoff_max)
        yield "held back", f"after {spec.on_repeated_failure.after} failures in a row, {most} at most"
    age = f", at most {write_duration(spec.misfire.max_age)} late" if spec.misfire.max_age else ""
    yield "misfire", f"{spec.misfire.policy}{age}"
    yield "overlap", spec.overlap.policy.value
    if spec.pools:
        yield "pools", say_draws(spec.pools)
    if spec.budgets:
        yield "budget", ", ".join(say_spend(spend) for spend in spec.budgets)
    if spec.labels:
        yield "labels", plain(", ".join(spec.labels))
    if spec.priority:
        yield "priority", str(spec.priority)


def _work_pairs(spec: JobSpec) -> Pairs:
    yield spec.work.kind.value, work_words(spec)
    if spec.work.kind is not Kind.GROUP:
        yield "folder", plain(spec.work.cwd)
    if spec.work.agent is not None:
        if limits := _agent_limits(spec.work.agent):
            yield "limits", ", ".join(limits)
        yield from ((label, plain(text)) for label, text in say_brief(spec.work.agent))


def limit_words(spec: JobSpec) -> str:
    """Return what bounds each run of a job, written in the file or not; empty for a group, whose members are bound."""
    if spec.work.kind is Kind.GROUP:
        return ""
    timeout = f"timeout {say_duration(spec.work.timeout)}" if spec.work.timeout else "no timeout"
    agent = _agent_limits(spec.work.agent) if spec.work.agent is not None else []
    return ", ".join([timeout, counted(spec.retry.max_attempts, "attempt"), *agent])


def _agent_limits(work: AgentWork) -> list[str]:
    turns = [] if work.max_turns is None else [counted(work.max_turns, "turn")]
    return turns + ([] if work.max_usd is None else [f"${work.max_usd:.2f}"])


def work_words(spec: JobSpec) -> str:
    """Return the work itself on one line."""
    work = spec.work
    if work.members:
        listed = [f"{member.job}{' (always)' * member.always}" for member in work.members]
        joint = " → " if work.mode == "sequential" else " | "
        return f"{joint.join(listed)}  ({work.mode}, on_failure: {work.on_failure})"
    if work.agent is not None:
        return plain(_agent_words(work.agent))
    return plain(shlex.join(work.command) if work.command else work.shell or work.function or work.url)


def _agent_words(work: AgentWork) -> str:
    """Return who is asked, with which access, and the beginning of what."""
    model = f", {work.model}" if work.model else ""
    name = work.agent if work.agent == work.adapter else f"{work.agent} ({work.adapter})"
    asked = work.prompt_file or cut(" ".join(work.prompt.split()), 80) or "the default task"
    return f"{name}{model}, access {work.access}: {asked}"
