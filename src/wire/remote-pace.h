/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The pace of another process: the deleting side of include/pace-page.h. */
#pragma once

struct pace;
struct remote_pace;

/* Takes the socket over, also on failure; the page's descriptor stays the caller's. Returns 0 or a
 * negative errno. */
int remote_pace_new(struct remote_pace **ret, int sock, int page_fd);
struct remote_pace *remote_pace_free(struct remote_pace *p);

/* For engine_pace; lives as long. When the other process is gone, nothing may go on: all that has
 * not begun is cancelled. */
const struct pace *remote_pace(struct remote_pace *p);
