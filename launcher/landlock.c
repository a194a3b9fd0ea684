/* The rights are spelled out here: the headers at build time may be older than the kernel at run time.
 * What an older kernel cannot hold (TCP before ABI 4, signals and abstract sockets before 6) is left
 * out, and the host learns the ABI. Not held by any: UDP and sockets with a path. */
#define _GNU_SOURCE
#include "landlock.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "real_path.h"

enum { SYS_CREATE_RULESET = 444, SYS_ADD_RULE = 445, SYS_RESTRICT_SELF = 446 };
enum { VERSION_FLAG = 1, RULE_PATH = 1, RULE_PORT = 2 };

enum {
    EXECUTE = 1 << 0,
    WRITE_FILE = 1 << 1,
    READ_FILE = 1 << 2,
    READ_DIR = 1 << 3,
    REMOVE_DIR = 1 << 4,
    REMOVE_FILE = 1 << 5,
    MAKE_DIR = 1 << 7,
    MAKE_REG = 1 << 8,
    MAKE_SOCK = 1 << 9,
    MAKE_FIFO = 1 << 10,
    MAKE_SYM = 1 << 12,
    REFER = 1 << 13,
    TRUNCATE = 1 << 14,
    IOCTL_DEV = 1 << 15,

    FILES_OF_ABI_1 = (1 << 13) - 1, /* with character and block devices, which nobody is granted */
    READ = READ_FILE | READ_DIR,
    WRITE = READ | WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_SOCK | MAKE_FIFO |
            MAKE_SYM | REFER | TRUNCATE | IOCTL_DEV,
    OF_A_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV,
};
enum { BIND_TCP = 1, CONNECT_TCP = 2 };
enum { ABSTRACT_SOCKETS = 1, SIGNALS = 2 };

struct ruleset {
    uint64_t files, network, scoped;
};
struct path_rule {
    uint64_t allowed;
    int32_t place;
} __attribute__((packed));
struct port_rule {
    uint64_t allowed, port;
};

static const uint64_t rights[] = {
    [GRANT_LIST] = READ_DIR, [GRANT_READ] = READ, [GRANT_WRITE] = WRITE, [GRANT_EXECUTE] = READ | EXECUTE};

static int abi, ruleset = -1;
static struct ruleset handled;

static struct ruleset handled_by(int abi) {
    struct ruleset all = {.files = FILES_OF_ABI_1};
    if (abi >= 2)
        all.files |= REFER;
    if (abi >= 3)
        all.files |= TRUNCATE;
    if (abi >= 4)
        all.network = BIND_TCP | CONNECT_TCP;
    if (abi >= 5)
        all.files |= IOCTL_DEV;
    if (abi >= 6)
        all.scoped = ABSTRACT_SOCKETS | SIGNALS;
    return all;
}

/* The ruleset comes with the first word that needs it. */
static int begin(void) {
    if (ruleset >= 0)
        return 0;
    abi = (int)syscall(SYS_CREATE_RULESET, NULL, 0, VERSION_FLAG);
    if (abi < 0)
        return -1;
    handled = handled_by(abi);
    ruleset = (int)syscall(SYS_CREATE_RULESET, &handled, sizeof handled, 0);
    return ruleset < 0 ? -1 : 0;
}

static int is_out_of_reach(int number) {
    return number == ENOENT || number == ENOTDIR || number == EACCES;
}

int landlock_grant(enum grant grant, const char *path) {
    struct path_rule rule = {0, -1};
    struct stat about;
    if (begin() != 0)
        return -1;
    rule.place = open_real(path);
    if (rule.place < 0)
        return is_out_of_reach(errno) ? 0 : -1;
    if (fstat(rule.place, &about) != 0)
        return -1;
    rule.allowed = rights[grant] & handled.files & (S_ISDIR(about.st_mode) ? ~0ULL : OF_A_FILE);
    if (syscall(SYS_ADD_RULE, ruleset, RULE_PATH, &rule, 0) != 0)
        return -1;
    return close(rule.place);
}

int landlock_grant_connect(const char *text) {
    char *end;
    struct port_rule rule = {.allowed = CONNECT_TCP, .port = strtoul(text, &end, 10)};
    if (begin() != 0)
        return -1;
    if (handled.network == 0)
        return 0;
    errno = EINVAL;
    return *text == '\0' || *end != '\0' ? -1 : (int)syscall(SYS_ADD_RULE, ruleset, RULE_PORT, &rule, 0);
}

int landlock_enforce(void) {
    if (begin() != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    return syscall(SYS_RESTRICT_SELF, ruleset, 0) != 0 ? -1 : abi;
}
