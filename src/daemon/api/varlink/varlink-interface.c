/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The description of the interface, by which sd-varlink checks what it is sent, and which it hands
 * out. conf/org.reclaimd.Reclaim.varlink is the same as text; a test compares them. */
#include "varlink-state.h"

#define NOTE SD_VARLINK_FIELD_COMMENT
#define FIELD SD_VARLINK_DEFINE_FIELD
#define FIELD_OF SD_VARLINK_DEFINE_FIELD_BY_TYPE
#define IN SD_VARLINK_DEFINE_INPUT
#define IN_OF SD_VARLINK_DEFINE_INPUT_BY_TYPE
#define OUT SD_VARLINK_DEFINE_OUTPUT
#define OUT_OF SD_VARLINK_DEFINE_OUTPUT_BY_TYPE
#define VALUE SD_VARLINK_DEFINE_ENUM_VALUE
#define BOOL SD_VARLINK_BOOL
#define INT SD_VARLINK_INT
#define FLOAT SD_VARLINK_FLOAT
#define STRING SD_VARLINK_STRING
#define OPTIONAL SD_VARLINK_NULLABLE
#define ARRAY SD_VARLINK_ARRAY
#define MAP SD_VARLINK_MAP

#define PATH_FIELDS                                                                                \
	NOTE("As people may see it: with escapes, if pathBase64 is there"),                        \
		FIELD(path, STRING, 0),                                                            \
		NOTE("Its bytes, where they are not UTF-8, or not safe to show"),                  \
		FIELD(pathBase64, STRING, OPTIONAL)

/* ---- types -------------------------------------------------------------------------------- */

static SD_VARLINK_DEFINE_ENUM_TYPE(State, VALUE(accepted), VALUE(held), VALUE(queued),
				   VALUE(running), VALUE(paused), VALUE(done), VALUE(partial),
				   VALUE(failed), VALUE(cancelled), VALUE(restored));

static SD_VARLINK_DEFINE_ENUM_TYPE(Priority, VALUE(low), VALUE(normal), VALUE(high));

static SD_VARLINK_DEFINE_STRUCT_TYPE(
	Job, NOTE("The number that people use, and the methods here"), FIELD(id, INT, 0),
	NOTE("The number that is never given again"), FIELD(uuid, STRING, 0),
	FIELD_OF(state, State, 0), FIELD(uid, INT, 0), NOTE("submit, spool:PATH or policy:NAME"),
	FIELD(origin, STRING, 0), FIELD_OF(priority, Priority, 0), PATH_FIELDS,
	NOTE("The job's directory in staging; or empty, and inplace says why"),
	FIELD(staging, STRING, 0), FIELD(inplace, STRING, 0),
	NOTE("The mount point that the names are on"), FIELD(mount, STRING, 0),
	NOTE("Names that were submitted"), FIELD(names, INT, 0),
	NOTE("Files and directories found so far; 0: not known"), FIELD(entries, INT, 0),
	FIELD(entriesDone, INT, 0), FIELD(bytes, INT, 0), FIELD(bytesFreed, INT, 0),
	FIELD(errors, INT, 0), NOTE("Left on purpose"), FIELD(skipped, INT, 0),
	FIELD(createdUSec, INT, 0), FIELD(heldUntilUSec, INT, 0), FIELD(byUSec, INT, 0),
	FIELD(startedUSec, INT, 0), FIELD(finishedUSec, INT, 0),
	NOTE("How it ended, or why it waits"), FIELD(message, STRING, 0),
	FIELD(strategy, STRING, 0));

static SD_VARLINK_DEFINE_STRUCT_TYPE(Problem, PATH_FIELDS, FIELD(what, STRING, 0),
				     NOTE("0 where what says it all"), FIELD(errno, INT, 0),
				     NOTE("Or it was left on purpose"), FIELD(isError, BOOL, 0));

static SD_VARLINK_DEFINE_ENUM_TYPE(EntryState, VALUE(waiting), VALUE(staged), VALUE(gone),
				   VALUE(kept), VALUE(restored));

