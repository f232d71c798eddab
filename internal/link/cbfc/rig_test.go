package cbfc

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/vethtest"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// frame is what is on a line of the rig.
type frame struct {
	due  vt.Time
	vc   int
	len  int
	cc   []byte      // of a CC_Update: the frame; of a CF_Update: the ordered set
	gone [VCs]uint32 // of a CC_Update: what was lost before it, in credits
	seq  int         // LLR number, 0 for none
	from *dir
}

// dir is one direction of a link with the sender and receiver of its credits, a FIFO line of 400 Gb/s and 500 ns, and CF_Updates
// on the way back.
type dir struct {
	s     *Sender
	r     *Receiver
	limit [VCs]uint32

	waiting [VCs]int // frames that the source has; they are len bytes long
	len     [VCs]int
	turn    int
	free    vt.Time // of the serializer
	line    []frame
	back    []frame // CF_Updates, in cc

	lose   func(f *frame) bool // the line loses it
	twice  func(f *frame) bool
	loseCF func() bool
	muteCC bool

	sent, came, gone, lost [VCs]int
	onWay, leaked, stored  [VCs]uint32
	wasted, known          [VCs]uint32 // credits of all frames that were lost, and of those that the receiver knows of
	store                  [VCs][]frame

	llr  *goBackN
	gate func(d *dir, f frame) bool // what the receiver's buffer refuses: best effort
}

// rig has directions whose receivers share one output.
type rig struct {
	t       *testing.T
	now     vt.Time
	dirs    []*dir
	frozen  uint32 // channels that the output does not serve
	outRate int64
	outFree vt.Time
	turn    int
	after   func() // what is checked after each event
}

const (
	rigRate  = 400_000_000_000
	rigDelay = 500 * time.Nanosecond
)

func profile(method wire.CBFCMethod, total uint32, limits map[int]uint32) *Profile {
	p := &Profile{CreditSize: 64, PktOvhd: -4, Method: method, Total: total}
	for vc := range VCs {
		if limit, ok := limits[vc]; ok {
			p.Lossless |= 1 << vc
			p.VCs = append(p.VCs, wire.CBFCVC{Index: uint8(vc), Limit: limit, Value: uint8(vc), Mask: 0x3F})
		}
	}
	return p
}

func newRig(t *testing.T, n int, p *Profile, d *Division, cfg Config) *rig {
	cfg.Rate = rigRate
	g := &rig{t: t, outRate: rigRate}
	for range n {
		x := &dir{}
		var err error
		if x.s, err = NewSender(cfg); err != nil {
			t.Fatal(err)
		}
		if x.r, err = NewReceiver(cfg, p); err != nil {
			t.Fatal(err)
		}
		for vc := range VCs {
			x.len[vc] = 4146
		}
		for _, v := range p.VCs {
			x.limit[v.Index] = v.Limit
		}
		bringUp(t, g.now, x, p, d)
		g.dirs = append(g.dirs, x)
	}
	return g
}

// bringUp does what uet-link-switch 3.7 says.
func bringUp(t *testing.T, now vt.Time, x *dir, p *Profile, d *Division) {
	x.r.Disable(p.Lossless)
	x.s.Hold(now, p.Lossless)
	if err := x.s.Attach(now, p, d, 4146); err != nil {
		t.Fatal(err)
	}
	x.r.Enable(now, p.Lossless)
	if err := x.s.Enable(now, p.Lossless); err != nil {
		t.Fatal(err)
	}
}

func lineTime(n int, rate int64) time.Duration {
	return time.Duration(int64(wire.LineBytes(n)) * 8_000_000_000 / rate)
}

// next is when something is to happen in a direction.
func (x *dir) next(now vt.Time) vt.Time {
	at := min(x.s.Deadline(now), x.r.Deadline(now))
	if x.free > now {
		at = min(at, x.free)
	}
	if len(x.line) > 0 {
		at = min(at, x.line[0].due)
	}
	if len(x.back) > 0 {
		at = min(at, x.back[0].due)
	}
	if x.llr != nil {
		at = min(at, x.llr.timer)
	}
	return at
}

// run goes on until nothing happens before end.
func (g *rig) run(end vt.Time) {
	for steps := 0; ; steps++ {
		for _, x := range g.dirs {
			g.step(x)
		}
		g.output()
		if g.after != nil {
			g.after()
		}
		at := vt.Never
		for _, x := range g.dirs {
			at = min(at, x.next(g.now))
		}
		if g.outFree > g.now {
			at = min(at, g.outFree)
		}
		if at == g.now {
			at++ // a timer whose frame waits for the serializer
		}
		if at > end || g.t.Failed() {
			g.now = max(g.now, end)
			return
		}
		g.now = at
	}
}

