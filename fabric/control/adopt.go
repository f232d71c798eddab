package control

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/internal/clock"
)

const adoptWait = 10 * time.Second

// Adopt takes over a lab whose daemon has died: its nodes live on and connect again by themselves. A run that was under
// way is dropped; virtual time goes on from where it stands, and so does everything else.
func (d *Daemon) Adopt(ctx context.Context, report func(api.Progress)) error {
	if err := d.loadState(); err != nil {
		return err
	}
	var err error
	if d.clk, err = clock.OpenClock(d.dir.Node(), true); err != nil {
		return fmt.Errorf("shared pages: %w", err)
	}
	if err := d.openPages(); err != nil {
		return err
	}
	hctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go d.heartbeat(hctx) // ends with Adopt; Run has its own
	if err := d.listenNodes(); err != nil {
		return err
	}
	d.clk.Owner.Add(1) // now nodes look for us
	d.awaitAll(ctx, report)
	for i, n := range d.nodes {
		n.mu.Lock()
		n.dead = d.clk.Dead(i)
		n.mu.Unlock()
	}
	gone := d.lost()
	if err := d.takeClock(ctx); err != nil {
		return err
	}
	d.state.Store(api.LabReady)
	for _, n := range append(gone, d.lost()...) {
		d.nodeDied(n)
	}
	if err := d.serve(); err != nil {
		return err
	}
	if err := d.saveState(); err != nil {
		return err
	}
	d.event("lab", "", "", "adopted")
	report(api.Progress{Stage: api.StageReady, Done: len(d.nodes), Total: len(d.nodes)})
	return nil
}

func (d *Daemon) loadState() error {
	b, err := os.ReadFile(d.dir.State())
	if err != nil {
		return fmt.Errorf("state file: %w", err)
	}
	var s stateFile
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("state file %s: %w", d.dir.State(), err)
	}
	if s.State != api.LabReady || len(s.Dark) != len(d.noCarrier) {
		return api.Errorf(api.CodePrecondition, "adopt %s: its daemon died while the lab came up", d.opt.Lab).WithHint("uetlab down %s removes what is left", d.opt.Lab)
	}
	if err := d.faults.Load(s.Faults); err != nil {
		return fmt.Errorf("state file %s: %w", d.dir.State(), err)
	}
	if err := d.settings.load(s.Changed); err != nil {
		return fmt.Errorf("state file %s: %w", d.dir.State(), err)
	}
	d.handles, d.created, d.noCarrier = s.Handles, s.Created, s.Dark
	return nil
}

// awaitAll waits until all nodes that live have connected, but not for ever.
func (d *Daemon) awaitAll(ctx context.Context, report func(api.Progress)) {
	wctx, cancel := context.WithTimeout(ctx, adoptWait)
	defer cancel()
	for i, n := range d.nodes {
		report(api.Progress{Stage: "adopt", Done: i, Total: len(d.nodes), Text: n.name})
		if h, ok := d.handle(n.id); ok && d.rt.Alive(wctx, h) {
			select {
			case <-n.hello:
			case <-wctx.Done():
			}
		}
	}
}

// takeClock brings virtual time to rest wherever the last daemon left it, and drops a run that was under way, held or not.
func (d *Daemon) takeClock(ctx context.Context) error {
	c := &d.time
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seg, _ = d.clk.Read() // nobody else writes
	if d.real() {
		return nil
	}
	c.lowered = d.write(c) // what the last daemon wrote last may not have been seen by all
	d.wake()
	held, err := d.hold(ctx, c)
	if err != nil {
		return err
	}
	at := held + 1
	if err := d.forgetRun(ctx, at); err != nil {
		return err
	}
	if err := d.reach(ctx, c, at); err != nil {
		return err
	}
	d.rest(c)
	return nil
}
