"""`telegram:` and `slack:` of a target: the chat, the tokens, and the people that may answer from it."""

import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from msgspec.structs import replace

from rota.declare.problems import JOB_NAME, BadValue, ProblemList, ask, choice, read_items, shown, wrong_type
from rota.declare.readers.values import read_env_value, read_keys, read_record
from rota.model.errors import Problem, did_you_mean
from rota.model.notifications import NO_COMMANDS, Channel, ChatCommands, Target
from rota.model.spec import Deliver, DeliverWhen
from rota.rules.addresses import read_address

BOT_TOKEN = "TELEGRAM_BOT_TOKEN"
"""The secret that holds the token of a Telegram bot, where none is named."""
MAX_USERS = 100
MAX_COMMANDS = 200
MAX_RECEIVERS = 10
TELEGRAM_HINT = "write `telegram: {chat: 123456789, users: [123456789]}`, or the number of a chat alone"
SLACK_HINT = "write `slack: {channel: C0123456789, bot_token: {secret: SLACK_BOT_TOKEN}}`"
COMMANDS_HINT = "write `commands: {run: [JOB], pause: [JOB], status: true}`"
_CHAT = re.compile(r"-?[0-9]{1,20}|@[A-Za-z0-9_]{4,64}", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,20}", re.ASCII)
_CHANNEL = re.compile(r"[CGD][A-Z0-9]{5,20}", re.ASCII)
_MEMBER = re.compile(r"[UW][A-Z0-9]{5,20}", re.ASCII)
_JOB = re.compile(rf"(?:{JOB_NAME.pattern}/){{0,2}}{JOB_NAME.pattern}", re.ASCII)


ChatFields = dict[str, Any]
"""The written values of a chat, by the fields of a Target."""


def read_telegram(value: Any) -> ChatFields:
    """Return a chat of a Telegram bot: its number alone, or a map."""
    if not isinstance(value, Mapping):
        return {"address": _read_chat(value)}
    return _read(value, _TELEGRAM, needed=("address",), hint=TELEGRAM_HINT)


def read_slack(value: Any) -> ChatFields:
    """Return a channel of a Slack app."""
    if not isinstance(value, Mapping):
        raise wrong_type(value, "a map of keys", hint=SLACK_HINT)
    return _read(value, _SLACK, needed=("address", "address_secret"), hint=SLACK_HINT)


def _read(value: Any, readers: Mapping[str, Any], *, needed: Collection[str], hint: str) -> ChatFields:
    with ProblemList() as problems:
        keys = read_keys(value, {key: read for key, (_, read) in readers.items()}, problems=problems, hint=hint)
        names = {key: field for key, (field, _) in readers.items()}
        found = {names[key]: read for key, read in keys.items()}
        for key, field in names.items():
            if field in needed and key not in value and not problems.mistyped:
                raise BadValue(f"has no `{key}`", code="missing_value", hint=hint)
        for key in ("commands", "questions", "app_token"):
            if key in value and "users" not in value:
                text = "has no effect without `users`"
                problems.add(Problem(text, "no_effect", at=(key,), hint="name the people that may answer in `users`"))
        if "users" in value and "app_token" in names and "app_token" not in value:
            text = "have no way to answer without `app_token`"
            problems.add(
                Problem(text, "missing_value", at=("users",), hint="add `app_token: {secret: SLACK_APP_TOKEN}`")
            )
        if "users" in value and str(found.get("address", "")).startswith("@"):
            text = "cannot answer in a channel that is named by `@`"
            problems.add(Problem(text, "conflict", at=("users",), hint="write the number of a chat into `chat`"))
    return found


def with_chat(target: Target, written: ChatFields, *, token: str) -> Target:
    """Return a target with its chat; `token` is the secret that is named beside a chat's number."""
    if url := written.get("api_url"):
        ask(partial(read_address, allow_private=target.allow_private), url, at=(target.channel.value, "api_url"))
    usual = token or (BOT_TOKEN if target.channel is Channel.TELEGRAM else "")
    return replace(target, **{"address_secret": usual, **written})


def write_chat(target: Target) -> dict[str, Any]:
    """Return the key of a chat as a file writes it: a Telegram chat without a way back as its number alone."""
    rest: dict[str, Any] = {"users": list(target.users)} if target.users else {}
    if target.commands != NO_COMMANDS:
        lists = {"run": list(target.commands.run), "pause": list(target.commands.pause)}
        rest["commands"] = {key: names for key, names in lists.items() if names}
        rest["commands"] |= {"status": True} if target.commands.status else {}
    if not target.questions:
        rest["questions"] = False
    if target.api_url:
        rest["api_url"] = target.api_url
    token = {"secret": target.address_secret}
    if target.channel is Channel.SLACK:
        app = {"app_token": {"secret": target.app_secret}} if target.app_secret else {}
        return {"slack": {"channel": target.address, "bot_token": token, **app, **rest}}
    named = {} if target.address_secret == BOT_TOKEN else {"token": token}
    if not rest:
        return {"telegram": target.address, **named}
    return {"telegram": {"chat": target.address, **named, **rest}}


