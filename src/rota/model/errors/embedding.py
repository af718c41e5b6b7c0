"""Schedulers inside somebody's process: the names are public."""

from rota.model.errors.root import RotaError, shown


class SchedulerError(RotaError):
    """A scheduler inside somebody's process cannot do what it was asked to."""

    code = "scheduler_error"


class IntervalParseError(SchedulerError):
    """A text is no interval; `interval` is that text."""

    code = "interval_format"

    def __init__(self, interval: object, problem: str = "is no interval") -> None:
        super().__init__(f"{shown(interval)} {problem}", hint="write one whole number and one unit: 30s, 5m, 1h, 1d")
        self.interval = interval


class ScheduleTriggerError(SchedulerError):
    """A job could not be triggered since its run could not be stored; `job` and `schedule` are what was asked for."""

    code = "trigger_failed"

    def __init__(self, job: str, why: str, *, schedule: str | None = None) -> None:
        super().__init__(f"{job} was not triggered: {why}", hint="nothing was started; try again")
        self.job = job
        self.schedule = schedule


class SchedulerShutdownError(SchedulerError):
    """A scheduler has stopped, or had to end runs to do so (`timed_out`)."""

    code = "scheduler_shutdown"

    def __init__(self, what: str, *, timed_out: bool = False) -> None:
        more_time = "they are recorded as FAILED shutdown and retried by policy; give `stop` a longer `timeout`"
        super().__init__(what, hint=more_time if timed_out else "start it again, then ask once more")
        self.timed_out = timed_out
