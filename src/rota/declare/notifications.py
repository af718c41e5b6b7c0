"""`notify:` in a file: targets by name at the top, and the targets of jobs, groups and defaults."""

import re
from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rota.declare.problems import (
    JOB_NAME,
    BadValue,
    ProblemList,
    between,
    choice,
    or_word,
    read_duration,
    read_items,
    read_text,
    shown,
    wrong_type,
)
from rota.declare.readers import one_of, read_command, read_env_value, read_keys
from rota.model.clock import write_duration
from rota.model.errors import AddressRefused, Problem, did_you_mean
from rota.model.notifications import REMIND, TIMEOUT, USUAL, Channel, Event, Target
from rota.rules.addresses import read_address

HINT = "write `notify: ops`, a list of names, `none`, or {on: [failed], webhook: https://host/path}"
TARGET_HINT = "write `ops: {on: [failed, recovered], webhook: https://host/path}`"
PRIVATE_HINT = "write `allow_private: [10.0.0.5:8080]`"
NONE = "none"
OWN = "own"
"""The name of a target that is written in a job."""
MAX_TARGETS = 10
BOT_TOKEN = "TELEGRAM_BOT_TOKEN"
"""The secret that holds the token of a Telegram bot, where none is named."""
_TELEGRAM = re.compile(r"-?[0-9]{1,20}|@[A-Za-z0-9_]{4,64}", re.ASCII)
_OF_A_CHANNEL = {"signing": Channel.WEBHOOK, "allow_private": Channel.WEBHOOK, "token": Channel.TELEGRAM}
EVENTS = tuple(event for event in Event if event is not Event.TEST)
_TIMEOUT = between(timedelta(seconds=1), timedelta(minutes=5), said="1s and 5m")
_read_event = choice(Event)


class WrittenNotify(Struct, frozen=True):
    """The targets of a job: names with their places in the list, and targets written in the job itself."""

    names: tuple[tuple[str, int | None], ...] = ()
    own: tuple[Target, ...] = ()


def read_target_name(value: Any) -> str:
    """Return the name of a target."""
    if not isinstance(value, str) or not JOB_NAME.fullmatch(value) or value.lower() == NONE or value.startswith(OWN):
        hint = f"letters, digits and . _ -, and neither `{NONE}` nor `{OWN}`"
        raise BadValue(f"{shown(value)} cannot be a target's name", hint=hint)
    return value


def read_target(value: Any) -> Target:
    """Return one target, without its name."""
    if not isinstance(value, Mapping):
        raise wrong_type(value, "a target", hint=TARGET_HINT)
    with ProblemList() as problems:
        keys = read_keys(value, READERS, problems=problems, hint=TARGET_HINT)
        channels = [channel for channel in Channel if channel in value]
        if not one_of(channels, value, problems=problems):
            message = f"has {' and '.join(channels)}" if channels else "has no channel"
            code = "conflict" if channels else "missing_value"
            raise BadValue(message, code=code, hint=f"keep one of {', '.join(Channel)}")
        for key, needed in _OF_A_CHANNEL.items() if channels else ():
            if key in value and needed not in value:
                message = f"has no effect without `{needed}`"
                problems.add(Problem(message, "no_effect", at=(key,), hint="remove this line"))
    return _target(channels[0], keys)


def _target(channel: Channel, keys: Mapping[str, Any]) -> Target:
    shared = {name: keys[name] for name in ("on", "remind", "timeout", "signing", "allow_private") if name in keys}
    found = Target(OWN, channel, **shared)
    if channel is Channel.COMMAND:
        return replace(found, command=keys[channel])
    if channel is Channel.TELEGRAM:
        return replace(found, address=keys[channel], address_secret=keys.get("token", BOT_TOKEN))
    address, secret = keys[channel]
    if address:
        _judge(address, found.allow_private)
    return replace(found, address=address, address_secret=secret)


def read_notify(value: Any) -> WrittenNotify:
    """Return the targets of a job: one or several, by name or written in place, or none."""
    if isinstance(value, str) and value.strip().lower() == NONE:
        return WrittenNotify()
    if isinstance(value, list):
        return _several(value)
    if isinstance(value, Mapping):
        return WrittenNotify(own=(read_target(value),))
    return WrittenNotify(names=((_read_name(value), None),))


def _several(value: list[Any]) -> WrittenNotify:
    if len(value) > MAX_TARGETS:
        raise BadValue(f"has {len(value)} entries", code="out_of_range", hint=f"at most {MAX_TARGETS}")
    names: dict[str, int | None] = {}
    own: list[Target] = []
    with ProblemList() as problems:
        for index, item in enumerate(value):
            with problems.below(index):
                if isinstance(item, Mapping):
                    own.append(replace(read_target(item), name=OWN if not own else f"{OWN}-{len(own) + 1}"))
                else:
                    names.setdefault(_read_name(item), index)
        found = problems.rest = WrittenNotify(tuple(names.items()), tuple(own))
    return found


def wrong_targets(written: WrittenNotify | None, known: Collection[str]) -> list[Problem]:
    """Return the targets that a job names and that the file does not declare."""
    found = []
    for name, index in written.names if written is not None else ():
        if name not in known:
            hint = did_you_mean(name, known, f"declare it at the top: `notify: {{{name}: …}}`")
            at = () if index is None else (index,)
            found.append(Problem(f"no target is named {shown(name)}", "target_missing", at=at, hint=hint))
    return found


