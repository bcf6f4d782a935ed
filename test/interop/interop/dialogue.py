"""Scripted conversations with a command line client, and their golden files.

A golden file is a conversation with Apache, normalised: a line `> COMMAND`,
then what came until the next one. Each command is a test of its own, named
`NNN COMMAND`.
"""

import difflib
import os
import queue
import subprocess
import threading
import time

from interop.context import end_group
from interop.results import Result

# How long to wait for what the golden file says before it counts as wrong.
ANSWER_SECONDS = 6.0
# After PATIENCE wrong answers the rest get less time, or a broken server takes hours.
PATIENCE, SHORT_ANSWER_SECONDS = 5, 1.0
# How long nothing may come for an answer to be over, when nobody knows it yet,
SILENCE_SECONDS = 0.5
# and when it is already as it should be: what comes now is too much.
SETTLE_SECONDS = 0.03


class Client:
    """A client process that reads commands from a pipe; stderr joins stdout."""

    def __init__(self, argv, env=None, cwd=None):
        self._process = subprocess.Popen(argv, env=env, cwd=cwd, stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                         start_new_session=True)
        self._parts = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._wrong = 0

    def _read(self):
        while part := os.read(self._process.stdout.fileno(), 65536):
            self._parts.put(part.decode("utf-8", "replace"))
        self._parts.put(None)

    def ask(self, command, normalise, expected=None):
        """Sends one line (None: nothing) and returns the normalised answer.

        With expected, returns as soon as the answer equals it and stays so.
        """
        if command is not None:
            try:
                self._process.stdin.write(command.encode() + b"\n")
                self._process.stdin.flush()
            except BrokenPipeError:
                return "(the client has ended)\n"
        def result():
            return end_line(normalise(text))

        text, now = "", time.monotonic()
        if expected is None:
            deadline = now + 2 * SILENCE_SECONDS
        else:
            deadline = now + (ANSWER_SECONDS if self._wrong < PATIENCE else SHORT_ANSWER_SECONDS)
        last = now
        while True:
            good = expected is not None and result() == expected
            if good:
                wait = SETTLE_SECONDS
            elif expected is None and text:
                wait = SILENCE_SECONDS - (time.monotonic() - last)
            else:
                wait = deadline - time.monotonic()
            try:
                part = self._parts.get(timeout=max(wait, 0))
            except queue.Empty:
                self._wrong += expected is not None and not good
                return result()
            if part is None:
                self._parts.put(None)
                return result()
            text, last = text + part, time.monotonic()

    def close(self):
        """Ends the client: politely by closing its input, else by force."""
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            end_group(self._process)
        self._reader.join()
        self._process.stdout.close()
        return self._process.returncode


def end_line(text):
    """Ends a text's last line, as golden files do whatever the client did."""
    return text if not text or text.endswith("\n") else text + "\n"


def read_golden(path):
    """Returns [(command, answer)]; empty if there is no such file."""
    if not os.path.exists(path):
        return []
    out = []
    with open(path) as f:
        for line in f:
            if line.startswith("> "):
                out.append((line[2:].rstrip("\n"), ""))
            else:
                out[-1] = (out[-1][0], out[-1][1] + line)
    return out


def write_golden(path, steps):
    with open(path, "w") as f:
        for command, answer in steps:
            f.write(f"> {command}\n{end_line(answer)}")


def play(run, path, commands, ask):
    """Holds one conversation and judges it by the golden file at path.

    ask(command, expected) holds one step. When recording, writes the file.
    """
    if run.record:
        steps = [(c, ask(c, None)) for c in commands]
        write_golden(path, steps)
        return [Result(_name(i, c), "pass") for i, (c, _) in enumerate(steps)]
    golden = read_golden(path)
    if [c for c, _ in golden] != list(commands):
        raise RuntimeError(f"{path} is of other commands: record it again")
    out = []
    for i, (command, expected) in enumerate(golden):
        out.append(judge(_name(i, command), expected, ask(command, expected)))
    return [r for r in out if run.wants(r.name)]


def judge(name, expected, actual):
    """Returns pass for equal texts, else fail with their difference."""
    if expected == actual:
        return Result(name, "pass")
    return Result(name, "fail", "\n".join(difflib.unified_diff(
        expected.splitlines(), actual.splitlines(), "apache", "here", lineterm="", n=2)))


def _name(index, command):
    return f"{index:03d} {command}"
