"""The proxy of a sandbox with a list of hosts: the only way out of its network. Standard library only.

`serve HOSTS -- COMMAND` runs outside: it starts the sandbox, gets a listening socket from inside it, and connects
allowed hosts. `enter FD -- COMMAND` runs inside: it makes that socket, sends it out, and becomes the command.
"""

import os
import select
import signal
import socket
import subprocess
import sys
import threading
from typing import NoReturn
from urllib.parse import urlsplit

HEAD_LIMIT = 16 * 1024
CONNECT_SECONDS = 30.0
HEAD_SECONDS = 30.0
PIECE = 64 * 1024
CONNECTIONS = 64
VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy")


def is_allowed(host: str, port: int, hosts: tuple[str, ...]) -> bool:
    """Return whether a host is on the list: `host`, `*.domain` for all below it, each also with `:port`.

    >>> is_allowed("api.example.com", 443, ("api.example.com",)), is_allowed("a.b.example", 443, ("*.b.example:443",))
    (True, True)
    >>> is_allowed("b.example", 443, ("*.b.example",)), is_allowed("notapi.example", 443, ("api.example",))
    (False, False)
    """
    name = host.rstrip(".").lower()
    for entry in hosts:
        wanted, _, wanted_port = entry.lower().partition(":")
        if wanted_port and int(wanted_port) != port:
            continue
        if name == wanted or (wanted.startswith("*.") and name.endswith(wanted[1:])):
            return True
    return False


def enter(channel: int, argv: list[str]) -> NoReturn:
    """Make the listening socket inside the sandbox, send it out, and become the command."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=CONNECTIONS)
    with socket.socket(fileno=channel) as outside:
        socket.send_fds(outside, [b"l"], [listener.fileno()])
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    listener.close()
    os.environ.update(dict.fromkeys(VARIABLES, address), NO_PROXY="", no_proxy="")
    try:
        os.execvp(argv[0], argv)  # noqa: S606
    except OSError as error:
        sys.stderr.write(f"cannot start {argv[0]!r}: {error.strerror}\n")
        sys.stderr.flush()
        os._exit(127)


def serve(hosts: tuple[str, ...], argv: list[str]) -> int:
    """Run the sandbox, and the proxy as long as it lives; return its exit code."""
    # A handler, not SIG_IGN: the command must not inherit that. The keeper signals the command itself.
    signal.signal(signal.SIGTERM, lambda _number, _frame: None)
    ours, theirs = socket.socketpair()
    theirs.set_inheritable(True)
    place = argv.index("{channel}")
    sandbox = subprocess.Popen([*argv[:place], str(theirs.fileno()), *argv[place + 1 :]], pass_fds=[theirs.fileno()])
    theirs.close()
    threading.Thread(target=_accept, args=(ours, hosts), daemon=True).start()
    code = sandbox.wait()
    return code if code >= 0 else 128 - code


def _accept(channel: socket.socket, hosts: tuple[str, ...]) -> None:
    message, files, _, _ = socket.recv_fds(channel, 1, 1)
    if not message or not files:
        return
    slots = threading.BoundedSemaphore(CONNECTIONS)
    with socket.socket(fileno=files[0]) as listener:
        while True:
            slots.acquire()
            client, _ = listener.accept()
            threading.Thread(target=_answer, args=(client, hosts, slots), daemon=True).start()


def _answer(client: socket.socket, hosts: tuple[str, ...], slots: threading.BoundedSemaphore) -> None:
    try:
        with client:
            client.settimeout(HEAD_SECONDS)
            _forward(client, hosts)
    except (OSError, ValueError):
        pass  # a broken connection concerns its two ends alone
    finally:
        slots.release()


def _forward(client: socket.socket, hosts: tuple[str, ...]) -> None:
    """Read the head of a request, and connect both sides if its host is allowed."""
    head, rest = _read_head(client)
    line, _, fields = head.partition(b"\r\n")
    method, target, version = line.decode("ascii").split(" ")
    tunnel = method == "CONNECT"
    parts = urlsplit(f"//{target}" if tunnel else target)
    host, port = parts.hostname or "", parts.port or (443 if tunnel else 80)
    if not tunnel and parts.scheme != "http":
        client.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        return
    if not is_allowed(host, port, hosts):
        text = f"rota: the sandbox of this run does not allow {host}:{port}\n".encode("ascii", "replace")
        client.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))
        return
    try:
        server = socket.create_connection((host, port), timeout=CONNECT_SECONDS)
    except OSError:
        client.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
        return
    with server:
        if tunnel:
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            server.sendall(rest)
        else:
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            server.sendall(f"{method} {path} {version}\r\n".encode("ascii") + _one_request(fields) + rest)
        _pipe(client, server)


def _read_head(client: socket.socket) -> tuple[bytes, bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = client.recv(PIECE)
        if not piece or len(data) + len(piece) > HEAD_LIMIT:
            raise ValueError("no head of a request")
        data += piece
    head, _, rest = data.partition(b"\r\n\r\n")
    return head, rest


def _one_request(fields: bytes) -> bytes:
    """Return the fields of a plain request: a second one on the connection could name another host."""
    hop = (b"proxy-", b"connection:", b"keep-alive:")
    kept = [field for field in fields.split(b"\r\n") if field and not field.lower().startswith(hop)]
    return b"\r\n".join([*kept, b"Connection: close", b"", b""])


def _pipe(client: socket.socket, server: socket.socket) -> None:
    """Copy both ways until both sides have ended."""
    client.settimeout(None)
    server.settimeout(None)
    poll, peers = select.poll(), {client.fileno(): (client, server), server.fileno(): (server, client)}
    for file in peers:
        poll.register(file, select.POLLIN)
    while peers:
        for file, _ in poll.poll():
            end, peer = peers[file]
            data = end.recv(PIECE)
            if data:
                peer.sendall(data)
            else:
                poll.unregister(file)
                del peers[file]
                _half_close(peer)


def _half_close(end: socket.socket) -> None:
    try:
        end.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # it is gone already


if __name__ == "__main__":
    verb, first, _, *command = sys.argv[1:]
    if verb == "enter":
        enter(int(first), command)
    sys.exit(serve(tuple(first.split(",")), command))
