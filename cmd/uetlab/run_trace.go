package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/capture"
)

// traceFlags are the flags that run and sim have for the frames of a run.
func traceFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "trace", Usage: "write the frames of --links to `FILE`, pcapng as tcpdump -w writes it"},
		&cli.StringFlag{Name: "links", Value: capture.AllLinks, Usage: "the `LINKS` of --trace: all, or names with commas between"},
	}
}

// tracing says whether the frames of the run are wanted.
func (c *call) tracing() (bool, error) {
	if c.String("trace") == "" && c.IsSet("links") {
		return false, usage("--links: says what --trace writes").WithHint("add --trace FILE")
	}
	return c.String("trace") != "", nil
}

// runTrace saves what a capture of a lab's links takes, until the run ends that begins after it.
type runTrace struct {
	c      *call
	cancel context.CancelFunc
	done   chan error
	count  int
}

// newRunTrace begins to capture and opens the file of --trace: when it returns nothing is missed any more.
func newRunTrace(c *call, cl *api.Client) (*runTrace, error) {
	ctx, cancel := context.WithCancel(c.ctx)
	stream, err := cl.Capture(ctx, api.CaptureRequest{Link: c.String("links"), Format: api.FormatPcapng, Run: true})
	if err != nil {
		cancel()
		return nil, err
	}
	f, err := os.Create(c.String("trace"))
	if err != nil {
		cancel()
		return nil, errors.Join(fmt.Errorf("--trace: %w", err), stream.Close())
	}
	t := &runTrace{c: c, cancel: cancel, done: make(chan error, 1)}
	go func() { // ends with the stream
		var err error
		t.count, err = copyBlocks(f, stream)
		t.done <- errors.Join(err, stream.Close(), f.Close())
	}()
	return t, nil
}

// end waits for the last frames. Where the run has failed there may never be an end: the capture is broken off.
func (t *runTrace) end(failed bool) error {
	if failed {
		t.cancel()
	}
	err := <-t.done
	t.cancel()
	t.c.note("%d packets written to %s", t.count, t.c.String("trace"))
	if err != nil && !failed {
		return fmt.Errorf("--trace: %w", err)
	}
	return nil
}
