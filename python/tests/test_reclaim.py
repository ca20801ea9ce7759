"""Reclaim policies in Python."""

import collections
import unittest

import numpy as np

import forebay

MEMORY = {"memory.page_cache": "4MiB"}
READS = "[r]\nrw=randread\nsize=16M\nbs=4k\nio_size=24M\nnorandommap=1\nrandom_distribution=zipf:1.1\n"
MIXED = READS + "[w]\nrw=randwrite\nsize=8M\nbs=16k\nfsync=64\n[s]\nrw=read\nsize=8M\nbs=64k\n"
FOLIOS = "[s]\nrw=read\nsize=16M\nbs=128k\n[m]\nioengine=mmap\nrw=randread\nsize=16M\nbs=4k\n"


class Lru:
    """The page whose access is longest ago leaves; one that cannot goes to the front."""

    def __init__(self):
        self.pages = collections.OrderedDict()

    def on_added(self, page, origin):
        self.pages[page] = None

    def on_accessed(self, page, first):
        self.pages.move_to_end(page)

    def on_removed(self, page, evicted):
        del self.pages[page]

    def make_room(self, wanted):
        for _ in range(len(self.pages)):
            page = next(iter(self.pages))
            yield page
            if page in self.pages:
                self.pages.move_to_end(page)


