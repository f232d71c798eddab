package link

import (
	"math/rand/v2"
	"testing"
	"time"

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
}

type wireHost struct {
	w *wireload
	i int
}

func (h wireHost) TxFreeAt(_ int, t vt.Time)           { h.w.at[h.i][0] = t }
func (h wireHost) LinkTimerAt(_ int, t vt.Time)        { h.w.at[h.i][1] = min(h.w.at[h.i][1], t) }
func (h wireHost) Now() vt.Time                        { return h.w.now }
func (h wireHost) Transmit(_ int, f *Frame)            { h.w.in[1-h.i].push(f) }
func (h wireHost) NextFrame(vt.Time, int) *Frame       { return nil }
func (h wireHost) Dequeued(vt.Time, int, *Frame, bool) {}

func newWireload(cfg *llr.Config, ber float64) *wireload {
	w := &wireload{pool: NewPool(4200)}
	for i := range 2 {
		w.at[i] = [2]vt.Time{vt.Never, vt.Never}
		w.p[i] = NewPort(i, Config{Rate: 400e9, Delay: 500 * time.Nanosecond, Queue: 1 << 20, MTU: 4096, Queued: true, Pool: w.pool, LLR: cfg}, wireHost{w, i}, wireHost{w, i})
		w.p[i].Reset(rand.New(rand.NewPCG(1, uint64(i))))
		w.p[i].SetImpair(0, Impair{BER: ber})
	}
	return w
}

// frame passes one frame of n bytes and all that has happened since the last one.
func (w *wireload) frame(n int) {
	f := w.pool.Get()
	f.B = f.B[:n]
	f.B[12], f.B[13], f.B[14] = 0x08, 0, 0x45
	w.p[0].Offer(w.now, 0, f)
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

func wireloads() map[string]*wireload {
	on := testLLR()
	on.Frames, on.Bytes, on.ReplayCount = 1<<12, 1<<20, llr.Unlimited // the window is never what the line waits for
	return map[string]*wireload{"off": newWireload(nil, 0), "on": newWireload(&on, 0), "on/ber1e-7": newWireload(&on, 1e-7)}
}

// TestRetryAllocatesNothing passes frames through two ports in the steady state, with LLR and with errors on the line.
func TestRetryAllocatesNothing(t *testing.T) {
	for name, w := range wireloads() {
		for range 20_000 {
			w.frame(1000)
		}
		if n := testing.AllocsPerRun(500, func() {
			for range 10 {
				w.frame(1000)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations for 10 frames", name, n)
		}
		if c := w.p[0].C.LLR(); name != "off" && c[llr.TxOK] == 0 || name == "on/ber1e-7" && c[llr.TxReplayed] == 0 {
			t.Errorf("%s: %d protected, %d replayed", name, c[llr.TxOK], c[llr.TxReplayed])
		}
	}
}

// BenchmarkLLR is one frame from port to port: queue, serializer, line and the far end's check, with link layer retry off and on.
func BenchmarkLLR(b *testing.B) {
	for _, n := range []int{wire.EthLen + 50, 4096} {
		for _, name := range []string{"off", "on", "on/ber1e-7"} {
			w := wireloads()[name]
			for range 20_000 {
				w.frame(n)
			}
			b.Run(name+"/"+map[bool]string{true: "64B", false: "4096B"}[n < 100], func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					w.frame(n)
				}
				if lost := w.p[0].C[DropQueue]; lost > 0 {
					b.Fatalf("%d frames found the queue full", lost)
				}
			})
		}
	}
}
