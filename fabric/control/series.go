package control

import (
	"context"
	"time"

	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/nodecore"
	"github.com/uetlab/uetlab/workload"
)

// seriesWait bounds how long one piece of a series is waited for.
const seriesWait = 10 * time.Second

// series fetches what the nodes have sampled in a run, nil where that was not asked for. Time stands still meanwhile.
func (d *Daemon) series(ctx context.Context, r *run) *workload.Series {
	if r.spec.Every <= 0 {
		return nil
	}
	return nodecore.Collect(d.plan, r.spec.Every, func(node, from int) (part ctl.SeriesPart, err error) {
		n := d.nodes[node]
		if !d.takesPart(node) || n.isDead() {
			return part, errNodeGone
		}
		ctx, cancel := context.WithTimeout(ctx, seriesWait)
		defer cancel()
		if err = d.fetchMessage(ctx, n, ctl.Message{Op: "series", From: from}, &part); err != nil {
			d.event("run", n.name, "", "its part of the series is missing: "+err.Error())
		}
		return part, err
	})
}
