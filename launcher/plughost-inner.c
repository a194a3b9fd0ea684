/* plughost-inner: the last step inside a sandbox. Gives up what is left, then becomes the plugin.
 *
 * Usage: plughost-inner WORD... -- PATH ARGV0 [ARG...]
 * Words are applied in their order, so limits come before what could refuse them:
 *   watch MADE                 from here on a process of ours tells the host what is refused (watch.h). First of all:
 *                              it is held to none of the other words
 *   cwd PATH                   the folder to start in
 *   same PATH DEV:INO          go on only if this is there, and no symlink is on the way to it
 *   limit NAME VALUE           nofile | nproc | fsize | data | cpu | core, soft and hard
 *   read|write|execute PATH    granted when landlock comes; write and execute include read, and not each other.
 *                              A real path: a symlink in it is a failure
 *   list PATH                  granted when landlock comes: the names in a folder and in the folders below it
 *   connect PORT               granted when landlock comes: a TCP port that may be connected to
 *   landlock                   refuse every other file and TCP port; signals and abstract sockets go no
 *                              further than the sandbox where the kernel can hold them
 *   seccomp                    filter system calls (seccomp/policy.toml)
 *   offline                    the same filter, but no sockets at all: for a sandbox without a network namespace
 *   uncounted                  the same filter, but no memory that need not be mapped: for a plugin whose memory no
 *                              control group counts
 *   lockless                   the same filter, but no locks, watches and times of files: for a plugin that has none of its own
 * The filter is put in place last, wherever it is asked for, so that it need not allow what we do ourselves.
 * Privileges, capabilities and descriptors past 2 are given up in any case; 4 and 5, where the launcher has
 * set the plugin's stdin and stdout aside, become 0 and 1 before. 6 is the watcher's pipe to the host.
 *
 * fd 3 goes on with the launcher's report:
 *   landlock ABI               in place
 *   watched                    what is refused is told
 *   unwatched ERRNO            it is not, and everything else is as ever
 *   seccomp [offline]          in place
 *   confined                   all of it is: the plugin is executed next
 *   fail STAGE ERRNO [WHAT]    it was not
 * The end of the pipe after `confined` means that the plugin runs. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "landlock.h"
#include "real_path.h"
#include "seccomp/filters.h"
#include "watch.h"

enum { REPORT_FD = 3, ASIDE_FD = 4, DENIALS_FD = 6 };

extern char **environ;

static void report(const char *line) {
    ssize_t written = write(REPORT_FD, line, strlen(line));
    (void)written; /* the host is gone, and the launcher about to end us */
}

static void fail(const char *stage, const char *what) {
    char line[512];
    snprintf(line, sizeof line - 1, "fail %s %d %s", stage, errno, what);
    strcat(line, "\n");
    report(line);
    _exit(127);
}

static void fail_with(int number, const char *stage, const char *what) {
    errno = number;
    fail(stage, what);
}

static void set_limit(const char *name, const char *text) {
    static const struct {
        const char *name;
        int resource;
    } known[] = {{"nofile", RLIMIT_NOFILE}, {"nproc", RLIMIT_NPROC}, {"fsize", RLIMIT_FSIZE},
                 {"data", RLIMIT_DATA},     {"cpu", RLIMIT_CPU},     {"core", RLIMIT_CORE}};
    char *end;
    rlim_t value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0')
        fail_with(EINVAL, "limit", name);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(name, known[i].name) != 0)
            continue;
        /* At the soft limit of processor time a program is told, a second later it is killed. */
        struct rlimit limit = {value, known[i].resource == RLIMIT_CPU ? value + 1 : value};
        if (setrlimit(known[i].resource, &limit) != 0)
            fail("limit", name);
        return;
    }
    fail_with(EINVAL, "limit", name);
}

static void grant(int refused, const char *what) {
    if (refused)
        fail(errno == ELOOP ? "moved" : "landlock", what);
}

static void enforce_landlock(void) {
    char line[32];
    int abi = landlock_enforce();
    if (abi < 0)
        fail("landlock", "");
    snprintf(line, sizeof line, "landlock %d\n", abi);
    report(line);
}

/* Also what a user namespace gave us. With no_new_privs not even uid 0 gets any back by an exec. */
static void drop_privileges(void) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0, 0, 0}};
    for (int capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; capability++)
        prctl(PR_CAPBSET_DROP, capability, 0, 0, 0); /* refused to those who have nothing to bound */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || syscall(SYS_capset, &header, none) != 0)
        fail("capabilities", "");
}

