"""Addresses of databases: what they are, whose password never shows."""

import pytest

from rota.model.store_url import has_password, host_of, is_postgres, secrets_of, shown, with_secrets


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://rota:geheim@db/rota",
        "postgresql://rota:geheim@db:5433,other:5434/rota?sslmode=require",
        "postgres://rota:ge%2Fheim@db/rota",
        "postgresql://rota:ge/heim@db/rota",
        "postgresql://rota:ge@heim@db/rota",
        "postgresql://rota:ge?heim@db/rota",
        "postgresql://db/rota?password=geheim&user=rota",
        "postgresql://rota@db/rota?sslpassword=geheim",
        "mysql://rota:geheim@db/rota",
    ],
)
def test_a_password_is_seen_and_never_shown(address):
    assert has_password(address)
    assert "heim" not in shown(address)
    assert "heim" not in host_of(address)
    assert "db" in shown(address)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://rota@db:5433/rota?sslmode=require",
        "postgresql:///rota?host=/run/postgresql",
        "postgresql://[::1]:5432/rota",
        "postgresql://db:5432/rota",
    ],
)
def test_an_address_without_a_password_is_shown_as_it_is(address):
    assert shown(address) == address
    assert not has_password(address)


def test_a_secret_is_put_in_its_place_and_escaped():
    address = "postgresql://rota:${secret:DB}@db/rota"
    assert secrets_of(address) == ["DB"]
    assert with_secrets(address, {"DB": "a@b/c%"}.__getitem__) == "postgresql://rota:a%40b%2Fc%25@db/rota"
    assert shown(address) == "postgresql://rota@db/rota"
    assert not has_password(address)


def test_other_databases_are_none_of_postgresqls():
    assert [is_postgres(one) for one in ("sqlite", "mysql://db/rota", "postgres://db/rota", "postgresql")] == [
        False,
        False,
        True,
        False,
    ]
