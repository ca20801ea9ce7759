/* SPDX-License-Identifier: GPL-2.0-only */
/* How writers are held back: as ever, not at all below a ceiling, or exactly. */
#ifndef _LINUX_WRITEBACK_PACE_H
#define _LINUX_WRITEBACK_PACE_H

#include <linux/types.h>

struct bdi_writeback;

bool wb_pace_off(unsigned long dirty, unsigned long available);
bool wb_pace_sleep(struct bdi_writeback *wb, unsigned long pages, unsigned long rate);
void wb_pace_count(unsigned long us);

#endif
