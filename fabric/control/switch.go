package control

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/faults"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/nodecore"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/switchd"
	"github.com/uetlab/uetlab/workload"
)

// switchWait bounds how long nodes are waited for that are asked for their queues.
const switchWait = 5 * time.Second

// switchRoutes serves what there is of switches.
func (d *Daemon) switchRoutes(m *http.ServeMux) {
	m.HandleFunc("GET /v1/switches", answer1(func(r *http.Request) (any, error) {
		return d.switches(r.Context(), r.URL.Query().Get("node"))
	}))
	m.HandleFunc("POST /v1/switches", answer1(func(r *http.Request) (any, error) {
		var ch api.SwitchChange
		if err := body(r, &ch); err != nil {
			return nil, err
		}
		return d.changeSwitches(r.Context(), ch)
	}))
	m.HandleFunc("GET /v1/queues", answer1(func(r *http.Request) (any, error) {
		return d.queueStats(r.Context(), r.URL.Query().Get("node"))
	}))
}

// switchDeed is an edit of switches that is to be scheduled.
type switchDeed struct{ switchEdit }

func (w switchDeed) later(by vt.Time) deed {
	w.At += by
	return w
}

func (w switchDeed) span() (first, last vt.Time) { return w.At, w.At }

// check says whether the edit can follow all that is scheduled or armed so far.
func (w switchDeed) check(d *Daemon) error {
	for _, node := range w.Nodes {
		set := d.settings.at(node, vt.Never)
		for _, x := range append(slices.Clone(d.armed), w) {
			if x, ok := x.(switchDeed); ok && slices.Contains(x.Nodes, node) {
				var err error
				if set, err = x.over(d.plan, node, set); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (w switchDeed) schedule(ctx context.Context, d *Daemon, held vt.Time) (done, error) {
	var none done
	d.settings.settle(held)
	e := &w.switchEdit
	changes, err := d.settings.add(e)
	if err != nil {
		return none, err
	}
	for _, node := range w.Nodes {
		for _, q := range d.plan.Nodes[node].Ports {
			if !d.faults.Final(q.Link).LLR {
				continue
			}
			if err := faults.Headroom(d.plan, q.Link, d.finally); err != nil {
				d.settings.drop(e)
				return none, wrong(err)
			}
		}
	}
	undo := func() { d.takeBack(d.settings.remove(e)) }
	if err := d.send(ctx, changes); err != nil {
		undo()
		return none, err
	}
	return done{undo: undo}, nil
}

func (w switchDeed) tell(d *Daemon, when func(at vt.Time) string) {
	for _, node := range w.Nodes {
		d.event("switch", d.nodes[node].name, "", w.text()+when(w.At))
	}
}

// changeSwitches schedules new settings of switches, of all that are named or of none.
func (d *Daemon) changeSwitches(ctx context.Context, ch api.SwitchChange) ([]api.SwitchChangeResult, error) {
	nodes, err := d.switchesNamed(ch.Switches)
	if err != nil {
		return nil, err
	}
	if ch.Reset == (len(ch.Assignments) > 0) {
		return nil, api.Errorf(api.CodeUsage, "switch: nothing to set").WithHint("for example ecn.kmin=10%%")
	}
	w := switchDeed{switchEdit{Nodes: nodes, Assign: ch.Assignments}}
	t, err := d.arrange(ctx, ch.At, w)
	if err != nil {
		return nil, err
	}
	out := make([]api.SwitchChangeResult, 0, len(nodes))
	for _, id := range nodes {
		out = append(out, api.SwitchChangeResult{Switch: d.nodes[id].name, When: t.when, AtNs: int64(t.at), RelNs: t.rel})
	}
	if t.when == api.WhenNextRun {
		return out, nil
	}
	return out, d.saveState()
}

// switchesNamed finds switches by names and patterns, in the order of the plan.
func (d *Daemon) switchesNamed(names []string) ([]int, error) {
	var ids []int
	for _, name := range names {
		n := len(ids)
		for i := range d.plan.Nodes {
			p := &d.plan.Nodes[i]
			ok, err := path.Match(name, p.Name)
			if err != nil {
				return nil, api.Errorf(api.CodeUsage, "switch (%s): not a pattern: %w", name, err).WithHint("write it like leaf*")
			}
			if ok && p.Kind == topology.KindSwitch {
				ids = append(ids, i)
			}
		}
		if len(ids) > n {
			continue
		}
		if strings.ContainsAny(name, `*?[\`) {
			return nil, api.Errorf(api.CodeNotFound, "switch (%s): no switch has such a name", name).WithHint("see `uetlab switch ls`")
		}
		if _, err := d.plan.Node(name); err != nil {
			return nil, api.Errorf(api.CodeNotFound, "switch: %w", err)
		}
		return nil, api.Errorf(api.CodeUsage, "node %s is not a switch", name).WithHint("see `uetlab switch ls`")
	}
	slices.Sort(ids)
	if ids = slices.Compact(ids); len(ids) == 0 {
		return nil, api.Errorf(api.CodeUsage, "switch: which?").WithHint("name one, or several as leaf*")
	}
	return ids, nil
}

// switches describes one switch, or all.
func (d *Daemon) switches(ctx context.Context, name string) ([]api.SwitchStatus, error) {
	if name == "" {
		name = "*"
	}
	ids, err := d.switchesNamed([]string{name})
	if err != nil && name == "*" {
		return []api.SwitchStatus{}, nil // a lab may have none
	}
	if err != nil {
		return nil, err
	}
	out := make([]api.SwitchStatus, len(ids))
	d.time.mu.Lock()
	now := d.virtualNow(&d.time)
	routes := d.plan.Routes(faults.DownOf(d.faults.At(now)))
	for i, id := range ids {
		out[i] = d.switchStatus(id, now, len(routes[id]))
	}
	d.time.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, switchWait)
	defer cancel()
	var wg sync.WaitGroup
	for i, id := range ids {
		if n := d.nodes[id]; !n.isDead() {
			wg.Go(func() { out[i].Live, _ = d.liveSwitch(ctx, n) }) // ends with the node's answer or ctx; one that does not answer is left out
		}
	}
	wg.Wait()
	return out, nil
}

func (d *Daemon) switchStatus(id int, now vt.Time, routes int) api.SwitchStatus {
	p := &d.plan.Nodes[id]
	set := d.settings.at(id, now)
	s := api.SwitchStatus{Name: p.Name, State: api.NodeUp, Ports: len(p.Ports), Routes: routes, Settings: d.plan.FormatSwitch(set),
		Resolved: set, Pending: []api.SwitchPending{}}
	if d.nodes[id].isDead() {
		s.State = api.NodeDead
	}
	s.Changed = differences(d.plan.FormatSwitch(*p.Switch), s.Settings)
	for _, e := range d.settings.pending {
		if e.At > now && slices.Contains(e.Nodes, id) {
			s.Pending = append(s.Pending, api.SwitchPending{When: api.WhenNow, AtNs: int64(e.At), Assignments: e.Assign})
		}
	}
	for _, w := range d.armed {
		if w, ok := w.(switchDeed); ok && slices.Contains(w.Nodes, id) {
			s.Pending = append(s.Pending, api.SwitchPending{When: api.WhenNextRun, AtNs: int64(w.At), Assignments: w.Assign})
		}
	}
	return s
}

// differences lists the keys that do not say the same.
func differences(from, to []topology.KeyValue) []api.SettingChange {
	out := []api.SettingChange{}
	was := map[string]string{}
	for _, kv := range from {
		was[kv.Key] = kv.Value
	}
	for _, kv := range to {
		if was[kv.Key] != kv.Value {
			out = append(out, api.SettingChange{Key: kv.Key, Value: kv.Value, Topology: was[kv.Key]})
		}
		delete(was, kv.Key)
	}
	for _, kv := range from {
		if v, only := was[kv.Key]; only {
			out = append(out, api.SettingChange{Key: kv.Key, Topology: v})
		}
	}
	return out
}

// liveSwitch asks a switch how it stands.
func (d *Daemon) liveSwitch(ctx context.Context, n *node) (*switchd.Status, error) {
	s := new(switchd.Status)
	return s, d.fetch(ctx, n, "switch", s)
}

// queues asks all nodes of the fabric at once for their queues, by node; nil is one that does not answer.
func (d *Daemon) queues(ctx context.Context, wait time.Duration) [][]ctl.Queue {
	return fetchAll[ctl.Queue](ctx, d, wait, d.living(d.takesPart), "queues")
}

// congestion gives what the queues did in a run, and says in an event for each switch how much of it there was.
func (d *Daemon) congestion(before, after [][]ctl.Queue) []workload.QueueResult {
	type sums struct{ marked, trimmed, dropped uint64 }
	per := make([]sums, len(d.nodes))
	nodecore.Gain(before, after, func(node int, q *ctl.Queue, c *[link.NumQueueCounters]uint64) {
		s := &per[node]
		s.marked += c[link.QMarked]
		s.trimmed += c[link.QTrim]
		s.dropped += c[link.QDrop] - c[link.QTrim] + c[link.QTrimDrop] + c[link.QWatchdogDrop]
		if n := c[link.QWatchdog]; n > 0 {
			d.event("pfc-watchdog", d.nodes[node].name, "", fmt.Sprintf("fired %d times at %s, queue %s", n, q.Port, topology.QueueName(q.Queue)))
		}
	})
	for node, s := range per {
		if s != (sums{}) && d.plan.Nodes[node].Kind == topology.KindSwitch {
			d.event("congestion", d.nodes[node].name, "", fmt.Sprintf("in the run: %d frames marked, %d trimmed, %d lost", s.marked, s.trimmed, s.dropped))
		}
	}
	return nodecore.QueueResults(d.plan, before, after)
}

// queueStats gives the queues of one node, or of all.
func (d *Daemon) queueStats(ctx context.Context, name string) ([]api.QueueStats, error) {
	ctx, cancel := context.WithTimeout(ctx, switchWait)
	defer cancel()
	lists := make([][]ctl.Queue, len(d.nodes))
	if name == "" {
		lists = d.queues(ctx, switchWait)
	} else {
		p, err := d.plan.Node(name)
		if err != nil {
			return nil, api.Errorf(api.CodeNotFound, "queues: %w", err)
		}
		if !d.takesPart(p.ID) {
			return nil, api.Errorf(api.CodeUsage, "node %s is a plain host: it has no queues of the fabric", name)
		}
		if err := d.fetch(ctx, d.nodes[p.ID], "queues", &lists[p.ID]); err != nil {
			return nil, err
		}
	}
	out := []api.QueueStats{}
	for id, list := range lists {
		for _, q := range list {
			out = append(out, api.QueueStats{Node: d.nodes[id].name, Port: q.Port, Queue: q.Queue, Class: topology.QueueName(q.Queue), Counters: q.C, Depth: q.Depth})
		}
	}
	return out, nil
}
