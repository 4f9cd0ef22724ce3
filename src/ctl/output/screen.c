/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "screen.h"

#include <fcntl.h>
#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "base/escape.h"
#include "base/fd.h"
#include "base/macros.h"

static bool is_dumb(void)
{
	const char *term = getenv("TERM");

	return term && strcmp(term, "dumb") == 0;
}

bool screen_redraws(void)
{
	return isatty(STDERR_FILENO) && !is_dumb();
}

bool screen_allows_colours(void)
{
	const char *no = getenv("NO_COLOR");

	return !no || !no[0];
}

unsigned screen_columns(int fd)
{
	struct winsize ws;

	if (ioctl(fd, TIOCGWINSZ, &ws) < 0)
		return 0;
	return ws.ws_col;
}

/* The pager's command line for sh(1), or NULL for none. */
static const char *pager_command(void)
{
	static const char *const names[] = { "SYSTEMD_PAGER", "PAGER" };

	if (!isatty(STDOUT_FILENO))
		return NULL;
	for (size_t i = 0; i < ELEMENTSOF(names); i++) {
		const char *v = getenv(names[i]);

		if (v)
			return v[0] && strcmp(v, "cat") != 0 ? v : NULL;
	}
	return "command -v less >/dev/null && exec less; exec cat";
}

static void pager_start(struct screen *s, const char *command)
{
	/* Leaves at once if all fits on the screen; keeps colours and what was on the screen. */
	(void)setenv("LESS", "FRSXMK", /* overwrite= */ 0);
	/* No commands and no files from inside a pager that may run with more rights than its user.
	 */
	(void)setenv("LESSSECURE", "1", /* overwrite= */ 0);
	(void)fflush(stdout);
	s->pager = popen(command, "we");
	if (!s->pager || dup2(fileno(s->pager), STDOUT_FILENO) < 0)
		return;
	/* Leaving the pager early is no error of ours, and ^C is the pager's. */
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGINT, SIG_IGN);
}

void screen_locale(void)
{
	(void)setlocale(LC_CTYPE, "");
}

void screen_open(struct screen *s, bool may_page)
{
	const char *command = may_page ? pager_command() : NULL;

	*s = (struct screen){ .colours = isatty(STDOUT_FILENO) && !is_dumb() &&
					 screen_allows_colours(),
			      .width = screen_columns(STDOUT_FILENO) };
	if (command)
		pager_start(s, command);
}

void screen_close(struct screen *s)
{
	_cleanup_close_ int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	if (!s->pager)
		return;
	(void)fflush(stdout);
	/* The end of the pipe goes, and what could not be written into it is no error. */
	clearerr(stdout);
	if (null < 0 || dup2(null, STDOUT_FILENO) < 0)
		(void)close(STDOUT_FILENO);
	(void)pclose(s->pager);
	s->pager = NULL;
}

/* Reads one character. Returns its length; what is none counts as one byte of one column. */
static size_t character(const char *s, size_t *ret_columns)
{
	mbstate_t state = { 0 };
	size_t n = 1;
	int columns;
	wchar_t c;

	*ret_columns = 1;
	if (*s >= ' ' && *s <= '~')
		return 1;
	n = mbrtowc(&c, s, strnlen(s, MB_LEN_MAX), &state);
	if (n == 0 || n == (size_t)-1 || n == (size_t)-2)
		return 1;
	columns = wcwidth(c);
	*ret_columns = columns < 0 ? 1 : (size_t)columns;
	return n;
}

bool screen_is_utf8(void)
{
	return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

/* Takes over a text that is escaped; NULL: memory was out. */
static char *in_locale(char *safe)
{
	char *ascii;

	if (!safe || screen_is_utf8() || safe[escape_span(safe)] == '\0')
		return safe;
	ascii = escape_ascii(safe);
	free(safe);
	return ascii;
}

char *screen_name(const char *s)
{
	return in_locale(escape_name(s));
}

char *screen_line(const char *s)
{
	return in_locale(escape_line(s));
}

const char *screen_ellipsis(void)
{
	return screen_is_utf8() ? "…" : "...";
}

size_t screen_width(const char *text)
{
	size_t width = escape_span(text), columns;

	text += width;
	while (*text) {
		text += character(text, &columns);
		width += columns;
	}
	return width;
}

size_t screen_cut(const char *text, size_t width)
{
	size_t used = 0, len = 0, columns, dots = screen_width(screen_ellipsis());

	while (text[len]) {
		size_t n = character(text + len, &columns);

		if (used + columns + dots > width)
			break;
		used += columns;
		len += n;
	}
	return len;
}

size_t screen_skip(const char *text, size_t width)
{
	size_t left = screen_width(text) + screen_width(screen_ellipsis()), n = 0, columns;

	while (text[n] && left > width) {
		n += character(text + n, &columns);
		left -= columns;
	}
	return n;
}

void screen_wrap(FILE *out, const char *text, size_t width, size_t indent)
{
	/* In less room than this more is lost than won. */
	const size_t least = 24;
	size_t room = width < indent + least ? SIZE_MAX : width - indent;

	/* No character is wider than it is long. */
	while (strlen(text) > room) {
		size_t n = room;

		while (n > 0 && text[n] != ' ')
			n--;
		/* Nothing is won by a break before what is longer than a line itself. */
		if (n == 0)
			n = strcspn(text, " ");
		else if (strcspn(text + n + 1, " ") > room)
			n += 1 + strcspn(text + n + 1, " ");
		if (text[n] == '\0')
			break;
		(void)fprintf(out, "%.*s\n%*s", (int)n, text, (int)indent, "");
		text += n + strspn(text + n, " ");
	}
	(void)fprintf(out, "%s\n", text);
}