static SD_VARLINK_DEFINE_STRUCT_TYPE(Entry, PATH_FIELDS, FIELD_OF(state, EntryState, 0));

static SD_VARLINK_DEFINE_ENUM_TYPE(SpoolState, VALUE(watching), VALUE(absent), VALUE(refused));

static SD_VARLINK_DEFINE_STRUCT_TYPE(Spool, PATH_FIELDS, FIELD_OF(state, SpoolState, 0),
				     FIELD(message, STRING, 0), FIELD(settleUSec, INT, 0),
				     FIELD(undoUSec, INT, 0), NOTE("Entries that are not settled"),
				     FIELD(waiting, INT, 0));

static SD_VARLINK_DEFINE_STRUCT_TYPE(
	Device, NOTE("Numbers of devices, \"8:0\", or of several, \"8:0+8:16\""),
	FIELD(name, STRING, 0), NOTE("How it is paced"), FIELD(mode, STRING, 0),
	NOTE("Whether there is anything to see of its latency"), FIELD(observed, BOOL, 0),
	FIELD(latencyTargetUSec, INT, 0), FIELD(syncLatencyUSec, INT, 0),
	FIELD(pieceCostUSec, INT, 0), FIELD(entriesPerSecond, FLOAT, 0),
	FIELD(bytesPerSecond, FLOAT, 0));

static SD_VARLINK_DEFINE_STRUCT_TYPE(
	Histogram, FIELD(sumUSec, INT, 0),
	NOTE("How many took up to each bound, but more than the one before; the last, longer"),
	FIELD(counts, INT, ARRAY));

static SD_VARLINK_DEFINE_STRUCT_TYPE(
	DeviceTotals, FIELD(name, STRING, 0), FIELD(entries, INT, 0), FIELD(bytes, INT, 0),
	NOTE("How often deleting went slower, by why: foreign-io, reads, quantum, discard"),
	FIELD(backoffs, INT, MAP), NOTE("Of everybody, while something was deleted"),
	FIELD_OF(reads, Histogram, 0), NOTE("Of a little, as a bystander's"),
	FIELD_OF(syncs, Histogram, 0), NOTE("Of ours"), FIELD_OF(pieces, Histogram, 0));

static SD_VARLINK_DEFINE_ENUM_TYPE(Happening, VALUE(ready), VALUE(new), VALUE(changed),
				   VALUE(finished), VALUE(daemon), VALUE(lost));

/* ---- methods ------------------------------------------------------------------------------ */

static SD_VARLINK_DEFINE_METHOD(Submit, NOTE("Absolute paths"), IN(paths, STRING, ARRAY | OPTIONAL),
				NOTE("The same in Base64, for those that are not UTF-8"),
				IN(pathsBase64, STRING, ARRAY | OPTIONAL),
				NOTE("How long the job is held, so that it can be taken back"),
				IN(undoUSec, INT, OPTIONAL),
				NOTE("When the job should have ended: lifts the rate"),
				IN(byUSec, INT, OPTIONAL), IN_OF(priority, Priority, OPTIONAL),
				NOTE("Check everything, accept nothing"),
				IN(dryRun, BOOL, OPTIONAL), NOTE("0 of a dry run"),
				OUT(id, INT, 0));

static SD_VARLINK_DEFINE_METHOD(GetJob, IN(id, INT, 0), OUT_OF(job, Job, 0));

static SD_VARLINK_DEFINE_METHOD(ListJobs, IN_OF(states, State, ARRAY | OPTIONAL),
				IN(uid, INT, OPTIONAL), NOTE("Those in the history, too"),
				IN(finished, BOOL, OPTIONAL), NOTE("From this number on"),
				IN(sinceId, INT, OPTIONAL), IN(limit, INT, OPTIONAL),
				NOTE("Only these"), IN(ids, INT, ARRAY | OPTIONAL),
				OUT_OF(jobs, Job, ARRAY));