func (g *rig) step(x *dir) {
	for len(x.back) > 0 && x.back[0].due <= g.now {
		f := x.back[0]
		x.back = x.back[1:]
		x.s.CFUpdate(g.now, f.cc)
	}
	for len(x.line) > 0 && x.line[0].due <= g.now {
		f := x.line[0]
		x.line = x.line[1:]
		if x.llr == nil || f.seq == 0 || x.llr.arrive(g.now, &f) {
			g.arrive(x, f)
		}
	}
	if x.llr != nil {
		x.llr.tick(g.now)
	}
	if x.free <= g.now {
		g.transmit(x)
	}
	if img, ok := x.r.CFUpdate(g.now, nil); ok && (x.loseCF == nil || !x.loseCF()) {
		b := vethtest.Carry(g.t, append(wire.AppendCtlOSHeader(nil, wire.MAC{2}), img...))
		x.back = append(x.back, frame{due: g.now.Add(rigDelay), cc: b[wire.EthLen:]})
	}
}

func (g *rig) arrive(x *dir, f frame) {
	if f.cc != nil {
		x.r.CCUpdate(g.now, f.cc[14:])
		first := int(wire.CCUpdate(f.cc[14:]).FirstVC())
		for vc := first; vc < first+wire.CCCounters; vc++ { // what was lost before it is known now
			x.known[vc] = max(x.known[vc], f.gone[vc])
			x.leaked[vc] = x.wasted[vc] - x.known[vc]
		}
		return
	}
	c := x.r.Cell().Credits(f.len)
	x.onWay[f.vc] -= c
	if x.gate != nil && !x.gate(x, f) {
		x.lost[f.vc]++
		return
	}
	x.came[f.vc]++
	x.r.Stored(g.now, f.vc, c)
	x.stored[f.vc] += c
	x.store[f.vc] = append(x.store[f.vc], f)
}

// transmit puts the next frame on the line: replays, then CC_Updates, then the channels in turn.
func (g *rig) transmit(x *dir) {
	if x.llr != nil {
		if f, ok := x.llr.replay(); ok {
			g.put(x, f)
			return
		}
	}
	if !x.muteCC {
		if b, ok := x.s.CCUpdate(g.now, nil, wire.LinkControlAddr, wire.MAC{2}); ok {
			f := frame{cc: b, len: len(b), gone: x.wasted}
			if x.llr != nil {
				x.llr.number(&f)
			}
			g.put(x, f)
			return
		}
	}
	for i := range VCs {
		vc := (x.turn + i) % VCs
		if x.waiting[vc] == 0 {
			continue
		}
		c := x.s.Cell().Credits(x.len[vc])
		if !x.s.Ready(g.now, vc, c) {
			continue
		}
		x.s.Consume(g.now, vc, c)
		x.waiting[vc]--
		x.sent[vc]++
		x.turn = vc + 1
		x.onWay[vc] += c
		f := frame{vc: vc, len: x.len[vc]}
		if x.llr != nil {
			x.llr.number(&f)
		}
		g.put(x, f)
		return
	}
}

func (g *rig) put(x *dir, f frame) {
	f.from = x
	x.free = g.now.Add(lineTime(f.len, rigRate))
	f.due = x.free.Add(rigDelay)
	if x.lose != nil && x.lose(&f) {
		if f.cc == nil && x.llr == nil {
			c := x.s.Cell().Credits(f.len)
			x.onWay[f.vc] -= c
			x.wasted[f.vc] += c
			x.leaked[f.vc] += c
			x.lost[f.vc]++
		}
		return
	}
	f.carry(g.t)
	x.line = append(x.line, f)
	if x.twice != nil && x.twice(&f) {
		x.line = append(x.line, f)
	}
}

// carry takes a frame through a veth pair, where there is one, with due time and number in its trailer. Data are IPv4 packets whose DSCP is the
// channel.
func (f *frame) carry(t *testing.T) {
	if !vethtest.On {
		return
	}
	b := f.cc
	if b == nil {
		b = make([]byte, f.len, f.len+wire.TrailerLen)
		b[12], b[14], b[15] = 0x08, 0x45, byte(f.vc<<2)
	}
	kind := uint8(wire.LLRPlain)
	if f.seq > 0 {
		kind = wire.LLREligible
	}
	got := bytes.Clone(vethtest.Cross(t, 0, 1, wire.AppendTrailer(b, int64(f.due), wire.LLRWord(kind, 0, uint32(f.seq)))))
	b, tr, ok := wire.SplitTrailer(got)
	if !ok || !tr.FCSOK(b) {
		t.Fatalf("read %x", got)
	}
	if f.due, f.len, f.seq = vt.Time(tr.Due), len(b), int(tr.LLRSeq()); f.cc != nil {
		f.cc = b
	} else {
		f.vc = int(b[15] >> 2)
	}
}

