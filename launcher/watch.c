/* See watch.h; wanted.c is what it makes of a call. */
#define _GNU_SOURCE
#include "watch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wanted.h"

#if defined(__x86_64__)
enum { ARCHITECTURE = AUDIT_ARCH_X86_64 };
#elif defined(__aarch64__)
enum { ARCHITECTURE = AUDIT_ARCH_AARCH64 };
#else
enum { ARCHITECTURE = 0 };
#endif

/* The kernel's, of which the headers at build time may know less. */
enum { NEW_LISTENER = 1 << 3, WAIT_KILLABLE = 1 << 5, NOTIFY = 0x7fc00000, CONTINUE = 1, SYNC_WAKE_UP = 1 };
enum { LISTENER_FD = 0, REPORT_FD = 1 }; /* the watcher's */
enum { FAR_FD = 16 };                    /* past those that mean something to plughost-inner */
enum { PATIENCE = 10000 };               /* microseconds */

static int channel;
static volatile pid_t plugin;
static char batch[PIPE_BUF]; /* of so many bytes the pipe takes all or none */
static volatile size_t batched;
static volatile sig_atomic_t is_adding;

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define ANSWER(value) BPF_STMT(BPF_RET | BPF_K, value)

/* LISTED for these system calls, OTHERWISE for the rest and for other architectures, which are not ours to judge. */
static int filter(const int *calls, int count, uint32_t listed, uint32_t otherwise, unsigned flags) {
    struct sock_filter code[64] = {
        LOAD(arch), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0), ANSWER(otherwise), LOAD(nr)};
    unsigned short length = 4;
    for (int i = 0; i < count; i++)
        code[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)calls[i], count - i, 0);
    code[length++] = (struct sock_filter)ANSWER(otherwise);
    code[length++] = (struct sock_filter)ANSWER(listed);
    struct sock_fprog program = {.len = length, .filter = code};
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

/* As P ended. The signal handler does all of it, so that no end comes between a look and a wait. */
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

static void flush(void) {
    ssize_t written = batched > 0 ? write(REPORT_FD, batch, batched) : 0;
    (void)written;
    batched = 0;
}

static void flush_soon(void) {
    struct itimerval soon = {.it_value = {.tv_usec = PATIENCE}};
    setitimer(ITIMER_REAL, &soon, NULL);
}

/* A record does not wake the host by itself: at its start a plugin asks for many. */
static void add(const char *record, size_t length) {
    is_adding = 1;
    if (batched + length > sizeof batch)
        flush();
    if (batched == 0)
        flush_soon();
    memcpy(batch + batched, record, length);
    batched += length;
    is_adding = 0;
}

static void on_signal(int number) {
    int before = errno, status;
    pid_t pid;
    if (number == SIGALRM && is_adding)
        flush_soon();
    else if (number == SIGALRM)
        flush();
    if (number == SIGTERM) /* the launcher's polite one */
        kill(plugin, SIGTERM);
    while (number == SIGCHLD && (pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (pid == plugin) {
            flush();
            end_as(status);
        }
    errno = before;
}

static void settle(int report, int end_of_channel) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigset_t others;
    sigfillset(&action.sa_mask);
    sigaction(SIGCHLD, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGALRM, &action, NULL);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    prctl(PR_SET_NAME, "plughost-watch");
    fcntl(report, F_SETFL, O_WRONLY | O_NONBLOCK);
    if (dup2(end_of_channel, LISTENER_FD) < 0 || dup2(report, REPORT_FD) < 0 ||
        syscall(SYS_close_range, REPORT_FD + 1, ~0U, 0) != 0)
        _exit(127);
    sigfillset(&others);
    sigdelset(&others, SIGCHLD);
    sigdelset(&others, SIGTERM);
    sigdelset(&others, SIGALRM);
    sigprocmask(SIG_SETMASK, &others, NULL);
}

enum watch watch_split(int report) {
    int ends[2];
    sigset_t all, before;
    if (ARCHITECTURE == 0)
        errno = ENOSYS;
    if (ARCHITECTURE == 0 || fcntl(report, F_GETFD) < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return WATCH_REFUSED;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t watcher = getpid(), child = fork();
    if (child > 0) {
        plugin = child;
        settle(report, ends[0]);
        return WATCH_WATCHER;
    }
    int refused = errno;
    sigprocmask(SIG_SETMASK, &before, NULL);
    channel = fcntl(ends[1], F_DUPFD_CLOEXEC, FAR_FD);
    close(ends[0]);
    close(ends[1]);
    errno = refused;
    if (child < 0)
        return WATCH_REFUSED;
    setsid(); /* a signal to its own group is not for us */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != watcher)
        _exit(127);
    return WATCH_PLUGIN;
}

static int hand_over(int channel, int fd) {
    char byte = 0;
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {.header = {.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))}};
    struct iovec bytes = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    return sendmsg(channel, &message, MSG_NOSIGNAL) == 1 ? 0 : -1;
}

