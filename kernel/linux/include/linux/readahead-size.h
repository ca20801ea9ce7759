/* SPDX-License-Identifier: GPL-2.0-only */
/* Readahead that knows the size of the request: windows, runs and their average. */
#ifndef _LINUX_READAHEAD_SIZE_H
#define _LINUX_READAHEAD_SIZE_H

#include <linux/types.h>

struct address_space;
struct device_attribute;
struct file;
struct file_ra_state;
struct kiocb;
struct vm_fault;

struct ra_size_window {
	pgoff_t start;
	unsigned long size;
};

/* A current window, the one ahead of it, and whether that is only declared. */
struct ra_size_windows {
	struct ra_size_window current_window;
	struct ra_size_window ahead;
	bool pending;
};

/* Of an open file. */
struct ra_size_state {
	struct ra_size_windows windows;
	struct ra_size_windows previous;
	unsigned long next;	/* pages of the next window; 0: never used; RA_SIZE_OFF */
	pgoff_t prev;		/* the last page seen */
	unsigned long run;	/* pages of the present run */
	unsigned long average;	/* of past runs */
	unsigned long hits, misses;	/* of faults */
};

extern struct device_attribute dev_attr_read_ahead_rule;

void ra_size_init(struct file_ra_state *ra, struct address_space *mapping);
pgoff_t ra_size_read(struct kiocb *iocb, pgoff_t index, pgoff_t end);
bool ra_size_miss(struct file *file);
bool ra_size_fault(struct vm_fault *vmf, struct file **fpin);
bool ra_size_hit(struct vm_fault *vmf, struct file **fpin);

#endif
