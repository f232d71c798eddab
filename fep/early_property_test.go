package fep

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

var (
	earlySeeds = flag.Int("early", 2000, "random seeds of TestRandomEarly")
	earlySeed  = flag.Uint64("earlyseed", 0, "the one seed of TestRandomEarly, 0: many")
)

// TestRandomEarly posts sends, receives and cancels at random times, under all profiles and limits, over a link that loses, repeats and
// delays, and sometimes closes an endpoint. Each operation has one completion; each message that was sent has arrived, whole, in one receive that
// matches it, or is stored; one that failed has arrived nowhere; none failed while a receive was there for it; nothing is left.
func TestRandomEarly(t *testing.T) {
	if *earlySeed != 0 {
		randomEarly(t, *earlySeed)
		return
	}
	start := rand.Uint64()
	for i := range uint64(*earlySeeds) {
		if randomEarly(t, start+i); t.Failed() {
			t.Fatalf("-earlyseed %d", start+i)
		}
	}
}

// earlyMsg is a send of the model, earlyRecv a receive.
type earlyMsg struct {
	from, n    int
	tag        uint64 // 0: untagged
	posted     bool
	sent, came int
	err        error
}

type earlyRecv struct {
	at          int
	tag, ignore uint64
	any, posted bool
	buf         []byte
	done        int
	err         error
	late        bool // cancelled at the end: nothing came for it
}

// earlyRun is one run of the model.
type earlyRun struct {
	*lab
	r       *rand.Rand
	pair    [2]Profiles
	ordered bool
	closed  int // node whose endpoint is closed in between, -1: none
	msgs    []*earlyMsg
	recvs   []*earlyRecv
}

var earlyPairs = [][2]Profiles{{AIFull, AIFull}, {HPC, HPC}, {AIBase, AIBase}, {AIFull | HPC, AIFull | HPC}, {AIFull, HPC}, {AIFull | HPC, AIFull},
	{AIBase | AIFull, AIBase | AIFull | HPC}}

const manyBytes = 30_000

func newEarlyRun(t *testing.T, seed uint64) *earlyRun {
	r := rand.New(rand.NewPCG(seed, 5))
	x := &earlyRun{r: r, pair: earlyPairs[r.IntN(len(earlyPairs))], closed: -1}
	x.lab = newLab(t, Config{MaxRestarts: 9, RestartWait: time.Millisecond, MaxRTORetx: InfiniteRTO, MaxNackRetx: InfiniteNack, RTOMax: 20 * time.Millisecond,
		PayloadMTU: 1024 << r.IntN(3), MPR: uint8(1 + r.IntN(8)), SendThreshold: 1 << r.IntN(14), Window: int64(10_000 + r.IntN(100_000)),
		MaxReturns: 1 + r.IntN(50), PDCsPerKey: 1 + r.IntN(4), GtdSlots: 2 + r.IntN(100), MaxMessages: r.IntN(2) * (3 + r.IntN(10))})
	x.ordered = r.IntN(3) == 0
	limit := func(n int) int { return r.IntN(2) * r.IntN(n) }
	for i, ep := range x.eps {
		ep.profiles, ep.cfg.Ordered, ep.av = x.pair[i], x.ordered, nil
		x.feps[i].cfg.Profiles = x.pair[i]
		ep.cfg.EagerSize = limit(20_000)
		if r.IntN(2) == 0 {
			ep.cfg.MaxRTR, ep.cfg.Unexpected, ep.cfg.KeptMessages = limit(4), limit(40_000), limit(6)
		}
	}
	for i, ep := range x.eps {
		for j := range x.eps {
			if _, err := ep.Insert(Address{FA: testAddr(j), PID: uint16(j), Initiator: uint32(100 + j), Profiles: x.pair[j]}); err != nil && i != j {
				t.Fatal(err)
			} else if err != nil {
				ep.av = append(ep.av, nil)
			}
		}
	}
	bad := r.IntN(4)
	x.script = func(int, []byte) (ft fate) {
		switch p := r.IntN(100); {
		case p < bad:
			ft.drop = true
		case p < 2*bad:
			ft.dup = 1
		case p < 5*bad:
			ft.delay = time.Duration(r.IntN(20_000))
		}
		return ft
	}
	return x
}

// when is a random time of an operation.
func (x *earlyRun) when() vt.Time {
	return vt.Time(1 + x.r.Int64N([]int64{20_000, 20_000, 300_000, 50_000_000}[x.r.IntN(4)]))
}

func (x *earlyRun) send(i int) {
	m := &earlyMsg{from: x.r.IntN(2), tag: uint64(x.r.IntN(4)), n: 16 + x.r.IntN(manyBytes>>x.r.IntN(8))}
	x.msgs = append(x.msgs, m)
	src := fill(m.n, uint64(i))
	binary.BigEndian.PutUint64(src, uint64(i))
	op := Op{Kind: OpTagSend, Peer: 1 - m.from, Tag: m.tag, Buf: buf(src), Ctx: uint64(i)}
	if m.tag == 0 {
		op.Kind = OpSend
	}
	if x.r.IntN(4) == 0 {
		op.Flags, op.Data = FlagData, uint64(i)
	}
	if x.r.IntN(8) == 0 {
		op.Flags |= FlagDeliveryComplete
	}
	x.call(m.from, x.when(), func(now vt.Time) {
		err := x.eps[m.from].Post(now, &op)
		if m.posted = err == nil; err != nil && x.closed < 0 {
			x.t.Error(err)
		}
	})
}

