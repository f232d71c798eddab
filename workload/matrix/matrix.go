// Package matrix reads htsim's connection matrices (.cm and .tm files): which host sends how much to which, and when or
// after what. It is strict: everything that is wrong is told with file, line, value and remedy. It opens no file, and
// refuses what uetlab cannot play: flows without a size, connections that would never start.
package matrix

import (
	"fmt"
	"slices"
)

// Limits of a matrix.
const (
	MaxNodes = 32768
	MaxFlows = 1 << 16
	MaxSize  = 1 << 30           // bytes of one connection: what one message carries
	MaxStart = 3_600_000_000_000 // ns
)

// DefaultPrio is the priority of a connection that has none; a lower one is more important.
const DefaultPrio = 2_000_000

// Kind is what a trigger does.
type Kind string

// Kinds of triggers.
const (
	OneShot   Kind = "oneshot"   // its one activation starts all its connections
	MultiShot Kind = "multishot" // each activation starts the next connection, in the order of the file
	Barrier   Kind = "barrier"   // the last of Count activations starts all its connections
)

// Matrix is a connection matrix. Its zero-valued fields are left out of messages: a thousand connections take 100 KB.
type Matrix struct {
	Nodes    int       `json:"nodes"` // hosts, numbered from 0
	Flows    []Flow    `json:"flows"` // connections, in the order of the file
	Triggers []Trigger `json:"triggers,omitempty"`
	Failures []Failure `json:"failures,omitempty"` // links that are down from the start: for the caller to act on
}

// Flow is a connection: one message. Exactly one of StartNs and Trigger says when it starts; a StartNs of 0 is the
// beginning.
type Flow struct {
	ID       int   `json:"id"`            // > 0, of one flow only unless it has a Msg; given in order where the file has none
	Msg      int   `json:"msg,omitempty"` // > 0: a message of the connection ID
	Src      int   `json:"src"`
	Dst      int   `json:"dst"`
	Size     int64 `json:"size"`               // bytes
	StartNs  int64 `json:"startNs,omitempty"`  // after the beginning
	Trigger  int   `json:"trigger,omitempty"`  // that starts it, 0: none
	SendDone int   `json:"sendDone,omitempty"` // trigger activated when the last byte is acknowledged at the sender
	RecvDone int   `json:"recvDone,omitempty"` // trigger activated when the last byte is at the receiver
	Prio     int   `json:"prio,omitempty"`     // 0: DefaultPrio; read and not used
}

// Trigger starts connections when others are done.
type Trigger struct {
	ID    int  `json:"id"` // > 0
	Kind  Kind `json:"kind"`
	Count int  `json:"count,omitempty"` // barrier: activations that it needs
}

// Failure is a link between a switch and one of the tier above that is down from the start. (htsim has them between AGG
// and CORE only.)
type Failure struct {
	Tier   string `json:"tier"` // TOR, AGG or CORE
	Switch int    `json:"switch"`
	Link   int    `json:"link"`
}

// Bytes is the sum of all sizes.
func (m *Matrix) Bytes() int64 {
	var n int64
	for i := range m.Flows {
		n += m.Flows[i].Size
	}
	return n
}

// Role is what a trigger has to do with flows, as indices into Matrix.Flows, in the order of the file.
type Role struct {
	SentBy  []int // activated when these are acknowledged at their senders
	GotBy   []int // activated when these are at their receivers
	Targets []int // start by it
}

// Activations is how often the trigger is activated when all flows run.
func (r *Role) Activations() int { return len(r.SentBy) + len(r.GotBy) }

// Roles gives the role of every trigger, in the order of Triggers. The matrix is valid.
func (m *Matrix) Roles() []Role {
	index := make(map[int]int, len(m.Triggers))
	for i, t := range m.Triggers {
		index[t.ID] = i
	}
	roles := make([]Role, len(m.Triggers))
	add := func(id, flow int, list func(*Role) *[]int) {
		if i, ok := index[id]; ok && id > 0 {
			l := list(&roles[i])
			*l = append(*l, flow)
		}
	}
	for i := range m.Flows {
		f := &m.Flows[i]
		add(f.SendDone, i, func(r *Role) *[]int { return &r.SentBy })
		add(f.RecvDone, i, func(r *Role) *[]int { return &r.GotBy })
		add(f.Trigger, i, func(r *Role) *[]int { return &r.Targets })
	}
	return roles
}

