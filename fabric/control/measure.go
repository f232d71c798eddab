package control

import (
	"context"
	"net/http"
	"time"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/workload"
)

// handleMeasure has the fabric begin anew, as at the start of a run, and keeps runs away until the client goes: what processes measure then
// does not depend on what was before.
func (d *Daemon) handleMeasure(w http.ResponseWriter, r *http.Request) {
	var req api.MeasureRequest
	if err := body(r, &req); err != nil {
		api.WriteError(w, err)
		return
	}
	if !d.takeTurn(r.Context()) {
		api.WriteError(w, api.Errorf(api.CodeExists, "measure: a run or a measurement is under way in lab %s", d.opt.Lab).WithHint("wait for it, or interrupt it"))
		return
	}
	defer d.endTurn()
	defer d.tellRunEnd()
	if err := d.anew(r.Context(), req.Seed); err != nil {
		api.WriteError(w, err)
		return
	}
	before := d.counters()
	d.setMeasuring(&before)
	defer d.setMeasuring(nil)
	if err := lines(w)(api.MeasureReady{Ready: true}); err != nil {
		return
	}
	select {
	case <-r.Context().Done():
	case <-d.down:
	}
}

// anew is a run without ranks.
func (d *Daemon) anew(ctx context.Context, seed uint64) error {
	r := &run{spec: workload.Spec{Iters: 1, Seed: seed}, results: map[int]workload.RankResult{}}
	before, err := d.begin(ctx, r, false)
	if err != nil {
		return err
	}
	if r.armed {
		err = d.saveState()
	}
	if err == nil {
		err = d.begun(ctx, r)
	}
	if err == nil {
		_, err = d.end(ctx, r, before)
	}
	if err != nil {
		d.abort(r)
	}
	return err
}

// begun waits, in a lab at the wall's pace, until all nodes have begun the run.
func (d *Daemon) begun(ctx context.Context, r *run) error {
	for deadline := time.Now().Add(runWait); d.real(); sleep(tick) {
		switch lo, _ := d.horizons(); {
		case lo >= r.t0:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case time.Now().After(deadline):
			return api.Errorf(api.CodeTimeout, "measure: the nodes have not begun anew")
		}
	}
	return nil
}

func (d *Daemon) setMeasuring(before *totals) {
	d.runMu.Lock()
	defer d.runMu.Unlock()
	d.measuring = before
}

// fidelity tells of the measurement that is under way how far its figures can be trusted.
func (d *Daemon) fidelity() (workload.Fidelity, error) {
	d.runMu.Lock()
	before := d.measuring
	d.runMu.Unlock()
	if before == nil {
		return workload.Fidelity{}, api.Errorf(api.CodeNotFound, "measure: none is under way in lab %s", d.opt.Lab)
	}
	return d.totals(*before).Fidelity, nil
}
