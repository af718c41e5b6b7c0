"""Where HTTP listens: loopback unless asked for more; only the default port gives way where it is in use."""

import errno
import json
import os
import socket
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from rota.declare.listening import DEFAULT_PORT, split_listen
from rota.log import log
from rota.model.errors import ListenExposed, ListenRefused
from rota.runners.processes import port_owner
from rota.settings import Http

FILE_NAME = "http.json"
PORTS_TRIED = 50
IN_USE_HINT = (
    "stop that process, or name another port: `rota serve --listen 127.0.0.1:8000`, `http: {listen: …}` in rota.yaml"
)
MOVED_HINT = "write `http: {listen: 127.0.0.1:PORT}` for a port that stays the same"


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
        return split_listen(self.http.listen)[0].strip("[]")

    @property
    def port(self) -> int | None:
        """The port that was written down; None: the default one, or the next free one."""
        written = split_listen(self.http.listen)[1]
        return None if written is None else int(written)


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
    """Return a socket on the written port, where 0 lets the system choose; else on the default one or the next free.

    A port that was written down is what clients, proxies and firewalls know: another one would serve nobody.
    """
    if wanted.port is not None:
        found = _bound(wanted.host, wanted.port)
        if found is None:
            raise ListenRefused(f"{wanted.http.listen} is in use by {port_owner(wanted.port)}", hint=IN_USE_HINT)
        return found
    for port in range(DEFAULT_PORT, DEFAULT_PORT + PORTS_TRIED):
        found = _bound(wanted.host, port)
        if found is not None:
            if port != DEFAULT_PORT:
                taken = f"the port {DEFAULT_PORT} is in use, HTTP listens on {port}"
                log.warning(taken, used_by=port_owner(DEFAULT_PORT), hint=MOVED_HINT)
            return found
    last = DEFAULT_PORT + PORTS_TRIED - 1
    raise ListenRefused(f"the ports {DEFAULT_PORT} to {last} of {wanted.host} are all in use", hint=IN_USE_HINT)


def _bound(host: str, port: int) -> socket.socket | None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
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
