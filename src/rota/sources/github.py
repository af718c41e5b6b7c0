"""The work source of GitHub issues."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any
from urllib.parse import quote

from rota.model.agents import WorkAhead, WorkItem, WorkReport, WorkRequest
from rota.model.errors import SourceError
from rota.sources.http import HttpAnswer, Web
from rota.sources.items import make_item

API_URL = "https://api.github.com"
VERSION = "2022-11-28"
PER_PAGE = 100
PAGES = 20
GONE = (404, 410)
_NEXT = re.compile(r'<([^>]+)>\s*;\s*rel="next"')
_HINTS = {
    401: "the token is wrong or has expired",
    403: "the token needs write access to the repository's issues",
    404: "no such repository, or the token may not see it",
    410: "the repository has its issues switched off",
}
Record = dict[str, Any]


class Repository:
    """Issues, labels and comments of one repository."""

    def __init__(self, name: str, *, token: str, api_url: str = API_URL, timeout: float) -> None:
        self.name = name
        headers = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": VERSION,
            "User-Agent": "rota",
        }
        self._web = Web(api_url, headers, timeout=timeout)
        self._root = f"/repos/{name}"

    def open_issues(self, label: str) -> Iterator[Record]:
        """Yield the open issues that carry a label, oldest first; pull requests are no issues here."""
        params = {"state": "open", "labels": label, "sort": "created", "direction": "asc"}
        return (one for one in self._pages("/issues", params) if "pull_request" not in one)

    def issue(self, number: int) -> Record | None:
        """Return an issue as it is now, None where it is gone."""
        answer = self._ask("GET", f"/issues/{number}", also=GONE)
        return answer.data if answer.status not in GONE and isinstance(answer.data, dict) else None

    def comments(self, number: int) -> list[Record]:
        """Return all comments on an issue, oldest first; none where the issue is gone."""
        try:
            return sorted(self._pages(f"/issues/{number}/comments", {}), key=lambda one: one["id"])
        except SourceError as error:
            if error.status in GONE:
                return []
            raise

    def comments_since(self, at: datetime) -> Iterator[Record]:
        """Yield the comments on all issues that were written or changed since then, newest first."""
        since = f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
        return self._pages("/issues/comments", {"since": since, "sort": "created", "direction": "desc"})

    def comment(self, number: int, body: str) -> Record:
        """Write a comment on an issue and return it."""
        answer = self._ask("POST", f"/issues/{number}/comments", body={"body": body})
        if not isinstance(answer.data, dict) or "id" not in answer.data:
            raise SourceError(f"github {self.name}: the answer to a comment has no id")
        return answer.data

    def delete_comment(self, identifier: int) -> None:
        """Take a comment back; one that is gone already is no error."""
        self._ask("DELETE", f"/issues/comments/{identifier}", also=GONE)

    def add_label(self, number: int, label: str) -> None:
        """Put a label on an issue; GitHub makes one that is not there yet."""
        self._ask("POST", f"/issues/{number}/labels", body={"labels": [label]})

    def remove_label(self, number: int, label: str) -> None:
        """Take a label off an issue; one that is not on it is no error."""
        self._ask("DELETE", f"/issues/{number}/labels/{quote(label, safe='')}", also=GONE)

    def _pages(self, path: str, params: Mapping[str, str | int]) -> Iterator[Record]:
        """Yield what all pages of a list hold; where the next one is the server says."""
        answer = self._ask("GET", path, params={**params, "per_page": PER_PAGE})
        for _ in range(PAGES):
            if not isinstance(answer.data, list):
                raise SourceError(f"github {self.name}: {path} answered with something that is no list")
            yield from (one for one in answer.data if isinstance(one, dict))
            following = _NEXT.search(answer.headers.get("link", ""))
            if following is None:
                return
            answer = self._send("GET", following[1])

    def _ask(self, method: str, path: str, **further: Any) -> HttpAnswer:
        return self._send(method, f"{self._root}{path}", **further)

    def _send(self, method: str, path: str, **further: Any) -> HttpAnswer:
        """Send a request, and say of a refusal what a person can do about it."""
        try:
            return self._web.ask(method, path, **further)
        except SourceError as error:
            hint = _HINTS.get(error.status or 0, error.hint)
            if error.again_after is not None:
                hint = f"a rate limit that ends in {error.again_after:.0f} s"
            text = f"github {self.name}: {error.message}"
            raise SourceError(text, hint=hint, status=error.status, again_after=error.again_after) from None


LABELS = {
    "label": "agent-ready",
    "claimed_label": "agent-working",
    "done_label": "agent-done",
    "failed_label": "agent-failed",
}
"""The labels of an issue's life, as they are called when the file does not say."""
TRUSTED = ("OWNER", "MEMBER", "COLLABORATOR")
"""Whose claims count beside our own: anybody may comment on a public issue."""
CANDIDATES = 20
SKEW = timedelta(minutes=10)
"""How far our clock may be ahead of GitHub's when the comments since a request are looked at."""
TOLD_LIMIT = 2_000
NOT_THIS_ONE = (403, 404, 409, 410, 422)
"""Refusals that may concern one issue alone: locked, deleted, moved."""
_CLAIM = re.compile(r"^<!-- rota:claim ([0-9a-zA-Z.-]{1,100}) -->", re.MULTILINE)
"""At the beginning of a line: who quotes a claim does not make one."""


