package docker

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// envLog names the file that takes a node's output, as the node sees it.
const envLog = "UETLAB_LOG"

// TakeLog is for the node's side: it makes Spec.Log the standard output and error of the calling process, so that the
// logs of nodes are files of the lab as on the embedded runtime, follow a restart and outlive the lab daemon. Outside
// a container of this package it does nothing. What was written before stays in the engine's own log.
func TakeLog() error {
	path := os.Getenv(envLog)
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return fmt.Errorf("log of the node: %w", err)
	}
	defer f.Close()
	for _, fd := range []int{1, 2} {
		if err := unix.Dup3(int(f.Fd()), fd, 0); err != nil {
			return fmt.Errorf("log of the node: %s: %w", path, err)
		}
	}
	return nil
}
