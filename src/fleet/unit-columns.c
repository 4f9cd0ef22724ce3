/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "unit-columns.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/macros.h"

static const struct {
	char letter;
	uint32_t type;
} types[] = { { 'f', S_IFREG },  { 'd', S_IFDIR }, { 'l', S_IFLNK }, { 'p', S_IFIFO },
	      { 's', S_IFSOCK }, { 'c', S_IFCHR }, { 'b', S_IFBLK } };

void unit_columns_done(struct unit_columns *u)
{
	free(u->directory);
	free(u->names);
	free(u->ids);
	*u = (struct unit_columns){ 0 };
}

int unit_columns_add(struct unit_columns *u, const struct unit_name *name)
{
	size_t len = strlen(name->name) + 1;
	struct lasting_identity *id;
	char *names;

	if (u->n_names >= FLEET_NAMES || u->names_len + len > FLEET_NAMES_BYTES)
		return -E2BIG;
	names = realloc(u->names, u->names_len + len);
	if (!names)
		return -ENOMEM;
	u->names = names;
	id = array_add(&u->ids, &u->n_names, sizeof(*id));
	if (!id)
		return -ENOMEM;
	memcpy(u->names + u->names_len, name->name, len);
	u->names_len += len;
	*id = name->id;
	return 0;
}

static const char *names_next(const struct unit_columns *u, const char *name)
{
	name += strlen(name) + 1;
	return name < u->names + u->names_len ? name : NULL;
}

/* Any type of file, but those that statx(2) does not know. */
static bool type_is_known(uint32_t type)
{
	for (size_t i = 0; i < ELEMENTSOF(types); i++)
		if (types[i].type == type)
			return true;
	return false;
}

int unit_columns_check(const struct unit_columns *u)
{
	size_t n = 0;

	if (!u->directory || !is_component_path(u->directory) || u->parent.type != S_IFDIR ||
	    u->parent.fsid != 0 || u->parent.ino == 0 ||
	    !fleet_slice_is_valid(u->slice, u->slices, u->n_names))
		return -EBADMSG;
	if (u->names_len > 0 && u->names[u->names_len - 1] != '\0')
		return -EBADMSG;
	for (const char *name = u->names_len > 0 ? u->names : NULL; name;
	     name = names_next(u, name), n++)
		if (!is_component(name) || n >= u->n_names || u->ids[n].ino == 0 ||
		    u->ids[n].fsid != 0 || !type_is_known(u->ids[n].type))
			return -EBADMSG;
	return n == u->n_names ? 0 : -EBADMSG;
}

void identity_text(char buf[static IDENTITY_TEXT], const struct lasting_identity *id)
{
	char letter = '?';

	for (size_t i = 0; i < ELEMENTSOF(types); i++)
		if (types[i].type == id->type)
			letter = types[i].letter;
	(void)snprintf(buf, IDENTITY_TEXT, "%" PRIu64 ":%" PRIi64 ":%c", id->ino, id->btime_nsec,
		       letter);
}

char *unit_columns_identities(const struct unit_columns *u)
{
	char *text = NULL, one[IDENTITY_TEXT];
	size_t len;
	FILE *f = open_memstream(&text, &len);

	for (size_t i = 0; f && i < u->n_names; i++) {
		identity_text(one, &u->ids[i]);
		(void)fprintf(f, "%s%s", i > 0 ? " " : "", one);
	}
	if (f && fclose(f) == 0)
		return text;
	free(f ? text : NULL);
	return NULL;
}

int number_read_between(const char *text, int64_t least, int64_t most, int64_t *ret)
{
	char *end;
	int64_t n;

	if (!text || !isdigit((unsigned char)text[text[0] == '-']))
		return -EBADMSG;
	errno = 0;
	n = strtoll(text, &end, 10);
	if (errno != 0 || *end != '\0' || n < least || n > most)
		return -EBADMSG;
	*ret = n;
	return 0;
}

static int digit_read(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int bytes_read(const char *text, size_t most, char **ret, size_t *ret_len)
{
	size_t len;
	char *bytes;

	if (!text || strncmp(text, "\\x", 2) != 0)
		return -EBADMSG;
	text += 2;
	len = strlen(text);
	if (len % 2 != 0 || len / 2 > most)
		return -EBADMSG;
	len /= 2;
	bytes = malloc(len + 1);
	if (!bytes)
		return -ENOMEM;
	for (size_t i = 0; i < len; i++) {
		int high = digit_read(text[2 * i]), low = digit_read(text[2 * i + 1]);

		if (high < 0 || low < 0) {
			free(bytes);
			return -EBADMSG;
		}
		bytes[i] = (char)(high << 4 | low);
	}
	bytes[len] = '\0';
	*ret = bytes;
	*ret_len = len;
	return 0;
}

/* Reads one identity and moves *at behind it. */
static int identity_read(const char **at, struct lasting_identity *ret)
{
	struct lasting_identity id = { 0 };
	char *end;

	if (!isdigit((unsigned char)**at))
		return -EBADMSG;
	errno = 0;
	id.ino = strtoull(*at, &end, 10);
	if (errno != 0 || *end != ':' || !isdigit((unsigned char)end[end[1] == '-' ? 2 : 1]))
		return -EBADMSG;
	id.btime_nsec = strtoll(end + 1, &end, 10);
	if (errno != 0 || *end != ':')
		return -EBADMSG;
	for (size_t i = 0; i < ELEMENTSOF(types); i++)
		if (types[i].letter == end[1])
			id.type = types[i].type;
	if (id.type == 0)
		return -EBADMSG;
	*at = end + 2;
	*ret = id;
	return 0;
}

static int identities_read(struct unit_columns *u, const char *text)
{
	while (*text) {
		struct lasting_identity *id;

		if (u->n_names >= FLEET_NAMES)
			return -EBADMSG;
		id = array_add(&u->ids, &u->n_names, sizeof(*id));
		if (!id)
			return -ENOMEM;
		if (identity_read(&text, id) < 0 || (*text != '\0' && *text != ' '))
			return -EBADMSG;
		/* None may be missing behind a blank. */
		if (*text == ' ' && *++text == '\0')
			return -EBADMSG;
	}
	return 0;
}

int unit_columns_read(struct unit_columns *ret, const char *directory, const char *parent,
		      const char *slice, const char *slices, const char *names,
		      const char *identities)
{
	int64_t n_slice = 0, n_slices = 0;
	size_t len = 0;
	int r;

	if (!parent || !identities || identity_read(&parent, &ret->parent) < 0 || *parent != '\0')
		return -EBADMSG;
	if (number_read_between(slice, 0, FLEET_SLICES, &n_slice) < 0 ||
	    number_read_between(slices, 0, FLEET_SLICES, &n_slices) < 0)
		return -EBADMSG;
	ret->slice = (uint32_t)n_slice;
	ret->slices = (uint32_t)n_slices;
	r = bytes_read(directory, FLEET_PATH_SIZE - 1, &ret->directory, &len);
	if (r >= 0 && strlen(ret->directory) != len)
		r = -EBADMSG;
	if (r >= 0)
		r = bytes_read(names, FLEET_NAMES_BYTES, &ret->names, &ret->names_len);
	if (r >= 0)
		r = identities_read(ret, identities);
	return r < 0 ? r : unit_columns_check(ret);
}
