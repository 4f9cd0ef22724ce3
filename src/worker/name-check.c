/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "intake.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "deletable.h"
#include "engine/guard/path-intake.h"
#include "engine/guard/protect.h"
#include "engine/filesystem/profile.h"
#include "name-list.h"
#include "session.h"
#include "base/array.h"
#include "base/escape.h"
#include "base/mounts.h"
#include "caller-view.h"
#include "wire/records.h"

/* Lists of names that are larger than this together are a mistake, not lists. */
#define LISTS_MAX (1ULL << 30)

/* How many names are looked at before reclaimd is heard again. */
#define NAMES_DEAF 256

/* The longest record of an answer: a path, or a name, and numbers. */
#define RECORD (PATH_MAX + 128)

/* How a directory was given. */
enum way { WAY_FD, WAY_PATH };

struct validation {
	struct serving *s;
	struct session *session;
	const struct protect *protect;
	struct view *view;            /* the submitter's mounts; NULL: reclaimd itself asks */
	enum protocol_answer telling; /* the kind of answer that is being filled */
	uint64_t lists;               /* bytes of names so far */
	unsigned deaf;                /* names since reclaimd was heard last */
	const struct record_header *expected; /* the identity of the next name, or NULL */
	bool skip_refused;                    /* of the list */
	bool records;                         /* names come with who they are */
	struct failure_text f;
};

static int refuse(struct validation *v, enum error_cause cause, const char *dir, const char *name,
		  const char *why)
{
	int error = error_entry(cause)->error;

	assert(error < 0);
	failure_fill(&v->f, cause, dir, name, why);
	return error;
}

/* By what the kernel says of a path; why may be NULL: in its own words. */
static int refuse_errno(struct validation *v, int error, const char *dir, const char *name,
			const char *why)
{
	return refuse(v, error_from_errno(error, ERROR_AT_PATH), dir, name,
		      why ? why : strerror(-error));
}

/* Goes over to another kind of answer; what is there of the one before is sent. */
static int telling(struct validation *v, enum protocol_answer type)
{
	int r = 0;

	if (v->telling && v->telling != type && v->s->out.len > sizeof(struct wire_header))
		r = answer_send(v->s);
	if (v->telling != type)
		answer_begin(v->s, type);
	v->telling = type;
	return r < 0 ? r : answer_flush(v->s, type, RECORD);
}

static int tell_dir(struct validation *v, uint32_t number)
{
	const struct session_dir *d = &v->session->dirs[number];
	struct lasting_identity id = lasting_of(d->fsid, &d->found.id);
	int r = telling(v, ANSWER_DIRS);

	protocol_put_item(&v->s->out, &(struct intake_dir){ number + 1ULL, d->path, id });
	return r;
}

static int tell_entry(struct validation *v, uint32_t dir, const char *name,
		      const struct identity *id)
{
	struct lasting_identity lasting = lasting_of(v->session->dirs[dir].fsid, id);
	int r = telling(v, ANSWER_ENTRIES);

	protocol_put_item(&v->s->out, &(struct intake_entry){ dir + 1ULL, name, lasting });
	return r;
}

/* All of a session is on one mount. */
static int mount_check(struct validation *v, const struct session_dir *d, const char *shown)
{
	struct session *s = v->session;

	if (s->n_dirs == 1) {
		s->mnt_id = d->found.id.mnt_id;
		s->dev = d->found.id.dev;
		return 0;
	}
	if (s->mnt_id == d->found.id.mnt_id && s->dev == d->found.id.dev)
		return 0;
	return refuse(v, ERROR_CROSSES_MOUNT, shown, NULL,
		      "is on another filesystem or mount than what is submitted with it: submit "
		      "them one after the other");
}

/* What the submitter may do with a directory that may be deleted from here. */
static void dir_view(struct validation *v, struct session_dir *d, int fd, enum way way)
{
	struct location at;
	int r;

	if (d->cause || !v->view)
		return;
	if (protect_locate(v->protect, fd, &at) < 0) {
		d->cause = ERROR_NOT_AUTHORIZED;
		d->refusal = "lies where its filesystem cannot be told";
		return;
	}
	d->covered = view_mounts_at(v->view, &at);
	r = way == WAY_PATH ? view_path(v->view, d->path, &at) : 0;
	if (r == -EROFS) {
		d->cause = ERROR_NOT_AUTHORIZED;
		d->refusal = "is on a filesystem that is mounted read-only for the submitter";
	} else if (r < 0) {
		d->cause = ERROR_INVALID_PATH;
		d->refusal = "is not the same for the submitter, which has other mounts or "
			     "another root: submit it by a descriptor, as reclaimctl does";
	}
}

