// Package namespace runs commands and functions inside the Linux namespaces of another process, and waits for
// processes by descriptor. It refuses to leave a changed thread behind: whatever enters a namespace does so on
// an OS thread that ends with the call. All functions may be called concurrently. It needs Linux 5.8
// (setns by pidfd) and, for the namespaces, CAP_SYS_ADMIN over the user namespace that owns them.
package namespace

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// ErrGone says that the process whose namespaces were asked for has ended.
var ErrGone = errors.New("the process has ended")

// OnThread runs fn on an OS thread of its own that is thrown away afterwards, so fn may change whatever the
// kernel keeps per thread: namespaces, root, working directory.
// The process's main thread is never used, since it cannot be thrown away and /proc/PID describes it.
func OnThread(fn func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// Holding the main thread locked forces the next goroutine onto another one.
			defer runtime.UnlockOSThread()
			done <- OnThread(fn)
			return
		}
		// No unlock: the thread ends with this goroutine.
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			done <- fmt.Errorf("take a thread of its own: unshare: %w", err)
			return
		}
		done <- fn()
	}()
	return <-done
}

// OpenNet opens the network namespace of process pid; the caller closes the file.
func OpenNet(pid int) (*os.File, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return nil, fmt.Errorf("network namespace of process %d: %w", pid, err)
	}
	return f, nil
}

// InNet runs fn on a thread of its own in the network namespace ns.
func InNet(ns *os.File, fn func() error) error {
	return OnThread(func() error {
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter network namespace: setns: %w", err)
		}
		return fn()
	})
}
