"""Any server as a work source, by rota's own small protocol: claim, report, release, peek."""

from collections.abc import Mapping
from typing import Any

from rota.model.errors import SourceError
from rota.model.work import WorkAhead, WorkItem, WorkReport, WorkRequest
from rota.sources.items import read_item, write_item
from rota.sources.web import Answer, Web

KEY = "Idempotency-Key"
UNKNOWN = (404, 410)
"""Answers of a server that knows no such claim (any more): there is nothing left to end."""
NOT_OFFERED = (404, 405, 501)


class HttpSource:
    """`POST …/claim`, `…/report`, `…/release` and `GET …/peek`; the claim's name is the idempotency key."""

    def __init__(self, url: str, headers: Mapping[str, str], *, timeout: float) -> None:
        self._url = url
        self._web = Web(url, headers, timeout=timeout)

    def next_item(self, request: WorkRequest, /) -> WorkItem | None:
        """Claim the next item; 204 means that there is none."""
        answer = self._post("claim", {**_who(request), "params": dict(request.params)}, claim=request.claim)
        if answer.status == 204 or answer.data is None:
            return None
        return read_item(answer.data, claim={"id": request.claim}, source=self._url)

    def report(self, item: WorkItem, outcome: WorkReport, /) -> None:
        """Tell how the work ended."""
        told = {
            "success": outcome.success,
            "run": outcome.run,
            "summary": outcome.summary,
            "error": outcome.error,
        }
        self._post("report", {"claim": item.claim["id"], "item": write_item(item), **told}, claim=item.claim["id"])

    def release(self, item: WorkItem, /) -> None:
        """Give an item back."""
        self._post("release", {"claim": item.claim["id"], "item": write_item(item)}, claim=item.claim["id"])

    def release_claim(self, request: WorkRequest, /) -> None:
        """Give back whatever this claim may have got."""
        self._post("release", {"claim": request.claim, "item": None}, claim=request.claim)

    def peek(self, request: WorkRequest, /) -> WorkAhead:
        """Return what the server says that it has; one that has no such answer is not asked further."""
        answer = self._web.ask("GET", "/peek", params={"job": request.job}, also=NOT_OFFERED)
        if answer.status in NOT_OFFERED or answer.data is None:
            return WorkAhead()
        if not isinstance(answer.data, dict):
            raise SourceError(f"GET {self._url}/peek: its answer is no JSON object")
        found, count = answer.data.get("next"), answer.data.get("open")
        following = None if found is None else read_item(found, claim={}, source=self._url)
        return WorkAhead(count if isinstance(count, int) and not isinstance(count, bool) else None, following)

    def _post(self, verb: str, body: Mapping[str, Any], *, claim: str) -> Answer:
        also = () if verb == "claim" else UNKNOWN
        return self._web.ask("POST", f"/{verb}", body=dict(body), headers={KEY: claim}, also=also)


def _who(request: WorkRequest) -> dict[str, str]:
    return {"claim": request.claim, "job": request.job, "run": request.run}
