"""Waiting between two looks, for those that follow something until it ends."""

from datetime import timedelta

from rota.engine.execute import pause_for

LOOK_AGAIN = timedelta(milliseconds=100)


async def wait_a_little(duration: timedelta) -> None:
    """Wait for an elapsed time on the running loop."""
    await pause_for(duration)
