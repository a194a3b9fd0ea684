"""The launcher in Python, for machines without a C compiler: the same interface, about 30 ms slower to start.

`launcher/plughost-launcher.c` explains what it does and why; names here are the same as there. It is run as a
script with the standard library only, so nothing of plughost is imported.
"""

import ctypes
import errno
import mmap
import os
import resource
import select
import signal
import struct
import sys
from collections.abc import Callable
from typing import NoReturn

REPORT_FD = 3
GIVEN_DENIALS_FD = 4
ASIDE_FD = 4
DENIALS_FD = 6
NOT_ENDED = -1
CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID = 0x20000, 0x10000000, 0x20000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REC, MS_SLAVE = 2, 4, 8, 0x4000, 1 << 19
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38
CAPABILITY_VERSION_3 = 0x20080522

libc = ctypes.CDLL(None, use_errno=True)


class Plan:
    """What to run: the arguments of the command line."""

    def __init__(
        self,
        nofile: str,
        cwd: str,
        confine: str,
        groups: str,
        proxy: str,
        listing: str,
        path: str,
        *argv: str,
    ) -> None:
        self.nofile = nofile
        self.cwd = cwd
        self.confine = confine
        self.groups = [] if groups == "-" else groups.split(":")
        self.proxy = proxy
        self.path = path
        self.argv = argv
        self.tells_denials = confine != "-" and is_open(GIVEN_DENIALS_FD)


def is_open(fd: int) -> bool:
    """Whether a descriptor is open."""
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


class ExitStatus:
    """The plugin's wait status, passed from the init process of the namespace to the launcher in shared
    memory."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, mmap.PAGESIZE)
        self.write(NOT_ENDED)

    def write(self, status: int) -> None:
        self._page[:4] = struct.pack("i", status)

    def read(self) -> int:
        status: int = struct.unpack("i", self._page[:4])[0]
        return status


def report(line: str) -> None:
    """Write a line to the report pipe."""
    try:
        os.write(REPORT_FD, line.encode() + b"\n")
    except OSError:
        pass  # the host has ended: `watch` will notice


def fail(stage: str, number: int) -> NoReturn:
    """Report a failed stage with its errno, and exit."""
    report(f"fail {stage} {number}")
    os._exit(127)


def close_stdio(plan: Plan) -> None:
    """Close the plugin's pipes in this process, so that only the plugin has them."""
    for fd in (0, 1, 2, REPORT_FD, *([GIVEN_DENIALS_FD] if plan.tells_denials else [])):
        os.close(fd)


def join(groups: list[str]) -> None:
    """Join control groups. Done before anything is started, because a child inherits its parent's groups."""
    for file in groups:
        try:
            with open(file, "wb", buffering=0) as door:
                door.write(b"0")
        except OSError as error:
            fail("group", error.errno or 0)


def environment() -> dict[bytes, bytes]:
    """The environment as the host passed it: Python itself may have changed LC_CTYPE in os.environ."""
    with open("/proc/self/environ", "rb") as given:
        pairs = given.read().split(b"\0")
    return {name: value for name, equals, value in (pair.partition(b"=") for pair in pairs) if equals}


def drop_user(confine: str) -> None:
    """Change from root to an ordinary user, irreversibly. This resets the parent-death signal."""
    if ":" not in confine:
        return
    uid, gid = (int(number) if number.isdecimal() else 0 for number in confine.split(":", 1))
    if not uid or not gid:
        fail("uid", errno.EINVAL)
    try:
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    except OSError as error:
        fail("uid", error.errno or 0)
    no_capabilities = bytes(24)
    if libc.capset(struct.pack("Ii", CAPABILITY_VERSION_3, 0), no_capabilities) != 0:
        fail("uid", ctypes.get_errno())
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        fail("uid", ctypes.get_errno())
    if not runs_as(uid, gid) or libc.setresuid(0, 0, 0) == 0:
        fail("uid", errno.EPERM)
    report(f"uid {uid}:{gid}")


