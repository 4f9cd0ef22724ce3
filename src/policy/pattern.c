/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* An expression becomes a program, whose steps are those of a nondeterministic automaton, and which
 * is followed through a text for all alternatives at the same time, each step at most once for each
 * byte:
 *
 *   1. Forward, each alternative with where it began, the smaller first: where the match is.
 *   2. Backward: by which steps its end can be reached from each byte.
 *   3. By those, from its beginning, as the expression prefers: what is in the groups.
 *
 * Why not a library: what is in the groups decides what is deleted, and names may be chosen by any
 * user. PCRE2 and RE2 take the first branch where POSIX takes the longest. On one path of 4 KiB,
 * regexec(3) of glibc 2.36 takes more than 20 s for ([ab]*a[ab]{200}c), and its regcomp(3) has no
 * bound for nested repetitions. TRE 0.8 finds the same matches, but in one of 500 random ones other
 * groups than POSIX says; it takes more than 20 s for ((a?){40}){40}b; and its classes of
 * characters depend on the locale. */
#include "pattern.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/macros.h"

#define REPEAT_MOST 32767 /* RE_DUP_MAX */
#define TEXT_MOST PATH_MAX

enum op {
	OP_BYTES, /* one byte of a set */
	OP_FORK,  /* on at to[0], or at to[1] */
	OP_JUMP,  /* on at to[0] */
	OP_BEGIN, /* of group n */
	OP_END,
	OP_WHERE, /* only where `where` holds */
	OP_MATCH
};

enum where { AT_BEGIN, AT_END, WORD_BEGIN, WORD_END, WORD_EDGE, NO_WORD_EDGE };

struct set {
	uint64_t bits[4];
};

struct step {
	enum op op;
	int to[2];     /* from here */
	unsigned n;    /* a group, a place or the number of a set */
	bool optional; /* OP_END: an empty match does not replace the one before */
};

/* Alternatives that go on at a byte, in the order of preference. */
struct active {
	uint16_t *steps;
	int *begins; /* where in the text each began */
	size_t n;
	uint32_t *seen, now; /* a step is among them if seen[step] == now */
	size_t size;
};

struct pattern {
	struct step *v;
	size_t n, cap;
	struct set *sets;
	size_t n_sets, cap_sets;
	unsigned groups;
	struct active a, b;
	uint16_t *stack;
	uint64_t *ends; /* see lead_all */
	size_t ends_cap;
	unsigned long long work;
};

/* Where step `i` of a program, a fork or a jump, goes on: its alternative `k`. */
static size_t target(const struct step *v, size_t i, size_t k)
{
	return i + (size_t)(ptrdiff_t)v->to[k];
}

/* ---- from an expression to a program ----------------------------------------------------------
 */

struct parser {
	struct pattern *p;
	const unsigned char *at;
	unsigned depth;
	const char *why;
};

static int wrong(struct parser *s)
{
	s->why = "an extended regular expression, regex(7), without back-references";
	return -EINVAL;
}

static int too_much(struct parser *s)
{
	s->why =
		"a simpler expression: parentheses in at most 20 others, and of repetitions within "
		"repetitions, or of large numbers in braces, no more than 2000 steps together";
	return -E2BIG;
}

/* Makes room for `n` steps at `at`: what is behind moves. */
static int insert(struct parser *s, size_t at, size_t n)
{
	struct pattern *p = s->p;
	int r;

	if (p->n + n > PATTERN_STEPS)
		return too_much(s);
	r = array_reserve(&p->v, &p->cap, p->n + n, sizeof(*p->v));
	if (r < 0)
		return r;
	memmove(p->v + at + n, p->v + at, (p->n - at) * sizeof(*p->v));
	memset(p->v + at, 0, n * sizeof(*p->v));
	p->n += n;
	return 0;
}

static int put(struct parser *s, const struct step *step)
{
	int r = insert(s, s->p->n, 1);

	if (r >= 0)
		s->p->v[s->p->n - 1] = *step;
	return r;
}

