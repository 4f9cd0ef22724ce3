/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "shrink-unit.h"

#include <unistd.h>

/* Large folios are as large as what one entry of a middle page table maps, at most: one page of
 * entries of 8 bytes each, or less. It is reckoned, not read from sysfs: a container may hide that.
 */
uint64_t shrink_unit(void)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	return MAX(page * (page / sizeof(uint64_t)), SHRINK_LEAST);
}
