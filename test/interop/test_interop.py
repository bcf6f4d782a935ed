"""Tests of what the suites share: `python3 -m unittest discover test/interop`."""

import os
import tempfile
import unittest

from interop import dialogue, results
from suites import zkcli


class Compare(unittest.TestCase):
    BASELINE = {"a": "pass", "b": "pass", "c": "fail", "d": "flaky", "e": "ensemble"}

    def compare(self, actual, pending=(), partial=False):
        return results.compare(self.BASELINE, actual, dict.fromkeys(pending, "why"), partial)

    def test_equal_runs_are_well(self):
        self.assertTrue(self.compare(self.BASELINE).ok)

    def test_a_test_that_breaks(self):
        for status in ("fail", "skip", "ensemble"):
            v = self.compare(self.BASELINE | {"a": status})
            self.assertEqual((v.broken, v.ok), (["a"], False), status)

    def test_a_flaky_test_is_free_to_fail(self):
        self.assertTrue(self.compare(self.BASELINE | {"d": "fail"}).ok)

    def test_a_test_that_did_not_run(self):
        actual = {k: v for k, v in self.BASELINE.items() if k != "b"}
        self.assertEqual(self.compare(actual).missing, ["b"])
        self.assertFalse(self.compare(actual).ok)
        self.assertTrue(self.compare(actual, partial=True).ok)

    def test_a_pending_test(self):
        v = self.compare(self.BASELINE | {"a": "fail"}, pending=["a"])
        self.assertEqual((v.pending, v.ok), (["a"], True))

    def test_a_pending_test_that_passes(self):
        v = self.compare(self.BASELINE, pending=["a"])
        self.assertEqual((v.arrived, v.ok), (["a"], False))

    def test_an_unknown_test(self):
        v = self.compare(self.BASELINE | {"z": "pass"})
        self.assertEqual((v.new, v.ok), (["z"], False))

    def test_what_passes_only_here(self):
        v = self.compare(self.BASELINE | {"c": "pass"})
        self.assertEqual((v.gained, v.ok), (["c"], True))

    def test_runs_that_disagree_are_flaky(self):
        merged = results.merge([{"a": "pass", "b": "pass"}, {"a": "pass", "b": "fail"},
                                {"a": "pass", "b": "pass"}])
        self.assertEqual(merged, {"a": "pass", "b": "flaky"})


class Files(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = os.path.join(directory.name, "file")

    def test_results_round_trip(self):
        statuses = {"001 create /a b": "pass", "x": "fail"}
        results.write(self.path, statuses, ["a heading"])
        self.assertEqual(results.read(self.path), statuses)

    def test_a_pending_line_needs_a_reason(self):
        with open(self.path, "w") as f:
            f.write("x # not written yet\ny\n")
        with self.assertRaisesRegex(ValueError, "file:2"):
            results.read_pending(self.path)

    def test_golden_round_trip(self):
        steps = [("(connect)", ""), ("get /a", "data\nczxid=2\n"), ("quit", "")]
        dialogue.write_golden(self.path, steps)
        self.assertEqual(dialogue.read_golden(self.path), steps)


class Dialogue(unittest.TestCase):
    def test_an_answer_is_what_the_command_brought(self):
        client = dialogue.Client(["cat"])
        self.addCleanup(client.close)
        self.assertEqual(client.ask("one", str.upper, "ONE\n"), "ONE\n")
        self.assertEqual(client.ask("two", str.upper), "TWO\n")

    def test_a_client_that_ended_answers_at_once(self):
        client = dialogue.Client(["true"])
        self.addCleanup(client.close)
        self.assertNotEqual(client.ask("one", str, "one\n"), "one\n")

    def test_events_among_the_lines_of_an_answer(self):
        class Server:
            address = "127.0.0.1:24000"

        event = "WatchedEvent state:SyncConnected type:NodeCreated path:/b\n"
        whole = "\nWATCHER::\n\n" + event + "Created /b\n"
        split = "\nWATCHER::\nCreated /b\n\n" + event
        self.assertEqual(zkcli.normalise(whole, Server), "Created /b\n" + event)
        self.assertEqual(zkcli.normalise(split, Server), "Created /b\n" + event)


if __name__ == "__main__":
    unittest.main()