static int put_set(struct parser *s, const struct set *set)
{
	struct pattern *p = s->p;
	int r = array_reserve(&p->sets, &p->cap_sets, p->n_sets + 1, sizeof(*p->sets));

	if (r < 0)
		return r;
	p->sets[p->n_sets] = *set;
	return put(s, &(struct step){ .op = OP_BYTES, .n = (unsigned)p->n_sets++ });
}

static void set_add(struct set *set, unsigned char c)
{
	set->bits[c / 64] |= 1ULL << c % 64;
}

static bool set_has(const struct set *set, unsigned char c)
{
	return set->bits[c / 64] >> c % 64 & 1;
}

static void set_invert(struct set *set)
{
	for (size_t i = 0; i < ELEMENTSOF(set->bits); i++)
		set->bits[i] = ~set->bits[i];
}

/* Adds a class, as it is in the C locale. Returns whether there is one of this name. */
static bool class_add(struct set *set, const char *name)
{
	static const struct {
		const char *name;
		int (*has)(int c);
	} classes[] = { { "alpha", isalpha }, { "digit", isdigit }, { "alnum", isalnum },
			{ "upper", isupper }, { "lower", islower }, { "space", isspace },
			{ "blank", isblank }, { "punct", ispunct }, { "print", isprint },
			{ "graph", isgraph }, { "cntrl", iscntrl }, { "xdigit", isxdigit } };
	size_t i = 0;

	while (i < ELEMENTSOF(classes) && strcmp(classes[i].name, name) != 0)
		i++;
	/* In ASCII all locales are the same. */
	for (unsigned char c = 0; i < ELEMENTSOF(classes) && c < 0x80; c++)
		if (classes[i].has(c))
			set_add(set, c);
	return i < ELEMENTSOF(classes);
}

static bool is_word(unsigned char c)
{
	return c < 0x80 && (isalnum(c) || c == '_');
}

static bool is_digit(unsigned char c)
{
	return c >= '0' && c <= '9';
}

/* [:name:], [.c.] or [=c=] within brackets. Returns 0 with *ret a byte, 1 if it was a class. */
static int parse_named(struct parser *s, struct set *set, unsigned char *ret)
{
	unsigned char kind = s->at[1];
	const unsigned char *from = s->at + 2, *to = from;
	char name[8];

	while (*to && (to[0] != kind || to[1] != ']'))
		to++;
	if (!*to || to == from || to - from >= (ptrdiff_t)sizeof(name))
		return wrong(s);
	s->at = to + 2;
	memcpy(name, from, (size_t)(to - from));
	name[to - from] = '\0';
	if (kind != ':') {
		*ret = *from;
		return to - from == 1 ? 0 : wrong(s);
	}
	return class_add(set, name) ? 1 : wrong(s);
}

/* What stands at one end of a range. */
static int parse_element(struct parser *s, struct set *set, unsigned char *ret)
{
	if (s->at[0] == '[' && (s->at[1] == ':' || s->at[1] == '.' || s->at[1] == '='))
		return parse_named(s, set, ret);
	if (!*s->at)
		return wrong(s);
	*ret = *s->at++;
	return 0;
}

static int parse_brackets(struct parser *s)
{
	struct set set = { 0 };
	bool invert = s->at[0] == '^', first = true;

	for (s->at += invert; first || *s->at != ']'; first = false) {
		unsigned char from = 0, to;
		bool hyphen = *s->at == '-' && s->at[1] != ']' && !first;
		int r = hyphen ? wrong(s) : parse_element(s, &set, &from);

		if (r < 0)
			return r;
		to = from;
		if (s->at[0] == '-' && s->at[1] != ']') {
			s->at++;
			r = r > 0 ? wrong(s) : parse_element(s, &set, &to);
			if (r != 0)
				return r < 0 ? r : wrong(s);
			if (from > to)
				return wrong(s);
		}
		for (unsigned c = from; r == 0 && c <= to; c++)
			set_add(&set, (unsigned char)c);
	}
	s->at++;
	if (invert)
		set_invert(&set);
	return put_set(s, &set);
}

