"""The table of bad inputs: reliability.md section 4.5, as far as a job can hold them. One table drives every face.

Where DESIGN.md rules otherwise than the reference, it rules. Rows that are not here, and where they are tested:

- 14 `@reboot`, 22 `5` and `5M`, 23 no schedule, 24 a `start_at` without offset or in the past, 27 a `timeout` beyond
  7 days: taken (section 4: once at boot, whole seconds, any case, by hand, the job's zone, the origin of a grid).
- 21 `EST5EDT`: a zone that IANA knows.
- 30, 52: about runs, `ASKED` in test_bad_inputs.py; 40 to 46: test_runs.py, test_others.py and tests/faces.
- 32 to 37, 49, 71 to 78: of HTTP alone, test_bodies.py, test_repeats.py, test_door.py, test_listening.py, test_feed.py.
- 47: groups, tests/unit/declare/test_groups.py and test_others.py. 48, 59, 60: rota has no dependencies, no stdin
  files and no patterns of artifacts.
- 51 what is no program, 53, 56, 57 at the start: tests/unit/runners and tests/service; 61: tests/agents; 58: functions
  belong to the file, which may name any `module:function` (section 7); the API imports nothing.
- 54 as variables: the owner of a file may set them (R-27) and is warned of those that run before the program; `PATH`
  is what `env` is for. As params they are refused; agents give no variables at all.
- 62, 87, 88: of agents alone, tests/faces/test_made_by_agents.py; 63 to 67, 69, 70: of the file, tests/unit/declare.
- 82, 83, 85: of deliveries, tests/unit/runners/test_webhook.py; 86: of MCP, tests/faces/test_mcp.py.
"""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

WORK = {"prompt": "x", "agent": "helper"}
"""Work that all four faces can give a job."""
DAILY = {"cron": "0 3 * * *"}
EITHER = (
    'x: "0 0 1,15 * 1" fires on each day that matches its day of month or its weekday, as cron does, not only where '
    "both match"
)
FIRST = "x: {} runs other code before the program; keep it only if you intend that"
LOST = "x: its runs fail: the folder {} {}; create it, or correct `cwd`"
EMOJI, OVERRIDE = "\U0001f468\u200d\U0001f469", "\u202eabc"


class Bad(Struct, frozen=True):
    """A job that is refused: the number of its line in the reference, and the code that everybody is told."""

    number: int
    code: str
    keys: dict[str, Any]
    name: str = "x"
    kept: bool = False
    """Whether a file may keep it, which is only told: its job may have run already."""

    def __str__(self) -> str:
        """Return what a failing test is called."""
        return ascii(f"{self.number} {next(iter(self.keys.items())) if self.name == 'x' else self.name}")[1:41]


def bad_inputs() -> Iterator[Bad]:
    """Yield the table."""
    for number, code, expressions in CRON:
        yield from (Bad(number, code, {"cron": text, **WORK}) for text in expressions)
    for number, code, key, values in KEYS:
        yield from (Bad(number, code, {key: value, **DAILY, **WORK}) for value in values)
    for number, code, keys in WHOLE:
        yield Bad(number, code, keys)
    yield from (Bad(25, "at_past", {"at": at, **WORK}, kept=True) for at in ("2020-02-03T04:05Z", "1999-12-31 23:59"))
    yield Bad(29, "job_name", {**DAILY, **WORK}, "RUN-me")
    yield from (Bad(28, "job_name", {**DAILY, **WORK}, name) for name in NAMES)
    yield Bad(28, "yaml_character", {**DAILY, **WORK}, "con\x00")
    yield from (Bad(79, "address_refused", {"notify": {"webhook": url}, **WORK}) for url in ADDRESSES)
    yield from (Bad(80, "address_refused", {"notify": {"webhook": f"https://{host}/"}, **WORK}) for host in HOSTS)


LOADERS = ["LD_PRELOAD", "PYTHONSTARTUP", "BASH_ENV", "NODE_OPTIONS"]
SECRETS = ["sk-" + "a1B2" * 10, "ghp_" + "a1B2" * 9, "AKIA" + "A1B2" * 4, "Bearer xoxb-" + "1" * 24]


class Warned(Struct, frozen=True):
    """A job that is taken: the number of its line, and what everybody is told of it."""

    number: int
    note: str
    keys: dict[str, Any]


