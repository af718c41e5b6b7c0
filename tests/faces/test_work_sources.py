"""Work sources on the command line: a dry run looks and claims nothing, a wrong key is told with its place."""

from tests.faces.conftest import Project
from tests.work_servers import TOKEN, GitHubServer, Issue, serving

FILE = """
agents: {{fixer: {{adapter: custom, access: full, options: {{argv: [cat], prompt: stdin}}}}}}
jobs:
  fix:
    agent: fixer
    prompt: "Fix {{{{ item.title }}}}."
    work_source: {source}
"""
GITHUB = "{{github: me/api, label: agent-ready, api_url: '{url}', token: {{secret: GITHUB_TOKEN}}}}"


def line(told: str, label: str) -> str:
    """Return what stands behind a label."""
    return next(text.removeprefix(label).strip() for text in told.splitlines() if text.startswith(label))


def test_a_dry_run_looks_at_the_source_and_claims_nothing(project: Project) -> None:
    with serving(GitHubServer(Issue(219, "500 on empty search"), Issue(220, "login fails"))) as server:
        project.applied(FILE.format(source=GITHUB.format(url=server.url)))
        result = project.rota("run", "fix", "--dry-run", environ={"GITHUB_TOKEN": TOKEN})
        assert (
            line(result.stdout, "work") == 'github me/api, label agent-ready: 2 open; next #219 "500 on empty search"'
        )
        assert "but" not in result.stdout
        assert {method for method, _, _ in server.asked} == {"GET"}
        assert TOKEN not in result.stdout


def test_a_dry_run_without_work_says_that_it_would_be_skipped(project: Project) -> None:
    (project.folder / "inbox").mkdir()
    project.applied(FILE.format(source="{directory: inbox}"))
    assert line(project.ok("run", "fix", "--dry-run"), "but") == "it would be SKIPPED no_work"
    assert project.json("run", "fix", "--dry-run")["work"]["open"] == 0


def test_a_dry_run_tells_a_source_that_cannot_be_asked(project: Project) -> None:
    project.applied(FILE.format(source="{directory: inbox}"))
    told = project.ok("run", "fix", "--dry-run")
    assert "did not answer" in line(told, "work")
    assert line(told, "but") == "it would be SKIPPED source_error"


def test_a_dry_run_tells_a_secret_that_is_missing(project: Project) -> None:
    project.applied(FILE.format(source=GITHUB.format(url="http://127.0.0.1:1")))
    assert line(project.ok("run", "fix", "--dry-run"), "but").startswith("it would fail at once")


def test_a_wrong_source_is_told_with_its_place(project: Project) -> None:
    project.write(FILE.format(source="{github: me/api}"))
    result = project.rota("check")
    assert result.exit_code == 65
    assert "rota.yaml:7:18: jobs.fix.work_source: has no token; add `token: {secret: GITHUB_TOKEN}`" in result.output


def test_an_exported_job_keeps_its_source(project: Project) -> None:
    project.applied(FILE.format(source="{directory: inbox, attempts: 5}"))
    exported = project.ok("export")
    assert "directory: inbox" in exported
    assert "attempts: 5" in exported
