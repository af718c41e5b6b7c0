"""Readers of single values: words, durations, cron, addresses, maps and members."""

import json
import re
import shlex
from collections.abc import Collection, Mapping
from datetime import timedelta
from functools import lru_cache
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from msgspec.structs import replace

from rota.declare.applicability import loads_code, secret_in
from rota.declare.problems import (
    ENV_NAME,
    JOB_NAME,
    REBOOT,
    BadValue,
    ProblemList,
    Reader,
    ask,
    list_of,
    matching,
    or_word,
    read_duration,
    read_flag,
    read_items,
    read_placed,
    read_size,
    read_text,
    shown,
    unknown_key,
    wrong_type,
)
from rota.declare.yaml import WrittenFloat, WrittenInt
from rota.model.records import PARAMS_LIMIT
from rota.model.spec import ByMode, Condition, EnvValue, Limits, Member, Mode, Pace, Postcondition, Sandbox
from rota.model.store_url import SQLITE, has_password, is_postgres
from rota.model.store_url import shown as without_password
from rota.rules.power import BATTERY, read_percent
from rota.rules.prompts import WRITTEN
from rota.rules.schedule.cron import check_cron

NONE: Mapping[str, str] = {}


def read_keys(
    value: Any,
    readers: Mapping[str, Reader],
    *,
    problems: ProblemList,
    hint: str,
    words: dict[str, str] | None = None,
    known: str = "",
) -> dict[str, Any]:
    """Return the keys that were written and are right, each as its reader makes it; `problems` gets the others.

    `known` is the hint to an unknown key, in the place of the nearest name.
    """
    if not isinstance(value, Mapping):
        raise wrong_type(value, "a map of keys", hint=hint)
    found: dict[str, Any] = {}
    for key in value:
        with problems.below(key):
            if key not in readers:
                guess = known or unknown_key(str(key), list(readers), words)
                raise BadValue("unknown key", code="unknown_key", hint=guess)
            found[key] = readers[key](value[key])
    return found


def read_record(
    value: Any, readers: Mapping[str, Reader], *, hint: str, needs: Mapping[str, str] = NONE, known: str = ""
) -> dict[str, Any]:
    """Return the keys of a map that is right as a whole; `needs` has the message for the lack of each needed key."""
    with ProblemList() as problems:
        found = read_keys(value, readers, problems=problems, hint=hint, known=known)
        for key, message in needs.items():
            if key not in value and not problems.mistyped:
                raise BadValue(message, code="missing_value", hint=hint)
    return found


def one_of(keys: Collection[str], value: Mapping[str, Any], *, problems: ProblemList) -> bool:
    """Return whether exactly one of `keys` is written; a mistyped one may be it."""
    count = sum(key in value for key in keys)
    return count == 1 or (not count and problems.mistyped)


LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/=-]{0,99}", re.ASCII)
_label = matching(LABEL, "a label", hint="at most 100 letters, digits and . _ / = -")


def read_env_name(value: Any) -> str:
    """Return the name of an environment variable that a job may set."""
    if not isinstance(value, str) or not ENV_NAME.fullmatch(value):
        raise wrong_type(value, "the name of an environment variable", hint="letters, digits and _, no digit first")
    if value.startswith("ROTA_"):
        raise BadValue(f"{shown(value)} starts with ROTA_, which rota sets itself", hint="choose another name")
    return value


def read_env_value(value: Any) -> EnvValue:
    """Return one variable without its name. What is wrong with a value is told without showing it."""
    if isinstance(value, Mapping):
        if set(value) != {"secret"} or not isinstance(value["secret"], str) or not ENV_NAME.fullmatch(value["secret"]):
            raise BadValue("is a map without `secret`", code="wrong_type", hint="write {secret: NAME}")
        return EnvValue("", secret=value["secret"])
    if value is None or isinstance(value, list):
        hint = 'write a text, a number, true or false, or {secret: NAME}; "" for an empty one'
        raise BadValue("has no value" if value is None else "is a list", code="wrong_type", hint=hint)
    text = write_scalar(value)
    if kind := secret_in(text):
        hint = "store it with `rota secrets set NAME`, and write {secret: NAME}"
        raise BadValue(f"looks like {kind}, written out", code="secret_literal", hint=hint)
    return EnvValue("", value=text)


