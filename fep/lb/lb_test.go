package lb

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/vt"
)

// script is a generator whose 32-bit draws are written down.
type script struct {
	t     *testing.T
	draws []uint32
}

func (s *script) Uint64() uint64 {
	if len(s.draws) == 0 {
		s.t.Fatal("a draw too many")
	}
	d := s.draws[0]
	s.draws = s.draws[1:]
	return uint64(d) << 32
}

// scene drives one balancer through steps written by hand.
type scene struct {
	t   *testing.T
	now vt.Time
	src *script
	o   *Pool
	b   Balancer
	n   int
}

func newScene(t *testing.T, p Params, draws ...uint32) *scene {
	t.Helper()
	src := &script{t, draws}
	o, err := NewPool(p, rand.New(src))
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{t: t, src: src, o: o}
	s.b = o.New(0)
	return s
}

type step func(*scene)

func (s *scene) run(steps ...step) {
	s.t.Helper()
	for _, f := range steps {
		s.n++
		f(s)
	}
	if len(s.src.draws) != 0 {
		s.t.Errorf("%d draws were not made", len(s.src.draws))
	}
}

func at(d time.Duration) step { return func(s *scene) { s.now = vt.Time(d) } }

func send(p Packet, want ...uint16) step {
	return func(s *scene) {
		for i, w := range want {
			if got := s.b.Next(s.now, p); got != w {
				s.t.Errorf("step %d, packet %d at %v: EV %d, want %d", s.n, i, s.now, got, w)
			}
		}
	}
}

func next(want ...uint16) step { return send(Packet{Size: 4096}, want...) }

func tell(k Kind, evs ...uint16) step {
	return func(s *scene) {
		for _, ev := range evs {
			s.b.Feedback(s.now, Feedback{EV: ev, Kind: k, Bytes: 4096})
		}
	}
}

func good(evs ...uint16) step { return tell(Good, evs...) }

func feed(f Feedback) step { return func(s *scene) { s.b.Feedback(s.now, f) } }

// see checks one thing of the view.
func see(what string, ok func(v *View) bool) step {
	return func(s *scene) {
		var v View
		if s.b.Look(&v); !ok(&v) {
			s.t.Errorf("step %d: %s is not so: %+v", s.n, what, v)
		}
	}
}

func frozen(want bool) step {
	return see(fmt.Sprintf("frozen %v", want), func(v *View) bool { return v.Frozen == want })
}

const us, ms = time.Microsecond, time.Millisecond

var full = 1 << 16

func TestOblivious(t *testing.T) {
	// Upper bits 0x1230 of 0x123F, x = 1 of 0xFF1; then x = 2. Feedback is not heard.
	newScene(t, Params{Algorithm: Oblivious, EVs: 4}, 0x1230, 0xFF1, 2, 3).run(
		next(0x1231, 0x1230, 0x1233, 0x1232),
		tell(Timeout, 0x1232), tell(ECN, 0x1233),
		next(0x1232, 0x1233, 0x1230, 0x1231),
	)
	// Upper bits are drawn again if they are 0.
	newScene(t, Params{Algorithm: Oblivious, EVs: 4}, 3, 0x10003, 0x40007, 0).run(next(4, 5, 6))
	// In the whole space EV 0 is passed.
	newScene(t, Params{Algorithm: Oblivious, EVs: full}, 2).run(next(2, 3, 1, 6, 7))
	newScene(t, Params{Algorithm: Oblivious, EVs: 1}, 9, 0, 0, 0).run(next(9, 9))
}

func TestSpray(t *testing.T) {
	newScene(t, Params{Algorithm: Spray, EVs: full}, 7, 0x10000, 8, 0xABCD1234).run(next(7, 8, 0x1234))
	newScene(t, Params{Algorithm: Spray, EVs: 16}, 0xF00F, 5, 0x77).run(next(0xF005, 0xF007))
}

func TestMP(t *testing.T) {
	newScene(t, Params{Algorithm: MP, SubPaths: 3}, 100, 6).run(next(100, 107, 114, 100), tell(Timeout, 107), next(107, 114, 100))
	// 65534, 0, 2: the one after the last stands for 0.
	newScene(t, Params{Algorithm: MP, SubPaths: 2}, 0xFFFF, 1).run(next(0xFFFF, 1, 0xFFFF, 1))
}

