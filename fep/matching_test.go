package fep

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// TestMatching plays random sends and receives, with few tags, any source, wildcards (HPC), messages that are too long and buffers for
// many messages, through two whole end points, and compares every completion and every byte with a model of a few lines. With even
// seeds one thing happens after the other, unordered, and what has no receive is refused; with odd ones all at once, ordered, over a
// bad link, and receives come late. UETLAB_SES_SEEDS says how many seeds, UETLAB_SES_SEED repeats one.
func TestMatching(t *testing.T) {
	first, n := uint64(0), uint64(1000)
	for name, v := range map[string]*uint64{"UETLAB_SES_SEEDS": &n, "UETLAB_SES_SEED": &first} {
		if s := os.Getenv(name); s != "" {
			var err error
			if *v, err = strconv.ParseUint(s, 0, 64); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	if os.Getenv("UETLAB_SES_SEED") != "" {
		n = 1
	}
	for seed := first; seed < first+n && !t.Failed(); seed++ {
		m := newMatching(t, seed)
		if seed%2 == 0 {
			m.steps()
		} else {
			m.burst()
		}
		if t.Failed() {
			t.Errorf("seed %d", seed)
		}
	}
}

// modelRecv is a posted receive.
type modelRecv struct {
	op     Op
	from   uint32 // initiator, with Peer not AnySource
	cursor int
	used   bool
	want   []byte // what the buffer should hold
}

// modelMsg is a message.
type modelMsg struct {
	op   Op
	from uint32
	src  int // index of the sender at the target
}

// matching is a model beside two end points.
type matching struct {
	*lab
	rng     *rand.Rand
	hpc     bool
	store   bool // messages without a receive are kept
	reject  bool
	least   int // MinMultiRecv
	senders []*Endpoint
	to      []int // index of the target in their address vectors
	srcs    []int // their index at the target
	recvs   []*modelRecv
	all     []*modelRecv
	early   []*modelMsg
}

func newMatching(t *testing.T, seed uint64) *matching {
	r := rand.New(rand.NewPCG(seed, 15))
	m := &matching{rng: r, hpc: r.IntN(2) == 0, reject: r.IntN(3) == 0, least: 1 + r.IntN(200)}
	m.store = m.hpc && opProfiles[wire.OpRendezvousTSend] != 0
	m.reject = m.reject && !m.store
	cfg := Config{PayloadMTU: 1024, SmallHeader: r.IntN(2) == 0}
	if m.hpc {
		cfg.Profiles = AIBase | AIFull | HPC
	}
	if seed%2 == 1 {
		cfg.MaxRestarts, cfg.RestartWait, cfg.MaxRTORetx, cfg.MaxNackRetx = InfiniteRestarts, 20*time.Microsecond, InfiniteRTO, InfiniteNack
	}
	e := EndpointConfig{RejectTooLong: m.reject, MinMultiRecv: m.least}
	m.lab = newLabWith(t, cfg, EndpointConfig{Ordered: seed%2 == 1}, e)
	m.senders, m.to, m.srcs = []*Endpoint{m.eps[0]}, []int{1}, []int{0}
	for i := range 2 {
		ep := m.lab.open(0, EndpointConfig{Job: testJob, PID: uint16(10 + i), Initiator: uint32(110 + i)})
		to, err1 := ep.Insert(m.eps[1].Addr())
		src, err2 := m.eps[1].Insert(ep.Addr())
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		m.senders, m.to, m.srcs = append(m.senders, ep), append(m.to, to), append(m.srcs, src)
	}
	return m
}

func (m *matching) size() int {
	if m.rng.IntN(3) == 0 {
		return m.rng.IntN(20)
	}
	return m.rng.IntN(4000)
}

func (m *matching) tag() uint64 { return []uint64{0, 1, 2, 3, 1 << 63}[m.rng.IntN(5)] }

// newRecv makes a random receive.
func (m *matching) newRecv() *modelRecv {
	r := &modelRecv{op: Op{Kind: []Kind{OpRecv, OpTagRecv}[m.rng.IntN(2)], Peer: AnySource, Ctx: uint64(len(m.all))}}
	if r.op.Kind == OpTagRecv {
		r.op.Tag = m.tag()
		if m.hpc {
			r.op.Ignore = []uint64{0, 0, 1, 2, 3, 1 << 63, ^uint64(0)}[m.rng.IntN(7)]
		}
		if k := m.rng.IntN(5); k < len(m.senders) {
			r.op.Peer, r.from = m.srcs[k], m.senders[k].initiator
		}
	}
	n := m.size()
	if m.rng.IntN(4) == 0 {
		r.op.Flags, n = FlagMultiRecv, 2*n
	}
	r.op.Buf, r.want = buf(make([]byte, n)), make([]byte, n)
	m.all = append(m.all, r)
	return r
}

// newMsg makes a random message of a sender.
func (m *matching) newMsg(who int, data uint64) *modelMsg {
	g := &modelMsg{op: Op{Kind: []Kind{OpSend, OpTagSend}[m.rng.IntN(2)], Peer: m.to[who], Flags: FlagData, Data: data, Ctx: data},
		from: m.senders[who].initiator, src: m.srcs[who]}
	if g.op.Kind == OpTagSend {
		g.op.Tag = m.tag()
	}
	g.op.Buf = buf(fill(m.size(), data))
	if len(g.op.Buf.B) < 1000 && m.rng.IntN(3) == 0 {
		g.op.Flags |= FlagInject
	}
	return g
}

// fits is the condition of uet-pds-ses.md section 14.
func (r *modelRecv) fits(g *modelMsg) bool {
	if r.op.Kind == OpRecv {
		return g.op.Kind == OpSend
	}
	return g.op.Kind == OpTagSend && g.op.Tag|r.op.Ignore == r.op.Tag|r.op.Ignore && (r.op.Peer == AnySource || r.from == g.from)
}

// match gives a message to the oldest receive that fits: what the target's completion must be.
func (m *matching) match(g *modelMsg) (c Completion, ok bool) {
	for i, r := range m.recvs {
		if r.fits(g) {
			return m.give(g, i), true
		}
	}
	return c, false
}

// give gives a message to the i-th receive.
func (m *matching) give(g *modelMsg, i int) (c Completion) {
	r := m.recvs[i]
	n, multi := len(g.op.Buf.B), r.op.Flags&FlagMultiRecv != 0
	room := len(r.want) - r.cursor
	c = Completion{Kind: r.op.Kind, Ctx: r.op.Ctx, Len: min(n, room), Tag: g.op.Tag, Src: g.src, Flags: FlagData, Data: g.op.Data}
	switch {
	case n <= room:
	case m.reject:
		c.Err, c.Len, c.Flags, c.Data = &ResponseError{wire.RCTooLong}, 0, 0, 0
	default:
		c.Err = ErrTruncated
	}
	if c.Err == nil || errors.Is(c.Err, ErrTruncated) {
		copy(r.want[r.cursor:], g.op.Buf.B)
	}
	r.used = true
	if multi {
		c.Offset = r.cursor
		r.cursor += min(n, room)
	}
	if !multi || len(r.want)-r.cursor < m.least {
		m.recvs = append(m.recvs[:i:i], m.recvs[i+1:]...)
		if multi {
			c.Flags |= FlagMultiRecv
		}
	}
	return c
}

// post adds a receive: it has the messages that have waited for it, the oldest first.
func (m *matching) post(r *modelRecv) (list []Completion) {
	m.recvs = append(m.recvs, r)
	for k := 0; k < len(m.early); k++ {
		i := len(m.recvs) - 1
		if i < 0 || m.recvs[i] != r {
			break
		}
		if g := m.early[k]; r.fits(g) {
			list = append(list, m.give(g, i))
			m.early = append(m.early[:k:k], m.early[k+1:]...)
			k--
		}
	}
	return list
}

// same compares completions, but for the times.
func same(got, want Completion) bool {
	return got.Kind == want.Kind && got.Ctx == want.Ctx && got.Len == want.Len && got.Tag == want.Tag && got.Src == want.Src && got.Offset == want.Offset &&
		got.Flags == want.Flags && got.Data == want.Data && fmt.Sprint(got.Err) == fmt.Sprint(want.Err)
}

// bytesAreRight compares all buffers with what they should hold.
func (m *matching) bytesAreRight() {
	for i, r := range m.all {
		if !bytes.Equal(r.op.Buf.B, r.want) {
			m.t.Errorf("receive %d: contents differ", i)
		}
	}
}

// steps does one thing after the other.
func (m *matching) steps() {
	for i := range 12 + m.rng.IntN(20) {
		m.got = [2][]Completion{}
		switch x := m.rng.IntN(20); {
		case x < 9:
			r := m.newRecv()
			want := m.post(r)
			m.by(m.eps[1], r.op)
			m.after(1000)
			if len(m.got[0]) != 0 || len(m.got[1]) != len(want) {
				m.t.Errorf("completions %+v, %+v, want %+v", m.got[0], m.got[1], want)
				break
			}
			for k := range want {
				if !same(m.got[1][k], want[k]) {
					m.t.Errorf("at the target %+v, want %+v", m.got[1][k], want[k])
				}
			}
		case x < 10:
			m.cancel(uint64(m.rng.IntN(len(m.all) + 1)))
		default:
			who := m.rng.IntN(len(m.senders))
			g := m.newMsg(who, uint64(i))
			m.by(m.senders[who], g.op)
			for end := m.lab.now() + 100_000_000; len(m.got[0]) == 0 && m.step(end); {
			}
			m.after(1000)
			want, ok := m.match(g)
			if !ok && m.store {
				m.early = append(m.early, g)
			}
			m.oneMessage(g, want, ok)
		}
		if m.t.Failed() {
			m.t.Errorf("step %d", i)
			return
		}
	}
	m.bytesAreRight()
	m.drained()
}

// nothing may have completed.
func (m *matching) nothing() {
	if len(m.got[0])+len(m.got[1]) != 0 {
		m.t.Errorf("completions %+v, %+v", m.got[0], m.got[1])
	}
}

// oneMessage compares the completions of a message with the model's.
func (m *matching) oneMessage(g *modelMsg, want Completion, ok bool) {
	rc := wire.RCOK
	switch {
	case !ok && !m.store:
		rc = wire.RCNoMatch
	case want.Err != nil && m.reject:
		rc = wire.RCTooLong
	}
	if len(m.got[0]) != 1 || m.got[0][0].Ctx != g.op.Ctx || code(m.got[0][0].Err) != rc {
		m.t.Errorf("at the sender %+v, want %v", m.got[0], rc)
	}
	if ok != (len(m.got[1]) == 1) || ok && !same(m.got[1][0], want) {
		m.t.Errorf("%v %x of %d bytes from %d: at the target %+v, want (%v) %+v", g.op.Kind, g.op.Tag, len(g.op.Buf.B), g.from, m.got[1], ok, want)
	}
}

// cancel takes a receive back.
func (m *matching) cancel(ctx uint64) {
	done := false
	m.call(1, m.lab.now()+10, func(now vt.Time) { done = m.eps[1].Cancel(now, ctx) })
	m.after(20)
	for i, r := range m.recvs {
		if r.op.Ctx != ctx {
			continue
		}
		want := Completion{Kind: r.op.Kind, Ctx: ctx, Tag: r.op.Tag, Src: -1, Err: ErrCancelled, Flags: r.op.Flags}
		if !done || len(m.got[1]) != 1 || !same(m.got[1][0], want) {
			m.t.Errorf("cancel of receive %d: %v, %+v", ctx, done, m.got[1])
		}
		m.recvs = append(m.recvs[:i:i], m.recvs[i+1:]...)
		return
	}
	if done {
		m.t.Errorf("receive %d, which is not posted, was cancelled", ctx)
	}
	m.nothing()
}

// drained says that nothing but the receives that are left is left.
func (m *matching) drained() {
	m.run(m.lab.now() + 200_000_000_000)
	for i, f := range m.feps {
		if f.rx.n != 0 || f.mids.n != 0 || f.C[GtdInUse] != 0 || f.C[PDCsOpen] != 0 || m.nodes[i].Pool.Out() != 0 {
			m.t.Errorf("node %d: %d messages, %d message IDs, %d responses, %d PDCs, %d frames left", i, f.rx.n, f.mids.n, f.C[GtdInUse], f.C[PDCsOpen],
				m.nodes[i].Pool.Out())
		}
	}
	left := 0
	for _, k := range [...]space{spaceSend, spaceTagged} {
		p := m.eps[1].q.of(k)
		for r := p.First(); r != nil; r = p.Next(r) {
			left++
		}
	}
	if left != len(m.recvs) {
		m.t.Errorf("%d receives left, want %d", left, len(m.recvs))
	}
}

// burst does all at once. Messages of one kind are matched in the order of sending, and each by the oldest receive of all that fit and
// that no earlier message has taken, whenever they were posted: a message without one waits, and unless it is kept at the target those
// behind it wait, too.
func (m *matching) burst() {
	loss := float64(m.rng.IntN(3)) * 0.03
	m.script = lossy(m.rng, loss, loss, loss*3)
	var list []*modelMsg
	for i := range 4 + m.rng.IntN(12) {
		list = append(list, m.newMsg(0, uint64(i)))
	}
	for range m.rng.IntN(2 * len(list)) {
		m.recvs = append(m.recvs, m.newRecv())
	}
	late := len(m.all)
	var want []Completion
	for _, g := range list {
		c, ok := m.match(g)
		if !ok { // one for it alone
			r := m.newRecv()
			r.op.Kind, r.op.Tag, r.op.Ignore, r.op.Peer = OpRecv, 0, 0, AnySource
			if g.op.Kind == OpTagSend {
				r.op.Kind, r.op.Tag = OpTagRecv, g.op.Tag
			}
			m.recvs = append(m.recvs, r)
			c, _ = m.match(g)
		}
		want = append(want, c)
	}
	m.call(0, 1000, func(now vt.Time) {
		for _, g := range list {
			if err := m.eps[0].Post(now, &g.op); err != nil {
				m.t.Error(err)
			}
		}
	})
	at := vt.Time(1)
	for i, r := range m.all {
		if i == late {
			at += 300_000
		}
		m.call(1, at, func(now vt.Time) {
			if err := m.eps[1].Post(now, &r.op); err != nil {
				m.t.Error(err)
			}
		})
		at += vt.Time(m.rng.IntN(3) * m.rng.IntN(100_000))
	}
	for (len(m.got[0]) < len(list) || len(m.got[1]) < len(list)) && m.step(vt.Time(5*time.Second)) {
	}
	m.compare(list, want)
	m.bytesAreRight()
	m.script = nil
	m.drained()
}

// compare holds the completions of a burst against the model's. Which message of a buffer for many ends last is open, and so is where
// the flag stands that gives it back.
func (m *matching) compare(list []*modelMsg, want []Completion) {
	if len(m.got[0]) != len(list) || len(m.got[1]) != len(list) {
		m.t.Errorf("%d and %d completions, want %d", len(m.got[0]), len(m.got[1]), len(list))
		return
	}
	next := map[Kind]int{}
	flags := map[uint64]int{} // of receives
	for _, c := range m.got[1] {
		i := next[c.Kind]
		for want[i].Kind != c.Kind { // the next of its kind
			i++
		}
		next[c.Kind] = i + 1
		if m.store { // messages that wait do not hold up those behind them
			i = int(c.Data) % len(want)
		}
		w := want[i]
		if c.Flags&FlagMultiRecv != 0 {
			flags[c.Ctx]++
		}
		if w.Flags&FlagMultiRecv != 0 {
			flags[c.Ctx]--
		}
		c.Flags &^= FlagMultiRecv
		w.Flags &^= FlagMultiRecv
		if !same(c, w) {
			m.t.Errorf("message %d: %+v, want %+v", i, c, w)
		}
	}
	for ctx, n := range flags {
		if n != 0 {
			m.t.Errorf("receive %d: given back %d times too often", ctx, n)
		}
	}
	sent := map[uint64]Completion{}
	for _, c := range m.got[0] {
		sent[c.Ctx] = c
	}
	for i, g := range list {
		rc := wire.RCOK
		if want[i].Err != nil && m.reject {
			rc = wire.RCTooLong
		}
		if c, ok := sent[g.op.Ctx]; !ok || code(c.Err) != rc {
			m.t.Errorf("message %d: at the sender %+v (%v), want %v", i, c, ok, rc)
		}
	}
}
