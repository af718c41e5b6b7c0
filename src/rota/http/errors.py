"""Errors as problem+json and as pages."""

import json
from http import HTTPStatus
from typing import Any, ClassVar

from starlette.responses import Response

from rota.model import errors as model
from rota.model.errors import RotaError
from rota.operations.admin.access import Scope


class HttpRefusal(RotaError, code="bad_request"):
    """A request that is refused before, or without, an operation. A subclass names its status beside its code."""

    status: ClassVar[int] = 400
    headers: tuple[tuple[str, str], ...] = ()
    text: ClassVar[str] = ""
    remedy: ClassVar[str] = ""

    def __init_subclass__(cls, *, code: str = "", status: int = 0, **options: Any) -> None:
        super().__init_subclass__(code=code, **options)
        cls.status = status or cls.status

    def __init__(self, message: str = "", *, hint: str = "") -> None:
        super().__init__(message or self.text, hint=hint or self.remedy)


class NoToken(HttpRefusal, code="unauthorized", status=401):
    """A request without a token, or with a wrong one."""

    headers = (("WWW-Authenticate", 'Bearer realm="rota"'),)
    text = "a token is required"
    remedy = "send `Authorization: Bearer TOKEN`; `rota token` prints one, `rota open` logs a browser in"


class TokenEnded(NoToken, code="token_ended"):
    """A stored token that has expired or was revoked."""

    remedy = "create another one with `rota token create NAME --scope SCOPE`"


class PersonRefused(HttpRefusal, code="person_refused", status=403):
    """A person that a proxy or an identity provider names, without access here."""

    remedy = "an owner of this project adds the name to `http.people` in rota.yaml"


class TokenInAddress(HttpRefusal, code="token_in_address", status=403):
    """A token in an address, which history and logs may keep, has more rights than to read the calendar."""

    text = "only a token of the scope calendar may be in an address"
    remedy = "create one with `rota token create NAME --scope calendar`; revoke the other one"


class ScopeRefused(HttpRefusal, code="forbidden", status=403):
    """A token whose scope does not allow the request."""

    def __init__(self, scope: str, wanted: str) -> None:
        needed = "run; a token for an agent needs the scope agent" if wanted == Scope.AGENT else wanted
        super().__init__(f"a token of the scope {scope} may not do this", hint=f"it needs the scope {needed}")


class HostRefused(HttpRefusal, code="host_refused", status=421):
    """A request for another host than this one."""

    text = "the Host header does not name this server"
    remedy = "use 127.0.0.1 or localhost, or set `http.public_url` to the public address"


class OriginRefused(HttpRefusal, code="origin_refused", status=403):
    """A request that the page of another site sent."""

    text = "a page of another origin sent the request"
    remedy = "only pages of this server may call it; set `http.public_url` if a proxy serves it"


class TooManyFailures(HttpRefusal, code="too_many_failures", status=429):
    """Too many wrong tokens came from one address."""

    def __init__(self, seconds: int) -> None:
        super().__init__("too many requests with wrong tokens", hint=f"try again in {seconds} s")
        self.headers = (("Retry-After", str(seconds)),)


class NotFound(HttpRefusal, code="not_found", status=404):
    """No route has this path."""

    text = "no such path"
    remedy = "GET /api/v1/openapi.json lists all paths"


class MethodRefused(HttpRefusal, code="method_not_allowed", status=405):
    """The path does not have this method."""

    def __init__(self, allowed: str) -> None:
        super().__init__("method not allowed", hint=f"use {allowed}")
        self.headers = (("Allow", allowed),)


class LengthAmbiguous(HttpRefusal, code="length_ambiguous"):
    """Two headers state the length of the body: servers and proxies disagree about its end."""

    headers = (("Connection", "close"),)
    text = "the length of the body is ambiguous"
    remedy = "send Content-Length or, with HTTP/1.1, Transfer-Encoding: chunked; never both"


class BodyTooLarge(HttpRefusal, code="body_too_large", status=413):
    """A body of more than 1 MB."""

    text = "the body is larger than 1 MB"
    remedy = "send less per request"


class BodyLate(HttpRefusal, code="body_late", status=408):
    """A body that did not arrive completely in time."""

    text = "the body did not arrive in time"
    remedy = "send it again"


class MediaRefused(HttpRefusal, code="media_type", status=415):
    """A body that is not plain JSON."""

    text = "the body is not plain JSON"
    remedy = "send it with `Content-Type: application/json`, not compressed"


