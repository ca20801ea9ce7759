// SPDX-License-Identifier: GPL-2.0-only
/*
 * The knobs of writeback follow the load of the disks and the share of writes in it, after Park,
 * Kim and Shin's policy DYN for Linux 2.2.19.
 *
 *   each second         L = time with a request under way / elapsed     W = writes / all requests
 *   each three seconds  x = mean L * mean W
 *                       dirty_ratio = max(30, 100 W), background half of it
 *                       dirty_writeback_interval = 5 s * x, from 0.15 to 5 s
 *
 * Seconds count in billionths and the mean of three is exact, so that rounding, half up, is that of
 * the last step. The third knob of the policy, the length of a batch of bdflush, has no
 * counterpart. Knobs in bytes are left alone: while one is set, nothing is turned.
 */
#include <linux/blkdev.h>
#include <linux/init.h>
#include <linux/math64.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/part_stat.h>
#include <linux/sysctl.h>
#include <linux/workqueue.h>
#include <linux/writeback.h>
#include <linux/writeback-dyn.h>

#include "blk.h"

#define SAMPLES 3
#define RATIO_MIN 30
/* In hundredths of a second. */
#define INTERVAL_MIN 15
#define INTERVAL_MAX 500
/* Of a second, and of the sum of a window. */
#define WHOLE 1000000000ULL
#define WINDOW (SAMPLES * WHOLE)

/* Sums over all disks. */
struct sample {
	u64 busy, reads, writes;
	unsigned int disks;
};

static bool enabled;
static DEFINE_MUTEX(enabled_lock);
static struct sample last;
static unsigned long last_jiffies;
static unsigned int samples;
static u64 load_sum, share_sum;
/* A limit of dirty pages: a share of memory, or bytes with a ratio of zero. */
struct limit {
	int ratio;
	unsigned long bytes;
};

static struct limit stock_dirty, stock_background;
static unsigned int stock_interval;

/* Of the last window, in thousandths, and how many windows turned the knobs. */
static unsigned int load, share;
module_param(load, uint, 0444);
module_param(share, uint, 0444);
static unsigned long turns;
module_param(turns, ulong, 0444);

/* The last second: its number, its length and the time with requests in jiffies, and requests. */
static struct {
	unsigned long number, elapsed;
	struct sample sum;
} second;

static int second_get(char *page, const struct kernel_param *kp)
{
	return sysfs_emit(page, "%lu %lu %u %llu %llu %llu\n", second.number, second.elapsed,
			  second.sum.disks, second.sum.busy, second.sum.reads, second.sum.writes);
}

static const struct kernel_param_ops second_ops = { .get = second_get };
module_param_cb(second, &second_ops, NULL, 0444);
MODULE_PARM_DESC(second, "The last second: number, jiffies, disks, busy jiffies, reads, writes");

static void take(struct sample *now)
{
	struct class_dev_iter iter;
	struct device *dev;

	*now = (struct sample){};
	class_dev_iter_init(&iter, &block_class, NULL, &disk_type);
	while ((dev = class_dev_iter_next(&iter))) {
		struct block_device *disk = dev_to_disk(dev)->part0;
		u64 reads = part_stat_read(disk, ios[STAT_READ]);
		u64 writes = part_stat_read(disk, ios[STAT_WRITE]);

		/* Disks that nobody uses would dilute the load. */
		if (!reads && !writes)
			continue;
		now->disks++;
		/* With the time of requests that have not ended yet. */
		part_stat_lock();
		update_io_ticks(disk, jiffies, false);
		part_stat_unlock();
		now->busy += part_stat_read(disk, io_ticks);
		now->reads += reads;
		now->writes += writes;
	}
	class_dev_iter_exit(&iter);
}

/* @part of @whole in billionths, rounded half up. */
static u64 billionths(u64 part, u64 whole)
{
	return whole ? div64_u64(min(part, whole) * WHOLE + whole / 2, whole) : 0;
}

