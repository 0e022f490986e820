/* Tells who asks for the group sysrepo that it is the group of this process: see __init__.py. */
#include <dlfcn.h>
#include <grp.h>
#include <string.h>
#include <unistd.h>

int getgrnam_r(const char *name, struct group *entry, char *buffer, size_t octets, struct group **found)
{
	__typeof__(getgrnam_r) *of_libc;

	if (strcmp(name, "sysrepo") == 0)
		return getgrgid_r(getegid(), entry, buffer, octets, found);
	of_libc = (__typeof__(of_libc))dlsym(RTLD_NEXT, "getgrnam_r");
	return of_libc(name, entry, buffer, octets, found);
}
