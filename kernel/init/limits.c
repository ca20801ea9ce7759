// SPDX-License-Identifier: GPL-2.0-only
/*
 * 002 where its policies keep out of the way: random overwrites of 4 KiB by four writers of a memory
 * cgroup, by four writers of a device with strict limits, and by one that must not wait
 * (RWF_NOWAIT, as io_uring asks) and tries again after 10 ms when it is told so.
 *
 *   limits CASE POLICY [START]     of one load in a boot: what was learnt of the device outlives it
 */
#define _GNU_SOURCE
#include "lab.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PACE "/sys/module/writeback_pace/parameters/"
#define BDI "/sys/block/lab0/bdi/"
#define GROUPS "/groups/"
#define GROUP GROUPS "writers/"
#define PAGES (128 << 8)
#define WRITERS 4
/* Of all writers. */
#define WRITES 30000
#define RETRY_NS 10000000
#define SAMPLE_NS 10000000
#define START_US 100000

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 8
#endif

struct shared {
	uint64_t longest, again, most;
	bool over;
};

static void writer(struct shared *shared, int number, bool waits)
{
	const struct timespec retry = { 0, RETRY_NS };
	int fd = opened(DEVICE, O_RDWR), i;
	static char page[PAGE];

	seed(300 + number);
	for (i = 0; i < WRITES / (waits ? WRITERS : 1); i++) {
		struct iovec part = { page, PAGE };
		off_t at = below(PAGES) * PAGE;
		uint64_t begin = now(), took;

		while (pwritev2(fd, &part, 1, at, waits ? 0 : RWF_NOWAIT) != PAGE) {
			if (waits || errno != EAGAIN)
				die("cannot write the device");
			shared->again++;
			nanosleep(&retry, NULL);
			begin = now();
		}
		took = now() - begin;
		if (took > shared->longest)
			shared->longest = took;
	}
	close(fd);
}

/* Dirty pages, those under writeback included, of all or of the group. */
static long dirty_kib(bool of_group)
{
	FILE *file = fopen(of_group ? GROUP "memory.stat" : "/proc/vmstat", "r");
	long sum = 0, value;
	char line[128];

	if (!file)
		die("cannot read the dirty level");
	while (fgets(line, sizeof(line), file)) {
		if (of_group && (sscanf(line, "file_dirty %ld", &value) == 1 ||
				 sscanf(line, "file_writeback %ld", &value) == 1))
			sum += value / 1024;
		else if (!of_group && (sscanf(line, "nr_dirty %ld", &value) == 1 ||
				       sscanf(line, "nr_writeback %ld", &value) == 1))
			sum += value * 4;
	}
	fclose(file);
	return sum;
}

static void sampler(volatile struct shared *shared, bool of_group)
{
	const struct timespec pause = { 0, SAMPLE_NS };

	while (!shared->over) {
		uint64_t level = dirty_kib(of_group);

		if (level > shared->most)
			shared->most = level;
		nanosleep(&pause, NULL);
	}
}

static void make_group(void)
{
	mkdir(GROUPS, 0755);
	if (mount("cgroup2", GROUPS, "cgroup2", 0, NULL))
		die("cannot mount the control groups");
	set(GROUPS "cgroup.subtree_control", "+memory +io");
	if (mkdir(GROUP, 0755))
		die("cannot make a control group");
	set(GROUP "memory.max", "%d", 64 << 20);
}

static void run_one(const char *name, const char *policy, uint64_t from)
{
	struct shared *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	const struct timespec begin = { from / 1000000000, from % 1000000000 };
	bool grouped = !strcmp(name, "memcg"), waits = strcmp(name, "nowait");
	int fd = opened(DEVICE, O_RDWR), writers = waits ? WRITERS : 1, i, status;
	struct traffic before, after;
	uint64_t start, written;
	pid_t watcher;

	if (shared == MAP_FAILED)
		die("no memory");
	set_device("fast", "units", 1ULL, "delay_ns", 20000ULL, "unit_rate", 100000000ULL,
		   "link_rate", 0ULL, NULL);
	if (grouped)
		make_group();
	if (!strcmp(name, "strict")) {
		set(BDI "strict_limit", "1");
		set(BDI "max_ratio", "50");
	}
	set("/proc/sys/vm/dirty_bytes", "%d", 64 << 20);
	set("/proc/sys/vm/dirty_background_bytes", "%d", 32 << 20);
	set(PACE "policy", "%s", policy);
	cool();
	before = traffic();
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &begin, NULL);
	start = now();
	watcher = fork();
	if (watcher == 0) {
		sampler(shared, grouped);
		_exit(0);
	}
	for (i = 0; i < writers; i++) {
		if (fork() == 0) {
			if (grouped)
				set(GROUP "cgroup.procs", "%d", getpid());
			writer(shared, i, waits);
			_exit(0);
		}
	}
	for (i = 0; i < writers; i++)
		if (wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status))
			die("a writer failed");
	written = now() - start;
	shared->over = true;
	waitpid(watcher, &status, 0);
	if (fsync(fd))
		die("cannot sync the device");
	after = traffic();
	printf("@ limits case=%s policy=%s written_ms=%.1f longest_write_us=%.1f refused=%llu pauses=%ld paused_ms=%.1f most_dirty_kib=%llu kib=%ld\n",
	       name, policy, written / 1e6, shared->longest / 1e3,
	       (unsigned long long)shared->again, get(PACE "pauses"), get(PACE "pause_us") / 1e3,
	       (unsigned long long)shared->most, after.kib[1] - before.kib[1]);
	close(fd);
}

static void run(int argc, char **argv)
{
	if (argc < 3) {
		errno = EINVAL;
		die("a case and a policy are missing");
	}
	run_one(argv[1], argv[2], (argc > 3 ? strtoul(argv[3], NULL, 10) : START_US) * 1000ULL);
}

const struct experiment limits = { "limits", run };