func TestREPS(t *testing.T) {
	reps := func(lifetime int, draws ...uint32) *scene {
		return newScene(t, Params{Algorithm: REPS, EVs: full, Lifetime: lifetime, Explore: 3}, draws...)
	}
	t.Run("recycling", func(t *testing.T) {
		reps(0, 11, 12, 13, 14).run(
			next(11, 12),
			good(11), next(11, 13), // once only
			tell(ECN, 12), tell(Nack, 13), next(14), // not recycled
			good(21, 22, 23), next(21), good(24), next(22, 23, 24), // oldest first
		)
	})
	t.Run("overflow", func(t *testing.T) {
		reps(0, 99).run(
			good(1, 2, 3, 4, 5, 6, 7, 8, 9, 10), // 9 and 10 replace 1 and 2
			next(3, 4), good(30), next(5, 6, 7, 8, 9, 10, 30, 99),
		)
	})
	t.Run("lifetime", func(t *testing.T) {
		reps(2, 99).run(good(1, 2), next(1, 1, 2), good(3), next(2, 3, 3, 99))
		reps(15, 99).run(good(1), next(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 99))
		// A full ring loses what is left of its oldest entry.
		reps(2).run(good(1, 2, 3, 4, 5, 6, 7, 8), next(1), good(9), next(2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9))
	})
	t.Run("freezing", func(t *testing.T) {
		reps(0, 91, 92, 93, 94).run(
			good(1, 2, 3), next(1), // 1 is used
			at(ms), tell(Timeout, 50), frozen(true),
			next(1, 2, 3, 1), // the whole ring, used or not
			good(4), next(2, 3, 4, 1),
			tell(Timeout, 51), tell(ECN, 1), // no longer than once
			at(11*ms), tell(ECN, 4), frozen(true), // not yet after
			at(11*ms+1), next(2), frozen(true), // only feedback thaws
			good(5), frozen(false),
			see("explore 3", func(v *View) bool { return v.Explore == 3 }),
			next(91, 92), tell(Timeout, 92), frozen(false), // explores: no freezing
			next(93), next(5, 94), // then what came back
			tell(Timeout, 93), frozen(true),
		)
	})
	t.Run("freezing with an empty ring", func(t *testing.T) {
		reps(0, 71, 72).run(tell(Timeout, 5), next(71, 72), good(8), next(8, 8), good(9), next(8, 9, 8))
	})
	t.Run("freezing off", func(t *testing.T) {
		newScene(t, Params{EVs: full, Freeze: -1}, 71).run(good(1), tell(Timeout, 5), frozen(false), next(1, 71))
	})
	t.Run("thaw by timeout", func(t *testing.T) {
		reps(0, 61, 62, 63).run(good(1), tell(Timeout, 2), at(10*ms+1), tell(Timeout, 3), frozen(false), next(61, 62, 63))
		newScene(t, Params{EVs: full, Explore: -1}, 71).run(tell(Timeout, 2), at(10*ms+1), tell(Timeout, 3), frozen(false), next(71))
	})
	t.Run("set", func(t *testing.T) {
		newScene(t, Params{EVs: 256}, 0xAB12, 0xFFFF, 0x10001).run(next(0xABFF, 0xAB01))
	})
	t.Run("unknown EV", func(t *testing.T) { reps(0, 71).run(good(0), next(71)) })
}

func TestREPSLegacy(t *testing.T) {
	newScene(t, Params{Algorithm: REPSLegacy, EVs: 8, FirstWindow: 3}, 64, 5).run(
		next(65, 66), good(65, 66), next(67), // the first window walks
		next(65, 66, 64+5),
		good(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18), tell(Timeout, 1), tell(ECN, 1), tell(Nack, 1), good(0),
		next(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18),
	)
	newScene(t, Params{Algorithm: REPSLegacy, EVs: 4, FirstWindow: 9}, 64, 2).run(next(65, 66, 67, 64, 66))
}

func TestBitmap(t *testing.T) {
	bm := func(draws ...uint32) *scene { return newScene(t, Params{Algorithm: Bitmap, EVs: 4}, draws...) }
	score := func(want ...int64) step {
		return see(fmt.Sprint("scores ", want), func(v *View) bool {
			for i, p := range v.Paths {
				if p.Score != want[i] || (p.State == StatePenalty) != (want[i] > 0) {
					return false
				}
			}
			return len(v.Paths) == len(want)
		})
	}
	t.Run("penalties", func(t *testing.T) {
		bm(64, 0).run(tell(ECN, 64), tell(Nack, 65), tell(Timeout, 66), good(64), score(1, 4, 15, 0),
			tell(ECN, 66), tell(Nack, 65), score(1, 8, 15, 0), tell(Nack, 65, 65), score(1, 15, 15, 0),
			tell(Timeout, 0, 4, 128), score(1, 15, 15, 0)) // EVs that are not of the set
	})
	t.Run("walk", func(t *testing.T) {
		bm(64, 0, 3, 0).run(
			tell(ECN, 64), tell(Nack, 65),
			next(66), score(0, 4, 0, 0), // 64 loses its point and is passed, 65 is passed
			next(67),                                  // the round ends: x = 3, order 67, 66, 65, 64
			next(67, 66), next(64), score(0, 3, 0, 0), // 65 is the first met: it loses one; the round ends: x = 0
			next(64), next(66), score(0, 2, 0, 0),
		)
	})
	t.Run("all bad", func(t *testing.T) {
		bm(64, 0, 0).run(tell(ECN, 64, 65, 66, 67), next(64), score(0, 1, 1, 1), next(64), score(0, 0, 1, 1), next(65), score(0, 0, 1, 1))
	})
	t.Run("switched off", func(t *testing.T) {
		newScene(t, Params{Algorithm: Bitmap, EVs: 2, PenaltyECN: -1, PenaltyNack: 2}, 64, 0).run(tell(ECN, 64), tell(Nack, 65), score(0, 2))
	})
}

