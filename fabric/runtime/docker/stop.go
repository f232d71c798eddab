package docker

import (
	"context"
	"errors"
	"fmt"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"golang.org/x/sync/errgroup"

	"github.com/uetlab/uetlab/fabric/runtime"
)

const (
	stopConcurrency = 8
	// removeRounds bounds how often removal is tried: an engine now and then finds a root file system busy just after
	// the last process ended.
	removeRounds = 5
	removePause  = 200 * time.Millisecond
)

// Stop removes all containers of a lab of this user and waits until they are gone. What is there is found by label;
// handles are not needed and not believed, for a stale one could name something else. Stopping a lab that is not there
// is no error.
func (r *Runtime) Stop(ctx context.Context, lab string, _ []runtime.Handle) error {
	if lab == "" {
		return errors.New("docker: stop: no lab named")
	}
	return r.remove(ctx, lab, "")
}

// remove removes the containers of a lab, or of one Start, until the engine lists none.
func (r *Runtime) remove(ctx context.Context, lab, start string) error {
	var last error
	for round := range removeRounds {
		found, err := r.list(ctx, lab, start)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return nil
		}
		if round > 0 {
			select {
			case <-ctx.Done():
				return fmt.Errorf("docker: stop lab %s: %w", lab, errors.Join(ctx.Err(), last))
			case <-time.After(removePause):
			}
		}
		last = r.removeAll(ctx, found)
	}
	found, err := r.list(ctx, lab, start)
	switch {
	case err != nil:
		return err
	case len(found) == 0:
		return nil
	}
	return fmt.Errorf("docker: stop lab %s: %d containers stay, first %s: %w", lab, len(found), found[0].Name, last)
}

func (r *Runtime) removeAll(ctx context.Context, found []Found) error {
	var g errgroup.Group
	g.SetLimit(stopConcurrency)
	for _, f := range found {
		g.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, stepTimeout)
			defer cancel()
			err := r.cli.ContainerRemove(ctx, f.Ref, container.RemoveOptions{Force: true, RemoveVolumes: true})
			switch {
			case err == nil, notFound(err):
				return nil
			case cerrdefs.IsConflict(err): // somebody else removes it already
				return r.gone(ctx, f.Ref)
			}
			return err
		})
	}
	return g.Wait()
}

// gone waits until the engine has removed a container.
func (r *Runtime) gone(ctx context.Context, ref string) error {
	done, errs := r.cli.ContainerWait(ctx, ref, container.WaitConditionRemoved)
	select {
	case <-done:
		return nil
	case err := <-errs:
		if notFound(err) {
			return nil
		}
		return err
	}
}
