// SPDX-License-Identifier: GPL-2.0-only
/*
 * 002: random overwrites of 4 KiB through the page cache, faster than the device: how long single
 * writes take, how long all of it does, and until it is durable. One writer, then eight.
 */
#define _GNU_SOURCE
#include "lab.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PACE "/sys/module/writeback_pace/parameters/"
#define PAGES (160 << 8)

struct shared {
	uint64_t longest, written;
};

static void writer(struct shared *shared, int number, int writes)
{
	int fd = opened(DEVICE, O_RDWR), i;
	static char page[PAGE];

	seed(100 + number);
	for (i = 0; i < writes; i++) {
		uint64_t begin = now(), took;

		if (pwrite(fd, page, PAGE, below(PAGES) * PAGE) != PAGE)
			die("cannot write the device");
		took = now() - begin;
		if (took > shared->longest)
			shared->longest = took;
	}
	if (now() > shared->written)
		shared->written = now();
	close(fd);
}

static void measured(const char *policy, int writers, int writes)
{
	struct shared *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct traffic before, after;
	long pauses, paused;
	uint64_t start, written, durable;
	int fd = opened(DEVICE, O_RDWR), i, status;

	if (shared == MAP_FAILED)
		die("no memory");
	cool();
	set_device("fast", NULL);
	set(PACE "policy", "%s", policy);
	set(PACE "longest_us", "0");
	pauses = get(PACE "pauses");
	paused = get(PACE "pause_us");
	before = traffic();
	start = now();
	for (i = 0; i < writers; i++) {
		if (fork() == 0) {
			writer(shared, i, writes);
			_exit(0);
		}
	}
	while (wait(&status) > 0)
		if (!WIFEXITED(status) || WEXITSTATUS(status))
			die("a writer failed");
	written = shared->written - start;
	if (fsync(fd))
		die("cannot sync the device");
	durable = now() - start;
	after = traffic();
	printf("@ writers policy=%s writers=%d written_ms=%.1f durable_ms=%.1f longest_write_us=%.1f pauses=%ld paused_ms=%.1f longest_pause_us=%ld requests=%ld kib=%ld\n",
	       policy, writers, written / 1e6, durable / 1e6, shared->longest / 1e3,
	       get(PACE "pauses") - pauses, (get(PACE "pause_us") - paused) / 1e3,
	       get(PACE "longest_us"), after.requests[1] - before.requests[1],
	       after.kib[1] - before.kib[1]);
	set(PACE "policy", "linux");
	munmap(shared, PAGE);
	close(fd);
}

static void run(int argc, char **argv)
{
	static const char *const policies[] = { "linux", "off", "paced" };
	size_t policy;

	(void)argc;
	(void)argv;
	set_device("fast", "units", 1ULL, "delay_ns", 20000ULL, "unit_rate", 200000000ULL,
		   "link_rate", 0ULL, NULL);
	for (policy = 0; policy < 3; policy++)
		measured(policies[policy], 1, 80000);
	for (policy = 0; policy < 3; policy++)
		measured(policies[policy], 8, 10000);
}

const struct experiment writers = { "writers", run };