def write_scalar(value: Any) -> str:
    """Return a scalar as it was written; true and false in lower case."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, WrittenInt | WrittenFloat):
        return value.written
    return str(value)


def read_params(value: Any) -> dict[str, Any]:
    """Return the params of a job: a JSON object whose keys can become names of environment variables."""
    if not isinstance(value, Mapping):
        raise wrong_type(value, "a map of params", hint="write `params: {name: value}`")
    folded: dict[str, str] = {}
    with ProblemList() as problems:
        for name in value:
            with problems.below(name):
                _check_param(name, folded)
        _check_json(value)
    plain: dict[str, Any] = _plain(value)
    return plain


def _check_param(name: str, folded: dict[str, str]) -> None:
    if not ENV_NAME.fullmatch(name) or name.startswith("__"):
        hint = "letters, digits and _, no digit first" if not name.startswith("__") else "begin it with a letter"
        raise BadValue(f"{shown(name)} is not a valid param name", hint=hint)
    if loads_code(name):
        message = f"{shown(name)} is a variable that makes programs load other code"
        raise BadValue(message, code="env_name_denied", hint="choose another name for the param")
    other = folded.setdefault(name.upper(), name)
    if other != name:
        raise BadValue(f"{shown(name)} and {shown(other)} would both be ROTA_PARAM_{name.upper()}")


def _check_json(value: Mapping[str, Any]) -> None:
    try:
        size = len(json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode())
    except ValueError:
        hint = "write it as a text"
        raise BadValue("contains a number that JSON does not support (.inf or .nan)", hint=hint) from None
    if size > PARAMS_LIMIT:
        raise BadValue(f"is {size:,} bytes as JSON", code="out_of_range", hint=f"at most {PARAMS_LIMIT:,} are allowed")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, WrittenInt):
        return int(value)
    return float(value) if isinstance(value, WrittenFloat) else value


def read_labels(value: Any) -> tuple[str, ...]:
    """Return labels from a list of texts, or from a map as `key=value`."""
    if isinstance(value, Mapping):
        value = [f"{key}={write_scalar(item)}" for key, item in value.items()]
    if not isinstance(value, list):
        raise wrong_type(value, "a list of labels", hint="write `labels: [backup, team=ops]`")
    return tuple(dict.fromkeys(read_items(value, _label)))


NAME_LIMIT = 200
ITEM_LIMIT = 128 * 1024 - 1
_ANYWHERE = frozenset("|&;<>()$`*?[\n\r")
_IN_DOUBLE_QUOTES = frozenset("$`")
_AT_START = frozenset("~#")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=", re.ASCII)
_SHELL_HINT = "a plain command has no shell: use `shell:` for that, or write a list of words"


def read_command(value: Any) -> tuple[str, ...]:
    """Return the words of a command."""
    if isinstance(value, str):
        return _split(value)
    if not isinstance(value, list):
        raise wrong_type(value, "a command", hint="write a list of words, [restic, backup, /srv], or one plain text")
    if not value:
        raise BadValue("is an empty list", hint="name at least the program")
    words = tuple(read_items(value, _word))
    if not words[0].strip():
        raise BadValue("the program's name is empty", hint="name the program first", at=(0,))
    return words


def read_step(value: Any, readers: Mapping[str, Reader], *, key: str, hint: str, mistyped: str = "") -> dict[str, Any]:
    """Return the keys of a step: `command` or `shell`, and `readers`; `mistyped` is the hint for a text or a list."""
    if not isinstance(value, Mapping):
        raise wrong_type(value, "a step", hint=mistyped if mistyped and isinstance(value, str | list) else hint)
    readers = {"command": read_command, "shell": read_text, **readers}
    with ProblemList() as problems:
        known = f"`{key}` has the keys {', '.join(readers)}"
        found = read_keys(value, readers, problems=problems, hint=hint, known=known)
        if not one_of(("command", "shell"), value, problems=problems):
            raise BadValue("needs either `command` or `shell`", code="conflict", hint=hint)
    return found


def read_postcondition(value: Any) -> Postcondition:
    """Return the check after a job's work: {command: […]} or {shell: …}, with an optional timeout."""
    hint = "write {command: [make, test], timeout: 5m}, or {shell: …}"
    return Postcondition(**read_step(value, {"timeout": read_duration}, key="postcondition", hint=hint))


