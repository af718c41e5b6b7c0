"""Actions of people in chats: answers to questions, replies to agents, and commands."""

import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from msgspec.structs import replace

from rota.agents.registry import adapter
from rota.engine.loops.answers import UNITS
from rota.engine.transactions import pause
from rota.engine.transactions.chats import new_message
from rota.model.chats import Button, ChatKind, ChatMessage, Outgoing, Person, Reply
from rota.model.errors import InvalidValue
from rota.model.notifications import Channel, Event, Target
from rota.model.questions import Door, Question, Subject
from rota.model.records import Run
from rota.model.spec import AgentWork, JobSpec, Workspace
from rota.model.states import Status, Trigger
from rota.operations.jobs import find_job
from rota.operations.pause import JobSelection, choose
from rota.operations.questions.answers import Answerer, answer
from rota.operations.run_actions import start_job
from rota.operations.status.attention import acknowledge_notified
from rota.operations.status.heartbeat import heartbeat
from rota.operations.status.summary import summarise_in
from rota.rules.chats import Command, split
from rota.store.driver import Database
from rota.store.tables import activity, audit, chats, jobs, notifications, questions, runs
from rota.text import messages
from rota.text.chats import UNKNOWN_BUTTON, UNKNOWN_MESSAGE, say_help, say_question
from rota.text.questions import say_answer


class ChatDesk:
    """Carries out what people ask for in chats; every method runs inside one transaction."""

    def __init__(self, state: Path) -> None:
        self._state = state

    def acknowledge(
        self, db: Database, target: Target, delivery: str, *, message: str, person: Person, now: datetime
    ) -> str:
        """Acknowledge the items of a delivery, and plan to remove its button."""
        found = next(iter(notifications.named(db, delivery)), None)
        sent_to = None if found is None else notifications.targets(db).get(found.target)
        here = sent_to is not None and (sent_to.bot, sent_to.address) == (target.bot, target.address)
        if found is None or found.id != delivery or not here or found.event is not Event.ATTENTION:
            raise InvalidValue(UNKNOWN_BUTTON)
        items = found.payload["items"]
        done = [
            item["name"]
            for item in items
            if acknowledge_notified(db, item["topic"], mark=item["mark"], actor=person.actor, now=now)
        ]
        if done:
            _note(db, person, "ack", ", ".join(done), now=now)
        said = f"acknowledged by {person.title}: {', '.join(done)}" if done else OLD_NEWS
        text = f"{messages.title(found.payload)}\n{messages.body(found.payload)}\n\n{said}"
        token = delivery.removeprefix("msg_")
        row = new_message(target, ChatKind.NOTICE, f"attention {token}", body=text, now=now)
        chats.insert_sent(db, replace(row, id=token, message=message))
        chats.end(db, token, now=now)
        return said

    def press(self, db: Database, message: ChatMessage, index: int, *, person: Person, now: datetime) -> str:
        """Carry out a pressed button: a choice of a question."""
        if message.kind is ChatKind.NOTICE:
            raise InvalidValue("this is acknowledged already")
        question = _question(db, message)
        if index >= len(question.choices):
            raise InvalidValue(UNKNOWN_BUTTON)
        return _answer(db, message, question.choices[index], person=person, now=now)

    def reply(self, db: Database, message: ChatMessage, text: str, *, person: Person, now: datetime) -> str:
        """Carry out a reply to a message: an answer to a question, or the next prompt of an agent."""
        match message.kind:
            case ChatKind.RESULT:
                return reply_to_run(db, message.subject, text, person=person, now=now)
            case ChatKind.QUESTION:
                return _answer(db, message, text, person=person, now=now)
        raise InvalidValue("a reply to this message has no effect")

    def quoted(self, db: Database, target: Target, line: str) -> ChatMessage | None:
        """Return the message of a target that begins with a line: a crash may have come before it was recorded."""
        match = _QUESTION.match(line)
        if match is not None:
            kind, found = ChatKind.QUESTION, match[1]
            return next(iter(chats.about(db, target.bot, target.address, kind=kind, subject=found)), None)
        run = runs.run_by_handle(db, line.partition(" ")[0]) if ":" in line else None
        sent = notifications.of_run(db, run.id) if run is not None else []
        if run is None or not any(
            delivery.event is Event.RESULT and delivery.target == target.name for delivery in sent
        ):
            return None
        return new_message(target, ChatKind.RESULT, run.id, now=run.created_at)

    def command(self, db: Database, target: Target, command: Command, *, person: Person, now: datetime) -> str:
        """Carry out a command that the target allows."""
        allowed = target.commands
        match command.verb:
            case "run" if allowed.run:
                return _run(db, _named(command, allowed.run), person=person, now=now)
            case "pause" if allowed.pause:
                return _pause(db, _named(command, allowed.pause), person=person, now=now)
            case "status" if allowed.status:
                return say_status(db, self._state, now=now)
        return say_help(target)

    def lacking(self, db: Database, targets: Sequence[Target]) -> bool:
        """Return whether a message about a question is to be sent or to be closed."""
        return any(
            (target.questions and chats.unsent_questions(db, target.bot, target.address, limit=1))
            or chats.over_questions(db, target.bot, limit=1)
            for target in targets
        )

    def plan(self, db: Database, targets: Sequence[Target], *, now: datetime) -> None:
        """Store the messages about questions that are to be sent and to be closed."""
        for target in targets:
            unsent = chats.unsent_questions(db, target.bot, target.address, limit=MOST) if target.questions else ()
            for question in unsent:
                chats.insert(
                    db, new_message(target, ChatKind.QUESTION, str(question.number), body=question.digest, now=now)
                )
            for token in chats.over_questions(db, target.bot, limit=MOST):
                chats.end(db, token, now=now)

    def shown(self, db: Database, message: ChatMessage) -> Outgoing | None:
        """Return what a pending message says; None: its question is over, or another one now."""
        question = questions.by_number(db, int(message.subject))
        if question is None or not question.is_open or question.digest != message.body:
            return None
        text = say_question(question, proposal_of(db, question))
        if _is_cut(message, text):
            return Outgoing(
                f"{split(text, units_of(message) - ROOM)[0]} …\n\n{TOO_LONG.format(number=question.number)}"
            )
        buttons = [Button(choice, f"{message.id}:{index}") for index, choice in enumerate(question.choices)]
        return Outgoing(text, buttons, asks=not buttons)

    def ending(self, db: Database, message: ChatMessage) -> str:
        """Return the text of a message whose question is over."""
        if message.kind is ChatKind.NOTICE:
            return message.body
        question = questions.by_number(db, int(message.subject))
        if question is None:
            return OVER
        return "\n\n".join((split(say_question(question, None), units_of(message) - ROOM)[0], say_answer(question)))


