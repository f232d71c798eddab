// Package lldp is the LLDP agent of one port (IEEE 802.1AB with the TLVs of the UEC, UE 1.0.2 §5.3; uet-link-switch.md
// section 4): it tells the neighbour who is here and what of LLR and CBFC the port wants, keeps what the neighbour says until
// it expires, and works out what both agree on. It sends nothing and switches nothing: its owner carries the frames, and
// obeys the agreement. It reads no clock; times are virtual.
//
// Frames come from outside: nothing in them may break the agent, and a frame that is not well-formed changes nothing.
package lldp

import (
	"time"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// Every and TTL are the lab's times: a frame a second, good for four.
const (
	Every = time.Second
	TTL   = 4 * time.Second
)

// burst is how many frames may go at once; one more every second (IEEE 802.1AB txCreditMax, of which this is the highest). To bring credits up takes
// four: so a neighbour may start again within the second in which this port came up, and the link does not wait.
const burst = 10

// Config says who is here.
type Config struct {
	MAC     wire.MAC // the port's own
	Chassis wire.MAC // the node's: all its ports say the same
	System  string   // the node's name
	Port    string   // the interface's name
	Desc    string   // what the port is for, "" for nothing
	Can     uint16   // wire.LLDPCap…
	Address []byte   // management address: 4 or 16 bytes, nil for none
	IfIndex uint32
	BootID  uint32 // changes when the node starts again
	Trailer bool   // the port speaks link trailers
	// Static has wishes hold without asking the neighbour, who is heard and told nevertheless.
	Static bool
}

// Wish is what a port wants of its link. Rx is what its CBFC receiver announces, nil for nothing.
type Wish struct {
	LLR, CBFC bool
	Rx        *wire.UECBFCFields
}

// Agreement is what holds on the link now.
type Agreement struct {
	LLR, CBFC bool
	// PeerHeld says that the neighbour's sender has cleared its counts and waits, or sends by them: whoever gets to know this first
	// clears its receiver and turns it on. PeerReady says that the neighbour's receiver has done that: the sender, held since
	// CBFC was agreed on, may send. Both are false without CBFC.
	PeerHeld, PeerReady bool
	// Tx is what the neighbour's receiver announces, nil if nothing: then what is sent needs no credits.
	Tx *wire.UECBFCFields
}

// Change says what has happened, by bit.
type Change uint8

// What can happen.
const (
	NeighbourNew     Change = 1 << iota
	NeighbourChanged        // it says something else
	NeighbourGone           // it said good-bye, or nothing for longer than it had announced
	PeerRestarted           // the same port with another boot ID: LLR and CBFC begin anew
	CreditsRestart          // its CBFC begins anew: it has started again, or had lost sight of this port
	AgreementChanged        // see Agent.Agreement; comes with PeerRestarted and CreditsRestart too
)

// Counter numbers an agent's counters.
type Counter int

// The counters of an agent.
const (
	Tx         Counter = iota // frames written
	Rx                        // frames taken
	Discarded                 // frames that are not well-formed
	TLVBad                    // TLVs that are not well-formed, or come twice
	TLVUnknown                // TLVs of unknown types and organisations
	Inserted                  // neighbours that appeared
	Deleted                   // neighbours that went, for whatever reason
	Aged                      // of them, because they had been silent for too long
	Restarts                  // neighbours that started again
	NumCounters
)

var counterNames = [NumCounters]string{"tx", "rx", "rx_discarded", "rx_tlv_bad", "rx_tlv_unknown", "inserted", "deleted", "aged_out", "restarts"}

// String is the counter's name in tables and metrics.
func (c Counter) String() string { return counterNames[c] }

// Agent is the agent of one port. It is for one goroutine.
type Agent struct {
	C [NumCounters]uint64

	cfg    Config
	wish   Wish
	about  string // system description
	agreed Agreement
	life   uint8 // how often CBFC was given up
	up     bool

	peer *Neighbour
	said []byte // its last frame's data unit

	sendAt vt.Time // when the next frame is due
	told   vt.Time // when the last one left
	hasty  int     // frames since then, and before, that came sooner than usual because the neighbour is waited for
	tokens int
	refill vt.Time // when there is one more, while they are fewer than burst
	urgent bool    // the neighbour may wait for the next frame
	over   int     // frames that left without a token because of that
}

// New makes the agent of a port whose link is down.
func New(cfg Config) *Agent {
	a := &Agent{cfg: cfg, sendAt: vt.Never, tokens: burst, refill: vt.Never}
	a.agreed = a.agree()
	return a
}

// Agreement returns what holds now.
func (a *Agent) Agreement() Agreement { return a.agreed }

// Neighbour returns what is known of the far end, nil if nothing. It may be read until the next call.
func (a *Agent) Neighbour() *Neighbour { return a.peer }

// SetLink says whether the port may send. What is known of the neighbour stays until it expires: a short cut of the link changes nothing.
func (a *Agent) SetLink(now vt.Time, up bool) {
	if up == a.up {
		return
	}
	a.up, a.sendAt = up, vt.Never
	if up {
		a.sendAt, a.hasty = now, 0
	}
}

// SetWish changes what the port wants; the neighbour is told at once.
func (a *Agent) SetWish(now vt.Time, w Wish) Change {
	a.wish = w
	a.tell(now)
	return a.settle(now)
}

// Describe changes what the node says of itself (System Description); the neighbour is told at once.
func (a *Agent) Describe(now vt.Time, about string) {
	if about != a.about {
		a.about = about
		a.tell(now)
	}
}

// tell has a frame sent at once.
func (a *Agent) tell(now vt.Time) {
	if a.up {
		a.sendAt = min(a.sendAt, now)
	}
}

// agree works out what holds. Of wishes, only 3 is a yes.
func (a *Agent) agree() Agreement {
	w := a.wish
	if a.cfg.Static {
		g := Agreement{LLR: w.LLR, CBFC: w.CBFC, PeerHeld: w.CBFC, PeerReady: w.CBFC}
		if w.CBFC {
			g.Tx = w.Rx // both ends are set alike
		}
		return g
	}
	if a.peer == nil || a.peer.Options == nil || !a.cfg.Trailer {
		return Agreement{}
	}
	o := a.peer.Options
	if o.LabFlags&wire.LabTrailer == 0 {
		return Agreement{}
	}
	g := Agreement{LLR: w.LLR && o.LLRWanted == wire.WishBoth, CBFC: w.CBFC && o.CBFCWanted == wire.WishBoth}
	if g.CBFC {
		tous := o.Echo == wire.UEEcho(a.cfg.BootID, a.life)
		g.PeerHeld = tous && o.CBFCEnabled == wire.WishBoth
		g.PeerReady = tous && o.LabFlags&wire.LabCBFCReady != 0
		g.Tx = a.peer.CBFC
	}
	return g
}

// settle brings the agreement up to date. What the port says of itself follows from it, so the neighbour is told.
func (a *Agent) settle(now vt.Time) Change {
	g := a.agree()
	if g.LLR == a.agreed.LLR && g.CBFC == a.agreed.CBFC && g.PeerHeld == a.agreed.PeerHeld && g.PeerReady == a.agreed.PeerReady && sameCBFC(g.Tx, a.agreed.Tx) {
		a.agreed = g
		a.calm(now)
		return 0
	}
	a.hasty = 0
	if a.agreed.CBFC && !g.CBFC {
		a.life = (a.life + 1) & wire.MaxLife
	}
	a.agreed = g
	a.calm(now)
	a.answer(now)
	return AgreementChanged
}

// Deadline is when Advance has something to do next, vt.Never if nothing.
func (a *Agent) Deadline() vt.Time {
	at := a.due()
	if a.peer != nil {
		at = min(at, a.peer.Expires)
	}
	return at
}

// due is when the next frame may go. One by which LLR or credits come or go, for which frames may be held at either end, hardly waits for a token.
func (a *Agent) due() vt.Time {
	switch {
	case a.sendAt == vt.Never || a.tokens > 0:
		return a.sendAt
	case a.urgent || a.waits():
		return max(a.sendAt, min(a.refill, a.told.Add(spaced(a.over))))
	}
	return max(a.sendAt, a.refill)
}

// Advance brings the agent to now: it forgets a neighbour that has expired, and appends a frame to dst if one is due, which it says
// by ok. The owner obeys the change before the frame leaves.
func (a *Agent) Advance(now vt.Time, dst []byte) (frame []byte, ok bool, c Change) {
	if a.peer != nil && a.peer.Expires <= now {
		a.C[Aged]++
		c = a.forget(now)
	}
	for a.tokens < burst && a.refill <= now {
		a.tokens++
		a.refill = a.refill.Add(Every)
	}
	if a.due() > now {
		return dst, false, c
	}
	if a.tokens == burst {
		a.refill = now.Add(Every)
	}
	a.spend()
	a.told, a.sendAt = now, now.Add(a.pace())
	a.C[Tx]++
	return a.write(dst, TTL), true, c
}

// spend pays for a frame that leaves now. One that nobody waits for is a sign of calm.
func (a *Agent) spend() {
	pressing := a.urgent || a.waits()
	a.urgent = false
	switch {
	case !pressing:
		a.over = 0
	case a.tokens == 0:
		a.over++
	}
	a.tokens = max(0, a.tokens-1)
}

// Shutdown appends the frame that says good-bye; the link counts as down from now on.
func (a *Agent) Shutdown(dst []byte) []byte {
	a.up, a.sendAt = false, vt.Never
	a.C[Tx]++
	return a.write(dst, 0)
}

// write appends a frame.
func (a *Agent) write(dst []byte, ttl time.Duration) []byte {
	dst = wire.AppendLLDP(dst, &wire.LLDPFields{Src: a.cfg.MAC, ChassisSubtype: wire.LLDPChassisMAC, Chassis: a.cfg.Chassis[:],
		PortSubtype: wire.LLDPPortIfName, Port: []byte(a.cfg.Port), TTL: uint16(ttl / time.Second)})
	if ttl == 0 {
		return wire.AppendLLDPEnd(dst)
	}
	if a.cfg.Desc != "" {
		dst = wire.AppendTLV(dst, wire.LLDPPortDesc, []byte(a.cfg.Desc))
	}
	dst = wire.AppendTLV(dst, wire.LLDPSysName, []byte(a.cfg.System))
	if a.about != "" {
		dst = wire.AppendTLV(dst, wire.LLDPSysDesc, []byte(a.about))
	}
	dst = wire.AppendLLDPCapabilities(dst, a.cfg.Can, a.cfg.Can)
	if len(a.cfg.Address) > 0 {
		dst = wire.AppendLLDPManagement(dst, a.cfg.Address, a.cfg.IfIndex)
	}
	o := a.options()
	dst = wire.AppendUEOptions(dst, &o)
	if a.wish.Rx != nil {
		dst = wire.AppendUECBFC(dst, a.wish.Rx)
	}
	return wire.AppendLLDPEnd(dst)
}

func (a *Agent) options() wire.UEOptionsFields {
	wish := func(yes bool) wire.LinkWish {
		if yes {
			return wire.WishBoth
		}
		return wire.WishNo
	}
	o := wire.UEOptionsFields{LLRWanted: wish(a.wish.LLR), LLREnabled: wish(a.agreed.LLR), CBFCWanted: wish(a.wish.CBFC), CBFCEnabled: wish(a.agreed.CBFC),
		SpecVersion: wire.UESpecVersion, Life: a.life, BootID: a.cfg.BootID}
	if a.cfg.Trailer {
		o.LabFlags |= wire.LabTrailer
	}
	if a.agreed.PeerHeld {
		o.LabFlags |= wire.LabCBFCReady
	}
	if a.peer != nil && a.peer.Options != nil {
		o.Echo = wire.UEEcho(a.peer.Options.BootID, a.peer.Options.Life)
	}
	return o
}
