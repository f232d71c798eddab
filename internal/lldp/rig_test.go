package lldp

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/link/cbfc"
	"github.com/uetlab/uetlab/internal/vethtest"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

const delay = 500 * time.Nanosecond

// message is a frame on a line: of an agent, a CC_Update, an ordered set with a CF_Update, or data.
type message struct {
	due vt.Time
	b   []byte
}

// data is an IPv4 packet of 10 credits.
var data = append(append(make([]byte, 12, 640+wire.TrailerLen), 0x08, 0, 0x45), make([]byte, 625)...)

// port is an agent with the credits of both directions, at one end of a cable.
type port struct {
	t    *testing.T
	side int // 0 or 1
	cfg  Config
	wish Wish
	a    *Agent
	s    *cbfc.Sender
	r    *cbfc.Receiver

	line    []message // to the other end
	lose    func() bool
	waiting int // data frames of channel 0
	sent    int
	came    int
	stored  []uint32
	follow  error
	changes Change // all since somebody looked
}

func rx(limit uint32) *wire.UECBFCFields {
	return &wire.UECBFCFields{CreditSize: 64, PktOvhd: -4, Method: wire.CBFCPerVC, Lossless: 1, VCs: []wire.CBFCVC{{Limit: limit, Map: wire.VCMapDSCP}}}
}

func config(n byte) Config {
	return Config{MAC: wire.MAC{2, 0, 0, 0, n, 1}, Chassis: wire.MAC{2, 0, 0, 0, n, 0}, System: "leaf" + string('0'+n), Port: "eth3", Desc: "to leaf1", Can: wire.LLDPCapBridge | wire.LLDPCapRouter,
		Address: []byte{10, 0, 0, n}, IfIndex: 3, BootID: 100 * uint32(n+1), Trailer: true}
}

func newPort(t *testing.T, now vt.Time, n byte, w Wish) *port {
	p := &port{t: t, side: int(n), cfg: config(n), wish: w}
	p.start(now)
	return p
}

// start begins with nothing, as after the start of a node.
func (p *port) start(now vt.Time) {
	var err error
	c := cbfc.Config{Rate: 400_000_000_000}
	if p.s, err = cbfc.NewSender(c); err != nil {
		p.t.Fatal(err)
	}
	profile := p.wish.Rx
	if profile == nil {
		profile = rx(1000)
	}
	if p.r, err = cbfc.NewReceiver(c, profile); err != nil {
		p.t.Fatal(err)
	}
	p.cfg.BootID++
	p.a = New(p.cfg)
	p.stored, p.waiting, p.sent, p.came = nil, 0, 0, 0
	p.a.SetLink(now, true)
	was := p.a.Agreement()
	p.obey(now, p.a.SetWish(now, p.wish), was)
}

func (p *port) setWish(now vt.Time, w Wish) {
	p.wish = w
	was := p.a.Agreement()
	p.obey(now, p.a.SetWish(now, w), was)
}

func (p *port) obey(now vt.Time, c Change, was Agreement) {
	is := p.a.Agreement()
	p.changes |= c
	if c&AgreementChanged != 0 {
		p.follow = Follow(now, c, &was, &is, p.s, p.r, 600)
	}
}

// put has a frame be on the line, with UETLAB_TEST_VETH=1 through a veth pair, unless it is lost.
func (p *port) put(now vt.Time, b []byte) {
	if p.lose != nil && p.lose() {
		return
	}
	m := message{now.Add(delay), b}
	if vethtest.On {
		got := vethtest.Cross(p.t, p.side, 1-p.side, wire.AppendTrailer(b, int64(m.due), 0))
		frame, tr, ok := wire.SplitTrailer(got)
		if !ok || !tr.FCSOK(frame) {
			p.t.Fatalf("read %x", got)
		}
		m = message{vt.Time(tr.Due), bytes.Clone(frame)}
	}
	p.line = append(p.line, m)
}

