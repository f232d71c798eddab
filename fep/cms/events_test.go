package cms

import (
	"math/rand/v2"
	"testing"

	"github.com/uetlab/uetlab/internal/vt"
)

// States of a packet at its source.
const (
	pktFlying = iota
	pktMarked
	pktDone
)

type modelPkt struct {
	size  int
	state int
	rtx   uint8
	sent  vt.Time
	there bool // received
}

type modelCopy struct {
	flow, id int
	rtx      uint8
}

type modelFlow struct {
	f    Flow
	pkts []modelPkt
	rcvd uint64
}

// model is a little PDS: packets of PDCs that share a context, copies of them on the way, losses that are none, ACKs that are lost.
type model struct {
	t     testing.TB
	c     *Context
	now   vt.Time
	flows [3]modelFlow
	net   []modelCopy
	evil  bool // the peer lies
}

func newModel(t testing.TB, cfg Config, evil bool) *model {
	if err := cfg.Resolve(); err != nil {
		t.Fatal(err)
	}
	m := &model{t: t, c: Open(t0, &cfg, 0), now: t0, evil: evil}
	m.c.Hook = func(now vt.Time, c *Context) { m.window() }
	return m
}

// check looks at the invariants between two events.
func (m *model) check() {
	m.window()
	m.bytes()
}

func (m *model) window() {
	c := m.c
	least := c.mtu
	if c.swift != nil {
		least = float64(c.swift.p.MinWnd)
	}
	if c.dcqcn != nil {
		if r := c.dcqcn.rate; !(r >= c.cfg.DCQCN.MinRate && r <= 100e9) {
			m.t.Fatalf("rate %g", r)
		}
	} else if !(c.cwnd >= least && c.cwnd <= c.maxWnd) {
		m.t.Fatalf("window %g: outside %g..%g (last: %v)", c.cwnd, least, c.maxWnd, c.last)
	}
	if c.rccc != nil && (c.rccc.credit > c.cfg.RCCC.MaxWnd || c.rccc.credit < -1<<40) {
		m.t.Fatalf("credit %d", c.rccc.credit)
	}
}

func (m *model) bytes() {
	c := m.c
	var fl, mk, bl int64
	for i := range m.flows {
		f := &m.flows[i].f
		fl, mk, bl = fl+f.inflight, mk+f.marked, bl+f.backlog
		if f.marked < 0 || f.backlog < 0 || f.packets < 0 {
			m.t.Fatalf("flow %+v", f)
		}
		// What was sent and is not known to have arrived is under way or marked, to the byte.
		open := -int64(f.rcvd) << 8
		for _, p := range m.flows[i].pkts {
			open += int64(p.size)
		}
		if left := f.inflight + f.marked; !m.evil && left != open || left < -255 {
			m.t.Fatalf("flow %+v: %d bytes are open", *f, open)
		}
	}
	if fl != c.inflight || mk != c.rtxBacklog || bl != c.backlog {
		m.t.Fatalf("flows have %d, %d, %d, the context %d, %d, %d", fl, mk, bl, c.inflight, c.rtxBacklog, c.backlog)
	}
}

// find returns the first packet of the flow in the state, from one on.
func (m *model) find(i, from, state int) int {
	p := m.flows[i].pkts
	for k := range p {
		if j := (from + k) % len(p); p[j].state == state {
			return j
		}
	}
	return -1
}

func (m *model) send(i, from, size int, force bool) {
	if !force && !m.c.CanSend(m.now, size) {
		return
	}
	f := &m.flows[i]
	j := m.find(i, from, pktMarked)
	if j < 0 {
		m.c.OnNewData(&f.f, int64(size))
		f.pkts = append(f.pkts, modelPkt{size: size})
		j = len(f.pkts) - 1
	} else {
		f.pkts[j].rtx++
	}
	p := &f.pkts[j]
	m.c.OnSend(m.now, &f.f, p.size, p.state == pktMarked)
	p.state, p.sent = pktFlying, m.now
	m.net = append(m.net, modelCopy{i, j, p.rtx})
	m.c.AckRequest()
	m.c.CreditTarget(2)
}