// output takes the frames of all directions and channels in turn.
func (g *rig) output() {
	n := len(g.dirs) * VCs
	for i := 0; i < n && g.outFree <= g.now; i++ {
		k := (g.turn + i) % n
		x, vc := g.dirs[k/VCs], k%VCs
		if g.frozen>>vc&1 != 0 || len(x.store[vc]) == 0 {
			continue
		}
		f := x.store[vc][0]
		x.store[vc] = x.store[vc][1:]
		c := x.r.Cell().Credits(f.len)
		x.r.Freed(g.now, vc, c)
		x.stored[vc] -= c
		x.gone[vc]++
		g.turn = k + 1
		g.outFree = g.now.Add(lineTime(f.len, g.outRate))
	}
}

// conserved checks the law of credits after each event.
func (g *rig) conserved() {
	for i, x := range g.dirs {
		for vc := range VCs {
			if x.s.On()&mask(vc) == 0 {
				continue
			}
			if err := Conserved(x.s, x.r, vc, x.onWay[vc], x.leaked[vc], x.stored[vc], x.limit[vc]); err != nil {
				g.t.Fatalf("at %v, direction %d: %v", g.now, i, err)
			}
		}
	}
}

// idle checks that all is back where it began and nobody has anything to do.
func (g *rig) idle() {
	g.t.Helper()
	for i, x := range g.dirs {
		if x.s.Used() != 0 || x.r.Held() != 0 {
			g.t.Errorf("direction %d: %d credits out, %d held: want none", i, x.s.Used(), x.r.Held())
		}
		if s, r := x.s.Deadline(g.now), x.r.Deadline(g.now); s != vt.Never || r != vt.Never {
			g.t.Errorf("direction %d: an idle link has deadlines %v and %v", i, s, r)
		}
	}
}

// goBackN is as much of link layer retry as credits have to do with: numbers, a ring, one NACK for each gap, a timer.
type goBackN struct {
	ring    []frame // sent and not acknowledged
	seq     int     // of the next new frame
	next    int     // index into ring of the next frame to replay, len(ring) if none
	expect  int
	nacked  bool
	timer   vt.Time
	pending []struct {
		at   vt.Time
		seq  int
		nack bool
	}
	replays int
}

func newGoBackN() *goBackN { return &goBackN{seq: 1, expect: 1, timer: vt.Never} }

func (l *goBackN) number(f *frame) {
	f.seq = l.seq
	l.seq++
	l.ring = append(l.ring, *f)
	l.next = len(l.ring)
}

func (l *goBackN) replay() (frame, bool) {
	if l.next >= len(l.ring) {
		return frame{}, false
	}
	f := l.ring[l.next]
	l.next++
	l.replays++
	return f, true
}

// arrive says whether the frame goes on.
func (l *goBackN) arrive(now vt.Time, f *frame) bool {
	tell := func(nack bool) {
		l.pending = append(l.pending, struct {
			at   vt.Time
			seq  int
			nack bool
		}{now.Add(rigDelay), l.expect, nack})
		l.timer = min(l.timer, now.Add(rigDelay))
	}
	switch {
	case f.seq == l.expect:
		l.expect++
		l.nacked = false
		tell(false)
		return true
	case f.seq > l.expect && !l.nacked:
		l.nacked = true
		tell(true)
	}
	return false
}

func (l *goBackN) tick(now vt.Time) {
	const wait = 5 * time.Microsecond
	for len(l.pending) > 0 && l.pending[0].at <= now {
		m := l.pending[0]
		l.pending = l.pending[1:]
		for len(l.ring) > 0 && l.ring[0].seq < m.seq {
			l.ring = l.ring[1:]
			l.next = max(0, l.next-1)
		}
		if m.nack {
			l.next = 0
		}
		l.timer = now.Add(wait)
	}
	if l.timer <= now {
		l.next, l.nacked = 0, false
		l.timer = now.Add(wait)
	}
	if len(l.ring) == 0 {
		l.timer = vt.Never
	}
	if len(l.pending) > 0 {
		l.timer = min(l.timer, l.pending[0].at)
	} else if len(l.ring) > 0 && l.timer == vt.Never {
		l.timer = now.Add(wait)
	}
}

func seeds(t *testing.T, n int, f func(t *testing.T, rng *rand.Rand)) {
	for seed := range uint64(n) {
		f(t, rand.New(rand.NewPCG(seed, 0xCBFC)))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
