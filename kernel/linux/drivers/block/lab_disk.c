// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel lab's block device: pages in memory, ends of requests by a model.
 *
 *   request --> model: done at T --> hrtimer at T --> end of request
 *
 * Writing the name of a model to the parameter "model" makes the device idle and empty of state;
 * the bytes stay.
 */
#include <linux/blk-mq.h>
#include <linux/hrtimer.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/xarray.h>

#include "lab_disk.h"

/* The clock counts in these; TIMER_MULTIPLIER of the lab's hooks. */
#define CLOCK_NS 16

unsigned long long lab_capacity = (256ULL << 20) >> SECTOR_SHIFT;
unsigned long long lab_command_ns = 10600;
module_param_named(command_ns, lab_command_ns, ullong, 0644);
unsigned long long lab_stripe;
module_param_named(stripe, lab_stripe, ullong, 0644);
unsigned long long lab_flush_ns;
module_param_named(flush_ns, lab_flush_ns, ullong, 0644);
unsigned long long lab_interface;
module_param_named(interface, lab_interface, ullong, 0644);
unsigned long long lab_write_cache;
module_param_named(write_cache, lab_write_cache, ullong, 0644);
static unsigned int depth = 64;
module_param(depth, uint, 0444);

static const struct lab_model *const models[] = { &lab_fast, &lab_hdd, &lab_ssd };
static const struct lab_model *model = &lab_fast;
static DEFINE_SPINLOCK(model_lock);
static DEFINE_XARRAY(pages);
static struct blk_mq_tag_set tag_set;
static struct gendisk *disk;

struct lab_request {
	struct hrtimer timer;
	blk_status_t status;
};

/* A rate of zero is none: no time passes. Rounds up. */
u64 lab_transfer(u64 bytes, u64 rate)
{
	return rate ? DIV64_U64_ROUND_UP(bytes * NSEC_PER_SEC, rate) : 0;
}

u64 lab_bytes_in(u64 ns, u64 rate)
{
	return mul_u64_u64_div_u64(ns, rate, NSEC_PER_SEC);
}

static int model_set(const char *name, const struct kernel_param *kp)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(models); i++) {
		if (!sysfs_streq(name, models[i]->name))
			continue;
		spin_lock_irq(&model_lock);
		model = models[i];
		model->reset();
		spin_unlock_irq(&model_lock);
		if (disk)
			disk->queue->limits.features =
				(disk->queue->limits.features & ~BLK_FEAT_ROTATIONAL) |
				(model == &lab_hdd ? BLK_FEAT_ROTATIONAL : 0);
		return 0;
	}
	return -EINVAL;
}

static int model_get(char *page, const struct kernel_param *kp)
{
	return sysfs_emit(page, "%s\n", model->name);
}

static const struct kernel_param_ops model_ops = { .set = model_set, .get = model_get };
module_param_cb(model, &model_ops, NULL, 0644);

/* Moves @bytes, which lie in one page of memory, to or from the device's pages. */
static int move(u64 position, struct bio_vec *bv, bool write)
{
	u32 done = 0;

	while (done < bv->bv_len) {
		u32 offset = offset_in_page(position + done);
		u32 bytes = min_t(u32, bv->bv_len - done, PAGE_SIZE - offset);
		unsigned long index = (position + done) >> PAGE_SHIFT;
		char *theirs = bvec_kmap_local(bv) + done;
		char *ours = xa_load(&pages, index);

		if (write && !ours) {
			ours = (char *)get_zeroed_page(GFP_ATOMIC);
			if (!ours || xa_is_err(xa_store(&pages, index, ours, GFP_ATOMIC))) {
				free_page((unsigned long)ours);
				kunmap_local(theirs);
				return -ENOMEM;
			}
		}
		if (write)
			memcpy(ours + offset, theirs, bytes);
		else if (ours)
			memcpy(theirs, ours + offset, bytes);
		else
			memset(theirs, 0, bytes);
		kunmap_local(theirs);
		done += bytes;
	}
	return 0;
}

