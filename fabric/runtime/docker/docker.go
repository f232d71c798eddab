// Package docker runs the nodes of a lab as containers of the Docker engine on this machine: one container a node, from
// an image that holds nothing but this binary, without network, with three capabilities, a read-only root and limits on
// processes and memory. It touches only containers and images that carry its labels, and it wires no links: the lab
// daemon moves veth ends into the containers' network namespaces. Remote engines are refused, for the nodes share
// memory with the lab daemon.
package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"

	"github.com/uetlab/uetlab/fabric/runtime"
)

// Labels of containers and images.
const (
	labelLab     = "uetlab.lab"
	labelNode    = "uetlab.node"
	labelID      = "uetlab.id"
	labelKind    = "uetlab.kind"
	labelUID     = "uetlab.uid"
	labelVersion = "uetlab.version"
	labelBase    = "uetlab.base"   // the image that a host node asked for
	labelStart   = "uetlab.start"  // which Start made the container
	labelImage   = "uetlab.image"  // on images: node, or host for an image derived from another one
	labelSHA256  = "uetlab.sha256" // on images: of the binary
)

// Errors that a caller can act on.
var (
	// ErrNoDaemon: no engine answers at DOCKER_HOST or the default socket.
	ErrNoDaemon = errors.New("no Docker engine answers")
	// ErrPermission: the engine's socket is there and may not be used by this user.
	ErrPermission = errors.New("no permission to use the Docker engine")
	// ErrRemote: DOCKER_HOST names an engine that is not reached over a unix socket.
	ErrRemote = errors.New("the Docker engine is not on this machine")
	// ErrNotStatic: the binary needs a dynamic loader, which an image from scratch does not have.
	ErrNotStatic = errors.New("the uetlab binary is not static")
	// ErrNameTaken: a container of the name that a node needs exists already.
	ErrNameTaken = errors.New("container name is taken")
)

const (
	pingTimeout = 5 * time.Second
	// stepTimeout bounds one create, start or remove call. These are not abandoned when the caller's context ends,
	// because a container whose creation was abandoned could appear after everything was cleaned up.
	stepTimeout = 60 * time.Second

	defaultMemory = 4 << 30 // room for the buffers of a message of 1 GiB in each direction
	pidsLimit     = 64
)

// Config is what a Runtime can be told. The zero value is right for the uetlab command.
type Config struct {
	// Binary is the static binary for the image; "" means the running one.
	Binary string
	// Version goes into the label uetlab.version.
	Version string
	// Memory limits each container, in bytes; 0 means 4 GiB.
	Memory int64
}

// Runtime runs nodes as Docker containers. Its methods may be called from several goroutines.
type Runtime struct {
	cli *client.Client
	cfg Config
	uid string
}

var _ runtime.Runtime = (*Runtime)(nil)

// New connects to the engine of DOCKER_HOST or the default socket and checks that it answers. The error is ErrNoDaemon,
// ErrPermission or ErrRemote where one of them is the reason.
func New(ctx context.Context, cfg Config) (*Runtime, error) {
	cli, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return nil, fmt.Errorf("docker: %w", err)
	}
	if host := cli.DaemonHost(); !strings.HasPrefix(host, "unix://") {
		cli.Close()
		return nil, fmt.Errorf("docker: DOCKER_HOST=%s: %w: nodes share memory with the lab daemon; unset DOCKER_HOST or use --runtime embedded", host, ErrRemote)
	}
	if cfg.Memory == 0 {
		cfg.Memory = defaultMemory
	}
	r := &Runtime{cli: cli, cfg: cfg, uid: strconv.Itoa(os.Getuid())}
	pctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	if _, err := cli.Ping(pctx); err != nil {
		cli.Close()
		return nil, connectError(cli.DaemonHost(), err)
	}
	return r, nil
}