/* The launcher has set them aside; who was not started by it has them where they were. */
static void take_stdin_and_stdout(void) {
    for (int fd = 0; fd <= 1; fd++)
        if (dup2(ASIDE_FD + fd, fd) < 0 && errno != EBADF)
            fail("descriptors", "");
}

static void close_all_but_stdio(void) {
    if (syscall(SYS_close_range, REPORT_FD + 1, ~0U, 0) != 0)
        fail("descriptors", "");
}

static int is_filtered, is_offline, is_uncounted, is_lockless;

static const struct filter *chosen_filter(void) {
    static const struct filter *const by_case[2][2][2] = {
        {{&filter_usual, &filter_lockless}, {&filter_uncounted, &filter_uncounted_lockless}},
        {{&filter_offline, &filter_offline_lockless}, {&filter_offline_uncounted, &filter_offline_uncounted_lockless}},
    };
    return by_case[is_offline][is_uncounted][is_lockless];
}

static void install(const struct filter *filter) {
    struct sock_fprog program = {.len = filter->length, .filter = (struct sock_filter *)filter->code};
    if (filter->length == 0)
        fail_with(ENOSYS, "seccomp", "");
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0)
        fail("seccomp", "");
    report(is_offline ? "seccomp offline\n" : "seccomp\n");
}

static int is_watched;

static void report_unwatched(void) {
    char line[32];
    snprintf(line, sizeof line, "unwatched %d\n", errno);
    report(line);
}

static void split(const char *made, char **words) {
    switch (watch_split(DENIALS_FD)) {
    case WATCH_WATCHER:
        drop_privileges();
        watch(made, words);
    case WATCH_PLUGIN:
        is_watched = 1;
        break;
    case WATCH_REFUSED:
        report_unwatched();
    }
}

static void begin_watch(void) {
    if (watch_begin() == 0)
        report("watched\n");
    else
        report_unwatched();
}

static int is_word(char **argv, const char *name, int items) {
    if (strcmp(argv[0], name) != 0)
        return 0;
    for (int i = 1; i <= items; i++)
        if (argv[i] == NULL)
            fail_with(EINVAL, "words", name);
    return 1;
}

/* Applies one word; how many arguments it took. */
static int apply(char **argv) {
    if (is_word(argv, "watch", 1))
        return split(argv[1], argv + 2), 2;
    if (is_word(argv, "cwd", 1)) {
        if (chdir(argv[1]) != 0)
            fail("chdir", argv[1]);
        return 2;
    }
    if (is_word(argv, "same", 2)) {
        if (is_same(argv[1], argv[2]) != 0)
            fail("moved", argv[1]);
        return 3;
    }
    if (is_word(argv, "limit", 2))
        return set_limit(argv[1], argv[2]), 3;
    if (is_word(argv, "list", 1))
        return grant(landlock_grant(GRANT_LIST, argv[1]), argv[1]), 2;
    if (is_word(argv, "read", 1))
        return grant(landlock_grant(GRANT_READ, argv[1]), argv[1]), 2;
    if (is_word(argv, "write", 1))
        return grant(landlock_grant(GRANT_WRITE, argv[1]), argv[1]), 2;
    if (is_word(argv, "execute", 1))
        return grant(landlock_grant(GRANT_EXECUTE, argv[1]), argv[1]), 2;
    if (is_word(argv, "connect", 1))
        return grant(landlock_grant_connect(argv[1]), argv[1]), 2;
    if (is_word(argv, "landlock", 0))
        return enforce_landlock(), 1;
    if (is_word(argv, "seccomp", 0))
        return is_filtered = 1;
    if (is_word(argv, "offline", 0))
        return is_filtered = is_offline = 1;
    if (is_word(argv, "uncounted", 0))
        return is_filtered = is_uncounted = 1;
    if (is_word(argv, "lockless", 0))
        return is_filtered = is_lockless = 1;
    fail_with(EINVAL, "words", argv[0]);
    return 0;
}

int main(int argc, char **argv) {
    (void)argc;
    /* Until the plugin's exec nobody traces us or reads our memory. */
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    fcntl(REPORT_FD, F_SETFD, FD_CLOEXEC);
    for (argv++; *argv != NULL && strcmp(*argv, "--") != 0;)
        argv += apply(argv);
    if (argv[0] == NULL || argv[1] == NULL || argv[2] == NULL)
        fail_with(EINVAL, "words", "--");
    take_stdin_and_stdout();
    drop_privileges();
    if (is_watched)
        begin_watch();
    close_all_but_stdio();
    if (is_filtered)
        install(chosen_filter());
    report("confined\n");
    execve(argv[1], argv + 2, environ);
    fail("exec", argv[1]);
}