def runs_as(uid: int, gid: int) -> bool:
    """Whether all user and group ids are these, without further groups."""
    return os.getresuid() == (uid,) * 3 and os.getresgid() == (gid,) * 3 and not os.getgroups()


def set_pipes_aside(plan: Plan) -> None:
    """Move stdin and stdout to higher descriptors, which bubblewrap, a parent of the plugin, closes in
    itself. plughost-inner moves them back."""
    if plan.tells_denials:
        os.dup2(GIVEN_DENIALS_FD, DENIALS_FD)
    for fd in (0, 1):
        os.dup2(fd, ASIDE_FD + fd)
    null = os.open(os.devnull, os.O_RDWR)  # closed before the program is executed
    for fd in (0, 1):
        os.dup2(null, fd)


def become_plugin(plan: Plan, env: dict[bytes, bytes]) -> NoReturn:
    """Reset signals, descriptors and limits, and execute the plugin's program."""
    for number in range(1, signal.NSIG):
        try:
            signal.signal(number, signal.SIG_DFL)
        except (OSError, ValueError):
            pass
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    os.closerange(REPORT_FD + 1 + plan.tells_denials, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    if plan.nofile != "-":
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (int(plan.nofile), hard))
    if plan.cwd != "-":
        try:
            os.chdir(plan.cwd)
        except OSError as error:
            fail("chdir", error.errno or 0)
    if plan.confine != "-":
        set_pipes_aside(plan)
    os.set_inheritable(REPORT_FD, plan.confine != "-")
    try:
        os.execve(plan.path, plan.argv, env)
    except OSError as error:
        fail("exec", error.errno or 0)


def die_with(fd_of_parent: int) -> None:
    """Have the kernel kill this process when its parent ends. The descriptor shows whether it has ended
    already."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if select.select([fd_of_parent], [], [], 0)[0]:
        os._exit(127)  # the parent died before the signal was set
    os.close(fd_of_parent)


def enter_namespaces() -> bool:
    """Create a PID namespace, in which the next child will be pid 1; False when that is not possible."""
    if os.geteuid() == 0 and libc.unshare(CLONE_NEWPID | CLONE_NEWNS) == 0:
        return True
    # A user namespace may be created and then refuse everything inside it. It cannot be left: try in a child.
    trial = os.fork()
    if trial == 0:
        os._exit(0 if enter_user_namespace() else 1)
    return os.waitpid(trial, 0)[1] == 0 and enter_user_namespace()


def enter_user_namespace() -> bool:
    """Create a user namespace, with this user's ids mapped, together with a PID and a mount namespace."""
    uid, gid = os.geteuid(), os.getegid()
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS) != 0:
        return False
    try:
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{uid} {uid} 1"),
            ("gid_map", f"{gid} {gid} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    except OSError:
        return False
    return True


def be_init(plan: Plan, env: dict[bytes, bytes], exit_status: ExitStatus) -> NoReturn:
    """Run as pid 1 of the namespace: start the plugin, reap orphans, record the plugin's status, and exit
    with it."""
    watched = {signal.SIGCHLD, signal.SIGUSR1}
    signal.set_wakeup_fd(-1)  # it is the launcher's: signals of the plugin must not be written to it
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, watched)
    plugin = os.fork()
    if plugin == 0:
        drop_user(plan.confine)
        become_plugin(plan, env)
    close_stdio(plan)
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    while True:
        info = signal.sigwaitinfo(watched)
        if info.si_signo == signal.SIGUSR1:
            if info.si_pid == 0:  # from outside this namespace only
                os.kill(plugin, signal.SIGTERM)
            continue
        for pid, status in reap_children():
            if pid == plugin:
                exit_status.write(status)
                os._exit(0)


def reap_children() -> list[tuple[int, int]]:
    """Reap all children that have ended: their process ids and wait statuses."""
    found: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        found.append((pid, status))


