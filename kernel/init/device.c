// SPDX-License-Identifier: GPL-2.0-only
/* The device itself: what single requests take under each of its models. */
#define _GNU_SOURCE
#include "lab.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define READS 200

static void measured(const char *model, const char *pattern, size_t bytes, bool random)
{
	int fd = opened(DEVICE, O_RDONLY | O_DIRECT);
	struct traffic before = traffic(), after;
	uint64_t start, total, longest = 0;
	void *buffer;
	int i;

	if (posix_memalign(&buffer, PAGE, bytes))
		die("no memory");
	seed(1);
	start = now();
	for (i = 0; i < READS; i++) {
		uint64_t begin = now(), took;
		off_t offset = random ? below((200 << 20) / bytes) * bytes : (uint64_t)i * bytes;

		if (pread(fd, buffer, bytes, offset) != (ssize_t)bytes)
			die("cannot read the device");
		took = now() - begin;
		if (took > longest)
			longest = took;
	}
	total = now() - start;
	after = traffic();
	printf("@ device model=%s pattern=%s bytes=%zu requests=%ld mean_us=%.1f longest_us=%.1f\n",
	       model, pattern, bytes, after.requests[0] - before.requests[0],
	       total / 1e3 / READS, longest / 1e3);
	free(buffer);
	close(fd);
}

static void run(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	set_device("fast", "units", 1ULL, "delay_ns", 20000ULL, "unit_rate", 2900000000ULL, NULL);
	measured("fast", "random", PAGE, true);
	measured("fast", "random", 64 << 10, true);
	set_device("fast", "units", 1ULL, "delay_ns", 200000ULL, "unit_rate", 0ULL,
		   "link_rate", 125000000ULL, NULL);
	measured("link", "random", PAGE, true);
	measured("link", "random", 64 << 10, true);
	set_device("hdd", "command_ns", 300000ULL, "interface", 80000000ULL, "link_rate", 0ULL, NULL);
	measured("hdd", "random", PAGE, true);
	measured("hdd", "sequential", 64 << 10, false);
	set_device("ssd", "command_ns", 10600ULL, "interface", 540000000ULL, "stripe", 16384ULL, NULL);
	measured("ssd", "random", PAGE, true);
	measured("ssd", "sequential", 64 << 10, false);
}

const struct experiment device = { "device", run };
