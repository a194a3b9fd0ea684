#define _GNU_SOURCE
#include "wanted.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096 };
enum { MOST_AT_ONCE = 256, MOST_A_SECOND = 32, FORGOTTEN_AFTER = 60, REMEMBERED = 1024 };

struct rule {
    char kind;
    const char *path;
    size_t length;
};

static struct rule *rules;
static size_t rule_count;
static const char *made;
static int proc_is_ours; /* where /proc could not be mounted afresh, its numbers are of other processes */
static int tables[4];    /* the sockets of our network namespace */
static const char *const TABLES[] = {"/proc/net/tcp", "/proc/net/tcp6", "/proc/net/udp", "/proc/net/udp6"};

void wanted_learn(const char *folders, char **words) {
    size_t count = 0;
    char self[16] = "";
    made = folders;
    for (char **word = words; *word != NULL && strcmp(*word, "--") != 0; word++)
        count++;
    rules = calloc(count + 1, sizeof *rules);
    if (rules == NULL)
        _exit(127);
    for (size_t i = 0; i + 1 < count; i++)
        if (strcmp(words[i], "list") == 0 || strcmp(words[i], "read") == 0 || strcmp(words[i], "write") == 0 ||
            strcmp(words[i], "execute") == 0)
            rules[rule_count++] = (struct rule){words[i][0], words[i + 1], strlen(words[i + 1])};
    if (readlink("/proc/self", self, sizeof self - 1) > 0)
        proc_is_ours = atoi(self) == getpid();
    for (int i = 0; i < 4; i++)
        tables[i] = open(TABLES[i], O_RDONLY | O_CLOEXEC);
}

static int is_beneath(const char *path, const char *folder, size_t length) {
    return strncmp(path, folder, length) == 0 && (path[length] == '\0' || path[length] == '/');
}

/* The deepest word counts: in a scratch folder there may be one that is mounted read-only. */
static int is_granted(const struct wanted *wanted) {
    size_t deepest = 0;
    int granted = 0;
    for (size_t i = 0; i < rule_count; i++) {
        if (rules[i].length < deepest || !is_beneath(wanted->path, rules[i].path, rules[i].length))
            continue;
        if (rules[i].kind == 'l' && wanted->path[rules[i].length] != '\0')
            continue; /* the folder itself can be opened, what is in it needs a word of its own */
        int enough = wanted->kind == 'r' || rules[i].kind == 'w';
        granted = enough || (granted && rules[i].length == deepest);
        deepest = rules[i].length;
    }
    return granted;
}

static int is_missing(const struct wanted *wanted) {
    const char *folder = made, *end;
    for (; *folder != '\0'; folder = *end ? end + 1 : end) {
        end = strchrnul(folder, ':');
        if (is_beneath(wanted->path, folder, (size_t)(end - folder)))
            return wanted->kind != 'c' && syscall(SYS_faccessat, AT_FDCWD, wanted->path, F_OK) != 0 && errno == ENOENT;
    }
    return 0;
}

/* A string of another process's, page by page: what follows it may not be there. */
static int fetch(pid_t pid, uint64_t address, char *into, size_t room) {
    for (size_t got = 0; got < room;) {
        size_t rest = PAGE - (address + got) % PAGE, wanted = rest < room - got ? rest : room - got;
        struct iovec here = {into + got, wanted}, there = {(void *)(uintptr_t)(address + got), wanted};
        if (process_vm_readv(pid, &here, 1, &there, 1, 0) != (ssize_t)wanted)
            return -1;
        if (memchr(into + got, '\0', wanted) != NULL)
            return 0;
        got += wanted;
    }
    return -1;
}

/* Puts the folder before a relative path. */
static int make_absolute(pid_t pid, int folder, char *path, size_t room) {
    char link[64];
    static char whole[2 * PATH_MAX];
    if (!proc_is_ours)
        return -1;
    if (folder == AT_FDCWD)
        snprintf(link, sizeof link, "/proc/%d/cwd", pid);
    else
        snprintf(link, sizeof link, "/proc/%d/fd/%d", pid, folder);
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, whole, PATH_MAX);
    if (length <= 0 || whole[0] != '/' || (size_t)length + 1 + strlen(path) >= room)
        return -1;
    whole[length] = '/';
    strcpy(whole + length + 1, path);
    strcpy(path, whole);
    return 0;
}

static void normalise(char *path) {
    char *out = path;
    for (char *in = path; *in != '\0';) {
        size_t length = strcspn(++in, "/"); /* in was at a slash */
        if (length == 2 && in[0] == '.' && in[1] == '.')
            while (out > path && *--out != '/')
                ;
        else if (length > 0 && !(length == 1 && in[0] == '.')) {
            *out++ = '/';
            memmove(out, in, length);
            out += length;
        }
        in += length;
    }
    if (out == path)
        *out++ = '/';
    *out = '\0';
}

/* Whether a process in the sandbox itself waits there: the forwarder, or one of the plugin's own. */
static int is_served(unsigned port) {
    static char text[1 << 16];
    for (int i = 0; i < 4; i++) {
        ssize_t got = pread(tables[i], text, sizeof text - 1, 0);
        text[got > 0 ? got : 0] = '\0';
        for (const char *line = strchr(text, '\n'); line != NULL; line = strchr(line + 1, '\n')) {
            unsigned local, state; /* "  0: 0100007F:1538 00000000:0000 0A" */
            if (sscanf(line, " %*d: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x", &local, &state) == 2 && local == port &&
                (state == 0x0a || state == 0x07))
                return 1;
        }
    }
    return 0;
}

