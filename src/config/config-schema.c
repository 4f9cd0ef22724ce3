/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config-schema.h"

#include <string.h>

#include "pacing-windows.h"

#define DAY (86400 * USEC_PER_SEC)
#define AGE_MOST (36500 * DAY)
#define NAME_MOST 64

#define VALUE(name_, type_, in, member, ...)                                                       \
	{                                                                                          \
		.name = (name_), .type = (type_), .offset = offsetof(struct in, member),           \
		__VA_ARGS__                                                                        \
	}
#define UNDO(in, preset_)                                                                          \
	VALUE("undo", VALUE_TIME, in, undo_usec, .limits = { 0, 365 * DAY }, .preset = (preset_),  \
	      .expected = "a time from 0 to 365d such as 1h")

#define HOOKS(in)                                                                                  \
	VALUE("on-success", VALUE_UNIT, in, hooks.on_success,                                      \
	      .place = offsetof(struct in, hooks.success_place), .expected = UNIT_EXPECTED),       \
		VALUE("on-failure", VALUE_UNIT, in, hooks.on_failure,                              \
		      .place = offsetof(struct in, hooks.failure_place),                           \
		      .expected = UNIT_EXPECTED)
#define UNIT_EXPECTED "the name of a service or a target of systemd, such as told@.service"

/* The three that pacing has for all devices and for each. Times and rates outside of these limits
 * are slips of the hand. */
#define PACING(in, auto_, least, unlimited)                                                        \
	VALUE("latency", VALUE_LATENCY, in, pacing, .limits = { 50, 60 * USEC_PER_SEC },           \
	      .preset = (auto_),                                                                   \
	      .expected = "auto, off, or a time from 50us to 1min such as 5ms"),                   \
		VALUE("min-rate", VALUE_RATE, in, pacing.rate_min,                                 \
		      .limits = { KiB(1), 1ULL << 40 }, .preset = (least),                         \
		      .expected = "a rate from 1KiB/s to 1TiB/s such as 8MiB/s"),                  \
		VALUE("max-rate", VALUE_RATE, in, pacing.rate_max,                                 \
		      .limits = { KiB(1), UINT64_MAX }, .preset = (unlimited),                     \
		      .expected = "unlimited, or a rate of at least 1KiB/s such as 100MiB/s")

/* An array of struct config, the struct of its elements, and what they have in common with the
 * configuration. */