// take takes a frame off the line.
func (p *port) take(now vt.Time, b []byte) {
	switch wire.EtherType(binary.BigEndian.Uint16(b[12:])) {
	case wire.EtherLLDP:
		was := p.a.Agreement()
		p.obey(now, p.a.Receive(now, b), was)
	case wire.EtherMACControl:
		p.r.CCUpdate(now, b[wire.EthLen:])
	case wire.EtherExperiment:
		p.s.CFUpdate(now, b[wire.EthLen:])
	default:
		p.came++
		cost := p.r.Cell().Credits(len(b))
		p.r.Stored(now, 0, cost)
		p.stored = append(p.stored, cost)
	}
}

// step does all that is due, and says when there is more.
func (p *port) step(now vt.Time, from *port) vt.Time {
	for len(from.line) > 0 && from.line[0].due <= now {
		m := from.line[0]
		from.line = from.line[1:]
		p.take(now, m.b)
	}
	for len(p.stored) > 0 {
		p.r.Freed(now, 0, p.stored[0])
		p.stored = p.stored[1:]
	}
	was := p.a.Agreement()
	b, ok, c := p.a.Advance(now, nil)
	p.obey(now, c, was)
	if ok {
		p.put(now, b)
	}
	if img, ok := p.r.CFUpdate(now, nil); ok {
		p.put(now, append(wire.AppendCtlOSHeader(nil, p.cfg.MAC), img...))
	}
	if b, ok := p.s.CCUpdate(now, nil, wire.LinkControlAddr, p.cfg.MAC); ok {
		p.put(now, b)
	}
	p.s.Watchdog(now)
	for p.waiting > 0 && p.s.Ready(now, 0, 10) {
		p.s.Consume(now, 0, 10)
		p.waiting--
		p.sent++
		p.put(now, data)
	}
	at := min(p.a.Deadline(), p.s.Deadline(now), p.r.Deadline(now))
	if len(from.line) > 0 {
		at = min(at, from.line[0].due)
	}
	return at
}

// cable joins two ports.
type cable struct {
	now  vt.Time
	a, b *port
}

func (c *cable) run(end vt.Time) {
	for c.now <= end && !c.a.t.Failed() {
		at := c.a.step(c.now, c.b)
		at = min(at, c.b.step(c.now, c.a))
		if len(c.b.line) > 0 {
			at = min(at, c.b.line[0].due)
		}
		if len(c.a.line) > 0 {
			at = min(at, c.a.line[0].due)
		}
		c.now = max(at, c.now+1)
	}
	c.now = end
}

func (c *cable) forth(d time.Duration) { c.run(c.now.Add(d)) }

func newCable(t *testing.T, a, b Wish) *cable {
	c := &cable{a: newPort(t, 0, 0, a), b: newPort(t, 0, 1, b)}
	c.a.setWish(0, a)
	return c
}

// works checks that both have agreed, that frames go both ways, and that all credits come back.
func (c *cable) works(t *testing.T) {
	t.Helper()
	c.forth(3 * time.Second)
	for _, p := range []*port{c.a, c.b} {
		if g := p.a.Agreement(); !g.LLR || !g.CBFC || !g.PeerHeld || !g.PeerReady || g.Tx == nil || p.s.On() != 1 || p.r.On() != 1 || p.follow != nil {
			t.Errorf("%s at %v: %+v, channels on %#x and %#x, %v", p.cfg.System, c.now, g, p.s.On(), p.r.On(), p.follow)
		}
		p.waiting = 1000
	}
	a, b := c.a.came, c.b.came
	c.forth(time.Second)
	if c.a.waiting+c.b.waiting != 0 || c.a.came < a+1000 || c.b.came < b+1000 {
		t.Errorf("at %v: %d and %d frames wait, %d and %d came", c.now, c.a.waiting, c.b.waiting, c.a.came-a, c.b.came-b)
	}
	for _, x := range []struct{ from, to *port }{{c.a, c.b}, {c.b, c.a}} {
		if x.from.s.Used() != 0 || x.to.r.Held() != 0 {
			t.Errorf("%s at %v: %d credits out, %d held", x.from.cfg.System, c.now, x.from.s.Used(), x.to.r.Held())
		}
	}
}
