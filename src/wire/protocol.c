/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "protocol.h"

#include "message-table.h"

PROTOCOL_RECORDS(MESSAGE_RECORD)

static const struct message messages[] = { PROTOCOL_REQUESTS(MESSAGE_ROW)
						   PROTOCOL_ANSWERS(MESSAGE_ROW) };
static const struct message_table table = { messages, ELEMENTSOF(messages) };

void protocol_put(struct wire_out *o, const void *once)
{
	message_put(&table, o, once);
}

void protocol_put_item(struct wire_out *o, const void *item)
{
	message_put_item(&table, o, item);
}

int protocol_get(struct wire_in *in, void *ret)
{
	return message_get(&table, in, ret);
}

int protocol_get_item(struct wire_in *in, void *ret)
{
	return message_get_item(&table, in, ret);
}