/* A user has as many descriptors on their way as one process of its may have open, and another plugin may have them all.
 * To be known before the listener is there, without which nothing would go on. */
static int can_hand_over(void) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return 0;
    int sent = hand_over(ends[0], ends[0]) == 0, refused = errno;
    close(ends[0]);
    close(ends[1]);
    errno = refused;
    return sent;
}

int watch_begin(void) {
    static const int calls[] = {
#if defined(SYS_open)
        SYS_open,
#endif
        SYS_openat, SYS_execve, SYS_execveat, SYS_connect,
#if defined(SYS_stat)
        SYS_stat,
#endif
    };
    enum { COUNT = sizeof calls / sizeof *calls };
#if defined(SYS_stat)
    enum { LOOKING = 1 };
#else
    enum { LOOKING = 0 };
#endif
    if (!can_hand_over())
        return -1;
    int listener = filter(calls, COUNT, NOTIFY, SECCOMP_RET_ALLOW, NEW_LISTENER | WAIT_KILLABLE);
    if (listener < 0 && errno == EINVAL) /* before Linux 5.19: signals interrupt what is watched, and no program expects that of stat */
        listener = filter(calls, COUNT - LOOKING, NOTIFY, SECCOMP_RET_ALLOW, NEW_LISTENER);
    if (listener < 0)
        return -1;
    if (hand_over(channel, listener) != 0)
        _exit(127); /* nobody would ever answer us */
    close(listener);
    return 0;
}

/* The listener takes the place of the channel. Without one there is nothing to do but wait. */
static void take_over(void) {
    char byte;
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec bytes = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t got;
    int listener;
    while ((got = recvmsg(LISTENER_FD, &message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
        ;
    if (got != 1 || message.msg_controllen < CMSG_LEN(sizeof(int)))
        for (close(LISTENER_FD), close(REPORT_FD);;)
            pause();
    memcpy(&listener, CMSG_DATA(&control.header), sizeof listener);
    if (dup2(listener, LISTENER_FD) < 0 || close(listener) != 0)
        _exit(127);
}

/* What is done from here on, and by signal handlers; the rest is refused. */
static void keep_to_what_we_do(void) {
    static const int calls[] = {SYS_ioctl,      SYS_process_vm_readv, SYS_readlinkat,   SYS_faccessat,
                                SYS_write,      SYS_clock_gettime,    SYS_setitimer,    SYS_wait4,
                                SYS_kill,       SYS_getpid,           SYS_prlimit64,    SYS_rt_sigaction,
                                SYS_exit_group, SYS_rt_sigprocmask,   SYS_rt_sigreturn, SYS_restart_syscall,
                                SYS_pread64};
    if (filter(calls, sizeof calls / sizeof *calls, SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO | EPERM, 0) != 0)
        _exit(127);
}

void watch(const char *made, char **words) {
    static union {
        struct seccomp_notif notification;
        struct seccomp_notif_resp answer;
        char space[1024];
    } asked, said;
    static struct wanted wanted;
    struct seccomp_notif_sizes sizes;
    wanted_learn(made, words);
    take_over();
    ioctl(LISTENER_FD, _IOW('!', 4, uint64_t), SYNC_WAKE_UP); /* from Linux 6.6 on: less waiting */
    if (syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) != 0 || sizes.seccomp_notif > sizeof asked ||
        sizes.seccomp_notif_resp > sizeof said)
        _exit(127);
    keep_to_what_we_do();
    for (;;) {
        memset(&asked, 0, sizes.seccomp_notif);
        if (ioctl(LISTENER_FD, SECCOMP_IOCTL_NOTIF_RECV, &asked) != 0)
            continue; /* a signal came, or whoever asked is gone */
        /* Before it goes on: this may be the last thing it does. A process that is gone may not be the one we read. */
        if (wanted_read(&asked.notification, &wanted) == 0 && wanted_is_news(&wanted) &&
            ioctl(LISTENER_FD, SECCOMP_IOCTL_NOTIF_ID_VALID, &asked.notification.id) == 0)
            add((const char *)&wanted, 2 + strlen(wanted.path));
        memset(&said, 0, sizes.seccomp_notif_resp);
        said.answer.id = asked.notification.id;
        said.answer.flags = CONTINUE;
        ioctl(LISTENER_FD, SECCOMP_IOCTL_NOTIF_SEND, &said);
    }
}