// arrive delivers a copy, and its ACK unless that is lost.
func (m *model) arrive(k int, x byte, acked bool) {
	cp := m.net[k]
	m.net = append(m.net[:k], m.net[k+1:]...)
	f := &m.flows[cp.flow]
	if p := &f.pkts[cp.id]; !p.there {
		p.there = true
		f.rcvd += uint64(p.size)
	}
	if !acked {
		return
	}
	named := f.pkts[cp.id]
	fb := Feedback{Named: named.state != pktDone, Sent: named.sent, Rtx: named.rtx, Retx: cp.rtx > 0, ECN: x&1 != 0, Service: uint16(x >> 4)}
	if x&6 == 6 {
		fb.Pend = x >> 1
	}
	fb.Restore = x&8 != 0
	for j := range f.pkts { // the bitmap shows what is there
		p := &f.pkts[j]
		switch {
		case !p.there || p.state == pktDone:
			continue
		case p.state == pktMarked:
			m.c.OnUnmark(&f.f, p.size)
		default:
			fb.Packets++
		}
		p.state = pktDone
	}
	rcvd := RcvdBytes(f.rcvd)
	if m.evil {
		rcvd *= 1 + uint32(x)<<8
		fb.Service *= 4099
		fb.Packets += int32(x) << 16
	}
	fb.Newly = f.f.Newly(rcvd)
	m.c.OnAck(m.now, &f.f, &fb)
}

func (m *model) step(op, x byte) {
	i := int(x) % len(m.flows)
	f := &m.flows[i]
	m.now += vt.Time(op>>4) * 100
	switch op % 10 {
	case 0, 1, 2, 3:
		m.send(i, int(x), 100+int(x)*15, false)
	case 4, 5:
		if len(m.net) > 0 {
			m.arrive(int(x)%len(m.net), x, op&0x80 == 0)
		}
	case 6: // trimmed
		if len(m.net) == 0 {
			return
		}
		k := int(x) % len(m.net)
		cp := m.net[k]
		m.net = append(m.net[:k], m.net[k+1:]...)
		f := &m.flows[cp.flow]
		if p := &f.pkts[cp.id]; p.state == pktFlying && cp.rtx == p.rtx {
			p.state = pktMarked
			m.c.OnNack(m.now, &f.f, &Feedback{Named: true, Sent: p.sent, Rtx: p.rtx, Retx: cp.rtx > 0, ECN: x&1 != 0}, p.size, Refusal(x%3))
		}
	case 7: // taken for lost, while a copy may still be on the way
		if j := m.find(i, int(x), pktFlying); len(f.pkts) > 0 && j >= 0 {
			f.pkts[j].state = pktMarked
			m.c.OnLoss(m.now, &f.f, f.pkts[j].size, Loss(x%3))
		}
	case 8:
		if m.c.rccc != nil {
			m.c.OnCredit(m.now, m.c.rccc.pull+uint32(x)-10)
			if m.evil {
				m.c.OnCredit(m.now, m.c.rccc.pull+uint32(x)<<15)
			}
		}
	case 9:
		m.now += vt.Time(x) * 200
		m.c.OnProbe(m.now, vt.Time(x)*100)
		m.c.OnAck(m.now, &f.f, &Feedback{ECN: true})
		if m.c.CreditRequestAt(m.now) <= m.now {
			m.c.OnCreditRequest(m.now)
		}
	}
	m.check()
}

// drain sends everything until it has arrived: nothing must be left in flight but what the destination's count is rounded up by.
func (m *model) drain() {
	for i := range m.flows {
		for m.find(i, 0, pktMarked) >= 0 {
			m.now += us
			m.send(i, 0, 0, true)
		}
		for j := range m.flows[i].pkts { // trimmed copies of packets that were taken for lost before
			if p := &m.flows[i].pkts[j]; !p.there {
				m.net = append(m.net, modelCopy{i, j, p.rtx})
			}
		}
	}
	for i := range m.flows { // where all is there already, an ACK is missing
		if n := len(m.flows[i].pkts); n > 0 {
			m.net = append(m.net, modelCopy{i, n - 1, 9})
		}
	}
	for len(m.net) > 0 {
		m.now += us
		m.arrive(len(m.net)-1, 0, true)
	}
	m.check()
	for i := range m.flows {
		f := &m.flows[i].f
		if !m.evil && (f.inflight > 0 || f.inflight <= -256 || f.packets != 0) || f.marked != 0 || f.marks != 0 {
			m.t.Fatalf("flow %d at the end: %+v", i, *f)
		}
		m.c.Settle(f)
	}
	if c := m.c; c.inflight != 0 || !c.Idle() || c.waitingRtx != 0 || c.rtxBacklog != 0 || c.backlog != 0 {
		m.t.Fatalf("the context at the end: %+v", c.View())
	}
}

