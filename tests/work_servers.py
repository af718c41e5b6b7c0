"""Servers on this machine that give work: one that behaves like GitHub, one that speaks rota's own protocol."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

from msgspec import Struct, field

TOKEN = "ghp_canary"
LOGINS = {TOKEN: ("fixer", "OWNER"), "ghp_other": ("other", "COLLABORATOR"), "ghp_stranger": ("stranger", "NONE")}
Answer = tuple[int, Any, dict[str, str]]


class Issue(Struct):
    """An issue as the server keeps it."""

    number: int
    title: str
    body: str = ""
    labels: list[str] = field(default_factory=lambda: ["agent-ready"])
    state: str = "open"
    pull_request: bool = False
    locked: bool = False


class Comment(Struct):
    """A comment on an issue."""

    id: int
    issue: int
    body: str
    login: str
    association: str


class WorkServer:
    """A server on a thread. `refuse` answers in its place; `before` and `after` are called around each answer."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Any]] = []
        self.keys: list[str] = []
        self.refuse: Callable[[str, str], Answer | None] = lambda _method, _path: None
        self.before: Callable[[str, str], None] = lambda _method, _path: None
        self.after: Callable[[str, str], None] = lambda _method, _path: None
        self.closing = threading.Event()
        self.lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Answer:
        raise NotImplementedError

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def _take(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                headers = {name.lower(): value for name, value in self.headers.items()}
                owner.before(self.command, self.path)
                with owner.lock:
                    owner.asked.append((self.command, self.path, body))
                    owner.keys.append(headers.get("idempotency-key", ""))
                    told = owner.refuse(self.command, self.path)
                    status, data, further = told or owner.answer(self.command, self.path, body, headers)
                owner.after(self.command, self.path)
                content = b"" if data is None else data if isinstance(data, bytes) else json.dumps(data).encode()
                try:
                    self._send(status, content, further)
                except OSError:
                    return  # whoever asked is gone

            def _send(self, status: int, content: bytes, further: dict[str, str]) -> None:
                self.send_response(status)
                for name, value in {"Content-Length": str(len(content)), **further}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_DELETE = do_PATCH = _take  # noqa: N815

            def log_message(self, *_args: Any) -> None:
                return None

        return Handler


class GitHubServer(WorkServer):
    """Issues, comments and labels of one repository, `me/api`, as GitHub's REST API shows and changes them."""

    def __init__(self, *issues: Issue, page: int = 100) -> None:
        self.issues = {issue.number: issue for issue in issues}
        self.comments: list[Comment] = []
        self.page = page
        self._next = 1000
        super().__init__()

    def answer(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Answer:
        login = LOGINS.get(headers.get("authorization", "").removeprefix("Bearer "))
        if login is None:
            return 401, {"message": "Bad credentials"}, {}
        parts = urlsplit(path)
        query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
        found = re.fullmatch(r"/repos/me/api/issues(?:/(\d+|comments)(?:/(\w+)(?:/(.+))?)?)?", parts.path)
        if found is None:
            return 404, {"message": "Not Found"}, {}
        which, what, rest = found.groups()
        if which is None:
            return self._list(self._issues(query), parts.path, query)
        if which == "comments":
            return self._all_comments(method, what, parts.path, query)
        issue = self.issues.get(int(which))
        if issue is None:
            return 404, {"message": "Not Found"}, {}
        if what is None:
            return 200, self._issue(issue), {}
        if what == "comments":
            return self._comments(method, issue, body, parts.path, query, login)
        return self._labels(method, issue, body, unquote(rest or ""))

    def claims(self, number: int) -> list[Comment]:
        """Return the claims on an issue."""
        return [one for one in self.comments if one.issue == number and "rota:claim" in one.body]

    def say(self, number: int, body: str, token: str = "ghp_stranger") -> Comment:
        """Let somebody comment."""
        login, association = LOGINS[token]
        self._next += 1
        self.comments.append(Comment(self._next, number, body, login, association))
        return self.comments[-1]

    def _issues(self, query: dict[str, str]) -> list[dict[str, Any]]:
        assert (query["state"], query["sort"], query["direction"]) == ("open", "created", "asc")
        found = [one for one in self.issues.values() if one.state == "open" and query["labels"] in one.labels]
        return [self._issue(one) for one in sorted(found, key=lambda one: one.number)]

    def _issue(self, issue: Issue) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "number": issue.number,
            "title": issue.title,
            "body": issue.body or None,
            "state": issue.state,
            "labels": [{"name": name} for name in issue.labels],
            "user": {"login": "reporter"},
            "html_url": f"https://github.com/me/api/issues/{issue.number}",
            "created_at": "2026-11-01T00:00:00Z",
        }
        return shown | ({"pull_request": {}} if issue.pull_request else {})

    def _list(self, rows: list[dict[str, Any]], path: str, query: dict[str, str]) -> Answer:
        page, size = int(query.get("page", 1)), min(int(query.get("per_page", 30)), self.page)
        kept = "&".join(f"{key}={value}" for key, value in query.items() if key != "page")
        more = len(rows) > page * size
        link = {"Link": f'<{self.url}{path}?{kept}&page={page + 1}>; rel="next"'} if more else {}
        return 200, rows[(page - 1) * size : page * size], link

    def _comment(self, one: Comment) -> dict[str, Any]:
        return {
            "id": one.id,
            "body": one.body,
            "user": {"login": one.login},
            "author_association": one.association,
            "issue_url": f"{self.url}/repos/me/api/issues/{one.issue}",
        }

    def _all_comments(self, method: str, what: str | None, path: str, query: dict[str, str]) -> Answer:
        if method == "GET":
            assert "since" in query
            return self._list([self._comment(one) for one in reversed(self.comments)], path, query)
        before = len(self.comments)
        self.comments = [one for one in self.comments if one.id != int(what or 0)]
        return (204, None, {}) if len(self.comments) < before else (404, {"message": "Not Found"}, {})

    def _comments(
        self, method: str, issue: Issue, body: Any, path: str, query: dict[str, str], login: tuple[str, str]
    ) -> Answer:
        if method == "GET":
            return self._list([self._comment(one) for one in self.comments if one.issue == issue.number], path, query)
        if issue.locked:
            return 403, {"message": "Unable to create comment because issue is locked."}, {}
        self._next += 1
        self.comments.append(Comment(self._next, issue.number, body["body"], *login))
        return 201, self._comment(self.comments[-1]), {}

    def _labels(self, method: str, issue: Issue, body: Any, label: str) -> Answer:
        if method == "POST":
            issue.labels += [name for name in body["labels"] if name not in issue.labels]
            return 200, [{"name": name} for name in issue.labels], {}
        if label not in issue.labels:
            return 404, {"message": "Label does not exist"}, {}
        issue.labels.remove(label)
        return 200, [{"name": name} for name in issue.labels], {}


class ItemServer(WorkServer):
    """Rota's own protocol: items by claim, each claim answered the same however often it is asked."""

    def __init__(self, *items: dict[str, Any]) -> None:
        self.items = list(items)
        self.held: dict[str, dict[str, Any]] = {}
        self.reports: list[dict[str, Any]] = []
        super().__init__()

    def answer(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Answer:
        verb = urlsplit(path).path.rpartition("/")[2]
        if verb == "peek":
            return 200, {"open": len(self.items), "next": self.items[0] if self.items else None}, {}
        claim = body["claim"]
        if verb == "claim":
            if claim not in self.held and self.items:
                self.held[claim] = self.items.pop(0)
            return (200, self.held[claim], {}) if claim in self.held else (204, None, {})
        item = self.held.pop(claim, None)
        if item is None:
            return 404, {"error": "no such claim"}, {}
        if verb == "report":
            self.reports.append(body)
        else:
            self.items.insert(0, item)
        return 204, None, {}


S = TypeVar("S", bound=WorkServer)


@contextmanager
def serving(server: S) -> Iterator[S]:
    """Serve for the time of a test."""
    try:
        yield server
    finally:
        server.close()
