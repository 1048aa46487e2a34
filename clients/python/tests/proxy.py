"""A TCP proxy that cuts connections and loses replies."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from urllib.parse import urlsplit


class Proxy:
    """Passes bytes between clients and the server of a URL.

    lose_every: of so many replies to a client one is lost, and its connection with it: the server has run the command.
    change: for each connection, returns a function that changes what the client sends.
    """

    def __init__(
        self, url: str, lose_every: int = 0, change: Callable[[], Callable[[bytes], bytes]] = lambda: bytes
    ) -> None:
        target = urlsplit(url)
        self._target, self._lose_every, self._replies = (target.hostname, target.port), lose_every, 0
        self._change = change
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        self.url = url.replace(f"{target.hostname}:{target.port}", f"127.0.0.1:{port}")
        self._sockets: set[socket.socket] = set()
        self._silent: set[socket.socket] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
            except OSError:
                return
            with self._lock:
                self._sockets |= {client, server}
            threading.Thread(target=self._pass, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self._pass, args=(server, client, True), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, replies: bool) -> None:
        change = bytes if replies else self._change()
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if replies and self._lose_every:
                    with self._lock:
                        self._replies += 1
                        lost = self._replies % self._lose_every == 0
                    if lost:
                        break
                if source not in self._silent:
                    sink.sendall(change(data))
        if source in self._silent:
            return
        for s in (source, sink):
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)
            s.close()
        with self._lock:
            self._sockets -= {source, sink}

    def move(self, url: str) -> None:
        """Lead new connections to another server."""
        target = urlsplit(url)
        self._target = (target.hostname, target.port)

    def silence(self) -> None:
        """Pass nothing more on the connections that exist, not even their end."""
        with self._lock:
            self._silent |= self._sockets

    def cut(self) -> None:
        """Cut every connection."""
        with self._lock:
            for s in self._sockets:
                with contextlib.suppress(OSError):
                    s.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()
        self.cut()
