// SPDX-License-Identifier: GPL-2.0-only
/*
 * A flash drive: dies side by side, a buffer of one bit a cell, memory for writes.
 *
 *   write   command, link, memory, where it is done; the dies that are free first program it at
 *             buffer_rate   while the buffer has room for it
 *             flash_rate    beyond, if it continues the last write
 *             flash_rate * efficiency / amplification   beyond, if it is a small one elsewhere
 *   read    command, the dies of its address, link; waits for one program at most
 *   flush   waits for everything, then flush_ns for the map of pages
 */
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/string.h>

#include "lab_disk.h"

#define DIES_MAX 256
#define PROGRAMS_MAX 65536
#define MILLION 1000000ULL

static unsigned int dies = 8;
module_param(dies, uint, 0644);
static unsigned long long buffer = 64 << 20;
module_param(buffer, ullong, 0644);
static unsigned long long buffer_rate = 410000000;
module_param(buffer_rate, ullong, 0644);
static unsigned long long flash_rate = 135000000;
module_param(flash_rate, ullong, 0644);
static unsigned long long fold_rate = 150000000;
module_param(fold_rate, ullong, 0644);
static unsigned long long fold_after_ns = 1000000000;
module_param(fold_after_ns, ullong, 0644);
static unsigned long long erased;
module_param(erased, ullong, 0644);
static unsigned long long efficiency_ppm = 572000;
module_param(efficiency_ppm, ullong, 0644);
static unsigned long long amplification_ppm = 1130000;
module_param(amplification_ppm, ullong, 0644);
static unsigned long long write_command_ns = 28600;
module_param(write_command_ns, ullong, 0644);
static unsigned long long read_ns = 71800;
module_param(read_ns, ullong, 0644);
static unsigned long long program_ns = 1500000;
module_param(program_ns, ullong, 0644);

static struct {
	u64 programmed, read;
} die[DIES_MAX];

/* Programs that the host believes done, in a heap with the earliest end on top. */
static struct program {
	u64 end, bytes;
} program[PROGRAMS_MAX];

static u32 programs;
static u64 programs_bytes, controller_free, link_free, acknowledged, buffer_left, erased_left;
static u64 all_done, write_end, read_end, read_since;

static unsigned int die_count(void)
{
	return clamp(dies, 1U, DIES_MAX);
}

static void ssd_reset(void)
{
	memset(die, 0, sizeof(die));
	programs = 0;
	programs_bytes = 0;
	controller_free = 0;
	link_free = 0;
	acknowledged = 0;
	buffer_left = buffer;
	erased_left = erased;
	all_done = 0;
	write_end = U64_MAX;
	read_end = U64_MAX;
	read_since = 0;
}