func TestMixed(t *testing.T) {
	newScene(t, Params{Algorithm: Mixed, EVs: 4}, 64, 0).run(
		next(64), tell(ECN, 65), good(64), next(64), next(66), // recycled first, then past 65
		see("65 free again", func(v *View) bool { return v.Paths[1].Score == 0 }),
	)
}

func TestSinglePath(t *testing.T) {
	idle := func(want ...uint16) step { return send(Packet{Idle: true}, want...) }
	rtt := 10 * us // t_reroute 100 us
	t.Run("fixed", func(t *testing.T) {
		newScene(t, Params{Algorithm: Fixed}, 0, 5).run(idle(5), tell(Timeout, 5), at(ms), idle(5), next(5))
	})
	t.Run("ecmp idle", func(t *testing.T) {
		newScene(t, Params{Algorithm: ECMP, RTT: rtt, RerouteOn: OnIdle}, 5, 6, 6, 7).run(
			idle(5), at(us), idle(6), at(100*us), idle(6), tell(Timeout, 6), next(6), at(101*us), next(6), idle(7))
	})
	t.Run("ecmp default", func(t *testing.T) {
		newScene(t, Params{Algorithm: ECMP, RTT: rtt}, 5, 6, 7).run(
			idle(5), tell(ECN, 5), tell(Nack, 5), next(5), tell(Timeout, 5), next(6),
			at(99*us), tell(Timeout, 6), next(6), at(100*us), tell(Timeout, 5), next(6), tell(Timeout, 6), next(7))
	})
	t.Run("ecmp nack", func(t *testing.T) {
		newScene(t, Params{Algorithm: ECMP, RTT: rtt, RerouteOn: OnNack}, 5, 6).run(tell(ECN, 5), next(5), tell(Nack, 5), next(6))
		newScene(t, Params{Algorithm: ECMP, RTT: rtt, RerouteOn: OnECN}, 5, 6).run(good(5), next(5), tell(ECN, 5), next(6))
	})
	t.Run("plb", func(t *testing.T) {
		newScene(t, Params{Algorithm: PLB, RTT: rtt}, 5, 6, 7, 8).run(
			next(5), good(5, 5, 5), at(10*us), tell(ECN, 5), next(5), // a quarter: not more than a quarter
			at(15*us), good(5), at(20*us), tell(ECN, 5), next(5), // half: congested
			at(30*us), good(5), next(5), // a good round begins anew
			at(40*us), tell(ECN, 5), next(5), at(49*us), tell(ECN, 5), next(5), at(50*us), good(5), next(6), // 40 us and 50 us
			tell(Timeout, 5), next(6), tell(Timeout, 6), next(7),
			at(60*us), tell(ECN, 7), next(7), idle(8), next(8), // one round is enough where nothing is under way
		)
	})
	t.Run("flowlet", func(t *testing.T) {
		newScene(t, Params{Algorithm: Flowlet, RTT: rtt, RTO: 50 * us}, 5, 6, 7).run(
			next(5), at(5*us), next(5), at(20*us), next(5), // gaps, but soon after the opening
			at(51*us), good(5), at(56*us), next(5), tell(Timeout, 5), at(56*us+1), next(6), // more than half an RTT
			at(100*us), next(6), at(106*us), tell(ECN, 6), next(6), at(112*us), next(7),
		)
	})
}