/* An address and a port, with a space between them; -1 for sockets that have none. */
static int read_address(const struct seccomp_notif *asked, char *into, size_t room) {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } to;
    char text[INET6_ADDRSTRLEN];
    size_t length = asked->data.args[2] < sizeof to ? (size_t)asked->data.args[2] : sizeof to;
    struct iovec here = {&to, length}, there = {(void *)(uintptr_t)asked->data.args[1], length};
    if (length < sizeof to.v4 || process_vm_readv((pid_t)asked->pid, &here, 1, &there, 1, 0) != (ssize_t)length)
        return -1;
    int is_v6 = to.any.sa_family == AF_INET6;
    if (is_v6 ? length < sizeof to.v6 : to.any.sa_family != AF_INET)
        return -1;
    unsigned port = ntohs(is_v6 ? to.v6.sin6_port : to.v4.sin_port);
    const void *address = is_v6 ? (void *)&to.v6.sin6_addr : (void *)&to.v4.sin_addr;
    if (port == 0 || inet_ntop(to.any.sa_family, address, text, sizeof text) == NULL)
        return -1;
    int is_here = is_v6 ? IN6_IS_ADDR_LOOPBACK(&to.v6.sin6_addr) || IN6_IS_ADDR_UNSPECIFIED(&to.v6.sin6_addr) ||
                              strncmp(text, "::ffff:127.", 11) == 0
                        : strncmp(text, "127.", 4) == 0 || to.v4.sin_addr.s_addr == INADDR_ANY;
    snprintf(into, room, "%s %u", text, port);
    return is_here && is_served(port) ? -1 : 0;
}

/* Whether it looks for a program that is not there, as Bun and shells of musl do along PATH before they execute one. The
 * watcher sees the same files as the plugin. */
static int seeks_program(const char *path) {
    const char *name = strrchr(path, '/');
    size_t length = name == NULL ? 0 : (size_t)(name - path);
    int is_bin = length >= 4 && strncmp(path + length - 4, "/bin", 4) == 0;
    int is_sbin = length >= 5 && strncmp(path + length - 5, "/sbin", 5) == 0;
    return (is_bin || is_sbin) && syscall(SYS_faccessat, AT_FDCWD, path, F_OK) != 0;
}

/* What a call asks for; -1 when that cannot be told, or is told by no path. */
int wanted_read(const struct seccomp_notif *asked, struct wanted *wanted) {
    const __u64 *arguments = asked->data.args;
    int at = asked->data.nr == SYS_openat || asked->data.nr == SYS_execveat;
    wanted->kind = 'n';
    if (asked->data.nr == SYS_connect)
        return read_address(asked, wanted->path, sizeof wanted->path);
    wanted->kind = 'x';
#if defined(SYS_stat)
    if (asked->data.nr == SYS_stat) {
        int known = fetch((pid_t)asked->pid, arguments[0], wanted->path, sizeof wanted->path) == 0;
        return known && wanted->path[0] == '/' && seeks_program(wanted->path) ? 0 : -1;
    }
#endif
    if (asked->data.nr != SYS_execve && asked->data.nr != SYS_execveat) {
        int flags = (int)arguments[1 + at];
        wanted->kind = flags & O_CREAT ? 'c' : (flags & O_ACCMODE) != O_RDONLY || flags & O_TRUNC ? 'w' : 'r';
    }
    if (fetch((pid_t)asked->pid, arguments[at], wanted->path, sizeof wanted->path) != 0 || wanted->path[0] == '\0')
        return -1;
    if (wanted->path[0] == '/')
        return 0;
    return make_absolute((pid_t)asked->pid, at ? (int)arguments[0] : AT_FDCWD, wanted->path, sizeof wanted->path);
}

static int has_room(const struct timespec *now) {
    static double room = MOST_AT_ONCE, last;
    double seconds = (double)now->tv_sec + (double)now->tv_nsec / 1e9;
    room += last > 0 ? (seconds - last) * MOST_A_SECOND : 0;
    room = room > MOST_AT_ONCE ? MOST_AT_ONCE : room;
    last = seconds;
    if (room < 1)
        return 0;
    room -= 1;
    return 1;
}

/* Of two with the same place in the table the later one stays: what is forgotten is told again, no more. */
static int is_new(const struct wanted *wanted) {
    static uint64_t told[REMEMBERED];
    static time_t cleared;
    struct timespec now;
    uint64_t hash = 14695981039346656037u ^ (unsigned char)wanted->kind;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (now.tv_sec - cleared >= FORGOTTEN_AFTER) {
        memset(told, 0, sizeof told);
        cleared = now.tv_sec;
    }
    for (const char *at = wanted->path; *at != '\0'; at++)
        hash = (hash ^ (unsigned char)*at) * 1099511628211u;
    if (told[hash % REMEMBERED] == hash || !has_room(&now))
        return 0;
    told[hash % REMEMBERED] = hash;
    return 1;
}

int wanted_is_news(struct wanted *wanted) {
    if (wanted->kind == 'n')
        return is_new(wanted);
    normalise(wanted->path);
    /* A program that is granted may still fail for want of what it is run by: the host looks. */
    return (wanted->kind == 'x' || !is_granted(wanted) || is_missing(wanted)) && is_new(wanted);
}
