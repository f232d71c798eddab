package link

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/link/cbfc"
	"github.com/uetlab/uetlab/internal/link/llr"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// wireload is two ports back to back under load, with a loop that allocates nothing itself.
type wireload struct {
	pool *Pool
	p    [2]*Port
	in   [2]fifo       // on their way to a port
	at   [2][2]vt.Time // when a port is called: TxFree, LinkTimer
	got  int
	now  vt.Time
	lose int // every so many frames one is lost that port 0 sends for the first time; 0: none
	sent int
}

type wireHost struct {
	w *wireload
	i int
}

func (h wireHost) TxFreeAt(_ int, t vt.Time)           { h.w.at[h.i][0] = t }
func (h wireHost) LinkTimerAt(_ int, t vt.Time)        { h.w.at[h.i][1] = min(h.w.at[h.i][1], t) }
func (h wireHost) Now() vt.Time                        { return h.w.now }
func (h wireHost) NextFrame(vt.Time, int) *Frame       { return nil }
func (h wireHost) Dequeued(vt.Time, int, *Frame, bool) {}

func (h wireHost) Transmit(_ int, f *Frame) {
	if w := h.w; w.lose > 0 && h.i == 0 && f.LLR != 0 && f.LLR>>20&wire.LLRFlagReplay == 0 {
		if w.sent++; w.sent%w.lose == 0 {
			f.Release()
			return
		}
	}
	h.w.in[1-h.i].push(f)
}

func newWireload(cfg *llr.Config, credits *cbfc.Setup, lose int) *wireload {
	w := &wireload{pool: NewPool(4200), lose: lose}
	for i := range 2 {
		w.at[i] = [2]vt.Time{vt.Never, vt.Never}
		w.p[i] = NewPort(i, Config{Rate: 400e9, Delay: 500 * time.Nanosecond, Queue: 1 << 20, MTU: 4096, Queued: true, Pool: w.pool, LLR: cfg, CBFC: credits}, wireHost{w, i}, wireHost{w, i})
		w.p[i].Reset(rand.New(rand.NewPCG(1, uint64(i))))
		w.p[i].Begin(0)
	}
	return w
}

// frame passes one frame of n bytes and all that has happened since the last one.
func (w *wireload) frame(n int) {
	f := w.pool.Get()
	f.B = f.B[:n]
	f.B[12], f.B[13], f.B[14] = 0x08, 0, 0x45
	w.p[0].Offer(w.now, testVC, f)
	for until := w.now.Add(time.Duration(LinePs(n, 400e9)*5/4000) + 1); ; { // a load of four fifths, which leaves room for replays
		t, port, what := vt.Never, 0, 0
		for i := range 2 {
			if h := w.in[i].head; h != nil && h.Due < t {
				t, port, what = h.Due, i, 2
			}
			for k, at := range w.at[i] {
				if at < t {
					t, port, what = at, i, k
				}
			}
		}
		if t > until {
			w.now = until
			return
		}
		w.now = max(w.now, t)
		switch what {
		case 2:
			if f := w.in[port].pop(); w.p[port].Received(w.now, f) {
				w.got++
				f.Release()
			}
		case 0:
			w.at[port][0] = vt.Never
			w.p[port].TxFree(w.now)
		default:
			w.at[port][1] = vt.Never
			w.p[port].LinkTimer(w.now)
		}
	}
}

// wireloads are the loads by name. Frames are lost so seldom that replays find room beside a load of four fifths.
func wireloads(name string, lose int) *wireload {
	on := testLLR()
	on.Frames, on.Bytes, on.ReplayCount = 1<<12, 1<<20, llr.Unlimited // the window is never what the line waits for
	credits := testCBFC(32767)
	switch name {
	case "on":
		return newWireload(&on, nil, 0)
	case "on/replay":
		return newWireload(&on, nil, lose)
	case "cbfc":
		return newWireload(nil, credits, 0)
	case "both":
		return newWireload(&on, credits, 0)
	case "both/replay":
		return newWireload(&on, credits, lose)
	}
	return newWireload(nil, nil, 0)
}

var loadNames = []string{"off", "on", "on/replay", "cbfc", "both", "both/replay"}

// TestRetryAllocatesNothing passes frames through two ports in the steady state: what is sent, acknowledged, lost and sent again allocates nothing, nor
// does what credits add.
func TestRetryAllocatesNothing(t *testing.T) {
	for _, name := range loadNames {
		w := wireloads(name, 300)
		for range 20_000 {
			w.frame(1000)
		}
		before := *w.p[0].C.LLR()
		if n := testing.AllocsPerRun(500, func() {
			for range 10 {
				w.frame(1000)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations for 10 frames", name, n)
		}
		c := w.p[0].C.LLR()
		replays := c[llr.TxReplay] > before[llr.TxReplay] && c[llr.TxReplayed] > before[llr.TxReplayed]
		if on := w.p[0].llr != nil; on != (c[llr.RxAck] > before[llr.RxAck]) || replays != (w.lose > 0) || w.p[0].C[DropQueue] > 0 {
			t.Errorf("%s: %d ACKs, %d replays, %d frames found the queue full", name, c[llr.RxAck], c[llr.TxReplay], w.p[0].C[DropQueue])
		}
		if cr := w.p[0].C.CBFC(); (cr[cbfc.CFRx] > 0) != (w.p[0].crd != nil) {
			t.Errorf("%s: %d CF_Updates", name, cr[cbfc.CFRx])
		}
	}
}

// BenchmarkPortLLR is one frame from port to port: queue, serializer, line and the far end's check, with link layer retry and credits off and on. With
// replay one frame in 200 (of 64 bytes: 5000) is lost, and resent/op says how many are sent again for it. copy is what LLR must do at the least: a buffer of
// the pool, and the frame copied to it.
func BenchmarkPortLLR(b *testing.B) {
	for _, size := range []struct {
		name    string
		n, lose int
	}{{"64B", wire.EthLen + 50, 5000}, {"4096B", 4096, 200}} {
		for _, name := range loadNames {
			b.Run(name+"/"+size.name, func(b *testing.B) {
				w := wireloads(name, size.lose)
				for range 20_000 {
					w.frame(size.n)
				}
				b.ReportAllocs()
				again := w.p[0].C.LLR()[llr.TxReplayed]
				for b.Loop() {
					w.frame(size.n)
				}
				if lost := w.p[0].C[DropQueue]; lost > 0 {
					b.Fatalf("%d frames found the queue full", lost)
				}
				if w.lose > 0 {
					b.ReportMetric(float64(w.p[0].C.LLR()[llr.TxReplayed]-again)/float64(b.N), "resent/op")
				}
			})
		}
		b.Run("copy/"+size.name, func(b *testing.B) {
			pool := NewPool(4200)
			var kept [256]*Frame // as many as wait for their ACK, so that they do not all lie in the nearest cache
			for i := range kept {
				kept[i] = pool.Get()
				kept[i].B = kept[i].B[:size.n]
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				kept[i&255].Copy().Release()
				i++
			}
		})
	}
}
