/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the database says, which may be anything: checked, and told to reclaimd. */
#pragma once

#include <libpq-fe.h>

/* As of struct database_events; userdata is the companion. */
void answers_begin(void *userdata);
void answers_take(const PGresult *result, void *userdata);
void answers_notice(const char *payload, void *userdata);
