"""What is given wrong is said clearly; what is asked for is what is done."""

import os
import pickle
import tempfile
import unittest
from pathlib import Path

import numpy as np

import forebay

JOB = "[r]\nrw=randread\nsize=256k\nbs=16k\n"
MSR = "".join(f"{128166372003061629 + 10_000 * n},src1,0,Read,{n * 4096},4096,10\n" for n in range(100))


class Arguments(unittest.TestCase):
    def assert_said(self, error, said, call, *arguments, **options):
        with self.subTest(said, **options), self.assertRaises(error) as raised:
            call(*arguments, **options)
        self.assertIn(said, str(raised.exception))

    def test_a_wrong_type_is_named(self):
        for given in (None, 7, b"[r]\n", {}):
            self.assert_said(TypeError, "input is a single one or a list", forebay.simulate, given)
        self.assert_said(TypeError, "an input is a path", forebay.simulate, [7])
        self.assert_said(ValueError, "not empty", forebay.simulate, "")
        for options, said in [
            ({"machine": None}, "machine is a single one or a list, not None"),
            ({"policies": "readahead=off"}, "policies is a mapping"),
            ({"policies": {"readahead": None}}, "the policy of readahead is a text, or a class"),
            ({"policies": {"flush": object}}, "the policy of flush is a text"),
            ({"settings": [("device.delay", "1us")]}, "settings is a mapping"),
            ({"seed": 1.5}, "seed is a whole number, not 1.5"),
            ({"speed": "fast"}, "speed is a number, not 'fast'"),
            ({"layer": 7}, "layer is a text, not 7"),
            ({"trace_format": 7}, "trace_format is a text, not 7"),
            ({"settings": {3: 4}}, "the keys of settings are texts, not 3"),
            ({"policies": {3: "off"}}, "the keys of policies are texts, not 3"),
            ({"machine": [7]}, "a machine is a path or a name, not 7"),
        ]:
            self.assert_said(TypeError, said, forebay.simulate, JOB, **options)
        self.assert_said(TypeError, "grid is a mapping", forebay.sweep, JOB, grid=["readahead"])
        self.assert_said(TypeError, "seed is a whole number", forebay.sweep, JOB, seeds=[1.0])
        self.assert_said(FileNotFoundError, "'none.toml'", forebay.Machine, "none.toml")

    def test_a_number_out_of_range_is_a_value_error(self):
        for seed in (-1, 1 << 64):
            self.assert_said(ValueError, f"not {seed}", forebay.simulate, JOB, seed=seed)
            self.assert_said(ValueError, f"not {seed}", forebay.sweep, JOB, seeds=[seed])
        for threads in (-1, 0, 1 << 40):
            self.assert_said(ValueError, "threads is", forebay.sweep, JOB, threads=threads)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "trace.csv")
            path.write_text(MSR)
            for options in ({"batch": 0}, {"batch": -1}, {"skip_bad": -1}):
                (name,) = options
                self.assert_said(ValueError, f"{name} is a whole", forebay.Trace, path, **options)
            for options in ({"depth": -1}, {"devices": 1 << 33}, {"skip_bad": -1}):
                (name,) = options
                self.assert_said(ValueError, f"{name} is a whole", forebay.simulate, path, **options)
            self.assertEqual(sum(len(batch["op"]) for batch in forebay.Trace(path, batch=1 << 62)), 100)

    def test_what_is_for_traces_is_not_ignored_for_jobs(self):
        for options in (
            {"depth": 4},
            {"speed": 2},
            {"devices": 1},
            {"layer": "cache"},
            {"skip_bad": 1},
            {"trace_format": "msr"},
        ):
            (name,) = options
            for call in (forebay.simulate, forebay.sweep):
                self.assert_said(ValueError, f"{name}=", call, JOB, **options)

    def test_arrays_and_single_values_are_taken(self):
        seeds = np.arange(10)[::-3]
        rows = forebay.sweep(JOB, Path("ssd-2014"), {"kernel.read_ahead_kb": np.array([16, 32])}, seeds)
        np.testing.assert_array_equal(rows["seed"], [9, 6, 3, 0] * 2)
        np.testing.assert_array_equal(rows["kernel.read_ahead_kb"], [16] * 4 + [32] * 4)
        one = forebay.sweep(JOB, "ssd-2014", {"readahead": "off"}, seeds=9)
        self.assertEqual((one["readahead"], one["seed"].tolist()), (["off"], [9]))
        none = forebay.sweep(JOB, grid={"readahead": []})
        self.assertEqual([len(none[name]) for name in ("input", "machine", "readahead", "seed")], [0] * 4)


