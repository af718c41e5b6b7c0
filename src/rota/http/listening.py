"""Where HTTP listens: loopback unless asked for more, and the next free port where one is taken."""

import errno
import json
import os
import socket
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from rota.model.errors import ListenExposed, ListenRefused
from rota.settings import Http

FILE_NAME = "http.json"
PORTS_TRIED = 50


@dataclass(frozen=True, slots=True)
class Listening:
    """How HTTP is asked to listen: the settings, with what the flags say over them."""

    http: Http
    exposed: bool = False
    """Whether somebody asked on the command line for an address beyond this machine."""
    behind_proxy: bool = False
    certificate: Path | None = None
    key: Path | None = None

    @property
    def encrypted(self) -> bool:
        """Whether browsers reach it encrypted."""
        return self.certificate is not None or self.http.public_url.startswith("https://")

    @property
    def host(self) -> str:
        """The address without brackets."""
        return self.http.listen.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        """The port that is tried first."""
        return int(self.http.listen.rpartition(":")[2])


def check_exposure(wanted: Listening) -> None:
    """Refuse an address beyond this machine that nobody asked for by a flag, or that nothing encrypts (T-01)."""
    if is_loopback(wanted.host):
        return
    if not wanted.exposed:
        raise ListenExposed(
            f"`http.listen: {wanted.http.listen}` is reachable from other machines",
            hint=f"if that is meant, start it with `rota serve --listen {wanted.http.listen}`",
        )
    if wanted.certificate is None and not wanted.behind_proxy:
        raise ListenExposed(
            f"{wanted.http.listen} is reachable from other machines, and nothing encrypts it",
            hint="name --tls-cert and --tls-key, or pass --behind-proxy where a proxy in front of it does",
        )


def is_loopback(host: str) -> bool:
    """Tell whether an address is this machine's alone."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def bind(wanted: Listening) -> socket.socket:
    """Return a socket on the address, at the first free port from the wanted one on; 0 lets the system choose."""
    family = socket.AF_INET6 if ":" in wanted.host else socket.AF_INET
    ports = [0] if wanted.port == 0 else range(wanted.port, min(wanted.port + PORTS_TRIED, 65536))
    for port in ports:
        found = _bound(family, wanted.host, port)
        if found is not None:
            return found
    raise ListenRefused(
        f"the ports {ports[0]} to {ports[-1]} of {wanted.host} are all taken",
        hint="name another one: `http: {listen: 127.0.0.1:8000}`, or `rota serve --no-http`",
    )


def _bound(family: int, host: str, port: int) -> socket.socket | None:
    # The protocol is named, else asyncio does not know it and leaves Nagle's wait on: 40 ms for each answer.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        # A port that only waits for late packets may be used again; one that somebody listens on may not.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(1)  # two sockets may be bound to one port, but only one may listen
    except OSError as error:
        made.close()
        if error.errno == errno.EADDRINUSE:
            return None
        reason = (error.strerror or str(error)).lower()
        hint = "name another address: `http: {listen: 127.0.0.1:7682}`, or `rota serve --no-http`"
        raise ListenRefused(f"cannot listen on {host}:{port}: {reason}", hint=hint) from None
    return made


def write_address(state: Path, url: str) -> None:
    """Note in the state folder where HTTP listens."""
    path = state / FILE_NAME
    fresh = path.with_name(f"{FILE_NAME}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump({"url": url, "pid": os.getpid()}, file)
    fresh.rename(path)


def forget_address(state: Path) -> None:
    """Take the note away."""
    (state / FILE_NAME).unlink(missing_ok=True)
