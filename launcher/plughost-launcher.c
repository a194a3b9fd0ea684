/* plughost-launcher: runs one plugin so that nothing of it outlives its host or its own end.
 *
 *   host ── A (this process) ── B (pid 1 of a new PID namespace) ── C (the plugin) ── its descendants
 *
 * When C ends, B ends, and the kernel kills everything else in the namespace. When the host or A
 * ends, B is killed, with the same effect. Every link is armed first and verified afterwards, so
 * there is no moment at which a death goes unnoticed:
 *   A opens a pidfd on the host, then checks that the host still is its parent;
 *   B arms its parent-death signal, then checks through a pipe that A still lives.
 *
 * Where no namespace can be made, A becomes the subreaper of everything below it and kills until
 * none is left. That is best effort (a SIGKILL of A itself is not survived) and is reported as such.
 *
 * Usage: plughost-launcher HOST_PID MODE NOFILE CWD CONFINE GROUPS PROXY LISTING PATH ARGV0 [ARG...]
 *   MODE    auto | pidns | subreaper     NOFILE  soft limit of open files for the plugin, or -
 *   CWD     folder to start in, or -     PATH    program to execute, already looked up
 *   CONFINE -        the program is the plugin
 *           keep     the program is plughost-inner, or bubblewrap that ends in it: fd 3 stays open for
 *                    its report, and is plughost-inner's to close; the plugin's stdin and stdout are at
 *                    4 and 5 till then. At 6 is what came at 4, if anything did: a pipe to the host for
 *                    what is refused
 *           UID:GID  keep, and first drop from root to this user. B stays root: the plugin can neither
 *                    signal nor trace it
 *   GROUPS  control groups to be in: their cgroup.procs, with colons between them, or -
 *   PROXY   - or a unix socket: the plugin gets a network of its own, whose only way out is a forwarder to
 *           that socket, listening as LISTING says (forwarder.h); LISTING is - where there is none
 * The environment is the plugin's. fd 3 is a pipe to the host that carries lines:
 *   mode pidns|subreaper      what holds the plugin
 *   proc host                 /proc could not be mounted afresh
 *   uid UID:GID               it runs as this user
 *   fail STAGE ERRNO          nothing was started
 * Its end without `fail` means that the program was executed. Signals to A: SIGTERM ends the plugin
 * with every descendant and returns only then; SIGUSR1 asks the plugin to end, by SIGTERM. A ends as
 * the plugin ended: with its exit code, or by the same signal. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "forwarder.h"

enum { REPORT_FD = 3, GIVEN_DENIALS_FD = 4, ASIDE_FD = 4, DENIALS_FD = 6, NOT_ENDED = -1 };

extern char **environ;

static int tells_denials;

struct plan {
    const char *nofile, *cwd, *confine, *proxy, *listing, *path;
    char **argv;
};

static void report(const char *line) {
    ssize_t written = write(REPORT_FD, line, strlen(line));
    (void)written; /* the host is gone: the watch on it ends us */
}

static void fail(const char *stage) {
    char line[64];
    snprintf(line, sizeof line, "fail %s %d\n", stage, errno);
    report(line);
    _exit(127);
}

static void close_fds_from(unsigned first) {
    if (syscall(SYS_close_range, first, ~0U, 0) == 0)
        return;
    long last = sysconf(_SC_OPEN_MAX);
    for (long fd = first; fd < last; fd++)
        close((int)fd);
}

/* The plugin's pipes are the plugin's alone: while we held a copy, their ends would go unseen. */
static void let_go_of_stdio(void) {
    close(0);
    close(1);
    close(2);
    close(REPORT_FD);
    if (tells_denials)
        close(GIVEN_DENIALS_FD);
}

static int is_user(const char *confine) {
    return strchr(confine, ':') != NULL;
}

