/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How reclaimctl tells its results: the choices of its options, and its exit statuses. */
#pragma once

#include "base/error-table.h"

enum json_mode { JSON_OFF, JSON_SHORT, JSON_PRETTY };
enum switch_mode { SWITCH_AUTO, SWITCH_ON, SWITCH_OFF };
