// SPDX-License-Identifier: GPL-2.0-only
/*
 * 000: random reads of several sizes, a stream, two streams by turns, and faults, under the kernel's
 * readahead and under that by the size of the request. Limit of 64 pages for both. A reader of
 * 200 MiB is killed.
 */
#define _GNU_SOURCE
#include "lab.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FILES 16
#define FILE_PAGES 2048
#define BYTES_MAX (1 << 20)
#define KILLED_NS_MAX 1700000000

#define RULE "/sys/block/lab0/bdi/read_ahead_rule"

static char buffer[BYTES_MAX];

static void record(const char *rule, const char *pattern, int pages, long asked,
		   struct traffic before, uint64_t start)
{
	uint64_t took = now() - start;
	struct traffic after = traffic();
	long read = (after.kib[0] - before.kib[0]) / 4;

	printf("@ windows rule=%s pattern=%s request_pages=%d asked=%ld read=%ld requests=%ld ms=%.2f\n",
	       rule, pattern, pages, asked, read, after.requests[0] - before.requests[0],
	       took / 1e6);
}

/* Each file of 8 MiB is a descriptor of its own on a part of the device. */
static void randomly(const char *rule, int pages)
{
	struct traffic before;
	uint64_t start;
	int fd[FILES], i;
	static unsigned char seen[FILES * FILE_PAGES];
	long asked = 0;

	cool();
	for (i = 0; i < FILES; i++)
		fd[i] = opened(DEVICE, O_RDONLY);
	for (i = 0; i < FILES * FILE_PAGES; i++)
		seen[i] = 0;
	seed(7);
	before = traffic();
	start = now();
	for (i = 0; i < 200; i++) {
		int file = below(FILES), k;
		long page = file * FILE_PAGES + below(FILE_PAGES / pages) * pages;

		if (pread(fd[file], buffer, (size_t)pages * PAGE, page * PAGE) != (long)pages * PAGE)
			die("cannot read the device");
		for (k = 0; k < pages; k++) {
			asked += !seen[page + k];
			seen[page + k] = 1;
		}
	}
	record(rule, "random", pages, asked, before, start);
	for (i = 0; i < FILES; i++)
		close(fd[i]);
}

static void streams(const char *rule, int count)
{
	int fd = opened(DEVICE, O_RDONLY), i, stream;
	struct traffic before;
	uint64_t start;

	cool();
	before = traffic();
	start = now();
	for (i = 0; i < 2048; i += 4)
		for (stream = 0; stream < count; stream++)
			if (pread(fd, buffer, 4 * PAGE, (i + stream * 20000L) * PAGE) != 4 * PAGE)
				die("cannot read the device");
	record(rule, count == 1 ? "stream" : "two-streams", 4, 2048L * count, before, start);
	close(fd);
}

static void faults(const char *rule)
{
	int fd = opened(DEVICE, O_RDONLY), i;
	struct traffic before;
	uint64_t start;
	volatile char *map = mmap(NULL, 128 << 20, PROT_READ, MAP_SHARED, fd, 0);
	long page = 0, asked = 0;

	if (map == MAP_FAILED)
		die("cannot map the device");
	cool();
	seed(9);
	before = traffic();
	start = now();
	/* A start of a program: runs of one to six pages, most of them further on. */
	for (i = 0; i < 300; i++) {
		int run = 1 + below(6), k;

		page = below(4) ? page + below(24) : below(30000);
		for (k = 0; k < run; k++, page++, asked++)
			(void)map[page * PAGE];
	}
	record(rule, "faults", 1, asked, before, start);
	munmap((void *)map, 128 << 20);
	close(fd);
}

/* A reader of 200 MiB that is killed after 50 ms is gone after a part of the 2 s that are left. */
static void killed(const char *rule)
{
	struct timespec delay = { 0, 50000000 };
	size_t bytes = 200 << 20;
	void *target = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t start, took;
	pid_t child;
	int status;

	if (target == MAP_FAILED)
		die("no memory");
	cool();
	child = fork();
	if (child == 0) {
		if (pread(opened(DEVICE, O_RDONLY), target, bytes, 0) < 0)
			_exit(1);
		_exit(0);
	}
	nanosleep(&delay, NULL);
	start = now();
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	took = now() - start;
	errno = ECHILD;
	if (!WIFSIGNALED(status))
		die("the reader ended by itself");
	printf("@ windows-killed rule=%s died_ms=%.1f\n", rule, took / 1e6);
	munmap(target, bytes);
	errno = ETIMEDOUT;
	if (took > KILLED_NS_MAX)
		die("a killed reader goes on");
}

static void run(int argc, char **argv)
{
	static const char *const rules[] = { "on-demand", "request-size" };
	static const int sizes[] = { 1, 4, 16, 32, 64, 128 };
	size_t rule, size;

	(void)argc;
	(void)argv;
	set_device("fast", "units", 1ULL, "delay_ns", 100000ULL, "unit_rate", 200000000ULL,
		   "link_rate", 0ULL, NULL);
	set(QUEUE "read_ahead_kb", "256");
	for (rule = 0; rule < 2; rule++) {
		set(RULE, "%s", rules[rule]);
		for (size = 0; size < 6; size++)
			randomly(rules[rule], sizes[size]);
		streams(rules[rule], 1);
		streams(rules[rule], 2);
		faults(rules[rule]);
	}
	set_device("fast", "delay_ns", 20000ULL, "unit_rate", 100000000ULL, NULL);
	for (rule = 0; rule < 2; rule++) {
		set(RULE, "%s", rules[rule]);
		killed(rules[rule]);
	}
}

const struct experiment windows = { "windows", run };
