/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "name-check.h"

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

#include "directory.h"
#include "engine/guard/path-intake.h"
#include "engine/guard/protect.h"
#include "engine/filesystem/profile.h"
#include "name-list.h"
#include "session.h"
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

struct looking {
	struct serving *s;
	struct session *session;
	const struct protect *protect;
	struct view *view;            /* the submitter's mounts; NULL: reclaimd itself asks */
	enum protocol_answer telling; /* the kind of answer that is being filled */
	uint64_t lists;               /* bytes of names so far */
	unsigned deaf;                /* names since reclaimd was heard last */
	const struct record_header *expected; /* who the next name is to be, or NULL */
	struct failure_text f;
};

static int refuse(struct looking *l, int error, const char *dir, const char *name, const char *why)
{
	failure_fill(&l->f, error, dir, name, why);
	return error;
}

/* Goes over to another kind of answer; what is there of the one before is sent. */
static int telling(struct looking *l, enum protocol_answer type)
{
	int r = 0;

	if (l->telling && l->telling != type && l->s->out.len > sizeof(struct wire_header))
		r = answer_send(l->s);
	if (l->telling != type)
		answer_begin(l->s, type);
	l->telling = type;
	return r < 0 ? r : answer_flush(l->s, type, RECORD);
}

static int tell_dir(struct looking *l, uint32_t number)
{
	const struct session_dir *d = &l->session->dirs[number];
	struct lasting_identity id = lasting_of(d->fsid, &d->found.id);
	int r = telling(l, ANSWER_DIRS);

	wire_put(&l->s->out, number + 1ULL);
	wire_put_string(&l->s->out, d->path);
	wire_put_identity(&l->s->out, &id);
	return r;
}

static int tell_entry(struct looking *l, uint32_t dir, const char *name, const struct identity *id)
{
	struct lasting_identity lasting = lasting_of(l->session->dirs[dir].fsid, id);
	int r = telling(l, ANSWER_ENTRIES);

	wire_put(&l->s->out, dir + 1ULL);
	wire_put_string(&l->s->out, name);
	wire_put_identity(&l->s->out, &lasting);
	return r;
}

/* All of a session is on one mount. */
static int mount_check(struct looking *l, const struct session_dir *d, const char *shown)
{
	struct session *s = l->session;

	if (s->n_dirs == 1) {
		s->mnt_id = d->found.id.mnt_id;
		s->dev = d->found.id.dev;
		return 0;
	}
	if (s->mnt_id == d->found.id.mnt_id && s->dev == d->found.id.dev)
		return 0;
	return refuse(l, -EXDEV, shown, NULL,
		      "is on another filesystem or mount than what is submitted with it: submit "
		      "them one after the other");
}

/* What the submitter may do with a directory that may be deleted from here. */
static void dir_view(struct looking *l, struct session_dir *d, int fd, enum way way)
{
	struct location at;
	int r;

	if (d->refusal || !l->view)
		return;
	d->error = -EACCES;
	if (protect_locate(l->protect, fd, &at) < 0) {
		d->refusal = "lies where its filesystem cannot be told";
		return;
	}
	d->covered = view_mounts_at(l->view, &at);
	r = way == WAY_PATH ? view_path(l->view, d->path, &at) : 0;
	if (r == -EROFS)
		d->refusal = "is on a filesystem that is mounted read-only for the submitter";
	if (r != -EROFS && r < 0) {
		d->refusal = "is not the same for the submitter, which has other mounts or "
			     "another root: submit it by a descriptor, as reclaimctl does";
		d->error = -EINVAL;
	}
}

/* Is the mount through which it was opened, which may be one of another namespace, read-only? */
static bool is_read_only(int fd)
{
	struct statvfs v;

	return fstatvfs(fd, &v) < 0 || (v.f_flag & ST_RDONLY);
}

/* Takes over a descriptor of a directory that names are in. `read_only`: it was opened beneath one
 * that the submitter has by a read-only mount. */
