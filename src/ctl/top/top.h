/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* reclaimctl top, with its options. Returns the exit status. */
int top_main(int argc, char **argv);