class JsonInvalid(HttpRefusal, code="json_invalid"):
    """A body that is not strict JSON."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"the body is not valid JSON: {problem}", hint="send one JSON value in UTF-8")


class FormInvalid(HttpRefusal, code="form_invalid"):
    """A form of a page that cannot be read."""

    text = "the form cannot be read"
    remedy = "go back, reload the page and send the form again"


class KeyRefused(HttpRefusal, code="idempotency_key"):
    """An invalid Idempotency-Key."""

    text = "the Idempotency-Key cannot be used"
    remedy = "send 1 to 128 visible ASCII characters, once"


class KeyMismatch(HttpRefusal, code="idempotency_mismatch", status=409):
    """An Idempotency-Key that was used for another request."""

    text = "this Idempotency-Key was used for another request"
    remedy = "use a new key for a new request"


class KeyPending(HttpRefusal, code="idempotency_pending", status=409):
    """An Idempotency-Key whose first request has no stored answer: it still runs, or the answer was lost."""

    text = "the first request with this Idempotency-Key took effect or is in progress, and its answer is unknown"
    remedy = "it is not repeated: read the current state, or send it again with a new key"


class Busy(HttpRefusal, code="too_many_streams", status=503):
    """The limit of live streams or waiting calls is reached."""

    headers = (("Retry-After", "10"),)

    def __init__(self, what: str) -> None:
        super().__init__(f"the server has reached its limit of {what}", hint="close some, then try again")


MEDIA_TYPE = "application/problem+json"
TITLES = {
    **{status.value: status.phrase for status in HTTPStatus},
    413: "Content Too Large",
    416: "Range Not Satisfiable",
    422: "Unprocessable Content",
}
STATUSES: dict[type[RotaError], int] = {
    **dict.fromkeys((model.PolicyRefused, model.AgentRefused, model.NotYours, model.AnswerRefused), 403),
    **dict.fromkeys((model.UnknownJob, model.UnknownRun, model.UnknownGroup, model.UnknownAccount), 404),
    **dict.fromkeys((model.UnknownWorker, model.UnknownTarget, model.NothingNeeds, model.UnknownDelivery), 404),
    model.UnknownQuestion: 404,
    **dict.fromkeys((model.SessionUnusable, model.WorktreeRefused), 409),
    model.UnknownGrant: 404,
    model.UnknownToken: 404,
    **dict.fromkeys((model.UnknownAgent, model.UnknownTool, model.ProjectMissing, model.NotApplied), 404),
    **dict.fromkeys((model.WorkerNameTaken, model.WorkerAlive, model.StoreNotShared, model.GroupIsFinal), 409),
    **dict.fromkeys((model.GroupCompleted, model.GroupUnfinished, model.RunIsFinal, model.RunUnfinished), 409),
    **dict.fromkeys((model.RunCompleted, model.NotQueued, model.Immutable, model.OtherPriority), 409),
    **dict.fromkeys((model.AgingOrders, model.InvariantRefused, model.IllegalTransition, model.JobDisabled), 409),
    **dict.fromkeys((model.OverlapRefused, model.BudgetExceeded, model.SetRefused, model.EmptyApply), 409),
    **dict.fromkeys((model.FolderUntrusted, model.NameTaken, model.JobInFile, model.ProviderNotHeld), 409),
    **dict.fromkeys((model.DuplicateJob, model.NotProvisional, model.ApprovalVoid, model.FileExists), 409),
    **dict.fromkeys((model.StateExists, model.AlreadyServing, model.ProjectServed, model.ProjectIncluded), 409),
    **dict.fromkeys((model.StoreShared, model.MoveRefused, model.SecretMissing), 409),
    **dict.fromkeys((model.QuestionClosed, model.QuestionChanged, model.TooManyQuestions), 409),
    **dict.fromkeys((model.InvalidValue, model.UnknownAdapter, model.AddressRefused, model.BackupUnusable), 422),
    **dict.fromkeys((model.IntervalParseError, model.FileProblems, model.FunctionMissing), 422),
    model.SourceError: 502,
    **dict.fromkeys((model.AddressUnknown, model.ListenRefused, model.ListenExposed, model.TokenUnusable), 503),
    **dict.fromkeys((model.SpawnFailed, model.WorkspaceFailed, model.ServiceUnavailable, model.SchedulerError), 503),
    **dict.fromkeys((model.NoScheduler, model.StateError), 503),
    model.NoSlot: 504,
    **dict.fromkeys((model.OutputUnwritable, model.StorageFull), 507),
    RotaError: 500,
}


def status_of(error: RotaError) -> int:
    """Return the status of an error: that of its class, else of the nearest class above."""
    if isinstance(error, HttpRefusal):
        return error.status
    return next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)


def headers_of(error: RotaError) -> dict[str, str]:
    """Return the headers that an error brings."""
    headers = dict(error.headers) if isinstance(error, HttpRefusal) else {}
    if isinstance(error, model.DatabaseBusy | model.DatabaseGone | model.NoScheduler):
        headers["Retry-After"] = "5"
    return headers


def problem(error: RotaError) -> Response:
    """Return an error as problem+json (RFC 9457), with the fields that `--json` has."""
    status = status_of(error)
    fields = {
        "type": f"urn:rota:error:{error.code}",
        "title": TITLES.get(status, "Error"),
        "status": status,
        "detail": error.message,
        "code": error.code,
        "hint": error.hint,
        "problems": [problem.as_dict() for problem in error.problems],
    }
    body = json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace")
    return Response(body, status, headers_of(error), MEDIA_TYPE)


class Unexpected(RotaError, code="internal"):
    """An unexpected error inside rota."""

    def __init__(self) -> None:
        super().__init__("internal error", hint="see the log of `rota serve`")