static int put_class(struct parser *s, const char *name, unsigned char besides, bool invert)
{
	struct set set = { 0 };

	(void)class_add(&set, name);
	if (besides)
		set_add(&set, besides);
	if (invert)
		set_invert(&set);
	return put_set(s, &set);
}

static int put_byte(struct parser *s, unsigned char c)
{
	struct set set = { 0 };

	set_add(&set, c);
	return put_set(s, &set);
}

static int put_where(struct parser *s, enum where where)
{
	return put(s, &(struct step){ .op = OP_WHERE, .n = where });
}

/* What is said by a backslash. Returns 1 for a place, of which there are no repetitions. */
static int parse_escape(struct parser *s)
{
	static const char places[] = "`'<>bB";
	unsigned char c = *s->at++;
	const char *place = c ? strchr(places, c) : NULL;
	int r;

	if (place) {
		r = put_where(s, (enum where)(place - places));
		return r < 0 ? r : 1;
	}
	switch (c) {
	case '\0':
		s->at--;
		return wrong(s);
	case 'w':
	case 'W':
		return put_class(s, "alnum", '_', c == 'W');
	case 's':
	case 'S':
		return put_class(s, "space", '\0', c == 'S');
	default:
		return c >= '1' && c <= '9' ? wrong(s) : put_byte(s, c);
	}
}

static int parse_all(struct parser *s);

static int parse_group(struct parser *s)
{
	unsigned number = ++s->p->groups;
	int r = put(s, &(struct step){ .op = OP_BEGIN, .n = number });

	if (r >= 0 && ++s->depth > PATTERN_DEPTH)
		r = too_much(s);
	if (r >= 0)
		r = parse_all(s);
	s->depth--;
	if (r < 0)
		return r;
	if (*s->at != ')')
		return wrong(s);
	s->at++;
	return put(s, &(struct step){ .op = OP_END, .n = number });
}

/* Returns 1 if it was one that cannot be repeated. */
static int parse_atom(struct parser *s)
{
	unsigned char c = *s->at++;
	int r;

	switch (c) {
	case '(':
		return parse_group(s);
	case '[':
		return parse_brackets(s);
	case '.':
		return put_set(s, &(struct set){ { ~1ULL, ~0ULL, ~0ULL, ~0ULL } });
	case '\\':
		return parse_escape(s);
	case '^':
	case '$':
		r = put_where(s, c == '^' ? AT_BEGIN : AT_END);
		return r < 0 ? r : 1;
	case '*':
	case '+':
	case '?':
	case '{':
		return wrong(s);
	default:
		return put_byte(s, c);
	}
}

/* Can the steps from `at` on be passed without a byte, and is there a group among them? What is in
 * the group then, when they are repeated, the C library answers in its own fashion. */
static bool is_doubtful(const struct pattern *p, size_t at)
{
	bool passed[PATTERN_STEPS + 1] = { [0] = true }, group = false;
	size_t n = p->n - at;

	for (bool changed = true; changed;) {
		changed = false;
		for (size_t i = 0; i < n; i++) {
			const struct step *v = &p->v[at + i];
			bool jumps = v->op == OP_JUMP || v->op == OP_FORK;

			group |= v->op == OP_BEGIN;
			if (!passed[i] || v->op == OP_BYTES)
				continue;
			for (size_t k = 0; k < (v->op == OP_FORK ? 2 : 1); k++) {
				size_t to = jumps ? target(v, i, k) : i + 1;

				changed |= !passed[to];
				passed[to] = true;
			}
		}
	}
	return group && passed[n];
}