static int runs_as(uid_t uid, gid_t gid) {
    uid_t uids[3];
    gid_t gids[3];
    if (getresuid(&uids[0], &uids[1], &uids[2]) != 0 || getresgid(&gids[0], &gids[1], &gids[2]) != 0)
        return 0;
    for (int i = 0; i < 3; i++)
        if (uids[i] != uid || gids[i] != gid)
            return 0;
    return getgroups(0, NULL) == 0;
}

/* From root to an ordinary user, with no way back. The kernel forgets a parent-death signal here. */
static void drop_user(const char *confine) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0, 0, 0}};
    unsigned uid, gid;
    int end = 0;
    char line[64];
    if (!is_user(confine))
        return;
    errno = EINVAL;
    if (sscanf(confine, "%u:%u%n", &uid, &gid, &end) != 2 || confine[end] != '\0' || uid == 0 || gid == 0)
        fail("uid");
    if (setgroups(0, NULL) != 0 || setresgid(gid, gid, gid) != 0 || setresuid(uid, uid, uid) != 0)
        fail("uid");
    if (syscall(SYS_capset, &header, none) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        fail("uid");
    errno = EPERM;
    if (!runs_as(uid, gid) || setresuid(0, 0, 0) == 0)
        fail("uid");
    snprintf(line, sizeof line, "uid %u:%u\n", uid, gid);
    report(line);
}

/* Bubblewrap stays beside the plugin and keeps its own 0 and 1 open: were those the plugin's pipes, the host
 * would not see the plugin close them. What is past 2 it lets go of, and plughost-inner puts back in place. */
static void set_pipes_aside(void) {
    if (tells_denials && dup2(GIVEN_DENIALS_FD, DENIALS_FD) < 0)
        fail("setup");
    if (dup2(0, ASIDE_FD) < 0 || dup2(1, ASIDE_FD + 1) < 0 || close(0) != 0 || close(1) != 0)
        fail("setup");
    if (open("/dev/null", O_RDONLY) != 0 || open("/dev/null", O_WRONLY) != 1)
        fail("setup");
}

static void become_plugin(const struct plan *plan) {
    sigset_t none;
    sigemptyset(&none);
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    close_fds_from(REPORT_FD + 1 + tells_denials);
    if (strcmp(plan->nofile, "-") != 0) {
        struct rlimit limit;
        getrlimit(RLIMIT_NOFILE, &limit);
        limit.rlim_cur = strtoul(plan->nofile, NULL, 10);
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (strcmp(plan->cwd, "-") != 0 && chdir(plan->cwd) != 0)
        fail("chdir");
    if (strcmp(plan->confine, "-") != 0)
        set_pipes_aside();
    fcntl(REPORT_FD, F_SETFD, strcmp(plan->confine, "-") == 0 ? FD_CLOEXEC : 0);
    execve(plan->path, plan->argv, environ);
    fail("exec");
}

static void die_with(int fd_of_parent) {
    struct pollfd parent = {.fd = fd_of_parent, .events = POLLIN};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (poll(&parent, 1, 0) != 0)
        _exit(127); /* it died before we armed */
    close(fd_of_parent);
}

static int write_file(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    int ok = fd >= 0 && write(fd, text, strlen(text)) > 0;
    close(fd);
    return ok;
}

/* Some systems let a user namespace be made and then refuse everything inside it. */
static int map_own_ids(uid_t uid, gid_t gid) {
    char users[64], groups[64];
    snprintf(users, sizeof users, "%u %u 1", uid, uid);
    snprintf(groups, sizeof groups, "%u %u 1", gid, gid);
    return write_file("/proc/self/setgroups", "deny") && write_file("/proc/self/uid_map", users) &&
           write_file("/proc/self/gid_map", groups);
}

/* What a user has few of, and a plugin of the same user must not take all of: bounded in its own namespace, where the
 * kernel counts what is made in the namespaces below as well. A kernel without these files has no bound. */
static void leave_some_to_others(const struct plan *plan) {
    if (strcmp(plan->confine, "-") == 0)
        return;
    write_file("/proc/sys/user/max_inotify_instances", "16");
    write_file("/proc/sys/user/max_inotify_watches", "8192");
}

/* In B, which has the rights that take: the loopback interface is down, and ports may be low ones. */
static void open_way_out(const struct plan *plan) {
    unsigned uid = geteuid();
    if (strcmp(plan->proxy, "-") == 0)
        return;
    sscanf(plan->confine, "%u:", &uid); /* whoever the plugin becomes */
    if (unshare(CLONE_NEWNET) != 0 || forwarder_start(plan->proxy, plan->listing, uid) != 0)
        fail("forward");
}

/* B: pid 1. Reaps, passes on the polite signal, ends with the plugin and so ends everything. */
static void be_init(const struct plan *plan, int *ended) {
    sigset_t watched;
    sigemptyset(&watched);
    sigaddset(&watched, SIGCHLD);
    sigaddset(&watched, SIGUSR1);
    sigprocmask(SIG_SETMASK, &watched, NULL);
    pid_t plugin = fork();
    if (plugin < 0)
        fail("fork");
    if (plugin == 0) {
        drop_user(plan->confine);
        become_plugin(plan);
    }
    let_go_of_stdio();
    prctl(PR_SET_DUMPABLE, 0); /* the plugin may have our uid, but must not trace its keeper */
    for (;;) {
        siginfo_t info;
        if (sigwaitinfo(&watched, &info) == SIGUSR1) {
            if (info.si_pid == 0) /* from outside this namespace only */
                kill(plugin, SIGTERM);
            continue;
        }
        int status;
        pid_t pid;
        while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
            if (pid == plugin) {
                *ended = status;
                _exit(0);
            }
        }
    }
}

