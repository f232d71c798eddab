package nodeproc

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/fep/cms"
	"github.com/uetlab/uetlab/fep/pds"
	"github.com/uetlab/uetlab/internal/ctl"
)

const (
	// ccsAtOnce, evsAtOnce and windowsAtOnce are how many contexts, entropy values and changes of windows go into one message: what any
	// socket takes.
	ccsAtOnce     = 200
	evsAtOnce     = 1000
	windowsAtOnce = 1000
)

var errNoFEP = errors.New("not an end point")

// look answers messages that only look; false: m is none of them.
func (p *proc) look(m *ctl.Message) (data any, err error, ok bool) {
	f := p.core.FEP
	switch m.Op {
	case "pdcs":
		return p.pdcs(m.From), nil, true
	case "queues":
		return p.core.Queues(), nil, true
	case "lldp":
		return p.core.Neighbours(p.loop.horizon), nil, true
	case "phy":
		return p.core.PHY(p.loop.horizon), nil, true
	case "llr":
		return p.core.Retries(p.loop.horizon), nil, true
	case "cbfc":
		return p.core.Credits(p.loop.horizon), nil, true
	case "series":
		return p.core.Series(m.From), nil, true
	case "ways":
		if p.core.Switch == nil {
			return nil, errors.New("ways: not a switch"), true
		}
		return p.ways(m.Packets), nil, true
	case "ccs", "windows", "paths", "headers":
		if f == nil {
			return nil, fmt.Errorf("%s: %w", m.Op, errNoFEP), true
		}
	}
	switch m.Op {
	case "ccs":
		return ccs(f, m.From), nil, true
	case "windows":
		p.watchWindows(m.Up)
		return nil, nil, true
	case "paths", "headers":
		peer, err := netip.ParseAddr(m.Peer)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Op, err), true
		}
		if m.Op == "paths" {
			return paths(f.PDS(), peer, m.From), nil, true
		}
		var out [][]byte
		for _, ev := range m.EVs[:min(len(m.EVs), evsAtOnce)] {
			out = append(out, f.PDS().Header(peer, ev))
		}
		return out, nil, true
	}
	return nil, nil, false
}

// ways says by which port the switch would send packets now.
func (p *proc) ways(packets [][]byte) []int {
	out := make([]int, len(packets))
	for i, b := range packets {
		out[i] = p.core.Switch.Way(b)
	}
	return out
}

// ccs describes an end point's congestion control contexts from the number from on.
func ccs(f *fep.FEP, from int) ctl.CCs {
	out := ctl.CCs{List: []ctl.CC{}}
	if cc := f.PDS().Config().CC; cc != nil {
		out.Algorithm = cc.Algorithm.String()
	}
	all := f.PDS().Contexts(nil)
	from = min(max(from, 0), len(all))
	to := min(from+ccsAtOnce, len(all))
	for i := range all[from:to] {
		out.List = append(out.List, describeCC(&all[from+i]))
	}
	if to < len(all) {
		out.Next = to
	}
	return out
}

func describeCC(c *pds.ContextInfo) ctl.CC {
	d := ctl.CC{ID: c.ID, PeerAddr: c.Peer.String(), TC: c.TC, Algorithm: c.Algorithm.String(), PDCs: c.PDCs, Blocked: c.Blocked,
		Cwnd: c.Cwnd, MaxWnd: c.MaxWnd, RateBps: c.Rate, InFlight: c.InFlight, Packets: c.Packets, Waiting: c.Waiting, Marked: c.Marked,
		BaseRTTNs: int64(c.BaseRTT), RTTNs: int64(c.LastRTT), DelayNs: int64(c.Delay), TargetNs: int64(c.Target), ECNShare: c.ECNShare,
		Credit: c.Credit, Speculating: c.Speculating, Last: c.Last.String(), Decisions: map[string]uint64{},
		Acks: c.Acks, ECN: c.ECN, Trims: c.Trims, TrimsLastHop: c.TrimsLastHop, Nacks: c.Nacks, Losses: c.Losses, Timeouts: c.Timeouts,
		Grants: c.Grants}
	for i, n := range c.Counts {
		if n > 0 {
			d.Decisions[cms.Decision(i).String()] = n
		}
	}
	return d
}

// paths counts from now on what is sent to a peer by entropy value, and tells what is known, from the number from on.
func paths(m *pds.Manager, peer netip.Addr, from int) ctl.Paths {
	out := ctl.Paths{PDCs: []ctl.PDCPaths{}, Counts: m.WatchPaths(peer)}
	at, left := 0, evsAtOnce
	for _, i := range m.Paths(peer, nil) {
		d := ctl.PDCPaths{PDC: i.PDC, Mode: i.Mode.String(), TC: i.TC, Algorithm: string(i.Algorithm), Frozen: i.Frozen, Explore: i.Explore,
			Moves: i.Moves, Packets: i.Packets, Bytes: i.Bytes}
		lo := min(max(from-at, 0), len(i.Paths))
		hi := min(lo+left, len(i.Paths))
		for _, e := range i.Paths[lo:hi] {
			d.EVs = append(d.EVs, ctl.EV{EV: e.EV, State: e.State.String(), Score: e.Score, Uses: e.Uses, Packets: e.Packets, Bytes: e.Bytes,
				Last: e.Last.String(), LastNs: int64(e.LastAt)})
		}
		at, left = at+len(i.Paths), left-(hi-lo)
		if hi < len(i.Paths) && out.Next == 0 {
			out.Next = at - len(i.Paths) + hi
		}
		if from == 0 || hi > lo {
			out.PDCs = append(out.PDCs, d)
		}
	}
	return out
}

// watchWindows begins or ends to tell the daemon of changes of windows, and tells at once of those that it has not told of.
func (p *proc) watchWindows(on bool) {
	p.tellWindows()
	switch {
	case !on:
		p.windows = nil
		p.core.WatchWindows(nil)
	case p.windows == nil:
		p.windows = &ctl.Windows{}
		p.core.WatchWindows(p.changed)
	}
}

// changed takes one change.
func (p *proc) changed(c ctl.ContextPart) {
	w := p.windows
	if k := len(w.List) - 1; k >= 0 && w.List[k].Peer == c.Peer && w.List[k].TC == c.TC {
		w.List[k].Points = append(w.List[k].Points, c.Points...)
	} else {
		w.List = append(w.List, c)
	}
	if p.nWindows++; p.nWindows >= windowsAtOnce {
		p.tellWindows()
	}
}

// tellWindows sends what has been taken. Virtual time stands still here until the daemon has room for it.
func (p *proc) tellWindows() {
	w := p.windows
	if w == nil || p.nWindows == 0 {
		return
	}
	if err := p.conn.Send(&ctl.Reply{Window: w}); err != nil {
		fmt.Fprintln(os.Stderr, "tell of windows:", err) // nobody is there: a new daemon asks anew
		p.windows = nil
		p.core.WatchWindows(nil)
	}
	w.List, p.nWindows = nil, 0
}