static SD_VARLINK_DEFINE_METHOD(GetProblems, IN(id, INT, 0), IN(offset, INT, OPTIONAL),
				IN(limit, INT, OPTIONAL), OUT_OF(problems, Problem, ARRAY));

static SD_VARLINK_DEFINE_METHOD(GetEntries, IN(id, INT, 0), IN(offset, INT, OPTIONAL),
				IN(limit, INT, OPTIONAL), OUT_OF(entries, Entry, ARRAY));

static SD_VARLINK_DEFINE_METHOD(Cancel, IN(ids, INT, ARRAY));
static SD_VARLINK_DEFINE_METHOD(Pause, IN(ids, INT, ARRAY));
static SD_VARLINK_DEFINE_METHOD(Resume, IN(ids, INT, ARRAY));
static SD_VARLINK_DEFINE_METHOD(PauseAll);
static SD_VARLINK_DEFINE_METHOD(ResumeAll);
static SD_VARLINK_DEFINE_METHOD(Restore, IN(id, INT, 0));
static SD_VARLINK_DEFINE_METHOD(ListSpools, OUT_OF(spools, Spool, ARRAY));
static SD_VARLINK_DEFINE_METHOD(ListDevices, OUT_OF(devices, Device, ARRAY));

static SD_VARLINK_DEFINE_METHOD(
	GetStatus, OUT(version, STRING, 0), NOTE("What this build and this kernel have, and not"),
	OUT(features, STRING, ARRAY), OUT(paused, BOOL, 0),
	NOTE("What is wrong with the configuration on disk, which is then not in force; or empty"),
	OUT(configurationError, STRING, 0),
	NOTE("What is wrong with the job store: nothing new is accepted then; or empty"),
	OUT(storeError, STRING, 0), NOTE("Directories in staging that are of no job on record"),
	OUT(orphans, INT, 0), NOTE("Unfinished ones, by state"), OUT(jobs, INT, MAP),
	OUT(entriesFreed, INT, 0), OUT(bytesFreed, INT, 0));

static SD_VARLINK_DEFINE_METHOD(
	GetMetrics, NOTE("By how they ended"), OUT(jobsFinished, INT, MAP),
	NOTE("How often a job was interrupted, and is tried again"), OUT(interruptions, INT, 0),
	NOTE("Entries that could not be deleted, by the name of the error, or other"),
	OUT(errors, INT, MAP), OUT(latencyBoundsUSec, INT, ARRAY),
	OUT_OF(devices, DeviceTotals, ARRAY));

static SD_VARLINK_DEFINE_METHOD(Reload);

static SD_VARLINK_DEFINE_METHOD_FULL(Monitor, SD_VARLINK_REQUIRES_MORE,
				     OUT_OF(happening, Happening, 0), OUT_OF(job, Job, OPTIONAL),
				     NOTE("Of the daemon: what has changed, as D-Bus calls it"),
				     OUT(property, STRING, OPTIONAL));

/* ---- errors ------------------------------------------------------------------------------- */

#define ERROR(name) static SD_VARLINK_DEFINE_ERROR(name, FIELD(message, STRING, 0))

ERROR(Protected);
ERROR(NotAuthorized);
ERROR(CrossesMount);
ERROR(InvalidPath);
ERROR(IdentityChanged);
ERROR(LimitExceeded);
ERROR(Unsupported);
ERROR(NoSuchJob);
ERROR(NoSuchPath);
ERROR(WrongState);
ERROR(InvalidArgument);
ERROR(Busy);
ERROR(Failed);

/* ---- all of it ---------------------------------------------------------------------------- */

#define SAY SD_VARLINK_SYMBOL_COMMENT