static int dir_take(struct looking *l, int fd, enum way way, bool read_only, const char *shown,
		    uint32_t *ret)
{
	_cleanup_close_ int own = fd;
	struct found f;
	bool is_new;
	int r = found_at(own, "", &f);

	if (r < 0)
		return refuse(l, r, shown, NULL, NULL);
	if (!S_ISDIR(f.id.mode))
		return refuse(l, -EINVAL, shown, NULL, "is no directory");
	read_only = read_only || is_read_only(own);
	if (!mounts_by_id(protect_mounts(l->protect), f.id.mnt_id))
		directory_here(&own, &f);
	fd = own;
	r = session_dir_add(l->session, &own, &f, ret, &is_new);
	if (r < 0)
		return refuse(l, r, shown, NULL, NULL);
	if (!is_new)
		return 0;
	r = mount_check(l, &l->session->dirs[*ret], shown);
	if (r < 0)
		return r;
	directory_check(&l->session->dirs[*ret], fd, l->protect);
	l->session->dirs[*ret].read_only = read_only;
	if (read_only && !l->session->dirs[*ret].refusal) {
		l->session->dirs[*ret].refusal = "is on a filesystem that is mounted read-only";
		l->session->dirs[*ret].error = -EROFS;
	}
	dir_view(l, &l->session->dirs[*ret], fd, way);
	return tell_dir(l, *ret);
}

/* Opens the directory that these words mean. */
static int dir_find(struct looking *l, const char *dir, const char *shown, uint32_t *ret)
{
	const char *why = NULL;
	int fd, r;

	if (session_dir_known(l->session, dir, ret))
		return 0;
	if (dir[0] != '/')
		return refuse(l, -EINVAL, shown, NULL, "is not an absolute path");
	fd = intake_open_dir(dir, &why);
	if (fd < 0)
		return refuse(l, fd, shown, NULL, why);
	r = dir_take(l, fd, WAY_PATH, /* read_only= */ false, shown, ret);
	if (r < 0)
		return r;
	r = session_dir_call(l->session, dir, *ret);
	return r < 0 ? refuse(l, r, shown, NULL, NULL) : 0;
}

static bool is_expected(const struct looking *l, const struct identity *id)
{
	const struct record_header *e = l->expected;

	return !e || (id->ino == e->ino && id->btime_nsec == e->btime_nsec &&
		      (id->mode & S_IFMT) == e->type);
}

/* What is mounted in the submitter's view is not deleted, nor what holds it. */
static int covered_check(const struct looking *l, int fd, const char *name, const char **ret_why)
{
	struct location at;
	size_t len;

	*ret_why = "is a mount point for the submitter, or holds one";
	if (protect_locate(l->protect, fd, &at) < 0)
		return -EXDEV;
	len = strlen(at.path);
	if (snprintf(at.path + len, sizeof(at.path) - len, "/%s", name) >=
	    (int)(sizeof(at.path) - len))
		return -ENAMETOOLONG;
	return view_mounts_at(l->view, &at) ? -EXDEV : 0;
}

/* Looks at one name. Returns 0; 1 if it is counted as missing; or refuses. */
static int name_look(struct looking *l, uint32_t dir, const char *name, bool slash, bool list,
		     const char *shown)
{
	struct session_dir *d = &l->session->dirs[dir];
	int fd = session_dir_open(d), r;
	const char *why = NULL;
	struct found f;

	if (fd < 0)
		return refuse(l, fd, shown, name, NULL);
	r = directory_look(d, fd, name, l->protect, &f, &why);
	if (r >= 0 && d->covered)
		r = covered_check(l, fd, name, &why);
	if (fd != d->fd)
		fd_closep(&fd);
	if (r == -ENOENT && list)
		return 1;
	if (r < 0)
		return refuse(l, r, shown, name, why);
	if (!is_expected(l, &f.id))
		return 1;
	if (slash && !S_ISDIR(f.id.mode))
		return refuse(
			l, -ENOTDIR, shown, name,
			S_ISLNK(f.id.mode)
				? "is a symbolic link, and the slash behind it would mean what "
				  "it points to: leave the slash out"
				: "is no directory, but has a slash behind it");
	r = session_entry_add(l->session, dir, name, &f.id);
	if (r < 0)
		return refuse(l, r, shown, name, NULL);
	l->session->has_dirs |= S_ISDIR(f.id.mode);
	/* What has other names frees nothing. */
	l->session->bytes += f.id.nlink == 1 ? f.id.blocks_bytes : 0;
	return tell_entry(l, dir, name, &f.id);
}

/* Names that do not exist; the first of them is remembered, to be told if there are no others. */
static void missing(struct looking *l, size_t n, const char *dir, const char *name)
{
	struct session *s = l->session;

	s->missing += n;
	if (dir && !s->first_missing &&
	    asprintf(&s->first_missing, "%s%s%s", dir, name && strcmp(dir, "/") != 0 ? "/" : "",
		     name ? name : "") < 0)
		s->first_missing = NULL;
}

