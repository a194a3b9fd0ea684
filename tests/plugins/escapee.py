"""A plugin that tries to get out of its sandbox, and tells what came of it. Standard library only.

It speaks the contract that it is spoken to in: mcptest, rune or ainb. A call's `tries` is "read /etc/shadow;
tcp 80": what to try, each with its arguments. The answer has "done" for what worked, else the reason.
Each is tried in a process of its own, whose exit status is the error's number.
"""

import ctypes
import errno
import fcntl
import json
import mmap
import os
import signal
import socket
import sys
import time

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
NUMBERS = {
    "x86_64": {"io_uring": 425, "keyctl": 250, "userfaultfd": 323, "ptrace": 101, "memory of": 310},
    "aarch64": {"io_uring": 425, "keyctl": 219, "userfaultfd": 282, "ptrace": 117, "memory of": 270},
}[os.uname().machine]
SEIZE = 0x4206
NEWNS, NEWUSER = 0x20000, 0x10000000
NAME = os.path.basename(sys.argv[0])


def call(name, *args):
    result = libc.syscall(*(ctypes.c_long(number) for number in (NUMBERS[name], *args)))
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result


def checked(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), "")


def connected(kind, address, family=socket.AF_INET):
    with socket.socket(family, kind) as wire:
        wire.settimeout(20)
        wire.connect(address)
        if kind == socket.SOCK_DGRAM:
            wire.send(b"?")
            wire.recv(1)


def read(path):
    with open(path, "rb") as file:
        file.read(16)


def listing(path):
    os.listdir(path)


def write(path):
    with open(path, "ab") as file:
        file.write(b"x")


def tcp(port):
    connected(socket.SOCK_STREAM, ("127.0.0.1", int(port)))


def udp(port):
    connected(socket.SOCK_DGRAM, ("127.0.0.1", int(port)))


def abstract(name):
    connected(socket.SOCK_STREAM, "\0" + name, socket.AF_UNIX)


def unix(path):
    connected(socket.SOCK_STREAM, path, socket.AF_UNIX)


def kill(pid):
    os.kill(int(pid), 0)


def ptrace(pid):
    call("ptrace", SEIZE, int(pid), 0, 0)


def memory_of(pid):
    """Fails for the address alone, once it is allowed."""
    here = ctypes.create_string_buffer(8)
    local, remote = (ctypes.c_size_t * 2)(ctypes.addressof(here), 8), (ctypes.c_size_t * 2)(0, 8)
    try:
        call("memory of", int(pid), ctypes.addressof(local), 1, ctypes.addressof(remote), 1, 0)
    except OSError as error:
        if error.errno != errno.EFAULT:
            raise


def limit_of(pid):
    """Sets another process's limit to what it is."""
    import resource

    resource.prlimit(int(pid), resource.RLIMIT_CORE, resource.prlimit(int(pid), resource.RLIMIT_CORE))


def nice(pid):
    os.setpriority(os.PRIO_PROCESS, int(pid), 19)


def pin(pid):
    os.sched_setaffinity(int(pid), os.sched_getaffinity(int(pid)))


def environ(pid):
    read(f"/proc/{pid}/environ")


def proc(pid):
    read(f"/proc/{pid}/cmdline")


def chmod(path):
    os.chmod(path, 0o666)


def touch(path):
    os.utime(path)


def truncate(path):
    os.truncate(path, 0)


def tag(path):
    os.setxattr(path, "user.escapee", b"x")


def watch(path):
    checked(min(0, libc.inotify_add_watch(libc.inotify_init(), path.encode(), 0x100)))


def userns():
    checked(libc.unshare(NEWUSER))


def mount():
    checked(libc.unshare(NEWUSER | NEWNS))
    checked(libc.mount(b"none", b"/tmp", b"tmpfs", 0, None))


def io_uring():
    try:
        call("io_uring", 1, 0)
    except OSError as error:
        if error.errno != errno.EFAULT:
            raise


def keyctl():
    call("keyctl", 0, -3, 0)


def userfaultfd():
    call("userfaultfd", os.O_CLOEXEC | 1)


def tiocsti():
    """Into a pipe: only who forbids it says that it is forbidden."""
    try:
        fcntl.ioctl(0, 0x5412, b"x")
    except OSError as error:
        if error.errno == errno.EPERM:
            raise


