"""What somebody has seen of what needs attention."""

from dataclasses import dataclass
from datetime import datetime

from rota.model.clock import from_ms, to_ms
from rota.store.driver import Database


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """A topic that somebody has seen, with the sign that it had then."""

    topic: str
    sign: str
    actor: str
    at: datetime


def acknowledgements(db: Database) -> dict[str, Acknowledgement]:
    """Return what was seen, by topic."""
    found = [
        Acknowledgement(topic, sign, actor, from_ms(at)) for topic, sign, actor, at in db.rows("acknowledgements_all")
    ]
    return {one.topic: one for one in found}


def acknowledge(db: Database, topic: str, *, sign: str, actor: str, now: datetime) -> None:
    """Note that somebody has seen a topic."""
    db.execute("acknowledgement_put", topic=topic, sign=sign, actor=actor, now=to_ms(now))


def forget(db: Database, topic: str) -> bool:
    """Forget that a topic was seen; tell whether it was."""
    return bool(db.execute("acknowledgement_drop", topic=topic))
