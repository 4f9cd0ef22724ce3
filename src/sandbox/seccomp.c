/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* For roles that work by libraries, a list of what is refused, not of what is allowed: libraries
 * and kernels bring new calls, and a worker that is refused one of those would fail where rm does
 * not. The kernel remembers which calls are allowed whatever their arguments, so that those cost
 * nothing (since 5.11).
 *
 * The list is flat and the programs are few: one page of instructions, and no library to depend on.
 */
#include "seccomp.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/fsmap.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/macros.h"

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#define FOREIGN 0x40000000U /* and up: x32 */
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#define FOREIGN UINT32_MAX
#else
#define ARCH 0
#define FOREIGN UINT32_MAX
#endif

#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
#ifndef SYS_io_uring_setup
#define SYS_io_uring_setup 425
#endif

static const uint32_t refused[] = {
	/* programs and processes */
	SYS_execve, SYS_execveat, SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev,
	SYS_pidfd_getfd, SYS_kcmp,
#ifdef SYS_fork
	SYS_fork, SYS_vfork,
#endif
	/* mounts and namespaces */
	SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_open_tree, SYS_move_mount,
	SYS_fsopen, SYS_fsconfig, SYS_fsmount, SYS_fspick, SYS_mount_setattr, SYS_setns,
	SYS_unshare, SYS_swapon, SYS_swapoff, SYS_quotactl,
	/* names and owners that were not there before */
	SYS_linkat, SYS_symlinkat, SYS_mknodat, SYS_fchownat, SYS_fchown,
#ifdef SYS_link
	SYS_link, SYS_symlink, SYS_mknod, SYS_chown, SYS_lchown,
#endif
	/* the machine and its kernel */
	SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_kexec_load, SYS_reboot, SYS_bpf,
	SYS_perf_event_open, SYS_userfaultfd, SYS_keyctl, SYS_add_key, SYS_request_key,
	SYS_settimeofday, SYS_clock_settime, SYS_sethostname, SYS_setdomainname, SYS_acct,
	SYS_personality, SYS_open_by_handle_at
};

/* What only deleting needs. */
static const uint32_t refused_to_intake[] = {
#ifdef SYS_unlink
	SYS_unlink,
#endif
	SYS_io_uring_setup, SYS_truncate, SYS_fallocate
};

/* All that helpers of one purpose ever do, memory included; sigaltstack(2) and write(2) are also
 * the sanitizers'. */
static const uint32_t allowed[] = { SYS_recvmsg,
				    SYS_sendmsg,
				    SYS_close,
				    SYS_write,
				    SYS_futex,
				    SYS_brk,
				    SYS_mmap,
				    SYS_mremap,
				    SYS_munmap,
				    SYS_madvise,
				    SYS_restart_syscall,
				    SYS_rt_sigreturn,
				    SYS_sigaltstack,
				    SYS_exit,
				    SYS_exit_group };

/* The process which looks for other references to a file also opens "." in a directory that it was
 * given, and reads /proc/self/fd. */
static const uint32_t allowed_to_last_reference[] = { SYS_openat,
						      SYS_fcntl,
						      SYS_statx,
						      SYS_readlinkat,
						      SYS_name_to_handle_at,
						      SYS_open_by_handle_at,
						      SYS_landlock_create_ruleset,
						      SYS_landlock_add_rule,
						      SYS_inotify_init1,
						      SYS_inotify_add_watch,
						      SYS_inotify_rm_watch,
						      SYS_read };

/* The program which speaks to a MooseFS master has two sockets, and maybe a clock that the kernel
 * does not map into the process. */
static const uint32_t allowed_to_moosefs[] = { SYS_recvfrom, SYS_sendto, SYS_clock_gettime };

/* What trims free space has a socket, and reads from a device. */
static const uint32_t allowed_to_trim[] = { SYS_recvfrom, SYS_sendto, SYS_pread64,
					    SYS_clock_gettime };

#define LOAD(field)                                                                                \
	(struct sock_filter)                                                                       \
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, field))
/* The lower half, where an int or the flags are: both architectures have it first. */
#define LOAD_ARGUMENT(n) LOAD(args[n])
#define ANSWER(what) (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, what)
#define IF(how, k, yes, no) (struct sock_filter) BPF_JUMP(BPF_JMP | (how) | BPF_K, k, yes, no)
#define REFUSE ANSWER(SECCOMP_RET_ERRNO | EPERM)
#define ALLOW ANSWER(SECCOMP_RET_ALLOW)

