"""Runs in virtual time: jobs, policies in Python, traces, sweeps."""

import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import numpy as np

import forebay

JOB = "[r]\nrw=randread\nsize=4M\nbs=16k\n"
MIXED = "[w]\nrw=randwrite\nsize=2M\nbs=8k\nfsync=16\n[r]\nrw=read\nsize=2M\nbs=64k\n"


class Jobs(unittest.TestCase):
    def test_a_run_has_its_sections_figures_and_calls(self):
        result = forebay.simulate(JOB, machine="nvme-2026")
        self.assertEqual(result.jobs["job"], ["r"])
        self.assertEqual(result.run["reads"], 256)
        self.assertEqual(len(result.calls["op"]), 256)
        self.assertEqual(int(result.calls["result"].sum()), 4 << 20)
        latency = (result.calls["done_ns"] - result.calls["issued_ns"]) / 1e3
        self.assertAlmostEqual(latency.mean(), result.run["read_mean_us"], places=2)
        self.assertAlmostEqual(latency.max(), result.run["read_max_us"], places=2)
        self.assertFalse(result.calls["done_ns"].flags.writeable)
        self.assertIsNone(forebay.simulate(JOB, calls=False).calls)

    def test_the_same_seed_is_the_same_run_and_another_one_is_another(self):
        runs = [forebay.simulate(JOB, "ssd-2014", seed=seed).calls for seed in (1, 1, 2)]
        for name, column in runs[0].items():
            np.testing.assert_array_equal(column, runs[1][name])
        self.assertTrue((runs[0]["done_ns"] != runs[2]["done_ns"]).any())

    def test_sections_are_rows(self):
        result = forebay.simulate(MIXED)
        self.assertEqual(result.jobs["job"], ["w", "r"])
        self.assertEqual(result.jobs["writes"].tolist(), [256, 0])
        self.assertEqual(result.jobs["syncs"].tolist(), [15, 0])
        self.assertTrue(np.isnan(result.jobs["write_p99_us"][1]))
        self.assertEqual(result.run["job"], "all")
        kinds = [forebay.CALL_OPS[op] for op in np.unique(result.calls["op"])]
        self.assertEqual(kinds, ["read", "write", "sync"])

    def test_a_job_can_be_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "r.fio")
            path.write_text(JOB)
            np.testing.assert_equal(forebay.simulate(path).run, forebay.simulate(JOB).run)
        with self.assertRaises(FileNotFoundError):
            forebay.simulate("absent.fio")

    def test_what_cannot_be_run_is_a_value_error(self):
        for options, said in [
            ({"machine": "nvme-2025"}, "nvme-2026"),
            ({"policies": {"readahead": "of"}}, "no readahead policy is named 'of'"),
            ({"policies": {"reedahead": "off"}}, "no slot is named 'reedahead'"),
            ({"settings": {"device.dealy": "1us"}}, "device.delay"),
            ({"fio": "2.0"}, "fio is"),
        ]:
            with self.subTest(options), self.assertRaises(ValueError) as raised:
                forebay.simulate(JOB, **options)
            self.assertIn(said, str(raised.exception))
        with self.assertRaises(ValueError):
            forebay.simulate("[r]\nrw=sideways\n")
        with self.assertRaises(TypeError):
            forebay.simulate(JOB, policies={"flush": object})

    @unittest.skipUnless(os.environ.get("FOREBAY"), "FOREBAY names no program to compare with")
    def test_the_figures_are_those_of_the_program(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "mixed.fio")
            path.write_text(MIXED)
            words = ["simulate", path, "--machine", "ssd-2014", "--seed", "7", "--json"]
            words += ["--policy", "throttle=paced"]
            printed = subprocess.check_output([os.environ["FOREBAY"], *words])
            policies = {"throttle": "paced"}
            result = forebay.simulate(path, "ssd-2014", policies, seed=7)
        *jobs, run = json.loads(printed)
        compared = 0
        rows = [{name: column[at] for name, column in result.jobs.items()} for at in range(2)]
        for expected, found in zip([*jobs, run], [*rows, result.run]):
            for name, value in found.items():
                if name not in expected or name == "job":
                    self.assertIn(name, ("job", "page_accesses", "page_hits"))
                elif expected[name] is None:
                    self.assertTrue(np.isnan(value), name)
                else:
                    self.assertAlmostEqual(value, expected[name], delta=0.006, msg=name)
                    compared += 1
        self.assertGreater(compared, 60)


