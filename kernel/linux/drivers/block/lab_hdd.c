// SPDX-License-Identifier: GPL-2.0-only
/*
 * A disk: one arm, one spindle, a zoned surface, a buffer that reads on and a write cache.
 *
 *   read that moves the arm   t = command + seek(d) + turn + bytes / rate(z)
 *   read that continues       t = command + bytes / interface, but not before the surface has
 *                                 brought the bytes
 *   write                     done in the cache, which is put down in ascending order while no
 *                             read wants the arm
 */
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/rbtree.h>
#include <linux/slab.h>

#include "lab_disk.h"

#define ROOT_BITS 20
#define MILLION 1000000ULL

static unsigned long long seek_min_ns = 1000000;
module_param(seek_min_ns, ullong, 0644);
static unsigned long long seek_third_ns = 8500000;
module_param(seek_third_ns, ullong, 0644);
static unsigned long long seek_full_ns = 17500000;
module_param(seek_full_ns, ullong, 0644);
static unsigned long long rotation_ns = 8330000;
module_param(rotation_ns, ullong, 0644);
static unsigned long long rate_outer = 50000000;
module_param(rate_outer, ullong, 0644);
static unsigned long long inner_share_ppm = 480000;
module_param(inner_share_ppm, ullong, 0644);
static unsigned long long segment = 384 << 10;
module_param(segment, ullong, 0644);

struct cached {
	struct rb_node node;
	u64 sector, sectors, arrived;
};

static struct rb_root cache;
static u64 cached_bytes, command_free, arm_free, head, random;

/* What the drive reads on its own account: from @next on, since @since. */
static struct {
	bool valid;
	u64 next, since;
} prefetch;

static u64 seek(u64 distance)
{
	u64 capacity = max(lab_capacity, 1ULL), from, to, share;

	if (!distance)
		return 0;
	distance = min(distance, capacity);
	if (3 * distance < capacity) {
		from = seek_min_ns;
		to = seek_third_ns;
		share = int_sqrt64(mul_u64_u64_div_u64(3 * distance, 1ULL << (2 * ROOT_BITS),
						       capacity));
	} else {
		from = seek_third_ns;
		to = seek_full_ns;
		share = div64_u64((3 * distance - capacity) << ROOT_BITS, 2 * capacity);
	}
	return from + (((to > from ? to - from : 0) * share) >> ROOT_BITS);
}

static u64 rate_at(u64 sector)
{
	u64 capacity = max(lab_capacity, 1ULL);
	u64 lost = inner_share_ppm < MILLION ? MILLION - inner_share_ppm : 0;
	u64 fall = mul_u64_u64_div_u64(rate_outer, lost * min(sector, capacity),
				       capacity * MILLION);

	return max(rate_outer - fall, 1ULL);
}

/* The next of a stream that the model's reset begins anew: rotation is drawn, not tracked. */
static u64 draw(u64 below)
{
	u64 mixed;

	random += 0x9e3779b97f4a7c15ULL;
	mixed = (random ^ (random >> 30)) * 0xbf58476d1ce4e5b9ULL;
	mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebULL;
	mixed ^= mixed >> 31;
	return below ? mixed % below : 0;
}

static u64 position(u64 sector)
{
	return seek(head > sector ? head - sector : sector - head) + draw(rotation_ns);
}

static u64 put_down(u64 start, u64 sector, u64 sectors)
{
	bool streams = sector == head && start <= arm_free && !prefetch.valid;
	u64 surface = lab_transfer(sectors << 9, rate_at(sector));

	arm_free = max(start, arm_free) + (streams ? 0 : position(sector)) + surface;
	head = sector + sectors;
	prefetch.valid = false;
	return arm_free;
}

static struct cached *find_cached(u64 from)
{
	struct rb_node *node = cache.rb_node;
	struct cached *found = NULL;

	while (node) {
		struct cached *one = rb_entry(node, struct cached, node);

		if (one->sector >= from) {
			found = one;
			node = node->rb_left;
		} else {
			node = node->rb_right;
		}
	}
	return found;
}

/* The first write at or behind the head; the very first one if there is none. */
static struct cached *next_cached(void)
{
	struct cached *found = find_cached(head);

	if (!found && cached_bytes)
		found = rb_entry(rb_first(&cache), struct cached, node);
	return found;
}

static void forget(struct cached *one)
{
	rb_erase(&one->node, &cache);
	cached_bytes -= one->sectors << 9;
	kfree(one);
}