// connectError says why the engine at host cannot be used and what to do about it.
func connectError(host string, err error) error {
	socket := strings.TrimPrefix(host, "unix://")
	switch {
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("docker: %s: %w: join the group of the socket (usually docker), use root, or use --runtime embedded", socket, ErrPermission)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("docker: %w", err)
	case client.IsErrConnectionFailed(err), errors.Is(err, os.ErrNotExist), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("docker: %s: %w: start dockerd (scripts/setup.sh does) or use --runtime embedded", socket, ErrNoDaemon)
	}
	return fmt.Errorf("docker: %s: %w", socket, err)
}

// Name is "docker".
func (r *Runtime) Name() string { return "docker" }

// Close gives up the connection to the engine. Nodes go on.
func (r *Runtime) Close() error { return r.cli.Close() }

// Found is a node container as the engine knows it.
type Found struct {
	runtime.Handle
	Lab     string `json:"lab"`
	Name    string `json:"name"` // of the container
	Running bool   `json:"running"`
}

// List finds the node containers of a lab of this user, or of all labs when lab is "", whether they run or not. It
// is how a new lab daemon adopts nodes and how leftovers are found. Pid is not filled in; see Inspect.
func (r *Runtime) List(ctx context.Context, lab string) ([]Found, error) {
	return r.list(ctx, lab, "")
}

// list is List narrowed to the containers of one Start.
func (r *Runtime) list(ctx context.Context, lab, start string) ([]Found, error) {
	args := filters.NewArgs(filters.Arg("label", labelUID+"="+r.uid))
	if lab == "" {
		args.Add("label", labelLab)
	} else {
		args.Add("label", labelLab+"="+lab)
	}
	if start != "" {
		args.Add("label", labelStart+"="+start)
	}
	all, err := r.cli.ContainerList(ctx, container.ListOptions{All: true, Filters: args})
	if err != nil {
		return nil, fmt.Errorf("docker: list containers: %w", err)
	}
	var out []Found
	for _, c := range all {
		if !r.ours(c.Labels, lab) {
			continue
		}
		id, err := strconv.Atoi(c.Labels[labelID])
		if err != nil {
			id = -1
		}
		f := Found{Handle: runtime.Handle{Node: c.Labels[labelNode], ID: id, Ref: c.ID}, Lab: c.Labels[labelLab]}
		f.Running = c.State == container.StateRunning
		if len(c.Names) > 0 {
			f.Name = strings.TrimPrefix(c.Names[0], "/")
		}
		out = append(out, f)
	}
	return out, nil
}

// ours repeats the engine's label filter: a container that is not ours must not be touched even if an engine ignores a
// filter that it does not know.
func (r *Runtime) ours(labels map[string]string, lab string) bool {
	return labels[labelUID] == r.uid && labels[labelLab] != "" && labels[labelNode] != "" &&
		(lab == "" || labels[labelLab] == lab)
}

// Inspect fills in the handle of a container found by List; Pid is 0 when it does not run.
func (r *Runtime) Inspect(ctx context.Context, f Found) (runtime.Handle, error) {
	h := f.Handle
	pid, _, err := r.pid(ctx, h.Ref)
	h.Pid = pid
	return h, err
}

// pid is the first process of a container in the engine's PID namespace, 0 when it does not run, and then its exit code.
func (r *Runtime) pid(ctx context.Context, ref string) (pid, code int, err error) {
	c, err := r.cli.ContainerInspect(ctx, ref)
	if err != nil {
		return 0, 0, fmt.Errorf("docker: inspect container: %w", err)
	}
	if c.State == nil {
		return 0, 0, fmt.Errorf("docker: inspect container %.12s: the engine gives no state", ref)
	}
	if !c.State.Running {
		return 0, c.State.ExitCode, nil
	}
	return c.State.Pid, 0, nil
}

// Alive says whether the node's container runs. An engine that does not answer counts as no.
func (r *Runtime) Alive(ctx context.Context, h runtime.Handle) bool {
	pid, _, err := r.pid(ctx, h.Ref)
	return err == nil && pid != 0
}

// notFound reports that the engine does not know what was asked for.
func notFound(err error) bool { return cerrdefs.IsNotFound(err) }