static int path_look(struct looking *l, const struct session_group *g)
{
	_cleanup_free_ char *dir = NULL;
	const char *why = NULL;
	char name[256];
	bool slash;
	uint32_t number;
	int r = intake_split(g->path, &dir, name, &slash, &why);

	if (r < 0)
		return refuse(l, r, g->path, NULL, why);
	r = dir_find(l, dir, g->path, &number);
	if (r >= 0)
		r = name_look(l, number, name, slash, g->list, dir);
	if (r == -ENOENT && g->list)
		r = 1;
	if (r == 1)
		missing(l, 1, g->path, NULL);
	return r < 0 ? r : 0;
}

static int name_check(struct looking *l, const char *shown, const char *name)
{
	if (is_component(name))
		return 0;
	if (strlen(name) > NAME_MAX)
		return refuse(l, -ENAMETOOLONG, shown, name, "is a name of more than 255 bytes");
	return refuse(l, -EINVAL, shown, name,
		      "is not a name in one directory: it must not be empty, '.' or '..', and have "
		      "no slash in it");
}

/* Between names: says that it is alive, and hears whether reclaimd wants no more of them, as too
 * many are on their way. Nothing but that can come now. */
static int go_on(struct looking *l)
{
	bool begun = l->telling && l->s->out.len > sizeof(struct wire_header);
	int r;

	if (++l->deaf < NAMES_DEAF)
		return 0;
	l->deaf = 0;
	r = begun ? answer_flush(l->s, l->telling, RECORD) : answer_alive(l->s);
	l->telling = begun ? l->telling : 0;
	if (r >= 0)
		r = wire_receive(l->s->sock, &l->s->in, MSG_DONTWAIT, /* allow_long= */ false);
	if (r == -EAGAIN)
		return 0;
	if (r > 0 && l->s->in.type == REQUEST_STOP)
		return refuse(l, -E2BIG, "", NULL, "too many names are on their way");
	return r > 0 ? -EBADMSG : r < 0 ? r : -EPIPE;
}

static int refuse_list(struct looking *l, int error, const char *shown)
{
	switch (error) {
	case -EBADMSG:
		return refuse(l, -EINVAL, shown, NULL,
			      "comes with a list of names whose last is not whole, or has no NUL "
			      "behind it");
	case -ENAMETOOLONG:
		return refuse(l, error, shown, NULL,
			      "comes with a list of names of which one is longer than any can be");
	case -ESTALE:
		return refuse(l, -EINVAL, shown, NULL,
			      "comes with a list of names that has changed while it was read: hand "
			      "over a list that is complete");
	default:
		return refuse(l, error, shown, NULL,
			      "comes with a list of names that cannot be read");
	}
}

