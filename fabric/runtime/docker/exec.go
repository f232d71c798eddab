package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path"
	"strings"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/uetlab/uetlab/fabric/runtime"
	"github.com/uetlab/uetlab/fabric/runtime/namespace"
	"github.com/uetlab/uetlab/fabric/topology"
)

// Exec runs a command in a node. One that the node's image has runs inside it with the container's rights and limits.
// Any other is a program of this machine, which a host node without an image sees too; it runs in the container's
// namespaces with the caller's rights, so that tcpdump, say, may change its user. Where the container's processes
// cannot be seen from here (the lab daemon runs in a container itself) only what the node sees can be run. With TTY set, Files[0] is in raw mode while such a command runs. When ctx ends the command is killed.
func (r *Runtime) Exec(ctx context.Context, e runtime.Exec) (int, error) {
	if len(e.Argv) == 0 || e.Argv[0] == "" {
		return 0, errors.New("docker: exec: no command given")
	}
	same := func() bool { return inContainer(e.Handle.Pid, e.Handle.Ref) }
	where, err := r.lookup(ctx, e)
	if err != nil {
		return 0, fmt.Errorf("docker: exec in node %s: %w", e.Handle.Node, err)
	}
	if where != inImage && same() {
		return namespace.Exec(ctx, e, same)
	}
	if where == onMachine {
		return 0, fmt.Errorf("docker: exec in node %s: the node's image has no %s, and the namespaces of the node cannot be entered from here: "+
			"the lab daemon runs in a container; run uetlab on the machine itself, as root", e.Handle.Node, e.Argv[0])
	}
	code, err := r.execInside(ctx, e)
	if err != nil {
		return code, fmt.Errorf("docker: exec in node %s: %w", e.Handle.Node, err)
	}
	return code, nil
}

// place is where a command was found.
type place int

const (
	inImage   place = iota
	inBinds         // perhaps among this machine's programs that a host node without an image sees
	onMachine       // at most on this machine
)

// lookup finds the command's place. It is an error if the container does not run.
func (r *Runtime) lookup(ctx context.Context, e runtime.Exec) (place, error) {
	c, err := r.cli.ContainerInspect(ctx, e.Handle.Ref)
	switch {
	case err != nil:
		return 0, err
	case c.State == nil || c.Config == nil || !c.State.Running:
		return 0, errors.New("its container does not run")
	case e.Argv[0] == "/uetlab":
		return inImage, nil
	case c.Config.Labels[labelKind] != string(topology.KindHost):
		return onMachine, nil // the image has nothing but /uetlab
	case c.Config.Labels[labelBase] == "":
		return inBinds, nil
	}
	found, err := r.imageHas(ctx, e)
	if err != nil || found {
		return inImage, err
	}
	return onMachine, nil
}

// imageHas looks for the command in the root of a container.
func (r *Runtime) imageHas(ctx context.Context, e runtime.Exec) (bool, error) {
	dirs := []string{"/"}
	if !strings.Contains(e.Argv[0], "/") {
		list := namespace.DefaultPath
		for _, kv := range e.Env {
			if v, ok := strings.CutPrefix(kv, "PATH="); ok {
				list = v
			}
		}
		dirs = strings.Split(list, ":")
	}
	for _, d := range dirs {
		st, err := r.cli.ContainerStatPath(ctx, e.Handle.Ref, path.Join("/", d, e.Argv[0]))
		if err != nil && !notFound(err) {
			return false, err
		}
		if err == nil && (st.Mode&os.ModeSymlink != 0 || st.Mode.IsRegular() && st.Mode&0o111 != 0) {
			return true, nil
		}
	}
	return false, nil
}

// inContainer reports that process pid belongs to the container: its cgroup is named after it. Where PIDs of the
// engine mean nothing to us (we run in a container) the answer is no.
func inContainer(pid int, ref string) bool {
	if pid <= 0 || len(ref) < 12 {
		return false
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	return err == nil && strings.Contains(string(data), ref)
}

// execInside runs a command through the engine.
func (r *Runtime) execInside(ctx context.Context, e runtime.Exec) (int, error) {
	opts := container.ExecOptions{Cmd: e.Argv, Env: e.Env, Tty: e.TTY, AttachStdin: e.Files[0] != nil, AttachStdout: true, AttachStderr: true}
	if e.TTY {
		if e.Files[0] == nil {
			return 0, errors.New("a terminal is asked for but there is none")
		}
		opts.ConsoleSize = consoleSize(e.Files[0])
	}
	ex, err := r.cli.ContainerExecCreate(ctx, e.Handle.Ref, opts)
	if err != nil {
		return 0, err
	}
	// The connection must outlive ctx: it tells when the killed command is gone.
	conn, err := r.cli.ContainerExecAttach(context.WithoutCancel(ctx), ex.ID, container.ExecAttachOptions{Tty: e.TTY, ConsoleSize: opts.ConsoleSize})
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() {
		if !r.killExec(context.WithoutCancel(ctx), ex.ID) {
			conn.Close()
		}
	})
	defer stop()
	if e.TTY {
		restore, err := r.takeTerminal(ctx, ex.ID, e.Files[0])
		if err != nil {
			return 0, err
		}
		defer restore()
	}
	if err := copyStreams(e, conn); err != nil && ctx.Err() == nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil {
		return 128 + int(unix.SIGKILL), err
	}
	return r.exitCode(ctx, ex.ID)
}

