// SPDX-License-Identifier: GPL-2.0-only
/*
 * 004: half a minute of phases (idle, reads, writes, both) with the knobs of writeback as they are
 * and with knobs that follow the load.
 */
#define _GNU_SOURCE
#include "lab.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define DYN "/sys/module/writeback_dyn/parameters/"
#define PAGES (128 << 8)
#define PHASE_SECONDS 6

static char page[PAGE];

static void sleep_ns(uint64_t ns)
{
	struct timespec time = { ns / 1000000000, ns % 1000000000 };

	nanosleep(&time, NULL);
}

static void phase(const char *knobs, const char *name, bool reads, bool writes)
{
	int fd = opened(DEVICE, O_RDWR);
	struct traffic before = traffic(), after;
	uint64_t end = now() + PHASE_SECONDS * 1000000000ULL, longest = 0, begin, took;
	long done = 0;

	posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
	while ((begin = now()) < end) {
		if (!reads && !writes) {
			sleep_ns(100000000);
			continue;
		}
		if (writes && pwrite(fd, page, PAGE, below(PAGES) * PAGE) != PAGE)
			die("cannot write the device");
		if (reads && pread(fd, page, PAGE, below(PAGES) * PAGE) != PAGE)
			die("cannot read the device");
		took = now() - begin;
		if (took > longest)
			longest = took;
		done++;
		/* A task that thinks: ten thousand accesses a second at most. */
		sleep_ns(100000);
	}
	after = traffic();
	printf("@ dyn knobs=%s phase=%s accesses=%ld longest_us=%.1f reads=%ld writes=%ld load_permille=%ld share_permille=%ld dirty_ratio=%ld background_ratio=%ld interval_cs=%ld\n",
	       knobs, name, done, longest / 1e3, after.requests[0] - before.requests[0],
	       after.requests[1] - before.requests[1], get(DYN "load"), get(DYN "share"),
	       get("/proc/sys/vm/dirty_ratio"), get("/proc/sys/vm/dirty_background_ratio"),
	       get("/proc/sys/vm/dirty_writeback_centisecs"));
	close(fd);
}

static void run(int argc, char **argv)
{
	int on;

	(void)argc;
	(void)argv;
	set_device("fast", "units", 1ULL, "delay_ns", 100000ULL, "unit_rate", 100000000ULL,
		   "link_rate", 0ULL, NULL);
	for (on = 0; on < 2; on++) {
		const char *knobs = on ? "dyn" : "stock";

		cool();
		seed(4);
		set(DYN "enabled", "%d", on);
		phase(knobs, "idle", false, false);
		phase(knobs, "reads", true, false);
		phase(knobs, "writes", false, true);
		phase(knobs, "both", true, true);
		phase(knobs, "idle", false, false);
	}
	set(DYN "enabled", "0");
	printf("@ dyn-restored dirty_ratio=%ld background_ratio=%ld interval_cs=%ld turns=%ld\n",
	       get("/proc/sys/vm/dirty_ratio"), get("/proc/sys/vm/dirty_background_ratio"),
	       get("/proc/sys/vm/dirty_writeback_centisecs"), get(DYN "turns"));
}

const struct experiment dyn = { "dyn", run };
