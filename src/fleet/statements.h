/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The statements that are sent: each calls one function of the schema (sql/). The database must be
 * idle; what it answers is answers.c's. */
#pragma once

#include "companion-state.h"

/* A session begins with these, one after the other. */
void send_settings(struct companion *c);
void send_listen(struct companion *c);
void send_join(struct companion *c);

void send_renew(struct companion *c);
void send_news(struct companion *c);
/* There must be something to claim. */
void send_claim(struct companion *c);
/* There must be items. */
void send_items(struct companion *c);
void send_leave(struct companion *c);
