/* SPDX-License-Identifier: GPL-2.0-only */
/* Whether a task that waits for its own request sleeps or spins. */
#ifndef _LINUX_BLK_DISPATCH_H
#define _LINUX_BLK_DISPATCH_H

#include <linux/sched.h>

struct bio;
struct completion;
struct gendisk;
struct request;

enum blk_dispatch_mode {
	BLK_DISPATCH_SLEEP,
	BLK_DISPATCH_SPIN,
	BLK_DISPATCH_ADAPTIVE,
};

/* Of a queue. The averages are of reads and of synchronous writes, in ns. */
struct blk_dispatch {
	enum blk_dispatch_mode	mode;
	unsigned int		average_ns[2];
	unsigned long		spins;
};

#ifdef CONFIG_BLOCK

void blk_dispatch_submit(struct bio *bio);
void blk_dispatch_learn(struct request *rq, u64 now);
bool __blk_dispatch_flag(const unsigned int *flags, unsigned int bit);
bool __blk_dispatch_waiter(struct task_struct *const *waiter);
void __blk_dispatch_completion(struct completion *done);
ssize_t queue_dispatch_show(struct gendisk *disk, char *page);
ssize_t queue_dispatch_store(struct gendisk *disk, const char *page, size_t count);

/* Spins until @bit is set in @flags, if the task may; whether it is. */
static inline bool blk_dispatch_flag(const unsigned int *flags, unsigned int bit)
{
	return current->io_spin_ns && __blk_dispatch_flag(flags, bit);
}

/* Spins until @waiter is cleared, if the task may; whether it is. */
static inline bool blk_dispatch_waiter(struct task_struct *const *waiter)
{
	return current->io_spin_ns && __blk_dispatch_waiter(waiter);
}

/* Spins until @done, if the task may. */
static inline void blk_dispatch_completion(struct completion *done)
{
	if (current->io_spin_ns)
		__blk_dispatch_completion(done);
}

#else

static inline bool blk_dispatch_flag(const unsigned int *flags, unsigned int bit)
{
	return false;
}

#endif
#endif
