package switchd

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/wire"
)

// anySettings draws valid settings, most of them tight.
func anySettings(rng *rand.Rand) Settings {
	set := plan()
	flip := func() bool { return rng.IntN(2) == 0 }
	for d := range set.Classes {
		set.Classes[d] = uint8(rng.IntN(link.NumQueues))
	}
	for q := range set.Queues {
		x := &set.Queues[q]
		*x = Queue{Service: link.Service{Strict: rng.IntN(4) == 0, Weight: rng.IntN(100)}, Kmin: rng.Int64N(20_000), Pmax: rng.Float64()}
		if flip() {
			x.Kmax = x.Kmin + rng.Int64N(50_000)
		}
		if flip() {
			x.Limit = 200 + rng.Int64N(20_000)
		}
		if flip() {
			x.Alpha = rng.Float64() * 4
		}
		x.Lossless = rng.IntN(4) == 0
		x.Trim, x.WRED = !x.Lossless && flip(), !x.Lossless && flip()
	}
	set.Trim.Enabled, set.Trim.Size, set.Trim.FixIP, set.Trim.Coin = rng.IntN(4) > 0, rng.IntN(200), flip(), flip()
	set.Trim.Trimmable, set.Trim.RetxLimit = nil, rng.Int64N(100_000)
	for d := range uint8(64) {
		if d != dscpTrimmed && d != dscpLastHop && flip() {
			set.Trim.Trimmable = append(set.Trim.Trimmable, d)
		}
	}
	for _, d := range []uint8{dscpTrimmed, dscpLastHop} {
		set.Queues[set.Classes[d]].Lossless = false
	}
	if flip() {
		set.Trim.Disabled = []string{"10.1.0.0/16"}
	}
	set.PFC = PFC{Xoff: 1 + rng.Int64N(20_000), Headroom: rng.Int64N(20_000), Quanta: uint16(1 + rng.IntN(65535)), Action: ActionDrop}
	set.PFC.Xon = rng.Int64N(set.PFC.Xoff + 1)
	if flip() {
		set.PFC.Watchdog, set.PFC.Restore = time.Duration(1+rng.IntN(5000)), time.Duration(1+rng.IntN(50_000))
		set.PFC.Action = []string{ActionDrop, ActionForward, ActionAlert}[rng.IntN(3)]
	}
	if flip() {
		set.Buffer.Reserved = rng.Int64N(5000)
		set.Buffer.Shared = set.setAside(4) + 1 + rng.Int64N(300_000)
	}
	set.CSIG.Enabled = flip()
	if rng.IntN(3) == 0 {
		set.Mirror = Mirror{To: rng.IntN(4), Sample: 1 + rng.IntN(3), From: rng.IntN(5) - 1}
	}
	return set
}

// consistent checks that the accounts agree with what waits.
func (r *rig) consistent(t *testing.T) {
	t.Helper()
	var waits, pool, in int64
	var by [link.NumQueues]int64
	for _, p := range r.Ports {
		waits += p.Backlog()
		for q := range link.NumQueues {
			by[q] += p.QueueBytes(q)
			pool += r.s.over(q, p.QueueBytes(q))
		}
	}
	for i := range r.s.buf.in {
		for q, x := range r.s.buf.in[i] {
			if x.bytes < 0 {
				t.Fatalf("port %d priority %d has %d bytes", i, q, x.bytes)
			}
			in += x.bytes
			by[q] -= x.bytes
		}
	}
	if b := &r.s.buf; b.total != waits || in != waits || b.used != pool || by != [link.NumQueues]int64{} {
		t.Fatalf("%d bytes wait: %d accounted, %d by ingress, by class off by %v; pool %d of %d", waits, b.total, in, by, b.used, pool)
	}
}

