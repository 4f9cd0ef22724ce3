/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The characters that patterns are about, and sets of them. File names are UTF-8; a byte that is
 * not part of valid UTF-8 is a character of its own. Nothing here depends on the locale of the
 * environment: the classes of characters and their case are those of the locale C.UTF-8.
 *
 * Why not fnmatch(3) and regexec(3) in that locale: fnmatch(3) of glibc 2.36 compares bytes if the
 * characters do not match, so ?? matches é; earlier versions match nothing if one byte of a name is
 * not UTF-8, so an exclude would not protect it. regexec(3) promises no bound for time (pattern.c),
 * and glibc's regcomp(3) refuses [а-я]. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The character of a byte that is not part of valid UTF-8 is this plus the byte. Above all code
 * points. */
#define CHARACTER_OF_BYTE 0x110000U

/* Returns the character at *at and moves *at behind it. The text must not be at its end. */
uint32_t character_next(const char **at);

/* Returns true if all of the text is valid UTF-8. */
bool characters_are_valid(const char *text);

/* Returns true for letters, digits and _. */
bool character_is_word(uint32_t c);

struct character_set;

enum set_syntax { SET_OF_GLOB, SET_OF_REGEX };

/* Reads a bracket expression whose [ is at *at, and moves *at behind its ]. In SET_OF_GLOB a
 * backslash quotes the next character and ! negates as ^ does. Returns 0, -ENOMEM, -EINVAL if there
 * is no such expression, or -EOPNOTSUPP if it needs the locale C.UTF-8, which this system lacks. */
int character_set_read(struct character_set **ret, const char **at, enum set_syntax syntax);
struct character_set *character_set_free(struct character_set *s);

/* Returns true if the character is in the set; without `exact` also if it is in another case. A
 * negated set has all bytes that are not UTF-8. */
bool character_set_has(const struct character_set *s, uint32_t c, bool exact);

/* Returns true if the characters are the same but for their case. */
bool characters_fold(uint32_t a, uint32_t b);

/* Returns true if this system has the locale C.UTF-8. Without it, no class and no character beyond
 * ASCII has a case. */
bool characters_have_case(void);
