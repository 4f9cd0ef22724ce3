/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pressure-sensor.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/fd.h"

int pressure_sample(const char *path, struct pressure_sample *ret)
{
	_cleanup_free_ char *text = NULL;
	ssize_t r = fd_read_file(path, KiB(4), &text);
	unsigned percent, hundredths;
	uint64_t some, full;

	if (r < 0)
		return (int)r;
	if (sscanf(text,
		   "some avg10=%u.%u avg60=%*s avg300=%*s total=%" SCNu64
		   " full avg10=%*s avg60=%*s avg300=%*s total=%" SCNu64,
		   &percent, &hundredths, &some, &full) != 4)
		return -EBADMSG;
	*ret = (struct pressure_sample){ some, full, percent > 0 || hundredths > 0 };
	return 0;
}
