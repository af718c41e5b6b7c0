"""The table of bad inputs: reliability.md section 4.5, as far as a job can hold them. One table drives every face."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

WORK = {"prompt": "x", "agent": "helper"}
"""Work that all four faces can give a job."""
DAILY = {"cron": "0 3 * * *"}
EMOJI, OVERRIDE = "\U0001f468\u200d\U0001f469", "\u202eabc"


@dataclass(frozen=True, slots=True)
class Bad:
    """A job that is refused: the number of its line in the reference, and the code that everybody is told."""

    number: int
    code: str
    keys: dict[str, Any]
    name: str = "x"

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
    yield from (Bad(28, "job_name", {**DAILY, **WORK}, name) for name in NAMES)
    yield Bad(28, "yaml_character", {**DAILY, **WORK}, "con\x00")
    yield from (Bad(79, "address_refused", {"notify": {"webhook": url}, **WORK}) for url in ADDRESSES)
    yield from (Bad(80, "address_refused", {"notify": {"webhook": f"https://{host}/"}, **WORK}) for host in HOSTS)


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
    (24, "instant", "start_at", ["2026-02-30", "2026-02-03T23:59:60Z"]),
    (27, "duration_format", "timeout", [0, -5, "99999999999d", "NaN"]),
    (27, "wrong_type", "timeout", [True]),
    (31, "unknown_key", "uid", [1]),
    (31, "unknown_key", "priorty", [1]),
    (38, "out_of_range", "priority", [10**9]),
    (38, "wrong_type", "priority", ["high", 1.5, True]),
    (39, "wrong_type", "params", [[1]]),
    (39, "invalid_value", "params", [{"a=b": 1}]),
    (39, "yaml_character", "params", [{"a\x00b": 1}]),
    (39, "out_of_range", "params", [{"a": "x" * 70_000}]),
]
WHOLE: list[tuple[int, str, dict[str, Any]]] = [
    *((22, "duration_format", {"interval": v, **WORK}) for v in ("1.5h", "-5m", "0s", "5 m", "1e3s", "\u221e", 0, -5)),
    (22, "duration_format", {"interval": "99999999999d", **WORK}),
    *((22, "wrong_type", {"interval": value, **WORK}) for value in (1.5, True)),
    (23, "conflict", {"interval": "5m", **DAILY, **WORK}),
    *((24, "instant", {"at": at, **WORK}) for at in ("2026-12-30T23:59:60Z", "2026-02-30 08:00")),
    (24, "wrong_type", {"at": "tomorrow", **WORK}),
    (26, "instant", {"at": "2027-03-28T02:30", "timezone": "Europe/Paris", **WORK}),
    (26, "instant", {"at": "2027-10-31T02:30", "timezone": "Europe/Paris", **WORK}),
    (50, "needs_shell", {"command": "rm -rf $HOME"}),
    (51, "invalid_value", {"command": []}),
    (51, "yaml_character", {"command": ["a\x00b"]}),
    (51, "out_of_range", {"command": ["a", "b" * 200_000]}),
    *((54, "wrong_type", {"command": ["a"], "env": {name: "x"}}) for name in ("BASH_FUNC_x%%", "A=B", "")),
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
