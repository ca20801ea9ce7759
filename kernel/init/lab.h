/* SPDX-License-Identifier: GPL-2.0-only */
/* What the experiments share. */
#ifndef LAB_H
#define LAB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

#define PAGE 4096
#define DEVICE "/dev/lab0"
#define DISK "/sys/module/lab/parameters/"
#define PRICE "/sys/module/lab_price/parameters/"
#define QUEUE "/sys/block/lab0/queue/"

/* An experiment: prints records, lines of "@ NAME KEY=VALUE ...". */
struct experiment {
	const char *name;
	void (*run)(int argc, char **argv);
};

extern const struct experiment levels, device, cramfs, dispatch, writers, windows, dyn, limits,
	referee;

/* Prints "! ..." and ends the run: an experiment that cannot go on must not look whole. */
void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* Nanoseconds of virtual time. */
uint64_t now(void);

/* Writes a number or a text to a file of /proc or /sys, reads a number back. */
void set(const char *path, const char *format, ...) __attribute__((format(printf, 2, 3)));
long get(const char *path);
/* Whether a file is there: some switches depend on the kernel's configuration. */
bool is_there(const char *path);

/* The device's requests and KiB so far: reads in [0], writes in [1]. */
struct traffic {
	long requests[2], kib[2];
};
struct traffic traffic(void);

/* Everything to the device, then nothing cached. */
void cool(void);

/* Numbers in no order, the same in each run. */
void seed(uint64_t value);
uint64_t below(uint64_t end);

/* open, or die */
int opened(const char *path, int flags);

/* Sets the device's model and parameters: "fast", "delay_ns", 20000ULL, ..., NULL. */
void set_device(const char *model, ...);

#endif