class Tables(unittest.TestCase):
    def test_machines_have_numbers_with_their_sources(self):
        self.assertIn("nvme-2026", forebay.machines())
        machine = forebay.Machine("nvme-2026", {"device.delay": "77us"})
        self.assertEqual(machine.parameters()["device.delay"].value, 77_000)
        for name in forebay.machines():
            machine = forebay.Machine(name)
            self.assertTrue(machine.summary and machine.texts()["kernel.readahead"])
            for parameter in machine.parameters().values():
                self.assertLessEqual(parameter.low, parameter.high)
                self.assertTrue(parameter.source)

    def test_every_listed_policy_can_be_run(self):
        lines = forebay.policies()
        self.assertEqual({line.slot for line in lines}, set(forebay.SLOTS))
        job = "[r]\nrw=rw\nsize=256k\nbs=16k\n"
        for line in lines:
            with self.subTest(f"{line.slot}={line.name}"):
                result = forebay.simulate(job, policies={line.slot: line.name}, calls=False)
                self.assertEqual(result.run["reads"] + result.run["writes"], 16)
        self.assertEqual(forebay.policies("readahead")[0].name, "off")
        with self.assertRaises(ValueError):
            forebay.policies("nothing")


class Fixed:
    """What the compiled policy `fixed:max=8` does."""

    def on_read(self, access):
        return (access.page, 8) if access.found == "absent" else None


class Doubling:
    """A window that doubles as long as its marker is met."""

    def __init__(self):
        self.start, self.size = 0, 4

    def on_read(self, access):
        if access.found == "marked":
            self.start, self.size = self.start + self.size, min(2 * self.size, 64)
        else:
            self.start, self.size = access.page, 4
        return self.start, self.size, self.size


class PoliciesInPython(unittest.TestCase):
    def test_a_policy_in_python_is_the_compiled_one_call_by_call(self):
        for job in (JOB, "[r]\nrw=read\nsize=1M\nbs=4k\n", "[m]\nrw=read\nioengine=mmap\nsize=1M\n"):
            compiled = forebay.simulate(job, policies={"readahead": "fixed:max=8"})
            ours = forebay.simulate(job, policies={"readahead": Fixed})
            np.testing.assert_equal(compiled.run, ours.run)
            np.testing.assert_array_equal(compiled.calls["done_ns"], ours.calls["done_ns"])

    def test_a_marker_asks_for_the_next_window(self):
        job = "[r]\nrw=read\nsize=4M\nbs=4k\n"
        off = forebay.simulate(job, policies={"readahead": "off"}).run
        ours = forebay.simulate(job, policies={"readahead": Doubling}).run
        self.assertEqual(ours["pages_read"], 1024)
        self.assertLess(ours["requests"], off["requests"] / 10)
        self.assertLess(ours["elapsed_s"], off["elapsed_s"] / 2)

    def test_hits_are_shown_to_those_that_see_them(self):
        found = {}

        class Seeing(Fixed):
            sees_hits = True

            def on_read(self, access):
                found[access.found] = found.get(access.found, 0) + 1
                return super().on_read(access)

        forebay.simulate("[r]\nrw=read\nsize=256k\nbs=4k\n", policies={"readahead": Seeing})
        self.assertEqual(found, {"absent": 8, "present": 56})

    def test_runs_that_policies_start_lie_in_each_other_up_to_a_depth(self):
        depths = []

        def nested(call):
            class Nesting(Fixed):
                def __init__(self):
                    depths.append(1)
                    call(JOB, {"readahead": Nesting})

            depths.clear()
            with self.assertRaises(RecursionError):
                call(JOB, {"readahead": Nesting})
            self.assertEqual(len(depths), 16)

        nested(lambda job, policies: forebay.simulate(job, policies=policies))
        nested(lambda job, grid: forebay.sweep(job, grid=grid))

    def test_an_error_in_a_policy_ends_the_run(self):
        asked = []

        class Failing:
            def on_read(self, access):
                asked.append(access.page)
                if len(asked) == 3:
                    raise KeyError("the third")
                return None

        with self.assertRaises(KeyError):
            forebay.simulate(JOB, policies={"readahead": Failing})
        self.assertEqual(len(asked), 3)
        for answer in (3, "ab", (1,), (0, -1), (0, 8, 9), (0, 1 << 40), (1.5, 2)):
            policy = type("Odd", (), {"on_read": lambda self, access: answer})
            with self.subTest(answer), self.assertRaises((TypeError, ValueError)):
                forebay.simulate(JOB, policies={"readahead": policy})
        for policy in (object, lambda: 1 / 0, type("No", (), {"on_read": 7})):
            with self.assertRaises((AttributeError, TypeError, ZeroDivisionError)):
                forebay.simulate(JOB, policies={"readahead": policy})