/* Copies steps to the end; where they go is said from where they are. */
static int copy(struct parser *s, size_t from, size_t len)
{
	size_t to = s->p->n;
	int r = insert(s, to, len);

	if (r >= 0)
		memcpy(s->p->v + to, s->p->v + from, len * sizeof(*s->p->v));
	return r;
}

static int parse_number(struct parser *s, int *ret)
{
	int n = 0;

	if (!is_digit(*s->at))
		return 0;
	for (; is_digit(*s->at); s->at++) {
		n = n * 10 + (*s->at - '0');
		if (n > REPEAT_MOST)
			return wrong(s);
	}
	*ret = n;
	return 1;
}

/* {2}, {2,}, {2,3} or {,3}, behind its brace. *ret_most is -1 where there is no end. */
static int parse_braces(struct parser *s, int *ret_least, int *ret_most)
{
	int r = parse_number(s, ret_least);

	if (r < 0)
		return r;
	if (r == 0 && *s->at != ',')
		return wrong(s);
	*ret_least = r == 0 ? 0 : *ret_least;
	*ret_most = *ret_least;
	if (*s->at == ',') {
		s->at++;
		*ret_most = -1;
		r = parse_number(s, ret_most);
		if (r < 0)
			return r;
	}
	if (*s->at != '}' || (*ret_most >= 0 && *ret_most < *ret_least))
		return wrong(s);
	s->at++;
	return 0;
}

/* The steps from `at` on become optional: as often as one likes, or once. */
static int put_optional(struct parser *s, size_t at, bool often)
{
	size_t len = s->p->n - at;
	int r;

	/* A whole group: the steps of a repetition that are one begin and end with it. */
	if (len >= 2 && s->p->v[at].op == OP_BEGIN && s->p->v[s->p->n - 1].op == OP_END &&
	    s->p->v[at].n == s->p->v[s->p->n - 1].n)
		for (size_t i = at; i < s->p->n; i++)
			s->p->v[i].optional |=
				s->p->v[i].op == OP_END && s->p->v[i].n == s->p->v[at].n;
	r = insert(s, at, 1);
	if (r >= 0 && often)
		r = put(s, &(struct step){ .op = OP_JUMP, .to = { -(int)len - 1 } });
	if (r >= 0)
		s->p->v[at] = (struct step){ .op = OP_FORK, .to = { 1, (int)len + 1 + often } };
	return r;
}

/* The steps from `at` on are there `least` to `most` times. */
static int repeat(struct parser *s, size_t at, int least, int most)
{
	size_t len = s->p->n - at;
	int r = 0;

	if (len == 0)
		return 0;
	if ((least > 1 || most < 0 || most > 1) && is_doubtful(s->p, at)) {
		s->why = "an expression in which no group that is repeated can be empty, such as "
			 "(-[a-z]+)* in place of (-?[a-z]*)*";
		return -EINVAL;
	}
	if (most == 0) {
		s->p->n = at;
		return 0;
	}
	/* They are the first of these already. */
	for (int i = 1; i < least && r >= 0; i++)
		r = copy(s, at, len);
	if (least == most)
		return r;
	if (least > 0 && r >= 0)
		r = copy(s, at, len);
	at = s->p->n - len;
	if (most < 0)
		return r < 0 ? r : put_optional(s, at, /* often= */ true);
	/* e{,3} is (((e)?e)?e)?: each holds the one before. */
	for (int i = least; i < most && r >= 0; i++) {
		if (i > least)
			r = copy(s, s->p->n - len, len);
		if (r >= 0)
			r = put_optional(s, at, /* often= */ false);
	}
	return r;
}

static int parse_repeated(struct parser *s)
{
	size_t at = s->p->n;
	int r = parse_atom(s);

	if (r != 0)
		return r < 0 ? r : 0;
	for (;;) {
		int least = 0, most = -1;

		switch (*s->at) {
		case '*':
			break;
		case '+':
			least = 1;
			break;
		case '?':
			most = 1;
			break;
		case '{':
			break;
		default:
			return 0;
		}
		r = *s->at++ == '{' ? parse_braces(s, &least, &most) : 0;
		if (r >= 0)
			r = repeat(s, at, least, most);
		if (r < 0)
			return r;
	}
}

