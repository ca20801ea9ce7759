// SPDX-License-Identifier: GPL-2.0-only
/*
 * 003: 2,000 random reads of 4 KiB on devices of several latencies, a switch priced 3 us: buffered,
 * through a mapping and with O_DIRECT, under each dispatch.
 */
#define _GNU_SOURCE
#include "lab.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define READS 2000
#define PAGES (128 << 8)

enum way { BUFFERED, MAPPED, DIRECT };

static const char *const ways[] = { "read", "fault", "direct" };

static void measured(enum way way, unsigned long long delay, const char *mode)
{
	int fd = opened(DEVICE, O_RDONLY | (way == DIRECT ? O_DIRECT : 0)), i;
	struct rusage before, after;
	volatile char *map = NULL;
	uint64_t start, took;
	void *buffer;
	char text[128] = "";
	int state;

	cool();
	set_device("fast", "delay_ns", delay, NULL);
	set(QUEUE "dispatch", "%s", mode);
	if (posix_memalign(&buffer, PAGE, PAGE))
		die("no memory");
	posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
	if (way == MAPPED) {
		map = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ, MAP_SHARED, fd, 0);
		if (map == MAP_FAILED)
			die("cannot map the device");
		madvise((void *)map, (size_t)PAGES * PAGE, MADV_RANDOM);
	}
	seed(3);
	getrusage(RUSAGE_SELF, &before);
	start = now();
	for (i = 0; i < READS; i++) {
		uint64_t page = below(PAGES);

		if (way == MAPPED)
			(void)map[page * PAGE];
		else if (pread(fd, buffer, PAGE, page * PAGE) != PAGE)
			die("cannot read the device");
	}
	took = now() - start;
	getrusage(RUSAGE_SELF, &after);
	state = opened(QUEUE "dispatch", O_RDONLY);
	if (read(state, text, sizeof(text) - 1) < 0)
		die("cannot read the dispatch");
	close(state);
	set(QUEUE "dispatch", "sleep");
	printf("@ dispatch way=%s device_us=%llu mode=%s switches=%ld major_faults=%ld ms=%.2f us_each=%.2f\n",
	       ways[way], delay / 1000, mode, after.ru_nvcsw - before.ru_nvcsw,
	       after.ru_majflt - before.ru_majflt, took / 1e6, took / 1e3 / READS);
	if (map)
		munmap((void *)map, (size_t)PAGES * PAGE);
	free(buffer);
	close(fd);
}

static void run(int argc, char **argv)
{
	static const unsigned long long delays[] = { 2000, 5000, 20000, 100000 };
	static const char *const modes[] = { "sleep", "spin", "adaptive" };
	size_t way, delay, mode;

	(void)argc;
	(void)argv;
	set_device("fast", "units", 1ULL, "unit_rate", 0ULL, "link_rate", 0ULL, NULL);
	set(PRICE "switch_ns", "3000");
	set("/sys/module/blk_dispatch/parameters/switch_ns", "3000");
	for (way = BUFFERED; way <= DIRECT; way++)
		for (delay = 0; delay < 4; delay++)
			for (mode = 0; mode < 3; mode++)
				measured(way, delays[delay], modes[mode]);
}

const struct experiment dispatch = { "dispatch", run };
