package mr

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/uetlab/uetlab/wire"
)

// model is a table as simple as can be: a list of what is registered, searched from one end to the other.
type model []*Region[int]

func (m model) lookup(q *Request, small bool) (*Region[int], wire.ReturnCode) {
	for _, r := range m {
		c := r.cfg
		if small && (!c.Optimized || c.Key&0xFFF != q.Key&0xFFF) || !small && c.Key != q.Key {
			continue
		}
		end := q.Offset + q.Length
		switch {
		case c.Job != 0 && c.Job != q.Job, !small && c.RI != 0 && c.RI != q.RI:
			return nil, wire.RCBadMKey
		case q.Access&c.Access != q.Access:
			return nil, wire.RCPermViolation
		case end < q.Offset || end > c.Size:
			return nil, wire.RCBadAddr
		case q.Idempotent && c.Key>>63 == 0:
			return nil, wire.RCOpViolation
		}
		return r, wire.RCOK
	}
	return nil, wire.RCBadMKey
}

// play does n random steps on a table and its model. Few keys and sizes are drawn from, so that they meet.
func play(t *testing.T, r *rand.Rand, n int) {
	t.Helper()
	var tab Table[int]
	var live model
	var keys []uint64 // all that there ever were
	given := map[uint64]bool{}
	pick := func() uint64 {
		if len(keys) == 0 || r.IntN(8) == 0 {
			return uint64(r.IntN(6)) | uint64(r.IntN(4))<<62 | uint64(r.IntN(2))<<48
		}
		return keys[r.IntN(len(keys))] ^ uint64(r.IntN(12)/11)<<r.IntN(64)
	}
	for step := range n {
		switch r.IntN(5) {
		case 0, 1:
			cfg := Config{Size: uint64(r.IntN(40)), Access: Access(r.IntN(32)), Job: uint32(r.IntN(3)), RI: uint16(r.IntN(3)),
				Idempotent: r.IntN(2) == 0, Optimized: r.IntN(4) == 0}
			if r.IntN(2) == 0 {
				cfg.Key = uint64(r.IntN(6))
			}
			reg, err := tab.Register(cfg, step)
			if err != nil {
				continue
			}
			if cfg.Key == 0 && !cfg.Optimized && given[reg.Key()] {
				t.Fatalf("step %d: key %#x was given before", step, reg.Key())
			}
			if other, _ := live.lookup(&Request{Key: reg.Key()}, false); other != nil {
				t.Fatalf("step %d: key %#x is given twice", step, reg.Key())
			}
			given[reg.Key()] = true
			live, keys = append(live, reg), append(keys, reg.Key())
		case 2:
			key := pick()
			at := -1
			for i, reg := range live {
				if reg.Key() == key {
					at = i
				}
			}
			err := tab.Deregister(key)
			if (err == nil) != (at >= 0) {
				t.Fatalf("step %d: deregister %#x: %v, in the model at %d", step, key, err, at)
			}
			if at >= 0 {
				if _, there := live[at].Memory(); there {
					t.Fatalf("step %d: deregister %#x: its memory is still there", step, key)
				}
				live = append(live[:at], live[at+1:]...)
			}
		default:
			q := Request{Key: pick(), Access: Access(r.IntN(32)), Job: uint32(r.IntN(3)), RI: uint16(r.IntN(3)), Offset: uint64(r.IntN(40)),
				Length: uint64(r.IntN(40)), Idempotent: r.IntN(2) == 0}
			if r.IntN(3) > 0 {
				q.Access &= Access(r.IntN(32))
			}
			if r.IntN(10) == 0 {
				q.Offset, q.Length = -q.Offset, -q.Length
			}
			small, find := r.IntN(3) == 0, tab.Lookup
			if small {
				find = tab.LookupSmall
			}
			got, rc := find(&q)
			if want, wantRC := live.lookup(&q, small); got != want || rc != wantRC {
				t.Fatalf("step %d: %+v small %v: %v, the model says %v", step, q, small, rc, wantRC)
			}
		}
		if tab.Len() != len(live) {
			t.Fatalf("step %d: %d regions, the model has %d", step, tab.Len(), len(live))
		}
	}
}

func TestModel(t *testing.T) {
	for seed := range uint64(100) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { play(t, rand.New(rand.NewPCG(seed, 0)), 400) })
	}
}

func FuzzLookup(f *testing.F) {
	var tab Table[int]
	for i, cfg := range []Config{{}, {Idempotent: true}, {Optimized: true}, {Key: 5}, {Key: KeyIdempotent | 6}, {Key: KeyOptimized | 7}, {Job: 1}, {RI: 2}} {
		cfg.Size, cfg.Access = 64, RemoteRead|RemoteWrite
		f.Add(must(f, &tab, cfg, i).Key(), uint8(RemoteRead), uint32(1), uint16(2), uint64(8), uint64(8), false, false)
	}
	f.Fuzz(func(t *testing.T, key uint64, access uint8, job uint32, ri uint16, offset, length uint64, idempotent, small bool) {
		q := Request{key, Access(access), job, ri, offset, length, idempotent}
		find := tab.Lookup
		if small {
			find = tab.LookupSmall
		}
		r, rc := find(&q)
		if (r != nil) != (rc == wire.RCOK) {
			t.Fatalf("%v and region %v", rc, r)
		}
		if r != nil && (offset+length > 64 || offset > 64 || length > 64 || q.Access&^(RemoteRead|RemoteWrite) != 0 || !small && key != r.Key()) {
			t.Fatalf("%+v opened region %#x", q, r.Key())
		}
	})
}

// FuzzSteps plays random steps of a seed.
func FuzzSteps(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, a, b uint64) { play(t, rand.New(rand.NewPCG(a, b)), 100) })
}

func benchLookup(b *testing.B, n int, user bool) {
	var tab Table[int]
	keys := make([]uint64, n)
	for i := range keys {
		cfg := Config{Size: 64, Access: RemoteWrite, Job: 1}
		if user {
			cfg.Key = uint64(i+1) * 0x9E3779B9 & keyIndex
		}
		keys[i] = must(b, &tab, cfg, i).Key()
	}
	q := Request{Access: RemoteWrite, Job: 1, Length: 8}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		q.Key = keys[i*7919%n]
		if r, _ := tab.Lookup(&q); r == nil {
			b.Fatal("lost")
		}
	}
}

func BenchmarkLookup10(b *testing.B)         { benchLookup(b, 10, false) }
func BenchmarkLookup100000(b *testing.B)     { benchLookup(b, 100000, false) }
func BenchmarkLookupUser10(b *testing.B)     { benchLookup(b, 10, true) }
func BenchmarkLookupUser100000(b *testing.B) { benchLookup(b, 100000, true) }

func BenchmarkRegisterDeregister(b *testing.B) {
	var tab Table[int]
	b.ReportAllocs()
	for b.Loop() {
		if err := tab.Deregister(must(b, &tab, Config{}, 1).Key()); err != nil {
			b.Fatal(err)
		}
	}
}

func TestLookupAllocatesNothing(t *testing.T) {
	var tab Table[int]
	for _, cfg := range []Config{{}, {Key: 5}, {Optimized: true}} {
		q := Request{Key: must(t, &tab, cfg, 1).Key()}
		if n := testing.AllocsPerRun(100, func() {
			tab.Lookup(&q)
			tab.LookupSmall(&q)
		}); n != 0 {
			t.Errorf("%+v: %v allocations", cfg, n)
		}
	}
}