static int names_look(struct looking *l, struct name_list *list, const struct session_group *g,
		      uint32_t dir, const char *shown)
{
	char *name;
	int r;

	while ((r = name_list_next(list, 0, &name)) > 0) {
		r = name_check(l, shown, name);
		if (r >= 0)
			r = name_look(l, dir, name, /* slash= */ false, g->list, shown);
		if (r == 1)
			missing(l, 1, shown, name);
		if (r >= 0)
			r = go_on(l);
		if (r < 0)
			return r;
	}
	return r < 0 ? refuse_list(l, r, shown) : 0;
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

static int base_locate(const struct looking *l, uint32_t base, struct location *ret)
{
	const struct session_dir *d = &l->session->dirs[base];
	int fd = session_dir_open(d), r;

	if (fd < 0)
		return fd;
	r = protect_locate(l->protect, fd, ret);
	if (fd != d->fd)
		fd_closep(&fd);
	return r;
}

/* Finds the directory that is called so beneath `base`. Returns 0; 1 if it is not there any more,
 * or is another; or refuses. */
static int dir_find_beneath(struct looking *l, uint32_t base, const char *path, const char *shown,
			    uint32_t *ret)
{
	_cleanup_free_ char *key = NULL;
	struct location at, top;
	int fd, r;

	/* No path by which other directories are known begins with a digit. */
	if (asprintf(&key, "%" PRIu32 "/%s", base, path) < 0) {
		key = NULL;
		return refuse(l, -ENOMEM, shown, NULL, NULL);
	}
	if (session_dir_known(l->session, key, ret))
		return 0;
	fd = dir_open_beneath(&l->session->dirs[base], path);
	if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP || fd == -EXDEV)
		return 1;
	if (fd < 0)
		return refuse(l, fd, shown, path, NULL);
	/* What is mounted there for the submitter, it would not have gone through. */
	if (l->view && (protect_locate(l->protect, fd, &at) < 0 || base_locate(l, base, &top) < 0 ||
			view_mounts_between(l->view, &top, &at))) {
		fd_closep(&fd);
		return 1;
	}
	r = dir_take(l, fd, WAY_FD, l->session->dirs[base].read_only, shown, ret);
	if (r >= 0 && session_dir_call(l->session, key, *ret) < 0)
		r = refuse(l, -ENOMEM, shown, NULL, NULL);
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
static int record_look(struct looking *l, uint32_t base, char *path, const char *shown)
{
	char *slash = strrchr(path, '/');
	uint32_t dir = base;
	int r = 0;

	if (!is_beneath(path))
		return refuse(l, -EINVAL, shown, path,
			      "is no path beneath a directory: it must have no '.', '..' or empty "
			      "name in it");
	if (slash) {
		*slash = '\0';
		r = dir_find_beneath(l, base, path, shown, &dir);
	}
	if (r != 0)
		return r;
	return name_look(l, dir, slash ? slash + 1 : path, /* slash= */ false, /* list= */ true,
			 l->session->dirs[dir].path);
}

static int records_look(struct looking *l, struct name_list *list, uint32_t dir, const char *shown)
{
	struct record_header h;
	char *record;
	int r;

	while ((r = name_list_next(list, sizeof(h), &record)) > 0) {
		memcpy(&h, record, sizeof(h));
		l->expected = &h;
		r = record_look(l, dir, record + sizeof(h), shown);
		l->expected = NULL;
		l->session->missing += r == 1;
		if (r >= 0)
			r = go_on(l);
		if (r < 0)
			return r;
	}
	return r < 0 ? refuse_list(l, r, shown) : 0;
}

/* The directory is not there, and so is none of the names. */
static int names_missing(struct looking *l, struct name_list *list, const char *shown)
{
	char *name;
	int r;

	while ((r = name_list_next(list, 0, &name)) > 0) {
		missing(l, 1, shown, name);
		r = go_on(l);
		if (r < 0)
			return r;
	}
	return r < 0 ? refuse_list(l, r, shown) : 0;
}

static int list_open(struct looking *l, struct name_list *list, const struct session_group *g,
		     const char *shown)
{
	int r = name_list_open(list, g->names, g->names_len, g->names_fd, LISTS_MAX - l->lists);

	l->lists += r < 0 ? 0 : list->left + list->size;
	if (r == -EINVAL)
		return refuse(l, r, shown, NULL,
			      "comes with a list of names that is no regular file");
	if (r == -E2BIG)
		return refuse(l, r, shown, NULL,
			      "comes with lists of names of more than 1 GiB together: submit them "
			      "one after the other");
	return r < 0 ? refuse(l, r, shown, NULL, NULL) : 0;
}

static int group_look(struct looking *l, struct session_group *g)
{
	const char *shown = g->display ? g->display : g->dir_path;
	struct name_list list;
	uint32_t dir;
	int r;

	if (g->path) {
		r = path_look(l, g);
		return r < 0 ? r : go_on(l);
	}
	if (g->dirfd < 0 && !g->dir_path)
		return refuse(l, -EINVAL, "", NULL, "no directory is given");
	r = list_open(l, &list, g, shown ? shown : "");
	if (r < 0)
		return r;
	if (g->dirfd >= 0)
		r = dir_take(l, fd_take(&g->dirfd), WAY_FD, /* read_only= */ false,
			     shown ? shown : "", &dir);
	else
		r = dir_find(l, g->dir_path, shown, &dir);
	if (r == -ENOENT && g->list && g->dir_path) {
		r = names_missing(l, &list, shown);
	} else if (r >= 0) {
		shown = shown ? shown : l->session->dirs[dir].path;
		r = g->records ? records_look(l, &list, dir, shown)
			       : names_look(l, &list, g, dir, shown);
	}
	name_list_done(&list);
	return r;
}

static void discards_find(struct looking *l)
{
	const struct mount *m = mounts_by_id(protect_mounts(l->protect), l->session->mnt_id);
	_cleanup_free_ char *options = m ? mount_all_options(m) : NULL;

	l->session->discards = options && mount_option(options, "discard");
}

/* Of all that is named there is nothing. */
static int refuse_missing(struct looking *l)
{
	const struct session *s = l->session;
	char why[96] = "does not exist";

	if (s->missing > 1)
		(void)snprintf(why, sizeof(why),
			       "does not exist, nor does any of the %" PRIu64 " names", s->missing);
	return refuse(l, -ENOENT, s->first_missing ? s->first_missing : "", NULL, why);
}

static int view_take(struct looking *l, int fd)
{
	int r = view_new(&l->view, fd, protect_mounts(l->protect));

	if (r == -E2BIG)
		return refuse(l, r, "", NULL,
			      "the process that asks has more mounts than can be looked through");
	return r < 0 ? refuse(l, r, "", NULL, "the mounts of the process that asks cannot be read")
		     : 0;
}

static int all_look(struct looking *l, int view_fd)
{
	_cleanup_free_ char *culprit = NULL;
	int r = 0;

	l->protect = serving_protect(l->s, &culprit, &r);
	if (!l->protect)
		return refuse(l, r, culprit ? culprit : "protected paths", NULL,
			      "cannot be resolved, so what is protected is not known");
	if (view_fd >= 0)
		r = view_take(l, view_fd);
	for (size_t i = 0; r >= 0 && i < l->session->n_groups; i++)
		r = group_look(l, &l->session->groups[i]);
	if (r >= 0 && l->session->n_entries == 0 && l->session->missing > 0)
		return refuse_missing(l);
	if (r >= 0 && l->session->n_dirs > 0)
		discards_find(l);
	return r < 0 ? r : 0;
}

static int looked_tell(struct looking *l, int error)
{
	const struct session *s = l->session;
	bool known = s && !s->has_dirs; /* how much there is in all */
	struct wire_out *o;
	int r = 0;

	if (l->telling && l->s->out.len > sizeof(struct wire_header))
		r = answer_send(l->s);
	o = answer_begin(l->s, ANSWER_LOOKED);
	wire_put_error(o, error);
	wire_put(o, s ? s->n_entries : 0);
	wire_put(o, s ? s->missing : 0);
	wire_put(o, known ? s->n_entries : 0);
	wire_put(o, known ? s->bytes : 0);
	wire_put(o, s ? s->mnt_id : 0);
	wire_put(o, s ? s->dev : 0);
	wire_put(o, s && s->discards);
	wire_put_string(o, error < 0 ? l->f.name : NULL);
	wire_put_string(o, error < 0 ? l->f.text.line : NULL);
	return r < 0 ? r : answer_send(l->s);
}

int look(struct serving *s)
{
	uint64_t id = wire_get(&s->in);
	uint64_t flags = wire_get_most(&s->in, LOOK_VIEW);
	_cleanup_close_ int view_fd = flags & LOOK_VIEW ? wire_get_fd(&s->in) : -1;
	struct looking l = { .s = s };
	int r = wire_end(&s->in);

	if (r < 0)
		return r;
	l.session = session_get(&s->sessions, id, true);
	r = l.session ? all_look(&l, view_fd) : refuse(&l, -ENOMEM, "", NULL, NULL);
	l.view = view_free(l.view);
	if (l.session)
		session_looked(l.session);
	/* What could not be told is no answer about the names. */
	if (r < 0 && !l.f.name)
		return r;
	r = looked_tell(&l, r);
	if (l.f.name)
		session_forget(&s->sessions, id);
	return r;
}

static int string_take(struct serving *s, char **ret)
{
	const char *text = wire_get_string_or_null(&s->in);

	if (text)
		*ret = strdup(text);
	return text && !*ret ? -ENOMEM : 0;
}

static int group_take(struct serving *s, struct session *session)
{
	struct session_group *g = session_group_add(session);
	uint64_t flags;
	const void *names;
	int r;

	if (!g)
		return -ENOMEM;
	flags = wire_get_most(&s->in, GROUP_FD | GROUP_NAMES_FD | GROUP_LIST | GROUP_RECORDS);
	r = string_take(s, &g->dir_path);
	if (r >= 0)
		r = string_take(s, &g->path);
	if (r >= 0)
		r = string_take(s, &g->display);
	names = wire_get_bytes(&s->in, &g->names_len);
	if (names && g->names_len > 0) {
		g->names = malloc(g->names_len);
		if (!g->names)
			return -ENOMEM;
		memcpy(g->names, names, g->names_len);
	}
	g->list = flags & GROUP_LIST;
	g->records = flags & GROUP_RECORDS;
	if (flags & GROUP_FD)
		g->dirfd = wire_get_fd(&s->in);
	if (flags & GROUP_NAMES_FD)
		g->names_fd = wire_get_fd(&s->in);
	return r;
}

int look_groups(struct serving *s)
{
	struct session *session = session_get(&s->sessions, wire_get(&s->in), true);
	int r = session ? 0 : -ENOMEM;

	while (r >= 0 && !s->in.error && s->in.left > 0)
		r = group_take(s, session);
	return r < 0 ? r : wire_end(&s->in);
}