// Validate says what is wrong with a matrix that did not come from Parse, as from a message.
func (m *Matrix) Validate() error {
	r := &report{name: "matrix"}
	m.check(r, &places{})
	return r.err()
}

// places are the lines at which things stand; 0 where there is no file.
type places struct {
	nodes, flows, triggers []int
}

func at(lines []int, i int) int {
	if i < len(lines) {
		return lines[i]
	}
	return 0
}

// check looks at what the matrix means.
func (m *Matrix) check(r *report, p *places) {
	if m.Nodes < 2 || m.Nodes > MaxNodes {
		r.bad(at(p.nodes, 0), "Nodes", fmt.Sprint(m.Nodes), fmt.Sprintf("a matrix has 2 to %d hosts; give their number", MaxNodes))
	}
	if len(m.Flows) == 0 || len(m.Flows) > MaxFlows {
		r.bad(0, "Connections", fmt.Sprint(len(m.Flows)), fmt.Sprintf("a matrix has 1 to %d connections; write at least one, as in 0->1 start 0 size 4096", MaxFlows))
		return
	}
	before := r.count
	m.checkTriggers(r, p)
	for i := range m.Flows {
		m.checkFlow(r, at(p.flows, i), &m.Flows[i])
	}
	m.checkIDs(r, p)
	if r.count == before {
		m.checkReferences(r, p)
	}
	if r.count == before {
		m.checkStarts(r, p)
	}
}

func (m *Matrix) checkTriggers(r *report, p *places) {
	seen := map[int]bool{}
	for i, t := range m.Triggers {
		line := at(p.triggers, i)
		switch {
		case t.ID < 1:
			r.bad(line, "trigger id", fmt.Sprint(t.ID), "ids begin at 1; give a larger one")
		case seen[t.ID]:
			r.bad(line, "trigger id", fmt.Sprint(t.ID), "declared twice; leave one line")
		case t.Kind != OneShot && t.Kind != MultiShot && t.Kind != Barrier:
			r.bad(line, "trigger", string(t.Kind), "no such kind; take oneshot, multishot or barrier")
		case t.Count != 0 && t.Kind != Barrier:
			r.bad(line, "count", fmt.Sprint(t.Count), "only a barrier counts; leave it out, or write barrier")
		case t.Count < 0:
			r.bad(line, "count", fmt.Sprint(t.Count), "give how many activations the barrier needs")
		}
		seen[t.ID] = true
	}
}

func (m *Matrix) checkFlow(r *report, line int, f *Flow) {
	for _, h := range []int{f.Src, f.Dst} {
		if h < 0 || h >= m.Nodes {
			r.bad(line, "host", fmt.Sprint(h), fmt.Sprintf("hosts go from 0 to %d; take one of them, or raise Nodes", m.Nodes-1))
		}
	}
	switch {
	case f.Src == f.Dst:
		r.bad(line, "connection", fmt.Sprintf("%d->%d", f.Src, f.Dst), "a host sends nothing to itself; name two hosts")
	case f.Size == 0:
		r.bad(line, "size", "0", "a flow without an end cannot be played; give its bytes, as in size 2000000")
	case f.Size < 0 || f.Size > MaxSize:
		r.bad(line, "size", fmt.Sprint(f.Size), fmt.Sprintf("a connection carries 1 to %d bytes; cut it into several", MaxSize))
	case f.StartNs < 0 || f.StartNs > MaxStart:
		r.bad(line, "start", fmt.Sprintf("%d ns", f.StartNs), "a start lies within the first hour; check its unit, us or ps")
	case f.StartNs > 0 && f.Trigger != 0:
		r.bad(line, "start", fmt.Sprintf("%d ns", f.StartNs), "there is a trigger too; leave one of them")
	case f.Prio < 0:
		r.bad(line, "prio", fmt.Sprint(f.Prio), "give 0 or more")
	}
}