static void turn(u64 load, u64 share)
{
	u64 x2 = mul_u64_u64_div_u64(2 * INTERVAL_MAX * load, share, WINDOW * WINDOW);
	int ratio = clamp((int)DIV64_U64_ROUND_CLOSEST(share * 100, WINDOW), RATIO_MIN, 100);

	/* A ratio of zero says that the limit is set in bytes. */
	if (!*wb_dirty_ratio || !*wb_background_ratio)
		return;
	*wb_dirty_ratio = ratio;
	*wb_background_ratio = ratio / 2;
	writeback_set_ratelimit();
	/* Not through the sysctl, which would start to write all that is dirty. */
	dirty_writeback_interval = clamp((int)((x2 + 1) / 2), INTERVAL_MIN, INTERVAL_MAX);
	turns++;
}

static void look(struct work_struct *work);
static DECLARE_DELAYED_WORK(dyn_work, look);

static void look(struct work_struct *work)
{
	struct sample now, *sum = &second.sum;

	take(&now);
	second.number++;
	second.elapsed = max(jiffies - last_jiffies, 1UL);
	sum->disks = now.disks;
	sum->reads = now.reads - min(now.reads, last.reads);
	sum->writes = now.writes - min(now.writes, last.writes);
	sum->busy = now.busy - min(now.busy, last.busy);
	last = now;
	last_jiffies = jiffies;
	load_sum += billionths(sum->busy, (u64)second.elapsed * max(now.disks, 1U));
	share_sum += billionths(sum->writes, sum->reads + sum->writes);
	if (++samples == SAMPLES) {
		load = div64_u64(load_sum * 1000, WINDOW);
		share = div64_u64(share_sum * 1000, WINDOW);
		turn(load_sum, share_sum);
		samples = 0;
		load_sum = 0;
		share_sum = 0;
	}
	schedule_delayed_work(&dyn_work, HZ);
}

/* A limit that was set in bytes meanwhile stays; so does one that was found without any. */
static void restore(const struct limit *stock, int *ratio, unsigned long *bytes)
{
	if (!*ratio || (!stock->ratio && !stock->bytes))
		return;
	*bytes = stock->bytes;
	*ratio = stock->ratio;
}

static void start(void)
{
	stock_dirty = (struct limit){ *wb_dirty_ratio, *wb_dirty_bytes };
	stock_background = (struct limit){ *wb_background_ratio, *wb_background_bytes };
	stock_interval = dirty_writeback_interval;
	samples = 0;
	load_sum = 0;
	share_sum = 0;
	take(&last);
	last_jiffies = jiffies;
	schedule_delayed_work(&dyn_work, HZ);
}

static void stop(void)
{
	cancel_delayed_work_sync(&dyn_work);
	restore(&stock_dirty, wb_dirty_ratio, wb_dirty_bytes);
	restore(&stock_background, wb_background_ratio, wb_background_bytes);
	writeback_set_ratelimit();
	dirty_writeback_interval = stock_interval;
}

/* The command line of the kernel is read before there are workqueues and disks. */
static bool booted;

static int enabled_set(const char *text, const struct kernel_param *kp)
{
	bool on;
	int error = kstrtobool(text, &on);

	if (error)
		return error;
	mutex_lock(&enabled_lock);
	if (booted && on && !enabled)
		start();
	else if (booted && !on && enabled)
		stop();
	enabled = on;
	mutex_unlock(&enabled_lock);
	return 0;
}

static const struct kernel_param_ops enabled_ops = {
	.set = enabled_set,
	.get = param_get_bool,
};
module_param_cb(enabled, &enabled_ops, &enabled, 0644);
MODULE_PARM_DESC(enabled, "Let the knobs of writeback follow load and share of writes");

static int __init writeback_dyn_init(void)
{
	mutex_lock(&enabled_lock);
	booted = true;
	if (enabled)
		start();
	mutex_unlock(&enabled_lock);
	return 0;
}
late_initcall(writeback_dyn_init);
