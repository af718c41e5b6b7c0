"""Errors as problem+json and as pages."""

import json
from typing import Any, ClassVar

from starlette.responses import Response

from rota.model import errors as model
from rota.model.errors import RotaError
from rota.operations.admin.access import Scope


class HttpRefusal(RotaError):
    """A request that is refused before, or without, an operation."""

    code = "bad_request"
    status: ClassVar[int] = 400
    headers: tuple[tuple[str, str], ...] = ()


class NoToken(HttpRefusal):
    """A request without a token, or with one that is not ours."""

    code = "unauthorized"
    status = 401
    headers = (("WWW-Authenticate", 'Bearer realm="rota"'),)

    def __init__(self, message: str = "this needs a token") -> None:
        hint = "send `Authorization: Bearer TOKEN`; `rota token` prints one, `rota open` logs a browser in"
        super().__init__(message, hint=hint)


class ScopeRefused(HttpRefusal):
    """A token whose scope does not allow what was asked for."""

    code = "forbidden"
    status = 403

    def __init__(self, scope: str, wanted: str) -> None:
        needed = "run; a token for an agent needs the scope agent" if wanted == Scope.AGENT else wanted
        super().__init__(f"a token of the scope {scope} may not do this", hint=f"it needs the scope {needed}")


class HostRefused(HttpRefusal):
    """A request for another host than this one."""

    code = "host_refused"
    status = 421

    def __init__(self) -> None:
        super().__init__(
            "the Host of the request is not one of this server's",
            hint="use 127.0.0.1 or localhost, or set `http.public_url` to the address that people use",
        )


class OriginRefused(HttpRefusal):
    """A request that the page of another site sent."""

    code = "origin_refused"
    status = 403

    def __init__(self, why: str = "a page of another origin sent the request") -> None:
        super().__init__(why, hint="only pages of this server may call it; set `http.public_url` if a proxy serves it")


class TooManyFailures(HttpRefusal):
    """Too many wrong tokens came from one address."""

    code = "too_many_failures"
    status = 429

    def __init__(self, seconds: int) -> None:
        super().__init__("too many requests with wrong tokens", hint=f"try again in {seconds} s")
        self.headers = (("Retry-After", str(seconds)),)


class NotFound(HttpRefusal):
    """No route has this path."""

    code = "not_found"
    status = 404

    def __init__(self) -> None:
        super().__init__("there is nothing at this path", hint="GET /api/v1/openapi.json lists what there is")


class MethodRefused(HttpRefusal):
    """A path that does not know this method."""

    code = "method_not_allowed"
    status = 405

    def __init__(self, allowed: str) -> None:
        super().__init__("this path does not know the method", hint=f"it knows {allowed}")
        self.headers = (("Allow", allowed),)


class LengthAmbiguous(HttpRefusal):
    """A body whose length two headers state: servers and proxies disagree about where it ends."""

    code = "length_ambiguous"
    headers = (("Connection", "close"),)

    def __init__(self) -> None:
        super().__init__(
            "the length of the body is ambiguous",
            hint="send Content-Length or, with HTTP/1.1, Transfer-Encoding: chunked; never both",
        )


class BodyTooLarge(HttpRefusal):
    """A body of more than 1 MB."""

    code = "body_too_large"
    status = 413

    def __init__(self) -> None:
        super().__init__("the body is larger than 1 MB", hint="send less at a time")


class BodyLate(HttpRefusal):
    """A body that did not come to its end."""

    code = "body_late"
    status = 408

    def __init__(self) -> None:
        super().__init__("the body did not arrive in time", hint="send it again")


class MediaRefused(HttpRefusal):
    """A body that is no plain JSON."""

    code = "media_type"
    status = 415

    def __init__(self) -> None:
        super().__init__(
            "the body is not plain JSON", hint="send it with `Content-Type: application/json`, not compressed"
        )


class JsonInvalid(HttpRefusal):
    """A body that is no JSON that rota takes."""

    code = "json_invalid"

    def __init__(self, problem: str) -> None:
        super().__init__(f"the body is no usable JSON: {problem}", hint="send one JSON value in UTF-8")


class FormInvalid(HttpRefusal):
    """A form of a page that cannot be read."""

    code = "form_invalid"

    def __init__(self) -> None:
        super().__init__("the form cannot be read", hint="go back, load the page again, and send it once more")


class KeyRefused(HttpRefusal):
    """An Idempotency-Key that cannot be one."""

    code = "idempotency_key"

    def __init__(self) -> None:
        super().__init__("the Idempotency-Key cannot be used", hint="send 1 to 128 visible ASCII characters, once")


class KeyMismatch(HttpRefusal):
    """An Idempotency-Key that was used for another request."""

    code = "idempotency_mismatch"
    status = 409

    def __init__(self) -> None:
        super().__init__("this Idempotency-Key was used for another request", hint="use a new key for a new request")


class KeyPending(HttpRefusal):
    """An Idempotency-Key whose first request has no answer to repeat: it is under way, or the answer was lost."""

    code = "idempotency_pending"
    status = 409

    def __init__(self) -> None:
        super().__init__(
            "the first request with this Idempotency-Key took effect or is under way, and its answer is not known",
            hint="it is not repeated: look at what is there, or send it again with a new key",
        )


class Busy(HttpRefusal):
    """More live streams or waiting calls than the server holds."""

    code = "too_many_streams"
    status = 503

    def __init__(self, what: str) -> None:
        super().__init__(f"the server holds no more {what}", hint="close some, then try again")
        self.headers = (("Retry-After", "10"),)


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
        "problems": [problem.as_dict() for problem in error.problems],
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
