"""Requests that may come twice: the first takes effect and notes its key with it, the others get its answer (G-02)."""

from rota.model.clock import Clock
from rota.store import audit
from rota.store.audit import Answered
from rota.store.driver import Database, Store

__all__ = ["Answered", "Mark"]


class Mark:
    """One key of one caller, and the request that it stands for."""

    def __init__(self, store: Store, clock: Clock, *, caller: str, key: str, digest: str) -> None:
        self._store = store
        self._clock = clock
        self._caller = caller
        self._key = key
        self.digest = digest

    def find(self) -> Answered | None:
        """Return what is known of the first request under this key, None for nothing."""
        now = self._clock.now()
        return self._store.read(lambda db: audit.find_key(db, caller=self._caller, key=self._key, now=now))

    def claim(self, db: Database) -> bool:
        """Take the key in the transaction of the effects; tell whether it was free."""
        return audit.claim_key(db, caller=self._caller, key=self._key, digest=self.digest, now=self._clock.now())

    def answer(self, status: int, body: str) -> None:
        """Keep the answer, so that it can be repeated."""

        def keep(db: Database) -> None:
            audit.answer_key(
                db,
                caller=self._caller,
                key=self._key,
                digest=self.digest,
                status=status,
                body=body,
                now=self._clock.now(),
            )

        self._store.write(keep)