func TestUCCL(t *testing.T) {
	pair := func(i, j uint32) uint32 { return j<<16 | i }
	p := Params{Algorithm: UCCL, EVs: 8, Chunk: 8192, RTO: ms}
	rtt := func(ev uint16, d time.Duration) step { return feed(Feedback{EV: ev, Kind: Good, RTT: vt.Time(d)}) }
	score := func(ev uint16, want int64) step {
		return see(fmt.Sprint("RTT ", want), func(v *View) bool { return v.Paths[ev&7].Score == want })
	}
	t.Run("average", func(t *testing.T) {
		newScene(t, p, 64).run(rtt(65, 800), score(65, 800), rtt(65, 1600), score(65, 900), rtt(65, 100), score(65, 800), rtt(65, 0), score(65, 800),
			tell(Timeout, 65), score(65, 800+(1_000_000-800)/8), tell(Timeout, 66), score(66, 1_000_000), rtt(1, 5), rtt(128, 5))
	})
	t.Run("chunks", func(t *testing.T) {
		newScene(t, p, 64, pair(1, 2), pair(1, 2), pair(3, 1), pair(4, 1)).run(
			rtt(65, 12*us), rtt(66, 10*us),
			send(Packet{Size: 4096, Msg: 20000}, 66), next(66), // the shorter one, for a chunk
			rtt(66, 100*us), next(65), send(Packet{Size: 4096, Again: true}, 67), next(65), next(68), // never measured: shortest
		)
	})
	t.Run("small messages", func(t *testing.T) {
		small := Packet{Size: 4096, Msg: 6000}
		newScene(t, p, 64, pair(1, 1), pair(2, 2), pair(3, 3)).run(
			send(small, 65), send(Packet{Size: 1904}, 65), send(small, 65), send(Packet{Size: 1904}, 65), // 12 000 of 16 384
			send(small, 66), send(Packet{Size: 4096, Msg: 9000}, 67), send(small, 67),
		)
	})
}

func TestWatch(t *testing.T) {
	o, err := NewPool(Params{EVs: full}, rand.New(&script{t, []uint32{300, 5}}))
	if err != nil {
		t.Fatal(err)
	}
	w := NewWatch(o.New(0))
	w.Sent(w.Next(1, Packet{}), 100)
	w.Sent(w.Next(2, Packet{}), 20)
	w.Feedback(10, Feedback{EV: 300, Kind: Good})
	w.Feedback(11, Feedback{EV: 5, Kind: Timeout})
	w.Feedback(12, Feedback{EV: 301, Kind: ECN}) // was never sent
	w.Feedback(13, Feedback{EV: 40000, Kind: ECN})
	ev := w.Next(14, Packet{})
	if ev != 300 {
		t.Errorf("frozen ring gives %d", ev)
	}
	w.Sent(ev, 4000)
	w.Next(15, Packet{}) // given, but not sent
	for range 2 {        // a view can be used again
		var v View
		w.Look(&v)
		if v.Algorithm != REPS || !v.Frozen || v.Packets != 3 || v.Bytes != 4120 || len(v.Paths) != 2 {
			t.Fatalf("view %+v", v)
		}
		a, b := v.Paths[0], v.Paths[1]
		if a.EV != 5 || a.Packets != 1 || a.Last != Timeout || a.LastAt != 11 || a.Counts[Timeout] != 1 || a.State != StateNone {
			t.Errorf("path %+v", a)
		}
		if b.EV != 300 || b.Packets != 2 || b.Bytes != 4100 || b.Share != 2./3 || b.Last != Good || b.Counts[Good] != 1 || b.State != StateUsed {
			t.Errorf("path %+v", b)
		}
	}
}

// TestWatchKeepsOnlyWhatWasSent: what is told of an EV before it is used is no feedback of its packets.
func TestWatchKeepsOnlyWhatWasSent(t *testing.T) {
	w := NewWatch(newPool(t, Params{Algorithm: MP, SubPaths: 2}, 1).New(0))
	first := w.Next(0, Packet{})
	w.Sent(first, 1)
	other := w.Balancer.(*mp).path(1)
	w.tally(other) // its page is there
	w.Feedback(5, Feedback{EV: other, Kind: ECN})
	w.Sent(w.Next(6, Packet{}), 1)
	w.Feedback(7, Feedback{EV: first, Kind: Nack})
	w.Feedback(8, Feedback{EV: first, Kind: None})
	var v View
	w.Look(&v)
	for _, p := range v.Paths {
		want := map[uint16]Kind{first: Nack, other: None}[p.EV]
		if p.Last != want || p.Share != 0.5 || p.State != StateCurrent || p.Counts[ECN] != 0 {
			t.Errorf("path %+v, want the last feedback to be %v", p, want)
		}
	}
}

// TestQueueIsBounded: of a peer that repeats itself the latest EVs stay.
func TestQueueIsBounded(t *testing.T) {
	var q fifo
	for i := range mostQueued + 3 {
		q.push(uint16(i/3 + 1))
	}
	if q.n != mostQueued || len(q.evs) != mostQueued || q.pop() != 2 {
		t.Errorf("%d EVs in the queue, room for %d", q.n, len(q.evs))
	}
}

func TestWords(t *testing.T) {
	for k := None; k < nKinds; k++ {
		if k.String() == "invalid" {
			t.Errorf("kind %d has no word", k)
		}
	}
	for s := StateNone; s <= StatePenalty; s++ {
		if s.String() == "invalid" {
			t.Errorf("state %d has no word", s)
		}
	}
	if nKinds.String() != "invalid" || (StatePenalty+1).String() != "invalid" {
		t.Error("what does not exist has a word")
	}
}