/* Up to the end, or to the parenthesis that closes a group. */
static int parse_branch(struct parser *s)
{
	int r = 0;

	while (r >= 0 && *s->at && *s->at != '|' && (*s->at != ')' || s->depth == 0))
		r = parse_repeated(s);
	return r;
}

/* Branches. Where there are many, each holds those before it. */
static int parse_all(struct parser *s)
{
	size_t at = s->p->n;
	int r = parse_branch(s);

	while (r >= 0 && *s->at == '|') {
		size_t jump, len;

		s->at++;
		r = insert(s, at, 1);
		jump = s->p->n;
		if (r >= 0)
			r = put(s, &(struct step){ .op = OP_JUMP });
		if (r >= 0)
			r = parse_branch(s);
		if (r < 0)
			return r;
		len = jump - at;
		s->p->v[at] = (struct step){ .op = OP_FORK, .to = { 1, (int)len + 1 } };
		s->p->v[jump].to[0] = (int)(s->p->n - jump);
	}
	return r;
}

static int active_new(struct active *w, size_t n)
{
	w->steps = calloc(n, sizeof(*w->steps));
	w->begins = calloc(n, sizeof(*w->begins));
	w->seen = calloc(n, sizeof(*w->seen));
	w->size = n;
	return w->steps && w->begins && w->seen ? 0 : -ENOMEM;
}

int pattern_new(struct pattern **ret, const char *expression, const char **ret_why)
{
	struct parser s = { .p = calloc(1, sizeof(*s.p)), .at = (const unsigned char *)expression };
	int r = s.p ? parse_all(&s) : -ENOMEM;

	if (r >= 0)
		r = put(&s, &(struct step){ .op = OP_MATCH });
	if (r >= 0)
		r = active_new(&s.p->a, s.p->n);
	if (r >= 0)
		r = active_new(&s.p->b, s.p->n);
	if (r >= 0 && !(s.p->stack = calloc(2 * s.p->n, sizeof(*s.p->stack))))
		r = -ENOMEM;
	if (r < 0) {
		if (s.why)
			*ret_why = s.why;
		pattern_free(s.p);
		return r;
	}
	*ret = s.p;
	return 0;
}

static void active_done(struct active *w)
{
	free(w->steps);
	free(w->begins);
	free(w->seen);
}

struct pattern *pattern_free(struct pattern *p)
{
	if (!p)
		return NULL;
	active_done(&p->a);
	active_done(&p->b);
	free(p->v);
	free(p->sets);
	free(p->stack);
	free(p->ends);
	free(p);
	return NULL;
}

unsigned pattern_groups(const struct pattern *p)
{
	return p->groups;
}

unsigned long long pattern_work(const struct pattern *p)
{
	return p->work;
}

/* ---- a text -----------------------------------------------------------------------------------
 */

struct subject {
	const unsigned char *s;
	size_t len;
};

static bool holds(const struct subject *t, size_t at, enum where where)
{
	bool before = at > 0 && is_word(t->s[at - 1]), after = at < t->len && is_word(t->s[at]);

	switch (where) {
	case AT_BEGIN:
		return at == 0;
	case AT_END:
		return at == t->len;
	case WORD_BEGIN:
		return !before && after;
	case WORD_END:
		return before && !after;
	case WORD_EDGE:
		return before != after;
	case NO_WORD_EDGE:
		return before == after;
	}
	return false;
}

static void active_clear(struct active *w)
{
	w->n = 0;
	if (++w->now > 0)
		return;
	memset(w->seen, 0, w->size * sizeof(*w->seen));
	w->now = 1;
}

