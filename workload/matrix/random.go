package matrix

import "math/rand/v2"

// Random draws a valid matrix with so many hosts and flows of 1 to most bytes: some start at a time of their own, others
// by triggers of all kinds. Tests play it.
func Random(rng *rand.Rand, nodes, flows int, most int64) *Matrix {
	m := &Matrix{Nodes: nodes}
	free := []int{} // ends of flows that activate nothing yet: flow*2, +1 for the receiver's
	fresh := func(trigger int) {
		f := Flow{ID: len(m.Flows) + 1, Src: rng.IntN(nodes), Size: 1 + rng.Int64N(most), Trigger: trigger}
		f.Dst = (f.Src + 1 + rng.IntN(nodes-1)) % nodes
		if trigger == 0 && rng.IntN(2) == 0 {
			f.StartNs = rng.Int64N(30_000)
		}
		free = append(free, 2*len(m.Flows), 2*len(m.Flows)+1)
		m.Flows = append(m.Flows, f)
	}
	activate := func(trigger int) {
		i := rng.IntN(len(free))
		f := &m.Flows[free[i]/2]
		if free[i]%2 == 0 {
			f.SendDone = trigger
		} else {
			f.RecvDone = trigger
		}
		free[i] = free[len(free)-1]
		free = free[:len(free)-1]
	}
	for len(m.Flows) < flows {
		left := flows - len(m.Flows)
		if len(free) == 0 || rng.IntN(3) == 0 {
			fresh(0)
			continue
		}
		t := Trigger{ID: len(m.Triggers) + 1, Kind: []Kind{OneShot, MultiShot, Barrier}[rng.IntN(3)]}
		hits, targets := 1, 1+rng.IntN(min(left, 4))
		if t.Kind != OneShot {
			hits = 1 + rng.IntN(min(len(free), 4))
		}
		if t.Kind == MultiShot {
			targets = min(targets, hits)
		}
		for range hits {
			activate(t.ID)
		}
		for range targets {
			fresh(t.ID)
		}
		if t.Kind == Barrier && rng.IntN(2) == 0 {
			t.Count = hits
		}
		m.Triggers = append(m.Triggers, t)
	}
	return m
}