class Even:
    """A pause of a millisecond for each 64th page above half of the background level."""

    def __init__(self):
        self.pages = 0

    def on_dirtied(self, dirtied):
        if dirtied.again or 2 * dirtied.dirty < dirtied.background:
            return None
        self.pages += 1
        return 0.001 if self.pages % 64 == 0 else None


class ThrottlesInPython(unittest.TestCase):
    JOB = "[w]\nrw=write\nsize=64M\nbs=64k\n"

    def test_a_throttle_in_python_pauses_writers(self):
        flush = "linux-6:limit_mib=32,background_mib=16"
        off = forebay.simulate(self.JOB, "ssd-2014", {"flush": flush, "throttle": "off"}).run
        ours = forebay.simulate(self.JOB, "ssd-2014", {"flush": flush, "throttle": Even}).run
        self.assertEqual((off["pauses"], off["writes"], ours["writes"]), (0, 1024, 1024))
        self.assertGreater(ours["pauses"], 10)
        self.assertAlmostEqual(ours["pause_max_us"], 1000)

        class Never:
            def on_dirtied(self, dirtied):
                return None

        never = forebay.simulate(self.JOB, "ssd-2014", {"flush": flush, "throttle": Never}).run
        np.testing.assert_equal(never, off)

    def test_an_error_in_a_throttle_ends_the_run(self):
        for answer in ("a", 0, -1.0, float("nan"), 61):
            policy = type("Odd", (), {"on_dirtied": lambda self, dirtied: answer})
            with self.subTest(answer), self.assertRaises((TypeError, ValueError)):
                forebay.simulate(self.JOB, policies={"throttle": policy})
        for policy in (object, lambda: 1 / 0, type("No", (), {"on_dirtied": 7})):
            with self.assertRaises((AttributeError, TypeError, ZeroDivisionError)):
                forebay.simulate(self.JOB, policies={"throttle": policy})


def interrupted(call):
    """Runs a call in another process, interrupts it at once, and returns what it said."""
    # A background job of a shell ignores the signal, and so would the child.
    handle = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"{handle}\nimport forebay; print(flush=True); forebay.{call}"
    words = [sys.executable, "-c", code]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        try:
            child.stdout.readline()
            child.send_signal(signal.SIGINT)
            return child.communicate(timeout=60)[1]
        finally:
            child.kill()


class Locks(unittest.TestCase):
    def test_other_threads_run_while_a_compiled_policy_does(self):
        running, counted = threading.Event(), []

        def count():
            running.wait()
            while running.is_set():
                counted.append(1)

        thread = threading.Thread(target=count)
        thread.start()
        # No Python runs in this call; with the lock held, the other thread could not count.
        running.set()
        before = len(counted)
        forebay.simulate("[r]\nrw=randread\nsize=64M\nbs=4k\n", calls=False)
        after = len(counted)
        running.clear()
        thread.join()
        self.assertGreater(after - before, 1000)

    def test_an_interrupt_ends_a_long_run(self):
        job = "[r]\nrw=randread\nsize=1G\nio_size=10T\nnorandommap=1\nbs=4k\n"
        self.assertIn(b"KeyboardInterrupt", interrupted(f"simulate({job!r}, calls=False)"))