_QUESTION = re.compile(r"Question ([0-9]{1,18}) ", re.ASCII)
ROOM = 600
"""The UTF-16 units that are left for what follows a question that is cut."""
TARGET_LIMIT = 200
MOST = 20
"""The number of questions of a chat that are planned together."""
OVER = "This question is over."
OLD_NEWS = "this is over, or something new happened since; look at `rota ack`"
TOO_LONG = "The question is too long for this chat. Answer it with `rota answer {number}`, or on the dashboard."


def units_of(message: ChatMessage) -> int:
    """Return the longest text of a message."""
    return UNITS[Channel(message.bot.partition(" ")[0])]


def _is_cut(message: ChatMessage, text: str) -> bool:
    return len(split(text, units_of(message))) > 1


def proposal_of(db: Database, question: Question) -> JobSpec | None:
    """Return the definition that a question proposes, None for any other question."""
    return jobs.job_by_id(db, question.job_id).spec if question.subject is Subject.PROPOSAL else None


def _note(db: Database, person: Person, action: str, target: str, *, now: datetime) -> None:
    """Add an entry to the audit log."""
    audit.note(
        db, actor=person.actor, face=person.door, action=action, target=target[:TARGET_LIMIT], detail={}, now=now
    )


def _question(db: Database, message: ChatMessage) -> Question:
    if message.kind is not ChatKind.QUESTION:
        raise InvalidValue(UNKNOWN_BUTTON)
    question = questions.by_number(db, int(message.subject))
    if question is None:
        raise InvalidValue(OVER)
    return question