/* Adds an alternative that goes on at a step, and all that follow without a byte, the preferred
 * first. */
static void active_add(struct pattern *p, struct active *w, size_t step, const struct subject *t,
		       size_t at, int begin)
{
	size_t n = 0;

	p->stack[n++] = (uint16_t)step;
	while (n > 0) {
		size_t i = p->stack[--n];
		const struct step *v = &p->v[i];

		if (w->seen[i] == w->now)
			continue;
		w->seen[i] = w->now;
		p->work++;
		w->steps[w->n] = (uint16_t)i;
		w->begins[w->n++] = begin;
		switch (v->op) {
		case OP_FORK:
			p->stack[n++] = (uint16_t)target(v, i, 1);
			p->stack[n++] = (uint16_t)target(v, i, 0);
			break;
		case OP_JUMP:
			p->stack[n++] = (uint16_t)target(v, i, 0);
			break;
		case OP_WHERE:
			if (!holds(t, at, (enum where)v->n))
				break;
			p->stack[n++] = (uint16_t)(i + 1);
			break;
		case OP_BEGIN:
		case OP_END:
			p->stack[n++] = (uint16_t)(i + 1);
			break;
		case OP_BYTES:
		case OP_MATCH:
			break;
		}
	}
}

/* Goes on by one byte: from those of `w` to those of `next`. */
static void active_step(struct pattern *p, const struct active *w, struct active *next,
			const struct subject *t, size_t at, int latest)
{
	active_clear(next);
	for (size_t i = 0; i < w->n; i++) {
		const struct step *v = &p->v[w->steps[i]];

		if (v->op == OP_BYTES && w->begins[i] <= latest &&
		    set_has(&p->sets[v->n], t->s[at]))
			active_add(p, next, w->steps[i] + 1U, t, at + 1, w->begins[i]);
	}
}

static void swap(struct active **a, struct active **b)
{
	struct active *c = *a;

	*a = *b;
	*b = c;
}

/* The leftmost match, and of these the longest. Of two alternatives at the same step, only the one
 * that began first counts: what comes is the same for both. */
static bool find(struct pattern *p, const struct subject *t, size_t *ret_begin, size_t *ret_end)
{
	struct active *now = &p->a, *next = &p->b;
	size_t match = p->n - 1;
	int best = -1;

	active_clear(now);
	for (size_t at = 0;; at++) {
		if (best < 0)
			active_add(p, now, 0, t, at, (int)at);
		for (size_t i = 0; i < now->n; i++)
			if (now->steps[i] == match && (best < 0 || now->begins[i] <= best)) {
				best = now->begins[i];
				*ret_begin = (size_t)best;
				*ret_end = at;
			}
		if (at == t->len || (best >= 0 && now->n == 0))
			return best >= 0;
		active_step(p, now, next, t, at, best < 0 ? INT_MAX : best);
		swap(&now, &next);
	}
}

static bool bit(const uint64_t *bits, size_t i)
{
	return bits[i / 64] >> i % 64 & 1;
}

/* Does a step lead to the end? `ends` is of its place, and `then` of the next, or NULL at the end.
 */
static bool leads(const struct pattern *p, const struct subject *t, size_t at, size_t i,
		  const uint64_t *ends, const uint64_t *then)
{
	const struct step *v = &p->v[i];

	switch (v->op) {
	case OP_BYTES:
		return then && set_has(&p->sets[v->n], t->s[at]) && bit(then, i + 1);
	case OP_FORK:
		return bit(ends, target(v, i, 0)) || bit(ends, target(v, i, 1));
	case OP_JUMP:
		return bit(ends, target(v, i, 0));
	case OP_WHERE:
		return holds(t, at, (enum where)v->n) && bit(ends, i + 1);
	case OP_BEGIN:
	case OP_END:
		return bit(ends, i + 1);
	case OP_MATCH:
		return !then;
	}
	return false;
}

