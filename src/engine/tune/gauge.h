/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How busy this process's lanes are: CPU time used, and time spent ready to run while others had
 * the CPU. A lane that cannot compute because the machine is busy is not one that waits for a disk.
 */
#pragma once

#include <stdint.h>

/* What one thread is watched through; -1 is one that is not. */
typedef int gauge_t;

/* Watches the calling thread. Never fails: without /proc its delays count for nothing. */
gauge_t gauge_open(void);

/* 512-byte sectors that the whole process has had read from disks. */
uint64_t gauge_reads(void);

/* CPU time of the whole process, in microseconds, and the delays of n watched threads. */
uint64_t gauge_read(const gauge_t *threads, unsigned n);
