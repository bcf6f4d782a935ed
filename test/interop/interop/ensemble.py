"""Ensembles of servers of either kind."""

import concurrent.futures
import os
import re
import time

from interop.server import Server, ServerError, four_letters

SETTLE_SECONDS = 10


class Ensemble:
    """Voters, then observers, each a Server in a directory of its own below `directory`."""

    def __init__(self, run, voters, observers=0, settings=None, flags=(), directory=""):
        lines = {}
        for i in range(1, voters + observers + 1):
            role = "participant" if i <= voters else "observer"
            lines[f"server.{i}"] = f"127.0.0.1:{run.ports.next()}:{run.ports.next()}:{role}"
        self.servers = []
        for i in range(1, voters + observers + 1):
            server = Server(run, run.target, run.directory(directory, f"member{i}"),
                            {"initLimit": "10", "syncLimit": "5", **lines, **(settings or {})}, flags)
            if i > voters:
                server.settings["peerType"] = "observer"
            os.makedirs(server.data_dir, exist_ok=True)
            with open(os.path.join(server.data_dir, "myid"), "w") as f:
                f.write(f"{i}\n")
            self.servers.append(server)

    def __enter__(self):
        """Starts all, and returns when all serve."""
        try:
            with concurrent.futures.ThreadPoolExecutor(len(self.servers)) as pool:
                list(pool.map(lambda server: server.start(), self.servers))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc):
        for server in self.servers:
            server.kill()

    def roles(self):
        """Returns the servers by what srvr calls their mode."""
        roles = {}
        for server in self.servers:
            mode = re.search(r"^Mode: (\S+)", four_letters(server.port, "srvr"), re.M)
            roles.setdefault(mode.group(1), []).append(server)
        return roles

    def settle(self):
        """Returns when all have the same last zxid."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < deadline:
            zxids = {re.search(r"^Zxid: (\S+)", four_letters(s.port, "srvr"), re.M).group(1)
                     for s in self.servers}
            if len(zxids) == 1:
                return
            time.sleep(0.05)
        raise ServerError(f"the members do not agree: {sorted(zxids)}")
