"""Notebooks run from begin to end, and their answers are there."""

import contextlib
import io
import runpy
import unittest
from pathlib import Path

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"


class Notebooks(unittest.TestCase):
    def test_the_window_of_a_scan_has_an_answer_for_each_machine(self):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            found = runpy.run_path(str(NOTEBOOKS / "readahead_window.py"))
        self.assertEqual(set(found["answers"]), set(found["MACHINES"]))
        self.assertEqual(len(said.getvalue().splitlines()), 3 * len(found["MACHINES"]))
        # What the text says of the prototype.
        for place, machine in enumerate(found["MACHINES"]):
            scan, fault = found["prototype"][machine]
            self.assertGreaterEqual(scan, 0.95 * found["throughput"][place].max())
            self.assertLessEqual(fault, found["fault"][place, 0])


if __name__ == "__main__":
    unittest.main()
