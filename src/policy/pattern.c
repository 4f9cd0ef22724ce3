/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* An expression becomes a program, whose steps are those of a nondeterministic automaton over the
 * characters of a text (characters.h). A text is read twice:
 *
 *   1. Backward: for each step at each character, where the longest match ends that begins with
 * this step. That gives the leftmost match, and of these the longest.
 *   2. From the beginning of the match, along the steps that lead to its end and that the
 * expression prefers. That gives the content of the groups.
 *
 * Why not a library: what is in the groups decides what is deleted, and names may be chosen by any
 * user. PCRE2 and RE2 take the first branch where POSIX takes the longest. On one path of 4 KiB,
 * regexec(3) of glibc 2.36 takes more than 20 s for ([ab]*a[ab]{200}c), and its regcomp(3) has no
 * bound for nested repetitions. TRE 0.8 finds the same matches, but in one of 500 random ones other
 * groups than POSIX says; it takes more than 20 s for ((a?){40}){40}b; and its classes of
 * characters depend on the locale. */
#include "pattern.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/macros.h"
#include "characters.h"

#define REPEAT_MOST 32767 /* RE_DUP_MAX */
#define TEXT_MOST PATH_MAX

enum op {
	OP_CHARACTER, /* the character n */
	OP_SET,       /* a character of a set */
	OP_ANY,       /* any character */
	OP_FORK,      /* on at to[0], or at to[1] */
	OP_BEGIN,     /* of group n */
	OP_END,
	OP_WHERE, /* only where `where` n holds */
	OP_MATCH
};

enum where { AT_BEGIN, AT_END, WORD_BEGIN, WORD_END, WORD_EDGE, NO_WORD_EDGE };

struct step {
	enum op op;
	unsigned n;
	int to[2];                       /* from here */
	const struct character_set *set; /* of the pattern */
	bool optional; /* OP_END: an empty match does not replace the one before */
	bool repeated; /* OP_FORK: steps behind it lead back here */
};

struct pattern {
	struct step *v;
	size_t n, cap;
	unsigned groups;
	struct character_set **sets;
	size_t n_sets;
	int16_t *ends; /* see ends_find */
	size_t ends_cap;
	/* The text that is being matched: its characters, and the byte at which each begins. */
	uint32_t *text;
	uint16_t *bytes;
	size_t text_cap, bytes_cap;
	unsigned long long work;
};

/* Where step `i` of a program, a fork, goes on: its alternative `k`. */
static size_t target(const struct step *v, size_t i, size_t k)
{
	return i + (size_t)(ptrdiff_t)v[i].to[k];
}

/* ---- from an expression to a program ----------------------------------------------------------
 */

