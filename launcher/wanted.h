/* wanted: which file, program or address a system call asks for, and whether the host should hear of it. */
#ifndef PLUGHOST_WANTED_H
#define PLUGHOST_WANTED_H

#include <limits.h>
#include <linux/seccomp.h>

struct wanted {
    char kind; /* r, w, c (create), x or n (network) */
    char path[PATH_MAX - 1];
};

/* Once, first: what is granted (watch.h). */
void wanted_learn(const char *made, char **words);

/* While the caller waits in its call. 0; -1 when it cannot be read, or names nothing
 * that could be granted. */
int wanted_read(const struct seccomp_notif *asked, struct wanted *wanted);

/* Whether it is neither granted nor told of late, and there is room for it. */
int wanted_is_news(struct wanted *wanted);

#endif
