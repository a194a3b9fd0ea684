// escapee.py in Go: the same tries by the same words, in whichever contract it is spoken to.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func opened(path string, flags int) error {
	file, err := os.OpenFile(path, flags, 0o666)
	if err != nil {
		return err
	}
	defer file.Close()
	if flags == os.O_RDONLY {
		_, err = file.Read(make([]byte, 1))
	} else {
		_, err = file.Write([]byte("x"))
	}
	return err
}

func connected(network, address string) error {
	wire, err := net.DialTimeout(network, address, 2*time.Second)
	if err != nil {
		return err
	}
	defer wire.Close()
	if network != "udp" {
		return nil
	}
	wire.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err = wire.Write([]byte("?")); err == nil {
		_, err = wire.Read(make([]byte, 1))
	}
	return err
}

func called(number uintptr, args ...uintptr) error {
	args = append(args, 0, 0, 0)
	_, _, failed := syscall.Syscall6(number, args[0], args[1], args[2], 0, 0, 0)
	if failed != 0 {
		return failed
	}
	return nil
}

// In a process of its own, which may be in namespaces of its own: what it seizes or makes ends with it.
func apart(flags uintptr, words ...string) error {
	child := exec.Command(os.Args[0], words...)
	own := func(id int) []syscall.SysProcIDMap {
		return []syscall.SysProcIDMap{{ContainerID: 0, HostID: id, Size: 1}}
	}
	child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	if flags != 0 {
		child.SysProcAttr.UidMappings, child.SysProcAttr.GidMappings = own(os.Getuid()), own(os.Getgid())
	}
	return child.Run()
}

// Without Go's own ways to start a process, which need threads.
func forks(count int) error {
	var children []int
	defer func() {
		for _, child := range children {
			syscall.Kill(child, syscall.SIGKILL)
		}
	}()
	for made := 0; made < count; made++ {
		child, _, failed := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
		if failed != 0 {
			return failed
		}
		for child == 0 {
			syscall.RawSyscall6(syscall.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
		}
		children = append(children, int(child))
	}
	return nil
}

func inOwnProcess(name, argument string) error {
	number, _ := strconv.Atoi(argument)
	switch name {
	case "ptrace":
		return called(syscall.SYS_PTRACE, 0x4206, uintptr(number)) // PTRACE_SEIZE
	case "mount":
		return syscall.Mount("none", "/tmp", "tmpfs", 0, "")
	case "forks":
		return forks(number)
	}
	return nil
}

func attempt(name, argument string) error {
	number, _ := strconv.Atoi(argument)
	switch name {
	case "read":
		return opened(argument, os.O_RDONLY)
	case "write":
		return opened(argument, os.O_WRONLY|os.O_CREATE|os.O_APPEND)
	case "tcp", "udp":
		return connected(name, "127.0.0.1:"+argument)
	case "abstract":
		return connected("unix", "@"+argument)
	case "unix":
		return connected("unix", argument)
	case "kill":
		return syscall.Kill(number, 0)
	case "environ":
		return opened("/proc/"+argument+"/environ", os.O_RDONLY)
	case "proc":
		return opened("/proc/"+argument+"/cmdline", os.O_RDONLY)
	case "userns":
		return apart(syscall.CLONE_NEWUSER, "nothing")
	case "mount":
		return apart(syscall.CLONE_NEWUSER|syscall.CLONE_NEWNS, name)
	case "ptrace", "forks":
		return apart(0, name, argument)
	case "keyctl":
		return called(syscall.SYS_KEYCTL, 0, ^uintptr(2), 0) // of the session
	case "userfaultfd":
		return called(map[string]uintptr{"amd64": 323, "arm64": 282}[runtime.GOARCH], syscall.O_CLOEXEC|1)
	case "io_uring":
		if err := called(425, 1, 0); err != syscall.EFAULT {
			return err
		}
		return nil
	case "memory":
		_, err := syscall.Mmap(-1, 0, number, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
		return err
	case "run":
		return exec.Command(argument).Run()
	}
	return syscall.ENOTSUP
}

func answers(tries string) map[string]string {
	told := map[string]string{}
	for _, each := range strings.Split(tries, ";") {
		words := append(strings.Fields(each), "")
		told[words[0]] = "done"
		if err := attempt(words[0], words[1]); err != nil {
			told[words[0]] = err.Error()
		}
	}
	return told
}

type message struct {
	ID        json.RawMessage   `json:"id"`
	RequestID string            `json:"request_id"`
	Type      string            `json:"type"`
	Method    string            `json:"method"`
	Vai       string            `json:"protocol"`
	Protocol  string            `json:"protocol_version"`
	Params    map[string]string `json:"params"`
	Input     map[string]string `json:"input"`
	Body      struct {
		Input map[string]string `json:"input"`
	} `json:"body"`
}

func handle(body []byte) any {
	var heard message
	name := filepath.Base(os.Args[0])
	json.Unmarshal(body, &heard) // plugin/init has other params; what was read before them counts
	switch {
	case heard.Type == "hello":
		about := map[string]any{"package_id": "acme/escapee", "version": "1.0.0"}
		return map[string]any{"protocol": "vai.rpc.v1", "type": "hello", "role": "plugin", "plugin": about}
	case heard.Type == "request" && heard.Vai != "":
		result := map[string]any{"content": []string{}, "structured_output": answers(heard.Body.Input["tries"])}
		return map[string]any{"protocol": "vai.rpc.v1", "type": "response", "id": heard.ID, "ok": true,
			"body": map[string]any{"status": "succeeded", "result": result}}
	case heard.Type == "handshake":
		manifest := map[string]any{"plugin_id": name, "plugin_version": "1.0.0",
			"protocol_version": heard.Protocol, "exposed_tools": []string{"try"}}
		return map[string]any{"type": "handshake", "manifest": manifest}
	case heard.RequestID != "":
		return map[string]any{"type": "response", "request_id": heard.RequestID, "status": "ok",
			"output": answers(heard.Input["tries"])}
	case heard.ID == nil:
		return nil
	case heard.Method == "try" || heard.Method == "escapee.try":
		return map[string]any{"jsonrpc": "2.0", "id": heard.ID, "result": answers(heard.Params["tries"])}
	}
	return map[string]any{"jsonrpc": "2.0", "id": heard.ID, "result": map[string]any{
		"name": name, "version": "1.0.0", "api_version": 1, "methods": []string{"escapee.try"}}}
}

func main() {
	if len(os.Args) > 1 {
		if inOwnProcess(os.Args[1], strings.Join(os.Args[2:], "")) != nil {
			os.Exit(1)
		}
		return
	}
	requests := bufio.NewReader(os.Stdin)
	for {
		line, err := requests.ReadBytes('\n')
		if err != nil {
			return
		}
		size, framed := strings.CutPrefix(string(line), "Content-Length:")
		if framed {
			count, _ := strconv.Atoi(strings.TrimSpace(size))
			requests.ReadBytes('\n')
			line = make([]byte, count)
			io.ReadFull(requests, line)
		}
		answer := handle(line)
		if answer == nil {
			continue
		}
		body, _ := json.Marshal(answer)
		if framed {
			fmt.Printf("Content-Length: %d\r\n\r\n%s", len(body), body)
		} else {
			fmt.Printf("%s\n", body)
		}
	}
}