class Sweeps(unittest.TestCase):
    GRID = {"readahead": ["off", "fixed:max=8"], "device.delay": ["50us", "100us"]}

    def test_a_sweep_has_a_row_for_each_point_whatever_the_threads(self):
        sweeps = [
            forebay.sweep([JOB, MIXED], ["vm-2026", "nvme-2026"], self.GRID, range(3), threads=n)
            for n in (1, 4)
        ]
        self.assertEqual(len(sweeps[0]["seed"]), 2 * 2 * 2 * 2 * 3)
        for name, column in sweeps[0].items():
            np.testing.assert_array_equal(np.asarray(column), np.asarray(sweeps[1][name]), name)
        last = forebay.simulate(
            MIXED, "nvme-2026", {"readahead": "fixed:max=8"}, {"device.delay": "100us"}, seed=2
        )
        self.assertEqual(sweeps[0]["read_p99_us"][-1], last.run["read_p99_us"])
        self.assertEqual(sweeps[0]["device.delay"][-1], "100us")

    def test_a_class_is_swept_beside_compiled_policies(self):
        grid = {"readahead": ["off", Fixed, "fixed:max=8"], "throttle": Even}
        rows = forebay.sweep([JOB, MIXED], grid=grid, seeds=range(2), threads=2)
        self.assertEqual(rows["readahead"], ["off", "off", "Fixed", "Fixed", *["fixed:max=8"] * 2] * 2)
        self.assertEqual(set(rows["throttle"]), {"Even"})
        for name, column in rows.items():
            if name != "readahead":
                for job in (0, 6):
                    ours, compiled = column[job + 2 : job + 4], column[job + 4 : job + 6]
                    np.testing.assert_array_equal(np.asarray(ours), np.asarray(compiled), name)
        self.assertTrue((rows["requests"][:2] != rows["requests"][2:4]).all())

    def test_an_error_in_a_class_ends_the_sweep(self):
        for threads in (1, 3):
            with self.assertRaises(ZeroDivisionError):
                forebay.sweep(JOB, grid={"readahead": lambda: 1 / 0}, seeds=range(100), threads=threads)

    def test_machines_with_settings_and_files_of_the_same_name_can_be_told_apart(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder, name, "job.fio") for name in "ab"]
            for path in paths:
                path.parent.mkdir()
                path.write_text(JOB)
            machines = [forebay.Machine("vm-2026", {"device.delay": delay}) for delay in ("1us", "9us")]
            rows = forebay.sweep(paths, machines)
        self.assertEqual(rows["input"], [str(paths[0])] * 2 + [str(paths[1])] * 2)
        self.assertEqual(rows["machine"][:2], ["vm-2026 device.delay=1us", "vm-2026 device.delay=9us"])

    def test_what_makes_policies_appears_under_a_name(self):
        class Making(Fixed):
            def func(self):
                return None

        given = [Making, functools.partial(Fixed), Fixed]
        with self.assertRaisesRegex(ValueError, "'Fixed' more than once"):
            forebay.sweep(JOB, grid={"readahead": given})
        rows = forebay.sweep(JOB, grid={"readahead": given[:2]})
        self.assertEqual(rows["readahead"], [Making.__qualname__, "Fixed"])

    def test_what_is_given_twice_is_refused(self):
        twin = type("Fixed", (Fixed,), {})
        for arguments in (
            {"seeds": [1, 1]},
            {"machines": ["vm-2026", "vm-2026"]},
            {"grid": {"readahead": ["off", "off"]}},
            {"grid": {"readahead": [Fixed, twin]}},
        ):
            with self.subTest(arguments), self.assertRaisesRegex(ValueError, "more than once"):
                forebay.sweep(JOB, **arguments)

    def test_what_cannot_be_swept_is_an_error(self):
        for grid in ({"flush": Fixed}, {"device.delay": Fixed}, {"throttle": [Fixed()]}):
            with self.subTest(grid), self.assertRaises((TypeError, ValueError)):
                forebay.sweep(JOB, grid=grid)
        with self.assertRaises(ValueError):
            forebay.sweep(JOB, grid={"readahead": ["of"]})
        with self.assertRaises(ValueError):
            forebay.sweep(JOB, grid={"device.dealy": [1]})
        self.assertEqual(len(forebay.sweep(JOB, seeds=[])["seed"]), 0)


MSR = "".join(
    f"{128166372003061629 + 10_000 * n},src1,{n % 2},{'Read' if n % 3 else 'Write'},{n * 4096},4096,10\n"
    for n in range(1000)
)


