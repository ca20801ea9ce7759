// SPDX-License-Identifier: GPL-2.0-only
/*
 * Bulk reads and selective decoding.
 *
 * Readahead on a compressed file decodes pages that may never be used, and reads them from the
 * device in small pieces. Here readahead of the file is off, so that a page is only decoded on
 * demand, and readahead of the device is ours: the raw blocks of a window come at once.
 *
 *   file      [ . . . . d . . . . ]      window around the demanded page: only d is decoded
 *              \       / \       /
 *   device    [raw of the window   ]      one run of the device's page cache
 *
 * A later demand in the window finds its raw block cached. With bulk_idle a thread of the lowest
 * priority decodes the window's other pages.
 */
#include <linux/blkdev.h>
#include <linux/fs.h>
#include <linux/highmem.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/pagemap.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <uapi/linux/cramfs_fs.h>
#include <uapi/linux/sched/types.h>

#include "bulk.h"
#include "internal.h"

/* The largest window, and how many windows may wait for idle time. */
#define WINDOW_MAX 256U
#define IDLE_MAX 64

static unsigned int bulk_pages;
module_param(bulk_pages, uint, 0644);
MODULE_PARM_DESC(bulk_pages, "Pages around a demanded one to read in bulk; 0: off");
static bool bulk_idle;
module_param(bulk_idle, bool, 0644);
MODULE_PARM_DESC(bulk_idle, "Decode the window's other pages in idle time");

static unsigned long bulk_reads;
module_param(bulk_reads, ulong, 0444);
MODULE_PARM_DESC(bulk_reads, "Windows read so far");
static unsigned long idle_decodes;
module_param(idle_decodes, ulong, 0444);
MODULE_PARM_DESC(idle_decodes, "Pages decoded in idle time so far");

void cramfs_bulk_no_readahead(struct file *file)
{
	/* Not in open: there it would be set again afterwards. */
	if (READ_ONCE(bulk_pages))
		file->f_ra.ra_pages = 0;
}

static int cramfs_bulk_mmap(struct file *file, struct vm_area_struct *vma)
{
	cramfs_bulk_no_readahead(file);
	return generic_file_readonly_mmap(file, vma);
}

ssize_t cramfs_bulk_read_iter(struct kiocb *iocb, struct iov_iter *to)
{
	cramfs_bulk_no_readahead(iocb->ki_filp);
	return generic_file_read_iter(iocb, to);
}

const struct file_operations cramfs_bulk_fops = {
	.llseek		= generic_file_llseek,
	.read_iter	= cramfs_bulk_read_iter,
	.mmap		= cramfs_bulk_mmap,
	.splice_read	= filemap_splice_read,
};

#ifdef CONFIG_CRAMFS_BLOCKDEV

/* A few device pages in a row; under cramfs' read_mutex, as its own buffers. */
#define BUFFER_PAGES 4
static unsigned char buffer[BUFFER_PAGES * PAGE_SIZE];

struct idle_window {
	struct kthread_work work;
	struct inode *inode;
	u32 from, to, demanded;
};

static struct kthread_worker *idle_worker;
static atomic_t idle_windows = ATOMIC_INIT(0);

static void idle_decode(struct kthread_work *work)
{
	struct idle_window *window = container_of(work, struct idle_window, work);
	struct address_space *mapping = window->inode->i_mapping;
	u32 count = window->to - window->from, i;

	/* What follows the demand comes first, then what is before it. */
	for (i = 1; i < count && READ_ONCE(bulk_idle); i++) {
		u32 index = window->from + (window->demanded - window->from + i) % count;
		struct folio *folio = filemap_get_folio(mapping, index);

		if (IS_ERR(folio)) {
			folio = read_mapping_folio(mapping, index, NULL);
			if (IS_ERR(folio))
				break;
			idle_decodes++;
		}
		folio_put(folio);
		cond_resched();
	}
	iput(window->inode);
	kfree(window);
	atomic_dec(&idle_windows);
}

static void idle_queue(struct inode *inode, u32 from, u32 to, u32 demanded)
{
	struct idle_window *window;

	if (!READ_ONCE(bulk_idle) || current == idle_worker->task)
		return;
	if (atomic_inc_return(&idle_windows) > IDLE_MAX)
		goto full;
	window = kmalloc(sizeof(*window), GFP_KERNEL);
	if (!window)
		goto full;
	kthread_init_work(&window->work, idle_decode);
	window->inode = inode;
	ihold(inode);
	window->from = from;
	window->to = to;
	window->demanded = demanded;
	kthread_queue_work(idle_worker, &window->work);
	return;
full:
	atomic_dec(&idle_windows);
}

void cramfs_bulk_drain(void)
{
	kthread_flush_worker(idle_worker);
}

