// SPDX-License-Identifier: GPL-2.0-only
/*
 * Readahead by the size of the request, after Seol and Lee's proposal for Linux 2.6.7.
 *
 * The rule sees each page of a request in turn, with what is left of the request. Runs of
 * consecutive pages are averaged; a page outside the window opens a new one.
 *
 *   request of n > 1                        jump to o and back to p
 *   [o ... o+n)[declared: average )         current [p......)     previous  -
 *   read        nothing yet                 current [o...)        previous [p......)
 *              ^ reached: read              current [p......)     previous [o...)
 *
 * A window of a large request is the request. The average is declared behind it and read when the
 * reader gets there. A jump saves the windows it leaves, a jump back exchanges them. Sizes are
 * unsigned and wrap: a size below zero turns the rule off until a limit's worth of pages was missed
 * in sequence.
 */
#include <linux/backing-dev.h>
#include <linux/blk-cgroup.h>
#include <linux/device.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/pagemap.h>
#include <linux/readahead-size.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sizes.h>
#include <linux/vmstat.h>

#include "internal.h"

/* The size of the next window while the rule is off. */
#define RA_SIZE_OFF ULONG_MAX
/* Pages of a file's first window, and the least after a miss. */
#define RA_SIZE_FIRST 4UL
/* How many more misses than hits faults of a file may have before they stop reading ahead. */
#define RA_SIZE_MISSES 100
/* Pages of a window that are submitted between two checks for a fatal signal. */
#define RA_SIZE_PIECE (SZ_2M >> PAGE_SHIFT)

/* Windows with absent pages, and these pages. Two tasks at once may count for one. */
static unsigned long windows_read;
module_param(windows_read, ulong, 0444);
static unsigned long pages_read;
module_param(pages_read, ulong, 0444);

void ra_size_init(struct file_ra_state *ra, struct address_space *mapping)
{
	memset(&ra->by_size, 0, sizeof(ra->by_size));
	ra->by_size.average = ra->ra_pages / 2;
}

static bool is_on(struct file *file)
{
	return file && inode_to_bdi(file->f_mapping->host)->ra_by_size;
}

/* The largest window that no request asked for; 0: readahead is off. */
static unsigned long limit_of(struct file *file)
{
	return file->f_mode & FMODE_RANDOM ? 0 : file->f_ra.ra_pages;
}

static bool contains(const struct ra_size_window *window, pgoff_t page)
{
	return window->start <= page && page < window->start + window->size;
}

/* As above, or the page right behind. */
static bool touches(const struct ra_size_window *window, pgoff_t page)
{
	return window->start <= page && page <= window->start + window->size;
}

static bool is_cached(struct address_space *mapping, pgoff_t page)
{
	void *entry = xa_load(&mapping->i_pages, page);

	return entry && !xa_is_value(entry);
}

/* Submits @size pages from @start on; what a killed task has not submitted yet is left out. */
static void submit(struct file *file, pgoff_t start, unsigned long size)
{
	unsigned long done, piece;

	for (done = 0; done < size && !fatal_signal_pending(current); done += piece) {
		DEFINE_READAHEAD(ractl, file, &file->f_ra, file->f_mapping, start + done);

		piece = min(size - done, RA_SIZE_PIECE);
		page_cache_ra_unbounded(&ractl, piece, 0);
	}
}

/* Pages from @start to before @end that lie in the folio at hand. */
static unsigned long inside(struct xa_state *xas, pgoff_t start, pgoff_t end)
{
	unsigned long size = 1UL << xas_get_order(xas);
	pgoff_t first = round_down(xas->xa_index, size);

	return min(first + size, end) - max(first, start);
}

/*
 * Reads the absent pages of a window; how many there were. Tasks that share the file may move the
 * window meanwhile, so it is read once.
 */
static unsigned long issue(struct file *file, const struct ra_size_window *window)
{
	struct address_space *mapping = file->f_mapping;
	unsigned long end = DIV_ROUND_UP(i_size_read(mapping->host), PAGE_SIZE), absent;
	unsigned long size = READ_ONCE(window->size);
	pgoff_t start = READ_ONCE(window->start);
	XA_STATE(xas, &mapping->i_pages, start);
	void *entry;

	if (!size || start >= end || blk_cgroup_congested())
		return 0;
	size = min(size, end - start);
	end = start + size;
	absent = size;
	rcu_read_lock();
	xas_for_each(&xas, entry, end - 1)
		if (!xas_retry(&xas, entry) && !xa_is_value(entry))
			absent -= inside(&xas, start, end);
	rcu_read_unlock();
	if (absent) {
		submit(file, start, size);
		windows_read++;
		pages_read += absent;
	}
	return absent;
}