SD_VARLINK_DEFINE_INTERFACE(
	reclaim, VARLINK_INTERFACE,
	SD_VARLINK_INTERFACE_COMMENT(
		"Deletions, handed to reclaimd and followed: the operations of the D-Bus "
		"interface\n"
		"org.reclaimd1, see org.reclaimd1(5). Descriptors are not taken: those that come\n"
		"with a message are closed, and names are absolute paths.\n"
		"Times are microseconds (of CLOCK_REALTIME where they say when; 0: not), sizes "
		"are\n"
		"bytes. A job answers those who may see it, its submitter and root; to all others\n"
		"it does not exist, and polkit is not asked. A message has 1 MiB at most. A field\n"
		"that is not here, or has a value of another type, is refused\n"
		"(org.varlink.service.InvalidParameter). null, and a number beyond what a double "
		"can\n"
		"be, is as if the field were not given."),
	SAY("From done on: finished"), &vl_type_State, &vl_type_Priority, &vl_type_Job,
	SAY("What was not deleted, and why"), &vl_type_Problem,
	SAY("What has become of a name that was submitted"), &vl_type_EntryState, &vl_type_Entry,
	&vl_type_SpoolState, SAY("A directory: what is moved there is deleted"), &vl_type_Spool,
	SAY("A set of devices, while something is deleted there"), &vl_type_Device,
	SAY("How long something took, how often"), &vl_type_Histogram,
	SAY("Of a set of devices, since the daemon was started"), &vl_type_DeviceTotals,
	SAY("ready: what happens from now on is told. new, changed, finished: a job. daemon: a\n"
	    "property of it. lost: something has happened that was not told, because what was\n"
	    "told before had not been read; look anew"),
	&vl_type_Happening,
	SAY("Hands names over. All are accepted as one job, or none is. Paths are resolved in the\n"
	    "daemon's mount namespace, with the caller's rights. The answer comes when the job is\n"
	    "on record and the names are out of the way"),
	&vl_method_Submit, &vl_method_GetJob,
	SAY("By number, unfinished ones unless asked for others; no more than 1000, or 1 MiB, at\n"
	    "once: go on with sinceId one past the last, until none comes"),
	&vl_method_ListJobs, SAY("No more than 1000, or 1 MiB, at once: go on behind what came"),
	&vl_method_GetProblems, SAY("No more than 1000, or 1 MiB, at once: go on behind what came"),
	&vl_method_GetEntries,
	SAY("All or none, as of Pause and Resume. What has not been deleted is put back"),
	&vl_method_Cancel, &vl_method_Pause, &vl_method_Resume,
	SAY("Nothing at all is deleted until ResumeAll, also after a restart; only by root"),
	&vl_method_PauseAll, &vl_method_ResumeAll, SAY("Puts a job back where it was"),
	&vl_method_Restore, &vl_method_ListSpools, &vl_method_ListDevices, &vl_method_GetStatus,
	SAY("What has happened since the daemon was started"), &vl_method_GetMetrics,
	SAY("Reads the configuration again; only by root"), &vl_method_Reload,
	SAY("Tells what happens, of jobs that the caller may see. Of one that runs, twice a\n"
	    "second at most. Ends with the connection"),
	&vl_method_Monitor, SAY("Belongs to what is never deleted"), &vl_error_Protected,
	SAY("The caller may not do that; also where a path may not be seen"),
	&vl_error_NotAuthorized, SAY("Is a mount point, or not on one mount with the rest"),
	&vl_error_CrossesMount,
	SAY("No path that may be given: . or .. at the end, a symbolic link on the way"),
	&vl_error_InvalidPath, SAY("Is not any more what it was"), &vl_error_IdentityChanged,
	SAY("Too many jobs, names or calls; the text says how many there may be, and what to do"),
	&vl_error_LimitExceeded,
	SAY("Cannot be done on this filesystem or mount, or by this build"), &vl_error_Unsupported,
	SAY("No such job, or not one that the caller may know of"), &vl_error_NoSuchJob,
	SAY("Does not exist"), &vl_error_NoSuchPath,
	SAY("The job is not in a state in which that can be done"), &vl_error_WrongState,
	SAY("Wrong type, kind or value of an argument or option"), &vl_error_InvalidArgument,
	SAY("Try again: the daemon is stopping"), &vl_error_Busy,
	SAY("Something else failed; the text says what"), &vl_error_Failed);
