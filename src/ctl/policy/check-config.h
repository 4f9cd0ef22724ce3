/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How what is wrong with a configuration is told on a terminal. */
#pragma once

#include "config/config.h"

/* "FILE:LINE:COLUMN: text" on standard error. */
void config_error_print(const struct config_error *e);
