"""Schedulers, workers, their HTTP API and the service manager."""

from rota.model.errors.root import RotaError


class AlreadyServing(RotaError):
    """Another scheduler serves this project."""

    code = "already_serving"

    def __init__(self, pid: int | None, state: str) -> None:
        who = f"process {pid}" if pid else "another process"
        super().__init__(
            f"{who} serves {state} already", hint="stop it with `rota stop`, or use its commands: `rota status`"
        )
        self.pid = pid


class ProjectServed(RotaError):
    """An included project has a scheduler of its own, so that its jobs would fire twice."""

    code = "project_served"

    def __init__(self, file: str, folder: str, *, pid: int | None) -> None:
        who = f"process {pid}" if pid else "another process"
        super().__init__(
            f"{file} is included here, but {who} serves it already: its jobs would fire twice",
            hint=f"stop that one with `rota --dir {folder} stop`, or leave the folder out of `include`",
        )


class ProjectIncluded(RotaError):
    """A project that another one includes has no scheduler of its own."""

    code = "project_included"

    def __init__(self, folder: str, host: str, *, verb: str) -> None:
        super().__init__(
            f"{folder} is included by {host}/rota.yaml, whose scheduler runs its jobs",
            hint=f"`rota --dir {host} {verb}` does that for all projects; or take this one out of `include`",
        )


class NoScheduler(RotaError):
    """A scheduler is needed and none is running."""

    code = "no_scheduler"

    def __init__(self, state: str) -> None:
        super().__init__(f"no scheduler is running on {state}", hint="start one with `rota serve`")


class CallerDismissed(NoScheduler):
    """The scheduler stopped while a direct caller waited, or before its call could be carried to the end."""

    code = "caller_dismissed"

    def __init__(self, name: str, what: str = "stopped before it began") -> None:
        hint = "start one with `rota serve` and call again"
        RotaError.__init__(self, f"the direct call of {name!r}: the scheduler {what}", hint=hint)


class NoHttp(NoScheduler):
    """The scheduler that is running does not serve HTTP, or none is running."""

    code = "no_http"

    def __init__(self, state: str, why: str = "no scheduler is running") -> None:
        hint = "start one with `rota serve`, without --no-http"
        RotaError.__init__(self, f"there is no HTTP API of {state}: {why}", hint=hint)


class ListenRefused(RotaError):
    """The address that HTTP is to listen on cannot be used."""

    code = "listen_refused"


class ListenExposed(RotaError):
    """HTTP would be reachable from other machines without that being asked for, or without encryption."""

    code = "listen_exposed"


class TokenUnusable(RotaError):
    """The file of the token is empty, too short, or open to others."""

    code = "token_unusable"


class UnknownWorker(RotaError):
    """No worker has this name."""

    code = "unknown_worker"

    def __init__(self, name: str) -> None:
        super().__init__(f"no worker is named {name!r}", hint="`rota workers` and GET /api/v1/workers list them")


class WorkerNameTaken(RotaError):
    """Another folder, here or on another machine, is the worker of this name."""

    code = "worker_name_taken"

    def __init__(self, name: str, *, host: str, state: str) -> None:
        where = f"{host}:{state}" if state else host
        super().__init__(
            f"the worker {name!r} is {where}",
            hint=f"choose another --name, or `rota workers forget {name}` if that one is gone for good",
        )


class WorkerAlive(RotaError):
    """A worker that is at work cannot be forgotten."""

    code = "worker_alive"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the worker {name!r} is alive",
            hint=f"stop it there first (`rota stop`), or let it finish what it has: `rota workers drain {name}`; "
            "one that was killed counts for up to 30 s more",
        )


class ServiceUnavailable(RotaError):
    """The service manager is not there, or refused."""

    code = "service_unavailable"