static u64 destage(struct cached *one)
{
	u64 sector = one->sector, sectors = one->sectors, arrived = one->arrived;

	forget(one);
	return put_down(arrived, sector, sectors);
}

static bool keep(const struct lab_access *access, u64 arrived)
{
	struct rb_node **link = &cache.rb_node, *parent = NULL;
	struct cached *one = kmalloc(sizeof(*one), GFP_ATOMIC);

	if (!one)
		return false;
	one->sector = access->sector;
	one->sectors = access->sectors;
	one->arrived = arrived;
	while (*link) {
		parent = *link;
		if (access->sector < rb_entry(parent, struct cached, node)->sector)
			link = &parent->rb_left;
		else
			link = &parent->rb_right;
	}
	rb_link_node(&one->node, parent, link);
	rb_insert_color(&one->node, &cache);
	cached_bytes += access->sectors << 9;
	return true;
}

static u64 flush(u64 now)
{
	u64 done;

	while (cached_bytes)
		destage(next_cached());
	done = max3(now, command_free, arm_free);
	command_free = done;
	return done;
}

static u64 brought(u64 at)
{
	u64 since = at > prefetch.since ? at - prefetch.since : 0;

	return min(lab_bytes_in(since, rate_at(prefetch.next)), segment);
}

static u64 read_on(u64 start, const struct lab_access *access)
{
	u64 rate = rate_at(prefetch.next), since = prefetch.since, surface;
	u64 needed = (access->sector + access->sectors - prefetch.next) << 9;
	u64 here = brought(start);

	/* A full segment made the surface pause where the buffer ends. */
	if (here == segment)
		since = start - min(start, lab_transfer(here, rate));
	surface = since + lab_transfer(needed, rate);
	prefetch.next = access->sector + access->sectors;
	prefetch.since = surface;
	head = prefetch.next;
	arm_free = max(arm_free, surface);
	return max(start + lab_command_ns + lab_transfer(access->sectors << 9, lab_interface),
		   surface);
}

static u64 read_anew(u64 start, const struct lab_access *access)
{
	u64 bytes = access->sectors << 9;
	u64 there = max(start, arm_free) + lab_command_ns + position(access->sector);
	u64 surface = there + lab_transfer(bytes, rate_at(access->sector));

	prefetch.valid = true;
	prefetch.next = access->sector + access->sectors;
	prefetch.since = surface;
	head = prefetch.next;
	arm_free = surface;
	return max(surface, there + lab_transfer(bytes, lab_interface));
}

static u64 read(u64 now, const struct lab_access *access)
{
	u64 start = max(now, command_free), skipped = access->sector - prefetch.next;

	if (prefetch.valid && access->sector >= prefetch.next && skipped <= brought(start) >> 9)
		command_free = read_on(start, access);
	else
		command_free = read_anew(start, access);
	return command_free;
}

static u64 write(u64 now, const struct lab_access *access)
{
	u64 bytes = access->sectors << 9, start = max(now, command_free), room = 0, done;
	u64 arrived = start + lab_command_ns + lab_transfer(bytes, lab_interface);
	struct cached *old = find_cached(access->sector);

	if (old && old->sector == access->sector)
		forget(old);
	if (bytes <= lab_write_cache) {
		while (cached_bytes + bytes > lab_write_cache)
			room = destage(next_cached());
		done = max(arrived, room);
	}
	if (bytes > lab_write_cache || !keep(access, done))
		done = max(arrived, put_down(start, access->sector, access->sectors));
	command_free = done;
	return access->durable ? flush(done) : done;
}

static void hdd_reset(void)
{
	while (cached_bytes)
		forget(next_cached());
	command_free = 0;
	arm_free = 0;
	head = 0;
	random = 1;
	prefetch.valid = false;
}

static u64 hdd_service(u64 now, const struct lab_access *access)
{
	/* What was cached goes down in the time that no read wanted. */
	while (arm_free < now && cached_bytes && next_cached()->arrived < now)
		destage(next_cached());
	switch (access->command) {
	case LAB_READ:
		return read(now, access);
	case LAB_WRITE:
		return write(now, access);
	case LAB_FLUSH:
		break;
	}
	return flush(now);
}

const struct lab_model lab_hdd = {
	.name = "hdd",
	.reset = hdd_reset,
	.service = hdd_service,
};