func (x *earlyRun) recv(i int) {
	v := &earlyRecv{at: x.r.IntN(2), tag: uint64(x.r.IntN(4)), buf: make([]byte, manyBytes+16), any: x.r.IntN(3) == 0}
	x.recvs = append(x.recvs, v)
	op := Op{Kind: OpTagRecv, Peer: 1 - v.at, Tag: v.tag, Buf: buf(v.buf), Ctx: uint64(1000 + i)}
	if v.any = v.any && x.pair[0]&x.pair[1] != AIBase; v.any {
		op.Peer = AnySource
	}
	if v.tag == 0 {
		op.Kind, v.any = OpRecv, true
	} else if x.pair[v.at]&HPC != 0 && x.r.IntN(3) == 0 {
		v.ignore, op.Ignore = 1, 1
	}
	at := x.when()
	x.call(v.at, at, func(now vt.Time) {
		err := x.eps[v.at].Post(now, &op)
		if v.posted = err == nil; err != nil && x.closed < 0 {
			x.t.Error(err)
		}
	})
	if x.r.IntN(3) == 0 {
		x.call(v.at, at+vt.Time(1+x.r.Int64N([]int64{5000, 100_000, 30_000_000}[x.r.IntN(3)])), func(now vt.Time) { x.eps[v.at].Cancel(now, op.Ctx) })
	}
}

func randomEarly(t *testing.T, seed uint64) {
	x := newEarlyRun(t, seed)
	for i := range 1 + x.r.IntN(10) {
		x.send(i)
	}
	for i := range 1 + x.r.IntN(12) {
		x.recv(i)
	}
	if x.r.IntN(8) == 0 {
		x.closed = x.r.IntN(2)
		x.call(x.closed, x.when(), func(now vt.Time) { x.eps[x.closed].Close(now) })
	}
	x.run(vt.Time(20 * time.Second))
	for i := range x.eps {
		x.call(i, x.now()+1, func(now vt.Time) {
			for j, v := range x.recvs {
				if v.at == i {
					v.late = x.eps[i].Cancel(now, uint64(1000+j))
				}
			}
		})
	}
	x.settle()
	for i := range x.got {
		for _, c := range x.got[i] {
			x.completed(i, c)
		}
	}
	x.check()
	for i := range x.eps {
		x.call(i, x.now()+1, func(now vt.Time) { x.eps[i].Close(now) })
	}
	x.spent()
}

// completed takes a completion into the model.
func (x *earlyRun) completed(i int, c Completion) {
	if c.Ctx < 1000 {
		m := x.msgs[c.Ctx]
		m.sent++
		m.err = c.Err
		if i != m.from || c.Len != m.n {
			x.t.Errorf("node %d: %+v", i, c)
		}
		return
	}
	v := x.recvs[c.Ctx-1000]
	v.done++
	v.err = c.Err
	if c.Err != nil {
		return
	}
	id := binary.BigEndian.Uint64(v.buf)
	if id >= uint64(len(x.msgs)) {
		x.t.Errorf("receive %d holds no message: %+v", c.Ctx-1000, c)
		return
	}
	m := x.msgs[id]
	m.came++
	want := fill(m.n, id)
	binary.BigEndian.PutUint64(want, id)
	if c.Len != m.n || !bytes.Equal(v.buf[:m.n], want) || !x.matches(v, m) || c.Flags&FlagData != 0 && c.Data != id {
		x.t.Errorf("receive %d of tag %d got message %d of tag %d wrongly: %+v", c.Ctx-1000, v.tag, id, m.tag, c)
	}
}

func (x *earlyRun) matches(v *earlyRecv, m *earlyMsg) bool {
	return v.at != m.from && (v.tag == 0) == (m.tag == 0) && v.tag|v.ignore == m.tag|v.ignore
}

// check compares what happened with what may.
func (x *earlyRun) check() {
	x.t.Helper()
	stored := 0
	for i, m := range x.msgs {
		if m.posted != (m.sent == 1) || m.sent > 1 || m.came > 1 {
			x.t.Errorf("message %d: posted %v, %d completions, came %d times", i, m.posted, m.sent, m.came)
		}
		if x.closed >= 0 || !m.posted {
			continue
		}
		if m.err == nil && m.came == 0 {
			stored++
		}
		if m.err != nil && m.came != 0 {
			x.t.Errorf("message %d came: %v", i, m.err)
		}
		var re *ResponseError
		if m.err != nil && !errors.Is(m.err, ErrNoReceive) && !(errors.As(m.err, &re) && (re.Code == wire.RCNoMatch || re.Code == wire.RCDisabledGen)) {
			x.t.Errorf("message %d: %v", i, m.err)
		}
		for j, v := range x.recvs {
			if m.err != nil && v.late && x.matches(v, m) && !x.ordered {
				x.t.Errorf("message %d of %d bytes: %v, though receive %d waited", i, m.n, m.err, j)
			}
		}
	}
	for j, v := range x.recvs {
		if v.posted != (v.done == 1) || v.done > 1 {
			x.t.Errorf("receive %d: posted %v, %d completions", j, v.posted, v.done)
		}
		if x.closed < 0 && v.err != nil && !errors.Is(v.err, ErrCancelled) {
			x.t.Errorf("receive %d: %v", j, v.err)
		}
	}
	if kept := x.count(EarlyMsgs); x.closed < 0 && stored != kept {
		x.t.Errorf("%d messages were sent and not received, %d are stored", stored, kept)
	}
}
