// Package cleanup removes whatever is left of a lab, from its state file and from what is really there, whether its
// daemon, its nodes or its files were killed or deleted. It is idempotent and touches nothing that is not the lab's.
package cleanup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/fabric/labdir"
	"github.com/uetlab/uetlab/fabric/runtime"
	"github.com/uetlab/uetlab/fabric/runtime/docker"
	"github.com/uetlab/uetlab/fabric/runtime/embedded"
)

const daemonWait = 5 * time.Second

// Lab removes all that is left of a lab: its daemon, nodes, containers and files.
func Lab(ctx context.Context, lab string) error {
	dir, err := labdir.At(lab)
	if err != nil {
		return err
	}
	var state struct {
		Handles []runtime.Handle `json:"nodes"`
	}
	if b, err := os.ReadFile(dir.State()); err == nil {
		_ = json.Unmarshal(b, &state) // what it does not tell is found anyway
	}
	errs := []error{stopDaemons(ctx, lab), embedded.New().Stop(ctx, lab, state.Handles)}
	rt, err := docker.New(ctx, docker.Config{})
	switch {
	case err == nil:
		errs = append(errs, rt.Stop(ctx, lab, nil))
		rt.Close()
	case hasContainers(state.Handles):
		errs = append(errs, fmt.Errorf("containers of lab %s: %w", lab, err))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return dir.Remove()
}

func hasContainers(handles []runtime.Handle) bool {
	for _, h := range handles {
		if h.Ref != "" {
			return true
		}
	}
	return false
}

// Daemons lists the processes of this user that are the daemon of a lab.
func Daemons(lab string) []int {
	var pids []int
	procs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range procs {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(p)))
		if err == nil && isDaemon(pid, lab) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// isDaemon recognizes `uetlab labd … --name LAB …` of this user.
func isDaemon(pid int, lab string) bool {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil || int(st.Uid) != os.Geteuid() || pid == os.Getpid() {
		return false
	}
	b, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil {
		return false
	}
	args := strings.Split(strings.TrimRight(string(b), "\x00"), "\x00")
	if len(args) < 2 || args[1] != "labd" {
		return false
	}
	for i := 2; i+1 < len(args); i++ {
		if args[i] == "--name" && args[i+1] == lab {
			return true
		}
	}
	return false
}

func stopDaemons(ctx context.Context, lab string) error {
	for _, pid := range Daemons(lab) {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // it has ended
		}
		err = endDaemon(ctx, fd, func() bool { return isDaemon(pid, lab) })
		unix.Close(fd)
		if err != nil {
			return fmt.Errorf("daemon of lab %s, process %d: %w", lab, pid, err)
		}
	}
	return nil
}

// endDaemon asks a daemon to take its lab down and kills it if it does not. mine is asked again with the process held
// fast, since numbers are used again.
func endDaemon(ctx context.Context, fd int, mine func() bool) error {
	if !mine() {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGTERM, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	deadline := time.Now().Add(daemonWait)
	for killed := false; ; {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 50)
		if n > 0 {
			return nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if !killed && (time.Now().After(deadline) || ctx.Err() != nil) {
			killed = true
			if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
	}
}
