"""Reading of a secret from the origin that the file names: a command, a file or the keyring of the system.

Nothing is cached or stored. A read is bounded in time and in size, and blocks: call it in a thread.
"""

import os
import selectors
import shutil
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from rota.model.errors import SecretMissing
from rota.model.spec import SecretOrigin
from rota.runners.redacting import Redactor

LIMIT = 64 * 1024
"""The most bytes of a secret."""
SAID_LIMIT, LINE = 300, 4096
KEYRINGS = {
    "darwin": ("security", "find-generic-password", "-s", "{service}", "-a", "{account}", "-w"),
    "linux": ("secret-tool", "lookup", "service", "{service}", "username", "{account}"),
}
"""The program of each system that prints an entry of its keyring."""
INSTALL = {"secret-tool": "install it (libsecret-tools)"}


def read_origin(name: str, origin: SecretOrigin, environ: Mapping[str, str]) -> str:
    """Return the value of a secret; raise SecretMissing. The value never appears in the error."""
    if origin.file:
        return _checked(name, origin, _read_file(name, origin))
    return _checked(name, origin, _run(name, origin, environ))


def keyring_command(origin: SecretOrigin) -> tuple[str, ...]:
    """Return the command that prints an entry of this system's keyring."""
    words = KEYRINGS.get(sys.platform, KEYRINGS["linux"])
    return tuple(word.format(service=origin.service, account=origin.account) for word in words)


def _checked(name: str, origin: SecretOrigin, data: bytes) -> str:
    if len(data) > LIMIT:
        raise SecretMissing(name, f"{_origin(origin)} gave more than {LIMIT:,} bytes", hint="name one value only")
    try:
        value = data.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise SecretMissing(name, f"{_origin(origin)} gave no UTF-8 text", hint="encode the value, in base64") from None
    if not value or "\0" in value:
        what = "a NUL character" if value else "nothing"
        raise SecretMissing(name, f"{_origin(origin)} gave {what}", hint="check the entry that it names")
    return value


def _read_file(name: str, origin: SecretOrigin) -> bytes:
    path = Path(origin.file)
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise SecretMissing(name, f"{path} is not a regular file", hint="name a file")
            if mode & 0o007:
                text = f"{path} is open to all users (mode {stat.S_IMODE(mode):04o})"
                raise SecretMissing(name, text, hint=f"run `chmod o= {path}`")
            return file.read(LIMIT + 1)
    except OSError as error:
        text = f"{path} cannot be read: {(error.strerror or str(error)).lower()}"
        raise SecretMissing(name, text, hint="check the path and its mode") from error


def _without_waiting(path: str, flags: int) -> int:
    """Open a file; a pipe without a writer does not wait."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def _run(name: str, origin: SecretOrigin, environ: Mapping[str, str]) -> bytes:
    argv = origin.command or keyring_command(origin)
    program = shutil.which(argv[0], path=environ.get("PATH", os.defpath)) if "/" not in argv[0] else argv[0]
    if program is None:
        hint = INSTALL.get(argv[0], "install it, or write its path: the scheduler's PATH applies")
        raise SecretMissing(name, f"{argv[0]} is not on the scheduler's PATH", hint=hint)
    try:
        process = subprocess.Popen(
            (program, *argv[1:]),
            cwd=origin.cwd or None,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        text = f"{argv[0]} cannot be started: {(error.strerror or str(error)).lower()}"
        raise SecretMissing(name, text, hint="check `command` and the mode of the program") from error
    within = origin.timeout.total_seconds()
    printed = _collect(process, within)
    if printed.late:
        hint = "check that it asks nothing, or raise its `timeout`"
        raise SecretMissing(name, f"{argv[0]} gave no value within {within:g} s", hint=hint)
    if process.returncode and len(printed.output) <= LIMIT:
        text = f"{argv[0]} ended with {_ending(process.returncode)}{_said(printed)}"
        raise SecretMissing(name, text, hint="run it in a shell as the user of the scheduler")
    return bytes(printed.output)


class _Printed(Struct):
    """The output of a command, at most a piece above the limit, and the end of its standard error."""

    output: bytearray
    said: bytearray
    late: bool = False


def _collect(process: "subprocess.Popen[bytes]", within: float) -> _Printed:
    """Return what a process prints; end its group when it has printed, or is late, or prints too much."""
    printed = _Printed(bytearray(), bytearray())
    alarm, ring = os.pipe()

    def expire() -> None:
        printed.late = True
        os.write(ring, b"!")
        _end(process)

    timer = threading.Timer(within, expire)
    timer.daemon = True
    timer.start()
    try:
        _read(process, alarm, printed)
        if printed.late or len(printed.output) > LIMIT:
            _end(process)
        process.wait()
    finally:
        timer.cancel()
        timer.join()
        os.close(alarm)
        os.close(ring)
    return printed


def _read(process: "subprocess.Popen[bytes]", alarm: int, printed: _Printed) -> None:
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stdout, process.stderr, selectors.DefaultSelector() as selector:
        for file in (process.stdout.fileno(), process.stderr.fileno(), alarm):
            selector.register(file, selectors.EVENT_READ)
        while len(selector.get_map()) > 1 and len(printed.output) <= LIMIT:
            for key, _ in selector.select():
                if key.fd == alarm:
                    return
                piece = os.read(key.fd, LIMIT)
                if not piece:
                    selector.unregister(key.fd)
                elif key.fd == process.stdout.fileno():
                    printed.output += piece
                else:
                    printed.said[:] = (printed.said + piece)[-LINE:]


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def _ending(code: int) -> str:
    return f"exit code {code}" if code > 0 else f"signal {signal.Signals(-code).name}"


def _said(printed: _Printed) -> str:
    """Return the last line of standard error, without what was printed as the value."""
    lines = [line.strip() for line in printed.said.decode("utf-8", "replace").splitlines() if line.strip()]
    shown = lines[-1] if lines else ""
    if printed.output.strip():
        shown = Redactor([printed.output.decode("utf-8", "replace")]).redact(shown)
    return f": {shown[:SAID_LIMIT]}" if shown else ""


def _origin(origin: SecretOrigin) -> str:
    return origin.command[0] if origin.command else origin.file or f"the keyring entry {origin.title}"
