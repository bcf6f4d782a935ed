"""Port blocks, so that two runs on one machine do not meet.

The range 24000-24999 is cut into blocks of 50. A block belongs to the process
that holds the lock on its file, and is free again when that process ends,
however it ends.
"""

import fcntl
import os
import socket
import tempfile

FIRST, LAST, BLOCK = 24000, 24999, 50


class Ports:
    """One block of ports. Not safe for several threads."""

    def __init__(self):
        directory = os.path.join(tempfile.gettempdir(), "pinfold-interop-ports")
        os.makedirs(directory, exist_ok=True)
        for base in range(FIRST, LAST, BLOCK):
            lock = open(os.path.join(directory, str(base)), "w")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                lock.close()
                continue
            self._lock, self.base, self._next = lock, base, 0
            return
        raise RuntimeError(f"ports: every block of {FIRST}-{LAST} is in use")

    def next(self):
        """Returns a port of the block that nobody listens on, in turn."""
        for _ in range(BLOCK):
            port = self.base + self._next
            self._next = (self._next + 1) % BLOCK
            if _is_free(port):
                return port
        raise RuntimeError(f"ports: no free port in {self.base}-{self.base + BLOCK - 1}")


def _is_free(port):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