static void turn_off(struct ra_size_state *s)
{
	s->next = RA_SIZE_OFF;
	s->windows.current_window.size = 0;
}

/* A window of which nothing had to be read makes the next one smaller than @wanted. */
static void check(struct ra_size_state *s, unsigned long added, unsigned long wanted)
{
	if (added)
		return;
	if (wanted <= 1) {
		turn_off(s);
		return;
	}
	s->next = wanted - 1;
	if (s->windows.ahead.size)
		s->windows.ahead.size = s->next;
}

/* Goes back to the previous windows if @page touches them and not the current one. */
static bool go_back(struct ra_size_state *s, pgoff_t page)
{
	struct ra_size_window *previous = &s->previous.current_window;

	if (touches(&s->windows.current_window, page) || !previous->size ||
	    !touches(previous, page))
		return false;
	swap(s->windows, s->previous);
	s->prev = page;
	return true;
}

/* Counts @page into the run or ends the run, and moves the speed memory. */
static void count(struct ra_size_state *s, pgoff_t page, unsigned long limit)
{
	if (page == s->prev + 1) {
		if (s->run <= 2 * limit)
			s->run++;
	} else {
		s->average = (s->average + (s->average < s->run) + s->run) / 2;
		s->run = 1;
	}
	s->prev = page;
	s->next += touches(&s->windows.current_window, page) ? 2 : -2;
}

/* A window from @page on: the request if that is large, else @size pages. */
static void open_window(struct ra_size_state *s, pgoff_t page, unsigned long size,
			unsigned long request)
{
	struct ra_size_windows *windows = &s->windows;

	windows->pending = request > 1;
	if (windows->pending) {
		windows->current_window = (struct ra_size_window){ page, request };
		windows->ahead = (struct ra_size_window){ page + request, s->average };
	} else {
		windows->current_window = (struct ra_size_window){ page, size };
		windows->ahead = (struct ra_size_window){ 0, 0 };
	}
}

/* The reader is inside: the next window is read if the run looks longer than the limit. */
static void read_further(struct file *file, unsigned long limit, unsigned long wanted)
{
	struct ra_size_state *s = &file->f_ra.by_size;
	struct ra_size_windows *windows = &s->windows;
	unsigned long expected = s->average;

	if (s->run > s->average)
		expected = DIV_ROUND_UP(s->run + s->average, 2);
	if (windows->ahead.start || expected <= limit)
		return;
	windows->ahead.start = windows->current_window.start + windows->current_window.size;
	windows->ahead.size = s->next;
	check(s, issue(file, &windows->ahead), wanted);
}

/* The reader reaches the window ahead, which is read at this point if it was only declared. */
static void reach(struct file *file, pgoff_t page, unsigned long request, unsigned long limit,
		  unsigned long wanted)
{
	struct ra_size_state *s = &file->f_ra.by_size;
	struct ra_size_windows *windows = &s->windows;

	windows->current_window = windows->ahead;
	windows->ahead = (struct ra_size_window){ 0, 0 };
	if (!windows->pending)
		return;
	windows->pending = false;
	windows->current_window.start = page;
	windows->current_window.size = max(request, min(windows->current_window.size, limit));
	check(s, issue(file, &windows->current_window), wanted);
}

/* One page of a request, of which @request pages are left, this one included. */
static void step(struct file *file, pgoff_t page, unsigned long request)
{
	struct ra_size_state *s = &file->f_ra.by_size;
	unsigned long limit = limit_of(file), wanted = s->next;

	if ((page == s->prev && s->next) || s->next == RA_SIZE_OFF || !limit)
		return;
	if (!s->next) {
		s->next = min(RA_SIZE_FIRST, limit);
		s->prev = page;
		s->run++;
		open_window(s, page, s->next, request);
		issue(file, &s->windows.current_window);
		return;
	}
	if (!go_back(s, page))
		count(s, page, limit);
	if ((long)s->next > (long)limit)
		s->next = limit;
	if ((long)s->next <= 0) {
		turn_off(s);
		return;
	}
	if (contains(&s->windows.current_window, page)) {
		read_further(file, limit, wanted);
	} else if (page && page == s->windows.ahead.start) {
		reach(file, page, request, limit, wanted);
	} else {
		/* A sequential successor is no jump. */
		if (!touches(&s->windows.current_window, page))
			s->previous = s->windows;
		s->next = min(s->average, limit);
		open_window(s, page, s->next, request);
		check(s, issue(file, &s->windows.current_window), wanted);
	}
}