// Whatever the settings, their changes, pauses and failing links: what arrived has left, or waits, or is counted as lost,
// and the accounts end at nothing.
func TestConservation(t *testing.T) {
	seen := map[link.QueueCounter]uint64{}
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 4))
		rates := []int64{400 * gig, 100 * gig, 10 * gig, 40 * gig}
		r := newRig(t, anySettings(rng), rates...)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
		for range 400 {
			r.step(t, rng)
			r.consistent(t)
		}
		for i, p := range r.Ports {
			p.SetImpair(r.Now(), link.Impair{})
			for q := range link.NumQueues {
				r.pausePort(i, q, 0)
			}
		}
		r.s.LinksChanged()
		r.drain()
		r.consistent(t)
		var in, out, lost, own, more uint64
		for _, p := range r.Ports {
			c := &p.C
			in += c[link.RxFrames] - c[link.PauseRx]
			more += c[link.Mirrored]
			lost += c.Drops()
			own += c[link.PauseTx]
		}
		for _, f := range r.out.frames {
			out++
			if _, ok := wire.ParsePause(f.B); ok {
				out--
				own--
			}
			f.Release()
		}
		// a PFC frame that waits when its link goes down counts as lost at that port, too
		if in+more+own != out+lost {
			t.Fatalf("seed %d: %d arrived, %d mirrored, %d left, %d lost, %d PFC frames not seen", seed, in, more, out, lost, own)
		}
		if r.Pool.Out() != 0 || r.s.buf.total != 0 || r.s.buf.used != 0 {
			t.Fatalf("seed %d: %d frames leaked, %d bytes accounted, %d of the pool", seed, r.Pool.Out(), r.s.buf.total, r.s.buf.used)
		}
		r.trims(t, seed)
		for _, c := range []link.QueueCounter{link.QTrimTx, link.QTrimDrop, link.QMarked, link.QPaused, link.QWatchdog, link.QWatchdogDrop} {
			for i := range r.Ports {
				for q := range link.NumQueues {
					seen[c] += r.stat(i, q, c)
				}
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	for c, n := range seen {
		if n == 0 {
			t.Errorf("nothing was counted as %v", c)
		}
	}
}

// trims checks what queues say of trimming when all is over.
func (r *rig) trims(t *testing.T, seed uint64) {
	t.Helper()
	for i, p := range r.Ports {
		var trim uint64
		for q := range link.NumQueues {
			c := &p.Stats(q).C
			trim += c[link.QTrim]
			if c[link.QTrim] != c[link.QTrimTx]+c[link.QTrimDrop] || c[link.QTrim] > c[link.QDrop] || c[link.QBytes] != 0 {
				t.Fatalf("seed %d port %d queue %d: %v", seed, i, q, c)
			}
		}
		if trim != p.C[link.Trimmed] {
			t.Fatalf("seed %d port %d: %d trimmed, %d by queue", seed, i, p.C[link.Trimmed], trim)
		}
	}
}

// step does one thing of what can happen to a switch.
func (r *rig) step(t *testing.T, rng *rand.Rand) {
	t.Helper()
	port := rng.IntN(len(r.Ports))
	switch rng.IntN(40) {
	case 0:
		if err := r.s.Configure(r.Now(), anySettings(rng)); err != nil {
			t.Fatal(err)
		}
	case 1, 2:
		r.Ports[port].SetImpair(r.Now(), link.Impair{Down: rng.IntN(4) == 0})
		r.s.LinksChanged()
	case 3, 4, 5:
		for q := range link.NumQueues {
			if rng.IntN(2) == 0 {
				r.pausePort(port, q, uint16(rng.IntN(65536)))
			}
		}
	case 6, 7, 8, 9, 10:
		r.wait(time.Duration(rng.IntN(20_000)))
	case 11: // a run begins
		if rng.IntN(8) != 0 {
			return
		}
		r.StartRun(r.Now(), rng.Uint64())
		if r.s.buf.total != 0 {
			t.Fatal("a new run begins with bytes accounted")
		}
		r.restart()
	default:
		p := pkt{from: port, to: rng.IntN(len(r.Ports)), size: 60 + rng.IntN(8000), dscp: uint8(rng.IntN(64)), ecn: uint8(rng.IntN(4)),
			v6: rng.IntN(2) == 0, native: rng.IntN(2) == 0, csig: rng.IntN(4) == 0, ev: uint16(rng.Uint32())}
		if rng.IntN(2) == 0 {
			p.to = 2 // the slowest
		}
		r.send(1+rng.IntN(8), p)
	}
}

// restart forgets what was counted before a run whose ports have been emptied.
func (r *rig) restart() {
	for _, f := range r.out.frames {
		f.Release()
	}
	r.out.frames, r.out.ports = nil, nil
	for _, p := range r.Ports {
		p.C = link.Counters{}
		for q := range link.NumQueues {
			*p.Stats(q) = link.QueueStats{}
		}
	}
}

// Settings that make no sense are refused, say what is wrong, and leave those in force alone.
func TestValidate(t *testing.T) {
	for name, bad := range map[string]func(*Settings){
		"class":              func(s *Settings) { s.Classes[3] = 8 },
		"alpha":              func(s *Settings) { s.Queues[0].Alpha = -1 },
		"kmin":               func(s *Settings) { s.Queues[1].Kmin, s.Queues[1].Kmax = 2, 1 },
		"pmax":               func(s *Settings) { s.Queues[1].Pmax = 1.1 },
		"lossless trims":     func(s *Settings) { s.Queues[4].Trim = true },
		"negative":           func(s *Settings) { s.Queues[4].Limit = -1 },
		"trimmed twice":      func(s *Settings) { s.Trim.Trimmable = []uint8{34} },
		"DSCP":               func(s *Settings) { s.Trim.LastHop = 64 },
		"trimmed lossless":   func(s *Settings) { s.Classes[34] = 4 },
		"prefix":             func(s *Settings) { s.Trim.Disabled = []string{"10.0.0.0"} },
		"trim size":          func(s *Settings) { s.Trim.Size = -1 },
		"xoff":               func(s *Settings) { s.PFC.Xoff = 0 },
		"xon":                func(s *Settings) { s.PFC.Xon = s.PFC.Xoff + 1 },
		"quanta":             func(s *Settings) { s.PFC.Quanta = 0 },
		"watchdog":           func(s *Settings) { s.PFC.Watchdog = 1 },
		"action":             func(s *Settings) { s.PFC.Watchdog, s.PFC.Restore, s.PFC.Action = 1, 1, "panic" },
		"buffer":             func(s *Settings) { s.Buffer.Shared = 1000 },
		"buffer of reserves": func(s *Settings) { s.Buffer = Buffer{Shared: 500_000, Reserved: 100_000} },
		"hash":               func(s *Settings) { s.ECMP.Hash = "md5" },
		"mirror":             func(s *Settings) { s.Mirror = Mirror{To: 7, Sample: 1} },
	} {
		r := newRig(t, plan(), gig, gig)
		set := plan()
		set.Queues[1].Limit = 77
		bad(&set)
		if err := r.s.Configure(0, set); err == nil {
			t.Errorf("%s: accepted", name)
		} else if testing.Verbose() {
			t.Log(err)
		}
		if now := r.s.Settings(); now.Queues[1].Limit != 100_000 || r.s.mirrors.on {
			t.Errorf("%s: settings changed all the same", name)
		}
	}
}
