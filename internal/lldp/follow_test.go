package lldp

import (
	"testing"
	"time"

	"github.com/uetlab/uetlab/wire"
)

// TestStepsOfBringUp plays the neighbour by hand: each step waits for the one before, and what is meant for a former life counts for nothing.
func TestStepsOfBringUp(t *testing.T) {
	p := newPort(t, 0, 0, both)
	hear := func(o wire.UEOptionsFields, tx *wire.UECBFCFields) {
		t.Helper()
		o.CBFCWanted, o.BootID = wire.WishBoth, 7
		o.LabFlags |= wire.LabTrailer
		b := say(o, 4)
		b = b[:len(b)-2]
		if tx != nil {
			b = wire.AppendUECBFC(b, tx)
		}
		was := p.a.Agreement()
		p.obey(1, p.a.Receive(1, wire.AppendLLDPEnd(b)), was)
	}
	said := func() wire.UEOptionsFields {
		t.Helper()
		b, ok, _ := p.a.Advance(1, nil)
		list, err := wire.ParseLLDP(b[wire.EthLen:])
		if !ok || err != nil {
			t.Fatalf("nothing is told: %v, %v", ok, err)
		}
		for _, tlv := range list {
			if o, err := wire.ParseUEOptions(tlv); err == nil {
				return o.Fields()
			}
		}
		t.Fatal("no options")
		return wire.UEOptionsFields{}
	}
	state := func(want string) {
		t.Helper()
		got := map[bool]string{true: "receiver on", false: "receiver off"}[p.r.On() != 0]
		switch {
		case p.s.On() != 0:
			got += ", sender on"
		case !p.s.Ready(1, 0, 1):
			got += ", sender held"
		default:
			got += ", best effort"
		}
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	said()
	state("receiver off, best effort")
	hear(wire.UEOptionsFields{}, rx(500))
	state("receiver off, sender held")
	if o := said(); o.CBFCEnabled != wire.WishBoth || o.LabFlags&wire.LabCBFCReady != 0 || o.Echo != wire.UEEcho(7, 0) {
		t.Errorf("held: it says %+v", o)
	}
	me := wire.UEEcho(p.cfg.BootID, 0)
	hear(wire.UEOptionsFields{CBFCEnabled: wire.WishBoth, LabFlags: wire.LabCBFCReady, Echo: me + 1}, rx(500)) // said to another
	state("receiver off, sender held")
	hear(wire.UEOptionsFields{CBFCEnabled: wire.WishBoth, Echo: me}, rx(500))
	state("receiver on, sender held")
	if o := said(); o.LabFlags&wire.LabCBFCReady == 0 {
		t.Errorf("its receiver is on: it says %+v", o)
	}
	p.r.Stored(1, 0, 10)
	ready := wire.UEOptionsFields{CBFCEnabled: wire.WishBoth, LabFlags: wire.LabCBFCReady, Echo: me}
	hear(ready, rx(500))
	state("receiver on, sender on")
	if p.r.VC(0).Consumed != 10 || p.s.VC(1, 0).Limit != 500 {
		t.Errorf("the receiver began again, %+v, or limits are not those of the neighbour, %+v", p.r.VC(0), p.s.VC(1, 0))
	}
	ready.Life = 1 // it has lost sight of this port for a while
	hear(ready, rx(500))
	state("receiver on, sender on")
	if p.changes&CreditsRestart == 0 || p.r.VC(0).Consumed != 0 || said().Echo != wire.UEEcho(7, 1) {
		t.Errorf("changes %b, %+v", p.changes, p.r.VC(0))
	}
	ready.Life = 1
	hear(ready, nil)
	state("receiver on, best effort")
	hear(ready, rx(500))
	state("receiver on, sender on")
	// This port gives up, and does not take for an answer what was one to its former life.
	p.setWish(1, Wish{LLR: true})
	state("receiver off, best effort")
	p.setWish(1, both)
	state("receiver off, sender held")
	hear(ready, rx(500))
	state("receiver off, sender held")
	p.a.tokens = burst
	if o := said(); o.Life != 1 {
		t.Errorf("after giving up: it says %+v", o)
	}
	ready.Echo = wire.UEEcho(p.cfg.BootID, 1)
	hear(ready, rx(500))
	state("receiver on, sender on")
}

func TestGoodByeOfSomebodyElse(t *testing.T) {
	c := newCable(t, both, both)
	c.forth(time.Second)
	was := *c.a.a.Neighbour()
	if ch := c.a.a.Receive(c.now, say(wire.UEOptionsFields{}, 0)); ch != 0 || c.a.a.Neighbour() == nil || c.a.a.Neighbour().Since != was.Since {
		t.Errorf("changes %b, neighbour %+v", ch, c.a.a.Neighbour())
	}
}

func TestNewNeighbourIsAnsweredAtOnce(t *testing.T) {
	a := New(config(0))
	a.SetLink(0, true)
	a.Advance(0, nil)
	a.Receive(1000, say(wire.UEOptionsFields{}, 4))
	if at := a.Deadline(); at != 1000 {
		t.Errorf("the next frame is due at %v", at)
	}
}

func TestTextsAreFitForATerminal(t *testing.T) {
	a := New(config(0))
	b := say(wire.UEOptionsFields{}, 4)
	b = wire.AppendLLDPEnd(wire.AppendTLV(b[:len(b)-2], wire.LLDPSysName, []byte("\x1b[2Jleaf\n\xff")))
	a.Receive(0, b)
	if got := a.Neighbour().System; got != "?[2Jleaf?\uFFFD" {
		t.Errorf("%q", got)
	}
}

// TestLostFramesOfBringUp loses each frame of the agents, and each two, while credits come up, are given up by one end, and come up again: nothing waits for the next second. What is not lost
// needs no frame more than before.
func TestLostFramesOfBringUp(t *testing.T) {
	frames := func(first, second int) int {
		c := newCable(t, both, both)
		n := 0
		lose := func(p *port) func() bool {
			return func() bool {
				tx := int(p.a.C[Tx])
				if tx == p.sent { // not the agent's
					return false
				}
				p.sent = tx
				n++
				return n == first || n == second
			}
		}
		for _, p := range []*port{c.a, c.b} {
			p.sent = 0
			p.lose = lose(p)
		}
		works := func(step string, on uint32) {
			t.Helper()
			c.forth(20 * time.Millisecond)
			for _, p := range []*port{c.a, c.b} {
				if p.s.On() != on || p.r.On() != on {
					t.Errorf("frames %d and %d lost: %s: %s has %#x and %#x on, %+v", first, second, step, p.cfg.System, p.s.On(), p.r.On(), p.a.Agreement())
				}
			}
		}
		works("up", 1)
		c.a.setWish(c.now, Wish{LLR: true})
		works("given up", 0)
		c.b.a.tokens, c.a.a.tokens = burst, burst
		c.a.setWish(c.now, both)
		works("up again", 1)
		return n
	}
	all := frames(0, 0)
	for i := 1; i <= all+2; i++ {
		for j := i; j <= i+3; j++ {
			if i > 1 || j > 2 { // who has heard nobody waits for nobody
				frames(i, j)
			}
		}
	}
	t.Logf("%d frames", all)
}

// TestHeldFramesDoNotWaitForTokens has agents without tokens, after many changes of mind, bring credits up and down: the frames for which senders are held come soon nevertheless.
func TestHeldFramesDoNotWaitForTokens(t *testing.T) {
	c := newCable(t, both, both)
	c.forth(20 * time.Millisecond)
	c.a.a.tokens, c.b.a.tokens = 0, 0
	c.a.setWish(c.now, Wish{LLR: true})
	c.forth(time.Millisecond)
	c.b.setWish(c.now, Wish{})
	c.a.setWish(c.now, both)
	c.forth(10 * time.Millisecond)
	c.b.setWish(c.now, both)
	c.forth(100 * time.Millisecond)
	for _, p := range []*port{c.a, c.b} {
		if g := p.a.Agreement(); !g.LLR || !g.PeerReady || p.s.On() != 1 || p.r.On() != 1 {
			t.Errorf("%s: %+v, channels on %#x and %#x", p.cfg.System, g, p.s.On(), p.r.On())
		}
	}
	c.forth(3 * time.Second) // calm
	if c.a.a.over != 0 || c.b.a.over != 0 {
		t.Errorf("%d and %d frames more than allowed", c.a.a.over, c.b.a.over)
	}
}
