"""`http:` in a file: people behind a proxy, and what is refused."""

from pathlib import Path

import pytest

from rota.declare.project import read_project
from rota.model.errors import FileProblems
from rota.settings import Http


def load(folder: Path, http: str) -> Http:
    (folder / "rota.yaml").write_text(f"http: {http}\njobs: {{a: {{command: x}}}}\n")
    return read_project(folder, environment={"HOME": "/home/x"}).settings.http


def test_the_keys_of_people_are_read(tmp_path: Path) -> None:
    written = (
        "{trusted_header: X-Forwarded-User, proxies: [10.0.0.5, fd00::/64], proxy_secret: {secret: PROXY}, "
        "people: {anna@example.net: admin, ben: none}, others: read}"
    )
    assert load(tmp_path, written) == Http(
        trusted_header="X-Forwarded-User",
        proxies=("10.0.0.5/32", "fd00::/64"),
        proxy_secret="PROXY",
        people={"anna@example.net": "admin", "ben": ""},
        others="read",
    )


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("{trusted_header: X-Forwarded-User}", "needs `proxies`"),
        ("{proxies: 10.0.0.5}", "has no effect without `trusted_header`"),
        ("{people: {ben: run}}", "has no effect without `trusted_header` or `oidc`"),
        ("{oidc: {issuer: https://id.test, client_id: rota}}", "needs `public_url`"),
        ("{public_url: https://x, oidc: {issuer: http://id.test, client_id: rota}}", "is not https"),
        ("{public_url: https://x, oidc: {issuer: id.test, client_id: rota}}", "is not the address of an issuer"),
        ("{public_url: https://x, oidc: {issuer: 'https://u:p@id.test', client_id: rota}}", "is not the address"),
        ("{public_url: https://x, oidc: {issuer: https://id.test}}", "has no client_id"),
        ("{public_url: https://x, oidc: {issuer: https://id.test, client_id: r, scope: email}}", "lacks openid"),
        ("{public_url: https://x, oidc: {issuer: https://i.test, client_id: r, client_secret: hunter2}}", "literal"),
        ("{trusted_header: X-User, proxies: 0.0.0.0/0}", "contains every address"),
        ("{trusted_header: X-User, proxies: '::/0'}", "contains every address"),
        ("{trusted_header: X-User, proxies: 10.0.0.5/24}", "is not a network"),
        ("{trusted_header: X-User, proxies: proxy.test}", "is not a network"),
        ("{trusted_header: Authorization, proxies: 10.0.0.5}", "cannot hold a person's name"),
        ("{trusted_header: X-Forwarded-For, proxies: 10.0.0.5}", "cannot hold a person's name"),
        ("{trusted_header: X-Rota-Proxy-Secret, proxies: 10.0.0.5}", "cannot hold a person's name"),
        ("{trusted_header: X-User, proxies: 10.0.0.5, proxy_secret: hunter2}", "is a literal secret"),
        ("{trusted_header: X-User, proxies: 10.0.0.5, people: {ben: owner}}", "is not a scope"),
        ("{trusted_header: X-User, proxies: 10.0.0.5, people: {'a b': run}}", "cannot be a person's name"),
    ],
)
def test_what_would_believe_too_much_is_refused(tmp_path: Path, written: str, message: str) -> None:
    with pytest.raises(FileProblems) as told:
        load(tmp_path, written)
    assert message in str(told.value.problems[0])
    assert "hunter2" not in str(told.value.problems[0])


def test_a_proxy_on_this_machine_without_a_secret_is_noted(tmp_path: Path) -> None:
    def notes(more: str) -> str:
        (tmp_path / "rota.yaml").write_text(
            f"http: {{trusted_header: X-User, proxies: 127.0.0.1{more}}}\njobs: {{a: {{command: x}}}}\n"
        )
        return " ".join(read_project(tmp_path, environment={"HOME": "/home/x"}).notes)

    assert "every program of this machine, agents included, can act as any person" in notes("")
    assert "any person" not in notes(", proxy_secret: {secret: P}")
