// SPDX-License-Identifier: GPL-2.0-only
/*
 * A fast device or a link: units side by side, each busy until it is done, behind one link.
 *
 *   start = max(now, unit free)            a stripe takes the unit that is free first
 *   ready = start + delay                  once for each unit and request
 *   done  = max(ready + bytes / unit_rate, max(ready, link free) + bytes / link_rate)
 */
#include <linux/minmax.h>
#include <linux/moduleparam.h>
#include <linux/string.h>

#include "lab_disk.h"

#define UNITS_MAX 256

static unsigned int units = 1;
module_param(units, uint, 0644);
static unsigned long long delay_ns = 20000;
module_param(delay_ns, ullong, 0644);
static unsigned long long unit_rate;
module_param(unit_rate, ullong, 0644);
static unsigned long long link_rate;
module_param(link_rate, ullong, 0644);

static struct {
	u64 free;
	u64 request;
} unit[UNITS_MAX];

static u64 requests, link_free, written;

static void fast_reset(void)
{
	memset(unit, 0, sizeof(unit));
	requests = 0;
	link_free = 0;
	written = 0;
}

static u64 fast_stripe(u64 now, u64 bytes)
{
	unsigned int count = clamp(units, 1U, UNITS_MAX), at = 0, i;
	u64 ready;

	for (i = 1; i < count; i++)
		if (unit[i].free < unit[at].free)
			at = i;
	ready = max(now, unit[at].free);
	if (unit[at].request != requests)
		ready += delay_ns;
	unit[at].request = requests;
	link_free = max(ready, link_free) + lab_transfer(bytes, link_rate);
	unit[at].free = max(ready + lab_transfer(bytes, unit_rate), link_free);
	return unit[at].free;
}

static u64 fast_service(u64 now, const struct lab_access *access)
{
	u64 left = access->sectors << 9, stripe = lab_stripe ?: U64_MAX, done = now;

	if (access->command == LAB_FLUSH) {
		written = max(now, written) + lab_flush_ns;
		return written;
	}
	requests++;
	do {
		u64 bytes = min(left, stripe);

		done = max(done, fast_stripe(now, bytes));
		left -= bytes;
	} while (left);
	if (access->command == LAB_WRITE) {
		if (access->durable)
			done += lab_flush_ns;
		written = max(written, done);
	}
	return done;
}

const struct lab_model lab_fast = {
	.name = "fast",
	.reset = fast_reset,
	.service = fast_service,
};
