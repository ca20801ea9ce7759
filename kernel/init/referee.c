// SPDX-License-Identifier: GPL-2.0-only
/*
 * Scripts of reads, touches and advice, as xtask writes them: after each step the pages that became
 * resident and how many are. The files lie in a romfs whose headers alone are written; all else
 * reads as zeroes.
 *
 *   s RULE FILE RA_PAGES IO_PAGES     a new script on a cold file
 *   r OFFSET BYTES, t PAGE, f ADVICE, n, d      as in crates/forebay-sim/src/plan.rs
 */
#define _GNU_SOURCE
#include "lab.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES_MAX 64
#define HEADER 32	/* sixteen bytes of fields, sixteen of name */

static char path[64];
static long pages;
static int reading = -1, touching = -1, watching = -1;
static volatile char *touched, *watched;
static unsigned char *before, *after;

static void put(int fd, uint32_t at, const void *bytes, size_t count)
{
	if (pwrite(fd, bytes, count, at) != (ssize_t)count)
		die("cannot write the file system");
}

static void put_header(int fd, uint32_t at, uint32_t next, uint32_t spec, uint32_t size,
		       const char *name)
{
	uint32_t fields[8] = { htonl(next), htonl(spec), htonl(size), 0 };

	snprintf((char *)&fields[4], 16, "%s", name);
	put(fd, at, fields, sizeof(fields));
}

/* Superblock, root directory, files one after another. */
static void make_files(const uint64_t *sizes, int count)
{
	uint32_t at = 2 * HEADER, super[8] = { 0 }, sum = 0, block[128];
	int fd = opened(DEVICE, O_RDWR), i;
	char name[16];

	put_header(fd, HEADER, 9, at, 0, ".");
	for (i = 0; i < count; i++) {
		uint32_t next = (at + HEADER + sizes[i] + 15) & ~15U;

		snprintf(name, sizeof(name), "f%d", i);
		put_header(fd, at, (i + 1 < count ? next : 0) | 2, 0, sizes[i], name);
		at = next;
	}
	memcpy(super, "-rom1fs-", 8);
	super[2] = htonl(at);
	put(fd, 0, super, sizeof(super));
	/* The first 512 bytes add up to zero. */
	if (pread(fd, block, sizeof(block), 0) != sizeof(block))
		die("cannot read the file system");
	for (i = 0; i < 128; i++)
		sum += ntohl(block[i]);
	super[3] = htonl(-sum);
	put(fd, 0, super, sizeof(super));
	if (fsync(fd))
		die("cannot write the file system");
	close(fd);
	mkdir("/mnt", 0755);
	if (mount(DEVICE, "/mnt", "romfs", MS_RDONLY, NULL))
		die("cannot mount the file system");
}

static volatile char *mapped(int *fd)
{
	char *map;

	*fd = opened(path, O_RDONLY);
	map = mmap(NULL, pages * PAGE, PROT_READ, MAP_SHARED, *fd, 0);
	if (map == MAP_FAILED)
		die("cannot map %s", path);
	return map;
}

static void unmapped(volatile char *map, int fd)
{
	if (fd < 0)
		return;
	munmap((void *)map, pages * PAGE);
	close(fd);
}

static void look(unsigned char *into)
{
	if (mincore((void *)watched, pages * PAGE, into))
		die("cannot look at the cached pages");
}

static void drop(void)
{
	long left = 0, i;

	unmapped(touched, touching);
	touching = -1;
	posix_fadvise(watching, 0, 0, POSIX_FADV_DONTNEED);
	look(after);
	for (i = 0; i < pages; i++)
		left += after[i] & 1;
	if (left)
		die("%ld pages of %s do not leave the page cache", left, path);
	touched = mapped(&touching);
}

static void begin(const char *rule, int file, long ra_pages, long io_pages)
{
	struct stat status;

	if (reading >= 0)
		close(reading);
	unmapped(touched, touching);
	unmapped(watched, watching);
	touching = -1;
	set("/proc/sys/vm/drop_caches", "3");
	set("/sys/block/lab0/bdi/read_ahead_rule", "%s", rule);
	set(QUEUE "max_sectors_kb", "%ld", io_pages * 4);
	set(QUEUE "read_ahead_kb", "%ld", ra_pages * 4);
	snprintf(path, sizeof(path), "/mnt/f%d", file);
	if (stat(path, &status))
		die("there is no file %s", path);
	pages = (status.st_size + PAGE - 1) / PAGE;
	free(before);
	free(after);
	before = calloc(pages, 1);
	after = calloc(pages, 1);
	reading = opened(path, O_RDONLY);
	watched = mapped(&watching);
	drop();
}

static void step(const char *line)
{
	static char *buffer;
	static size_t room;
	long first, second, i;
	char letter = line[0];
	int given = sscanf(line + 1, "%ld %ld", &first, &second);

	if (letter == 'r' && given == 2) {
		if (room < (size_t)second) {
			free(buffer);
			room = second;
			buffer = malloc(room);
			if (!buffer)
				die("no memory");
		}
		if (pread(reading, buffer, second, first) < 0)
			die("cannot read %s", path);
	} else if (letter == 't' && given == 1) {
		(void)touched[first * PAGE];
	} else if (letter == 'f' && given == 1) {
		posix_fadvise(reading, 0, 0, first);
	} else if (letter == 'n') {
		close(reading);
		reading = opened(path, O_RDONLY);
	} else if (letter == 'd') {
		drop();
	} else {
		die("no step: %s", line);
	}
	for (i = 0; i < pages; i++)
		before[i] = after[i];
}

static void tell(const char *line)
{
	long i, resident = 0;

	look(after);
	printf("@ %s ->", line);
	for (i = 0; i < pages; i++) {
		long start = i;

		while (i < pages && (after[i] & 1) && !(before[i] & 1))
			i++;
		if (i > start)
			printf(" %ld+%ld", start, i - start);
	}
	for (i = 0; i < pages; i++)
		resident += after[i] & 1;
	printf("  | resident %ld\n", resident);
}

static void run(int argc, char **argv)
{
	uint64_t sizes[FILES_MAX];
	FILE *script = fopen("/script", "r");
	char line[256], rule[32];
	int count = 0, file;
	long ra_pages, io_pages;

	(void)argc;
	(void)argv;
	if (!script)
		die("there is no script");
	set_device("fast", "units", 256ULL, "delay_ns", 0ULL, "unit_rate", 0ULL, "link_rate", 0ULL, NULL);
	while (fgets(line, sizeof(line), script)) {
		line[strcspn(line, "\n")] = 0;
		if (sscanf(line, "size %lu", &sizes[count]) == 1) {
			if (++count == FILES_MAX)
				die("too many files");
		} else if (!strcmp(line, "files")) {
			make_files(sizes, count);
		} else if (sscanf(line, "s %31s %d %ld %ld", rule, &file, &ra_pages, &io_pages) == 4) {
			begin(rule, file, ra_pages, io_pages);
		} else {
			step(line);
			tell(line);
		}
	}
	fclose(script);
}

const struct experiment referee = { "referee", run };