/* Is the mount through which it was opened, which may be one of another namespace, read-only? */
static bool is_read_only(int fd)
{
	struct statvfs fs;

	return fstatvfs(fd, &fs) < 0 || (fs.f_flag & ST_RDONLY);
}

/* Takes over a descriptor of a directory that names are in. `read_only`: it was opened beneath one
 * that the submitter has by a read-only mount. */
static int dir_take(struct validation *v, int fd, enum way way, bool read_only, const char *shown,
		    uint32_t *ret)
{
	_cleanup_close_ int own = fd;
	struct found f;
	bool is_new;
	int r = found_at(own, "", &f);

	if (r < 0)
		return refuse_errno(v, r, shown, NULL, NULL);
	if (!S_ISDIR(f.id.mode))
		return refuse(v, ERROR_INVALID_PATH, shown, NULL, "is no directory");
	read_only = read_only || is_read_only(own);
	if (!mounts_by_id(protect_mounts(v->protect), f.id.mnt_id))
		directory_here(&own, &f);
	fd = own;
	r = session_dir_add(v->session, &own, &f, ret, &is_new);
	if (r < 0)
		return refuse_errno(v, r, shown, NULL, NULL);
	if (!is_new)
		return 0;
	r = mount_check(v, &v->session->dirs[*ret], shown);
	if (r < 0)
		return r;
	directory_check(&v->session->dirs[*ret], fd, v->protect);
	v->session->dirs[*ret].read_only = read_only;
	if (read_only && !v->session->dirs[*ret].cause) {
		v->session->dirs[*ret].refusal = "is on a filesystem that is mounted read-only";
		v->session->dirs[*ret].cause = ERROR_NOT_AUTHORIZED;
	}
	dir_view(v, &v->session->dirs[*ret], fd, way);
	return tell_dir(v, *ret);
}

/* Opens the directory that these words mean. */
static int dir_find(struct validation *v, const char *dir, const char *shown, uint32_t *ret)
{
	const char *why = NULL;
	int fd, r;

	if (session_dir_known(v->session, dir, ret))
		return 0;
	if (dir[0] != '/')
		return refuse(v, ERROR_INVALID_PATH, shown, NULL, "is not an absolute path");
	fd = intake_open_dir(dir, &why);
	if (fd < 0)
		return refuse_errno(v, fd, shown, NULL, why);
	r = dir_take(v, fd, WAY_PATH, /* read_only= */ false, shown, ret);
	if (r < 0)
		return r;
	r = session_dir_call(v->session, dir, *ret);
	return r < 0 ? refuse_errno(v, r, shown, NULL, NULL) : 0;
}

static bool is_expected(const struct validation *v, const struct identity *id)
{
	const struct record_header *e = v->expected;

	return !e || (id->ino == e->ino && id->btime_nsec == e->btime_nsec &&
		      (id->mode & S_IFMT) == e->type);
}

/* What is mounted in the submitter's view is not deleted, nor what holds it. */
static enum error_cause covered_check(const struct validation *v, int fd, const char *name,
				      const char **ret_why)
{
	struct location at;
	size_t len;

	*ret_why = "is a mount point for the submitter, or holds one";
	if (protect_locate(v->protect, fd, &at) < 0)
		return ERROR_CROSSES_MOUNT;
	len = strlen(at.path);
	if (snprintf(at.path + len, sizeof(at.path) - len, "/%s", name) >=
	    (int)(sizeof(at.path) - len))
		return ERROR_INVALID_PATH;
	return view_mounts_at(v->view, &at) ? ERROR_CROSSES_MOUNT : ERROR_NONE;
}

