package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/labdir"
	"github.com/uetlab/uetlab/fabric/runtime"
)

// Main is the whole life of a lab daemon: it brings the lab up, reports on progress (one api.Progress a line; nil: on
// standard error), serves until the lab is to go down or a signal comes, and removes the lab. Its error is for the log;
// whoever waits on progress has it too.
func Main(opt Options, dir *labdir.Dir, rt runtime.Runtime, progress io.WriteCloser) error {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	signal.Ignore(syscall.SIGHUP, syscall.SIGPIPE)
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	report := func(p api.Progress) {
		if progress == nil {
			fmt.Fprintf(os.Stderr, "%s %d/%d %s\n", p.Stage, p.Done, p.Total, p.Text)
			return
		}
		_ = json.NewEncoder(progress).Encode(p) // nobody may be listening any more
	}
	d, err := New(opt, dir, rt, log)
	if err == nil {
		if opt.Adopt {
			err = d.Adopt(ctx, report)
		} else {
			err = d.Up(ctx, report)
		}
	}
	if err != nil && opt.Adopt {
		report(api.Progress{Stage: "failed", Error: api.AsError(err)}) // what is there stays for another try, or for down
		return err
	}
	if err != nil {
		if ctx.Err() != nil {
			err = api.Errorf(api.CodeInterrupted, "up %s: interrupted", opt.Lab)
		}
		if d != nil {
			err = errors.Join(err, d.Close())
		}
		report(api.Progress{Stage: "failed", Error: api.AsError(err)})
		return err
	}
	if progress != nil {
		progress.Close()
	}
	d.Run(ctx)
	if err := d.Close(); err != nil {
		log.Error("take the lab down", "err", err)
		return err
	}
	return nil
}
