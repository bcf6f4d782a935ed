"""pytest plugin for suites of others: a time limit per test, and selection.

INTEROP_ONLY is a regular expression on `module.Class.test`; INTEROP_ENSEMBLE a
comma-separated list of such names to skip with the reason `ensemble`, INTEROP_PENDING
one of those that are not expected to pass, which get less time: kazoo waits for
ever for some answers that it does not understand.
"""

import os
import re
import signal

import pytest

TEST_SECONDS, PENDING_SECONDS = 90, 8


def _name(item):
    parts = item.nodeid.split("::")
    return ".".join([parts[0].removesuffix(".py").replace("/", "."), *parts[1:]])


def pytest_collection_modifyitems(config, items):
    ensemble = set(filter(None, os.environ.get("INTEROP_ENSEMBLE", "").split(",")))
    only = re.compile(os.environ.get("INTEROP_ONLY", ""))
    kept = [i for i in items if only.search(_name(i))]
    config.hook.pytest_deselected(items=[i for i in items if i not in kept])
    items[:] = kept
    for item in items:
        if _name(item) in ensemble:
            item.add_marker(pytest.mark.skip(reason="ensemble"))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    pending = _name(item) in os.environ.get("INTEROP_PENDING", "").split(",")
    seconds = PENDING_SECONDS if pending else TEST_SECONDS

    def overdue(signum, frame):
        raise TimeoutError(f"{_name(item)} took more than {seconds} s")

    before = signal.signal(signal.SIGALRM, overdue)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
