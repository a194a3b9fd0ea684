"""A plugin in three languages that opens files and runs programs as it is told; paths come as hex."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.confinable import PUBLIC_PYTHON

IN_PYTHON = """
import json, os, signal, subprocess, sys
def do(asked):
    path = bytes.fromhex(asked["params"]["hex"])
    if asked["method"] == "open":
        os.close(os.open(path, asked["params"].get("flags", 0)))
    elif asked["method"] == "flood":
        for number in range(asked["params"]["count"]):
            try:
                os.close(os.open(path + b"%d" % number, 0))
            except OSError:
                pass
    elif asked["method"] == "look":  # with stat(2) itself, as Bun does and the C library no longer
        import ctypes
        call = ctypes.CDLL(None, use_errno=True).syscall
        if call(4, path, ctypes.create_string_buffer(1024)) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    elif asked["method"] == "signal":
        os.kill(os.getppid(), signal.SIGKILL)
    else:
        subprocess.run([path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return "done"
for line in sys.stdin:
    asked = json.loads(line)
    try:
        result = do(asked)
    except OSError as error:
        result = error.strerror
    print(json.dumps({"id": asked["id"], "result": result}), flush=True)
"""

IN_NODE = """
const fs = require('fs'), {spawnSync} = require('child_process')
require('readline').createInterface({input: process.stdin}).on('line', line => {
  const asked = JSON.parse(line), path = Buffer.from(asked.params.hex, 'hex')
  let result = 'done'
  try {
    if (asked.method === 'open') fs.closeSync(fs.openSync(path))
    else { const ran = spawnSync(path.toString()); if (ran.error) throw ran.error }
  } catch (error) { result = error.code }
  console.log(JSON.stringify({id: asked.id, result}))
})
"""

IN_C = r"""
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    char line[16384], path[8192];
    while (fgets(line, sizeof line, stdin)) {
        unsigned id, byte, length = 0;
        sscanf(strstr(line, "\"id\":") + 5, "%u", &id);
        for (char *hex = strstr(line, "\"hex\":\"") + 7; sscanf(hex, "%2x", &byte) == 1; hex += 2)
            path[length++] = (char)byte;
        path[length] = 0;
        char *argv[] = {path, NULL};
        pid_t pid;
        int failed;
        if (strstr(line, "\"open\"")) {
            int fd = open(path, O_RDONLY);
            failed = fd < 0 ? errno : close(fd);
        } else {
            posix_spawn_file_actions_t silent;
            posix_spawn_file_actions_init(&silent);
            posix_spawn_file_actions_addopen(&silent, 1, "/dev/null", O_WRONLY, 0);
            failed = posix_spawnp(&pid, path, &silent, NULL, argv, NULL);
            if (!failed)
                waitpid(pid, NULL, 0);
        }
        printf("{\"id\":%u,\"result\":\"%s\"}\n", id, failed ? strerror(failed) : "done");
        fflush(stdout);
    }
}
"""


def command(language: str, folder: Path) -> list[str]:
    """How the plugin is run; what has to be built is built in `folder`."""
    if language == "python":
        return [PUBLIC_PYTHON, "-I", "-S", "-c", IN_PYTHON]
    program = shutil.which("node" if language == "node" else "cc")
    if program is None:
        assert not os.environ.get("CI"), f"nothing to run {language} with"
        pytest.skip(f"nothing to run {language} with")
    if language == "node":
        return ["node", "-e", IN_NODE]
    code = folder / "code"
    code.mkdir(exist_ok=True)
    subprocess.run([program, "-x", "c", "-", "-o", code / "asking"], input=IN_C, text=True, check=True)
    return [str(code / "asking")]