func play(t testing.TB, data []byte) {
	if len(data) < 2 || len(data) > 8000 {
		return
	}
	cfg := algo(Algorithm(data[0]) % algorithms)
	cfg.NSCC.Variant = Variant(data[1])
	cfg.Net.Trimming = data[1]&64 != 0
	m := newModel(t, cfg, data[1]&128 != 0)
	for k := 2; k+1 < len(data); k += 2 {
		m.step(data[k], data[k+1])
	}
	m.drain()
}

func FuzzEvents(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	for a := range algorithms {
		b := make([]byte, 600)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		b[0] = byte(a)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) { play(t, data) })
}

func TestEventSequences(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 3))
		b := make([]byte, 4000)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		b[0] = byte(seed)
		t.Run("", func(t *testing.T) {
			t.Logf("seed %d: %v, variant %#x", seed, Algorithm(b[0])%algorithms, b[1])
			play(t, b)
		})
	}
}

// TestRecoveryAfterCollapse: from one packet the window is back within a few dozen clean round trips.
func TestRecoveryAfterCollapse(t *testing.T) {
	b := with(t, round(), 4000, 0)
	now, rounds := t0, 0
	for ; b.c.cwnd < 150_000 && rounds < 100; rounds++ {
		now += 12 * us
		n := 0
		for b.c.CanSend(now, 4000) {
			b.send(now, 4000)
			n++
		}
		for range n {
			b.ack(now, 4000, 0, false)
		}
	}
	if rounds > 20 {
		t.Errorf("%d round trips, the window is %g", rounds, b.c.cwnd)
	}
}

func benchAck(b *testing.B, cfg Config) {
	if err := cfg.Resolve(); err != nil {
		b.Fatal(err)
	}
	c := Open(t0, &cfg, 0)
	var f Flow
	now, rcvd := t0, uint64(0)
	c.OnNewData(&f, 1<<50)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		now += 320
		c.OnSend(now, &f, 4000, false)
		_ = c.AckRequest()
		rcvd += 4000
		d := vt.Time(i&31) * 500
		fb := Feedback{Newly: f.Newly(RcvdBytes(rcvd)), Packets: 1, Named: true, Sent: now - 12*us - d, ECN: i&7 == 0 && d > 6*us}
		c.OnAck(now, &f, &fb)
		_ = c.CanSend(now, 4000)
		if c.rccc != nil {
			_ = c.CreditTarget(1)
			c.OnCredit(now, c.rccc.pull+16)
		}
	}
}

func BenchmarkSendAndAck(b *testing.B) {
	for a := range algorithms {
		b.Run(a.String(), func(b *testing.B) { benchAck(b, algo(a)) })
	}
	h := algo(AlgNSCC)
	h.NSCC.Variant = VarHtsim
	b.Run("nscc as htsim", func(b *testing.B) { benchAck(b, h) })
}

func BenchmarkGrant(b *testing.B) {
	cfg := credits(AlgRCCC)
	if err := cfg.Resolve(); err != nil {
		b.Fatal(err)
	}
	p, _ := NewPacer[int](&cfg, nil)
	var s [64]Source[int]
	now := t0
	for i := range s {
		p.Open(now, &s[i])
	}
	b.ReportAllocs()
	for i := range b.N {
		k := &s[i&63]
		p.OnTarget(now, k, k.pull+200)
		now = p.Next(now)
		p.Grant(now)
	}
}

func TestNoAllocations(t *testing.T) {
	for a := range algorithms {
		m := newModel(t, algo(a), false)
		f := &m.flows[0].f
		m.c.Hook = nil
		n := testing.AllocsPerRun(100, func() {
			m.now += us
			m.c.OnNewData(f, 4000)
			m.c.OnSend(m.now, f, 4000, false)
			m.c.OnCredit(m.now, 0)
			m.c.OnAck(m.now, f, &Feedback{Newly: 4000, Packets: 1, Named: true, Sent: m.now - 20*us, ECN: true})
			m.c.CanSend(m.now, 4000)
			m.c.CreditTarget(1)
		})
		if n != 0 {
			t.Errorf("%v: %g allocations", a, n)
		}
	}
}
