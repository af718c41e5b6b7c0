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
    404: "no such repository, or the token has no access",
    410: "issues are disabled in the repository",
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
        """Yield the open issues with a label, oldest first, without pull requests."""
        params = {"state": "open", "labels": label, "sort": "created", "direction": "asc"}
        return (issue for issue in self._pages("/issues", params) if "pull_request" not in issue)

    def issue(self, number: int) -> Record | None:
        """Return an issue as it is now, None if it is gone."""
        answer = self._ask("GET", f"/issues/{number}", also=GONE)
        return answer.data if answer.status not in GONE and isinstance(answer.data, dict) else None

    def comments(self, number: int) -> list[Record]:
        """Return all comments on an issue, oldest first; none if the issue is gone."""
        try:
            return sorted(self._pages(f"/issues/{number}/comments", {}), key=lambda comment: comment["id"])
        except SourceError as error:
            if error.status in GONE:
                return []
            raise

    def comments_since(self, at: datetime) -> Iterator[Record]:
        """Yield the comments on all issues that were created or changed since then, newest first."""
        since = f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
        return self._pages("/issues/comments", {"since": since, "sort": "created", "direction": "desc"})

    def comment(self, number: int, body: str) -> Record:
        """Write a comment on an issue and return it."""
        answer = self._ask("POST", f"/issues/{number}/comments", body={"body": body})
        if not isinstance(answer.data, dict) or "id" not in answer.data:
            raise SourceError(f"github {self.name}: the answer to a comment has no id")
        return answer.data

    def delete_comment(self, identifier: int) -> None:
        """Delete a comment, if it is still there."""
        self._ask("DELETE", f"/issues/comments/{identifier}", also=GONE)

    def add_label(self, number: int, label: str) -> None:
        """Add a label to an issue; GitHub creates a missing label."""
        self._ask("POST", f"/issues/{number}/labels", body={"labels": [label]})

    def remove_label(self, number: int, label: str) -> None:
        """Remove a label from an issue, if it is there."""
        self._ask("DELETE", f"/issues/{number}/labels/{quote(label, safe='')}", also=GONE)

    def _pages(self, path: str, params: Mapping[str, str | int]) -> Iterator[Record]:
        answer = self._ask("GET", path, params={**params, "per_page": PER_PAGE})
        for _ in range(PAGES):
            if not isinstance(answer.data, list):
                raise SourceError(f"github {self.name}: {path} did not answer with a list")
            yield from (record for record in answer.data if isinstance(record, dict))
            following = _NEXT.search(answer.headers.get("link", ""))
            if following is None:
                return
            answer = self._send("GET", following[1])

    def _ask(self, method: str, path: str, **further: Any) -> HttpAnswer:
        return self._send(method, f"{self._root}{path}", **further)

    def _send(self, method: str, path: str, **further: Any) -> HttpAnswer:
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
"""The default labels."""
TRUSTED = ("OWNER", "MEMBER", "COLLABORATOR")
"""The authors whose claims count beside our own: everyone can comment on a public issue."""
CANDIDATES = 20
CLOCK_SKEW = timedelta(minutes=10)
REPORT_LIMIT = 2_000
ISSUE_REFUSED = (403, 404, 409, 410, 422)
"""Statuses that may concern one issue only: locked, deleted, moved."""
_CLAIM = re.compile(r"^<!-- rota:claim ([0-9a-zA-Z.-]{1,100}) -->", re.MULTILINE)
"""At the beginning of a line: a quoted claim is no claim."""


