"""Errors as problem+json: the status of each class, and the codes and texts that the command line has."""

import json
from dataclasses import asdict
from typing import Any

from starlette.responses import Response

from rota.http.refusals import HttpRefusal
from rota.model import errors as model
from rota.model.errors import RotaError

MEDIA_TYPE = "application/problem+json"
TITLES = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    409: "Conflict",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    421: "Misdirected Request",
    422: "Unprocessable Content",
    429: "Too Many Requests",
    416: "Range Not Satisfiable",
    500: "Internal Server Error",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
    507: "Insufficient Storage",
}

STATUSES: dict[type[RotaError], int] = {
    model.InvalidValue: 422,
    model.UnknownJob: 404,
    model.UnknownRun: 404,
    model.UnknownGroup: 404,
    model.UnknownAccount: 404,
    model.UnknownAdapter: 422,
    model.UnknownWorker: 404,
    model.WorkerNameTaken: 409,
    model.WorkerAlive: 409,
    model.StoreNotShared: 409,
    model.UnknownTarget: 404,
    model.NothingNeeds: 404,
    model.UnknownDelivery: 404,
    model.AddressRefused: 422,
    model.AddressUnknown: 503,
    model.GroupIsFinal: 409,
    model.GroupCompleted: 409,
    model.GroupUnfinished: 409,
    model.RunIsFinal: 409,
    model.RunUnfinished: 409,
    model.RunCompleted: 409,
    model.NotQueued: 409,
    model.Immutable: 409,
    model.OtherPriority: 409,
    model.AgingOrders: 409,
    model.InvariantRefused: 409,
    model.IllegalTransition: 409,
    model.JobDisabled: 409,
    model.OverlapRefused: 409,
    model.BudgetExceeded: 409,
    model.SetRefused: 409,
    model.EmptyApply: 409,
    model.FolderUntrusted: 409,
    model.NameTaken: 409,
    model.JobInFile: 409,
    model.UnknownAgent: 404,
    model.UnknownTool: 404,
    model.ProviderNotHeld: 409,
    model.PolicyRefused: 403,
    model.AgentRefused: 403,
    model.NotYours: 403,
    model.DuplicateJob: 409,
    model.NotProvisional: 409,
    model.ApprovalVoid: 409,
    model.FileExists: 409,
    model.StateExists: 409,
    model.AlreadyServing: 409,
    model.ProjectServed: 409,
    model.ProjectIncluded: 409,
    model.ProjectMissing: 404,
    model.NotApplied: 404,
    model.BackupUnusable: 422,
    model.OutputUnwritable: 507,
    model.StoreShared: 409,
    model.MoveRefused: 409,
    model.SecretMissing: 409,
    model.ListenRefused: 503,
    model.ListenExposed: 503,
    model.TokenUnusable: 503,
    model.SourceError: 502,
    model.SpawnFailed: 503,
    model.WorkspaceFailed: 503,
    model.ServiceUnavailable: 503,
    model.IntervalParseError: 422,
    model.SchedulerError: 503,
    model.FileProblems: 422,
    model.FunctionMissing: 422,
    model.NoScheduler: 503,
    model.NoSlot: 504,
    model.StateError: 503,
    model.StorageFull: 507,
    RotaError: 500,
}


def status_of(error: RotaError) -> int:
    """Return the status of an error: that of its class, else of the nearest class above."""
    if isinstance(error, HttpRefusal):
        return error.status
    return next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)


def problem_json(error: RotaError) -> dict[str, Any]:
    """Return an error as problem+json (RFC 9457), with the fields that `--json` has."""
    status = status_of(error)
    return {
        "type": f"urn:rota:error:{error.code}",
        "title": TITLES.get(status, "Error"),
        "status": status,
        "detail": error.message,
        "code": error.code,
        "hint": error.hint,
        "problems": [asdict(problem) for problem in error.problems],
    }


def headers_of(error: RotaError) -> dict[str, str]:
    """Return the headers that an error brings."""
    headers = dict(error.headers) if isinstance(error, HttpRefusal) else {}
    if isinstance(error, model.DatabaseBusy | model.DatabaseGone | model.NoScheduler):
        headers["Retry-After"] = "5"
    return headers


def problem(error: RotaError) -> Response:
    """Return an error as a response."""
    body = json.dumps(problem_json(error), ensure_ascii=False).encode("utf-8", "replace")
    return Response(body, status_of(error), headers_of(error), MEDIA_TYPE)


class Unexpected(RotaError):
    """Something went wrong inside rota."""

    code = "internal"

    def __init__(self) -> None:
        super().__init__("something went wrong inside rota", hint="the log of `rota serve` has the details")
