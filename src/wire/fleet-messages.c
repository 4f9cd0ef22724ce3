/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fleet-messages.h"

#include "message-table.h"

FLEET_RECORDS(MESSAGE_RECORD)

static const struct message messages[] = { FLEET_REQUESTS(MESSAGE_ROW) FLEET_REPORTS(MESSAGE_ROW) };
static const struct message_table table = { messages, ELEMENTSOF(messages) };

void fleet_put(struct wire_out *o, const void *once)
{
	message_put(&table, o, once);
}

void fleet_put_item(struct wire_out *o, const void *item)
{
	message_put_item(&table, o, item);
}

int fleet_get(struct wire_in *in, void *ret)
{
	return message_get(&table, in, ret);
}

int fleet_get_item(struct wire_in *in, void *ret)
{
	return message_get_item(&table, in, ret);
}

bool fleet_slice_is_valid(uint64_t slice, uint64_t slices, size_t n_names)
{
	if (slices == 0)
		return slice == 0 && n_names > 0 && n_names <= FLEET_NAMES;
	return slices <= FLEET_SLICES && slice < slices && n_names == 0;
}
