// Package runtime says what a lab needs of whatever its nodes run in. Implementations: runtime/docker, runtime/embedded.
package runtime

import (
	"context"
	"os"
	"syscall"

	"github.com/uetlab/uetlab/fabric/topology"
)

// Spec is one node to start. Inside the node the binary is run as `uetlab node --lab Lab --node Name --id ID --dir DIR`;
// DIR is where the node sees Dir.
type Spec struct {
	Lab  string
	Name string
	ID   int
	Kind topology.Kind
	// Dir is the host directory that the node may see read-only: node.sock (lab socket) and pages/ (all shared pages).
	Dir string
	// Page is the node's own shared page, Dir/pages/<id>, the one file that it may write.
	Page string
	// Log is the file that takes the node's standard output and error.
	Log string
	// Image and Command are for host nodes.
	Image   string
	Command []string
	// Labels identify the lab on an engine: uetlab.lab, uetlab.node, uetlab.uid.
	Labels map[string]string
}

// Handle is a started node.
type Handle struct {
	Node string `json:"node"`
	ID   int    `json:"id"`
	Pid  int    `json:"pid"`                 // in the lab daemon's PID namespace
	Ref  string `json:"container,omitempty"` // container ID on docker
}

// Exec is a command to run in a node.
type Exec struct {
	Handle Handle
	Argv   []string
	Env    []string
	// Files become the command's standard input, output and error.
	Files [3]*os.File
	// TTY says that Files[0] is a terminal to become the command's controlling one.
	TTY bool
	// Signals are passed on to the command's process group.
	Signals <-chan syscall.Signal
}

// Runtime starts and stops the nodes of labs.
type Runtime interface {
	// Name is "docker" or "embedded".
	Name() string
	// Start starts all nodes, several at a time, and reports each. On an error or when ctx ends it stops those it started.
	Start(ctx context.Context, specs []Spec, started func(Handle)) ([]Handle, error)
	// Stop ends all nodes of a lab, by handle and by what is really there, and waits until they are gone. It is idempotent.
	Stop(ctx context.Context, lab string, handles []Handle) error
	// Restart ends a node and starts it again, with new namespaces and so without links; spec is as for Start.
	Restart(ctx context.Context, h Handle, spec Spec) (Handle, error)
	// Alive says whether the node still runs.
	Alive(ctx context.Context, h Handle) bool
	// Exec runs a command in a node's namespaces, first looking for it in the node's root, then on the host, and returns
	// its exit code (126 not executable, 127 not found, 128+n ended by signal n).
	Exec(ctx context.Context, e Exec) (int, error)
}
