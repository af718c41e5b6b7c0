"""The functions that rota.yaml names; each only says what it would do."""

import rota


def check_finished_agents(_ctx: rota.JobContext) -> str:
    """Look whether an agent that was started has ended."""
    return "no agent has ended"


def register_orchestrator(ctx: rota.JobContext) -> str:
    """Register this machine, unless the poll says that it is."""
    registered = (ctx.poll_data or {}).get("orchestrator_registered")
    return "registered already" if registered else "registered"


def requeue_expired_leases(_ctx: rota.JobContext) -> str:
    """Put tasks back whose lease is over."""
    return "no lease is over"


def process_hooks(ctx: rota.JobContext) -> str:
    """Run the hooks of provisional tasks, which the poll has listed."""
    return f"{len((ctx.poll_data or {}).get('provisional_tasks', []))} tasks with hooks"


def check_project_completion(_ctx: rota.JobContext) -> str:
    """Look whether a project has come to its end."""
    return "no project is complete"


def check_queue_health(ctx: rota.JobContext) -> str:
    """Look at the counts that the poll brought."""
    return f"counts: {(ctx.poll_data or {}).get('queue_counts', {})}"


def evaluate_agents(ctx: rota.JobContext) -> str:
    """Decide which agent gets a task, by the counts alone."""
    return "nothing to claim" if not (ctx.poll_data or {}).get("claimable") else "a task could be claimed"


def sweep_stale_worktrees(_ctx: rota.JobContext) -> str:
    """Remove worktrees that nobody uses."""
    return "nothing to sweep"


def cleanup_merged_branches(_ctx: rota.JobContext) -> str:
    """Delete branches that were merged."""
    return "no branch was merged"
