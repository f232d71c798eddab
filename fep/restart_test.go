package fep

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// started lists the first packet of each message that node 0 sent, and each MSG_ERROR.
type started struct {
	at  vt.Time
	std wire.SESStd
}

func (l *lab) starts() *[]started {
	list := &[]started{}
	l.tap = func(now vt.Time, from int, b []byte) {
		u := firstUET(b)
		r, err := wire.ParseRequest(u)
		if err != nil || from != 0 || r.Next() != wire.NextRequestStd || r.RETX() {
			return
		}
		s, err := wire.ParseSESStd(append([]byte(nil), u[len(r):]...))
		if err == nil && (s.Head().SOM() || s.Head().Opcode() == wire.OpMsgError) {
			*list = append(*list, started{now, s})
		}
	}
	return list
}

// TestRestart: a message without a receive begins anew after 50 to 100 ms, then after twice as long each time, under another message
// ID, until there is a receive or it has done so five times.
func TestRestart(t *testing.T) {
	for _, post := range []time.Duration{0, 10 * time.Millisecond, 250 * time.Millisecond} {
		l := newLab(t, Config{MaxRestarts: 5, SendThreshold: -1})
		list := l.starts()
		src, dst := fill(100_000, 1), make([]byte, 100_000)
		l.post(0, Op{Kind: OpTagSend, Peer: 1, Tag: 5, Buf: buf(src), Ctx: 1})
		if post > 0 {
			l.run(l.now().Add(post))
			l.post(1, Op{Kind: OpTagRecv, Peer: 0, Tag: 5, Buf: buf(dst), Ctx: 2})
		}
		l.settle()
		var som []started
		for i, s := range *list {
			if s.std.Head().SOM() {
				som = append(som, s)
			} else if i == 0 || (*list)[i-1].std.MessageID() != s.std.MessageID() {
				t.Error("MSG_ERROR of another message")
			}
		}
		wait := time.Duration(0)
		for i := 1; i < len(som); i++ {
			d := time.Duration(som[i].at - som[i-1].at)
			if i == 1 && (d < 50*time.Millisecond || d > 101*time.Millisecond) || i > 1 && (d < 2*wait-time.Millisecond || d > 2*wait+time.Millisecond) {
				t.Errorf("restart %d after %v", i, d)
			}
			if wait = d; som[i].std.MessageID() == som[i-1].std.MessageID() {
				t.Errorf("restart %d has the same message ID", i)
			}
		}
		c := l.last(0)
		var re *ResponseError
		switch {
		case post == 0 && (len(som) != 6 || !errors.As(c.Err, &re) || re.Code != wire.RCNoMatch):
			t.Errorf("never posted: %d starts, %v", len(som), c.Err)
		case post > 0 && (c.Err != nil || !bytes.Equal(src, dst) || len(som) < 2 || len(l.got[1]) != 1):
			t.Errorf("posted after %v: %d starts, %v", post, len(som), c.Err)
		}
		if len(l.got[0]) != 1 || l.feps[0].mids.n != 0 {
			t.Errorf("%d completions", len(l.got[0]))
		}
		l.leaks()
	}
}

