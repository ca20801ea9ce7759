"""Page accesses a second of processor time through `simulate`, with compiled policies and one in Python.

    python python/benches/pages.py
"""

import time

import forebay

JOBS = {
    "scan, 128 KiB reads": "[r]\nrw=read\nsize=2G\nbs=128k\n",
    "scan, 4 KiB reads": "[r]\nrw=read\nsize=1G\nbs=4k\n",
    "cached, 128 KiB reads": "[r]\nrw=randread\nsize=64M\nbs=128k\nio_size=2G\nnorandommap=1\n",
    "cached, 4 KiB reads": "[r]\nrw=randread\nsize=64M\nbs=4k\nio_size=1G\nnorandommap=1\n",
    "random, 4 KiB reads": "[r]\nrw=randread\nsize=16G\nbs=4k\nnumber_ios=200000\n",
}


class Fixed:
    """`fixed:max=32`, in Python."""

    def on_read(self, access):
        return (access.page, 32) if access.found == "absent" else None


POLICIES = {"linux-6.18": "linux-6.18", "fixed:max=32": "fixed:max=32", "Fixed (Python)": Fixed}

if __name__ == "__main__":
    for job_name, job in JOBS.items():
        for name, policy in POLICIES.items():
            best = 0.0
            for _ in range(3):
                begin = time.process_time()
                run = forebay.simulate(
                    job, "nvme-2026", {"readahead": policy}, calls=False
                ).run
                took = time.process_time() - begin
                best = max(best, run["page_accesses"] / took / 1e6)
            print(f"{job_name:24} {name:16} {best:8.2f} million page accesses a second", flush=True)
