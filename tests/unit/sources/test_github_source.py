"""Issues of a GitHub repository as work, against a server that behaves like it."""

import threading
from datetime import UTC, datetime

import pytest
from tests.work_servers import TOKEN, GitHubServer, Issue, serving

from rota.model.agents import WorkItem, WorkReport, WorkRequest
from rota.model.errors import SourceError
from rota.sources.github import GitHubSource

NOW = datetime(2026, 11, 16, 9, tzinfo=UTC)
DONE = WorkReport(success=True, run="fix:8", summary="mended\n@everybody ```look```")


def request(claim: str = "c1") -> WorkRequest:
    return WorkRequest(claim, "fix", "fix:8", NOW)


def source(server: GitHubServer, token: str = TOKEN, repository: str = "me/api", **options: str) -> GitHubSource:
    return GitHubSource(repository, {"api_url": server.url, **options}, token=token, timeout=30)


def claimed(server: GitHubServer, claim: str = "c1") -> WorkItem:
    item = source(server).next_item(request(claim))
    assert item is not None
    return item


def test_the_oldest_open_issue_with_the_label_is_claimed() -> None:
    with serving(GitHubServer(Issue(219, "500 on empty search"), Issue(212, "login fails", "on Safari"))) as server:
        item = claimed(server)
        assert (item.id, item.title, item.description) == ("212", "login fails", "on Safari")
        assert item.url == "https://github.com/me/api/issues/212"
        assert item.metadata["author"] == "reporter"
        assert server.issues[212].labels == ["agent-working"]
        assert [one.body.splitlines()[0] for one in server.claims(212)] == ["`fix:8` is working on this."]
        assert server.issues[219].labels == ["agent-ready"]


def test_issues_that_are_closed_claimed_or_pull_requests_are_left_alone() -> None:
    issues = (
        Issue(1, "closed", state="closed"),
        Issue(2, "held", labels=["agent-ready", "agent-working"]),
        Issue(3, "a pull request", pull_request=True),
        Issue(4, "other", labels=["bug"]),
    )
    with serving(GitHubServer(*issues)) as server:
        assert source(server).next_item(request()) is None
        assert {method for method, _, _ in server.asked} == {"GET"}


def test_all_pages_are_looked_at() -> None:
    held = [Issue(number, "held", labels=["agent-ready", "agent-working"]) for number in range(1, 6)]
    with serving(GitHubServer(*held, Issue(9, "free"), page=2)) as server:
        assert claimed(server).id == "9"


def test_the_first_claim_wins_and_the_loser_takes_its_own_back() -> None:
    with serving(GitHubServer(Issue(1, "one"))) as server:
        server.say(1, "`x:1` is working on this.\n\n<!-- rota:claim other -->", "ghp_other")
        assert source(server).next_item(request()) is None
        assert [one.login for one in server.claims(1)] == ["other"]
        assert server.issues[1].labels == ["agent-ready"]


def test_a_stranger_cannot_claim_and_a_quotation_is_no_claim() -> None:
    with serving(GitHubServer(Issue(1, "one"))) as server:
        server.say(1, "<!-- rota:claim mine -->", "ghp_stranger")
        server.say(1, "> <!-- rota:claim old -->\n\nwhat is this?", "ghp_other")
        assert claimed(server).id == "1"