static void push(u64 end, u64 bytes)
{
	u32 at = programs++;

	while (at && program[(at - 1) / 2].end > end) {
		program[at] = program[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	program[at] = (struct program){ end, bytes };
	programs_bytes += bytes;
}

static void pop(void)
{
	struct program last = program[--programs];
	u32 at = 0, child;

	programs_bytes -= program[0].bytes;
	while ((child = 2 * at + 1) < programs) {
		if (child + 1 < programs && program[child + 1].end < program[child].end)
			child++;
		if (program[child].end >= last.end)
			break;
		program[at] = program[child];
		at = child;
	}
	program[at] = last;
}

static u64 take_command(u64 now, u64 time)
{
	controller_free = max(now, controller_free) + time;
	return controller_free;
}

static u64 latest_die(void)
{
	u64 latest = 0;
	u32 i;

	for (i = 0; i < die_count(); i++)
		latest = max3(latest, die[i].programmed, die[i].read);
	return latest;
}

static void fold(u64 now)
{
	u64 begun = max3(latest_die(), all_done, controller_free) + fold_after_ns;

	if (now > begun)
		buffer_left = min(buffer_left + lab_bytes_in(now - begun, fold_rate), buffer);
}

static u64 read_stripe(u64 since, u64 number)
{
	u32 at = number % die_count();
	u64 left = die[at].programmed > since ? die[at].programmed - since : 0;
	u64 under_way = left ? (left - 1) % max(program_ns, 1ULL) + 1 : 0;

	die[at].read = max(die[at].read, since + under_way) + read_ns;
	if (left)
		die[at].programmed += read_ns;
	return die[at].read;
}

static u64 read(u64 now, const struct lab_access *access)
{
	u64 taken = take_command(now, lab_command_ns), ready = taken, done;
	u64 stripe = max(lab_stripe >> 9, 1ULL), number = access->sector / stripe;
	u64 end = access->sector + access->sectors;
	bool continues = access->sector == read_end;
	u64 since = continues ? read_since : taken;
	u64 link = lab_transfer(access->sectors << 9, lab_interface);

	read_end = end;
	read_since = taken;
	/* The rest of a stripe is in memory since its beginning was read. */
	if (continues && access->sector % stripe)
		number++;
	for (; number < DIV_ROUND_UP(end, stripe); number++)
		ready = max(ready, read_stripe(since, number));
	link_free = max(link_free, taken) + link;
	done = max(link_free, ready + link);
	all_done = max(all_done, done);
	return done;
}

static u64 cost_ppm(const struct lab_access *access, bool continues)
{
	u64 bytes = access->sectors << 9, amplification = MILLION, efficiency = MILLION;

	if (continues)
		return MILLION;
	if (erased_left < bytes)
		amplification = amplification_ppm;
	erased_left -= min(erased_left, bytes);
	if (bytes < lab_stripe * die_count())
		efficiency = max(efficiency_ppm, 1ULL);
	return div64_u64(amplification * MILLION, efficiency);
}

static u64 make_room(u64 arrived, u64 bytes)
{
	u64 room = arrived;

	while (programs) {
		bool fits = programs_bytes + bytes <= lab_write_cache &&
			    programs < PROGRAMS_MAX / 2;

		if (program[0].end > room && fits)
			break;
		room = max(room, program[0].end);
		pop();
	}
	return room;
}

static u64 program_dies(u64 from, const struct lab_access *access, bool continues)
{
	u64 left = access->sectors << 9, cost = cost_ppm(access, continues), last = from;
	bool cached = left <= lab_write_cache, buffered = left <= buffer_left;
	u64 stripe = max(lab_stripe, 4096ULL), rate = buffered ? buffer_rate : flash_rate;

	if (buffered) {
		buffer_left -= left;
		cost = MILLION;
	}
	while (left) {
		u64 bytes = min(left, stripe), time;
		u32 at = 0, i;

		for (i = 1; i < die_count(); i++)
			if (max(die[i].programmed, die[i].read) <
			    max(die[at].programmed, die[at].read))
				at = i;
		time = mul_u64_u64_div_u64(lab_transfer(bytes, rate) * die_count(), cost, MILLION);
		die[at].programmed = max3(from, die[at].programmed, die[at].read) + time;
		last = max(last, die[at].programmed);
		if (cached && programs < PROGRAMS_MAX)
			push(die[at].programmed, bytes);
		left -= bytes;
	}
	return last;
}

static u64 write(u64 now, const struct lab_access *access)
{
	bool continues = access->sector == write_end;
	u64 bytes = access->sectors << 9, taken, room, programmed, done;

	fold(now);
	write_end = access->sector + access->sectors;
	taken = take_command(now, continues ? lab_command_ns : write_command_ns);
	link_free = max(link_free, taken) + lab_transfer(bytes, lab_interface);
	/* Writes are acknowledged in the order in which they came. */
	room = make_room(max(link_free, acknowledged), bytes);
	programmed = program_dies(room, access, continues);
	done = bytes > lab_write_cache ? programmed : room;
	acknowledged = done;
	if (access->durable)
		done = max(done, programmed) + lab_flush_ns;
	all_done = max(all_done, done);
	return done;
}

static u64 flush(u64 now)
{
	u64 taken = take_command(now, lab_command_ns), programmed = 0;
	u32 i;

	for (i = 0; i < die_count(); i++)
		programmed = max(programmed, die[i].programmed);
	programs = 0;
	programs_bytes = 0;
	controller_free = max3(programmed, all_done, taken) + lab_flush_ns;
	all_done = controller_free;
	return all_done;
}

static u64 ssd_service(u64 now, const struct lab_access *access)
{
	switch (access->command) {
	case LAB_READ:
		fold(now);
		return read(now, access);
	case LAB_WRITE:
		return write(now, access);
	case LAB_FLUSH:
		break;
	}
	fold(now);
	return flush(now);
}

const struct lab_model lab_ssd = {
	.name = "ssd",
	.reset = ssd_reset,
	.service = ssd_service,
};
