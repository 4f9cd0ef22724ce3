/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "spool-entries.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

/* The tree's keys are the names themselves, so that one can be looked for without an entry. */
static struct spool_entry *entry_of(const char *name)
{
	return (struct spool_entry *)(void *)((char *)(uintptr_t)name -
					      offsetof(struct spool_entry, name));
}

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void entry_free(void *name)
{
	free(entry_of(name));
}

void spool_entries_done(struct spool_entries *e)
{
	tdestroy(e->tree, entry_free);
	*e = (struct spool_entries){ 0 };
}

struct spool_entry *spool_entries_find(const struct spool_entries *e, const char *name)
{
	char *const *found = tfind(name, &e->tree, by_name);

	return found ? entry_of(*found) : NULL;
}

struct spool_entry *spool_entries_get(struct spool_entries *e, const char *name)
{
	struct spool_entry *entry = spool_entries_find(e, name);
	size_t size = strlen(name) + 1;

	if (entry || e->n >= SPOOL_ENTRIES_MOST)
		return entry;
	entry = calloc(1, sizeof(*entry) + size);
	if (!entry)
		return NULL;
	memcpy(entry->name, name, size);
	entry->submitter = -1;
	if (!tsearch(entry->name, &e->tree, by_name)) {
		free(entry);
		return NULL;
	}
	e->n++;
	return entry;
}

void spool_entries_forget(struct spool_entries *e, struct spool_entry *entry)
{
	spool_entry_set_touched(e, entry, false);
	(void)tdelete(entry->name, &e->tree, by_name);
	e->n--;
	free(entry);
}

void spool_entry_set_touched(struct spool_entries *e, struct spool_entry *entry, bool touched)
{
	if (entry->touched == touched)
		return;
	entry->touched = touched;
	e->n_touched += touched ? 1 : (size_t)-1;
}

struct visiting {
	void (*visit)(struct spool_entry *entry, void *userdata);
	void *userdata;
};

static void visit_node(const void *node, VISIT which, void *closure)
{
	const struct visiting *v = closure;

	if (which == postorder || which == leaf)
		v->visit(entry_of(*(char *const *)node), v->userdata);
}

void spool_entries_walk(const struct spool_entries *e,
			void (*visit)(struct spool_entry *entry, void *userdata), void *userdata)
{
	struct visiting v = { .visit = visit, .userdata = userdata };

	twalk_r(e->tree, visit_node, &v);
}

struct choosing {
	bool (*choose)(const struct spool_entry *entry, const void *userdata);
	const void *userdata;
	struct spool_entry **v;
	size_t n;
};

static void choose_one(struct spool_entry *entry, void *userdata)
{
	struct choosing *c = userdata;

	if (c->choose(entry, c->userdata))
		c->v[c->n++] = entry;
}

ssize_t spool_entries_choose(const struct spool_entries *e,
			     bool (*choose)(const struct spool_entry *entry, const void *userdata),
			     const void *userdata, struct spool_entry ***ret)
{
	struct choosing c = { .choose = choose, .userdata = userdata };

	c.v = calloc(e->n + 1, sizeof(struct spool_entry *));
	if (!c.v)
		return -ENOMEM;
	spool_entries_walk(e, choose_one, &c);
	*ret = c.v;
	return (ssize_t)c.n;
}
