/* SPDX-License-Identifier: GPL-2.0-only */
/* Models of devices: the same rules and parameters as in docs/devices.md, without jitter. */
#ifndef _LAB_DISK_H
#define _LAB_DISK_H

#include <linux/types.h>

enum lab_command { LAB_READ, LAB_WRITE, LAB_FLUSH };

struct lab_access {
	enum lab_command command;
	bool durable;
	u64 sector;
	u64 sectors;
};

struct lab_model {
	const char *name;
	/* Makes the device idle and empty, with the parameters as they are set. */
	void (*reset)(void);
	/* When an access that comes at @now is done. */
	u64 (*service)(u64 now, const struct lab_access *access);
};

extern const struct lab_model lab_fast, lab_hdd, lab_ssd;

/* Sectors of the device. */
extern unsigned long long lab_capacity;

/* Shared parameters. */
extern unsigned long long lab_command_ns, lab_stripe, lab_flush_ns;
extern unsigned long long lab_interface, lab_write_cache;

u64 lab_transfer(u64 bytes, u64 rate);
u64 lab_bytes_in(u64 ns, u64 rate);

#endif