def _answer(db: Database, message: ChatMessage, text: str, *, person: Person, now: datetime) -> str:
    """Answer a question as its message showed it; the first answer wins."""
    question = _question(db, message)
    if question.is_open and _is_cut(message, say_question(question, proposal_of(db, question))):
        raise InvalidValue(TOO_LONG.format(number=question.number))
    by = Answerer(person.actor, Door(person.door))
    answered = answer(db, question.number, text, digest=message.body, by=by, now=now)
    _note(db, person, "answer", str(question.number), now=now)
    return f"question {question.number} is answered: {answered.answer}"


def _named(command: Command, allowed: Sequence[str]) -> str:
    if command.name not in allowed:
        hint = f"/{command.verb} {allowed[0]}"
        raise InvalidValue(f"/{command.verb} is allowed here for {', '.join(allowed)}; write {hint}")
    return command.name


def _run(db: Database, name: str, *, person: Person, now: datetime) -> str:
    job = find_job(db, name)
    ref = start_job(db, job, None, trigger=Trigger.MANUAL, decisions={"by": {"maker": person.title}}, now=now)
    activity.touch(db, what="trigger", now=now)
    _note(db, person, "run", ref.handle, now=now)
    return f"{ref.handle} is queued"


def _pause(db: Database, name: str, *, person: Person, now: datetime) -> str:
    job = choose(db, JobSelection(names=(name,)))[0]
    reason = f"paused by {person.title}"
    if not pause.pause_job(db, job.id, until=None, reason=reason, now=now):
        return f"{job.name} was paused already"
    audit.insert_event(db, "paused", now=now, jobs=1, everything=False, reason=reason)
    activity.touch(db, what="pause", now=now)
    _note(db, person, "pause", job.name, now=now)
    return f"{job.name} is paused; `rota resume {job.name}` ends that"


def reply_to_run(db: Database, run_id: str, text: str, *, person: Person, now: datetime) -> str:
    """Start a run of the same job with the text as its prompt; it goes on in the session of the answer."""
    run = runs.run_by_id(db, run_id)
    if run is None:
        raise InvalidValue(UNKNOWN_MESSAGE)
    job = jobs.job_by_id(db, run.job_id)
    work = job.spec.work.agent
    if work is None:
        raise InvalidValue(f"{job.name} has no agent any more")
    params = {name: value for name, value in run.params.items() if name in job.spec.work.param_names}
    told = {"reply": {"to": run.handle, "by": person.title}}
    born = start_job(db, job, params, trigger=Trigger.REPLY, decisions=told, now=now)
    session = _session(db, run, work)
    chats.save_reply(
        db, Reply(born.id, run.id, run.handle, session, text, person.door, person.id, person.name, created_at=now)
    )
    audit.insert_event(db, "replied", now=now, job_id=job.id, run_id=born.id, to=run.handle, by=person.title)
    activity.touch(db, what="reply", now=now)
    _note(db, person, "reply", run.handle, now=now)
    return f"{born.handle} goes on with your reply"


def _session(db: Database, run: Run, work: AgentWork) -> str:
    """Return the session of a run that a reply can resume; empty if its program or its folder cannot."""
    before = jobs.version_spec(db, run.job_id, run.version).work.agent
    if before is None or before.choices or work.choices or before.adapter != work.adapter:
        return ""  # another program may do the next run
    if {before.workspace, work.workspace} != {Workspace.PROJECT}:
        return ""
    return run.session_id or "" if adapter(work.adapter, work.options).capabilities.resume else ""


def say_status(db: Database, state: Path, *, now: datetime) -> str:
    """Return the state of the scheduler in a few lines."""
    summary = summarise_in(db, state=state, beat=heartbeat(state), now=now)
    counts = {status: summary.counts.get(status, 0) for status in (Status.RUNNING, Status.QUEUED)}
    lines = [", ".join(f"{count} {status.lower()}" for status, count in counts.items())]
    failing = [job.name for job in jobs.all_jobs(db) if job.retired_at is None and job.failures]
    paused = [job.name for job in jobs.all_jobs(db) if job.retired_at is None and job.paused_at is not None]
    lines += [f"failing: {', '.join(failing[:10])}"] if failing else []
    lines += [f"paused: {', '.join(paused[:10])}"] if paused else []
    lines += (
        [f"waiting for approval: {', '.join(job.name for job in summary.provisional[:10])}"]
        if summary.provisional
        else []
    )
    if summary.next_due_at is not None:
        lines.append(f"next: {summary.next_due_at:%Y-%m-%d %H:%M} UTC")
    return "\n".join(lines)