/* @page is absent in spite of everything. */
static void miss(struct file *file, pgoff_t page)
{
	struct ra_size_state *s = &file->f_ra.by_size;
	struct ra_size_windows *windows = &s->windows;
	unsigned long limit = limit_of(file);

	if (s->next != RA_SIZE_OFF) {
		s->next -= 3;
		if (s->next < RA_SIZE_FIRST)
			s->next = RA_SIZE_FIRST;
	} else {
		struct ra_size_window *now = &windows->current_window;

		if (page != s->prev + 1) {
			now->size -= !!now->size;
		} else if (++now->size >= limit) {
			*now = (struct ra_size_window){ page - limit, limit };
			s->next = limit;
			windows->ahead = (struct ra_size_window){ 0, 0 };
		}
		s->prev = page;
	}
	if (!windows->ahead.start)
		windows->pending = false;
}

static void meet(struct file *file, pgoff_t page, unsigned long request)
{
	step(file, page, request);
	if (!is_cached(file->f_mapping, page))
		miss(file, page);
}

/* A read is about to look for page @index; returns the end of what it may look for at once. */
pgoff_t ra_size_read(struct kiocb *iocb, pgoff_t index, pgoff_t end)
{
	unsigned int flags = 0;

	if (!is_on(iocb->ki_filp) || iocb->ki_flags & IOCB_NOIO)
		return end;
	if (iocb->ki_flags & IOCB_NOWAIT)
		flags = memalloc_noio_save();
	meet(iocb->ki_filp, index, end - index);
	if (iocb->ki_flags & IOCB_NOWAIT)
		memalloc_noio_restore(flags);
	return index + 1;
}

/* A page that the rule left out of a read of @file is read alone. */
bool ra_size_miss(struct file *file)
{
	return is_on(file);
}

#ifdef CONFIG_MMU
/* What memory can spare, as 2.6.7 has it. */
static unsigned long sane(unsigned long size)
{
	unsigned long idle = global_node_page_state(NR_INACTIVE_FILE) +
			     global_zone_page_state(NR_FREE_PAGES);

	return min(size, idle / 2);
}

/* A fault on an absent page. */
bool ra_size_fault(struct vm_fault *vmf, struct file **fpin)
{
	struct file *file = vmf->vma->vm_file;
	struct ra_size_state *s = &file->f_ra.by_size;
	struct ra_size_window window = { .start = vmf->pgoff };
	/* Without mmap_lock the mapping may go away. */
	unsigned long vm_flags = vmf->vma->vm_flags;

	if (!is_on(file))
		return false;
	*fpin = maybe_unlock_mmap_for_io(vmf, *fpin);
	if (vm_flags & (VM_SEQ_READ | VM_RAND_READ)) {
		if (vm_flags & VM_SEQ_READ)
			meet(file, vmf->pgoff, 1);
		s->hits++;
		return true;
	}
	if (++s->misses > s->hits + RA_SIZE_MISSES) {
		s->hits++;
		return true;
	}
	window.size = sane(limit_of(file));
	issue(file, &window);
	return true;
}

/* A fault on a page that is there. */
bool ra_size_hit(struct vm_fault *vmf, struct file **fpin)
{
	struct file *file = vmf->vma->vm_file;
	struct ra_size_state *s = &file->f_ra.by_size;
	const struct ra_size_windows *now = &s->windows;

	if (!is_on(file))
		return false;
	s->hits++;
	if (!(vmf->vma->vm_flags & VM_SEQ_READ))
		return true;
	/* Where the next window is not there yet, this may read it. */
	if (!now->ahead.start || !contains(&now->current_window, vmf->pgoff))
		*fpin = maybe_unlock_mmap_for_io(vmf, *fpin);
	step(file, vmf->pgoff, 1);
	return true;
}
#endif

static ssize_t read_ahead_rule_show(struct device *dev, struct device_attribute *attr, char *page)
{
	struct backing_dev_info *bdi = dev_get_drvdata(dev);

	return sysfs_emit(page, bdi->ra_by_size ? "on-demand [request-size]\n" :
						  "[on-demand] request-size\n");
}

static ssize_t read_ahead_rule_store(struct device *dev, struct device_attribute *attr,
				     const char *text, size_t length)
{
	static const char *const rules[] = { "on-demand", "request-size" };
	struct backing_dev_info *bdi = dev_get_drvdata(dev);
	int rule = sysfs_match_string(rules, text);

	if (rule < 0)
		return rule;
	WRITE_ONCE(bdi->ra_by_size, rule);
	return length;
}

DEVICE_ATTR_RW(read_ahead_rule);