static blk_status_t move_all(struct request *rq)
{
	u64 position = blk_rq_pos(rq) << SECTOR_SHIFT;
	struct req_iterator iter;
	struct bio_vec bv;

	rq_for_each_segment(bv, rq, iter) {
		if (move(position, &bv, rq_data_dir(rq) == WRITE))
			return BLK_STS_RESOURCE;
		position += bv.bv_len;
	}
	return BLK_STS_OK;
}

static enum hrtimer_restart lab_done(struct hrtimer *timer)
{
	struct lab_request *request = container_of(timer, struct lab_request, timer);

	blk_mq_end_request(blk_mq_rq_from_pdu(request), request->status);
	return HRTIMER_NORESTART;
}

static blk_status_t lab_queue_rq(struct blk_mq_hw_ctx *hctx, const struct blk_mq_queue_data *bd)
{
	struct request *rq = bd->rq;
	struct lab_request *request = blk_mq_rq_to_pdu(rq);
	struct lab_access access = {
		.durable = rq->cmd_flags & REQ_FUA,
		.sector = blk_rq_pos(rq),
		.sectors = blk_rq_sectors(rq),
	};
	unsigned long flags;
	u64 done;

	request->status = BLK_STS_OK;
	switch (req_op(rq)) {
	case REQ_OP_READ:
		access.command = LAB_READ;
		request->status = move_all(rq);
		break;
	case REQ_OP_WRITE:
		access.command = LAB_WRITE;
		request->status = move_all(rq);
		break;
	case REQ_OP_FLUSH:
		access.command = LAB_FLUSH;
		break;
	default:
		return BLK_STS_NOTSUPP;
	}
	blk_mq_start_request(rq);
	spin_lock_irqsave(&model_lock, flags);
	done = model->service(ktime_get_ns(), &access);
	spin_unlock_irqrestore(&model_lock, flags);
	/* A timer between two counts of the clock fires early, and again after 500 ns. */
	done = roundup(done, CLOCK_NS);
	hrtimer_start(&request->timer, ns_to_ktime(done), HRTIMER_MODE_ABS);
	return BLK_STS_OK;
}

static int lab_init_request(struct blk_mq_tag_set *set, struct request *rq, unsigned int hctx,
			    unsigned int node)
{
	struct lab_request *request = blk_mq_rq_to_pdu(rq);

	hrtimer_init(&request->timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	request->timer.function = lab_done;
	return 0;
}

static const struct blk_mq_ops lab_mq_ops = {
	.queue_rq = lab_queue_rq,
	.init_request = lab_init_request,
};

static const struct block_device_operations lab_fops = { .owner = THIS_MODULE };

static int __init lab_disk_init(void)
{
	struct queue_limits limits = {
		.features = BLK_FEAT_WRITE_CACHE | BLK_FEAT_FUA,
		.max_hw_sectors = 2560,
		/* A request may be as long wherever its pages lie. */
		.max_segments = 2560 / PAGE_SECTORS,
		.logical_block_size = SECTOR_SIZE,
		.physical_block_size = PAGE_SIZE,
	};
	int error;

	model->reset();
	tag_set.ops = &lab_mq_ops;
	tag_set.nr_hw_queues = 1;
	tag_set.queue_depth = clamp(depth, 1U, 1024U);
	tag_set.numa_node = NUMA_NO_NODE;
	tag_set.cmd_size = sizeof(struct lab_request);
	tag_set.flags = BLK_MQ_F_SHOULD_MERGE;
	error = blk_mq_alloc_tag_set(&tag_set);
	if (error)
		return error;
	disk = blk_mq_alloc_disk(&tag_set, &limits, NULL);
	if (IS_ERR(disk)) {
		blk_mq_free_tag_set(&tag_set);
		return PTR_ERR(disk);
	}
	disk->fops = &lab_fops;
	strscpy(disk->disk_name, "lab0", DISK_NAME_LEN);
	set_capacity(disk, lab_capacity);
	error = add_disk(disk);
	if (error) {
		put_disk(disk);
		blk_mq_free_tag_set(&tag_set);
	}
	return error;
}
device_initcall(lab_disk_init);
