package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/labdir"
	"github.com/uetlab/uetlab/fabric/runtime/embedded"
)

// daemon is a lab daemon that this process has started.
type daemon struct {
	dir      *labdir.Dir
	cmd      *exec.Cmd
	progress *os.File      // read end of the pipe
	ended    chan struct{} // closed when the process is gone
}

const (
	stopTime  = 40 * time.Second // a daemon that takes its lab down
	cleanTime = 60 * time.Second
)

// spawn starts the lab's daemon detached from this terminal, without root inside the outer namespaces of the lab. Its
// output goes to the log, its progress to a pipe on its descriptor 3.
func spawn(d *labdir.Dir, rootless bool, more ...string) (*daemon, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("up: %w", err)
	}
	log, err := os.OpenFile(d.DaemonLog(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("up: %w", err)
	}
	defer log.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("up: %w", err)
	}
	defer w.Close()
	keepDescriptors()
	cmd := exec.Command(exe, append([]string{labdName, "--name", d.Lab}, more...)...)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles, cmd.Dir = log, log, []*os.File{w}, "/"
	// In a user namespace the daemon would take itself for root and look elsewhere.
	cmd.Env = append(os.Environ(), labdir.EnvDir+"="+filepath.Dir(d.Path))
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if rootless {
		cmd.SysProcAttr = embedded.OuterNamespaces()
	}
	cmd.SysProcAttr.Setsid = true
	if err := cmd.Start(); err != nil {
		_ = r.Close()
		return nil, spawnError(err, rootless)
	}
	p := &daemon{dir: d, cmd: cmd, progress: r, ended: make(chan struct{})}
	go func() { // ends with the daemon, or with this process
		_ = cmd.Wait() // how it ended stands in the progress and the log
		close(p.ended)
	}()
	return p, nil
}

// keepDescriptors keeps from the processes that this one starts whatever descriptors its caller has left open: a daemon
// and its nodes would hold a script's lock, or the end of its pipe, for as long as the lab is up. Kernels before 5.11
// cannot; there they stay open.
func keepDescriptors() { _ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) }

func spawnError(err error, rootless bool) error {
	if rootless && (errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EINVAL)) {
		return api.Errorf(api.CodePrecondition, "up: user namespaces are not to be had: %w", err).WithHint("uetlab doctor says how to allow them; or use root")
	}
	return fmt.Errorf("up: start the lab daemon: %w", err)
}

// ready reads the daemon's progress until the lab is ready, and hands each line over.
func (p *daemon) ready(ctx context.Context, show func(api.Progress)) error {
	stop := context.AfterFunc(ctx, func() { _ = p.progress.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	defer p.progress.Close()
	in := json.NewDecoder(p.progress)
	for {
		var line api.Progress
		err := in.Decode(&line)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return p.died(err)
		case line.Error != nil:
			return line.Error
		case line.Stage == api.StageReady:
			return nil
		}
		show(line)
	}
}

// died tells of a daemon that went without a word, with the last line of its log.
func (p *daemon) died(err error) error {
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("up: progress of the lab daemon: %w", err)
	}
	why := "it says nothing"
	if b, err := os.ReadFile(p.dir.DaemonLog()); err == nil {
		if lines := bytes.Split(bytes.TrimSpace(b), []byte("\n")); len(lines[len(lines)-1]) > 0 {
			why = string(lines[len(lines)-1])
		}
	}
	return api.Errorf(api.CodeFailure, "up: the lab daemon has ended: %s", why).WithHint("uetlab doctor checks what a lab needs")
}

// stop tells the daemon to take the lab down, and waits until it has ended.
func (p *daemon) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	select {
	case <-p.ended:
		return
	case <-time.After(stopTime):
	}
	p.kill()
}

// kill ends the daemon and leaves the lab as it is.
func (p *daemon) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}