def start_in_namespace(
    plan: Plan, env: dict[bytes, bytes], exit_status: ExitStatus, alive: tuple[int, int]
) -> int:
    """Start the init process of the new PID namespace, which starts the plugin."""
    pid = os.fork()
    if pid:
        return pid
    os.close(alive[1])
    die_with(alive[0])
    report("mode pidns")
    libc.mount(b"none", b"/", None, MS_REC | MS_SLAVE, None)
    if libc.mount(b"proc", b"/proc", b"proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, None) != 0:
        report("proc host")
    be_init(plan, env, exit_status)


def start_below_subreaper(plan: Plan, env: dict[bytes, bytes], alive: tuple[int, int]) -> int:
    """Start the plugin as a child, with this process as the subreaper of its orphans."""
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        fail("subreaper", ctypes.get_errno())
    pid = os.fork()
    if pid:
        return pid
    os.close(alive[1])
    drop_user(plan.confine)
    die_with(alive[0])
    report("mode subreaper")
    become_plugin(plan, env)


def kill_all_below() -> None:
    """Kill all descendants. Orphans of a killed child become our children, so killing children until there
    are none ends them all."""
    while True:
        with open(f"/proc/self/task/{os.getpid()}/children") as children:
            for pid in children.read().split():
                os.kill(int(pid), signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def end_as(status: int) -> NoReturn:
    """Exit with the plugin's exit code, or die of the same signal."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 127)


def watch(host_fd: int, woken: int, child: int, exit_status: ExitStatus, in_namespace: bool) -> NoReturn:
    """Wait until the host ends, or asks for the end (SIGTERM), or the plugin ends; then end everything and
    exit."""
    end_now = False
    while not end_now:
        ready = select.select([host_fd, woken], [], [])[0]
        end_now = host_fd in ready
        for number in os.read(woken, 512) if woken in ready else b"":
            if number == signal.SIGTERM:
                end_now = True
            elif number == signal.SIGUSR1:
                os.kill(child, signal.SIGUSR1 if in_namespace else signal.SIGTERM)
        for pid, status in reap_children():
            if pid != child:
                continue
            if not in_namespace:
                kill_all_below()
            recorded = exit_status.read()
            end_as(recorded if in_namespace and recorded != NOT_ENDED else status)
    if in_namespace:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)  # returns when the last process of the namespace is gone
    else:
        kill_all_below()
    recorded = exit_status.read()
    end_as(recorded if recorded != NOT_ENDED else signal.SIGKILL)


def signal_pipe(numbers: set[signal.Signals]) -> int:
    """A descriptor from which the numbers of received signals can be read."""
    woken, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    ignore: Callable[[int, object], None] = lambda number, frame: None  # noqa: E731
    for number in numbers:
        signal.signal(number, ignore)
    return woken


def main() -> None:
    """Start the plugin given on the command line, and watch it until it has ended."""
    host, mode = int(sys.argv[1]), sys.argv[2]
    plan = Plan(*sys.argv[3:])
    env = environment()
    os.set_inheritable(REPORT_FD, False)
    os.closerange(REPORT_FD + 1 + plan.tells_denials, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    os.setsid()
    try:
        host_fd = os.pidfd_open(host)
    except OSError as error:
        fail("pidfd_open", error.errno or 0)
    if os.getppid() != host:
        os._exit(127)
    join(plan.groups)
    if plan.proxy != "-":
        fail("forward", errno.ENOSYS)  # the forwarder is the compiled launcher's
    woken = signal_pipe({signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD})
    exit_status = ExitStatus()
    alive = os.pipe2(os.O_CLOEXEC)
    in_namespace = mode != "subreaper" and enter_namespaces()
    if mode == "pidns" and not in_namespace:
        fail("namespace", ctypes.get_errno())
    if in_namespace:
        child = start_in_namespace(plan, env, exit_status, alive)
    else:
        child = start_below_subreaper(plan, env, alive)
    close_stdio(plan)
    os.close(alive[0])
    watch(host_fd, woken, child, exit_status, in_namespace)


if __name__ == "__main__":
    main()
