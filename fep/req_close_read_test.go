package fep

import (
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// TestReadThenClose: a PDC whose last packet of read data did not ask for an ACK is closed in order, by a message that waits for its
// place, which it has as soon as the read is over, or by the idle timer.
func TestReadThenClose(t *testing.T) {
	for _, waits := range []bool{true, false} {
		l := newLab(t, Config{MaxPDCs: 1, Secure: fixed(100), NoInfer: true, IdleClose: 50 * time.Microsecond})
		got := l.trace()
		l.script = byPSN(map[wire.PSN]fate{100: {delay: 2000}}) // the first part of the read comes last
		l.eps[1].Register(make([]byte, 8192))
		ep := l.feps[0].OpenEndpoint(9, 0, 100, func(_ vt.Time, c Completion) { l.got[0] = append(l.got[0], c) })
		ep.InsertAddr(testAddr(1), 1, 101)
		l.call(0, 1, func(now vt.Time) { _ = l.eps[0].Read(now, 1, make([]byte, 8192), 1, 0, 1) })
		want := []Completion{{Kind: OpRead, Ctx: 1, Len: 8192}}
		if waits {
			l.call(0, 2, func(now vt.Time) { _ = ep.Send(now, 0, nil, 2) })
			want = append(want, Completion{Kind: OpSend, Ctx: 2, Err: &ResponseError{}}) // nobody has a receive for it
		}
		l.run(5_000_000)
		l.want(0, want...)
		if n := len(l.got[0]); l.count(PDCFailed) != 0 || l.count(PDCClosed) != 2*n || l.got[0][n-1].Acked > 10_000 {
			t.Errorf("%d PDCs failed, %d closed, done at %v: %q", l.count(PDCFailed), l.count(PDCClosed), l.got[0][n-1].Acked, *got)
		}
	}
}