WARNED = [
    Warned(10, "x: fires next on 2028-02-29, more than a year from now", {"cron": "0 0 29 2 *", **WORK}),
    Warned(11, EITHER, {"cron": "0 0 1,15 * 1", **WORK}),
    *(Warned(54, FIRST.format(name), {"command": ["true"], "env": {name: "x"}}) for name in ("LD_PRELOAD", "BASH_ENV")),
    Warned(54, FIRST.format("PYTHONSTARTUP"), {"command": ["true"], "env": {"PYTHONSTARTUP": "x"}}),
    Warned(57, LOST.format("/no/such", "does not exist"), {"command": ["true"], "cwd": "/no/such"}),
    Warned(57, LOST.format("/dev/null", "is a file"), {"command": ["true"], "cwd": "/dev/null"}),
]
HEADERS = [
    ("Host", "h.example", "header_denied"),
    ("content-length", "4", "header_denied"),
    ("X", "a\r\nB: c", "invalid_value"),
    ("X A", "a", "invalid_value"),
]
CRON: list[tuple[int, str, list[str]]] = [
    (1, "cron_fields", [""]),
    (2, "cron_fields", ["* * * *"]),
    (3, "cron_fields", ["* * * * * *"]),
    (4, "cron_range", ["60 * * * *"]),
    (5, "cron_step", ["*/0 * * * *"]),
    (6, "cron_step", ["*/90 * * * *"]),
    (7, "cron_range", ["5-1 * * * *"]),
    (8, "cron_never_fires", ["0 0 31 2 *"]),
    (9, "cron_never_fires", ["0 0 30 2 *", "0 0 31 4,6,9,11 *"]),
    (12, "cron_charset", ["\u0663 * * * *"]),
    (13, "cron_charset", ["R(0-10) * * * *"]),
    (13, "cron_range", ["H * * * *"]),
    (14, "cron", ["@every 1h"]),
    (15, "cron_charset", ["0 0" + " " * 5000 + "* * *", "0\n0 * * *", "0\t0\r* * *"]),
    (15, "yaml_character", ["0 0 * *\x00 *"]),
    (16, "cron_charset", ["0-59/1," * 2000 + " * * * *"]),
    (17, "cron_range", ["-5 * * * *", "1-100000000 * * * *"]),
    (18, "cron_charset", ["${T(java.lang.Runtime)}", "{{7*7}}", "{0.__class__} * * * *", "%s%n * * * *"]),
]
KEYS: list[tuple[int, str, str, list[Any]]] = [
    (19, "timezone", "timezone", ["Mars/Base"]),
    (20, "timezone", "timezone", ["../../etc/passwd", "/etc/localtime", "posixrules"]),
    (21, "timezone", "timezone", ["UTC+3"]),
    (24, "instant", "start_at", ["2026-02-30", "2026-02-03T23:59:60Z", "9999-01-01", "1969-12-31"]),
    (27, "duration_format", "timeout", [0, -5, "99999999999d", "NaN"]),
    (27, "wrong_type", "timeout", [True]),
    (31, "unknown_key", "uid", [1]),
    (31, "unknown_key", "priorty", [1]),
    (38, "out_of_range", "priority", [10**9]),
    (38, "wrong_type", "priority", ["high", 1.5, True]),
    (39, "wrong_type", "params", [[1]]),
    (39, "invalid_value", "params", [{"a=b": 1}]),
    (39, "invalid_value", "params", [{"__class__": 1}]),
    (39, "yaml_character", "params", [{"a\x00b": 1}]),
    (39, "out_of_range", "params", [{"a": "x" * 70_000}]),
]
WHOLE: list[tuple[int, str, dict[str, Any]]] = [
    *((22, "duration_format", {"interval": v, **WORK}) for v in ("1.5h", "-5m", "0s", "5 m", "1e3s", "\u221e", 0, -5)),
    (22, "duration_format", {"interval": "99999999999d", **WORK}),
    (22, "duration_format", {"interval": "5", **WORK}),
    *((22, "wrong_type", {"interval": value, **WORK}) for value in (1.5, True)),
    (23, "conflict", {"interval": "5m", **DAILY, **WORK}),
    *((24, "instant", {"at": at, **WORK}) for at in ("2026-12-30T23:59:60Z", "2026-02-30 08:00")),
    (24, "wrong_type", {"at": "tomorrow", **WORK}),
    *((24, "instant", {"at": at, **WORK}) for at in ("9999-06-01 08:00", "9999-12-31T23:59:59Z")),
    (26, "instant", {"at": "2027-03-28T02:30", "timezone": "Europe/Paris", **WORK}),
    (26, "instant", {"at": "2027-10-31T02:30", "timezone": "Europe/Paris", **WORK}),
    (50, "needs_shell", {"command": "rm -rf $HOME"}),
    (51, "invalid_value", {"command": []}),
    (51, "yaml_character", {"command": ["a\x00b"]}),
    (51, "out_of_range", {"command": ["a", "b" * 200_000]}),
    *((54, "wrong_type", {"command": ["true"], "env": {name: "x"}}) for name in ("BASH_FUNC_x%%", "A=B", "")),
    *((54, "env_name_denied", {"command": ["true"], "params": {name: "x"}}) for name in LOADERS),
    *((55, "secret_literal", {"command": ["true"], "env": {"KEY": value}}) for value in SECRETS),
    (55, "secret_literal", {"work_source": {"http": "https://h.example/", "headers": {"Key": SECRETS[0]}}, **WORK}),
    (68, "condition_missing", {"command": ["true"], "conditions": ["has_open_pr"]}),
    *(
        (84, code, {"work_source": {"http": "https://h.example/", "headers": {name: value}}, **WORK})
        for name, value, code in HEADERS
    ),
    (84, "unknown_key", {"notify": {"webhook": "https://h.example/", "headers": {"Host": "a"}}, **WORK}),
]
NAMES = ["", "x" * 201, "../x", ".hidden", "-rf", "a/b", "a%2Fb", EMOJI, OVERRIDE, "   "]
ADDRESSES = [
    *("http://h.example/", "ftp://h.example/", "file:///etc/passwd", "gopher://h/", "javascript:alert(1)", "https://"),
    *("https://user:pw@h.example/", "https://h.example/" + "x" * 2049, "https://h.example/ a"),
    "https://h.example/\r\nX: y",
]
HOSTS = [
    *("127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0", "localhost", "[::1]", "[::]"),
    *("\uff11\uff12\uff17.0.0.1", "127\u30020\u30020\u30021", "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]"),
    *("[2002:a9fe:a9fe::]", "[::169.254.169.254]", "[64:ff9b:1::7f00:1]", "100.64.0.1", "198.18.0.1", "224.0.0.1"),
    *("[fec0::1]", "[fe80::1%25lo]", "metadata.google.internal"),
]