/* By a person, or a directory that it lies in. */
static enum error_cause pinned_check(const struct session_dir *d, int fd, const char *name,
				     char words[USER_PIN_WORDS], const char **ret_why)
{
	struct user_pin pin = d->pin;
	bool around = user_pin_holds(&pin);

	if (!around)
		pin = user_pin_read(fd, name);
	*ret_why = user_pin_words(&pin, around, words);
	return user_pin_holds(&pin) ? ERROR_PINNED : ERROR_NONE;
}

/* Of what is to go as by rmdir(1). One that cannot be read may be empty. */
static enum error_cause empty_check(int fd, const char *name, const struct found *f,
				    const char **ret_why)
{
	*ret_why = "is no empty directory";
	return S_ISDIR(f->id.mode) && directory_is_empty(fd, name) != 0 ? ERROR_NONE
									: ERROR_INVALID_PATH;
}

/* Looks at one name. Returns 0; 1 if it is counted as missing; or refuses. */
static int name_validate(struct validation *v, uint32_t dir, const char *name, bool slash,
			 bool list, const char *shown)
{
	struct session_dir *d = &v->session->dirs[dir];
	int fd = session_dir_open(d), r;
	char words[USER_PIN_WORDS];
	const char *why = NULL;
	enum error_cause cause;
	struct found f;

	if (fd < 0)
		return refuse_errno(v, fd, shown, name, NULL);
	cause = directory_validate(d, fd, name, v->protect, &f, &why);
	if (!cause && d->covered)
		cause = covered_check(v, fd, name, &why);
	if (!cause)
		cause = pinned_check(d, fd, name, words, &why);
	if (!cause && v->session->rmdir)
		cause = empty_check(fd, name, &f, &why);
	if (fd != d->fd)
		fd_closep(&fd);
	if (cause == ERROR_NO_SUCH_PATH && list)
		return 1;
	if (cause && v->skip_refused)
		return 1;
	if (cause)
		return refuse(v, cause, shown, name, why);
	if (!is_expected(v, &f.id))
		return 1;
	if (slash && !S_ISDIR(f.id.mode))
		return refuse(
			v, ERROR_INVALID_PATH, shown, name,
			S_ISLNK(f.id.mode)
				? "is a symbolic link, and the slash behind it would mean what "
				  "it points to: leave the slash out"
				: "is no directory, but has a slash behind it");
	r = session_entry_add(v->session, dir, name, &f.id);
	if (r < 0)
		return refuse_errno(v, r, shown, name, NULL);
	v->session->has_dirs |= S_ISDIR(f.id.mode);
	/* What has other names frees nothing. */
	v->session->bytes += f.id.nlink == 1 ? f.id.blocks_bytes : 0;
	return tell_entry(v, dir, name, &f.id);
}

/* A name that does not exist; the first of them is remembered, to be told if there are no others.
 */
static void missing(struct validation *v, const char *dir, const char *name)
{
	struct session *s = v->session;

	s->missing++;
	if (dir && !s->first_missing &&
	    asprintf(&s->first_missing, "%s%s%s", dir, name && strcmp(dir, "/") != 0 ? "/" : "",
		     name ? name : "") < 0)
		s->first_missing = NULL;
}

/* Of a list, a directory that is not there is no failure: its names are missing. */
static bool is_missing(struct validation *v, int r, const struct intake_group *g)
{
	if (r != -ENOENT || !g->list)
		return false;
	v->f.cause = ERROR_NONE;
	return true;
}

static int path_validate(struct validation *v, const struct intake_group *g)
{
	_cleanup_free_ char *dir = NULL;
	const char *why = NULL;
	char name[256];
	bool slash;
	uint32_t number;
	int r = intake_split(g->path, &dir, name, &slash, &why);

	if (r < 0)
		return refuse(v, error_from_errno(r, ERROR_AT_SPELLING), g->path, NULL, why);
	r = dir_find(v, dir, g->path, &number);
	if (r >= 0)
		r = name_validate(v, number, name, slash, g->list, dir);
	if (is_missing(v, r, g))
		r = 1;
	if (r == 1)
		missing(v, g->path, NULL);
	return r < 0 ? r : 0;
}

static int name_check(struct validation *v, const char *shown, const char *name)
{
	if (is_component(name))
		return 0;
	if (strlen(name) > NAME_MAX)
		return refuse(v, ERROR_INVALID_PATH, shown, name,
			      "is a name of more than 255 bytes");
	return refuse(v, ERROR_INVALID_PATH, shown, name,
		      "is not a name in one directory: it must not be empty, '.' or '..', and have "
		      "no slash in it");
}