class Traces(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.path = Path(self.folder, "trace.csv")
        self.path.write_text(MSR)

    def tearDown(self):
        shutil.rmtree(self.folder)

    def test_a_trace_is_read_in_batches_more_than_once(self):
        trace = forebay.Trace(self.path, batch=300)
        self.assertEqual((trace.format, trace.layer), ("msr", "block"))
        for _ in range(2):
            batches = list(trace)
            self.assertEqual([len(batch["op"]) for batch in batches], [300, 300, 300, 100])
            self.assertEqual(trace.names, ["src1_0", "src1_1"])
        offsets = np.concatenate([batch["offset"] for batch in batches])
        np.testing.assert_array_equal(offsets, np.arange(1000) * 4096)
        times = np.concatenate([batch["time_ns"] for batch in batches])
        np.testing.assert_array_equal(times, np.arange(1000) * 1_000_000)
        self.assertEqual(forebay.OPS[batches[0]["op"][0]], "write")

    def test_a_trace_that_is_left_early_is_no_harm(self):
        for _ in range(20):
            next(iter(forebay.Trace(self.path, batch=1)))

    def test_bad_lines_are_said(self):
        self.path.write_text(MSR + "nonsense\n")
        with self.assertRaises(ValueError) as raised:
            list(forebay.Trace(self.path))
        self.assertIn("line 1001", str(raised.exception))
        trace = forebay.Trace(self.path, skip_bad=1)
        self.assertEqual(sum(len(batch["op"]) for batch in trace), 1000)
        self.assertIn("1 bad line or record skipped: line 1001", trace.warnings[-1])
        with self.assertRaises(FileNotFoundError):
            forebay.Trace("absent")
        with self.assertRaises(ValueError):
            forebay.Trace(self.path, "mrs")
        for call in (forebay.simulate, forebay.sweep):
            with self.assertWarnsRegex(UserWarning, "trace.csv: 1 bad line or record skipped: line 1001"):
                call(self.path, skip_bad=1)

    def test_iterations_have_names_of_their_own(self):
        trace = forebay.Trace(self.path, batch=500)
        first = iter(trace)
        next(first)
        names = trace.names
        list(trace)
        list(first)
        self.assertEqual((names, trace.names), (["src1_0", "src1_1"],) * 2)

    def test_what_is_no_regular_file_is_refused_and_not_waited_for(self):
        pipe = Path(self.folder, "pipe")
        os.mkfifo(pipe)
        for call in (forebay.simulate, forebay.sweep, forebay.Trace):
            for path in (pipe, self.folder):
                with self.subTest(call, path=path), self.assertRaisesRegex(ValueError, "no regular file"):
                    call(path)

    def test_an_interrupt_ends_a_survey_and_a_replay_of_large_requests(self):
        large = Path(self.folder, "large.csv")
        line = f"{128166372003061629},src1,0,Read,0,{256 << 20},10\n"
        large.write_text(line * 60_000)
        many = Path(self.folder, "many.csv")
        many.write_text(MSR * 1000)
        for call in (f"simulate({str(large)!r}, layer='cache')", f"sweep([{str(many)!r}])"):
            said = interrupted(call)
            self.assertIn(b"KeyboardInterrupt", said)

    def test_pauses_of_streams_are_counted(self):
        writes = Path(self.folder, "writes.csv")
        lines = (
            f"{128166372003061629 + 1000 * n},src1,0,Write,{n << 16},65536,10\n" for n in range(2000)
        )
        writes.write_text("".join(lines))
        flush = "linux-6:limit_mib=32,background_mib=16"
        run = lambda throttle: forebay.simulate(
            writes, "hdd-2026", {"throttle": throttle, "flush": flush}, layer="cache"
        ).run
        off, ours = run("off"), run(Even)
        self.assertEqual(off["pauses"], 0)
        self.assertGreater(ours["pauses"], 10)
        self.assertAlmostEqual(ours["pause_max_us"], 1000)
        self.assertTrue(0 < ours["paused_percent"] < 100)
        self.assertAlmostEqual(ours["pause_p99_us"], 1000, delta=20)

    def test_a_block_trace_is_replayed(self):
        result = forebay.simulate(self.path, "ssd-2014")
        self.assertEqual(result.jobs["job"], ["src1_0", "src1_1"])
        self.assertEqual(result.run["reads"] + result.run["writes"], 1000)
        self.assertIsNone(result.calls)
        closed = forebay.simulate(self.path, "ssd-2014", depth=4)
        self.assertLess(closed.run["elapsed_s"], result.run["elapsed_s"])
        for options in (
            {"policies": {"readahead": "off"}},
            {"policies": {"readahead": Fixed}},
            {"settings": {"device.capacity": "1MiB"}},
            {"speed": 0},
            {"depth": 0},
            {"devices": 0},
            {"layer": "file"},
            {"layer": "cache", "depth": 2},
            {"machine": ["ssd-2014"] * 3},
        ):
            with self.subTest(options), self.assertRaises(ValueError):
                forebay.simulate(self.path, **{"machine": "ssd-2014", **options})
        with self.assertRaises(FileNotFoundError):
            forebay.simulate([self.path, self.path.parent / "none"])

    def test_policies_in_python_take_part_above_the_page_cache(self):
        grid = {"readahead": ["fixed:max=8", Fixed], "reclaim": "lru"}
        compiled, ours = (
            forebay.simulate(self.path, policies={"readahead": policy, "reclaim": "lru"}, layer="cache")
            for policy in grid["readahead"]
        )
        np.testing.assert_equal(compiled.run, ours.run)
        self.assertGreater(ours.run["pages_read"], 0)
        rows = forebay.sweep([self.path, JOB], grid=grid, layer="cache")
        self.assertEqual(rows["input"], ["trace.csv"] * 2 + ["job 1"] * 2)
        for row in range(2):
            for name, value in ours.run.items():
                if name != "job":
                    np.testing.assert_equal(rows[name][row], value, name)

        class Odd(ValueError):
            pass

        class Failing:
            def on_read(self, access):
                raise Odd(access.page)

        for call in (forebay.simulate, forebay.sweep):
            key = "policies" if call is forebay.simulate else "grid"
            with self.assertRaises(Odd):
                call(self.path, layer="cache", **{key: {"readahead": Failing}})

    def test_traces_are_swept_as_they_are_replayed(self):
        grid = {"elevator": ["none", "mq-deadline"]}
        rows = forebay.sweep([self.path, JOB], "hdd-2026", grid, seeds=(1, 2), depth=4)
        self.assertEqual(rows["input"], ["trace.csv"] * 4 + ["job 1"] * 4)
        one = forebay.simulate(
            self.path, "hdd-2026", {"elevator": "mq-deadline"}, seed=2, depth=4
        ).run
        for name, value in one.items():
            if name != "job":
                np.testing.assert_equal(rows[name][3], value, name)
        self.assertTrue(np.isnan(rows["pauses"][:4]).all() and (rows["pauses"][4:] == 0).all())
        for grid in ({"readahead": "off"}, {"readahead": Fixed}):
            with self.assertRaises(ValueError) as raised:
                forebay.sweep(self.path, grid=grid)
            self.assertIn("layer='cache'", str(raised.exception))

    def test_several_traces_are_one_and_volumes_lie_on_several_machines(self):
        later = Path(self.folder, "later.csv")
        later.write_text(MSR.replace("src1", "hm"))
        result = forebay.simulate([self.path, later], ["nvme-2026", "desktop-2004"])
        self.assertEqual(result.jobs["job"], ["src1_0", "hm_0", "src1_1", "hm_1"])
        self.assertEqual(result.run["reads"] + result.run["writes"], 2000)
        fast, slow = result.jobs["read_mean_us"][0], result.jobs["read_mean_us"][1]
        self.assertGreater(slow, fast)

    def test_traces_of_file_calls_are_replayed_above_the_page_cache(self):
        log = Path(self.folder, "log")
        lines = ["0 /f add", "0 /f open", "10 /f write 0 65536", "20 /f read 0 65536"]
        lines += ["30 /f trim 0 65536", "40 /f read 0 4096", "50 /f close"]
        log.write_text("fio version 3 iolog\n" + "\n".join(lines) + "\n")
        run = forebay.simulate(log, "nvme-2026", {"readahead": "off"}).run
        self.assertEqual((run["reads"], run["writes"], run["discards"]), (2, 1, 1))
        # The discard has dropped the pages.
        self.assertEqual(run["pages_read"], 1)
        self.assertGreater(run["discard_mean_us"], 0)
        block = forebay.simulate(self.path, layer="cache").run
        self.assertEqual(block["page_accesses"], block["reads"])


if __name__ == "__main__":
    unittest.main()