int cramfs_bulk_init(void)
{
	/* A reader that wakes up takes the processor from this policy at once. */
	const struct sched_attr idle = { .size = sizeof(idle), .sched_policy = SCHED_IDLE };
	int error;

	idle_worker = kthread_create_worker(0, "cramfs-idle");
	if (IS_ERR(idle_worker)) {
		cramfs_uncompress_exit();
		return PTR_ERR(idle_worker);
	}
	error = sched_setattr_nocheck(idle_worker->task, &idle);
	if (error) {
		kthread_destroy_worker(idle_worker);
		cramfs_uncompress_exit();
	}
	return error;
}

void cramfs_bulk_exit(void)
{
	kthread_destroy_worker(idle_worker);
}

/* The first byte of block @n of a file whose pointers are ends of blocks. */
static int block_start(struct inode *inode, u32 n, u32 maxblock, u32 *start)
{
	u32 at = inode->i_ino + (n - 1) * 4;
	struct folio *folio;

	if (!n) {
		*start = inode->i_ino + maxblock * 4;
		return 0;
	}
	folio = read_mapping_folio(inode->i_sb->s_bdev->bd_mapping, at >> PAGE_SHIFT, NULL);
	if (IS_ERR(folio))
		return PTR_ERR(folio);
	memcpy_from_folio((char *)start, folio, offset_in_folio(folio, at), 4);
	folio_put(folio);
	*start &= ~CRAMFS_BLK_FLAGS;
	return 0;
}

static bool is_cached(struct address_space *mapping, pgoff_t index)
{
	struct folio *folio = filemap_get_folio(mapping, index);

	if (IS_ERR(folio))
		return false;
	folio_put(folio);
	return true;
}

/*
 * Brings the raw blocks around page @index into the device's page cache, unless that of @index is
 * there. What goes wrong shows when the demanded block itself is read.
 */
void cramfs_bulk_fill(struct inode *inode, u32 index, u32 maxblock, unsigned long flags)
{
	u32 window = min(READ_ONCE(bulk_pages), WINDOW_MAX), from, to, start, end, first, last;
	struct address_space *mapping;
	struct file_ra_state ra = {};

	if (!window || !inode->i_sb->s_bdev || flags & CRAMFS_FLAG_EXT_BLOCK_POINTERS)
		return;
	mapping = inode->i_sb->s_bdev->bd_mapping;
	if (block_start(inode, index, maxblock, &start) ||
	    block_start(inode, index + 1, maxblock, &end) || end <= start)
		return;
	first = start >> PAGE_SHIFT;
	for (last = (end - 1) >> PAGE_SHIFT; first <= last && is_cached(mapping, first); first++)
		;
	if (first > last)
		return;
	/* A reader that comes from the front is in a stream: nothing of use lies before it. */
	from = index && is_cached(inode->i_mapping, index - 1) ? index :
		index - min(index, window / 2);
	to = min(from + window, maxblock);
	if (block_start(inode, from, maxblock, &start) ||
	    block_start(inode, to, maxblock, &end) || end <= start)
		return;
	/* A block has at most two pages; more is damage, which the demand will find. */
	end = min_t(u64, end, bdev_nr_bytes(inode->i_sb->s_bdev));
	if (end <= start || end - start > 2 * window * PAGE_SIZE)
		return;
	{
		DEFINE_READAHEAD(ractl, NULL, &ra, mapping, start >> PAGE_SHIFT);

		page_cache_ra_unbounded(&ractl, ((end - 1) >> PAGE_SHIFT) -
					(start >> PAGE_SHIFT) + 1, 0);
	}
	bulk_reads++;
	idle_queue(inode, from, to, index);
}

/* @len bytes at @offset of the device, of no more pages than they lie in; NULL: read as before. */
void *cramfs_bulk_buffer(struct super_block *sb, unsigned int offset, unsigned int len)
{
	struct address_space *mapping = sb->s_bdev->bd_mapping;
	unsigned int skip = offset_in_page(offset), pages = DIV_ROUND_UP(skip + len, PAGE_SIZE), i;
	pgoff_t index = offset >> PAGE_SHIFT, end = bdev_nr_bytes(sb->s_bdev) >> PAGE_SHIFT;

	if (!READ_ONCE(bulk_pages) || pages > BUFFER_PAGES)
		return NULL;
	for (i = 0; i < pages; i++) {
		struct folio *folio;

		if (index + i >= end) {
			memset(buffer + i * PAGE_SIZE, 0, PAGE_SIZE);
			continue;
		}
		folio = read_mapping_folio(mapping, index + i, NULL);
		if (IS_ERR(folio))
			return NULL;
		memcpy_from_folio(buffer + i * PAGE_SIZE, folio,
				  offset_in_folio(folio, (loff_t)(index + i) << PAGE_SHIFT),
				  PAGE_SIZE);
		folio_put(folio);
	}
	return buffer + skip;
}

#else

int cramfs_bulk_init(void)
{
	return 0;
}

void cramfs_bulk_exit(void)
{
}

void cramfs_bulk_drain(void)
{
}

void cramfs_bulk_fill(struct inode *inode, u32 index, u32 maxblock, unsigned long flags)
{
	/* Raw blocks lie in memory, and there is no readahead that would decode others. */
}

#endif