/* Between names: says that it is alive, and hears whether reclaimd wants no more of them, as too
 * many are on their way. Nothing but that can come now. */
static int go_on(struct validation *v)
{
	bool begun = v->telling && v->s->out.len > sizeof(struct wire_header);
	int r;

	if (++v->deaf < NAMES_DEAF)
		return 0;
	v->deaf = 0;
	r = begun ? answer_flush(v->s, v->telling, RECORD) : answer_alive(v->s);
	v->telling = begun ? v->telling : 0;
	if (r >= 0)
		r = wire_receive(v->s->sock, &v->s->in, MSG_DONTWAIT, /* allow_long= */ false);
	if (r == -EAGAIN)
		return 0;
	if (r > 0 && v->s->in.type == REQUEST_STOP)
		return refuse(v, ERROR_LIMIT_EXCEEDED, "", NULL, "too many names are on their way");
	return r > 0 ? -EBADMSG : r < 0 ? r : -EPIPE;
}

static int refuse_list(struct validation *v, int error, const char *shown)
{
	switch (error) {
	case -EBADMSG:
		return refuse(v, ERROR_INVALID_PATH, shown, NULL,
			      "comes with a list of names whose last is not whole, or has no NUL "
			      "behind it");
	case -ENAMETOOLONG:
		return refuse(v, ERROR_INVALID_PATH, shown, NULL,
			      "comes with a list of names of which one is longer than any can be");
	case -ESTALE:
		return refuse(v, ERROR_INVALID_PATH, shown, NULL,
			      "comes with a list of names that has changed while it was read: hand "
			      "over a list that is complete");
	default:
		return refuse_errno(v, error, shown, NULL,
				    "comes with a list of names that cannot be read");
	}
}

/* Opens a directory beneath one of the session's, not by way of links or mounts. */
static int dir_open_beneath(const struct session_dir *base, const char *path)
{
	struct open_how how = { .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
				.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
					   RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV };
	int at = session_dir_open(base), fd;

	if (at < 0)
		return at;
	fd = (int)syscall(SYS_openat2, at, path, &how, sizeof(how));
	fd = fd < 0 ? -errno : fd;
	if (at != base->fd)
		fd_closep(&at);
	return fd;
}

static int base_locate(const struct validation *v, uint32_t base, struct location *ret)
{
	const struct session_dir *d = &v->session->dirs[base];
	int fd = session_dir_open(d), r;

	if (fd < 0)
		return fd;
	r = protect_locate(v->protect, fd, ret);
	if (fd != d->fd)
		fd_closep(&fd);
	return r;
}

/* Finds the directory that is called so beneath `base`. Returns 0; 1 if it is not there any more,
 * or is another; or refuses. */
static int dir_find_beneath(struct validation *v, uint32_t base, const char *path,
			    const char *shown, uint32_t *ret)
{
	_cleanup_free_ char *key = NULL;
	struct location at, top;
	int fd, r;

	/* No path by which other directories are known begins with a digit. */
	if (asprintf(&key, "%" PRIu32 "/%s", base, path) < 0) {
		key = NULL;
		return refuse_errno(v, -ENOMEM, shown, NULL, NULL);
	}
	if (session_dir_known(v->session, key, ret))
		return 0;
	fd = dir_open_beneath(&v->session->dirs[base], path);
	if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP || fd == -EXDEV)
		return 1;
	if (fd < 0)
		return refuse_errno(v, fd, shown, path, NULL);
	/* What is mounted there for the submitter, it would not have gone through. */
	if (v->view && (protect_locate(v->protect, fd, &at) < 0 || base_locate(v, base, &top) < 0 ||
			view_mounts_between(v->view, &top, &at))) {
		fd_closep(&fd);
		return 1;
	}
	r = dir_take(v, fd, WAY_FD, v->session->dirs[base].read_only, shown, ret);
	if (r >= 0 && session_dir_call(v->session, key, *ret) < 0)
		r = refuse_errno(v, -ENOMEM, shown, NULL, NULL);
	return r < 0 ? r : 0;
}