class GitHubSource:
    """The first claim comment on an issue wins; who lost takes its own back. The labels are for people."""

    def __init__(self, repository: str, options: Mapping[str, str], *, token: str, timeout: float) -> None:
        self._labels = {name: options.get(name, usual) for name, usual in LABELS.items()}
        self._repository = Repository(repository, token=token, api_url=options.get("api_url", API_URL), timeout=timeout)

    def next_item(self, request: WorkRequest, /) -> WorkItem | None:
        """Claim the oldest open issue with the label that nobody has."""
        refused: SourceError | None = None
        for issue in islice(self._waiting(), CANDIDATES):
            try:
                mine = self._repository.comment(issue["number"], _claim_text(request))
            except SourceError as error:
                if error.status not in NOT_THIS_ONE or error.again_after is not None:
                    raise
                refused = error
                continue
            item = self._won(issue["number"], mine, request)
            if item is not None:
                return item
        if refused is not None:
            raise refused
        return None

    def _waiting(self) -> Iterator[Record]:
        """Yield the issues that may be claimed, oldest first."""
        claimed = self._labels["claimed_label"]
        return (one for one in self._repository.open_issues(self._labels["label"]) if claimed not in _labels(one))

    def _won(self, number: int, mine: Record, request: WorkRequest) -> WorkItem | None:
        """Return the issue that a claim got; None where somebody else has it, or it is no longer to be had."""
        repository = self._repository
        first = self._first_claim(number, mine)
        issue = repository.issue(number) if first == request.claim else None
        if issue is None or issue.get("state") != "open" or self._labels["label"] not in _labels(issue):
            repository.delete_comment(mine["id"])
            return None
        repository.add_label(number, self._labels["claimed_label"])
        repository.remove_label(number, self._labels["label"])
        return _item(issue, {"id": request.claim, "comment": mine["id"]})

    def report(self, item: WorkItem, outcome: WorkReport, /) -> None:
        """Write how it ended, change the labels, take the claim back; without the claim all of it was done before."""
        number, claim = int(item.id), item.claim["id"]
        comments = self._repository.comments(number)
        mine = _by_claim(comments, claim)
        if mine is None:
            return
        marker = f"<!-- rota:report {claim} -->"
        if not any(marker in _body(one) and _author(one) == _author(mine) for one in comments):
            self._repository.comment(number, f"{_report_text(outcome)}\n\n{marker}")
        ended = "done_label" if outcome.success else "failed_label"
        self._repository.add_label(number, self._labels[ended])
        self._repository.remove_label(number, self._labels["claimed_label"])
        self._repository.delete_comment(mine["id"])

    def release(self, item: WorkItem, /) -> None:
        """Put the label back, then take the claim back."""
        number = int(item.id)
        mine = _by_claim(self._repository.comments(number), item.claim["id"])
        if mine is not None:
            self._give_back(number, mine, item.claim["id"])

    def release_claim(self, request: WorkRequest, /) -> None:
        """Look for a comment of this claim among those since it was made, and give its issue back."""
        for comment in self._repository.comments_since(request.asked_at - SKEW):
            if request.claim in _CLAIM.findall(_body(comment)):
                number = int(str(comment.get("issue_url", "")).rpartition("/")[2] or 0)
                mine = _by_claim(self._repository.comments(number), request.claim) if number else None
                if mine is not None:
                    self._give_back(number, mine, request.claim)

    def _give_back(self, number: int, mine: Record, claim: str) -> None:
        """End a claim; the comment goes last, so that a release that is cut off can be made again."""
        issue = self._repository.issue(number)
        held = issue is not None and self._labels["claimed_label"] in _labels(issue)
        if held and self._first_claim(number, mine) == claim:
            self._repository.add_label(number, self._labels["label"])
            self._repository.remove_label(number, self._labels["claimed_label"])
        self._repository.delete_comment(mine["id"])

    def peek(self, _request: WorkRequest, /) -> WorkAhead:
        """Return how many issues wait, and the oldest."""
        waiting = list(self._waiting())
        return WorkAhead(len(waiting), _item(waiting[0], {}) if waiting else None)

    def _first_claim(self, number: int, mine: Record) -> str | None:
        """Return the claim that came first, of those who may claim."""
        for comment in self._repository.comments(number):
            trusted = _author(comment) == _author(mine) or comment.get("author_association") in TRUSTED
            found = _CLAIM.search(_body(comment))
            if trusted and found is not None:
                return found[1]
        return None


def _by_claim(comments: list[Record], claim: str) -> Record | None:
    return next((one for one in comments if claim in _CLAIM.findall(_body(one))), None)


def _item(issue: Record, claim: Mapping[str, Any]) -> WorkItem:
    metadata = {
        "number": issue["number"],
        "labels": sorted(_labels(issue)),
        "author": _author(issue),
        "created_at": issue.get("created_at"),
    }
    return make_item(
        str(issue["number"]),
        str(issue.get("title") or f"#{issue['number']}"),
        description=_body(issue),
        url=str(issue.get("html_url") or ""),
        metadata=metadata,
        claim=claim,
    )


def _labels(issue: Record) -> set[str]:
    found = issue.get("labels") or []
    return {str(one.get("name") if isinstance(one, dict) else one) for one in found}


def _body(record: Record) -> str:
    return str(record.get("body") or "")


def _author(record: Record) -> str:
    user = record.get("user")
    return str(user.get("login", "")) if isinstance(user, dict) else ""


def _claim_text(request: WorkRequest) -> str:
    return f"`{request.run}` works on this.\n\n<!-- rota:claim {request.claim} -->"


def _report_text(outcome: WorkReport) -> str:
    told = "has finished this." if outcome.success else "could not finish this."
    said = (outcome.summary if outcome.success else outcome.error or outcome.summary).strip()[:TOLD_LIMIT]
    return f"`{outcome.run}` {told}" + (f"\n\n{_fenced(said)}" if said else "")


def _fenced(text: str) -> str:
    """Return a text as a block of code: what an agent says mentions nobody and formats nothing."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"