// copyStreams copies until the command's output ends.
func copyStreams(e runtime.Exec, conn types.HijackedResponse) error {
	if e.Files[0] != nil {
		wake, done, err := pump(e.Files[0], conn)
		if err != nil {
			return err
		}
		defer func() { wake.Close(); <-done }()
	}
	out, errOut := writer(e.Files[1]), writer(e.Files[2])
	var err error
	if e.TTY {
		_, err = io.Copy(out, conn.Reader)
	} else {
		_, err = stdcopy.StdCopy(out, errOut, conn.Reader)
	}
	// A terminal's last read may end in a reset; what counts is the exit code, asked for next.
	if errors.Is(err, unix.ECONNRESET) {
		return nil
	}
	return err
}

func writer(f *os.File) io.Writer {
	if f == nil {
		return io.Discard
	}
	return f
}

// pump copies in to the connection until it ends or wake is closed; done is closed when it has let go of in. It waits
// with poll, because a read of a terminal cannot be called off and would swallow what is typed after the command's end.
func pump(in *os.File, conn types.HijackedResponse) (wake io.Closer, done <-chan struct{}, err error) {
	rd, wr, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		defer rd.Close()
		buf := make([]byte, 32<<10)
		fds := []unix.PollFd{{Fd: int32(in.Fd()), Events: unix.POLLIN}, {Fd: int32(rd.Fd()), Events: unix.POLLIN}}
		for {
			if _, err := unix.Poll(fds, -1); err != nil && err != unix.EINTR {
				return
			}
			if fds[1].Revents != 0 {
				return
			}
			if fds[0].Revents == 0 {
				continue
			}
			n, err := in.Read(buf)
			if n > 0 {
				if _, werr := conn.Conn.Write(buf[:n]); werr != nil {
					return
				}
			}
			if err != nil {
				_ = conn.CloseWrite()
				return
			}
		}
	}()
	return wr, finished, nil
}

// takeTerminal puts the terminal into raw mode and tells the engine of changes of its size until restore is called.
func (r *Runtime) takeTerminal(ctx context.Context, exec string, tty *os.File) (restore func(), err error) {
	fd := int(tty.Fd())
	old, err := term.MakeRaw(fd)
	if err != nil {
		return nil, fmt.Errorf("terminal: %w", err)
	}
	resize := func() {
		if s := consoleSize(tty); s != nil {
			_ = r.cli.ContainerExecResize(ctx, exec, container.ResizeOptions{Height: s[0], Width: s[1]})
		}
	}
	resize() // engines before API 1.42 do not take a size at the start
	ch := make(chan os.Signal, 1)
	done := make(chan struct{})
	signal.Notify(ch, unix.SIGWINCH)
	go func() {
		for {
			select {
			case <-ch:
				resize()
			case <-done:
				return
			}
		}
	}()
	return func() {
		signal.Stop(ch)
		close(done)
		_ = term.Restore(fd, old)
	}, nil
}

// consoleSize is a terminal's height and width in characters, nil when unknown.
func consoleSize(f *os.File) *[2]uint {
	w, h, err := term.GetSize(int(f.Fd()))
	if err != nil || w <= 0 || h <= 0 {
		return nil
	}
	return &[2]uint{uint(h), uint(w)}
}

// killExec kills a command started through the engine, whose API has no call for it. It reports false where that
// cannot be done safely, and the command then sees its input and output close.
func (r *Runtime) killExec(ctx context.Context, exec string) bool {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	// The command may run a while before the engine knows its PID.
	in, err := r.execState(ctx, exec, func(in container.ExecInspect) bool { return in.Pid > 0 || !in.Running })
	if err != nil || !in.Running {
		return false
	}
	fd, err := unix.PidfdOpen(in.Pid, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return inContainer(in.Pid, in.ContainerID) && unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil
}

// exitCode asks for the exit code of a command whose output has ended; the engine may notice the end a little later.
func (r *Runtime) exitCode(ctx context.Context, exec string) (int, error) {
	in, err := r.execState(ctx, exec, func(in container.ExecInspect) bool { return !in.Running })
	return in.ExitCode, err
}

// execState asks the engine about a command until the answer is as wanted.
func (r *Runtime) execState(ctx context.Context, exec string, wanted func(container.ExecInspect) bool) (container.ExecInspect, error) {
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		in, err := r.cli.ContainerExecInspect(ctx, exec)
		if err != nil || wanted(in) {
			return in, err
		}
		select {
		case <-ctx.Done():
			return in, ctx.Err()
		case <-time.After(wait):
		}
	}
}