/* Is it a path beneath a directory that has only one spelling? */
static bool is_beneath(const char *path)
{
	char name[NAME_MAX + 1];

	for (size_t len; (len = strcspn(path, "/")) <= NAME_MAX; path += len + 1) {
		memcpy(name, path, len);
		name[len] = '\0';
		if (!is_component(name))
			return false;
		if (path[len] == '\0')
			return true;
	}
	return false;
}

/* Looks at a path beneath the directory `base`, which it takes apart. */
static int record_validate(struct validation *v, uint32_t base, char *path, const char *shown)
{
	char *slash = strrchr(path, '/');
	uint32_t dir = base;
	int r = 0;

	if (!is_beneath(path))
		return refuse(v, ERROR_INVALID_PATH, shown, path,
			      "is no path beneath a directory: it must have no '.', '..' or empty "
			      "name in it");
	if (slash) {
		*slash = '\0';
		r = dir_find_beneath(v, base, path, shown, &dir);
	}
	if (r != 0)
		return r;
	return name_validate(v, dir, slash ? slash + 1 : path, /* slash= */ false, /* list= */ true,
			     v->session->dirs[dir].path);
}

/* Looks at all names of a list; if the directory is not there (dir UINT32_MAX), none of them is. */
static int list_validate(struct validation *v, struct name_list *list, const struct intake_group *g,
			 uint32_t dir, const char *shown)
{
	struct record_header h;
	size_t head = g->records ? sizeof(h) : 0;
	char *name;
	int r;

	v->records = v->records || g->records;
	v->skip_refused = g->skip_refused;

	while ((r = name_list_next(list, head, &name)) > 0) {
		if (dir == UINT32_MAX) {
			r = 1;
		} else if (g->records) {
			memcpy(&h, name, sizeof(h));
			v->expected = &h;
			r = record_validate(v, dir, name + head, shown);
			v->expected = NULL;
		} else {
			r = name_check(v, shown, name);
			if (r >= 0)
				r = name_validate(v, dir, name, /* slash= */ false, g->list, shown);
		}
		if (r == 1)
			missing(v, shown, g->records ? NULL : name);
		if (r >= 0)
			r = go_on(v);
		if (r < 0)
			return r;
	}
	return r < 0 ? refuse_list(v, r, shown) : 0;
}

static int list_open(struct validation *v, struct name_list *list, const struct intake_group *g,
		     const char *shown)
{
	int r = name_list_open(list, (char *)(uintptr_t)g->names.data, g->names.len, g->names_fd,
			       LISTS_MAX - v->lists);

	v->lists += r < 0 ? 0 : list->left + list->size;
	if (r == -EINVAL)
		return refuse(v, ERROR_INVALID_PATH, shown, NULL,
			      "comes with a list of names that is no regular file");
	if (r == -E2BIG)
		return refuse(v, ERROR_LIMIT_EXCEEDED, shown, NULL,
			      "comes with lists of names of more than 1 GiB together: submit them "
			      "one after the other");
	return r < 0 ? refuse_errno(v, r, shown, NULL, NULL) : 0;
}

static int group_validate(struct validation *v, struct wire_in *in, const struct intake_group *g)
{
	const char *shown = g->display ? g->display : g->dir_path;
	struct name_list list;
	uint32_t dir = UINT32_MAX;
	int r;

	if (g->path) {
		r = path_validate(v, g);
		return r < 0 ? r : go_on(v);
	}
	if (g->dirfd < 0 && !g->dir_path)
		return refuse(v, ERROR_INVALID_PATH, "", NULL, "no directory is given");
	r = list_open(v, &list, g, shown ? shown : "");
	if (r < 0)
		return r;
	if (g->dirfd >= 0)
		r = dir_take(v, wire_keep_fd(in, g->dirfd), WAY_FD, /* read_only= */ false,
			     shown ? shown : "", &dir);
	else
		r = dir_find(v, g->dir_path, shown, &dir);
	if (g->dir_path && is_missing(v, r, g)) {
		dir = UINT32_MAX;
		r = 0;
	}
	if (r >= 0)
		r = list_validate(v, &list, g, dir, shown ? shown : v->session->dirs[dir].path);
	name_list_done(&list);
	return r;
}