class GitHubSource:
    """The first claim comment on an issue wins; the others are deleted. The labels are for people."""

    def __init__(self, repository: str, options: Mapping[str, str], *, token: str, timeout: float) -> None:
        self._labels = {name: options.get(name, usual) for name, usual in LABELS.items()}
        self._repository = Repository(repository, token=token, api_url=options.get("api_url", API_URL), timeout=timeout)

    def next_item(self, request: WorkRequest, /) -> WorkItem | None:
        """Claim the oldest open issue with the label and without a claim."""
        refused: SourceError | None = None
        for issue in islice(self._waiting(), CANDIDATES):
            try:
                mine = self._repository.comment(
                    issue["number"], f"`{request.run}` is working on this.\n\n<!-- rota:claim {request.claim} -->"
                )
            except SourceError as error:
                if error.status not in ISSUE_REFUSED or error.again_after is not None:
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
        claimed, issues = self._labels["claimed_label"], self._repository.open_issues(self._labels["label"])
        return (issue for issue in issues if claimed not in _labels(issue))

    def _won(self, number: int, mine: Record, request: WorkRequest) -> WorkItem | None:
        """Return the issue of a claim that came first; None if another did, or the issue is no longer open."""
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
        """Comment on the outcome, change the labels, delete the claim; without a claim this was done before."""
        number, claim = int(item.id), item.claim["id"]
        comments = self._repository.comments(number)
        mine = _by_claim(comments, claim)
        if mine is None:
            return
        marker = f"<!-- rota:report {claim} -->"
        if not any(marker in _body(comment) and _author(comment) == _author(mine) for comment in comments):
            self._repository.comment(number, f"{_report_text(outcome)}\n\n{marker}")
        ended = "done_label" if outcome.success else "failed_label"
        self._repository.add_label(number, self._labels[ended])
        self._repository.remove_label(number, self._labels["claimed_label"])
        self._repository.delete_comment(mine["id"])

    def release(self, item: WorkItem, /) -> None:
        """Put the label back, then delete the claim."""
        number = int(item.id)
        mine = _by_claim(self._repository.comments(number), item.claim["id"])
        if mine is not None:
            self._give_back(number, mine, item.claim["id"])

    def release_claim(self, request: WorkRequest, /) -> None:
        """Find the comment of this claim, and release its issue."""
        for comment in self._repository.comments_since(request.asked_at - CLOCK_SKEW):
            if request.claim in _CLAIM.findall(_body(comment)):
                number = int(str(comment.get("issue_url", "")).rpartition("/")[2] or 0)
                mine = _by_claim(self._repository.comments(number), request.claim) if number else None
                if mine is not None:
                    self._give_back(number, mine, request.claim)

    def _give_back(self, number: int, mine: Record, claim: str) -> None:
        """Delete a claim; the comment goes last, so that an interrupted release can be repeated."""
        issue = self._repository.issue(number)
        held = issue is not None and self._labels["claimed_label"] in _labels(issue)
        if held and self._first_claim(number, mine) == claim:
            self._repository.add_label(number, self._labels["label"])
            self._repository.remove_label(number, self._labels["claimed_label"])
        self._repository.delete_comment(mine["id"])

    def peek(self, _request: WorkRequest, /) -> WorkAhead:
        """Return the number of waiting issues, and the oldest."""
        waiting = list(self._waiting())
        return WorkAhead(len(waiting), _item(waiting[0], {}) if waiting else None)

    def _first_claim(self, number: int, mine: Record) -> str | None:
        for comment in self._repository.comments(number):
            trusted = _author(comment) == _author(mine) or comment.get("author_association") in TRUSTED
            match = _CLAIM.search(_body(comment))
            if trusted and match is not None:
                return match[1]
        return None


def _by_claim(comments: list[Record], claim: str) -> Record | None:
    return next((comment for comment in comments if claim in _CLAIM.findall(_body(comment))), None)


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
    labels = issue.get("labels") or []
    return {str(label.get("name") if isinstance(label, dict) else label) for label in labels}


def _body(record: Record) -> str:
    return str(record.get("body") or "")


def _author(record: Record) -> str:
    user = record.get("user")
    return str(user.get("login", "")) if isinstance(user, dict) else ""


def _report_text(outcome: WorkReport) -> str:
    """Return the comment on an outcome; the agent's text is a code block, without mentions and formatting."""
    first = f"`{outcome.run}` {'finished this.' if outcome.success else 'could not finish this.'}"
    text = (outcome.summary if outcome.success else outcome.error or outcome.summary).strip()[:REPORT_LIMIT]
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return f"{first}\n\n{fence}text\n{text}\n{fence}" if text else first
