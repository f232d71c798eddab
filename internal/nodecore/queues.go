package nodecore

import (
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/workload"
)

// Queues tells of the egress queues that have seen a frame, in the order of ports and queues.
func (n *Node) Queues() []ctl.Queue {
	list := []ctl.Queue{}
	for i, p := range n.Ports {
		for q := range link.NumQueues {
			st := p.Stats(q)
			d := ctl.Queue{Port: n.names[i], Queue: q, Depth: st.Depth, C: map[string]uint64{}}
			for c, v := range st.C {
				if v != 0 {
					d.C[link.QueueCounter(c).String()] = v
				}
			}
			if len(d.C) > 0 {
				list = append(list, d)
			}
		}
	}
	return list
}

// Gain calls fn for every queue that nodes told of at two times, with what each counter has gained; gauges are as they are
// at the second. Both lists have the queues of each node of the plan; nil is a node that was not asked.
func Gain(before, after [][]ctl.Queue, fn func(node int, q *ctl.Queue, c *[link.NumQueueCounters]uint64)) {
	type key struct {
		port  string
		queue int
	}
	for id := range after {
		if before[id] == nil || after[id] == nil {
			continue
		}
		was := make(map[key]*ctl.Queue, len(before[id]))
		for i := range before[id] {
			q := &before[id][i]
			was[key{q.Port, q.Queue}] = q
		}
		for i := range after[id] {
			q := &after[id][i]
			old := was[key{q.Port, q.Queue}]
			var c [link.NumQueueCounters]uint64
			for k := range link.NumQueueCounters {
				c[k] = q.C[k.String()]
				if old != nil && !k.IsGauge() {
					c[k] -= min(c[k], old.C[k.String()])
				}
			}
			fn(id, q, &c)
		}
	}
}

// QueueResults is what queues did between two times to frames that did not just pass, in the order of the plan.
func QueueResults(plan *topology.Plan, before, after [][]ctl.Queue) []workload.QueueResult {
	var list []workload.QueueResult
	Gain(before, after, func(node int, q *ctl.Queue, c *[link.NumQueueCounters]uint64) {
		r := workload.QueueResult{Node: plan.Nodes[node].Name, Port: q.Port, Queue: q.Queue, ECNMarked: c[link.QMarked], Trimmed: c[link.QTrim],
			TrimDropped: c[link.QTrimDrop], Dropped: c[link.QDrop] - c[link.QTrim] + c[link.QWatchdogDrop], PeakBytes: c[link.QPeak]}
		if r.ECNMarked+r.Trimmed+r.TrimDropped+r.Dropped > 0 {
			list = append(list, r)
		}
	})
	return list
}

// PeakQueue is the most that waited in any egress queue of a switch since the run began, in bytes.
func PeakQueue(plan *topology.Plan, queues [][]ctl.Queue) (most uint64) {
	for id := range queues {
		if plan.Nodes[id].Kind != topology.KindSwitch {
			continue
		}
		for i := range queues[id] {
			most = max(most, queues[id][i].C[link.QPeak.String()])
		}
	}
	return most
}