def write_target(target: Target) -> dict[str, Any]:
    """Return the keys of a target as a file writes them."""
    if target.channel is Channel.TELEGRAM:
        return _of_any_channel(target) | _telegram(target)
    place = {"secret": target.address_secret} if target.address_secret else target.address
    keys = _of_any_channel(target)
    keys[target.channel.value] = list(target.command) if target.channel is Channel.COMMAND else place
    if target.signing:
        keys["signing"] = [{"secret": name} for name in target.signing]
    if target.allow_private:
        keys["allow_private"] = list(target.allow_private)
    return keys


def _of_any_channel(target: Target) -> dict[str, Any]:
    keys: dict[str, Any] = {"on": [event.value for event in target.on]} if target.on != USUAL else {}
    if target.remind != REMIND:
        keys["remind"] = "always" if target.remind is None else write_duration(target.remind)
    if target.timeout != TIMEOUT:
        keys["timeout"] = write_duration(target.timeout)
    return keys


def _telegram(target: Target) -> dict[str, Any]:
    token = {} if target.address_secret == BOT_TOKEN else {"token": {"secret": target.address_secret}}
    return {Channel.TELEGRAM.value: target.address, **token}


def write_notify(names: Collection[str], own: Collection[Target]) -> list[Any]:
    """Return the targets of a job as a file writes them."""
    return [*names, *map(write_target, own)]


def read_ping(value: Any) -> Target:
    """Return the address that the scheduler pings."""
    if isinstance(value, Mapping) and set(value) != {"secret"}:
        readers = {"url": _read_place, "allow_private": _read_private}
        with ProblemList() as problems:
            keys = read_keys(value, readers, problems=problems, hint="write `ping_url: https://…`")
            if "url" not in value and not problems.mistyped:
                raise BadValue("has no address", code="missing_value", hint="add `url:`")
        address, secret = keys["url"]
        allowed = keys.get("allow_private", ())
    else:
        (address, secret), allowed = _read_place(value), ()
    if address:
        _judge(address, allowed)
    return Target("ping", Channel.WEBHOOK, address=address, address_secret=secret, allow_private=allowed)


def read_finish_by(value: Any) -> str:
    """Return a time of the day, as 06:00."""
    text = value.strip() if isinstance(value, str) else ""
    hour, _, minute = text.partition(":")
    fits = hour.isascii() and minute.isascii() and hour.isdecimal() and minute.isdecimal() and len(minute) == 2
    if not fits or len(hour) > 2 or int(hour) > 23 or int(minute) > 59:
        raise wrong_type(value, "a time of the day", hint='write it in quotes: finish_by: "06:00"')
    return f"{int(hour):02}:{minute}"


def _judge(address: str, allow_private: Collection[str]) -> None:
    try:
        read_address(address, allow_private=allow_private)
    except AddressRefused as error:
        raise BadValue(error.message, code=error.code, hint=error.hint) from None


def _read_name(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise wrong_type(value, "a target", hint=HINT)
    return value.strip()


def _read_on(value: Any) -> tuple[Event, ...]:
    items = value if isinstance(value, list) else [value]
    if not items:
        raise BadValue("is an empty list", hint=f"name some of {', '.join(EVENTS)}, or write `notify: none` in the job")
    found = read_items(items, _read_event) if isinstance(value, list) else [_read_event(value)]
    if Event.TEST in found:
        raise BadValue("only `rota notify test` sends a test", code="choice", hint="remove it")
    return tuple(dict.fromkeys(found))


def _read_place(value: Any) -> tuple[str, str]:
    """Return an address, or the name of the secret that holds it."""
    if isinstance(value, Mapping):
        return "", read_env_value(value).secret or ""
    return read_text(value), ""


def _read_chat(value: Any) -> tuple[str, str]:
    if not isinstance(value, Mapping):
        hint = "such addresses contain passwords: write {secret: NAME} and store the address in that secret"
        raise BadValue("is a literal secret", hint=hint)
    return _read_place(value)


def _read_telegram(value: Any) -> str:
    text = str(int(value)) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str) or not _TELEGRAM.fullmatch(text.strip()):
        raise wrong_type(value, "a chat", hint='write its number, such as 123456789, or "@channel"')
    return text.strip()


def _read_token(value: Any) -> str:
    name = read_env_value(value).secret if isinstance(value, Mapping) else None
    if name is None:
        raise BadValue(
            "is a literal secret", hint="write {secret: NAME}: name secrets, do not write them into the file"
        )
    return name


def _read_signing(value: Any) -> tuple[str, ...]:
    items = value if isinstance(value, list) else [value]
    found = [read_env_value(item).secret for item in items if isinstance(item, Mapping)]
    names = [name for name in found if name]
    if len(names) != len(items) or not 1 <= len(names) <= 2:
        raise wrong_type(value, "a secret, or two while it is changed", hint="write `signing: {secret: NAME}`")
    return tuple(names)


def _read_private(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise wrong_type(value, "a list of host:port", hint=PRIVATE_HINT)
    return tuple(read_items(value, _read_host))


def _read_host(value: Any) -> str:
    host, _, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536 or "*" in host or "/" in host:
        raise wrong_type(value, "a host and a port", hint=PRIVATE_HINT)
    return str(value).lower()


READERS = {
    "on": _read_on,
    Channel.WEBHOOK.value: _read_place,
    Channel.APPRISE.value: _read_chat,
    Channel.TELEGRAM.value: _read_telegram,
    Channel.COMMAND.value: read_command,
    "token": _read_token,
    "signing": _read_signing,
    "allow_private": _read_private,
    "remind": or_word("always", read_duration),
    "timeout": _TIMEOUT,
}
