"""The functions that this project's rota.yaml names. They only print."""

import rota


@rota.job("count")
def count(ctx: rota.JobContext) -> str:
    """Count the runs of this job: `ctx.state` is kept from run to run, the text returned is the run's summary."""
    ctx.state["runs"] = ctx.state.get("runs", 0) + 1
    ctx.log(f"this line is in the output of {ctx.run.handle}")
    return f"counted to {ctx.state['runs']}"


@rota.condition("door_is_open")
def door_is_open() -> bool:
    """Say whether a run may go on. This door stays closed, so that you can see what that looks like."""
    return False
