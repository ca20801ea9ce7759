// SPDX-License-Identifier: GPL-2.0-only
/* The first process of the lab's kernel: mounts, runs the experiment that is asked for, powers off. */
#define _GNU_SOURCE
#include "lab.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const struct experiment *const experiments[] = {
	&device, &windows, &cramfs, &writers, &limits, &dispatch, &dyn, &levels,
};

static void end(void)
{
	fflush(stdout);
	sync();
	reboot(RB_POWER_OFF);
	_exit(1);
}

void die(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	printf("! ");
	vprintf(format, arguments);
	printf(": %s\n", strerror(errno));
	va_end(arguments);
	puts("END");
	end();
	abort();
}

uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ULL + time.tv_nsec;
}

int opened(const char *path, int flags)
{
	int fd = open(path, flags, 0644);

	if (fd < 0)
		die("cannot open %s", path);
	return fd;
}

void set(const char *path, const char *format, ...)
{
	char text[256];
	va_list arguments;
	int fd = opened(path, O_WRONLY);
	int length;

	va_start(arguments, format);
	length = vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (write(fd, text, length) != length)
		die("cannot write %s to %s", text, path);
	close(fd);
}

long get(const char *path)
{
	char text[64] = "";
	int fd = opened(path, O_RDONLY);

	if (read(fd, text, sizeof(text) - 1) < 1)
		die("cannot read %s", path);
	close(fd);
	return atol(text);
}

bool is_there(const char *path)
{
	return access(path, F_OK) == 0;
}

struct traffic traffic(void)
{
	struct traffic seen;
	long merged[2], sectors[2], ticks;
	FILE *file = fopen("/sys/block/lab0/stat", "r");

	if (!file || fscanf(file, "%ld %ld %ld %ld %ld %ld %ld", &seen.requests[0], &merged[0],
			    &sectors[0], &ticks, &seen.requests[1], &merged[1], &sectors[1]) != 7)
		die("cannot read the device's statistics");
	fclose(file);
	seen.kib[0] = sectors[0] / 2;
	seen.kib[1] = sectors[1] / 2;
	return seen;
}

void cool(void)
{
	sync();
	set("/proc/sys/vm/drop_caches", "3");
}

static uint64_t state;

void seed(uint64_t value)
{
	state = value;
}

/* splitmix64 */
uint64_t below(uint64_t end)
{
	uint64_t mixed;

	state += 0x9e3779b97f4a7c15ULL;
	mixed = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9ULL;
	mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebULL;
	return (mixed ^ (mixed >> 31)) % end;
}

void set_device(const char *model, ...)
{
	va_list arguments;
	const char *name;
	char path[128];

	va_start(arguments, model);
	while ((name = va_arg(arguments, const char *))) {
		snprintf(path, sizeof(path), "%s%s", DISK, name);
		set(path, "%llu", va_arg(arguments, unsigned long long));
	}
	va_end(arguments);
	set(DISK "model", "%s", model);
}

static void mounted(const char *kind, const char *where)
{
	mkdir(where, 0755);
	if (mount(kind, where, kind, 0, NULL))
		die("cannot mount %s", where);
}

int main(int argc, char **argv)
{
	size_t count = sizeof(experiments) / sizeof(experiments[0]), at;
	int console, own;

	mounted("devtmpfs", "/dev");
	console = open("/dev/console", O_WRONLY);
	if (console >= 0) {
		dup2(console, 1);
		dup2(console, 2);
	}
	mounted("proc", "/proc");
	mounted("sysfs", "/sys");
	/* The kernel's own arguments come last: root=98:0. */
	for (own = 1; own < argc && !strchr(argv[own], '='); own++)
		;
	argc = own;
	if (argc < 2) {
		errno = EINVAL;
		die("no experiment is asked for");
	}
	if (!strcmp(argv[1], "referee")) {
		referee.run(argc - 1, argv + 1);
		puts("END");
		end();
	}
	if (!strcmp(argv[1], "list")) {
		for (at = 0; at < count; at++)
			printf("@ %s\n", experiments[at]->name);
		puts("END");
		end();
	}
	for (at = 0; at < count; at++)
		if (!strcmp(argv[1], experiments[at]->name))
			break;
	if (at == count) {
		errno = ENOENT;
		die("there is no experiment %s", argv[1]);
	}
	experiments[at]->run(argc - 1, argv + 1);
	puts("END");
	end();
}
