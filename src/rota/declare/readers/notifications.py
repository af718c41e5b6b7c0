"""`notify:` in a file: targets by name at the top, and the targets of jobs, groups and defaults."""

from collections.abc import Collection, Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rota.declare.problems import (
    JOB_NAME,
    BadValue,
    ProblemList,
    ask,
    between,
    choice,
    or_word,
    read_duration,
    read_items,
    read_text,
    shown,
    wrong_type,
)
from rota.declare.readers.chats import read_slack, read_telegram, read_token, with_chat, write_chat
from rota.declare.readers.values import one_of, read_command, read_env_value, read_keys
from rota.model.clock import write_duration
from rota.model.errors import KeyPath, Problem, did_you_mean
from rota.model.notifications import CHATS, OF_ITEMS, REMIND, TIMEOUT, Channel, Event, Target, usual_events
from rota.model.spec import Deliver
from rota.rules.addresses import read_address

HINT = "write `notify: ops`, a list of names, `none`, or {on: [failed], webhook: https://host/path}"
TARGET_HINT = "write `ops: {on: [failed, recovered], webhook: https://host/path}`"
PRIVATE_HINT = "write `allow_private: [10.0.0.5:8080]`"
NONE = "none"
OWN = "own"
"""The name of a target that is written in a job."""
MAX_TARGETS = 10
MAX_DIGESTS = 24
_OF_A_CHANNEL = {
    "signing": (Channel.WEBHOOK,),
    "allow_private": (Channel.WEBHOOK, *CHATS),
    "token": (Channel.TELEGRAM,),
}
EVENTS = tuple(event for event in Event if event not in (Event.TEST, Event.DIGEST, Event.RESULT, Event.PING))
_SENT_OTHERWISE = {
    Event.TEST: "only `rota notify test` sends a test",
    Event.RESULT: "only `deliver:` of a job sends an answer",
    Event.PING: "the key `ping` of a job sends pings",
}
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
            if key in value and channels[0] not in needed:
                message = f"has no effect without `{needed[0]}`"
                problems.add(Problem(message, "no_effect", at=(key,), hint="remove this line"))
        if "token" in value and isinstance(value.get(Channel.TELEGRAM), Mapping):
            problems.add(Problem("stands beside a map", "conflict", at=("token",), hint="write it into `telegram:`"))
    return _target(channels[0], keys)


def _target(channel: Channel, keys: Mapping[str, Any]) -> Target:
    shared = {
        name: keys[name] for name in ("on", "remind", "timeout", "signing", "allow_private", "digest") if name in keys
    }
    target = Target(OWN, channel, **{"on": usual_events(channel), **shared})
    if channel is Channel.COMMAND:
        return replace(target, command=keys[channel])
    if channel in CHATS:
        return with_chat(target, keys[channel], token=keys.get("token", ""))
    address, secret = keys[channel]
    if address:
        ask(partial(read_address, allow_private=target.allow_private), address)
    return replace(target, address=address, address_secret=secret)


def read_notify(value: Any) -> WrittenNotify:
    """Return the targets of a job: one or several, by name or written in place, or none."""
    if isinstance(value, str) and value.strip().lower() == NONE:
        return WrittenNotify()
    if isinstance(value, list):
        return _several(value)
    if isinstance(value, Mapping):
        return WrittenNotify(own=(_read_own(value),))
    return WrittenNotify(names=((_read_name(value), None),))


def _read_own(value: Any) -> Target:
    """Return a target that is written in a job: it hears of the job's runs alone, and has no way back."""
    target = read_target(value)
    if target.users:
        at = (target.channel.value, "users")
        hint = "declare it at the top: `notify: {phone: {…}}`, and name it here"
        raise BadValue("can answer only to a target with a name", code="conflict", hint=hint, at=at)
    wrong = next((event for event in OF_ITEMS if event in target.on and "on" in value), None)
    if target.digest:
        hint = 'declare the target at the top: `notify: {me: {digest: "07:30", …}}`'
        raise BadValue("a digest is about all jobs", code="no_effect", hint=hint, at=("digest",))
    if wrong is not None:
        hint = f"declare the target at the top: `notify: {{ops: {{on: [{wrong}], …}}}}`"
        raise BadValue(f"`{wrong}` is no event of a job", code="no_effect", hint=hint, at=("on",))
    return replace(target, on=tuple(event for event in target.on if event not in OF_ITEMS))


def _several(value: list[Any]) -> WrittenNotify:
    if len(value) > MAX_TARGETS:
        raise BadValue(f"has {len(value)} entries", code="out_of_range", hint=f"at most {MAX_TARGETS}")
    names: dict[str, int | None] = {}
    own: list[Target] = []
    with ProblemList() as problems:
        for index, item in enumerate(value):
            with problems.below(index):
                if isinstance(item, Mapping):
                    own.append(replace(_read_own(item), name=OWN if not own else f"{OWN}-{len(own) + 1}"))
                else:
                    names.setdefault(_read_name(item), index)
        notify = problems.rest = WrittenNotify(tuple(names.items()), tuple(own))
    return notify


