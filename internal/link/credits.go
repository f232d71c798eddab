package link

import (
	"encoding/binary"
	"math/bits"

	"github.com/uetlab/uetlab/internal/link/cbfc"
	"github.com/uetlab/uetlab/internal/link/llr"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// credits is credit-based flow control at a port, for one run: the gate of what leaves, and the accounts of what has come in. Of a frame
// that waits in a node its port knows what it is owed, until the frame leaves that node's buffer or is dropped.
type credits struct {
	p       *Port
	tx      *cbfc.Sender
	rx      *cbfc.Receiver
	vcs     *cbfc.Map // of what comes in …
	sends   *cbfc.Map // … and of what leaves
	classes uint8     // queues that are lossless channels: both have the same number
	most    uint32    // what the longest frame costs
	armed   vt.Time
	flushes uint64  // of LLR, up to now
	removed vt.Time // when credits were turned off; vt.Never: they are on
	race    bool    // CC_Updates overtake replays
}

// resetCredits begins anew at the start of a run, or of a node: nothing is out and nothing stored. Both ends do it at the same virtual time and
// the fabric was drained before, so all channels are up at once.
func (p *Port) resetCredits(now vt.Time) {
	s := p.cfg.CBFC
	cfg := s.Config
	cfg.Rate = p.cfg.Rate
	own := cbfc.NewMap(&s.Profile)
	x := &credits{p: p, vcs: own, sends: own, armed: vt.Never, removed: vt.Never, race: s.RaceDemo, classes: uint8(s.Profile.Lossless), flushes: p.C.LLR()[llr.TxFlushes]}
	longest := p.cfg.MTU + longestHeader - fcsLen
	x.most = cbfc.CellOf(&s.Profile).Credits(longest)
	var err error
	if x.tx, err = cbfc.NewSender(cfg); err == nil {
		x.rx, err = cbfc.NewReceiver(cfg, &s.Profile)
	}
	if err == nil {
		x.tx.C, x.rx.C = p.C.CBFC(), p.C.CBFC()
		if !p.cfg.Negotiated {
			x.tx.Hold(now, s.Profile.Lossless)
		}
		err = x.tx.Attach(now, &s.Profile, nil, longest)
	}
	if err == nil && !p.cfg.Negotiated {
		x.rx.Enable(now, s.Profile.Lossless)
		err = x.tx.Enable(now, s.Profile.Lossless)
	}
	if err != nil {
		panic(err) // whoever configures a port has asked CheckProfile
	}
	p.crd = x
}

// SetCBFC has the port have credits from the next run on, at the time when a run begins for this one; nil: none from now on, but what waits in its queues
// still goes as credits allow. Both ends of a link are told at the same virtual time.
func (p *Port) SetCBFC(now vt.Time, s *cbfc.Setup) {
	p.cfg.CBFC = s
	p.sets = p.sets || s != nil
	if now != p.began {
		if s == nil && p.crd != nil {
			p.crd.remove(now)
		}
		return
	}
	p.sched.broke = 0
	if p.crd = nil; s != nil {
		p.resetCredits(now)
	}
	p.Kick(now)
}

// CBFC returns both sides of credit-based flow control at a port, to look at, and nil if it has none.
func (p *Port) CBFC() (*cbfc.Sender, *cbfc.Receiver) {
	if p.crd == nil {
		return nil, nil
	}
	return p.crd.tx, p.crd.rx
}

// Credited says whether a frame has been paid for by the far end of the port that it came in by: there is room for it.
func (f *Frame) Credited() bool { return f.owed != nil }

// settle gives the credits of a frame back that leaves the buffer.
func (f *Frame) settle() {
	x := f.owed
	if x == nil {
		return
	}
	f.owed = nil
	if x.p.crd == x { // not one of the run before
		now := x.p.host.Now()
		x.rx.Freed(now, int(f.vc), uint32(f.cost))
		x.follow(now)
	}
}

// receiveLink takes what is meant for the port itself and says whether a frame goes on. Where credits are off by now, messages may still come.
func (p *Port) receiveLink(now vt.Time, f *Frame) bool {
	if p.crd != nil {
		return p.crd.receive(now, f)
	}
	if len(f.B) < wire.EthLen+2 || !isSets(f.B) && (wire.EtherType(binary.BigEndian.Uint16(f.B[12:])) != wire.EtherMACControl || !wire.IsMACControlExtension(f.B[wire.EthLen:])) {
		return true
	}
	p.C[RxFrames]++
	p.C[RxBytes] += uint64(len(f.B))
	f.Release()
	return false
}

// receive accounts for a good frame and says whether it goes on; if not, it was meant for the port itself.
func (x *credits) receive(now vt.Time, f *Frame) bool {
	p := x.p
	if vc := x.vcs.VC(f.B); vc != cbfc.NoVC && x.rx.On()>>vc&1 != 0 { // what comes while the channel is off has cost nobody anything
		cost := x.rx.Cell().Credits(len(f.B))
		if p.cfg.Queued {
			x.rx.Stored(now, int(vc), cost)
			f.owed, f.vc, f.cost = x, vc, uint16(cost)
		} else { // an end point takes it at once
			x.rx.Dropped(now, int(vc), cost)
		}
		x.follow(now)
		return true
	}
	if len(f.B) < wire.EthLen+2 {
		return true
	}
	switch wire.EtherType(binary.BigEndian.Uint16(f.B[12:])) {
	case wire.EtherExperiment:
		p.C[RxFrames]++
		p.C[RxBytes] += uint64(len(f.B))
		x.takeSets(now, f.B[wire.EthLen:])
	case wire.EtherMACControl:
		if f.what() == kindPause {
			return true
		}
		p.C[RxFrames]++
		p.C[RxBytes] += uint64(len(f.B))
		x.rx.CCUpdate(now, f.B[wire.EthLen:])
		x.follow(now)
	default:
		return true
	}
	f.Release()
	return false
}

// takeSets obeys the CF_Updates of a frame of ordered sets where there is no LLR.
func (x *credits) takeSets(now vt.Time, body []byte) {
	b, err := wire.ParseCtlOSBundle(body)
	if err != nil {
		return
	}
	for i := range b.Len() {
		if s, err := wire.ParseCtlOS(b.At(i)); err == nil && s.Type() == wire.CtlOSCFUpdate {
			x.tx.CFUpdate(now, s)
		}
	}
	x.follow(now)
	x.p.Kick(now)
}

// gate tells which queues have no credits for their next frame. What is changed when a frame leaves may make it longer by a tag.
func (x *credits) gate(now vt.Time) (broke uint8) {
	s := &x.p.sched
	for m := s.active; m != 0; m &= m - 1 {
		q := bits.TrailingZeros8(m)
		f := s.q[q].head
		vc := x.sends.VC(f.B)
		switch {
		case vc == cbfc.NoVC:
		case x.tx.Draining()>>vc&1 != 0 && !x.before(f): // its turn is once the channel is best effort
			broke |= 1 << q
		case !x.tx.Ready(now, int(vc), min(x.tx.Cell().Credits(len(f.B)+wire.CSIGWideLen), x.most)):
			broke |= 1 << q
		}
	}
	if broke != 0 {
		x.follow(now) // the watchdog
	}
	return broke
}

// pay takes the credits of a frame that leaves for the first time.
func (x *credits) pay(now vt.Time, f *Frame) {
	if vc := x.sends.VC(f.B); vc != cbfc.NoVC {
		x.tx.Consume(now, int(vc), x.tx.Cell().Credits(len(f.B)))
		x.follow(now)
	}
}

// due says whether there is something for the line now.
func (x *credits) due(now vt.Time) bool {
	return x.rx.Deadline(now) <= now || x.tx.Deadline(now) <= now
}

// follow has the port called when one of both sides has something to say. A call that is over is still noted as long as something waits for the line;
// should that be taken back, it is no reason to go without another one.
func (x *credits) follow(now vt.Time) {
	if at := min(x.tx.Deadline(now), x.rx.Deadline(now)); at < x.armed || x.armed < now && at > now && at != vt.Never {
		x.armed = at
		x.p.host.LinkTimerAt(x.p.Index, at)
	}
}

// timer is that call. What cannot leave at once does when the line is free, or LLR lets it: nobody has to call for that.
func (x *credits) timer(now vt.Time) {
	if x.armed > now {
		return
	}
	x.tx.Watchdog(now)
	x.p.Kick(now)
	if !x.due(now) {
		x.armed = vt.Never
		x.follow(now)
	}
}

// sent follows a message that has left.
func (x *credits) sent(now vt.Time) {
	x.armed = vt.Never
	x.follow(now)
}

// freedUpdate adds a CF_Update to a frame of ordered sets, if one is due.
func (x *credits) freedUpdate(now vt.Time, f *Frame) {
	var ok bool
	if f.B, ok = x.rx.CFUpdate(now, f.B); ok {
		x.sent(now)
	}
}

// consumed makes a CC_Update if one is due; it takes its place on the line now.
func (x *credits) consumed(now vt.Time) *Frame {
	if x.tx.Deadline(now) > now {
		return nil
	}
	f := x.p.cfg.Pool.Get()
	var ok bool
	if f.B, ok = x.tx.CCUpdate(now, f.B, wire.LinkControlAddr, x.p.cfg.MAC); !ok {
		f.Release()
		f = nil
	}
	x.sent(now)
	return f
}

// force has the counts told at once: the link is back, or LLR has given frames up.
func (x *credits) force(now vt.Time) {
	x.tx.Force(now)
	x.sent(now)
}

// flushed looks whether LLR has given frames up.
func (x *credits) flushed(now vt.Time, flushes uint64) {
	if flushes != x.flushes {
		x.flushes = flushes
		x.force(now)
	}
}
