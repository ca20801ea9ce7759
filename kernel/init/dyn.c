// SPDX-License-Identifier: GPL-2.0-only
/*
 * 004: half a minute of phases (idle, reads, writes, both) with the knobs of writeback as they are
 * and with knobs that follow the load; limits in bytes; requests that take seconds. For the
 * referee, `dyn seconds`, two minutes of phases that a generator draws, and after each second what
 * the kernel saw and what the knobs are then.
 */
#define _GNU_SOURCE
#include "lab.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DYN "/sys/module/writeback_dyn/parameters/"
#define VM "/proc/sys/vm/"
#define PAGES (128 << 8)
#define PHASE_SECONDS 6
#define DRAWN_SECONDS 120

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

/* Accesses with a share of writes and a pause between two that are drawn every second or so. */
static void drawn(void)
{
	int fd = opened(DEVICE, O_RDWR);
	uint64_t until = 0, writes = 0, pause = 0;

	seed(44);
	posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
	for (;;) {
		if (now() >= until) {
			until = now() + 100000000 + below(3000000000);
			writes = below(3) ? below(101) : 100 * below(2);
			pause = below(4) ? 50000 + below(3000000) : 500000000;
		}
		/* Writes that reach the device at once, so that they are in the second's count. */
		if (below(100) < writes) {
			if (pwrite(fd, page, PAGE, below(PAGES) * PAGE) != PAGE || fdatasync(fd))
				die("cannot write the device");
		} else if (pread(fd, page, PAGE, below(PAGES) * PAGE) != PAGE) {
			die("cannot read the device");
		}
		sleep_ns(pause);
	}
}

/* Prints each second of the policy while a child loads the device. */
static void seconds(void)
{
	unsigned long number, last = 0, elapsed, disks, busy, reads, writes;
	pid_t child;
	FILE *file;

	set(DYN "enabled", "1");
	child = fork();
	if (child == 0)
		drawn();
	while (last < DRAWN_SECONDS) {
		sleep_ns(100000000);
		file = fopen(DYN "second", "r");
		if (!file || fscanf(file, "%lu %lu %lu %lu %lu %lu", &number, &elapsed, &disks, &busy,
				    &reads, &writes) != 6)
			die("cannot read the last second");
		fclose(file);
		if (number == last)
			continue;
		if (number != last + 1)
			die("a second was missed");
		last = number;
		printf("@ dyn-second number=%lu elapsed=%lu disks=%lu busy=%lu reads=%lu writes=%lu dirty_ratio=%ld background_ratio=%ld interval_cs=%ld\n",
		       number, elapsed, disks, busy, reads, writes, get("/proc/sys/vm/dirty_ratio"),
		       get("/proc/sys/vm/dirty_background_ratio"),
		       get("/proc/sys/vm/dirty_writeback_centisecs"));
	}
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	set(DYN "enabled", "0");
}

/* Limits that were found in bytes come back in bytes, though they were ratios in between. */
static void in_bytes(void)
{
	long turned;

	set(VM "dirty_bytes", "%d", 64 << 20);
	set(VM "dirty_background_bytes", "%d", 16 << 20);
	set(DYN "enabled", "1");
	set(VM "dirty_ratio", "20");
	set(VM "dirty_background_ratio", "10");
	sleep_ns(3500000000);
	turned = get(VM "dirty_ratio");
	set(DYN "enabled", "0");
	printf("@ dyn-bytes turned_ratio=%ld dirty_ratio=%ld dirty_bytes=%ld background_ratio=%ld background_bytes=%ld\n",
	       turned, get(VM "dirty_ratio"), get(VM "dirty_bytes"),
	       get(VM "dirty_background_ratio"), get(VM "dirty_background_bytes"));
	errno = ERANGE;
	if (get(VM "dirty_bytes") != 64 << 20 || get(VM "dirty_background_bytes") != 16 << 20)
		die("limits in bytes are not restored");
	set(VM "dirty_ratio", "20");
	set(VM "dirty_background_ratio", "10");
}

/* A device that is busy all the time with reads of 2.5 s has a load of one. */
static void slow(void)
{
	void *buffer;
	pid_t child;
	int i, fd;

	set_device("fast", "delay_ns", 2500000000ULL, NULL);
	child = fork();
	if (child == 0) {
		fd = opened(DEVICE, O_RDONLY | O_DIRECT);
		if (posix_memalign(&buffer, PAGE, PAGE))
			die("no memory");
		for (i = 0; i < 4; i++)
			if (pread(fd, buffer, PAGE, i * PAGE) != PAGE)
				die("cannot read the device");
		_exit(0);
	}
	sleep_ns(100000000);
	set(DYN "enabled", "1");
	sleep_ns(3500000000);
	printf("@ dyn-slow load_permille=%ld\n", get(DYN "load"));
	errno = ERANGE;
	if (get(DYN "load") != 1000)
		die("requests of more than a second are missed");
	set(DYN "enabled", "0");
	waitpid(child, NULL, 0);
}

static void run(int argc, char **argv)
{
	int on;

	set_device("fast", "units", 1ULL, "delay_ns", 100000ULL, "unit_rate", 100000000ULL,
		   "link_rate", 0ULL, NULL);
	if (argc > 1 && !strcmp(argv[1], "seconds")) {
		seconds();
		return;
	}
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
	in_bytes();
	slow();
}

const struct experiment dyn = { "dyn", run };
