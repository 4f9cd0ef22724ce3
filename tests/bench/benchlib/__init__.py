# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the benchmarks share; one noun per file.

scratch      a directory, a mount namespace and the undoing of everything
blockdev     what the kernel says about a block device
filesystems  filesystems on loop devices and tmpfs
slowdisk     a simulated disk to put a filesystem on
filling      large files, written around the page cache
trees        the trees to delete (cells), building and checking them
arms         the programs that delete, found or installed
measure      one deletion: time, processor, memory, system calls
rounds       all arms, interleaved, on one filesystem
report       medians, tables, bars, JSON
picture      the same for a README
reclaimd     a daemon

and, of the interference benchmark:

scenarios    disks, filesystems, victims and loads
owndisk      a disk of the user's in place of a simulated one
stage        all of that set up once, and brought back for every arm
foreground   the program whose I/O must not suffer
postgres     one that is a real database
deleters     the arms
impact       one deletion, and what it does to foreground I/O
dynamics     no foreground I/O; it begins; it ends
speeds       how fast a deletion goes on, and how soon that changes
verdict      medians, tables, bars
curves       the picture
recorded     reports of earlier runs

and, of the trim benchmark:

freespace    a filesystem that is full but for some pieces
trimmap      what the simulated disk says was trimmed
trimming     one trim, beside foreground I/O or alone
trimverdict  tables, bars
"""