struct program {
	struct sock_filter v[4 * (ELEMENTSOF(refused) + ELEMENTSOF(refused_to_intake))];
	unsigned short n;
};

static void put(struct program *p, const struct sock_filter *f, size_t n)
{
	assert(p->n + n <= ELEMENTSOF(p->v));
	for (size_t i = 0; i < n; i++)
		p->v[p->n++] = f[i];
}

#define PUT(p, ...)                                                                                \
	put(p, (const struct sock_filter[]){ __VA_ARGS__ },                                        \
	    sizeof((const struct sock_filter[]){ __VA_ARGS__ }) / sizeof(struct sock_filter))

/* The same answer to all of these calls. */
static void put_calls(struct program *p, const uint32_t *calls, size_t n, struct sock_filter answer)
{
	for (size_t i = 0; i < n; i++)
		PUT(p, IF(BPF_JEQ, calls[i], 0, 1), answer);
}

/* Another architecture's numbers mean other calls. */
static void put_architecture(struct program *p)
{
	PUT(p, LOAD(arch), IF(BPF_JEQ, ARCH, 1, 0), REFUSE, LOAD(nr), IF(BPF_JGE, FOREIGN, 0, 1),
	    REFUSE);
}

static void fill(struct program *p, bool deletes, bool network)
{
	put_architecture(p);
	put_calls(p, refused, ELEMENTSOF(refused), REFUSE);
	if (!deletes)
		put_calls(p, refused_to_intake, ELEMENTSOF(refused_to_intake), REFUSE);
	/* Threads, but no processes; the C library makes do without clone3, whose flags cannot be
	 * looked at, if the kernel seems not to have it. */
	PUT(p, IF(BPF_JEQ, SYS_clone3, 0, 1), ANSWER(SECCOMP_RET_ERRNO | ENOSYS));
	PUT(p, IF(BPF_JEQ, SYS_clone, 0, 4), LOAD_ARGUMENT(0), IF(BPF_JSET, CLONE_THREAD, 0, 1),
	    ALLOW, REFUSE);
	/* Accounts may be asked for over a socket. */
	if (!network)
		PUT(p, IF(BPF_JEQ, SYS_socket, 0, 4), LOAD_ARGUMENT(0), IF(BPF_JEQ, AF_UNIX, 0, 1),
		    ALLOW, REFUSE);
	if (!deletes)
		PUT(p, IF(BPF_JEQ, SYS_unlinkat, 0, 4), LOAD_ARGUMENT(2),
		    IF(BPF_JSET, AT_REMOVEDIR, 0, 1), ALLOW, REFUSE);
	PUT(p, ALLOW);
}

static int enforce(struct program *p)
{
	struct sock_fprog f = { .len = p->n, .filter = p->v };

	if (ARCH == 0)
		return 0;
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &f) == 0)
		return 1;
	/* Built without. */
	return errno == ENOSYS || errno == EINVAL ? 0 : -errno;
}

int seccomp_restrict(bool deletes)
{
	struct program p = { .n = 0 };

	fill(&p, deletes, /* network= */ false);
	return enforce(&p);
}

int seccomp_restrict_network(void)
{
	struct program p = { .n = 0 };

	fill(&p, /* deletes= */ false, /* network= */ true);
	return enforce(&p);
}

static void fill_allowed(struct program *p, const uint32_t *further, size_t n)
{
	put_architecture(p);
	put_calls(p, allowed, ELEMENTSOF(allowed), ALLOW);
	put_calls(p, further, n, ALLOW);
}

static int restrict_to(const uint32_t *further, size_t n)
{
	struct program p = { .n = 0 };

	fill_allowed(&p, further, n);
	PUT(&p, REFUSE);
	return enforce(&p);
}

int seccomp_restrict_trim(void)
{
	struct program p = { .n = 0 };

	fill_allowed(&p, allowed_to_trim, ELEMENTSOF(allowed_to_trim));
	PUT(&p, IF(BPF_JEQ, SYS_ioctl, 0, 4), LOAD_ARGUMENT(1), IF(BPF_JEQ, FITRIM, 1, 0),
	    IF(BPF_JEQ, (uint32_t)FS_IOC_GETFSMAP, 0, 1), ALLOW, REFUSE);
	return enforce(&p);
}

int seccomp_restrict_last_reference(void)
{
	return restrict_to(allowed_to_last_reference, ELEMENTSOF(allowed_to_last_reference));
}

int seccomp_restrict_moosefs(void)
{
	return restrict_to(allowed_to_moosefs, ELEMENTSOF(allowed_to_moosefs));
}
