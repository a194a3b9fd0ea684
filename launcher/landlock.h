/* Landlock: which files a process and its descendants may use, and which TCP ports. */
#ifndef PLUGHOST_LANDLOCK_H
#define PLUGHOST_LANDLOCK_H

enum grant { GRANT_LIST, GRANT_READ, GRANT_WRITE, GRANT_EXECUTE };

/* Both answer 0, or -1 with errno. A path that is not there, or out of reach, grants nothing;
 * one with a symlink in it is an error (ELOOP). */
int landlock_grant(enum grant grant, const char *path);
int landlock_grant_connect(const char *port);

/* Everything that was not granted is refused from here on. The kernel's ABI, or -1 with errno. */
int landlock_enforce(void);

#endif
