// Package embedded runs the nodes of a lab as clones of this binary, each in new network, mount, PID, UTS and IPC
// namespaces with a minimal root, without any engine. It works as root and, inside OuterNamespaces, without.
// Nodes outlive the process that started them; they are found again by their command line. The package wires no
// links and speaks to no node: it starts, enters, finds and kills. It needs Linux 5.8.
package embedded

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/uetlab/uetlab/fabric/runtime"
	"github.com/uetlab/uetlab/fabric/runtime/namespace"
)

// Dir is where a node sees its Spec.Dir.
const Dir = "/lab"

// argv0 is the first word of a node's command line.
const argv0 = "uetlab"

// spawners is how many nodes are started at a time: process start is bound by page faults, and beyond two nothing is gained.
const spawners = 2

// undoTime bounds the wait for nodes that are killed because Start failed.
const undoTime = 10 * time.Second

// Runtime is the embedded runtime. The zero value is not usable; call New.
type Runtime struct {
	mu       sync.Mutex
	children map[int]child // by pid, until reaped
}

// child is a node that this process started. Its number cannot be reused before it is reaped, and what it is is
// known even while its command line cannot be read yet.
type child struct {
	proc *namespace.Process
	identity
}

var _ runtime.Runtime = (*Runtime)(nil)

// New makes a runtime. Several may exist in a process; each reaps its own children only.
func New() *Runtime {
	return &Runtime{children: make(map[int]child)}
}

// Name is "embedded".
func (r *Runtime) Name() string { return "embedded" }

// Start starts all nodes, two at a time. started is called once per node, never by two goroutines at once.
// A returned node runs this binary but may not yet have entered its root; it says itself when it is ready.
func (r *Runtime) Start(ctx context.Context, specs []runtime.Spec, started func(runtime.Handle)) ([]runtime.Handle, error) {
	var mu sync.Mutex
	var handles []runtime.Handle
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(spawners)
	for i := range specs {
		if gctx.Err() != nil {
			break
		}
		g.Go(func() error {
			if err := gctx.Err(); err != nil {
				return err
			}
			h, err := r.spawn(&specs[i])
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			handles = append(handles, h)
			if started != nil {
				started(h)
			}
			return nil
		})
	}
	err := g.Wait()
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		return handles, nil
	}
	// The caller's context may have ended already: undoing must not depend on it.
	uctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	if undo := r.stopHandles(uctx, handles); undo != nil {
		err = fmt.Errorf("%w (and undoing it: %w)", err, undo)
	}
	return nil, err
}

// spawn starts one node.
func (r *Runtime) spawn(s *runtime.Spec) (runtime.Handle, error) {
	log, err := os.OpenFile(s.Log, os.O_WRONLY|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return runtime.Handle{}, fmt.Errorf("node %s: log file: %w", s.Name, err)
	}
	defer log.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return runtime.Handle{}, fmt.Errorf("node %s: %w", s.Name, err)
	}
	defer null.Close()
	p, err := namespace.Start("/proc/self/exe", argv(s), &syscall.ProcAttr{
		Dir:   "/",
		Env:   environ(s),
		Files: []uintptr{null.Fd(), log.Fd(), log.Fd()},
		Sys: &syscall.SysProcAttr{
			Setsid: true,
			Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID |
				syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		},
	})
	if err != nil {
		return runtime.Handle{}, fmt.Errorf("node %s: start in new namespaces: %w%s", s.Name, err, hint(err))
	}
	r.mu.Lock()
	r.children[p.Pid] = child{p, identity{s.Lab, s.Name, s.ID}}
	r.mu.Unlock()
	go r.forget(p) // ends with the child
	return runtime.Handle{Node: s.Name, ID: s.ID, Pid: p.Pid}, nil
}

func (r *Runtime) forget(p *namespace.Process) {
	<-p.Done()
	r.mu.Lock()
	delete(r.children, p.Pid)
	r.mu.Unlock()
}

// hint says what to do about the usual reasons for a refused clone.
func hint(err error) string {
	switch err {
	case syscall.EPERM:
		return " (namespaces need root, or a user namespace as OuterNamespaces makes it)"
	case syscall.ENOSPC, syscall.EUSERS:
		return " (raise /proc/sys/user/max_net_namespaces and its neighbours)"
	case syscall.EAGAIN:
		return " (raise the limit of processes: ulimit -u, pids.max)"
	}
	return ""
}

// argv is the node's command line; parseArgv recognizes it again. Nodes in containers of the same lab are told apart by
// their first word, which is a path.
func argv(s *runtime.Spec) []string {
	return []string{argv0, "node", "--lab", s.Lab, "--node", s.Name, "--id", strconv.Itoa(s.ID), "--dir", Dir}
}

// environ is the whole environment of a node. The Go settings fit a process with one busy thread.
func environ(s *runtime.Spec) []string {
	return []string{
		"PATH=" + namespace.DefaultPath,
		"HOME=/",
		"GODEBUG=asyncpreemptoff=1",
		"GOMAXPROCS=1",
		envLab + "=" + s.Lab,
		envNode + "=" + s.Name,
		envKind + "=" + string(s.Kind),
		envDir + "=" + s.Dir,
		envPage + "=" + s.Page,
	}
}

// Exec runs a command in a node's namespaces; see namespace.Exec for what it sees.
func (r *Runtime) Exec(ctx context.Context, e runtime.Exec) (int, error) {
	return namespace.Exec(ctx, e, func() bool { return r.is(e.Handle) })
}

// Restart kills a node and starts it again.
func (r *Runtime) Restart(ctx context.Context, h runtime.Handle, spec runtime.Spec) (runtime.Handle, error) {
	if err := r.stopHandles(ctx, []runtime.Handle{h}); err != nil {
		return h, fmt.Errorf("restart node %s: %w", h.Node, err)
	}
	return r.spawn(&spec)
}

// Alive says whether the node still runs.
func (r *Runtime) Alive(_ context.Context, h runtime.Handle) bool { return r.is(h) }

// OuterNamespaces is how a process without root starts the lab daemon: in a user namespace in which the caller's
// user and group are 0, with network, mount and IPC namespaces that belong to it. All nodes of the lab live inside; PIDs are the
// host's, so that the lab can be found and ended from outside.
func OuterNamespaces() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}
}