def unknown_commands(targets: Mapping[str, Target], known: Collection[str], *, partly: bool) -> list[Problem]:
    """Return the jobs in `commands` that the file does not have; `partly`: those of some projects are not known."""
    problems = []
    for name, target in targets.items():
        for key, jobs in (("run", target.commands.run), ("pause", target.commands.pause)):
            for index, job in enumerate(jobs):
                if job in known or (partly and "/" in job):
                    continue
                at = ("notify", name, target.channel.value, "commands", key, index)
                hint = did_you_mean(job, known, "list the jobs with `rota list`")
                problems.append(Problem(f"no job is named {shown(job)}", "unknown_job", at=at, hint=hint))
    return problems


def _read_chat(value: Any) -> str:
    text = _number(value)
    if not isinstance(text, str) or not _CHAT.fullmatch(text.strip()):
        raise wrong_type(value, "a chat", hint='write its number, such as 123456789, or "@channel"')
    return text.strip()


def _number(value: Any) -> Any:
    return str(int(value)) if isinstance(value, int) and not isinstance(value, bool) else value


def read_token(value: Any) -> str:
    """Return the name of the secret that holds a token."""
    name = read_env_value(value).secret if isinstance(value, Mapping) else None
    if name is None:
        hint = "write {secret: NAME}: name secrets, do not write them into the file"
        raise BadValue("is a literal secret", hint=hint)
    return name


def _matching(pattern: re.Pattern[str], what: str, *, hint: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        text = _number(value)
        if not isinstance(text, str) or not pattern.fullmatch(text.strip()):
            raise wrong_type(value, what, hint=hint)
        return text.strip()

    return read


def _list_of(read: Callable[[Any], str], *, most: int, what: str) -> Callable[[Any], tuple[str, ...]]:
    def read_list(value: Any) -> tuple[str, ...]:
        if not isinstance(value, list) or not value:
            raise wrong_type(value, f"a list of {what}", hint="name at least one, or remove this line")
        if len(value) > most:
            raise BadValue(f"has {len(value)} entries", code="out_of_range", hint=f"at most {most}")
        return tuple(dict.fromkeys(read_items(value, read)))

    return read_list


def _read_commands(value: Any) -> ChatCommands:
    return ChatCommands(**read_record(value, {"run": _JOBS, "pause": _JOBS, "status": _read_flag}, hint=COMMANDS_HINT))


def _read_flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise wrong_type(value, "true or false", hint="write true or false")
    return value


def _read_url(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise wrong_type(value, "an address", hint="write https://host")
    return value.strip().rstrip("/")


_JOBS = _list_of(
    _matching(_JOB, "the name of a job", hint="write the name as in `rota list`"), most=MAX_COMMANDS, what="jobs"
)
_USERS_HINT = "write the number of the person, such as 123456789; the bot's log shows it"
_MEMBERS_HINT = "write the member ID of the profile, such as U0123456789"
_BOTH: Mapping[str, tuple[str, Any]] = {
    "commands": ("commands", _read_commands),
    "questions": ("questions", _read_flag),
    "api_url": ("api_url", _read_url),
}
_TELEGRAM: Mapping[str, tuple[str, Any]] = {
    "chat": ("address", _read_chat),
    "token": ("address_secret", read_token),
    "users": ("users", _list_of(_matching(_NUMBER, "a person", hint=_USERS_HINT), most=MAX_USERS, what="people")),
    **_BOTH,
}
_SLACK: Mapping[str, tuple[str, Any]] = {
    "channel": ("address", _matching(_CHANNEL, "a channel", hint="write its ID, such as C0123456789, not its name")),
    "bot_token": ("address_secret", read_token),
    "app_token": ("app_secret", read_token),
    "users": ("users", _list_of(_matching(_MEMBER, "a person", hint=_MEMBERS_HINT), most=MAX_USERS, what="people")),
    **_BOTH,
}
DELIVER_HINT = "write `deliver: {to: phone, when: said}`, or the name of a target alone"


def read_deliver(value: Any) -> Deliver:
    """Return the targets of an answer: the name of one alone, or a map with `to` and `when`."""
    if isinstance(value, str):
        return Deliver((_read_receiver(value),))
    readers = {"to": _read_receivers, "when": choice(DeliverWhen)}
    return Deliver(**read_record(value, readers, hint=DELIVER_HINT, needs={"to": "has no `to`"}))


def _read_receivers(value: Any) -> tuple[str, ...]:
    several = _list_of(_read_receiver, most=MAX_RECEIVERS, what="targets")
    return several(value) if isinstance(value, list) else (_read_receiver(value),)


def _read_receiver(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise wrong_type(value, "the name of a target", hint=DELIVER_HINT)
    return value.strip()


def write_deliver(deliver: Deliver) -> dict[str, Any]:
    """Return the value of `deliver` as a file writes it."""
    to: Any = deliver.to[0] if len(deliver.to) == 1 else list(deliver.to)
    return {"to": to} | ({"when": deliver.when.value} if deliver.when is not DeliverWhen.SAID else {})
