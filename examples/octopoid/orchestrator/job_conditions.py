"""Conditions that the jobs of rota.yaml name. A condition gets the same context as the job that it guards."""

from orchestrator.agents import lives, pid_files
from rota import condition as register_condition
from rota.runners.context import JobContext


@register_condition("no_agents_running")
def no_agents_running(ctx: JobContext) -> bool:
    """Return whether no agent of this machine lives. It replaces rota's own, which counts what rota has started."""
    living = [file.stem for file in pid_files() if lives(file)]
    if living:
        ctx.log(f"still at work: {', '.join(living)}")
    return not living
