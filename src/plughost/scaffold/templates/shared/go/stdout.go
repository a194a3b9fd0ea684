package main

import (
	"os"
	"syscall"
)

// claimStdout keeps stdout for the host: what it returns is the only way left to write to it. Whatever else is
// printed, by this program or by a child, goes to stderr, the host's log.
func claimStdout() (*os.File, error) {
	kept, err := syscall.Dup(1)
	if err != nil {
		return nil, err
	}
	syscall.CloseOnExec(kept)
	return os.NewFile(uintptr(kept), "the host"), syscall.Dup3(2, 1, 0)
}
