/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The keeper: a process that does nothing but hold descriptors for reclaimd, so that they outlive
 * it, where the service manager does not hold them (daemon/context/descriptor-store.h). It is also
 * what closes the last one of a large file, which may take long, or hang on a frozen filesystem.
 *
 * It listens at a socket in the state directory. A client that connects is sent what it
 * holds, and has it hold, or close, more (wire/named-fd.h); one at a time. When it holds nothing,
 * and reclaimd has ended, it ends, too. SIGTERM ends it at any time: the kernel then frees what it
 * held. */
#pragma once

/* Serves at a socket that was bound. Returns 0 or a negative errno. */
int keeper_serve(int listening);
