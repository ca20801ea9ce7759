# %% [markdown]
# # Which readahead window suits a device that serves scans and page faults?
#
# A scan wants a large window, and a program that touches pages of a mapped file at random pays for it:
# each fault reads a window around its page. How large is the smallest window with which a scan
# reaches 95 % of its best throughput, and what does a fault cost then?
#
# Run it as it is, or open it as a notebook (Jupytext, VS Code, Spyder). A test runs it.

# %%
import numpy as np

import forebay

SCAN = "[scan]\nrw=read\nsize=64M\nbs=16k\n"
FAULTS = "[faults]\nioengine=mmap\nrw=randread\nsize=16G\nbs=4k\nnumber_ios=500\nfadvise_hint=0\n"
WINDOWS = [16, 64, 256, 1024, 4096]
MACHINES = ["hdd-2026", "ssd-2014", "nvme-2026"]
KEY = "kernel.read_ahead_kb"

rows = forebay.sweep([SCAN, FAULTS], MACHINES, {KEY: WINDOWS}, seeds=range(3))

# %% [markdown]
# Columns are NumPy arrays, so a mean over seeds is a reshape: the seed varies fastest.


# %%
def means(column):
    """By job, machine and window."""
    return rows[column].reshape(2, len(MACHINES), len(WINDOWS), -1).mean(axis=3)


throughput, fault = means("throughput_mb_s")[0], means("read_p50_us")[1]

answers = {}
for place, machine in enumerate(MACHINES):
    enough = throughput[place] >= 0.95 * throughput[place].max()
    window = int(np.argmax(enough))
    answers[machine] = WINDOWS[window]
    price = fault[place, window] / fault[place, 0]
    print(
        f"{machine}: {WINDOWS[window]} KiB: a scan at {throughput[place, window]:.0f} MB/s, "
        f"a fault in {fault[place, window]:.0f} us, {price:.1f} x that of {WINDOWS[0]} KiB"
    )

# %% [markdown]
# The largest window that is offered, 4 MiB, is what some virtual disks have. What it costs:

# %%
for place, machine in enumerate(MACHINES):
    print(f"{machine}: a fault with 4 MiB takes {fault[place, -1] / fault[place, 0]:.1f} x as long")

# %% [markdown]
# Can a policy have both? A prototype in Python: faults bring their page alone until three in a row
# are neighbours; reads keep a window that doubles. It scans as fast as the best window, and its faults
# are no slower than with the smallest one.


# %%
class Careful:
    """A window that grows while accesses are sequential, and nothing around a random fault."""

    def __init__(self):
        self.expected, self.run, self.size, self.end = None, 0, 4, 0

    def on_read(self, access):
        is_next = self.expected is not None and 0 <= access.page - self.expected <= self.size
        self.run = self.run + 1 if is_next else 0
        self.expected = access.page + 1
        if access.fault and self.run < 3:
            return None
        if access.found == "marked":
            start, self.size = self.end, min(2 * self.size, 256)
            self.end = start + self.size
            return start, self.size, self.size
        if not is_next:
            self.size = min(max(4, access.remaining), 256)
        self.end = access.page + self.size
        return access.page, self.size, self.size // 2


prototype = {}
for machine in MACHINES:
    runs = [forebay.simulate(job, machine, {"readahead": Careful}).run for job in (SCAN, FAULTS)]
    prototype[machine] = runs[0]["throughput_mb_s"], runs[1]["read_p50_us"]
    print(
        f"{machine}: the prototype scans at {prototype[machine][0]:.0f} MB/s "
        f"and takes {prototype[machine][1]:.0f} us for a fault"
    )
