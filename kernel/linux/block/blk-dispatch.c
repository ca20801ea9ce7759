// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sleeping costs two context switches. A device that answers in less is better waited for on the
 * processor, if nobody else wants it.
 *
 *   submit_bio          the queue says how long its submitter may spin: io_spin_ns of the task
 *   wait for a folio,   the plug is flushed, then the task spins until it is woken, its time is
 *   completion, bio     over, or another task wants the processor; then it sleeps as ever
 *   end of a request    moves the queue's average
 *
 * The limit lies in the task and not in what is waited for, so that a wait needs no queue, whose
 * lifetime it could not know. A task that waits for the request of another task sleeps, unless it
 * has submitted one since that it did not wait for.
 */
#include <linux/blk-dispatch.h>
#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/completion.h>
#include <linux/ktime.h>
#include <linux/moduleparam.h>
#include <linux/sched/signal.h>
#include <linux/sched/stat.h>
#include <linux/wait.h>

#include "blk.h"

static unsigned int switch_ns = 1600;
module_param(switch_ns, uint, 0644);
MODULE_PARM_DESC(switch_ns, "Price of a context switch; adaptive queues spin below two of them");
static unsigned int spin_max_ns = NSEC_PER_MSEC;
module_param(spin_max_ns, uint, 0644);
MODULE_PARM_DESC(spin_max_ns, "Longest spin of queues whose dispatch is spin");

static const char *const modes[] = {
	[BLK_DISPATCH_SLEEP] = "sleep",
	[BLK_DISPATCH_SPIN] = "spin",
	[BLK_DISPATCH_ADAPTIVE] = "adaptive",
};

/* How long the submitter of a request of this direction may spin. */
static unsigned int spin_limit(struct request_queue *q, bool write)
{
	unsigned int limit = 2 * READ_ONCE(switch_ns), average;

	switch (READ_ONCE(q->dispatch.mode)) {
	case BLK_DISPATCH_SLEEP:
		break;
	case BLK_DISPATCH_SPIN:
		return READ_ONCE(spin_max_ns);
	case BLK_DISPATCH_ADAPTIVE:
		average = READ_ONCE(q->dispatch.average_ns[write]);
		if (!average || average > limit || !blk_queue_nonrot(q) || !single_task_running())
			break;
		return limit;
	}
	return 0;
}

void blk_dispatch_submit(struct bio *bio)
{
	struct request_queue *q = bdev_get_queue(bio->bi_bdev);
	bool write = op_is_write(bio_op(bio));

	if (write && !op_is_sync(bio->bi_opf))
		return;
	current->io_spin_ns = spin_limit(q, write);
	if (current->io_spin_ns)
		q->dispatch.spins++;
}

/* An eighth of the news; the first sample counts whole. Lost updates do no harm. */
void blk_dispatch_learn(struct request *rq, u64 now)
{
	bool write = op_is_write(req_op(rq));
	unsigned int *average = &rq->q->dispatch.average_ns[write];
	u64 took = now - rq->start_time_ns;

	/* The queue's fields are shared by all processors. */
	if (READ_ONCE(rq->q->dispatch.mode) == BLK_DISPATCH_SLEEP)
		return;
	if (!rq->start_time_ns || blk_rq_is_passthrough(rq) ||
	    (write && !op_is_sync(rq->cmd_flags)))
		return;
	took = min_t(u64, took, NSEC_PER_SEC);
	WRITE_ONCE(*average, *average ? (7ULL * *average + took) / 8 : took);
}

static bool spin(bool (*is_done)(const void *what), const void *what)
{
	u64 end = ktime_get_ns() + current->io_spin_ns;

	/* One spin for each submission: whoever was not woken in time sleeps. */
	current->io_spin_ns = 0;
	/* As schedule() does: the state may not be TASK_RUNNING, so no driver may sleep here. */
	blk_flush_plug(current->plug, true);
	while (!is_done(what)) {
		if (need_resched() || signal_pending(current) || ktime_get_ns() >= end)
			return false;
		cpu_relax();
	}
	return true;
}

static bool is_woken(const void *what)
{
	/* Pairs with the store-release in wake_page_function(). */
	return smp_load_acquire((const unsigned int *)what) & WQ_FLAG_WOKEN;
}

bool __blk_dispatch_flag(const unsigned int *flags, unsigned int bit)
{
	return bit == WQ_FLAG_WOKEN && spin(is_woken, flags);
}

static bool is_cleared(const void *what)
{
	/* Cleared by the end of the bio, whose results are read afterwards. */
	return !smp_load_acquire((struct task_struct *const *)what);
}

bool __blk_dispatch_waiter(struct task_struct *const *waiter)
{
	return spin(is_cleared, waiter);
}
EXPORT_SYMBOL_GPL(__blk_dispatch_waiter);

static bool is_complete(const void *what)
{
	return completion_done((struct completion *)what);
}

void __blk_dispatch_completion(struct completion *done)
{
	spin(is_complete, done);
}

ssize_t queue_dispatch_show(struct gendisk *disk, char *page)
{
	struct blk_dispatch *dispatch = &disk->queue->dispatch;
	enum blk_dispatch_mode mode = READ_ONCE(dispatch->mode);
	ssize_t length = 0;
	int i;

	for (i = 0; i < ARRAY_SIZE(modes); i++)
		length += sysfs_emit_at(page, length, i == mode ? "[%s] " : "%s ", modes[i]);
	length += sysfs_emit_at(page, length, "read %u write %u spins %lu\n",
				dispatch->average_ns[0], dispatch->average_ns[1], dispatch->spins);
	return length;
}

ssize_t queue_dispatch_store(struct gendisk *disk, const char *page, size_t count)
{
	int mode = sysfs_match_string(modes, page);

	if (mode < 0)
		return mode;
	WRITE_ONCE(disk->queue->dispatch.mode, mode);
	return count;
}
