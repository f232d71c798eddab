package main

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/perf"
)

// conditions are what a measurement stands under.
type conditions struct {
	Lab      string   `json:"lab"`
	Topology string   `json:"topology"`
	Runtime  string   `json:"runtime"`
	Time     string   `json:"time"` // virtual | real
	From     string   `json:"from"`
	To       string   `json:"to"`
	FromAddr string   `json:"fromAddr"`
	ToAddr   string   `json:"toAddr"`
	Path     []string `json:"path"`              // node, or nodes of which each is on a shortest path, from one end to the other
	Links    int      `json:"links"`             // of one path
	RateBps  int64    `json:"rateBps"`           // of the slowest link
	DelayNs  int64    `json:"delayNs"`           // links and switches, one way, nothing queued, without the time that a packet's bits take
	Payload  int      `json:"payloadMtu"`        // bytes of a packet
	Faults   []string `json:"faults"`            // links that are not healthy
	Machine  string   `json:"machine,omitempty"` // with real time
}

// perfConditions works out the way between two end points, as the topology has it.
func perfConditions(plan *topology.Plan, ends [2]*topology.Node, lab api.Lab) conditions {
	c := conditions{Lab: lab.Name, Topology: plan.Name, Runtime: lab.Runtime, Time: "virtual", From: ends[0].Name, To: ends[1].Name,
		FromAddr: ends[0].Addr4.String(), ToAddr: ends[1].Addr4.String(), Payload: plan.PayloadMTU, Faults: []string{}}
	if lab.Time == "real" {
		c.Time, c.Machine = "real", machine()
	}
	there, back := hops(plan, ends[0].ID), hops(plan, ends[1].ID)
	c.Links = there[ends[1].ID]
	for step := 0; step <= c.Links; step++ {
		var names []string
		for i, n := range plan.Nodes {
			if there[i] == step && back[i] == c.Links-step {
				names = append(names, n.Name)
			}
		}
		c.Path = append(c.Path, several(names))
	}
	c.RateBps, c.DelayNs = slowest(plan, ends, back)
	return c
}

// hops counts the links from a node to each other one, through switches; -1: there is no way.
func hops(plan *topology.Plan, from int) []int {
	dist := slices.Repeat([]int{-1}, len(plan.Nodes))
	dist[from] = 0
	for queue := []int{from}; len(queue) > 0; queue = queue[1:] {
		n := queue[0]
		if n != from && plan.Nodes[n].Kind != topology.KindSwitch {
			continue
		}
		for _, p := range plan.Nodes[n].Ports {
			if dist[p.Peer] < 0 {
				dist[p.Peer] = dist[n] + 1
				queue = append(queue, p.Peer)
			}
		}
	}
	return dist
}

// slowest follows one shortest way to the other end.
func slowest(plan *topology.Plan, ends [2]*topology.Node, back []int) (rate, delay int64) {
	for n := ends[0]; n != ends[1]; {
		next := n
		for _, p := range n.Ports {
			if back[p.Peer] >= 0 && back[p.Peer] < back[n.ID] {
				next = &plan.Nodes[p.Peer]
				delay += int64(p.Delay + next.Latency)
				if rate == 0 || p.Rate < rate {
					rate = p.Rate
				}
				break
			}
		}
		if next == n {
			break
		}
		n = next
	}
	return rate, delay
}

// several names nodes of which each does.
func several(names []string) string {
	if len(names) <= 2 {
		return strings.Join(names, "|")
	}
	return fmt.Sprintf("%s…%s (%d)", names[0], names[len(names)-1], len(names))
}

// sick notes the links that are not healthy.
func (r *perfRun) sick() {
	for _, l := range r.links {
		if l.State != api.LinkUp {
			r.conditions.Faults = append(r.conditions.Faults, l.Name+" "+l.State)
		}
	}
}

// machine describes what real time depends on.
func machine() string {
	b, err := os.ReadFile("/proc/loadavg")
	load, _, _ := strings.Cut(string(b), " ")
	if err != nil {
		load = "not known"
	}
	return fmt.Sprintf("%d processors, load %s", runtime.NumCPU(), load)
}

// text writes the conditions for people.
func (c *conditions) text(s *perf.Spec) string {
	var b strings.Builder
	mode := "RUD"
	if s.Ordered {
		mode = "ROD"
	}
	what := []string{s.Test, s.Metric}
	if s.Op != "" {
		what = append(what, s.Op)
	}
	if s.Bidirectional {
		what = append(what, "both ways")
	}
	fmt.Fprintf(&b, "# %s, %s: %s (%s) to %s (%s), lab %s, %s\n", strings.Join(what, " "), mode, c.From, c.FromAddr, c.To, c.ToAddr, c.Lab, c.Runtime)
	fmt.Fprintf(&b, "# path: %s; %d links of %s or more, %s one way, %d bytes a packet\n", strings.Join(c.Path, " - "), c.Links, rate(c.RateBps), time.Duration(c.DelayNs), c.Payload)
	faults := "none"
	if len(c.Faults) > 0 {
		faults = strings.Join(c.Faults, ", ")
	}
	fmt.Fprintf(&b, "# faults in the lab: %s\n", faults)
	if c.Time == "real" {
		fmt.Fprintf(&b, "# times: the wall's (--time real): they tell of this machine, %s\n", c.Machine)
	} else {
		b.WriteString("# times: virtual, exact, the same in every run\n")
	}
	return b.String()
}
