/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* polkit's agent for terminals, pkttyagent(1): which asks for a password where no session has an
 * agent of its own, as over ssh. A child that lives as long as the calls that may need it. */
#pragma once

#include <sys/types.h>

/* Starts one and waits a moment for it to be ready. Returns its pid, for agent_end, or 0 if there
 * is none: then things go on without. */
pid_t agent_start(void);
/* 0 is accepted. */
void agent_end(pid_t agent);
