/* SPDX-License-Identifier: GPL-2.0-only */
/* Prices of processor time for the kernel lab, where it is otherwise free. */
#ifndef _LINUX_LAB_H
#define _LINUX_LAB_H

enum lab_event {
	LAB_SWITCH,	/* a task gets the processor back after it gave it up */
	LAB_FAULT,	/* a page fault that found a mapping */
	LAB_DECODE,	/* a compressed block of cramfs */
	LAB_EVENTS,
};

void lab_charge(enum lab_event event);

#endif
