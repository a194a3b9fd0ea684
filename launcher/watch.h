/* watch: tells the host which files, programs and addresses a plugin asked for and was not given.
 *
 * It only tells. Mounts and Landlock refuse, whatever is read here and whoever changes it meanwhile; every call is
 * let through to them at once (SECCOMP_USER_NOTIF_FLAG_CONTINUE).
 *
 *   sandbox ── W (this process) ── P (becomes the plugin) ── its descendants
 *
 * W is the plugin's parent and its subreaper, because Yama lets nobody but an ancestor read a process's memory. It
 * ends as P ends, and P ends with it, so it neither outlives the plugin nor can be got rid of. It is not in the
 * plugin's Landlock domain: a plugin can neither trace it nor, from ABI 6 on, signal it. Whoever kills it on an older
 * kernel ends the plugin. It holds no pipe of the plugin's, no right, no limit, and may make only the system calls
 * that it is written with: none that opens, starts or connects to anything.
 *
 * The host reads records, each KIND PATH NUL: KIND is r (read), w (write), c (create) or x (execute), PATH is absolute
 * and without dots, its symlinks as they are. Left out is what a read or write word covers; what is covered by one of MADE,
 * folders with colons between them that are not the machine's own, is left out only if it is there. A path is told
 * once a minute, and so many of them as `wanted.c` says: what is beyond that, or finds the pipe full, is not told.
 * KIND n is a connect to an internet address: PATH is the address, a space and the port. Left out are ports of loopback
 * where something in the sandbox itself waits.
 *
 * Not told is what a plugin asks for without opening or executing it, but for one thing: a program that is missing in a
 * folder called bin or sbin and that is looked for with stat(2), as Bun does before it executes one, is KIND x. (glibc
 * has not used that system call since 2.33, so nobody else pays for it; arm64 has none.) Nor is told what it
 * sends without connecting (sendto), and what is asked by a process whose memory its own user may not read (PR_SET_DUMPABLE).
 *
 * A plugin's open, exec and connect take some microseconds longer, and before they are let through a signal whose handler
 * does not restart calls interrupts them (EINTR). A listener of the plugin's own is refused (EBUSY). */
#ifndef PLUGHOST_WATCH_H
#define PLUGHOST_WATCH_H

enum watch { WATCH_REFUSED, WATCH_PLUGIN, WATCH_WATCHER };

/* Forks. REPORT is a pipe to the host. Returns which of both the caller is, or WATCH_REFUSED with errno; the watcher
 * has nothing open but what it needs, and gives up privileges before it goes on. */
enum watch watch_split(int report);

/* The watcher, to its end. WORDS are plughost-inner's, up to `--`. */
void watch(const char *made, char **words) __attribute__((noreturn));

/* The plugin, with no new privileges: from now on its calls go by the watcher. -1 with errno when the kernel refuses;
 * then the watcher only waits for its end. */
int watch_begin(void);

#endif
