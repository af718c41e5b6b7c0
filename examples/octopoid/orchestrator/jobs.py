"""The functions that the jobs of rota.yaml run. Each gets a context; what it returns is the run's summary.

`ctx.poll_data` is what the shared poll brought: a read-only map for jobs with `group: remote`, None for local ones.
"""

import subprocess
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from orchestrator.agents import STATE, lives, pid_files
from rota import job as register_job
from rota.runners.context import JobContext


def counts_of(ctx: JobContext) -> Mapping[str, int]:
    """Return how many tasks stand in each queue of the server."""
    found: Mapping[str, int] = (ctx.poll_data or {}).get("queue_counts", {})
    return found


@register_job("check_finished_agents")
def check_finished_agents(ctx: JobContext) -> str:
    """Clear away what agents leave that have ended."""
    finished = [file for file in pid_files() if not lives(file)]
    for file in finished:
        file.unlink(missing_ok=True)
        ctx.log(f"{file.stem} has finished")
    return f"{len(finished)} finished"


@register_job("register_orchestrator")
def register_orchestrator(ctx: JobContext) -> str:
    """Say whether the server knows this orchestrator, for all jobs; the request that makes it known belongs here."""
    known = (ctx.poll_data or {}).get("orchestrator_registered", False)
    ctx.scheduler_state["registered"] = known
    ctx.log("the server knows us" if known else "the server does not know us")
    return "registered" if known else "not registered"


@register_job("requeue_expired_leases")
def requeue_expired_leases(ctx: JobContext) -> str:
    """Find the leases that ended before this run was due."""
    leases: list[dict[str, Any]] = (ctx.poll_data or {}).get("leases", [])
    expired = [one for one in leases if datetime.fromisoformat(one["expires_at"]) <= ctx.run.scheduled_for]
    for one in expired:
        ctx.log(f"the lease of {one['task']} ended at {one['expires_at']}")
    return f"{len(expired)} of {len(leases)} leases have expired"


@register_job("process_hooks")
def process_hooks(ctx: JobContext) -> str:
    """Name the tasks whose hooks have not run; no request is made for them, the poll brought them."""
    tasks = (ctx.poll_data or {}).get("provisional_tasks", [])
    for task in tasks:
        ctx.log(f"{task['id']} has {len(task.get('hooks', []))} hooks to run")
    return f"{len(tasks)} tasks wait"


@register_job("check_project_completion")
def check_project_completion(ctx: JobContext) -> str:
    """Say whether anything is left to do, and in `ctx.state` since which run that has been so."""
    left = sum(counts_of(ctx).get(queue, 0) for queue in ("incoming", "claimed", "provisional"))
    if left:
        ctx.state.pop("complete_since", None)
        ctx.log(f"{left} tasks are left")
        return "not complete"
    since = ctx.state.setdefault("complete_since", ctx.run.scheduled_for.isoformat())
    ctx.log(f"nothing has been left since {since}")
    return "complete"


@register_job("check_queue_health")
def check_queue_health(ctx: JobContext) -> str:
    """Warn when one task in five fails."""
    done, failed = counts_of(ctx).get("done", 0), counts_of(ctx).get("failed", 0)
    tell = ctx.log.warning if failed * 5 > done + failed else ctx.log.info
    tell(f"{failed} of {done + failed} tasks failed")
    return f"{done} done, {failed} failed"


@register_job("evaluate_agents")
def evaluate_agents(ctx: JobContext) -> str:
    """Compare how many agents live here with how many tasks nobody has taken."""
    living, waiting = sum(map(lives, pid_files())), counts_of(ctx).get("incoming", 0)
    ctx.log(f"{living} agents for {waiting} tasks")
    return f"{max(waiting - living, 0)} more could work"


@register_job("sweep_stale_worktrees")
def sweep_stale_worktrees(ctx: JobContext) -> str:
    """Remove empty worktrees; nobody works in them, as the condition of the job says."""
    empty = [folder for folder in sorted((STATE / "worktrees").glob("*/")) if not any(folder.iterdir())]
    for folder in empty:
        folder.rmdir()
        ctx.log(f"{folder.name} was empty")
    return f"{len(empty)} removed"


@register_job("cleanup_merged_branches")
def cleanup_merged_branches(ctx: JobContext) -> str:
    """Name the branches that could be deleted; deleting them is left to a person."""
    asked = ["git", "branch", "--merged", "--format=%(refname:short)"]
    done = subprocess.run(asked, cwd=STATE.parent, capture_output=True, text=True, check=False)
    merged = [name for name in done.stdout.split() if name not in ("main", "master")]
    for name in merged:
        ctx.log(f"{name} is merged")
    ctx.log(f"{len(merged)} branches are merged")
    return f"{len(merged)} merged"
