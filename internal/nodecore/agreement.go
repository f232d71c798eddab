package nodecore

import (
	"fmt"
	"strings"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/link/cbfc"
	"github.com/uetlab/uetlab/internal/link/llr"
	"github.com/uetlab/uetlab/internal/lldp"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// bargain is what a port wants of its link, and with which parameters it does what comes of that.
type bargain struct {
	said    topology.Wish
	wish    lldp.Wish   // the same for the agent
	retry   *llr.Config // for when both want LLR
	setup   *cbfc.Setup // nil: there are no credits here, whoever wants them
	changed bool        // the port has not followed the latest agreement yet
	problem string      // of the neighbour's profile
}

// bargainOf is what a port wants at first. One without trailers wants nothing.
func bargainOf(q *topology.Port, plain bool) bargain {
	if plain {
		return bargain{}
	}
	g := bargain{retry: q.LLR, setup: q.CBFC}
	w := q.Wish
	if !q.Negotiated {
		w = topology.Wish{LLR: q.LLR != nil, CBFC: q.CBFC != nil}
	}
	g.want(w)
	return g
}

func (g *bargain) want(w topology.Wish) {
	g.said = w
	g.wish = lldp.Wish{LLR: w.LLR, CBFC: w.CBFC && g.setup != nil}
	if g.wish.CBFC {
		g.wish.Rx = topology.Announced(g.setup, w.Limit)
	}
}

// expectAgreement has ports that may get LLR or CBFC be prepared for their frames from the start.
func (n *Node) expectAgreement(cfg *ctl.Config) {
	for i, q := range cfg.Node.Ports {
		switch {
		case !q.Negotiated || n.plain[i]:
		case q.LLR != nil:
			n.ExpectLLR(i, 0)
		case q.CBFC != nil:
			n.Ports[i].ExpectSets()
		}
	}
}

// checkWish looks at a wish before it is scheduled.
func (n *Node) checkWish(port int, w *ctl.Wish) error {
	q := &n.cfg.Node.Ports[port]
	switch {
	case !q.Negotiated:
		return fmt.Errorf("port %s negotiates nothing", q.Name)
	case w.Retry == nil:
		return fmt.Errorf("port %s: a wish without parameters of LLR", q.Name)
	case w.CBFC && q.CBFC == nil:
		return fmt.Errorf("port %s has no credits", q.Name)
	case w.CBFC:
		if err := cbfc.CheckProfile(topology.Announced(q.CBFC, w.Limit), q.MTU+ethAndTag); err != nil {
			return err
		}
	}
	return w.Retry.Validate()
}

// obey has the port follow a change of what its agent has agreed on, before the agent's frame leaves.
func (b *neighbours) obey(now vt.Time, port int, c lldp.Change, was lldp.Agreement) {
	if c == 0 {
		return
	}
	p, out := &b.ports[port], b.n.Ports[port]
	if p.obeys && c&lldp.AgreementChanged != 0 {
		is := p.agent.Agreement()
		switch {
		case is.LLR && was.LLR && c&lldp.PeerRestarted != 0:
			out.ReInitLLR(now)
		case is.LLR && !was.LLR:
			if err := out.SetLLR(now, p.retry); err != nil {
				panic(err) // the topology, or Change, has seen it
			}
		case !is.LLR && was.LLR:
			_ = out.SetLLR(now, nil)
		}
		p.problem = ""
		if tx, rx := out.CBFC(); tx != nil {
			if err := lldp.Follow(now, c, &was, &is, tx, rx, out.Config().MTU+ethAndTag); err != nil {
				p.problem = err.Error()
			}
		}
		p.changed = true
	}
	b.report(now, port, c)
}

// follow lets frames go that an agreement has let go, behind the agent's frame.
func (b *neighbours) follow(now vt.Time, port int) {
	p := &b.ports[port]
	if p.quiet != 0 && p.quiet <= now {
		p.quiet = 0
		b.report(now, port, 0)
	}
	if !p.changed {
		return
	}
	p.changed = false
	theirs := p.agent.Agreement().Tx
	if p.problem != "" {
		theirs = nil
	}
	b.n.Ports[port].Agreed(now, theirs)
}

// setWish changes what a port wants.
func (b *neighbours) setWish(now vt.Time, port int, w *ctl.Wish) {
	p := &b.ports[port]
	if p.agent == nil {
		return
	}
	p.retry = w.Retry
	if p.said == w.Wish {
		return
	}
	p.want(w.Wish)
	was := p.agent.Agreement()
	b.obey(now, port, p.agent.SetWish(now, p.wish), was)
	b.advance(now, port)
}

// configured tells the agent of a port whose LLR or CBFC does not depend on it.
func (b *neighbours) configured(now vt.Time, port int, retry *ctl.Retry, credit *ctl.Credit) {
	p := &b.ports[port]
	if p.agent == nil || p.obeys {
		return
	}
	w := p.said
	if retry != nil {
		w.LLR = retry.LLR != nil
	}
	if credit != nil {
		p.setup, w.CBFC = credit.CBFC, credit.CBFC != nil
	}
	p.want(w)
	was := p.agent.Agreement()
	b.obey(now, port, p.agent.SetWish(now, p.wish), was)
	b.advance(now, port)
}

// describe tells what a port wants and what it has agreed on.
func (p *agentPort) describe(d *ctl.LLDPPort) {
	g := p.agent.Agreement()
	d.LLR, d.CBFC, d.WantLLR, d.WantCBFC, d.Static, d.Problem = g.LLR, g.CBFC, p.wish.LLR, p.wish.CBFC, p.cfg.Static, p.problem
	switch {
	case g.Tx == nil || p.problem != "":
	case g.Tx.Method == wire.CBFCTotal:
		d.Limit = g.Tx.Total
	case len(g.Tx.VCs) > 0:
		d.Limit = g.Tx.VCs[0].Limit
	}
}

// state is what an event of a port is about.
type state struct {
	peer      string // system and port, empty: nobody
	llr, cbfc bool
	problem   string
}

// story is what has been told of a port. That a run begins with agents that know nobody is no event, unless nobody is heard then.
type story struct {
	told  state
	quiet vt.Time // until then it is no event that nobody is heard
}

func (s *story) begin(now vt.Time) { s.quiet = now.Add(lldp.TTL) }

// report tells what is other than what was told last.
func (b *neighbours) report(now vt.Time, port int, c lldp.Change) {
	p := &b.ports[port]
	if b.n.Heard == nil {
		return
	}
	g, is := p.agent.Agreement(), state{}
	if n := p.agent.Neighbour(); n != nil {
		is = state{peer: strings.TrimSpace(n.System + " " + n.Port)}
		p.quiet = 0
	} else if now < p.quiet {
		return
	}
	is.llr, is.cbfc, is.problem = g.LLR, g.CBFC, p.problem
	was := p.told
	p.told = is
	if text := is.since(&was, c&lldp.PeerRestarted != 0); text != "" {
		b.n.Heard(ctl.LLDPEvent{Port: port, Text: text})
	}
}

// since says what has changed.
func (s *state) since(was *state, restarted bool) string {
	var out []string
	switch {
	case s.peer == was.peer && restarted:
		out = append(out, "neighbour "+s.peer+" has started again")
	case s.peer == was.peer:
	case was.peer == "":
		out = append(out, "neighbour "+s.peer+" appeared")
	case s.peer == "":
		out = append(out, "neighbour "+was.peer+" is gone")
	default:
		out = append(out, "neighbour "+s.peer+" in the place of "+was.peer)
	}
	turn := func(name string, was, is bool) {
		if was != is {
			out = append(out, name+map[bool]string{true: " on", false: " off"}[is])
		}
	}
	turn("LLR", was.llr, s.llr)
	turn("CBFC", was.cbfc, s.cbfc)
	if s.problem != was.problem && s.problem != "" {
		out = append(out, "sends without credits: "+s.problem)
	}
	return strings.Join(out, "; ")
}