static pid_t start_in_namespace(const struct plan *plan, int *ended, const int alive[2], unsigned long extra) {
    uid_t uid = geteuid();
    gid_t gid = getegid();
    int mapped[2];
    char yes = 1;
    if (pipe2(mapped, O_CLOEXEC) != 0)
        return -1;
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWPID | CLONE_NEWNS | extra | SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid != 0) {
        int refused = errno;
        close(mapped[1]);
        if (pid > 0 && read(mapped[0], &yes, 1) != 1) {
            waitpid(pid, NULL, 0);
            pid = -1;
            refused = EPERM;
        }
        close(mapped[0]);
        errno = refused;
        return pid;
    }
    close(alive[1]);
    if ((extra & CLONE_NEWUSER) && !map_own_ids(uid, gid))
        _exit(127);
    if (extra & CLONE_NEWUSER)
        leave_some_to_others(plan);
    if (write(mapped[1], &yes, 1) != 1)
        _exit(127);
    close(mapped[0]);
    close(mapped[1]);
    die_with(alive[0]);
    report("mode pidns\n");
    mount("none", "/", NULL, MS_REC | MS_SLAVE, NULL);
    if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) != 0)
        report("proc host\n");
    open_way_out(plan);
    be_init(plan, ended);
    return 0;
}

static pid_t start_below_subreaper(const struct plan *plan, const int alive[2]) {
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
        fail("subreaper");
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    close(alive[1]);
    errno = ENOTSUP;
    if (strcmp(plan->proxy, "-") != 0)
        fail("forward"); /* it takes a namespace */
    drop_user(plan->confine);
    die_with(alive[0]);
    report("mode subreaper\n");
    become_plugin(plan);
    return 0;
}

/* Orphans of a killed child come to us: killing direct children until there are none ends them all. */
static void kill_all_below(void) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
    for (;;) {
        FILE *children = fopen(path, "re");
        int pid;
        while (children && fscanf(children, "%d", &pid) == 1)
            kill(pid, SIGKILL);
        if (children)
            fclose(children);
        if (waitpid(-1, NULL, 0) < 0 && errno == ECHILD)
            return;
    }
}

static void end_as(int status) {
    if (WIFSIGNALED(status)) {
        struct rlimit no_core = {0, 0};
        sigset_t none;
        sigemptyset(&none);
        setrlimit(RLIMIT_CORE, &no_core);
        signal(WTERMSIG(status), SIG_DFL);
        sigprocmask(SIG_SETMASK, &none, NULL);
        kill(getpid(), WTERMSIG(status));
    }
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 127);
}