def wrong_targets(written: WrittenNotify | None, known: Collection[str]) -> list[Problem]:
    """Return the targets that a job names and that the file does not declare."""
    names = written.names if written is not None else ()
    return [_no_target(name, known, at=() if index is None else (index,)) for name, index in names if name not in known]


def wrong_receivers(written: Deliver | None, known: Collection[str]) -> list[Problem]:
    """Return the targets of `deliver` that the file does not declare."""
    return [_no_target(name, known) for name in (written.to if written is not None else ()) if name not in known]


def _no_target(name: str, known: Collection[str], *, at: KeyPath = ()) -> Problem:
    hint = did_you_mean(name, known, f"declare it at the top: `notify: {{{name}: …}}`")
    return Problem(f"no target is named {shown(name)}", "target_missing", at=at, hint=hint)


def write_target(target: Target) -> dict[str, Any]:
    """Return the keys of a target as a file writes them."""
    keys: dict[str, Any] = {}
    if target.on != usual_events(target.channel):
        keys["on"] = [event.value for event in target.on]
    if target.remind != REMIND:
        keys["remind"] = "always" if target.remind is None else write_duration(target.remind)
    if target.digest:
        keys["digest"] = list(target.digest) if len(target.digest) > 1 else target.digest[0]
    if target.timeout != TIMEOUT:
        keys["timeout"] = write_duration(target.timeout)
    if target.channel in CHATS:
        keys |= write_chat(target)
    else:
        place = {"secret": target.address_secret} if target.address_secret else target.address
        keys[target.channel.value] = list(target.command) if target.channel is Channel.COMMAND else place
    if target.signing:
        keys["signing"] = [{"secret": name} for name in target.signing]
    if target.allow_private:
        keys["allow_private"] = list(target.allow_private)
    return keys


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
        ask(partial(read_address, allow_private=allowed), address)
    return Target("ping", Channel.WEBHOOK, address=address, address_secret=secret, allow_private=allowed)


def write_ping(ping: Target) -> Any:
    """Return the address of a ping as a file writes it."""
    place = {"secret": ping.address_secret} if ping.address_secret else ping.address
    return {"url": place, "allow_private": list(ping.allow_private)} if ping.allow_private else place


def read_finish_by(value: Any) -> str:
    """Return a time of the day, as 06:00."""
    return _read_time_of(value, key="finish_by", example="06:00")


def _read_time(value: Any) -> str:
    return _read_time_of(value, key="digest", example="07:30")


def _read_time_of(value: Any, *, key: str, example: str) -> str:
    text = value.strip() if isinstance(value, str) else ""
    hour, _, minute = text.partition(":")
    fits = hour.isascii() and minute.isascii() and hour.isdecimal() and minute.isdecimal() and len(minute) == 2
    if not fits or len(hour) > 2 or int(hour) > 23 or int(minute) > 59:
        raise wrong_type(value, "a time of the day", hint=f'write it in quotes: {key}: "{example}"')
    return f"{int(hour):02}:{minute}"


def _read_name(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise wrong_type(value, "a target", hint=HINT)
    return value.strip()


def _read_on(value: Any) -> tuple[Event, ...]:
    items = value if isinstance(value, list) else [value]
    if not items:
        raise BadValue("is an empty list", hint=f"name some of {', '.join(EVENTS)}, or write `notify: none` in the job")
    events = read_items(items, _read_event) if isinstance(value, list) else [_read_event(value)]
    if Event.DIGEST in events:
        raise BadValue("a digest has times of day", code="choice", hint='write `digest: "07:30"` beside `on`')
    for event, message in _SENT_OTHERWISE.items():
        if event in events:
            raise BadValue(message, code="choice", hint="remove it")
    return tuple(dict.fromkeys(events))


def _read_digest(value: Any) -> tuple[str, ...]:
    items = value if isinstance(value, list) else [value]
    if not 1 <= len(items) <= MAX_DIGESTS:
        raise BadValue(f"has {len(items)} entries", code="out_of_range", hint=f"1 to {MAX_DIGESTS}")
    found = read_items(items, _read_time) if isinstance(value, list) else [_read_time(value)]
    return tuple(sorted(set(found)))


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
    Channel.TELEGRAM.value: read_telegram,
    Channel.SLACK.value: read_slack,
    Channel.COMMAND.value: read_command,
    "token": read_token,
    "signing": _read_signing,
    "allow_private": _read_private,
    "digest": _read_digest,
    "remind": or_word("always", read_duration),
    "timeout": _TIMEOUT,
}