class TwoLists:
    """What the compiled policy `two-lists` does."""

    def begin(self, frames):
        self.cluster = min(32, frames // 64)
        self.active, self.inactive = collections.OrderedDict(), collections.OrderedDict()
        # Pages that were accessed once; those that are active, or will be when they are clean.
        self.referenced, self.ranked = set(), set()

    def list_of(self, page):
        return self.active if page in self.ranked else self.inactive

    def on_added(self, page, origin):
        if origin == "write":
            self.referenced.add(page)
        self.inactive[page] = None

    def on_accessed(self, page, first):
        if page in self.referenced and page not in self.ranked:
            self.referenced.remove(page)
            self.ranked.add(page)
            if page in self.inactive:
                del self.inactive[page]
                self.active[page] = None
        else:
            self.referenced.add(page)

    def on_dirtied(self, page):
        del self.list_of(page)[page]

    def on_cleaned(self, page):
        self.list_of(page)[page] = None

    def on_removed(self, page, evicted):
        del self.list_of(page)[page]
        self.referenced.discard(page)
        self.ranked.discard(page)

    def deactivate(self):
        page, _ = self.active.popitem(last=False)
        self.referenced.discard(page)
        self.ranked.discard(page)
        self.inactive[page] = None
        return page

    def evictable(self):
        return len(self.inactive)

    def make_room(self, wanted):
        freed = 0
        for second in (False, True):
            least = wanted - freed if second else 0
            while len(self.active) > (0 if least > 0 else len(self.inactive)):
                self.deactivate()
                least -= 1
            unseen = len(self.inactive)
            while unseen > 0 and self.inactive:
                page, before = next(iter(self.inactive)), len(self.inactive)
                yield page
                if page in self.inactive:
                    self.inactive.move_to_end(page)
                    unseen -= 1
                else:
                    freed += before - len(self.inactive)
                    unseen -= before - len(self.inactive)
        while self.active:
            yield self.deactivate()


class Oldest:
    """The page that came first leaves: the fewest methods, and all pages at once."""

    def __init__(self):
        self.pages = {}

    def on_added(self, page, origin):
        self.pages[page] = origin

    def on_removed(self, page, evicted):
        del self.pages[page]

    def make_room(self, wanted):
        return list(self.pages)


class Cautious:
    """Readahead whose windows are as large as the pages that could leave allow."""

    def on_read(self, access):
        size = max(1, min(32, access.available_pages // 16))
        return (access.page, size) if access.found == "absent" else None


def simulate(job, reclaim, readahead=Cautious, **options):
    policies = {"reclaim": reclaim, "readahead": readahead}
    return forebay.simulate(job, "nvme-2026", policies, MEMORY, **options)


class ReclaimInPython(unittest.TestCase):
    def test_a_policy_in_python_is_the_compiled_one_call_by_call(self):
        for name, ours in (("lru", Lru), ("two-lists", TwoLists)):
            for job, readahead in ((READS, Cautious), (MIXED, Cautious), (FOLIOS, "linux-6.18")):
                with self.subTest(name, job=job):
                    expected = simulate(job, name, readahead)
                    found = simulate(job, ours, readahead)
                    self.assertGreater(expected.run["page_accesses"], 4096)
                    self.assertEqual(found.run["page_hits"], expected.run["page_hits"])
                    np.testing.assert_equal(found.run, expected.run)
                    for column, values in expected.calls.items():
                        np.testing.assert_array_equal(found.calls[column], values, column)

    def test_policies_differ_in_what_they_hit(self):
        hits = {policy: simulate(READS, policy).run["page_hits"] for policy in ("lru", Lru, Oldest)}
        self.assertEqual(hits["lru"], hits[Lru])
        self.assertNotEqual(hits[Oldest], hits[Lru])

    def test_a_policy_hears_of_every_page(self):
        policies = []

        class Counting(Oldest):
            cluster = 8

            def __init__(self):
                super().__init__()
                self.dirty, self.frames, self.wanted = set(), 0, set()
                self.heard = collections.Counter()
                policies.append(self)

            def begin(self, frames):
                self.frames = frames

            def on_added(self, page, origin):
                super().on_added(page, origin)
                self.heard[origin] += 1

            def on_accessed(self, page, first):
                self.heard["first" if first else "again"] += 1

            def on_dirtied(self, page):
                self.dirty.add(page)
                self.heard["dirtied"] += 1

            def on_cleaned(self, page):
                self.dirty.remove(page)

            def on_removed(self, page, evicted):
                super().on_removed(page, evicted)
                self.heard[evicted] += 1

            def make_room(self, wanted):
                self.wanted.add(wanted)
                return super().make_room(wanted)

        run = simulate(MIXED, Counting, calls=False).run
        (policy,) = policies
        heard = policy.heard
        self.assertEqual(policy.frames, 1024)
        self.assertEqual(policy.dirty, set())
        self.assertLessEqual(len(policy.pages), policy.frames)
        self.assertEqual(heard["read"] + heard["write"] - heard[True], len(policy.pages))
        self.assertEqual(heard["read"], run["pages_read"])
        self.assertGreater(min(heard[key] for key in ("write", "first", "again", "dirtied")), 0)
        self.assertGreaterEqual(min(policy.wanted), 9)

    def test_a_page_that_is_dirty_stays(self):
        offered = []

        class Recent(Lru):
            """Offers dirty pages first."""

            def __init__(self):
                super().__init__()
                self.dirty = set()

            def on_dirtied(self, page):
                self.dirty.add(page)

            def on_cleaned(self, page):
                self.dirty.discard(page)

            def on_removed(self, page, evicted):
                super().on_removed(page, evicted)
                assert page not in self.dirty

            def make_room(self, wanted):
                for page in list(self.dirty):
                    offered.append(page)
                    yield page
                yield from super().make_room(wanted)

        run = simulate(MIXED, Recent, calls=False).run
        self.assertGreater(len(offered), 0)
        self.assertEqual(run["writes"], 512)

    def test_an_error_ends_the_run_and_names_policy_and_method(self):
        class Fails(Oldest):
            pass

        def fails(*arguments):
            raise KeyError("the first")

        called = ("begin", "on_added", "on_accessed", "on_dirtied", "on_cleaned", "on_removed")
        for method in (*called, "make_room", "evictable"):
            policy = type("Fails", (Fails,), {method: fails})
            with self.subTest(method), self.assertRaises(KeyError) as raised:
                simulate(MIXED, policy)
            notes = getattr(raised.exception, "__notes__", [f"Fails.{method}"])
            self.assertIn(f"Fails.{method}", notes[0])

        class Later(Oldest):
            def make_room(self, wanted):
                yield next(iter(self.pages))
                raise ZeroDivisionError

        with self.assertRaises(ZeroDivisionError):
            simulate(READS, type("Later", (Later,), {"cluster": 4}))

    def test_answers_without_sense_are_errors(self):
        for answer, error, said in [
            (None, TypeError, "Odd.make_room answers with pages, each of them (file, page), not None"),
            (7, TypeError, "not 7"),
            ([7], TypeError, "Odd.make_room names a page as (file, page), not 7"),
            ("ab", TypeError, "not 'a'"),
            ([(0, -1)], TypeError, "not (0, -1)"),
            ([(0, 1.5)], TypeError, "not (0, 1.5)"),
            ([(0, 1 << 64)], TypeError, "not (0, 18446744073709551616)"),
            ([(1 << 32, 0)], TypeError, "not (4294967296, 0)"),
            ([(0, 1, 2)], TypeError, "not (0, 1, 2)"),
            ([(0, (1 << 64) - 1)], ValueError, "page (0, 18446744073709551615), which is not in memory"),
            ([(4_000_000_000, 0)], ValueError, "page (4000000000, 0), which is not in memory"),
            ([], ValueError, "Odd.make_room names 0 pages, after which there is no room"),
            ((), ValueError, "although others can leave"),
        ]:
            policy = type("Odd", (Oldest,), {"make_room": lambda self, wanted: answer})
            with self.subTest(answer), self.assertRaises(error) as raised:
                simulate(READS, policy)
            self.assertIn(said, str(raised.exception))
        for name, value, said in [
            ("cluster", -1, "Odd.cluster is a number of pages, not -1"),
            ("cluster", "many", "not 'many'"),
            ("evictable", lambda self: -1, "Odd.evictable answers with a number of pages, not -1"),
            ("on_accessed", 7, "Odd.on_accessed is a method, not 7"),
            ("make_room", None, "Odd.make_room is a method, not None"),
        ]:
            with self.subTest(name, value=value), self.assertRaises(TypeError) as raised:
                simulate(READS, type("Odd", (Oldest,), {name: value}))
            self.assertIn(said, str(raised.exception))
        for policy, said in [
            (object, "the policy object has no method on_added"),
            (Oldest(), "a class of which the run makes objects"),
        ]:
            with self.subTest(policy), self.assertRaises(TypeError) as raised:
                simulate(READS, policy)
            self.assertIn(said, str(raised.exception))

    def test_an_answer_without_end_ends(self):
        class Endless(Oldest):
            def __init__(self):
                super().__init__()
                self.dirty = {}

            def on_dirtied(self, page):
                self.dirty[page] = None

            def on_cleaned(self, page):
                del self.dirty[page]

            def make_room(self, wanted):
                while self.dirty:
                    yield next(iter(self.dirty))
                yield from super().make_room(wanted)

        with self.assertRaises(ValueError) as raised:
            simulate("[w]\nrw=randwrite\nsize=16M\nbs=4k\n", Endless)
        self.assertIn("pages in a row that cannot leave", str(raised.exception))


if __name__ == "__main__":
    unittest.main()