struct parser {
	struct pattern *p;
	const char *at;
	unsigned depth;
	bool empty; /* what was read last can match nothing */
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

static int put_character(struct parser *s, enum op op, uint32_t c)
{
	s->empty = false;
	return put(s, &(struct step){ .op = op, .n = c });
}

static bool is_digit(unsigned char c)
{
	return c >= '0' && c <= '9';
}

/* Puts the bracket expression that begins at *at, and moves *at behind it. */
static int put_set(struct parser *s, const char **at)
{
	struct character_set **set =
		array_add(&s->p->sets, &s->p->n_sets, sizeof(struct character_set *));
	int r = set ? character_set_read(set, at, SET_OF_REGEX) : -ENOMEM;

	if (r == -EOPNOTSUPP)
		s->why = "an expression without classes such as [:alpha:], \\w and \\s: the locale "
			 "C.UTF-8, which says what is in them, is not installed";
	if (r == -EINVAL)
		return wrong(s);
	s->empty = false;
	return r < 0 ? r : put(s, &(struct step){ .op = OP_SET, .set = *set });
}

/* Returns 1: there are no repetitions of a place. */
static int put_where(struct parser *s, enum where where)
{
	int r = put(s, &(struct step){ .op = OP_WHERE, .n = where });

	s->empty = true;
	return r < 0 ? r : 1;
}

/* Reads what follows a backslash. Returns 1 for a place, which cannot be repeated. */
static int parse_escape(struct parser *s)
{
	static const char places[] = "`'<>bB";
	static const struct {
		char c;
		const char *set;
	} classes[] = { { 'w', "[[:alnum:]_]" },
			{ 'W', "[^[:alnum:]_]" },
			{ 's', "[[:space:]]" },
			{ 'S', "[^[:space:]]" } };
	char c = *s->at;
	const char *place = c ? strchr(places, c) : NULL;

	if (c == '\0' || (c >= '1' && c <= '9'))
		return wrong(s);
	if (place) {
		s->at++;
		return put_where(s, (enum where)(place - places));
	}
	for (size_t i = 0; i < ELEMENTSOF(classes); i++)
		if (classes[i].c == c) {
			s->at++;
			return put_set(s, &(const char *){ classes[i].set });
		}
	return put_character(s, OP_CHARACTER, character_next(&s->at));
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
	const char *from = s->at;
	uint32_t c = character_next(&s->at);

	switch (c) {
	case '(':
		return parse_group(s);
	case '[':
		s->at = from;
		return put_set(s, &s->at);
	case '.':
		return put_character(s, OP_ANY, 0);
	case '\\':
		return parse_escape(s);
	case '^':
	case '$':
		return put_where(s, c == '^' ? AT_BEGIN : AT_END);
	case '*':
	case '+':
	case '?':
	case '{':
		return wrong(s);
	default:
		return put_character(s, OP_CHARACTER, c);
	}
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

/* A number that is there. What is too large is one more than REPEAT_MOST. */
static int parse_number(struct parser *s)
{
	char *end;
	long n = strtol(s->at, &end, 10);

	s->at = end;
	return (int)MIN(n, REPEAT_MOST + 1);
}

/* {2}, {2,}, {2,3} or {,3}, behind its brace. *ret_most is -1 where there is no end. */
static int parse_braces(struct parser *s, int *ret_least, int *ret_most)
{
	if (*s->at != ',' && !is_digit((unsigned char)*s->at))
		return wrong(s);
	*ret_least = *ret_most = *s->at == ',' ? 0 : parse_number(s);
	if (*s->at == ',') {
		s->at++;
		*ret_most = is_digit((unsigned char)*s->at) ? parse_number(s) : -1;
	}
	if (*s->at != '}' || *ret_least > REPEAT_MOST || *ret_most > REPEAT_MOST ||
	    (*ret_most >= 0 && *ret_most < *ret_least))
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
		r = put(s, &(struct step){ .op = OP_FORK, .to = { -(int)len - 1, -(int)len - 1 } });
	if (r >= 0)
		s->p->v[at] = (struct step){ .op = OP_FORK,
					     .to = { 1, (int)len + 1 + often },
					     .repeated = often };
	return r;
}

/* The steps from `at` on, one atom, are there `least` to `most` times. */
static int repeat(struct parser *s, size_t at, int least, int most)
{
	size_t len = s->p->n - at;
	int r = 0;

	if (len == 0)
		return 0;
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
	bool group = *s->at == '(';
	int r = parse_atom(s);

	/* Each repetition of a repetition is one more way through all steps, for each byte. */
	for (unsigned n = 0; r == 0 && *s->at && strchr("*+?{", *s->at); n++) {
		char c = *s->at++;
		int least = c == '+', most = c == '?' ? 1 : -1;

		if (n == PATTERN_DEPTH)
			return too_much(s);
		if (c == '{')
			r = parse_braces(s, &least, &most);
		/* What is in the group then, the C library answers in its own fashion. */
		if (r >= 0 && group && s->empty && s->p->n > at &&
		    (least > 1 || most < 0 || most > 1)) {
			s->why = "an expression in which no group that is repeated can be empty, "
				 "such as (-[a-z]+)* in place of (-?[a-z]*)*";
			return -EINVAL;
		}
		if (r >= 0)
			r = repeat(s, at, least, most);
		s->empty |= least == 0;
	}
	return r < 0 ? r : 0;
}

/* Up to the end, or to the parenthesis that closes a group. */
static int parse_branch(struct parser *s)
{
	bool empty = true;
	int r = 0;

	while (r >= 0 && *s->at && *s->at != '|' && (*s->at != ')' || s->depth == 0)) {
		r = parse_repeated(s);
		empty &= s->empty;
	}
	s->empty = empty;
	return r;
}

/* Branches. Where there are many, each holds those before it. */
static int parse_all(struct parser *s)
{
	size_t at = s->p->n;
	int r = parse_branch(s);

	while (r >= 0 && *s->at == '|') {
		bool empty = s->empty;
		size_t jump;
		int len;

		s->at++;
		r = insert(s, at, 1);
		jump = s->p->n;
		if (r >= 0)
			r = put(s, &(struct step){ .op = OP_FORK });
		if (r >= 0)
			r = parse_branch(s);
		if (r < 0)
			return r;
		s->empty |= empty;
		s->p->v[at] = (struct step){ .op = OP_FORK, .to = { 1, (int)(jump - at) + 1 } };
		len = (int)(s->p->n - jump);
		s->p->v[jump].to[0] = s->p->v[jump].to[1] = len;
	}
	return r;
}

int pattern_new(struct pattern **ret, const char *expression, const char **ret_why)
{
	struct parser s = { .p = calloc(1, sizeof(*s.p)), .at = expression };
	int r = !s.p ? -ENOMEM : characters_are_valid(expression) ? parse_all(&s) : wrong(&s);

	if (r >= 0)
		r = put(&s, &(struct step){ .op = OP_MATCH });
	if (r >= 0 && (s.p->groups < 1 || s.p->groups > PATTERN_GROUPS)) {
		s.why = "an expression with one to nine groups in parentheses, such as ^([a-z]+)-";
		r = -EINVAL;
	}
	if (r < 0) {
		if (s.why)
			*ret_why = s.why;
		pattern_free(s.p);
		return r;
	}
	*ret = s.p;
	return 0;
}

struct pattern *pattern_free(struct pattern *p)
{
	if (!p)
		return NULL;
	for (size_t i = 0; i < p->n_sets; i++)
		character_set_free(p->sets[i]);
	free(p->sets);
	free(p->v);
	free(p->ends);
	free(p->text);
	free(p->bytes);
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
	const uint32_t *s;
	size_t len;
};

static bool holds(const struct subject *t, size_t at, enum where where)
{
	bool before = at > 0 && character_is_word(t->s[at - 1]),
	     after = at < t->len && character_is_word(t->s[at]);

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

/* Where the longest match ends that goes on at step `i`, by what is known of other steps; -1: there
 * is none. */
static int16_t end_of(const struct pattern *p, const struct subject *t, size_t at, size_t i)
{
	const int16_t *ends = p->ends + at * p->n;
	const struct step *v = &p->v[i];

	switch (v->op) {
	case OP_CHARACTER:
		return at < t->len && t->s[at] == v->n ? ends[p->n + i + 1] : -1;
	case OP_SET:
		return at < t->len && character_set_has(v->set, t->s[at], /* exact= */ true)
			       ? ends[p->n + i + 1]
			       : -1;
	case OP_ANY:
		return at < t->len ? ends[p->n + i + 1] : -1;
	case OP_FORK:
		return MAX(ends[target(p->v, i, 0)], ends[target(p->v, i, 1)]);
	case OP_WHERE:
		return holds(t, at, (enum where)v->n) ? ends[i + 1] : -1;
	case OP_BEGIN:
	case OP_END:
		return ends[i + 1];
	case OP_MATCH:
		return (int16_t)at;
	}
	return -1;
}

/* Fills in p->ends: for each place of the text, and there for each step, what end_of says. From the
 * last step to the first, as what needs no byte goes forward but for the ends of loops: as often as
 * loops lie in each other. */
static void ends_find(struct pattern *p, const struct subject *t)
{
	for (size_t at = t->len + 1; at-- > 0;) {
		int16_t *ends = p->ends + at * p->n;

		memset(ends, -1, p->n * sizeof(*ends));
		for (bool changed = true; changed;) {
			changed = false;
			for (size_t i = p->n; i-- > 0;) {
				int16_t end = end_of(p, t, at, i);

				changed |= p->v[i].repeated && end != ends[i];
				ends[i] = end;
			}
			p->work += p->n;
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

/* False if it goes round without a byte, which cannot be: no user may stop a policy by a name. */
static bool follow(struct pattern *p, size_t begin, int16_t end, struct groups *ret)
{
	int16_t been[PATTERN_STEPS]; /* at this place of the text */
	struct groups before;
	size_t i = 0, steps = 0;

	memset(been, -1, sizeof(been));
	memset(ret, -1, sizeof(*ret));
	before = *ret;
	for (size_t at = begin; p->v[i].op != OP_MATCH; p->work++) {
		const struct step *v = &p->v[i];
		const int16_t *ends = p->ends + p->n * at;
		size_t next = i + 1;

		assert(ends[i] == end);
		if (++steps > 4 * p->n)
			return false;
		been[i] = (int16_t)at;
		if (v->op == OP_BEGIN)
			ret->v[v->n - 1] = (struct pattern_group){ (int)at, -1 };
		if (v->op == OP_END)
			group_ends(ret, &before, v, (int)at);
		if (v->op == OP_CHARACTER || v->op == OP_SET || v->op == OP_ANY) {
			steps = 0;
			at++;
		}
		/* The preferred one that leads to the end, but not the same again where nothing was
		 * matched in between. */
		if (v->op == OP_FORK) {
			size_t other = target(p->v, i, 1);

			next = target(p->v, i, 0);
			if (ends[next] != end || (ends[other] == end && been[next] == (int16_t)at))
				next = other;
		}
		i = next;
	}
	return true;
}

/* Takes the text apart into p->text and p->bytes. Returns 0, -ENOMEM or -E2BIG. */
static int text_read(struct pattern *p, const char *text, struct subject *ret)
{
	size_t len = strlen(text), n = 0;
	int r = len > TEXT_MOST ? -E2BIG : 0;

	if (r >= 0)
		r = array_reserve(&p->text, &p->text_cap, len + 1, sizeof(*p->text));
	if (r >= 0)
		r = array_reserve(&p->bytes, &p->bytes_cap, len + 1, sizeof(*p->bytes));
	if (r < 0)
		return r;
	for (const char *s = text; *s; n++) {
		p->bytes[n] = (uint16_t)(s - text);
		p->text[n] = character_next(&s);
	}
	p->bytes[n] = (uint16_t)len;
	*ret = (struct subject){ p->text, n };
	return 0;
}

int pattern_match(struct pattern *p, const char *text, struct pattern_group ret[PATTERN_GROUPS])
{
	struct subject t;
	struct groups g;
	size_t begin = 0;
	int r = text_read(p, text, &t);

	if (r >= 0)
		r = array_reserve(&p->ends, &p->ends_cap, (t.len + 1) * p->n, sizeof(*p->ends));
	if (r < 0)
		return r;
	ends_find(p, &t);
	while (begin <= t.len && p->ends[begin * p->n] < 0)
		begin++;
	if (begin > t.len)
		return 0;
	if (!follow(p, begin, p->ends[begin * p->n], &g))
		return -E2BIG;
	for (size_t i = 0; i < PATTERN_GROUPS; i++)
		ret[i] = g.v[i].end < 0 ? (struct pattern_group){ -1, -1 }
					: (struct pattern_group){ p->bytes[g.v[i].begin],
								  p->bytes[g.v[i].end] };
	return 1;
}