class Results(unittest.TestCase):
    def test_tasks_and_files_are_numbered_in_the_order_of_the_job(self):
        shared = forebay.simulate("[r]\nrw=read\nsize=64k\nbs=16k\nfilename=a\nnumjobs=2\n").calls
        self.assertEqual(set(shared["task"].tolist()), {0, 1})
        self.assertEqual(set(shared["file"].tolist()), {0})
        job = "[a]\nrw=read\nsize=64k\nbs=16k\n[b]\nstonewall\nrw=read\nsize=64k\nbs=16k\n"
        calls = forebay.simulate(job).calls
        for column in ("task", "file"):
            self.assertEqual(calls[column].tolist(), [0] * 4 + [1] * 4, column)
        self.assertTrue((np.diff(calls["done_ns"]) > 0).all())

    def test_calls_past_the_page_cache_are_calls(self):
        job = "[global]\nsize=64k\nbs=16k\ndirect=1\n[a]\nrw=read\n[b]\nrw=write\nend_fsync=1\n"
        result = forebay.simulate(job, "ssd-2014")
        self.assertEqual((result.run["reads"], result.run["page_accesses"]), (4, 0))
        for file, op in ((0, 0), (1, 2)):
            mine = (result.calls["file"] == file) & (result.calls["op"] == op)
            self.assertEqual(sorted(result.calls["offset"][mine]), [0, 16384, 32768, 49152])
            self.assertEqual(result.calls["length"][mine].tolist(), [16384] * 4)
            self.assertEqual(result.calls["result"][mine].tolist(), [16384] * 4)
        syncs = result.calls["op"] == forebay.CALL_OPS.index("sync")
        self.assertEqual(result.calls["file"][syncs].tolist(), [1])

    def test_a_result_is_shown_in_a_line(self):
        result = forebay.simulate(JOB)
        self.assertRegex(repr(result), r"^Result\(jobs: 1 x \d+, run: \d+ figures, calls: 16\)$")
        result = forebay.simulate(JOB, calls=False)
        self.assertIn("calls: none kept", repr(result))

    def test_machines_go_to_other_processes(self):
        machine = forebay.Machine("nvme-2026", {"device.delay": "77us"})
        copy = pickle.loads(pickle.dumps(machine))
        self.assertEqual(copy.parameters(), machine.parameters())


@unittest.skipUnless(hasattr(os, "fork"), "this system has no fork")
class Forks(unittest.TestCase):
    def in_child(self, work):
        """Runs work in a forked process, and returns whether it came to its end."""
        child = os.fork()
        if child == 0:
            try:
                work()
            except BaseException:
                os._exit(1)
            os._exit(0)
        return os.waitpid(child, 0)[1] == 0

    def test_a_forked_process_can_run_everything(self):
        expected = forebay.simulate(JOB, "ssd-2014").run

        def work():
            np.testing.assert_equal(forebay.simulate(JOB, "ssd-2014").run, expected)
            assert len(forebay.sweep(JOB, seeds=range(4), threads=2)["seed"]) == 4

        self.assertTrue(self.in_child(work))

    def test_a_forked_process_does_not_wait_for_a_thread_that_it_has_not(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "trace.csv")
            path.write_text(MSR)
            trace = forebay.Trace(path, batch=7)
            batches = iter(trace)
            next(batches)

            def work():
                try:
                    next(batches)
                except RuntimeError as error:
                    assert "forked" in str(error)
                else:
                    raise AssertionError("it has read on")
                assert sum(len(batch["op"]) for batch in trace) == 100

            self.assertTrue(self.in_child(work))
            self.assertEqual(sum(len(batch["op"]) for batch in batches), 93)


if __name__ == "__main__":
    unittest.main()
