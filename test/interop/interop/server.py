"""Starts, asks and ends servers of either kind."""

import os
import signal
import socket
import subprocess
import time

LAUNCH = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "launch")

# The account of the suites that must read nodes whose ACL shuts others out.
SUPER_AUTH = ("digest", "super:test")
SUPER_FLAG = ("-Dzookeeper.DigestAuthenticationProvider.superDigest="
              "super:D/InIHSb7yEEbrWz8b9l71RjZJU=")

START_SECONDS = 30
STOP_SECONDS = 10


class ServerError(Exception):
    """A server that did not start, with the end of what it wrote."""


def environment(target, run, flags=()):
    """Returns the environment in which `launch` starts a server of this target."""
    env = dict(os.environ)
    env.update(INTEROP_TARGET=target.kind, INTEROP_BINARY=target.binary or "",
               INTEROP_RELEASE=target.release,
               INTEROP_PIDS=run.pids_path, INTEROP_LAUNCH=LAUNCH,
               SERVER_JVMFLAGS=" ".join(flags), LC_ALL="C.UTF-8", TZ="UTC")
    return env


class Server:
    """One standalone server with its directory.

    directory is kept when the server ends: its data is what the next server
    may be asked to open. settings are further zoo.cfg lines, flags -D
    properties.
    """

    def __init__(self, run, target, directory, settings=None, flags=()):
        self.target, self.directory = target, directory
        self.port = run.ports.next()
        self.data_dir = os.path.join(directory, "data")
        self._run, self._flags, self._process = run, list(flags), None
        self.settings = {
            "tickTime": "2000",
            "dataDir": self.data_dir,
            "clientPort": str(self.port),
            "clientPortAddress": "127.0.0.1",
            "maxClientCnxns": "0",
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
        }
        self.settings.update(settings or {})

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def start(self):
        """Starts the server and returns when it serves. Raises ServerError."""
        os.makedirs(self.data_dir, exist_ok=True)
        config = os.path.join(self.directory, "zoo.cfg")
        with open(config, "w") as f:
            f.writelines(f"{k}={v}\n" for k, v in self.settings.items())
        self._log = os.path.join(self.directory, f"{self.target.kind}.log")
        with open(self._log, "a") as log:
            self._process = subprocess.Popen(
                [LAUNCH, config], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=environment(self.target, self._run, self._flags), cwd=self.directory)
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise ServerError(f"{self.target.kind} ended with status "
                                  f"{self._process.returncode}:\n{self.log_tail()}")
            if self._serves():
                return self
            time.sleep(0.05)
        self.kill()
        raise ServerError(f"{self.target.kind} did not serve within {START_SECONDS} s:\n"
                          f"{self.log_tail()}")

    def _serves(self):
        try:
            reply = four_letters(self.port, "srvr")
        except OSError:
            return False
        return "Mode: " in reply or "not in the whitelist" in reply

    def log_tail(self, lines=30):
        with open(self._log, errors="replace") as f:
            return "".join(f.readlines()[-lines:])

    def kill(self):
        """Ends the server as a power cut would, short of the disk."""
        self._end(signal.SIGKILL)

    def stop(self):
        """Asks the server to end; insists after STOP_SECONDS."""
        self._end(signal.SIGTERM)

    def _end(self, sig):
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(sig)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self):
        return self.start()

    def __exit__(self, *exc):
        self.stop()


def four_letters(port, command, timeout=5.0):
    """Sends the bytes of one command and returns all that comes before the close."""
    data = command if isinstance(command, bytes) else command.encode()
    with socket.create_connection(("127.0.0.1", port), timeout) as s:
        s.settimeout(timeout)
        s.sendall(data)
        reply = b""
        while True:
            try:
                part = s.recv(65536)
            except ConnectionResetError:
                break
            if not part:
                break
            reply += part
    return reply.decode("utf-8", "replace")


def end_recorded(pids_path):
    """Ends, by pid, every server of this run that is still there.

    The start time beside the pid keeps us from a stranger who got the number
    after our server ended. Returns how many there were.
    """
    if not os.path.exists(pids_path):
        return 0
    ended = 0
    with open(pids_path) as f:
        for line in f:
            pid, started = line.split()
            try:
                with open(f"/proc/{pid}/stat") as stat:
                    fields = stat.read().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[19] == started and fields[0] != "Z":
                os.kill(int(pid), signal.SIGKILL)
                ended += 1
    return ended
