package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/labdir"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/perf"
	"github.com/uetlab/uetlab/workload"
)

// perfRun is one measurement: two sides, each a process in a node.
type perfRun struct {
	c          *call
	spec       perf.Spec
	lab        api.Lab
	dir        *labdir.Dir
	ends       [2]*topology.Node
	links      []api.LinkStatus
	conditions conditions
	print      perf.Print
	rows       []perf.Row
	fidelity   workload.Fidelity
	free       bool // the FEP did not wait for a side
}

// perfEnd is a side as this process sees it.
type perfEnd struct {
	node  string
	lines chan sideLine // closed when the side has ended
	err   error         // how it ended; read once lines is closed
	words bytes.Buffer  // what it said beside lines
}

// measure starts the answering side and, when that is ready, the other. When one ends early the other is ended too.
func (r *perfRun) measure() error {
	ctx, cancel := context.WithCancel(r.c.ctx)
	var both sync.WaitGroup
	defer both.Wait() // nothing is left behind
	defer cancel()
	answers, err := r.start(ctx, &both, r.ends[1].Name, nil)
	if err != nil {
		return err
	}
	first, err := answers.next()
	if err != nil {
		return err
	}
	starts, err := r.start(ctx, &both, r.ends[0].Name, []string{first.Address})
	if err != nil {
		return err
	}
	if _, err := starts.next(); err != nil {
		return err
	}
	return r.collect(starts, answers)
}

// collect takes the results of both sides until they are done.
func (r *perfRun) collect(starts, answers *perfEnd) error {
	var other []perf.Row // of the side that answers
	var mine []perf.Row
	for done := 0; done < 2; {
		var l sideLine
		var open bool
		from := starts
		select {
		case l, open = <-starts.lines:
		case l, open = <-answers.lines:
			from = answers
		}
		switch {
		case !open || l.Error != "":
			return r.failed(from, l)
		case l.Done:
			done++
			r.free = r.free || l.Free
			from.lines = nil
		case l.Row != nil && from == answers:
			other = append(other, *l.Row)
		case l.Row != nil:
			mine = append(mine, *l.Row)
		}
		for len(mine) > 0 && (!r.spec.Bidirectional || len(other) > 0) {
			row := mine[0]
			mine = mine[1:]
			if r.spec.Bidirectional {
				row.BW.Merge(other[0].BW)
				other = other[1:]
			}
			if err := r.row(row); err != nil {
				return err
			}
		}
	}
	return nil
}

// failed words why a side has ended before it was done.
func (r *perfRun) failed(e *perfEnd, l sideLine) error {
	if cause := context.Cause(r.c.ctx); cause != nil {
		return cause
	}
	if l.Error == "" {
		return e.ended()
	}
	code := api.CodeFailure
	if l.Wrong {
		code = api.CodeCheck
	}
	return api.Errorf(code, "perf: %s: %s", e.node, l.Error)
}

// ended says how a side has ended that gave no reason.
func (e *perfEnd) ended() error {
	why := strings.TrimSpace(e.words.String())
	if i := strings.IndexByte(why, '\n'); i >= 0 {
		why = why[:i]
	}
	if why == "" && e.err != nil {
		why = e.err.Error()
	}
	return api.Errorf(api.CodeFailure, "perf: the side in %s has ended: %s", e.node, why).WithHint("uetlab ps shows whether its node lives, uetlab logs %s what it says", e.node)
}

// next is the line with which a side says that it is ready.
func (e *perfEnd) next() (sideLine, error) {
	l, ok := <-e.lines
	switch {
	case !ok:
		return l, e.ended()
	case l.Error != "":
		return l, api.Errorf(api.CodeFailure, "perf: %s: %s", e.node, l.Error)
	}
	return l, nil
}

// start runs a side in a node.
func (r *perfRun) start(ctx context.Context, both *sync.WaitGroup, node string, more []string) (*perfEnd, error) {
	spec, err := json.Marshal(r.spec)
	if err != nil {
		return nil, err
	}
	exe, err := r.program()
	if err != nil {
		return nil, err
	}
	pr, pw, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("perf: %w", err)
	}
	er, ew, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("perf: %w", err), pr.Close(), pw.Close())
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, fmt.Errorf("perf: %w", err)
	}
	e := &perfEnd{node: node, lines: make(chan sideLine)}
	var words sync.WaitGroup
	words.Go(func() { // ends with the side
		_, _ = io.Copy(&e.words, io.LimitReader(er, 64<<10))
		er.Close()
	})
	ended := make(chan struct{})
	both.Go(func() { // ends with the side, or with ctx
		code, err := api.Exec(ctx, r.dir.ExecSock(), api.ExecRequest{Node: node, Argv: append([]string{exe, perfSideName, string(spec)}, more...)},
			[3]*os.File{null, pw, ew}, nil)
		for _, f := range []*os.File{null, pw, ew} {
			f.Close()
		}
		if e.err = err; err == nil {
			e.err = fmt.Errorf("exit code %d", code)
		}
		close(ended)
	})
	both.Go(func() { // ends with the side
		defer close(e.lines)
		defer pr.Close()
		defer words.Wait()
		dec := json.NewDecoder(pr)
		for {
			var l sideLine
			if dec.Decode(&l) != nil {
				<-ended
				return
			}
			select {
			case e.lines <- l:
			case <-ctx.Done():
				return
			}
		}
	})
	return e, nil
}

// program is this binary as the nodes see it.
func (r *perfRun) program() (string, error) {
	if r.lab.Runtime == runtimeDocker {
		return "/uetlab", nil
	}
	exe, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("perf: %w", err)
	}
	return exe, nil
}
