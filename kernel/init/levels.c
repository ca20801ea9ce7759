// SPDX-License-Identifier: GPL-2.0-only
/*
 * Stock writeback for the referee: a burst below the limits, eight writers with a region each, and
 * random overwrites by one. Limits in bytes: 64 MiB, 32 MiB in the background. A sampler reads the
 * dirty level every 10 ms. A write takes no time unless its writer is held.
 *
 *   levels [LOAD [START]]     one load alone, from START us after boot on
 */
#define _GNU_SOURCE
#include "lab.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PACE "/sys/module/writeback_pace/parameters/"
#define SAMPLE_NS 10000000
#define WRITERS_MAX 8
/* The first ticks after boot are irregular. */
#define START_US 100000

struct shared {
	uint64_t written, samples, level;
	uint64_t held[WRITERS_MAX], longest[WRITERS_MAX];
};

static long dirty_pages(FILE *file)
{
	char line[128];
	long pages = 0, value;

	rewind(file);
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "nr_dirty %ld", &value) == 1 ||
		    sscanf(line, "nr_writeback %ld", &value) == 1)
			pages += value;
	return pages;
}

static void sampler(volatile struct shared *shared)
{
	struct timespec pause = { 0, SAMPLE_NS };
	FILE *file = fopen("/proc/vmstat", "r");

	if (!file)
		die("cannot read the dirty level");
	setvbuf(file, NULL, _IOFBF, 8192);
	while (!shared->written) {
		shared->level += dirty_pages(file);
		shared->samples++;
		nanosleep(&pause, NULL);
	}
	fclose(file);
}

static void writer(struct shared *shared, int number, int writers, int writes, bool random)
{
	int fd = opened(DEVICE, O_RDWR), i;
	long pages = (128 << 8) / writers, first = number * pages;
	static char page[PAGE];

	seed(200 + number);
	for (i = 0; i < writes; i++) {
		long at = first + (random ? (long)below(pages) : i % pages);
		uint64_t begin = now(), took;

		if (pwrite(fd, page, PAGE, at * PAGE) != PAGE)
			die("cannot write the device");
		took = now() - begin;
		/* Looks at the clock take some nanoseconds. */
		if (took < 1000)
			continue;
		shared->held[number] += took;
		if (took > shared->longest[number])
			shared->longest[number] = took;
	}
	close(fd);
}

static void measured(const char *name, int writers, int writes, bool random, uint64_t from)
{
	struct shared *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int fd = opened(DEVICE, O_RDWR), i, status;
	const struct timespec begin = { from / 1000000000, from % 1000000000 };
	uint64_t held = 0, most = 0, longest = 0;
	struct traffic before, after;
	long pauses;
	uint64_t start, durable;
	pid_t watcher;

	if (shared == MAP_FAILED)
		die("no memory");
	cool();
	set_device("fast", NULL);
	pauses = get(PACE "pauses");
	before = traffic();
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &begin, NULL);
	start = now();
	watcher = fork();
	if (watcher == 0) {
		sampler(shared);
		_exit(0);
	}
	for (i = 0; i < writers; i++) {
		if (fork() == 0) {
			writer(shared, i, writers, writes, random);
			_exit(0);
		}
	}
	for (i = 0; i < writers; i++)
		if (wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status))
			die("a writer failed");
	shared->written = now() - start;
	if (fsync(fd))
		die("cannot sync the device");
	durable = now() - start;
	after = traffic();
	waitpid(watcher, &status, 0);
	for (i = 0; i < writers; i++) {
		held += shared->held[i];
		if (shared->held[i] > most)
			most = shared->held[i];
		if (shared->longest[i] > longest)
			longest = shared->longest[i];
	}
	printf("@ levels load=%s writers=%d writes=%d start_us=%llu written_ms=%.1f durable_ms=%.1f pauses=%ld held_ms=%.1f most_held_ms=%.1f longest_ms=%.1f kib=%ld level_kib=%ld\n",
	       name, writers, writes, (unsigned long long)from / 1000, shared->written / 1e6,
	       durable / 1e6, get(PACE "pauses") - pauses, held / 1e6, most / 1e6, longest / 1e6,
	       after.kib[1] - before.kib[1],
	       (long)(shared->level * 4 / (shared->samples ?: 1)));
	munmap(shared, PAGE);
	close(fd);
}

static void run(int argc, char **argv)
{
	/* The device's measured bandwidth outlives a load: the referee asks for one in each boot. */
	const char *only = argc > 1 ? argv[1] : "";
	uint64_t from = (argc > 2 ? strtoul(argv[2], NULL, 10) : START_US) * 1000ULL;

	set_device("fast", "units", 1ULL, "delay_ns", 20000ULL, "unit_rate", 100000000ULL,
		   "link_rate", 0ULL, NULL);
	set("/proc/sys/vm/dirty_bytes", "%d", 64 << 20);
	set("/proc/sys/vm/dirty_background_bytes", "%d", 32 << 20);
	if (!*only || !strcmp(only, "burst"))
		measured("burst", 1, 5000, false, from);
	if (!*only || !strcmp(only, "eight"))
		measured("eight", 8, 8000, false, from);
	if (!*only || !strcmp(only, "random"))
		measured("random", 1, 60000, true, from);
}

const struct experiment levels = { "levels", run };
