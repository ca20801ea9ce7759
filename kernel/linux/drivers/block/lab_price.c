// SPDX-License-Identifier: GPL-2.0-only
/*
 * Prices of processor time for the kernel lab.
 *
 * In the virtual time of user-mode Linux with time-travel=inf-cpu the processor takes no time. What
 * an experiment compares has a price in nanoseconds here, 0 unless it is set.
 */
#include <linux/delay.h>
#include <linux/lab.h>
#include <linux/moduleparam.h>

static unsigned int switch_ns;
module_param(switch_ns, uint, 0644);
static unsigned int fault_ns;
module_param(fault_ns, uint, 0644);
static unsigned int decode_ns;
module_param(decode_ns, uint, 0644);

static const unsigned int *const prices[LAB_EVENTS] = {
	[LAB_SWITCH] = &switch_ns,
	[LAB_FAULT] = &fault_ns,
	[LAB_DECODE] = &decode_ns,
};

static unsigned long switches;
module_param(switches, ulong, 0444);
static unsigned long faults;
module_param(faults, ulong, 0444);
static unsigned long decodes;
module_param(decodes, ulong, 0444);

static unsigned long *const counts[LAB_EVENTS] = {
	[LAB_SWITCH] = &switches,
	[LAB_FAULT] = &faults,
	[LAB_DECODE] = &decodes,
};

void lab_charge(enum lab_event event)
{
	unsigned int price = READ_ONCE(*prices[event]);

	++*counts[event];
	if (price)
		ndelay(price);
}