/* For each place of the match, the steps from which its end can be reached: `words` of bits each.
 * From the last step to the first, as what needs no byte goes forward but for the ends of loops: as
 * often as loops lie in each other. */
static void lead_all(struct pattern *p, const struct subject *t, size_t begin, size_t end,
		     size_t words)
{
	memset(p->ends, 0, (end - begin + 1) * words * sizeof(*p->ends));
	for (size_t at = end + 1; at-- > begin;) {
		uint64_t *ends = p->ends + words * (at - begin);
		const uint64_t *then = at < end ? ends + words : NULL;

		for (bool changed = true; changed;) {
			changed = false;
			for (size_t i = p->n; i-- > 0;) {
				if (bit(ends, i))
					continue;
				p->work++;
				if (!leads(p, t, at, i, ends, then))
					continue;
				ends[i / 64] |= 1ULL << i % 64;
				changed = true;
			}
		}
	}
}

struct groups {
	struct pattern_group v[PATTERN_GROUPS];
};

static void group_ends(struct groups *now, struct groups *before, const struct step *v, int at)
{
	struct pattern_group *g = &now->v[v->n - 1];

	if (g->begin < at) {
		g->end = at;
		*before = *now;
	} else if (v->optional && before->v[v->n - 1].begin >= 0) {
		*now = *before; /* (a?)* has matched the last a, not the nothing behind it */
	} else {
		g->end = at;
	}
}

/* The preferred one of two that lead to the end, but not the same again where nothing was matched
 * in between. */
static size_t choose(const struct pattern *p, size_t i, const uint64_t *ends, struct active *been)
{
	size_t a = target(&p->v[i], i, 0), b = target(&p->v[i], i, 1);

	if (!bit(ends, a))
		return b;
	return bit(ends, b) && been->seen[a] == been->now ? b : a;
}

/* False if it goes round without a byte, which cannot be: no user may stop a policy by a name. */
static bool follow(struct pattern *p, size_t begin, size_t words, struct groups *ret)
{
	struct groups before;
	size_t i = 0, steps = 0;

	for (size_t k = 0; k < PATTERN_GROUPS; k++)
		ret->v[k] = (struct pattern_group){ -1, -1 };
	before = *ret;
	active_clear(&p->a);
	for (size_t at = begin; p->v[i].op != OP_MATCH;) {
		const struct step *v = &p->v[i];
		const uint64_t *ends = p->ends + words * (at - begin);

		p->work++;
		assert(bit(ends, i));
		if (++steps > 4 * p->n)
			return false;
		p->a.seen[i] = p->a.now;
		if (v->op == OP_BEGIN && v->n <= PATTERN_GROUPS)
			ret->v[v->n - 1] = (struct pattern_group){ (int)at, -1 };
		if (v->op == OP_END && v->n <= PATTERN_GROUPS)
			group_ends(ret, &before, v, (int)at);
		if (v->op == OP_BYTES) {
			active_clear(&p->a);
			steps = 0;
			at++;
		}
		i = v->op == OP_FORK   ? choose(p, i, ends, &p->a)
		    : v->op == OP_JUMP ? target(v, i, 0)
				       : i + 1;
	}
	return true;
}

int pattern_match(struct pattern *p, const char *text, struct pattern_group ret[PATTERN_GROUPS])
{
	struct subject t = { .s = (const unsigned char *)text, .len = strlen(text) };
	size_t words = (p->n + 63) / 64, begin, end;
	struct groups g;
	int r;

	if (t.len > TEXT_MOST)
		return -E2BIG;
	if (!find(p, &t, &begin, &end))
		return 0;
	r = array_reserve(&p->ends, &p->ends_cap, (end - begin + 1) * words, sizeof(*p->ends));
	if (r < 0)
		return r;
	lead_all(p, &t, begin, end, words);
	if (!follow(p, begin, words, &g))
		return -E2BIG;
	memcpy(ret, g.v, sizeof(g.v));
	return 1;
}