SANDBOX_HINT = "write `bubblewrap`, {bubblewrap: true, network: off}, or {container: IMAGE, runtime: podman}"
SANDBOX_NETWORKS = "on, off, or a list of hosts such as [api.example.com, '*.example.org:443']"
HOST = re.compile(r"(\*\.)?[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*(:[0-9]{1,5})?")
LIMITS_HINT = "write {memory: 2GB, cpus: 1.5, processes: 200}, each optional"
MAX_CPUS, MAX_PROCESSES = 4096, 4_194_304


def read_limits(value: Any) -> Limits:
    """Return the limits of a run: {memory: 2GB, cpus: 1.5, processes: 200}."""
    readers = {"memory": read_size, "cpus": _cpus, "processes": _processes}
    if value == {}:
        raise BadValue("names no limit", code="missing_value", hint=LIMITS_HINT)
    return Limits(**read_record(value, readers, hint=LIMITS_HINT))


def _cpus(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.01 <= value <= MAX_CPUS:
        raise wrong_type(value, "a number of processors", hint=f"a number from 0.01 to {MAX_CPUS:,}")
    return float(value)


def _processes(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_PROCESSES:
        raise wrong_type(value, "a number of processes", hint=f"a whole number from 1 to {MAX_PROCESSES:,}")
    return value


def read_sandbox(value: Any) -> Sandbox | None:
    """Return a sandbox: `bubblewrap`, a map of its keys, or `none` against that of `defaults`."""
    if value in ("bubblewrap", "none"):
        return Sandbox() if value == "bubblewrap" else None
    readers = {
        "bubblewrap": read_flag,
        "container": read_text,
        "runtime": _runtime,
        "network": _network,
        "write": list_of("write", read_text),
        "user": read_text,
        "memory": read_size,
        "cpus": _cpus,
        "processes": _processes,
    }
    with ProblemList() as problems:
        found = read_keys(value, readers, problems=problems, hint=SANDBOX_HINT)
        if not one_of(("bubblewrap", "container"), value, problems=problems) or found.get("bubblewrap") is False:
            raise BadValue("needs either `bubblewrap: true` or `container`", code="conflict", hint=SANDBOX_HINT)
        _check_sandbox(found)
    network = found.get("network", True)
    hosts = network if isinstance(network, tuple) else ()
    given = {key: found[key] for key in ("runtime", "user", "write") if key in found}
    limits = {key: found[key] for key in ("memory", "cpus", "processes") if key in found}
    return Sandbox(
        image=found.get("container", ""),
        network=bool(network),
        hosts=hosts,
        limits=Limits(**limits) if limits else None,
        **given,
    )


def _check_sandbox(found: Mapping[str, Any]) -> None:
    """Refuse keys that the kind of sandbox cannot keep."""
    if "bubblewrap" in found:
        for key in ("runtime", "user", "memory", "cpus", "processes"):
            if key in found:
                hint = "remove this line" if key in ("runtime", "user") else "write it below `limits:` of the job"
                raise BadValue("has no effect without `container`", code="no_effect", hint=hint, at=(key,))
    elif isinstance(found.get("network"), tuple):
        message = "a list of hosts needs `bubblewrap`"
        raise BadValue(message, code="conflict", hint="write `network: on` or `off`", at=("network",))
    elif found.get("container", "").startswith("-"):
        raise BadValue("the name of an image does not begin with `-`", code="invalid_value", at=("container",))


def _runtime(value: Any) -> str:
    if value not in ("docker", "podman"):
        raise wrong_type(value, "a container runtime", hint="docker or podman")
    return str(value)


def _network(value: Any) -> bool | tuple[str, ...]:
    if isinstance(value, list) and value:
        return tuple(_host(item) for item in value)
    words = {"on": True, "off": False, True: True, False: False}
    if not isinstance(value, str | bool) or value not in words:
        raise wrong_type(value, "a network", hint=SANDBOX_NETWORKS)
    return words[value]


def _host(value: Any) -> str:
    if not isinstance(value, str) or not HOST.fullmatch(value):
        raise wrong_type(value, "a host", hint=SANDBOX_NETWORKS)
    return value


def _word(item: Any) -> str:
    if item is None or isinstance(item, dict | list):
        hint = "write it out, or remove the item" if item is None else "put it in quotes"
        raise wrong_type(item, "a word", hint=hint)
    word = write_scalar(item)
    if len(word.encode()) > ITEM_LIMIT:
        raise BadValue("is longer than 128 KB", code="out_of_range", hint="pass it in a file")
    return word


def _split(text: str) -> tuple[str, ...]:
    kept: list[str] = []

    def keep(found: re.Match[str]) -> str:
        kept.append(found[0])
        return f"\ue000{len(kept) - 1}\ue001"

    plain = WRITTEN.sub(keep, text.strip())
    if special := _shell_character(plain):
        raise BadValue(
            f"{shown(text)} contains {shown(special)}, which needs a shell", code="needs_shell", hint=_SHELL_HINT
        )
    try:
        words = shlex.split(plain)
    except ValueError:
        raise BadValue(f"{shown(text)} has a quote that is not closed", hint="close it, or write a list") from None
    if not words or not words[0]:
        raise BadValue("is empty", hint="name at least the program")
    if _ASSIGNMENT.match(words[0]):
        hint = "put it into `env:`, or use `shell:`"
        raise BadValue(f"{shown(words[0])} sets a variable", code="needs_shell", hint=hint)
    back = re.compile("\ue000([0-9]+)\ue001")
    return tuple(_word(back.sub(lambda match: kept[int(match[1])], word)) for word in words)


def _shell_character(text: str) -> str | None:
    quote, start, escaped = "", True, False
    for character in text:
        if escaped:
            escaped = False
        elif character == "\\" and quote != "'":
            escaped = True
        elif quote:
            if quote == '"' and character in _IN_DOUBLE_QUOTES:
                return character
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in _ANYWHERE or (start and character in _AT_START):
            return character
        start = character in " \t"
    return None


def read_condition(value: Any) -> Condition:
    """Return a gate: a name, {name: …} or {command: […]}, each with an optional timeout."""
    if isinstance(value, str):
        return _named(Condition(name=_name(value)))
    if not isinstance(value, dict) or not value:
        raise wrong_type(value, "a condition", hint="write a registered name, or {command: [./check.sh]}")
    readers = {"name": _name, "command": read_command, "timeout": read_duration}
    with ProblemList() as problems:
        found = read_keys(
            value, readers, problems=problems, hint="", known=f"a condition has the keys {', '.join(readers)}"
        )
        if not one_of(("name", "command"), value, problems=problems):
            raise BadValue("needs either `name` or `command`", code="conflict", hint="write one of them")
    return _named(Condition(**found))


def _named(condition: Condition) -> Condition:
    """Return a condition with the percentage of `battery_above` apart from its name."""
    name, opened, rest = condition.name.partition("(")
    if name.strip() != BATTERY:
        return condition
    percent = read_percent(rest.strip().removesuffix(")")) if opened and rest.strip().endswith(")") else None
    if percent is None:
        hint = f"write {BATTERY}(30%): above 30 percent, or without a battery"
        raise BadValue(f"{shown(condition.name)} has no percentage from 0 to below 100", hint=hint)
    return replace(condition, name=BATTERY, percent=percent)


PACE_HINT = "write pace: {min: 5m, max: 1d}"


def read_pace(value: Any) -> Pace:
    """Return the bounds of the waits that runs choose: {min, max}."""
    readers = {"min": read_duration, "max": read_duration}
    needs = {"min": "has no min", "max": "has no max"}
    found = read_record(value, readers, hint=PACE_HINT, needs=needs, known="a pace has a min and a max")
    if found["min"] > found["max"]:
        raise BadValue("min is longer than max", code="conflict", hint=PACE_HINT)
    return Pace(**found)


def _name(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > NAME_LIMIT:
        raise wrong_type(value, "the name of a condition", hint="write a registered name, or {command: [./check.sh]}")
    return value


def read_cron(value: Any) -> tuple[str, ...]:
    """Return one or more cron expressions, each as `check_cron` spells it, or `@reboot` alone."""
    if isinstance(value, str):
        return (REBOOT,) if value.strip().lower() == REBOOT else (_cron(value),)
    if not isinstance(value, list):
        raise wrong_type(value, "a cron expression", hint='write five fields in quotes: cron: "30 2 * * *"')
    if not value:
        raise BadValue("is an empty list", hint="name at least one expression")
    if any(isinstance(item, str) and item.strip().lower() == REBOOT for item in value):
        hint = 'write `cron: "@reboot"`, and other times in a job of their own'
        raise BadValue(f"{REBOOT} stands alone, not in a list", code="conflict", hint=hint)
    return tuple(dict.fromkeys(read_items(value, _cron)))


def _cron(value: Any) -> str:
    if not isinstance(value, str):
        raise wrong_type(value, "a cron expression")
    return ask(_checked_cron, value)


@lru_cache(4096)
def _checked_cron(text: str) -> str:
    return check_cron(text)


NO_ACTIVE = "has no `active`"
MODES = tuple(mode.value for mode in Mode)
SPELLINGS = {f"interval_{mode}": mode for mode in MODES}
"""Accepted spellings of the keys of an interval by mode."""
_MAP = "`interval: {active: 15s, idle: 60s, dormant: never}`"


def read_interval(value: Any) -> timedelta | ByMode:
    """Return the duration of an interval, or those of its modes."""
    if not isinstance(value, Mapping):
        return read_duration(value)
    readers = dict.fromkeys(MODES, or_word("never", read_duration))
    return by_mode(read_record(value, readers, hint=f"write {_MAP}", needs={Mode.ACTIVE: NO_ACTIVE}))


def by_mode(given: Mapping[str, timedelta | None]) -> ByMode:
    """Return the interval of every mode: one that is not given is that of the livelier mode before it."""
    if Mode.ACTIVE not in given:
        raise BadValue(NO_ACTIVE, code="missing_value", hint=f"write {_MAP}")
    active = given[Mode.ACTIVE]
    idle = given.get(Mode.IDLE, active)
    mode = ByMode(active, idle, given.get(Mode.DORMANT, idle))
    if mode == ByMode(None, None, None):
        raise BadValue("is never in all modes", hint="remove the interval to start the job only by hand")
    return mode


def one_interval(keys: dict[str, Any]) -> None:
    """Put `interval_active` and its like into `interval`, in `keys`; the other modes keep a plain interval."""
    found = {mode: keys.pop(spelling) for spelling, mode in SPELLINGS.items() if spelling in keys}
    if not found:
        return
    plain = keys.get("interval")
    if len(found) == len(MODES) and plain is not None and not isinstance(plain, ByMode):
        used = ", ".join(f"`{spelling}`" for spelling in SPELLINGS)
        hint = "remove `interval`, or the intervals of these modes"
        raise BadValue(f"has no effect beside {used}", code="no_effect", hint=hint, at=("interval",))
    if isinstance(plain, ByMode):
        hint = f"keep one: {_MAP}"
        raise BadValue("`interval` has its own `active`, `idle` and `dormant`", code="conflict", hint=hint)
    base = dict.fromkeys(MODES, plain) if plain is not None else {}
    keys["interval"] = by_mode({**base, **found})


HINT = "write a job's name, or {job: name, params: {full: false}, always: true}"


def read_members(value: Any) -> dict[int, Member]:
    """Return the members of a group by their places in the list."""
    if not isinstance(value, list):
        raise wrong_type(value, "a list", hint=f"write `members: [{value[:80]}]`" if isinstance(value, str) else "")
    return read_placed(value, read_member)


def read_member(value: Any) -> Member:
    """Return a member: a name, or {job: …} with params and `always`."""
    if isinstance(value, str):
        return Member(_member_name(value))
    if not isinstance(value, dict) or not value:
        raise wrong_type(value, "a member", hint=HINT)
    with ProblemList() as problems:
        found = read_keys(
            value, _READERS, problems=problems, hint=HINT, known="a member has the keys job, params, always"
        )
        if "job" not in value and not problems.mistyped:
            raise BadValue("names no job", code="member", hint=HINT)
    return Member(**found)


def _member_name(value: Any) -> str:
    if not isinstance(value, str):
        raise wrong_type(value, "the name of a job", hint=HINT)
    if not JOB_NAME.fullmatch(value):
        raise BadValue(f"{shown(value)} cannot be a job's name", code="member", hint=HINT)
    return value


_READERS = {"job": _member_name, "params": read_params, "always": read_flag}


STORE_HINT = "write `store: sqlite`, or `store: postgresql://user@host:5432/database`"
PASSWORD_HINT = "write ${secret:NAME} in its place and store it with `rota secrets set NAME`, or use ~/.pgpass"
URL_HINT = "write `url: https://host/path`"
HEADERS_HINT = "write `headers: {Authorization: {secret: NAME}}`"
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)


def read_url(value: Any) -> str:
    """Return the address of a poll."""
    if not isinstance(value, str) or not value:
        raise wrong_type(value, "an address", hint=URL_HINT)
    if "@" in value.partition("://")[2].partition("/")[0]:
        raise BadValue("holds a user or a password", hint="put it into `headers: {Authorization: {secret: NAME}}`")
    if not _is_address(value):
        raise BadValue(f"{shown(value)} is not an http or https address", hint=URL_HINT)
    return value


def read_store(value: Any) -> str:
    """Return where the state is kept: `sqlite`, or the address of a PostgreSQL database, without a password in it."""
    if not isinstance(value, str) or not value:
        raise wrong_type(value, "sqlite or the address of a database", hint=STORE_HINT)
    if value != SQLITE and not is_postgres(value):
        raise BadValue(f"{shown(without_password(value))} is not a store that rota supports", hint=STORE_HINT)
    if has_password(value):
        raise BadValue("holds a password", hint=PASSWORD_HINT)
    return value


def _is_address(value: str) -> bool:
    try:
        parts = urlsplit(value)
        complete = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a host or port that cannot be
        return False
    return complete and value.isprintable() and " " not in value


OWN_HEADERS = frozenset(
    {
        *("host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade"),
        *("expect", "proxy-authorization", "proxy-connection"),
    }
)
"""Headers that say where a request goes and where it ends: another value would send it elsewhere, or end it early."""


def read_headers(value: Any) -> dict[str, EnvValue]:
    """Return the headers of a poll: texts, or {secret: NAME}."""
    if not isinstance(value, Mapping):
        raise wrong_type(value, "a map of headers", hint=HEADERS_HINT)
    names: set[str] = set()
    found: dict[str, EnvValue] = {}
    with ProblemList() as problems:
        for name in value:
            with problems.below(name):
                _check_header(name, names)
            with problems.below(name):
                found[name] = replace(_header(value[name]), name=name)
    return found


def _check_header(name: str, names: set[str]) -> None:
    """Refuse what cannot be a header's name, or is one of `names`, and add it to them."""
    if not _TOKEN.fullmatch(name):
        raise BadValue(f"{shown(name)} cannot be a header's name", hint=HEADERS_HINT)
    if name.lower() in OWN_HEADERS:
        hint = "remove it; rota sets it from the address and the body"
        raise BadValue(f"the header {shown(name)} is set by rota", code="header_denied", hint=hint)
    if name.lower() in names:
        raise BadValue(f"the header {shown(name)} appears twice", hint="names differ in more than case")
    names.add(name.lower())


def _header(value: Any) -> EnvValue:
    read = read_env_value(value)
    if read.value is not None and not (read.value.isascii() and read.value.isprintable()):
        raise BadValue("holds characters that a header cannot have", hint="use printable ASCII")
    return read


DEFAULT_PORT = 7682
LISTEN_HINT = "write an address and a port: 127.0.0.1:7682, [::1]:7682 or localhost:7682"
PATH_HINT = "write a path such as /rota"
LISTEN_URL_HINT = "write `public_url: https://host` or https://host/path"
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*", re.ASCII)
_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)+", re.ASCII)


def read_listen(value: Any) -> str:
    """Return an address, with its port where one is written: only the default port may give way to another.

    >>> read_listen("localhost"), read_listen("[::1]:080")
    ('localhost', '[::1]:80')
    """
    if not isinstance(value, str) or not value:
        raise wrong_type(value, "an address and a port", hint=LISTEN_HINT)
    host, port = split_listen(value)
    if not _is_host(host):
        raise BadValue(f"{shown(value)} is not an address to listen on", hint=LISTEN_HINT)
    if port is None:
        return host
    if not (port.isascii() and port.isdecimal()) or not 0 <= int(port) <= 65535:
        raise BadValue(f"{shown(value)} has no port from 0 to 65535", hint=LISTEN_HINT)
    return f"{host}:{int(port)}"


def split_listen(value: str) -> tuple[str, str | None]:
    """Return the address, brackets included, and the port as it is written; None where none is.

    >>> split_listen("[::1]:80"), split_listen("localhost")
    (('[::1]', '80'), ('localhost', None))
    """
    if value.startswith("["):
        host, bracket, rest = value.partition("]")
        port = rest.removeprefix(":") if rest.startswith(":") else "" if rest else None
        return (host + bracket if bracket else ""), port
    host, colon, written = value.partition(":")
    return host, written if colon else None


def _is_host(host: str) -> bool:
    if host.startswith("["):
        return _is_ip(host[1:-1], version=6)
    if host.replace(".", "").isdecimal():
        return _is_ip(host, version=4)
    return _HOST.fullmatch(host) is not None


def _is_ip(text: str, *, version: int) -> bool:
    try:
        return ip_address(text).version == version
    except ValueError:
        return False


def read_base_path(value: Any) -> str:
    """Return a path without its last slash."""
    if not isinstance(value, str):
        raise wrong_type(value, "a path", hint=PATH_HINT)
    path = value.rstrip("/")
    if path and (not _PATH.fullmatch(path) or {".", ".."} & set(path.split("/"))):
        raise BadValue(f"{shown(value)} is not a valid path", hint=PATH_HINT)
    return path


def read_public_url(value: Any) -> str:
    """Return the address that people use, without its last slash."""
    if not isinstance(value, str) or not value:
        raise wrong_type(value, "an address", hint=LISTEN_URL_HINT)
    try:
        parts = urlsplit(value)
        host = parts.hostname or ""
        good = parts.scheme in ("http", "https") and _is_host(f"[{host}]" if ":" in host else host) and parts.port != 0
    except ValueError:  # a host or port that cannot be
        good = False
    if not good or parts.query or parts.fragment or "@" in parts.netloc:
        raise BadValue(f"{shown(value)} is not the http or https address of a site", hint=LISTEN_URL_HINT)
    path = parts.path.rstrip("/")
    if path and not _PATH.fullmatch(path):
        raise BadValue(f"{shown(value)} has an invalid path", hint=LISTEN_URL_HINT)
    return f"{parts.scheme}://{parts.netloc.lower()}{path}"