def forks(count):
    children = []
    try:
        for _ in range(int(count)):
            child = os.fork()
            if child == 0:
                signal.pause()
            children.append(child)
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def memory(size):
    mmap.mmap(-1, int(size), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()


def run(*command):
    """In this process: its exit status is not an errno, but 0 is success."""
    fd = os.open("/dev/null", os.O_WRONLY)
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    os.execv(command[0], command)


def memfd(path):
    """A copy of our own interpreter in memory, run to read the file."""
    fd = os.memfd_create("interpreter", 0)
    with open("/proc/self/exe", "rb") as program:
        while data := program.read(1 << 20):
            os.write(fd, data)
    os.dup2(os.open("/dev/null", os.O_WRONLY), 2)
    os.execv(f"/proc/self/fd/{fd}", ["python3", "-I", "-S", "-c", f"open({path!r}).read(1)"])


def bring(path):
    """A program written by the plugin, run to read the file."""
    program = f"/tmp/brought-{os.getpid()}-{time.time_ns()}"
    try:
        with open(program, "w") as file:
            file.write(f"#!{sys.executable} -IS\nopen({path!r}).read(1)\n")
        os.chmod(program, 0o755)
        quiet = [(os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0)]
        child = os.posix_spawn(program, [program], os.environ, file_actions=quiet)
        if os.waitpid(child, 0)[1]:
            raise OSError(errno.EACCES, "it could not read it")
    finally:
        os.unlink(program)


TRIES = {
    each.__name__: each
    for each in (
        read, listing, write, tcp, udp, abstract, unix, kill, ptrace, memory_of, limit_of, nice, pin, environ,
        proc, chmod, touch, truncate, tag, watch, userns, mount, io_uring, keyctl, userfaultfd, tiocsti, forks,
        memory, run, memfd, bring,
    )
}  # fmt: skip
TRIES["code"] = write


def attempt(words):
    child = os.fork()
    if child == 0:
        status = 255
        try:
            TRIES[words[0]](*words[1:])
            status = 0
        except OSError as error:
            status = error.errno or errno.ETIMEDOUT
        except MemoryError:
            status = errno.ENOMEM
        finally:
            os._exit(status)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return "done" if ended == 0 else errno.errorcode.get(ended, str(ended))


def answers(tries):
    words = [each.split() for each in tries.split(";")]
    return {each[0]: attempt(each) for each in words}


def say(message, framed):
    body = json.dumps(message).encode()
    data = b"Content-Length: %d\r\n\r\n%b" % (len(body), body) if framed else body + b"\n"
    while data:
        data = data[os.write(1, data) :]


def hear():
    line = sys.stdin.buffer.readline()
    if not line.startswith(b"Content-Length"):
        return (json.loads(line), False) if line else (None, False)
    sys.stdin.buffer.readline()
    return json.loads(sys.stdin.buffer.read(int(line.split(b":")[1]))), True


VAI = "vai.rpc.v1"


def main():
    while (heard := hear())[0] is not None:
        message, framed = heard
        method, number = message.get("method"), message.get("id")
        params = message.get("params") or message.get("input") or {}
        if message.get("type") == "hello":
            about = {"package_id": "acme/escapee", "version": "1.0.0"}
            say({"protocol": VAI, "type": "hello", "role": "plugin", "plugin": about}, framed)
        elif message.get("type") == "request" and message.get("protocol") == VAI:
            result = {"content": [], "structured_output": answers(message["body"]["input"]["tries"])}
            told = {"protocol": VAI, "type": "response", "id": number, "ok": True}
            say({**told, "body": {"status": "succeeded", "result": result}}, framed)
        elif message.get("type") == "handshake":
            manifest = {"plugin_id": NAME, "plugin_version": "1.0.0", "exposed_tools": ["try"]}
            manifest["protocol_version"] = message["protocol_version"]
            say({"type": "handshake", "manifest": manifest}, framed)
        elif "request_id" in message:
            told = {"type": "response", "request_id": message["request_id"], "status": "ok"}
            say({**told, "output": answers(params["tries"])}, framed)
        elif method in ("try", "escapee.try"):
            say({"jsonrpc": "2.0", "id": number, "result": answers(params["tries"])}, framed)
        elif number is not None:
            about = {"name": NAME, "version": "1.0.0", "api_version": 1, "methods": ["escapee.try"]}
            say({"jsonrpc": "2.0", "id": number, "result": about}, framed)


main()
