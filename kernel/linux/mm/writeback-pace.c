// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pauses of writers.
 *
 *   linux   quanta of jiffies, as many pages between two pauses as make one of some jiffies
 *   off     no pauses below half of what may be dirty; writeback in the background goes on
 *   paced   after a millisecond's worth of pages a sleep of exactly the time that the rate asks
 *
 * Each task has a clock of its own: the moment up to which its pages are paid for.
 *
 *      now - CREDIT      paid        now
 *   -------|--------------|-----------|------->     pages: paid += pages / rate
 *          earlier is no credit       sleep until paid, if that is later
 */
#include <linux/backing-dev.h>
#include <linux/hrtimer.h>
#include <linux/math64.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>
#include <linux/writeback-pace.h>

enum pace_policy { PACE_LINUX, PACE_OFF, PACE_PACED };

static const char *const policies[] = {
	[PACE_LINUX] = "linux",
	[PACE_OFF] = "off",
	[PACE_PACED] = "paced",
};

/* What a task may save up, and the longest pause: as MAX_PAUSE. */
#define CREDIT_NS (10 * NSEC_PER_MSEC)
#define PAUSE_MAX_NS (200 * NSEC_PER_MSEC)
/* Pauses are about so many to the second, but of no more pages than stock throttling polls at. */
#define PAUSES_PER_SECOND 1000
#define PAGES_MAX 32

static enum pace_policy policy;

/* Of all policies; without locks, so that on several processors some may be missed. */
static unsigned long pauses;
module_param(pauses, ulong, 0444);
static unsigned long pause_us;
module_param(pause_us, ulong, 0444);
static unsigned long longest_us;
module_param(longest_us, ulong, 0644);

static int policy_set(const char *text, const struct kernel_param *kp)
{
	int found = sysfs_match_string(policies, text);

	if (found < 0)
		return found;
	WRITE_ONCE(policy, found);
	return 0;
}

static int policy_get(char *page, const struct kernel_param *kp)
{
	return sysfs_emit(page, "%s\n", policies[READ_ONCE(policy)]);
}

static const struct kernel_param_ops policy_ops = { .set = policy_set, .get = policy_get };
module_param_cb(policy, &policy_ops, NULL, 0644);
MODULE_PARM_DESC(policy, "How writers are held back: linux, off, paced");

void wb_pace_count(unsigned long us)
{
	pauses++;
	pause_us += us;
	longest_us = max(longest_us, us);
}

/* Whether a writer goes on at this level. Callers have ruled out memcgs and strict limits. */
bool wb_pace_off(unsigned long dirty, unsigned long available)
{
	return READ_ONCE(policy) == PACE_OFF && dirty < available / 2;
}

/* Sleeps as long as @pages take at @rate pages a second; false if another policy is in force. */
bool wb_pace_sleep(struct bdi_writeback *wb, unsigned long pages, unsigned long rate)
{
	u64 now, paid, length;
	ktime_t end;

	if (READ_ONCE(policy) != PACE_PACED)
		return false;
	now = ktime_get_ns();
	paid = max(current->dirty_paid_ns, now - min(now, CREDIT_NS)) +
		div64_u64((u64)NSEC_PER_SEC * pages, rate);
	current->nr_dirtied = 0;
	current->nr_dirtied_pause = clamp_t(long, rate / PAUSES_PER_SECOND, 1, PAGES_MAX);
	if (paid > now) {
		length = min_t(u64, paid - now, PAUSE_MAX_NS);
		paid = now + length;
		end = ns_to_ktime(paid);
		wb_pace_count(div_u64(length, NSEC_PER_USEC));
		__set_current_state(TASK_KILLABLE);
		wb->bdi->last_bdp_sleep = jiffies;
		schedule_hrtimeout_range(&end, 0, HRTIMER_MODE_ABS);
	}
	current->dirty_paid_ns = paid;
	current->dirty_paused_when = jiffies;
	return true;
}
