"""The items that need attention, as the scheduler noted them, and the messages about them."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from rota.model.attention import Attention, ItemKind, NotedItem
from rota.model.chats import ChatKind, ChatState
from rota.model.clock import iso
from rota.model.ids import new_id
from rota.model.notifications import OF_ITEMS, Event, Target
from rota.model.questions import Subject
from rota.rules.attention import Changes, changes_of, is_told_by_runs, mark_after
from rota.store.driver import Database
from rota.store.tables import attention, audit, chats, jobs, notifications, questions

FindItems = Callable[[Database, datetime], Sequence[Attention]]
"""Returns all items that need attention, acknowledged ones too."""
ITEMS_SENT = 20
"""A message names so many items and counts the others."""
WHAT_LENGTH = 300
QUESTIONS_READ = 20
ASKED = (ItemKind.QUESTION, ItemKind.APPROVAL)
"""Items that are questions."""


def is_watched(db: Database) -> bool:
    """Return whether a target hears of items, or items are noted."""
    hears = any(event in target.on for target in notifications.targets(db).values() for event in OF_ITEMS)
    return hears or bool(attention.noted_items(db))


def look(db: Database, find: FindItems, *, together: timedelta, now: datetime) -> Changes:
    """Return what changed since the last look; nothing is stored."""
    noted, seen = attention.noted_items(db), audit.acknowledgements(db)
    hears = any(event in target.on for target in notifications.targets(db).values() for event in OF_ITEMS)
    if not hears:
        return Changes(deleted=tuple(noted))
    earlier = {topic: [item.mark] for topic, item in noted.items()}
    for topic, acknowledgement in seen.items():
        earlier.setdefault(topic, []).insert(0, acknowledgement.sign)
    items = [_item(found, mark_after(found, earlier.get(found.topic, ())), now=now) for found in find(db, now)]
    marks = {topic: item.mark for topic, item in noted.items()} | {item.topic: item.mark for item in items}
    acknowledged = {topic for topic, mark in marks.items() if topic in seen and seen[topic].sign == mark}
    return changes_of(noted, items, acknowledged=acknowledged, now=now, together=together)


def note(db: Database, find: FindItems, *, together: timedelta, now: datetime) -> Changes:
    """Store what changed since the last look, and the messages about it, in one transaction."""
    changes = look(db, find, together=together, now=now)
    message = new_id(now)
    reported = {item.topic for item in changes.new}
    for item in changes.stored:
        attention.put(db, replace(item, message=message) if item.topic in reported else item)
    for item in changes.new:
        attention.put(db, replace(item, message=message))
    for topic in changes.deleted:
        attention.drop(db, topic)
    for event, items in ((Event.ATTENTION, changes.new), (Event.RESOLVED, changes.over)):
        if items:
            _tell(db, event, items, message=message, now=now)
    return changes


def _item(found: Attention, mark: str, *, now: datetime) -> NotedItem:
    return NotedItem(found.topic, mark, found.kind, found.name, found.what, found.command, found.subject, since=now)


def _tell(db: Database, event: Event, items: Sequence[NotedItem], *, message: str, now: datetime) -> None:
    for target in notifications.targets(db).values():
        heard = [item for item in items if event in target.on and _hears(db, target, item)]
        if heard:
            payload = {
                "event": event.value,
                "id": message,
                "at": iso(now),
                "items": [_item_json(item) for item in heard[:ITEMS_SENT]],
                "more": max(len(heard) - ITEMS_SENT, 0),
            }
            notifications.insert_message(db, target, event, subject=f"{event}:{message}", payload=payload, now=now)


def _hears(db: Database, target: Target, item: NotedItem) -> bool:
    """Return whether a target gets an item: not what it cannot deliver, nor what the runs of a job report to it."""
    if item.topic == f"deliveries:{target.name}":
        return False
    if target.users and item.kind in ASKED and _has_question(db, target, item):
        return False
    if not is_told_by_runs(item.kind, target.on):
        return True
    job = jobs.job_by_name(db, item.name)
    return job is None or target.name not in job.spec.notify


def _has_question(db: Database, target: Target, item: NotedItem) -> bool:
    """Return whether a chat has the question of an item itself. A scheduler that does not stay sends none."""
    number = item.name.removeprefix("question ")
    if item.kind is ItemKind.APPROVAL:
        job = jobs.job_by_name(db, item.name)
        question_list = (
            [] if job is None else questions.newest(db, state=None, job_id=job.id, below=None, limit=QUESTIONS_READ)
        )
        number = next((str(question.number) for question in question_list if question.subject is Subject.PROPOSAL), "")
    sent = chats.about(db, target.bot, target.address, kind=ChatKind.QUESTION, subject=number)
    return any(message.state is not ChatState.FAILED for message in sent)


def _item_json(item: NotedItem) -> dict[str, str]:
    return {
        "topic": item.topic,
        "mark": item.mark,
        "kind": item.kind.value,
        "name": item.name,
        "what": item.what[:WHAT_LENGTH],
        "command": item.command,
        "about": item.subject,
        "since": iso(item.since),
    }