/* Before anything is started: a child is where its parent was. */
static void join(char *groups) {
    for (char *file = strtok(groups, ":"); strcmp(groups, "-") != 0 && file; file = strtok(NULL, ":"))
        if (!write_file(file, "0"))
            fail("group");
}

int main(int argc, char **argv) {
    if (argc < 11) {
        fputs("usage: plughost-launcher HOST_PID MODE NOFILE CWD CONFINE GROUPS PROXY LISTING PATH ARGV0 [ARG...]\n",
              stderr);
        return 2;
    }
    pid_t host = (pid_t)atoi(argv[1]);
    const char *mode = argv[2];
    struct plan plan = {
        .nofile = argv[3], .cwd = argv[4], .confine = argv[5], .proxy = argv[7], .listing = argv[8],
        .path = argv[9], .argv = argv + 10};
    int alive[2];
    sigset_t watched;

    fcntl(REPORT_FD, F_SETFD, FD_CLOEXEC);
    tells_denials = strcmp(plan.confine, "-") != 0 && fcntl(GIVEN_DENIALS_FD, F_SETFD, FD_CLOEXEC) == 0;
    close_fds_from(REPORT_FD + 1 + tells_denials);
    setsid(); /* the terminal's Ctrl-C is the host's to handle */
    int host_fd = (int)syscall(SYS_pidfd_open, host, 0);
    if (host_fd < 0)
        fail("pidfd_open");
    if (getppid() != host)
        _exit(127);
    join(argv[6]);

    sigemptyset(&watched);
    sigaddset(&watched, SIGTERM);
    sigaddset(&watched, SIGUSR1);
    sigaddset(&watched, SIGCHLD);
    signal(SIGCHLD, SIG_DFL); /* an ignored SIGCHLD is inherited and would lose us the status */
    sigprocmask(SIG_SETMASK, &watched, NULL);
    int signal_fd = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
    int *ended = mmap(NULL, sizeof *ended, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (signal_fd < 0 || ended == MAP_FAILED || pipe2(alive, O_CLOEXEC) != 0)
        fail("setup");
    *ended = NOT_ENDED;

    int in_namespace = strcmp(mode, "subreaper") != 0;
    pid_t child = -1;
    if (in_namespace) {
        child = start_in_namespace(&plan, ended, alive, geteuid() == 0 ? 0 : CLONE_NEWUSER);
        if (child < 0 && geteuid() == 0 && errno == EPERM) /* root of a container */
            child = start_in_namespace(&plan, ended, alive, CLONE_NEWUSER);
        if (child < 0 && strcmp(mode, "auto") == 0)
            in_namespace = 0;
    }
    if (!in_namespace)
        child = start_below_subreaper(&plan, alive);
    if (child < 0)
        fail("fork");
    let_go_of_stdio();
    close(alive[0]);

    struct pollfd watch[2] = {{.fd = host_fd, .events = POLLIN}, {.fd = signal_fd, .events = POLLIN}};
    int end_now = 0;
    while (!end_now) {
        if (poll(watch, 2, -1) < 0)
            continue;
        if (watch[0].revents)
            end_now = 1;
        struct signalfd_siginfo info;
        while (read(signal_fd, &info, sizeof info) == sizeof info) {
            if (info.ssi_signo == SIGTERM)
                end_now = 1;
            else if (info.ssi_signo == SIGUSR1)
                kill(child, in_namespace ? SIGUSR1 : SIGTERM);
        }
        int status;
        pid_t pid;
        while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
            if (pid != child)
                continue;
            if (!in_namespace)
                kill_all_below();
            end_as(in_namespace && *ended != NOT_ENDED ? *ended : status);
        }
    }
    if (in_namespace) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0); /* returns when the last process of the namespace is gone */
    } else {
        kill_all_below();
    }
    end_as(*ended != NOT_ENDED ? *ended : SIGKILL);
}
