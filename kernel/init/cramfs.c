// SPDX-License-Identifier: GPL-2.0-only
/*
 * 001: the start of a program in a cramfs image on a block device and in flash that is mapped, runs
 * of one to six pages at random places of its file, and a stream through all of it, with readahead
 * as it is, with bulk reads, and with the rest decoded in idle time. A decode, a fault and a switch
 * have prices.
 */
#define _GNU_SOURCE
#include "lab.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CRAMFS "/sys/module/cramfs/parameters/"
#define FLASH "/dev/mtd0"
#define RUNS 300

static void write_image(const char *device)
{
	static char buffer[65536];
	int from = opened("/image", O_RDONLY), to = opened(device, O_WRONLY);
	ssize_t bytes;

	while ((bytes = read(from, buffer, sizeof(buffer))) > 0)
		if (write(to, buffer, bytes) != bytes)
			die("cannot write the image");
	/* Flash has nothing to sync. */
	if (bytes < 0 || (fsync(to) && errno != EINVAL))
		die("cannot write the image");
	close(from);
	close(to);
}

/* What a start does before it goes on: so long the processor is idle for it. */
static void think(long us)
{
	struct timespec time = { 0, us * 1000 };

	nanosleep(&time, NULL);
}

/* A delay of zero is the flash. */
static void measured(const char *pattern, unsigned long long delay, long bulk, bool idle, long think_us)
{
	struct rusage before, after;
	struct traffic from, to;
	long decodes, idle_decodes, pages, at, used = 0;
	volatile unsigned char *map;
	unsigned long sum = 0;
	uint64_t start, took;
	struct stat status;
	char device[32] = "flash";
	int fd, i, k;

	if (delay) {
		set_device("fast", "delay_ns", delay, NULL);
		snprintf(device, sizeof(device), "%lluus", delay / 1000);
	}
	set(CRAMFS "bulk_pages", "%ld", bulk);
	set(CRAMFS "bulk_idle", "%d", idle);
	if (mount(delay ? DEVICE : "mtd0", "/mnt", "cramfs", MS_RDONLY, NULL))
		die("cannot mount the image");
	cool();
	fd = opened("/mnt/program", O_RDONLY);
	if (fstat(fd, &status))
		die("cannot look at the program");
	pages = (status.st_size + PAGE - 1) / PAGE;
	map = mmap(NULL, pages * PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		die("cannot map the program");
	seed(1);
	decodes = get(PRICE "decodes");
	idle_decodes = get(CRAMFS "idle_decodes");
	from = traffic();
	getrusage(RUSAGE_SELF, &before);
	start = now();
	if (*pattern == 's') {
		for (i = 0; i < RUNS; i++) {
			int run = 1 + below(6);

			at = below(pages);
			for (k = 0; k < run && at + k < pages; k++, used++)
				sum = sum * 31 + map[(at + k) * PAGE + 17];
			if (think_us)
				think(think_us);
		}
	} else {
		for (at = 0; at < pages; at++, used++)
			sum = sum * 31 + map[at * PAGE + 17];
	}
	took = now() - start - (*pattern == 's' ? RUNS * think_us * 1000ULL : 0);
	getrusage(RUSAGE_SELF, &after);
	to = traffic();
	printf("@ cramfs pattern=%s%s device=%s readahead=%s%s touched=%ld major_faults=%ld decodes=%ld in_idle_time=%ld requests=%ld kib=%ld kib_each=%.1f ms=%.2f sum=%016lx\n",
	       pattern, think_us ? "-that-thinks" : "", device, bulk ? "bulk" : "stock",
	       idle ? "+idle" : "", used, after.ru_majflt - before.ru_majflt,
	       get(PRICE "decodes") - decodes, get(CRAMFS "idle_decodes") - idle_decodes,
	       to.requests[0] - from.requests[0], to.kib[0] - from.kib[0],
	       (double)(to.kib[0] - from.kib[0]) / (to.requests[0] - from.requests[0] ?: 1),
	       took / 1e6, sum);
	munmap((void *)map, pages * PAGE);
	close(fd);
	if (umount("/mnt"))
		die("cannot unmount the image");
}

static void run(int argc, char **argv)
{
	static const unsigned long long delays[] = { 20000, 100000, 200000 };
	size_t delay;

	(void)argc;
	(void)argv;
	/* A sleep is to end when it is over. */
	prctl(PR_SET_TIMERSLACK, 1UL);
	mkdir("/mnt", 0755);
	set_device("fast", "units", 1ULL, "unit_rate", 200000000ULL, "link_rate", 0ULL, NULL);
	write_image(DEVICE);
	write_image(FLASH);
	set(PRICE "decode_ns", "50000");
	set(PRICE "fault_ns", "1000");
	set(PRICE "switch_ns", "3000");
	for (delay = 0; delay < 3; delay++) {
		measured("start", delays[delay], 0, false, 0);
		measured("start", delays[delay], 32, false, 0);
		measured("start", delays[delay], 32, true, 0);
	}
	measured("start", 20000, 0, false, 1000);
	measured("start", 20000, 32, false, 1000);
	measured("start", 20000, 32, true, 1000);
	measured("all", 20000, 0, false, 0);
	measured("all", 20000, 32, false, 0);
	measured("start", 0, 0, false, 0);
	measured("start", 0, 32, false, 0);
	measured("all", 0, 0, false, 0);
	measured("all", 0, 32, false, 0);
}

const struct experiment cramfs = { "cramfs", run };
