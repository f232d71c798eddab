package docker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"golang.org/x/sync/errgroup"

	"github.com/uetlab/uetlab/fabric/runtime"
	"github.com/uetlab/uetlab/fabric/topology"
)

// startConcurrency: starting is work for the CPU (shim, runc, a Go start each), more at once gains nothing.
const startConcurrency = 4

// undoTimeout bounds the clean-up after a failed Start, when the caller's context may have ended.
const undoTimeout = 2 * time.Minute

// Start builds the image if need be, creates all containers, then starts them, several at a time, and calls started for
// each as its PID is known (one call at a time, in no order). On an error or when ctx ends it removes
// what it made and returns only when that is gone.
func (r *Runtime) Start(ctx context.Context, specs []runtime.Spec, started func(runtime.Handle)) ([]runtime.Handle, error) {
	b, err := readBinary(r.cfg.Binary)
	if err != nil {
		return nil, err
	}
	var nonce [8]byte
	_, _ = rand.Read(nonce[:])
	s := &starter{r: r, bin: b, id: hex.EncodeToString(nonce[:]), images: map[string]string{}, handles: make([]runtime.Handle, len(specs))}
	if err := s.run(ctx, specs, started); err != nil {
		if cerr := s.undo(context.WithoutCancel(ctx), specs); cerr != nil {
			err = errors.Join(err, fmt.Errorf("docker: undo: %w", cerr))
		}
		return nil, err
	}
	return s.handles, nil
}

// starter is one call of Start.
type starter struct {
	r       *Runtime
	bin     executable
	id      string            // value of the label uetlab.start
	images  map[string]string // base image ("" for none) to image
	handles []runtime.Handle
}

func (s *starter) run(ctx context.Context, specs []runtime.Spec, started func(runtime.Handle)) error {
	for _, sp := range specs {
		if err := s.image(ctx, base(sp)); err != nil {
			return err
		}
	}
	err := each(ctx, startConcurrency, specs, func(ctx context.Context, i int) error {
		ref, err := s.create(ctx, specs[i])
		s.handles[i] = runtime.Handle{Node: specs[i].Name, ID: specs[i].ID, Ref: ref}
		return err
	})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	return each(ctx, startConcurrency, specs, func(ctx context.Context, i int) error {
		pid, err := s.start(ctx, specs[i], s.handles[i].Ref)
		if err != nil {
			return err
		}
		s.handles[i].Pid = pid
		mu.Lock()
		defer mu.Unlock()
		if started != nil && ctx.Err() == nil {
			started(s.handles[i])
		}
		return nil
	})
}

// each calls f for every spec, n at a time, and stops handing out new ones after an error or when ctx ends.
func each(ctx context.Context, n int, specs []runtime.Spec, f func(ctx context.Context, i int) error) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(n)
	for i := range specs {
		g.Go(func() error {
			if err := gctx.Err(); err != nil {
				return err
			}
			return f(gctx, i)
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// base is the image that a node's image is derived from, "" for nodes of nothing but the binary.
func base(sp runtime.Spec) string {
	if sp.Kind == topology.KindHost {
		return sp.Image
	}
	return ""
}

func (s *starter) image(ctx context.Context, base string) error {
	if _, ok := s.images[base]; ok {
		return nil
	}
	tag, err := s.r.ensure(ctx, s.bin, base)
	if err != nil {
		return err
	}
	s.images[base] = tag
	return nil
}

// create makes the container of a node. The call is not abandoned when ctx ends, see stepTimeout.
func (s *starter) create(ctx context.Context, sp runtime.Spec) (string, error) {
	cfg, host, err := s.r.containerConfig(sp, s.images[base(sp)], s.id)
	if err != nil {
		return "", fmt.Errorf("docker: node %s: %w", sp.Name, err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepTimeout)
	defer cancel()
	name := containerName(sp.Lab, sp.Name)
	c, err := s.r.cli.ContainerCreate(ctx, cfg, host, nil, nil, name)
	if notFound(err) {
		// The lab of another version of the binary may have pruned the image since it was looked for.
		if _, err = s.r.ensure(ctx, s.bin, base(sp)); err != nil {
			return "", err
		}
		c, err = s.r.cli.ContainerCreate(ctx, cfg, host, nil, nil, name)
	}
	switch {
	case err == nil:
		return c.ID, nil
	case cerrdefs.IsConflict(err):
		return "", s.r.nameTaken(ctx, sp.Lab, name)
	}
	return "", fmt.Errorf("docker: create container %s: %w", name, err)
}

// nameTaken says whose the container is that has the name of one of our nodes.
func (r *Runtime) nameTaken(ctx context.Context, lab, name string) error {
	c, err := r.cli.ContainerInspect(ctx, name)
	if err == nil && c.Config != nil && r.ours(c.Config.Labels, lab) {
		return fmt.Errorf("docker: %s: %w by a node of lab %s: end that lab first (uetlab down %s)", name, ErrNameTaken, lab, lab)
	}
	return fmt.Errorf("docker: %s: %w by a container that is not of this user's labs: remove it or name the lab differently", name, ErrNameTaken)
}

// start starts a container, checks that it stays, and returns its PID.
func (s *starter) start(ctx context.Context, sp runtime.Spec, ref string) (int, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepTimeout)
	defer cancel()
	if err := s.r.cli.ContainerStart(ctx, ref, container.StartOptions{}); err != nil {
		return 0, fmt.Errorf("docker: start node %s: %w", sp.Name, err)
	}
	pid, code, err := s.r.pid(ctx, ref)
	if err != nil {
		return 0, fmt.Errorf("docker: node %s: %w", sp.Name, err)
	}
	if pid == 0 {
		return 0, fmt.Errorf("docker: node %s ended at once with code %d%s", sp.Name, code, lastLine(sp.Log))
	}
	return pid, nil
}

// lastLine is the last line of a log with ": " before it, "" when there is none.
func lastLine(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	text := strings.TrimSpace(string(data))
	if text == "" {
		return ""
	}
	return ": " + text[strings.LastIndexByte(text, '\n')+1:]
}

// undo removes the containers that this Start made: those it knows of and those whose creation ended in an error.
func (s *starter) undo(ctx context.Context, specs []runtime.Spec) error {
	ctx, cancel := context.WithTimeout(ctx, undoTimeout)
	defer cancel()
	labs := map[string]bool{}
	for _, sp := range specs {
		labs[sp.Lab] = true
	}
	var errs []error
	for lab := range labs {
		errs = append(errs, s.r.remove(ctx, lab, s.id))
	}
	return errors.Join(errs...)
}

// Restart ends a node if it runs and starts it again in the same container. The container has a new network namespace
// then, without links: the caller wires them anew. What the container is follows from its creation, not from the Spec.
func (r *Runtime) Restart(ctx context.Context, h runtime.Handle, _ runtime.Spec) (runtime.Handle, error) {
	now := 0
	if err := r.cli.ContainerRestart(ctx, h.Ref, container.StopOptions{Timeout: &now}); err != nil {
		return h, fmt.Errorf("docker: restart node %s: %w", h.Node, err)
	}
	pid, code, err := r.pid(ctx, h.Ref)
	if err != nil {
		return h, fmt.Errorf("docker: restart node %s: %w", h.Node, err)
	}
	h.Pid = pid
	if pid == 0 {
		return h, fmt.Errorf("docker: node %s ended at once with code %d", h.Node, code)
	}
	return h, nil
}
