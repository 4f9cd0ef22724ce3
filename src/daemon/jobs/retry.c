/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "retry.h"

#include <errno.h>

#include "base/macros.h"

#define AT_ONCE 2
#define FIRST_USEC (1 * USEC_PER_SEC)
#define MOST_USEC (300 * USEC_PER_SEC)

bool retry_helps(int error)
{
	return error == -EPIPE || error == -ECANCELED || error == -ENOMEM || error == -EAGAIN ||
	       error == -EMFILE || error == -ENFILE || error == -EUSERS;
}

uint64_t retry_after_usec(unsigned failures)
{
	uint64_t after = FIRST_USEC;

	if (failures <= AT_ONCE)
		return 0;
	for (unsigned i = AT_ONCE + 1; i < failures && after < MOST_USEC; i++)
		after *= 2;
	return MIN(after, MOST_USEC);
}
