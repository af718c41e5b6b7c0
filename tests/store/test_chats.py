"""Rows of chats: notes of events are kept for as long as a service may repeat them."""

from datetime import timedelta

from rota.store.driver import Store
from rota.store.tables import chats
from tests.store.making import NOW


def test_the_note_of_an_event_is_deleted_when_no_service_repeats_it(store: Store) -> None:
    store.write(lambda db: chats.receive(db, "slack S", "message 1", now=NOW))
    late = NOW + chats.RECEIVED_RETENTION
    assert not store.read(lambda db: chats.old(db, late))
    late += timedelta(seconds=1)
    assert store.read(lambda db: chats.old(db, late))
    store.write(lambda db: chats.prune(db, late, limit=10))
    assert not store.read(lambda db: chats.old(db, late))
    assert store.write(lambda db: chats.receive(db, "slack S", "message 1", now=late))