#define NAMED(name_, in, common_, ...)                                                             \
	{                                                                                          \
		.name = #name_, .kind = KEY_NAMED, .offset = offsetof(struct config, name_),       \
		.place = offsetof(struct in, place), .count = offsetof(struct config, n_##name_),  \
		.size = sizeof(struct in), .own = offsetof(struct in, common_),                    \
		.common = offsetof(struct config, common_),                                        \
		.common_size = sizeof(((struct in *)NULL)->common_), __VA_ARGS__                   \
	}

static const struct config_key spool_keys[] = {
	VALUE("settle", VALUE_TIME, config_spool, settle_usec, .limits = { 0, 365 * DAY },
	      .preset = "10s", .expected = "a time from 0 to 365d such as 10s"),
	UNDO(config_spool, NULL),
	HOOKS(config_spool),
	{ 0 },
};

static const struct config_key device_keys[] = {
	PACING(config_device, NULL, NULL, NULL),
	{ 0 },
};

static const char *window_tidy(char *span)
{
	return window_span_check(span);
}

static const struct config_key window_keys[] = {
	VALUE("rate", VALUE_RATE, config_window, rate,
	      .limits = { KiB(1), 1ULL << 40, .words = { "paused" } },
	      .expected = "paused, or a rate from 1KiB/s to 1TiB/s such as 20MiB/s"),
	{ 0 },
};

static const struct config_key pacing_keys[] = {
	PACING(config, "auto", "8MiB/s", "unlimited"),
	NAMED(devices, config_device, pacing, .tidy = device_tidy, .keys = device_keys,
	      .expected = "a map of devices, such as /backups: {latency: 20ms}"),
	{ .name = "windows",
	  .kind = KEY_NAMED,
	  .offset = offsetof(struct config, windows),
	  .place = offsetof(struct config_window, place),
	  .count = offsetof(struct config, n_windows),
	  .size = sizeof(struct config_window),
	  .tidy = window_tidy,
	  .keys = window_keys,
	  .expected = "a map of spans of time, such as \"Mon..Fri 08:00..18:00\": {rate: "
		      "20MiB/s}" },
	{ 0 },
};

static const struct config_key urgent_keys[] = {
	VALUE("below", VALUE_SPACE, config, urgent_below, .preset = "5%",
	      .expected = "a share from 0% to 100%, or a size such as 20G"),
	VALUE("until", VALUE_SPACE, config, urgent_until, .preset = "10%",
	      .expected = "a share from 0% to 100%, or a size such as 40G"),
	{ 0 },
};

static const struct config_key limits_keys[] = {
	VALUE("jobs-per-user", VALUE_COUNT, config, jobs_per_user, .limits = { 1, 10000000 },
	      .preset = "100000", .expected = "a number from 1 to 10000000"),
	VALUE("names-per-user", VALUE_COUNT, config, names_per_user, .limits = { 1000, 1000000000 },
	      .preset = "10000000", .expected = "a number from 1000 to 1000000000"),
	VALUE("history-jobs", VALUE_COUNT, config, history_jobs, .limits = { 1000, 1000000000 },
	      .preset = "200000", .expected = "a number from 1000 to 1000000000"),
	VALUE("history-size", VALUE_SIZE, config, history_bytes, .limits = { 1 << 20, UINT64_MAX },
	      .preset = "256M", .expected = "a size from 1M such as 256M"),
	{ 0 },
};

static const struct config_key strategy_keys[] = {
	VALUE("moosefs", VALUE_SWITCH, config, moosefs_snapshot,
	      .limits = { .words = { "unlink", "snapshot" } }, .preset = "unlink",
	      .expected = "unlink or snapshot"),
	VALUE("moosefs-stall", VALUE_TIME, config, moosefs_stall_usec,
	      .limits = { USEC_PER_MSEC, 10 * USEC_PER_SEC }, .preset = "20ms",
	      .expected = "a time from 1ms to 10s such as 20ms"),
	{ 0 },
};

/* The keys of `trim:` that apply to all filesystems or to one. */
#define TRIM(in, schedule_, min_, zero)                                                            \
	VALUE("schedule", VALUE_LINE, in, schedule_, .limits = { .words = { "off" } },             \
	      .place = offsetof(struct in, schedule_##_place),                                     \
	      .expected = "off, or when, as OnCalendar= of systemd.timer(5) has it, such as "      \
			  "weekly"),                                                               \
		VALUE("min", VALUE_SIZE, in, min_, .limits = { .words = { "0" } },                 \
		      .preset = (zero), .expected = "0, or a size with a unit such as 1M")

static const struct config_key trim_mount_keys[] = {
	TRIM(config_trim, schedule, limits.min_bytes, NULL),
	{ 0 },
};

static const struct config_key trim_keys[] = {
	TRIM(config, trim_schedule, trim_limits.min_bytes, "0"),
	{ .name = "filesystems",
	  .kind = KEY_MOUNTS,
	  .offset = offsetof(struct config, trims),
	  .place = offsetof(struct config_trim, place),
	  .count = offsetof(struct config, n_trims),
	  .size = sizeof(struct config_trim),
	  .own = offsetof(struct config_trim, limits),
	  .common = offsetof(struct config, trim_limits),
	  .common_size = sizeof(struct config_trim_limits),
	  .tidy = path_tidy,
	  .keys = trim_mount_keys,
	  .expected = "all, a list of mount points, such as [/, /srv], or a map of them, such as "
		      "/srv: {schedule: daily}" },
	{ 0 },
};

#define FLEET_NAME "a name of 1 to 63 letters a to z, digits, - and ., such as "

static const struct config_key shared_keys[] = {
	VALUE("name", VALUE_NAME, config_shared, name, .expected = FLEET_NAME "scratch"),
	VALUE("max-rate", VALUE_RATE, config_shared, rate_max, .limits = { MiB(1), UINT64_MAX },
	      .preset = "unlimited",
	      .expected = "unlimited, or a rate of at least 1MiB/s such as 200MiB/s"),
	{ 0 },
};

static const struct config_key fleet_keys[] = {
	VALUE("database", VALUE_LINE, config, fleet_database,
	      .place = offsetof(struct config, fleet_database_place),
	      .expected = "a connection string of libpq, such as \"service=reclaimd\""),
	VALUE("name", VALUE_NAME, config, fleet_name,
	      .place = offsetof(struct config, fleet_name_place), .expected = FLEET_NAME "rack7"),
	VALUE("uid-space", VALUE_NAME, config, fleet_uid_space, .expected = FLEET_NAME "ldap"),
	{ .name = "filesystems",
	  .kind = KEY_PAIRS,
	  .offset = offsetof(struct config, fleet_filesystems),
	  .place = offsetof(struct config_shared, place),
	  .count = offsetof(struct config, n_fleet_filesystems),
	  .size = sizeof(struct config_shared),
	  .tidy = path_tidy,
	  .keys = shared_keys,
	  .expected = "a map of mount points, such as {/mnt/scratch: scratch}" },
	{ 0 },
};

#define PERIODS(name_, rule)                                                                       \
	VALUE(name_, VALUE_COUNT, config_policy, rules.keep.periods[rule],                         \
	      .limits = { 0, 1000000 }, .expected = "a number from 0 to 1000000")

static const struct config_key keep_keys[] = {
	PERIODS("last", KEEP_LAST),
	PERIODS("hourly", KEEP_HOURLY),
	PERIODS("daily", KEEP_DAILY),
	PERIODS("weekly", KEEP_WEEKLY),
	PERIODS("monthly", KEEP_MONTHLY),
	PERIODS("yearly", KEEP_YEARLY),
	VALUE("within", VALUE_AGE, config_policy, rules.keep.within_usec, .limits = { 0, AGE_MOST },
	      .expected = "a time with a unit, up to 36500d, such as 14d"),
	{ 0 },
};

static const struct config_key min_free_keys[] = {
	VALUE("below", VALUE_FLOOR, config_policy, rules.min_free_below,
	      .expected = "a share up to 100%, or a size with a unit such as 20G"),
	VALUE("until", VALUE_FLOOR, config_policy, rules.min_free_until,
	      .expected = "a share up to 100%, or a size with a unit such as 40G"),
	{ 0 },
};

static const struct config_key min_inodes_keys[] = {
	VALUE("below", VALUE_INODES, config_policy, rules.min_inodes_below,
	      .expected = "a share up to 100%, or a number such as 100000"),
	VALUE("until", VALUE_INODES, config_policy, rules.min_inodes_until,
	      .expected = "a share up to 100%, or a number such as 200000"),
	{ 0 },
};

static const struct config_key size_keys[] = {
	VALUE("min", VALUE_SIZE, config_policy, rules.size_least_bytes, .limits = { 1, UINT64_MAX },
	      .expected = "a size with a unit, such as 1M"),
	VALUE("below", VALUE_SIZE, config_policy, rules.size_below_bytes,
	      .limits = { 1, UINT64_MAX }, .expected = "a size with a unit, such as 10G"),
	{ 0 },
};

#define GLOB_KEYS(field)                                                                           \
	{ .name = "glob",                                                                          \
	  .kind = KEY_GLOBS,                                                                       \
	  .offset = offsetof(struct config_policy, rules.field) },                                 \
		VALUE("ignore-case", VALUE_SWITCH, config_policy, rules.field##_ignores_case,      \
		      .limits = { .words = { "false", "true" } }, .expected = "true or false")

static const struct config_key match_keys[] = { GLOB_KEYS(match), { 0 } };
static const struct config_key exclude_keys[] = { GLOB_KEYS(exclude), { 0 } };

static const struct config_key policy_keys[] = {
	VALUE("path", VALUE_BASE, config_policy, rules.path,
	      .place = offsetof(struct config_policy, path_place),
	      .expected = "an absolute path without . and .., and not the root directory"),
	{ .name = "paths",
	  .kind = KEY_PATHS,
	  .offset = offsetof(struct config_policy, rules.paths),
	  .place = offsetof(struct config_policy, path_place),
	  .expected = "a list of absolute paths, such as [/srv/a/logs, /srv/b/logs]" },
	{ .name = "match",
	  .kind = KEY_GLOBS,
	  .keys = match_keys,
	  .offset = offsetof(struct config_policy, rules.match) },
	{ .name = "exclude",
	  .kind = KEY_GLOBS,
	  .keys = exclude_keys,
	  .offset = offsetof(struct config_policy, rules.exclude) },
	{ .name = "size",
	  .kind = KEY_SECTION,
	  .keys = size_keys,
	  .expected = "a map with min or below, such as {min: 1M, below: 10G}" },
	{ .name = "owner",
	  .kind = KEY_OWNERS,
	  .offset = offsetof(struct config_policy, rules.owners),
	  .place = offsetof(struct config_policy, owner_place),
	  .expected = "a user, or a list of at least one, such as [backup, 1000]" },
	VALUE("kind", VALUE_CHOICE, config_policy, rules.kind,
	      .limits = { .words = { "file", "tree", "empty-directory" } }, .preset = "file",
	      .expected = "file, tree or empty-directory"),
	VALUE("group-by", VALUE_REGEX, config_policy, rules.group_by,
	      .expected = "an extended regular expression, regex(7), with one to nine groups in "
			  "parentheses, such as ^([a-z]+)-"),
	VALUE("unit-by", VALUE_REGEX, config_policy, rules.unit_by,
	      .expected = "an extended regular expression, regex(7), with one to nine groups in "
			  "parentheses, such as ^(.+)\\.(dump|sha256|log)$"),
	{ .name = "chain-start",
	  .kind = KEY_GLOBS,
	  .offset = offsetof(struct config_policy, rules.chain_start) },
	VALUE("timezone", VALUE_ZONE, config_policy, rules.timezone,
	      .expected =
		      "a time zone that this system has, such as Europe/Berlin: see timedatectl "
		      "list-timezones"),
	VALUE("time", VALUE_CLOCK, config_policy, rules.time, .preset = "mtime",
	      .expected =
		      "mtime, birth, or name: and a format with a year, alone or with a month, a "
		      "day and a time of day, or with %G-W%V or %s, such as name:%Y-%m-%d (ctime "
		      "and atime: see age-by)"),
	{ .name = "age-by",
	  .kind = KEY_AGES,
	  .offset = offsetof(struct config_policy, rules.time.ages),
	  .expected = "mtime, ctime, atime or birth, or a list of them, such as [mtime, ctime]" },
	VALUE("order", VALUE_CHOICE, config_policy, rules.order,
	      .limits = { .words = { "oldest", "largest" } }, .preset = "oldest",
	      .expected = "oldest or largest"),
	{ .name = "keep",
	  .kind = KEY_SECTION,
	  .keys = keep_keys,
	  .expected = "a map with last, hourly, daily, weekly, monthly, yearly or within" },
	VALUE("max-age", VALUE_AGE, config_policy, rules.max_age_usec, .limits = { 1, AGE_MOST },
	      .expected = "a time with a unit, up to 36500d, such as 90d"),
	VALUE("max-size", VALUE_SIZE, config_policy, rules.max_size_bytes,
	      .limits = { 1, UINT64_MAX }, .expected = "a size with a unit, such as 500G"),
	VALUE("max-size-per-series", VALUE_SIZE, config_policy, rules.max_series_size_bytes,
	      .limits = { 1, UINT64_MAX }, .expected = "a size with a unit, such as 50G"),
	VALUE("max-files", VALUE_COUNT, config_policy, rules.max_files, .limits = { 1, UINT64_MAX },
	      .expected = "a number from 1"),
	VALUE("min-free", VALUE_FLOOR, config_policy, rules.min_free_below, .kind = KEY_BAND,
	      .keys = min_free_keys,
	      .expected = "a share such as 10%, a size with a unit such as 20G, or a map with "
			  "below and until"),
	VALUE("min-free-inodes", VALUE_INODES, config_policy, rules.min_inodes_below,
	      .kind = KEY_BAND, .keys = min_inodes_keys,
	      .expected = "a share such as 5%, a number such as 100000, or a map with below and "
			  "until"),
	VALUE("min-age", VALUE_AGE, config_policy, rules.min_age_usec, .limits = { 0, AGE_MOST },
	      .expected = "a time with a unit, up to 36500d, such as 1h"),
	VALUE("min-count", VALUE_COUNT, config_policy, rules.min_count, .expected = "a number"),
	VALUE("max-delete", VALUE_SHARE, config_policy, rules.max_delete, .preset = "20%",
	      .expected = "a share from 0% to 100%"),
	VALUE("skip-open", VALUE_SWITCH, config_policy, rules.skip_open,
	      .limits = { .words = { "false", "true" } }, .preset = "true",
	      .expected = "true or false"),
	UNDO(config_policy, NULL),
	VALUE("schedule", VALUE_LINE, config_policy, schedule,
	      .place = offsetof(struct config_policy, schedule_place),
	      .expected = "when, as OnCalendar= of systemd.timer(5) has it, such as daily"),
	HOOKS(config_policy),
	{ 0 },
};

_Static_assert(sizeof(enum policy_kind) == sizeof(unsigned) &&
		       sizeof(enum policy_order) == sizeof(unsigned),
	       "VALUE_CHOICE writes an unsigned int");

/* A policy's name becomes part of the names of units. */
static const char *name_tidy(char *name)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
	size_t len = strspn(name, letters);

	if (len > 0 && len <= NAME_MOST && name[len] == '\0' && name[0] != '-')
		return NULL;
	return "a name of at most 64 letters, digits, - and _";
}

#define POLICIES                                                                                   \
	NAMED(policies, config_policy, undo_usec, .tidy = name_tidy, .keys = policy_keys,          \
	      .expected = "a map of policies, such as backups: {path: /backups, ...}")

/* Read in this order, whatever the order of the file: what others begin with comes first. */
const struct config_key root_keys[] = {
	UNDO(config, "0"),
	NAMED(spools, config_spool, undo_usec, .tidy = path_tidy, .keys = spool_keys,
	      .expected = "a map of directories, such as /backups/.trash: {settle: 10s}"),
	{ .name = "pacing",
	  .kind = KEY_SECTION,
	  .keys = pacing_keys,
	  .expected = "a map with latency, min-rate, max-rate, devices or windows" },
	{ .name = "urgent",
	  .kind = KEY_SECTION,
	  .keys = urgent_keys,
	  .expected = "a map with below and until" },
	{ .name = "strategy",
	  .kind = KEY_SECTION,
	  .keys = strategy_keys,
	  .expected = "a map with moosefs and moosefs-stall" },
	{ .name = "trim",
	  .kind = KEY_SECTION,
	  .keys = trim_keys,
	  .expected = "a map with schedule, filesystems, min or after" },
	{ .name = "fleet",
	  .kind = KEY_SECTION,
	  .keys = fleet_keys,
	  .expected = "a map with database, name and filesystems" },
	VALUE("staging", VALUE_SWITCH, config, staging, .limits = { .words = { "off", "auto" } },
	      .preset = "auto", .expected = "auto or off"),
	VALUE("history", VALUE_TIME, config, history_usec, .limits = { 0, 36500 * DAY },
	      .preset = "30d", .expected = "a time from 0 to 36500d such as 30d"),
	{ .name = "limits",
	  .kind = KEY_SECTION,
	  .keys = limits_keys,
	  .expected = "a map with jobs-per-user, names-per-user, history-jobs or history-size" },
	{ .name = "protect",
	  .kind = KEY_PATHS,
	  .offset = offsetof(struct config, protect),
	  .expected = "a list of absolute paths, such as [/srv/keep]" },
	POLICIES,
	{ 0 },
};

const struct config_key user_keys[] = {
	UNDO(config, NULL),
	POLICIES,
	{ 0 },
};
