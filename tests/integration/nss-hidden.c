/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A name service that answers for one account, as SSSD does for those of a directory server: by its
 * name and by its user id. It does not list the account. */
#include <errno.h>
#include <nss.h>
#include <pwd.h>
#include <string.h>

enum nss_status _nss_hidden_getpwuid_r(uid_t uid, struct passwd *pw, char *buf, size_t len,
				       int *error);
enum nss_status _nss_hidden_getpwnam_r(const char *name, struct passwd *pw, char *buf, size_t len,
				       int *error);

static enum nss_status fill(struct passwd *pw, char *buf, size_t len, int *error)
{
	if (len < sizeof(ACCOUNT_HOME)) {
		*error = ERANGE;
		return NSS_STATUS_TRYAGAIN;
	}
	memcpy(buf, ACCOUNT_HOME, sizeof(ACCOUNT_HOME));
	*pw = (struct passwd){ .pw_name = "remote",
			       .pw_passwd = "x",
			       .pw_uid = ACCOUNT_UID,
			       .pw_gid = ACCOUNT_UID,
			       .pw_gecos = "",
			       .pw_dir = buf,
			       .pw_shell = "/bin/sh" };
	return NSS_STATUS_SUCCESS;
}

enum nss_status _nss_hidden_getpwuid_r(uid_t uid, struct passwd *pw, char *buf, size_t len,
				       int *error)
{
	return uid == ACCOUNT_UID ? fill(pw, buf, len, error) : NSS_STATUS_NOTFOUND;
}

enum nss_status _nss_hidden_getpwnam_r(const char *name, struct passwd *pw, char *buf, size_t len,
				       int *error)
{
	return strcmp(name, "remote") == 0 ? fill(pw, buf, len, error) : NSS_STATUS_NOTFOUND;
}