// TestGenerations: twenty ordered messages find no receive. The first disables the resource index, so none of the others may take a
// receive before it, whenever receives are posted; they arrive in their order.
func TestGenerations(t *testing.T) {
	for _, at := range []time.Duration{20 * time.Microsecond, time.Millisecond, 120 * time.Millisecond} {
		l := newLab(t, Config{MaxRestarts: 5})
		l.eps[0].SetOrdered(true)
		const n = 20
		var dst [n][]byte
		for i := range n {
			l.call(0, 1000, func(now vt.Time) {
				if err := l.eps[0].Send(now, 1, fill(5000, uint64(i)), uint64(i)); err != nil {
					t.Error(err)
				}
			})
			// half of the receives come at once, each of the others a while later
			l.call(1, vt.Time(at)+vt.Time(max(0, i-n/2))*7_000_000, func(now vt.Time) {
				dst[i] = make([]byte, 5000)
				if err := l.eps[1].Recv(now, dst[i], uint64(i)); err != nil {
					t.Error(err)
				}
			})
		}
		l.call(0, vt.Time(at)+1000, func(now vt.Time) { _ = l.eps[0].Send(now, 1, fill(5000, n), n) })
		l.call(1, vt.Time(at)+500_000_000, func(now vt.Time) { _ = l.eps[1].Recv(now, make([]byte, 5000), n) })
		l.settle()
		if len(l.got[0]) != n+1 || len(l.got[1]) != n+1 {
			t.Fatalf("%v: %d sent, %d received", at, len(l.got[0]), len(l.got[1]))
		}
		for i := range n {
			if l.got[1][i].Ctx != uint64(i) || l.got[1][i].Err != nil || !bytes.Equal(dst[i], fill(5000, uint64(i))) {
				t.Errorf("%v: receive %d: %+v", at, i, l.got[1][i])
			}
		}
		if c := l.feps[0].RCs.Rx; l.feps[0].C[Restarts] == 0 || c[wire.RCNoMatch] == 0 || l.eps[1].gens[spaceSend].value == 0 {
			t.Errorf("%v: %d restarts, %d NO_MATCH, generation %d", at, l.feps[0].C[Restarts], c[wire.RCNoMatch], l.eps[1].gens[spaceSend].value)
		}
		if g := l.eps[1].gens[spaceTagged]; g.value != 0 || g.disabled {
			t.Error("tagged receives have their own generation")
		}
		l.leaks()
	}
}

// TestGenerationsFirstAnswerLost: the answer to the first packet of a message with the old generation is lost. The sender learns the current one from
// the next answer, so that the second restart is the last.
func TestGenerationsFirstAnswerLost(t *testing.T) {
	l := newLab(t, Config{PayloadMTU: 1024, MaxRestarts: 2})
	l.eps[0].SetOrdered(true)
	lost := 0
	l.script = func(from int, b []byte) fate {
		u := firstUET(b)
		if from == 0 || lost > 0 || !wire.Prologue(u).Type().IsAck() || parseSaid(t, u).rc != wire.RCBadGeneration {
			return fate{}
		}
		lost++
		return fate{drop: true}
	}
	dst := make([]byte, 3000)
	l.post(0, Op{Kind: OpTagSend, Peer: 1, Tag: 1, Buf: buf(fill(3000, 1)), Ctx: 1})
	l.run(l.now() + ms)
	l.post(1, Op{Kind: OpTagRecv, Peer: AnySource, Tag: 1, Buf: buf(dst), Ctx: 2})
	l.settle()
	if c, n := l.done(0, 1); n != 1 || c.Err != nil || lost != 1 || l.feps[0].C[Restarts] != 2 || !bytes.Equal(dst, fill(3000, 1)) {
		t.Errorf("%d completions, %+v, %d answers lost, %d restarts", n, c, lost, l.feps[0].C[Restarts])
	}
	l.leaks()
}

// TestOrderedGivesUp: with no receive at all each ordered message fails once, and the stream works afterwards.
func TestOrderedGivesUp(t *testing.T) {
	l := newLab(t, Config{MaxRestarts: 2})
	l.eps[0].SetOrdered(true)
	for i := range uint64(5) {
		l.post(0, Op{Kind: OpSend, Peer: 1, Buf: buf(make([]byte, 10)), Ctx: i})
	}
	list := l.starts()
	l.run(l.now() + 10_000_000)
	l.post(0, Op{Kind: OpSend, Peer: 1, Buf: buf(make([]byte, 10)), Ctx: 5})
	l.run(l.now() + 20_000_000)
	if n := len(*list); n != 0 {
		t.Errorf("%d messages left while earlier ones have to restart", n)
	}
	l.settle()
	if len(l.got[0]) != 6 {
		t.Fatalf("completions %+v", l.got[0])
	}
	for i, c := range l.got[0] {
		if c.Ctx != uint64(i) || c.Err == nil {
			t.Errorf("%+v", c)
		}
	}
	l.post(1, Op{Kind: OpRecv, Buf: buf(make([]byte, 10))})
	l.post(0, Op{Kind: OpSend, Peer: 1, Buf: buf(make([]byte, 10)), Ctx: 9})
	l.settle()
	if c := l.last(0); c.Ctx != 9 || c.Err != nil {
		t.Errorf("%+v", c)
	}
}