/* All of one message. -EBADMSG if it makes no sense. */
static int groups_validate(struct validation *v, struct wire_in *in)
{
	struct intake_group g;
	int r, error = 0;

	while (error >= 0 && (r = protocol_get_item(in, &g)) > 0)
		error = group_validate(v, in, &g);
	return error < 0 ? error : r;
}

static void discards_find(struct validation *v)
{
	const struct mount *m = mounts_by_id(protect_mounts(v->protect), v->session->mnt_id);

	v->session->discards = mount_has_option(m, "discard");
}

/* Of all that is named there is nothing. */
static int refuse_missing(struct validation *v)
{
	const struct session *s = v->session;
	char why[96] = "does not exist";

	if (v->records)
		(void)snprintf(why, sizeof(why),
			       "none of the names there is still what it was, or is there at all");
	else if (s->missing > 1)
		(void)snprintf(why, sizeof(why),
			       "does not exist, nor does any of the %" PRIu64 " names", s->missing);
	return refuse(v, ERROR_NO_SUCH_PATH, s->first_missing ? s->first_missing : "", NULL, why);
}

static int view_take(struct validation *v, int fd)
{
	int r = view_new(&v->view, fd, protect_mounts(v->protect));

	if (r == -E2BIG)
		return refuse(v, ERROR_LIMIT_EXCEEDED, "", NULL,
			      "the process that asks has more mounts than can be looked through");
	return r < 0 ? refuse_errno(v, r, "", NULL,
				    "the mounts of the process that asks cannot be read")
		     : 0;
}

static int all_validate(struct validation *v, int view_fd)
{
	_cleanup_free_ char *culprit = NULL;
	int r = 0;

	v->protect = serving_protect(v->s, &culprit, &r);
	if (!v->protect)
		return refuse(v, error_from_errno(r, ERROR_AT_DAEMON),
			      culprit ? culprit : "protected paths", NULL,
			      "cannot be resolved, so what is protected is not known");
	if (view_fd >= 0)
		r = view_take(v, view_fd);
	for (size_t i = 0; r >= 0 && i < v->session->n_groups; i++)
		r = groups_validate(v, &v->session->groups[i]);
	if (r >= 0 && v->session->n_entries == 0 && v->session->missing > 0)
		return refuse_missing(v);
	if (r >= 0 && v->session->n_dirs > 0)
		discards_find(v);
	return r < 0 ? r : 0;
}

static int validated_tell(struct validation *v)
{
	const struct session *s = v->session;
	struct intake_validated m = { 0 };
	int r = 0;

	if (s)
		m = (struct intake_validated){ .names = s->n_entries,
					       .missing = s->missing,
					       /* How much there is in all. */
					       .entries = s->has_dirs ? 0 : s->n_entries,
					       .bytes = s->has_dirs ? 0 : s->bytes,
					       .mnt_id = s->mnt_id,
					       .dev = s->dev,
					       .discards = s->discards };
	if (v->telling && v->s->out.len > sizeof(struct wire_header))
		r = answer_send(v->s);
	m.cause = v->f.cause;
	m.text = v->f.cause ? v->f.text.line : NULL;
	return r < 0 ? r : answer(v->s, ANSWER_VALIDATED, &m);
}

int validate(struct serving *s)
{
	uint64_t id = s->m.validate_message.session;
	struct validation v = { .s = s };
	int r;

	v.session = session_get(&s->sessions, id, true);
	if (v.session)
		v.session->rmdir = s->m.validate_message.rmdir;
	r = v.session ? all_validate(&v, s->m.validate_message.view)
		      : refuse_errno(&v, -ENOMEM, "", NULL, NULL);
	v.view = view_free(v.view);
	if (v.session)
		session_groups_done(v.session);
	/* What could not be told is no answer about the names. */
	if (r < 0 && !v.f.cause)
		return r;
	r = validated_tell(&v);
	if (v.f.cause)
		session_forget(&s->sessions, id);
	return r;
}

int validate_groups_add(struct serving *s)
{
	struct session *session = session_get(&s->sessions, s->m.groups_message.session, true);
	struct wire_in *in =
		session ? array_add(&session->groups, &session->n_groups, sizeof(*in)) : NULL;

	if (!in)
		return -ENOMEM;
	*in = s->in;
	s->in = (struct wire_in){ 0 };
	return 0;
}
