"""The few requests of GitHub's REST API that a work source makes."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from rota.model.errors import SourceError
from rota.sources.web import Answer, Web

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

    def _ask(self, method: str, path: str, **further: Any) -> Answer:
        return self._send(method, f"{self._root}{path}", **further)

    def _send(self, method: str, path: str, **further: Any) -> Answer:
        """Send a request, and say of a refusal what a person can do about it."""
        try:
            return self._web.ask(method, path, **further)
        except SourceError as error:
            hint = _HINTS.get(error.status or 0, error.hint)
            if error.again_after is not None:
                hint = f"a rate limit that ends in {error.again_after:.0f} s"
            text = f"github {self.name}: {error.message}"
            raise SourceError(text, hint=hint, status=error.status, again_after=error.again_after) from None