def test_two_installations_that_claim_at_once_never_both_win() -> None:
    with serving(GitHubServer(*(Issue(number, str(number)) for number in range(1, 7)))) as server:
        got: list[str] = []
        start = threading.Barrier(3)

        def work(who: int) -> None:
            start.wait()
            for turn in range(4):
                item = source(server, [TOKEN, "ghp_other", TOKEN][who]).next_item(request(f"c{who}-{turn}"))
                if item is not None:
                    got.append(item.id)

        threads = [threading.Thread(target=work, args=(who,)) for who in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(got) == len(set(got))
        assert all(len(server.claims(int(number))) == 1 for number in got)


def test_an_issue_that_was_ended_since_the_list_was_read_is_not_taken() -> None:
    with serving(GitHubServer(Issue(1, "one"))) as server:

        def change(method: str, _path: str) -> None:
            if method == "POST":
                server.issues[1].labels = ["agent-done"]

        server.before = change
        assert source(server).next_item(request()) is None
        assert server.comments == []


def test_a_locked_issue_is_passed_over() -> None:
    with serving(GitHubServer(Issue(1, "locked", locked=True), Issue(2, "free"))) as server:
        assert claimed(server).id == "2"


def test_issues_that_are_all_locked_are_an_error_and_not_no_work() -> None:
    with serving(GitHubServer(Issue(1, "locked", locked=True))) as server, pytest.raises(SourceError, match="locked"):
        source(server).next_item(request())


def test_a_token_that_may_comment_but_set_no_label_leaves_no_claim_behind() -> None:
    with serving(GitHubServer(Issue(1, "one"), Issue(2, "two"))) as server:
        server.refuse = lambda method, path: (403, None, {}) if method == "POST" and "labels" in path else None
        with pytest.raises(SourceError, match="needs write access"):
            source(server).next_item(request())
        assert [one.issue for one in server.comments] == [1]
        source(server).release_claim(request())
        assert server.comments == []


def test_a_report_is_a_comment_a_label_and_the_end_of_the_claim() -> None:
    with serving(GitHubServer(Issue(1, "one"))) as server:
        source(server).report(claimed(server), DONE)
        assert server.issues[1].labels == ["agent-done"]
        (comment,) = server.comments
        assert comment.body.startswith("`fix:8` finished this.\n\n````text\nmended\n@everybody ```look```\n````")


def test_a_failure_is_reported_with_its_own_label() -> None:
    with serving(GitHubServer(Issue(1, "one"))) as server:
        source(server).report(claimed(server), WorkReport(success=False, run="fix:8", error="exit 2"))
        assert server.issues[1].labels == ["agent-failed"]
        assert "could not finish this" in server.comments[0].body


def test_a_report_that_was_cut_off_is_finished_with_one_comment() -> None:
    with serving(GitHubServer(Issue(1, "one"))) as server:
        item = claimed(server)
        server.refuse = lambda method, path: (502, None, {}) if method == "POST" and "labels" in path else None
        with pytest.raises(SourceError):
            source(server).report(item, DONE)
        server.refuse = lambda _method, _path: None
        source(server).report(item, DONE)
        source(server).report(item, DONE)
        assert (len(server.comments), server.issues[1].labels) == (1, ["agent-done"])


def test_a_release_puts_the_label_back() -> None:
    with serving(GitHubServer(Issue(1, "one"))) as server:
        item = claimed(server)
        source(server).release(item)
        source(server).release(item)
        assert (server.issues[1].labels, server.comments) == (["agent-ready"], [])
        assert claimed(server, "c2").id == "1"


def test_a_release_of_an_old_claim_leaves_a_newer_one_alone() -> None:
    with serving(GitHubServer(Issue(1, "one"))) as server:
        item = claimed(server)
        source(server).release(item)
        claimed(server, "c2")
        source(server).release(item)
        assert server.issues[1].labels == ["agent-working"]


def test_a_claim_that_nobody_noted_is_found_by_its_name() -> None:
    with serving(GitHubServer(Issue(1, "one"), Issue(2, "two"), page=1)) as server:
        claimed(server, "other")
        claimed(server, "lost")
        source(server).release_claim(request("lost"))
        assert server.issues[2].labels == ["agent-ready"]
        assert [one.issue for one in server.comments] == [1]


def test_a_claim_that_was_cut_off_before_its_labels_is_taken_back() -> None:
    with serving(GitHubServer(Issue(1, "one"))) as server:
        server.refuse = lambda method, path: (500, None, {}) if method == "POST" and "labels" in path else None
        with pytest.raises(SourceError):
            source(server).next_item(request())
        server.refuse = lambda _method, _path: None
        source(server).release_claim(request())
        assert (server.issues[1].labels, server.comments) == (["agent-ready"], [])


def test_an_issue_that_is_gone_is_released_and_reported_without_an_error() -> None:
    with serving(GitHubServer(Issue(1, "one"))) as server:
        item = claimed(server)
        del server.issues[1]
        source(server).release(item)
        source(server).report(item, DONE)


def test_labels_have_the_names_of_the_file() -> None:
    with serving(GitHubServer(Issue(1, "one", labels=["todo ä/b"]))) as server:
        own = source(server, label="todo ä/b", claimed_label="doing", done_label="ok", failed_label="bad")
        item = own.next_item(request())
        assert item is not None
        assert server.issues[1].labels == ["doing"]
        own.report(item, DONE)
        assert server.issues[1].labels == ["ok"]


def test_a_look_ahead_claims_nothing() -> None:
    with serving(GitHubServer(Issue(1, "one"), Issue(2, "two"))) as server:
        ahead = source(server).peek(request())
        assert (ahead.open, ahead.next and ahead.next.title) == (2, "one")
        assert {method for method, _, _ in server.asked} == {"GET"}


@pytest.mark.parametrize(
    ("answer", "text", "again"),
    [
        ((401, {"message": "Bad credentials"}, {}), "the token is wrong or has expired", None),
        ((403, {"message": "Resource not accessible"}, {}), "needs write access", None),
        ((404, {"message": "Not Found"}, {}), "no such repository", None),
        ((403, {"message": "slow down"}, {"Retry-After": "60"}), "a rate limit that ends in 60 s", 60.0),
        ((429, None, {"Retry-After": "7"}), "ends in 7 s", 7.0),
        (
            (403, None, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "4102444800", "Retry-After": "9"}),
            "ends in 9 s",
            9.0,
        ),
        ((500, b"<html>no</html>", {}), "500", None),
        ((301, None, {"Location": "https://elsewhere"}), "301", None),
        ((200, {"no": "list"}, {}), "not answer with a list", None),
    ],
)
def test_a_refusal_says_what_to_do(answer: tuple[int, object, dict[str, str]], text: str, again: float | None) -> None:
    with serving(GitHubServer(Issue(1, "one"))) as server:
        server.refuse = lambda _method, _path: answer
        with pytest.raises(SourceError) as told:
            source(server).next_item(request())
        assert text in str(told.value)
        assert told.value.again_after == again
        assert TOKEN not in str(told.value)


def test_the_token_is_not_sent_to_another_server() -> None:
    with serving(GitHubServer(Issue(1, "one"))) as server, serving(GitHubServer()) as other:
        link = {"Link": f'<{other.url}/repos/me/api/issues?page=2>; rel="next"'}
        server.refuse = lambda _method, _path: (200, [], link)
        with pytest.raises(SourceError, match="points to another server"):
            source(server).next_item(request())
        assert other.asked == []
