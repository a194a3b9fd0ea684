/* See forwarder.h; relay.c is what its process does. */
#define _GNU_SOURCE
#include "forwarder.h"

#include <arpa/inet.h>
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <net/if.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "relay.h"

static struct sockaddr_un proxy_address;
static struct listener listeners[RELAY_LISTENERS];
static int listener_count;

/* Only what forwarding takes: no capability, no new program, no file, no trace of the caller. As the plugin's
 * user, where that is another: what a plugin sends is hostile, and the caller may be root. */
static void let_go(uid_t uid) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0, 0, 0}, {0, 0, 0}};
    struct rlimit nothing = {0, 0}, files;
    setsid();
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    if (uid != geteuid() && (setgroups(0, NULL) != 0 || setresgid(uid, uid, uid) != 0 || setresuid(uid, uid, uid) != 0))
        _exit(errno);
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    syscall(SYS_capset, &header, none);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_DUMPABLE, 0); /* the plugin may have our uid */
    prctl(PR_SET_NAME, "plughost-egress");
    setrlimit(RLIMIT_CORE, &nothing);
    setrlimit(RLIMIT_FSIZE, &nothing);
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
}

static void close_fds(unsigned first, unsigned end) {
    if (first >= end || syscall(SYS_close_range, first, end - 1, 0) == 0)
        return;
    unsigned most = (unsigned)sysconf(_SC_OPEN_MAX);
    for (unsigned fd = first; fd < end && fd < most; fd++)
        close((int)fd);
}

/* All but our own is the caller's, its pipes above all: while we held a copy, their ends would go unseen. */
static void close_others(int caller) {
    unsigned first = 0;
    for (int i = 0; i <= listener_count; i++) {
        unsigned own = (unsigned)(i == listener_count ? caller : listeners[i].fd); /* opened in this order */
        close_fds(first, own);
        first = own + 1;
    }
    close_fds(first, ~0U);
}

static int bring_loopback_up(void) {
    struct ifreq loopback = {.ifr_name = "lo"};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int up = fd >= 0 && ioctl(fd, SIOCGIFFLAGS, &loopback) == 0;
    if (up && !(loopback.ifr_flags & IFF_UP)) {
        loopback.ifr_flags |= IFF_UP;
        up = ioctl(fd, SIOCSIFFLAGS, &loopback) == 0;
    }
    int failed = errno;
    close(fd);
    errno = failed;
    return up ? 0 : -1;
}

static int listen_at(const struct in_addr *address, int port) {
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = *address};
    int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&place, sizeof place) == 0 && listen(fd, RELAY_PAIRS) == 0)
        return fd;
    int failed = errno;
    close(fd);
    errno = failed;
    return -1;
}

static int listen_as_told(const char *line, size_t size) {
    char text[RELAY_NAME + 64], address[16], name[RELAY_NAME] = "", excess;
    struct in_addr place;
    int port;
    if (size >= sizeof text)
        return errno = EINVAL, -1;
    memcpy(text, line, size);
    text[size] = '\0';
    int host = sscanf(text, "host %15s %d %253s %c", address, &port, name, &excess) == 3;
    int proxy = !host && sscanf(text, "proxy %15s %d %c", address, &port, &excess) == 2;
    if ((!host && !proxy) || port < 1 || port > 65535 || inet_pton(AF_INET, address, &place) != 1)
        return errno = EINVAL, -1;
    if (listener_count == RELAY_LISTENERS)
        return errno = E2BIG, -1;
    struct listener *listener = &listeners[listener_count];
    listener->fd = listen_at(&place, port);
    listener->port = port;
    snprintf(listener->name, sizeof listener->name, "%s", proxy ? "" : name);
    if (listener->fd < 0)
        return -1;
    listener_count++;
    return 0;
}

static int close_listeners(int result) {
    int failed = errno;
    while (listener_count > 0)
        close(listeners[--listener_count].fd);
    errno = failed;
    return result;
}

int forwarder_start(const char *socket_path, const char *listing, uid_t uid) {
    if (strlen(socket_path) >= sizeof proxy_address.sun_path)
        return errno = ENAMETOOLONG, -1;
    proxy_address.sun_family = AF_UNIX;
    strcpy(proxy_address.sun_path, socket_path);
    if (bring_loopback_up() != 0)
        return -1;
    for (const char *line = listing; *line;) {
        size_t size = strcspn(line, "\n");
        if (size > 0 && listen_as_told(line, size) != 0)
            return close_listeners(-1);
        line += size + (line[size] == '\n');
    }
    int caller = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (caller < 0)
        return close_listeners(-1);
    /* Twice, so that the plugin has no child it did not start and could wait for; and when the first has ended,
     * the second holds nothing any more. */
    pid_t child = fork();
    if (child == 0) {
        let_go(uid);
        close_others(caller);
        pid_t grandchild = fork();
        if (grandchild == 0)
            relay(&proxy_address, listeners, listener_count, caller);
        _exit(grandchild < 0 ? errno : 0);
    }
    int status = 0, failed = errno;
    if (child > 0 && waitpid(child, &status, 0) == child)
        failed = WIFEXITED(status) ? WEXITSTATUS(status) : EAGAIN;
    close(caller);
    errno = failed;
    return close_listeners(child > 0 && failed == 0 ? 0 : -1);
}
