/* SPDX-License-Identifier: GPL-2.0-only */
/* The knobs of writeback that follow the load, where that is enabled. */
#ifndef _LINUX_WRITEBACK_DYN_H
#define _LINUX_WRITEBACK_DYN_H

extern int *const wb_dirty_ratio;
extern int *const wb_background_ratio;
extern unsigned long *const wb_dirty_bytes;
extern unsigned long *const wb_background_bytes;

#endif