// checkIDs wants every flow to have a name of its own, and messages of one connection to have its ends.
func (m *Matrix) checkIDs(r *report, p *places) {
	type name struct{ id, msg int }
	first := map[int]int{}
	seen := map[name]bool{}
	for i := range m.Flows {
		f := &m.Flows[i]
		line := at(p.flows, i)
		j, again := first[f.ID]
		switch {
		case f.ID < 1:
			r.bad(line, "id", fmt.Sprint(f.ID), "ids begin at 1; give a larger one")
		case f.Msg < 0:
			r.bad(line, "msg", fmt.Sprint(f.Msg), "message ids begin at 1; give a larger one")
		case again && (f.Msg == 0 || m.Flows[j].Msg == 0):
			r.bad(line, "id", fmt.Sprint(f.ID), "another connection has it; take one of its own, or write msg in both for messages of one connection")
		case again && (m.Flows[j].Src != f.Src || m.Flows[j].Dst != f.Dst):
			r.bad(line, "id", fmt.Sprint(f.ID), fmt.Sprintf("this connection goes from %d to %d; its messages cannot go elsewhere", m.Flows[j].Src, m.Flows[j].Dst))
		case seen[name{f.ID, f.Msg}]:
			r.bad(line, "msg", fmt.Sprint(f.Msg), fmt.Sprintf("connection %d has that message already; take another number", f.ID))
		}
		if !again {
			first[f.ID] = i
		}
		seen[name{f.ID, f.Msg}] = true
	}
}

// checkReferences wants every trigger that a connection names to be there, and to be activated as its kind allows.
func (m *Matrix) checkReferences(r *report, p *places) {
	index := map[int]bool{}
	for _, t := range m.Triggers {
		index[t.ID] = true
	}
	for i := range m.Flows {
		f := &m.Flows[i]
		for _, ref := range []struct {
			key string
			id  int
		}{{"trigger", f.Trigger}, {"send_done_trigger", f.SendDone}, {"recv_done_trigger", f.RecvDone}} {
			if ref.id != 0 && !index[ref.id] {
				r.bad(at(p.flows, i), ref.key, fmt.Sprint(ref.id), fmt.Sprintf("never declared; add a line: trigger id %d oneshot", ref.id))
			}
		}
	}
	for i, role := range m.Roles() {
		t := &m.Triggers[i]
		n, line := role.Activations(), at(p.triggers, i)
		switch {
		case t.Kind == OneShot && n > 1:
			r.bad(line, "trigger", fmt.Sprint(t.ID), fmt.Sprintf("activated %d times, and a oneshot bears one; write barrier count %d, or multishot", n, n))
		case t.Kind == Barrier && t.Count != 0 && t.Count != n:
			r.bad(line, "count", fmt.Sprint(t.Count), fmt.Sprintf("trigger %d is activated %d times; a barrier needs exactly its count: write %d", t.ID, n, n))
		case t.Kind == MultiShot && n > len(role.Targets):
			r.warn(line, fmt.Sprintf("trigger (%d): activated %d times with %d connections to start; the rest does nothing here, htsim may stop", t.ID, n, len(role.Targets)))
		case len(role.Targets) == 0:
			r.warn(line, fmt.Sprintf("trigger (%d): starts nothing", t.ID))
		}
	}
}

// checkStarts wants every connection to start some time: it follows the triggers, each flow being done as soon as it
// starts.
func (m *Matrix) checkStarts(r *report, p *places) {
	index := map[int]int{}
	for i, t := range m.Triggers {
		index[t.ID] = i
	}
	roles := m.Roles()
	hits := make([]int, len(roles))
	started := make([]bool, len(m.Flows))
	var work []int
	for i := range m.Flows {
		if m.Flows[i].Trigger == 0 {
			work = append(work, i)
		}
	}
	for ; len(work) > 0; work = work[1:] {
		f := &m.Flows[work[0]]
		started[work[0]] = true
		for _, id := range []int{f.SendDone, f.RecvDone} {
			if id == 0 {
				continue
			}
			k := index[id]
			hits[k]++
			targets := roles[k].Targets
			switch {
			case m.Triggers[k].Kind == MultiShot && hits[k] <= len(targets):
				work = append(work, targets[hits[k]-1])
			case m.Triggers[k].Kind != MultiShot && hits[k] == roles[k].Activations():
				work = append(work, targets...)
			}
		}
	}
	if i := slices.Index(started, false); i >= 0 {
		f := &m.Flows[i]
		r.bad(at(p.flows, i), "trigger", fmt.Sprint(f.Trigger),
			fmt.Sprintf("connection %d->%d never starts, because too few activate its trigger; add send_done_trigger %d to a connection that runs before it", f.Src, f.Dst, f.Trigger))
	}
}
