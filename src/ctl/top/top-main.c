/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaim-top, which reclaimctl top becomes: see top-start.c. */
#include "top.h"

int main(int argc, char **argv)
{
	return top_main(argc, argv);
}
