package link

import (
	"encoding/json"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/uetlab/uetlab/internal/link/llr"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

func hits(t testing.TB, text string) (h Hits) {
	t.Helper()
	if err := h.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return h
}

// TestExactHits has the nth of 1000 frames hit on its way and looks at what LLR makes of it: 901 bears number 901, since numbers begin at 1.
func TestExactHits(t *testing.T) {
	for text, c := range map[string]struct {
		tx   map[Counter]uint64 // at the sending port
		rx   map[llr.Counter]uint64
		drop map[Counter]uint64 // at the receiving port
		lost int                // frames that are never delivered
	}{
		"901:drop":            {map[Counter]uint64{DropExact: 1}, map[llr.Counter]uint64{llr.TxNack: 1, llr.RxReplay: 1, llr.RxExpBad: 0}, nil, 0},
		"901:corrupt-payload": {nil, map[llr.Counter]uint64{llr.TxNack: 1, llr.RxReplay: 1, llr.RxExpBad: 1}, map[Counter]uint64{DropFCS: 1}, 0},
		"901:corrupt-header":  {nil, map[llr.Counter]uint64{llr.TxNack: 1, llr.RxExpBad: 1}, map[Counter]uint64{DropFCS: 1}, 0},
		"901:corrupt-fcs":     {nil, map[llr.Counter]uint64{llr.TxNack: 1, llr.RxExpBad: 1}, map[Counter]uint64{DropFCS: 1}, 0},
		"901:corrupt":         {nil, map[llr.Counter]uint64{llr.TxNack: 1, llr.RxExpBad: 1}, map[Counter]uint64{DropFCS: 1}, 0},
		"901:corrupt-llr":     {nil, map[llr.Counter]uint64{llr.TxNack: 1, llr.RxExpBad: 0, llr.RxReplay: 1}, map[Counter]uint64{DropPreamble: 1}, 0},
		"10:poison":           {nil, map[llr.Counter]uint64{llr.TxNack: 0, llr.RxPoisoned: 1, llr.RxExpPoisoned: 1}, map[Counter]uint64{DropPoisoned: 1}, 1},
		"5:duplicate":         {map[Counter]uint64{TxTwice: 1}, map[llr.Counter]uint64{llr.TxNack: 0, llr.RxDuplicate: 1}, nil, 0},
		"901:seqskip":         {nil, map[llr.Counter]uint64{llr.TxNack: 1, llr.RxReplay: 1, llr.RxDuplicate: 0}, nil, 0},
		"901:seqdup":          {nil, map[llr.Counter]uint64{llr.TxNack: 1, llr.RxReplay: 1, llr.RxDuplicate: 1}, nil, 0},
		"1000:drop":           {map[Counter]uint64{DropExact: 1}, map[llr.Counter]uint64{llr.TxNack: 0, llr.RxReplay: 0}, nil, 0},
		"901:drop,1r:corrupt": {map[Counter]uint64{DropExact: 1}, map[llr.Counter]uint64{llr.TxNack: 1, llr.RxReplay: 1, llr.RxExpBad: 1}, map[Counter]uint64{DropFCS: 1}, 0},
		"11-20:poison":        {nil, map[llr.Counter]uint64{llr.TxNack: 0, llr.RxPoisoned: 10}, map[Counter]uint64{DropPoisoned: 10}, 10},
	} {
		t.Run(text, func(t *testing.T) {
			l := newRetry(t, nil)
			l.begin(1)
			var first uint32 // number of the first frame that was sent once more
			nack := uint32(0)
			l.meddle = func(from int, f *Frame) []*Frame {
				if from == 0 && first == 0 && uint8(f.LLR>>20)&wire.LLRFlagReplay != 0 {
					first = f.LLR & llr.SeqMask
				}
				if s := wire.CtlOS(f.B[wire.EthLen:]); from == 1 && isSets(f.B) && s.Type() == wire.CtlOSNack {
					nack = s.Seq()
				}
				return []*Frame{f}
			}
			l.ends[0].p.SetImpair(0, Impair{Exact: hits(t, text)})
			l.offer(0, 1000, 200)
			l.run(ms)
			l.identities()
			if got := l.ends[1].got; len(got) != 1000-c.lost || !slices.IsSorted(got) || len(slices.Compact(got)) != len(got) {
				t.Errorf("%d frames delivered", len(got))
			}
			for k, n := range c.tx {
				if got := l.ends[0].p.C[k]; got != n {
					t.Errorf("%s is %d, not %d", k, got, n)
				}
			}
			for k, n := range c.drop {
				if got := l.ends[1].p.C[k]; got != n {
					t.Errorf("%s is %d, not %d", k, got, n)
				}
			}
			l.want(1, c.rx)
			if n := c.rx[llr.TxNack]; n == 1 && (nack != 900 || first != 901) {
				t.Errorf("the NACK says %d, sent again is from %d on", nack, first)
			}
			if l.pool.Out() != 0 {
				t.Errorf("%d frames are still out", l.pool.Out())
			}
		})
	}
}

// TestExactCountsAnew: hits count from the run's start or from when they took effect, and again after they were off; without LLR, data alone.
func TestExactCountsAnew(t *testing.T) {
	r := newRig(t, Config{Rate: 400e9, MTU: 9000, Queued: true}, nil)
	send := func(n int) {
		for range n {
			r.p.Enqueue(r.now, 0, r.frameOf(packet(false, 0, 17, 4793, 2))) // a data request
			r.p.Enqueue(r.now, 0, r.frameOf(packet(false, 0, 17, 53, 2)))
		}
	}
	want := func(n uint64) {
		t.Helper()
		r.to(r.now + 1e6)
		if got := r.p.C[DropExact]; got != n {
			t.Fatalf("%d frames dropped, not %d", got, n)
		}
	}
	imp := Impair{Exact: hits(t, "3:drop")}
	r.p.SetImpair(0, imp)
	send(2)
	want(0)
	imp.Loss = 1e-12
	r.p.SetImpair(r.now, imp) // the same hits go on
	send(1)
	want(1)
	send(10)
	want(1)
	r.p.Reset(rand.New(rand.NewPCG(1, 2))) // a run begins
	send(3)
	want(2)
	r.p.SetImpair(r.now, Impair{})
	r.p.SetImpair(r.now, imp)
	send(10)
	want(3)
}

// TestCorruptStaysInItsRegion compares frames before and after.
func TestCorruptStaysInItsRegion(t *testing.T) {
	const head = wire.EthLen + wire.IPv4Len + 8
	pool := NewPool(9018)
	for _, c := range []struct {
		region   Region
		bits     int
		from, to int // bytes of the frame that may differ, FCS behind it
	}{{"", 1, 0, 1e4}, {RegionHeader, 3, 0, head}, {RegionPayload, 32, head, 9000}, {RegionFCS, 2, 9000, 1e4}, {RegionLLR, 1, 0, 0}} {
		imp := Impair{Corrupt: Corrupt{Share: 1, Region: c.region, Bits: c.bits}}
		d := sick(3, imp)
		places := map[int]bool{}
		for range 300 {
			f := pool.Get()
			f.B = append(append(f.B, packet(false, 0, 17, 4793, 2)...), make([]byte, 400)...)
			was := slices.Clone(f.B)
			d.corrupt(f, c.region, c.bits, harmCorrupt)
			wrong := 0
			for i := range was {
				if n := bits.OnesCount8(f.B[i] ^ was[i]); n > 0 {
					wrong += n
					places[i] = true
					if i < c.from || i >= c.to {
						t.Fatalf("%q: byte %d differs", c.region, i)
					}
				}
			}
			fcs := 0
			if f.Damaged {
				fcs = bits.OnesCount32(f.FCS ^ wire.FCS(was))
			}
			if fcs > 0 && c.to < 1e4 || c.region != RegionLLR && wrong+fcs != c.bits || (c.region == RegionLLR) != (f.Flip > 0) {
				t.Fatalf("%q: %d bits of the frame, %d of its FCS and bit %d of the LLR word are wrong", c.region, wrong, fcs, f.Flip)
			}
			f.Release()
		}
		if c.region == RegionPayload && len(places) < 200 {
			t.Errorf("%q: only %d bytes are ever hit", c.region, len(places))
		}
	}
}

// TestPoisonWithoutLLR: a poisoned frame is told from one that this link has broken.
func TestPoisonWithoutLLR(t *testing.T) {
	r := newRig(t, Config{Rate: 1e9, MTU: 1500, Queued: true}, nil)
	r.far = func(f *Frame) { r.p.Received(r.now, f) }
	r.p.SetImpair(0, Impair{Poison: 1})
	r.enqueueIn(0, 200)
	r.to(1e6)
	if r.p.C[DropPoisoned] != 1 || r.p.C[DropFCS] != 0 || r.pool.Out() != 0 {
		t.Errorf("%v", r.p.C)
	}
}

// TestSetsAreLostByKind takes single sets out of a frame of several.
func TestSetsAreLostByKind(t *testing.T) {
	for kinds, left := range map[string][]wire.CtlOSType{
		"":                      nil,
		"ack":                   {wire.CtlOSNack, wire.CtlOSInit, wire.CtlOSInitEcho, wire.CtlOSCFUpdate},
		"nack,cf":               {wire.CtlOSAck, wire.CtlOSInit, wire.CtlOSInitEcho},
		"init,echo":             {wire.CtlOSAck, wire.CtlOSNack, wire.CtlOSCFUpdate},
		"ack,nack,init,echo,cf": nil,
	} {
		var imp Impair
		if err := imp.SetLoss.Kinds.UnmarshalText([]byte(kinds)); err != nil {
			t.Fatal(err)
		}
		imp.SetLoss.Share = 1
		r := newRig(t, Config{Rate: 400e9, MTU: 1500, Queued: true}, nil)
		var got []wire.CtlOSType
		arrived := 0
		r.far = func(f *Frame) {
			arrived++
			b, err := wire.ParseCtlOSBundle(f.B[wire.EthLen:])
			if err != nil {
				t.Fatal(err)
			}
			for i := range b.Len() {
				got = append(got, b.At(i).Type())
			}
			f.Release()
		}
		r.p.SetImpair(0, imp)
		f := r.pool.Get()
		f.B = wire.AppendCtlOSHeader(f.B, wire.MAC{2})
		f.B = wire.AppendLLRSeq(f.B, wire.CtlOSAck, 1)
		f.B = wire.AppendLLRSeq(f.B, wire.CtlOSNack, 2)
		f.B = wire.AppendLLRInit(f.B, wire.CtlOSInit, 3, 4)
		f.B = wire.AppendLLRInit(f.B, wire.CtlOSInitEcho, 3, 4)
		f.B = wire.AppendCFUpdate(f.B, wire.CFEntry{}, wire.CFEntry{})
		f.kind = kindSets
		r.p.send(0, f)
		if !slices.Equal(got, left) || r.p.C[LostSets] != uint64(5-len(left)) || arrived != min(len(left), 1) || r.p.C.Drops() != 0 || r.pool.Out() != 0 {
			t.Errorf("%q: %v are left, %d lost, %d frames", kinds, got, r.p.C[LostSets], arrived)
		}
	}
}

// TestHarmShiftsNoDraws: what else happens to frames is the same with and without this file's impairments, and these repeat with the seed.
func TestHarmShiftsNoDraws(t *testing.T) {
	for range 20 {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 1))
		imp := randomImpair(rng)
		imp.Down, imp.Rate, imp.BER = false, 0, 1e-5
		fatesOf := func(imp Impair) (out []string) {
			r := newRig(t, Config{Rate: 400e9, MTU: 9000, Queued: true}, nil)
			r.p.SetImpair(0, imp)
			for range 500 {
				f := r.frame(1000, 1)
				x := r.p.fate(f)
				lost := x.lost && x.why != DropExact
				out = append(out, fmt.Sprint(lost, x.why, x.late, x.held, f.FCS, f.Flip))
				f.Release()
			}
			return out
		}
		sound := fatesOf(imp)
		harmed := imp
		harmed.SetLoss.Share, harmed.CCLoss, harmed.Exact = 0.3, 0.5, Hits{{First: 1, Last: 9, Do: DoDrop}}
		if got := fatesOf(harmed); !slices.Equal(got, sound) {
			t.Fatalf("seed %d: other draws are shifted", seed)
		}
		harmed.Corrupt.Share, harmed.Poison = 0.2, 0.2
		if got := fatesOf(harmed); !slices.Equal(got, fatesOf(harmed)) || slices.Equal(got, sound) {
			t.Fatalf("seed %d: not repeated, or without effect", seed)
		}
	}
}

// TestHarmTakesNoDrawsOfThePort: what later draws of the port's generator give does not depend on this file.
func TestHarmTakesNoDrawsOfThePort(t *testing.T) {
	a, b := rand.New(rand.NewPCG(4, 4)), rand.New(rand.NewPCG(4, 4))
	new(damage).reset(a)
	for range 2 * numKinds {
		b.Uint64()
	}
	if a.Uint64() != b.Uint64() {
		t.Error("a reset takes more than two draws for each kind")
	}
}

func TestHarmAllocatesNothing(t *testing.T) {
	r := newRig(t, Config{Rate: 400e9, MTU: 9000, Queued: true}, nil)
	r.far = func(f *Frame) { f.Release() }
	r.p.SetImpair(0, Impair{Exact: hits(t, "1-1000:corrupt-payload,2-9:duplicate,1r:drop"), Corrupt: Corrupt{Share: 0.5, Region: RegionHeader}, Poison: 0.5, SetLoss: SetLoss{Share: 0.5}, CCLoss: 0.5})
	data := packet(false, 0, 17, 4793, 2)
	if n := testing.AllocsPerRun(200, func() {
		r.p.send(r.now, r.frameOf(data))
		r.now += vt.Time(1000)
	}); n > 0 {
		t.Errorf("%v allocations a frame", n)
	}
}

func (r *rig) frameOf(b []byte) *Frame {
	f := r.pool.Get()
	f.B = append(f.B, b...)
	return f
}

// TestImpairTravels: what is sent to nodes as JSON comes back as it was.
func TestImpairTravels(t *testing.T) {
	for _, imp := range []Impair{{}, {Exact: hits(t, "901:drop,5-9:corrupt-llr,1r:seqdup")}, {Corrupt: Corrupt{0.1, RegionFCS, 3}, Poison: 0.5}, {SetLoss: SetLoss{Share: 1, Kinds: 18}, CCLoss: 1}, {SetLoss: SetLoss{Share: 1}}} {
		b, err := json.Marshal(imp)
		if err != nil {
			t.Fatal(err)
		}
		var got Impair
		if err := json.Unmarshal(b, &got); err != nil || got != imp {
			t.Errorf("%s is read as %+v: %v", b, got, err)
		}
	}
	if b, _ := json.Marshal(Impair{}); string(b) != "{}" {
		t.Errorf("a healthy link is written %s", b)
	}
	for _, text := range []string{`{"exact":"0:drop"}`, `{"exact":"1:no"}`, `{"setLoss":{"kinds":"x"}}`} {
		if json.Unmarshal([]byte(text), new(Impair)) == nil {
			t.Errorf("%s is taken", text)
		}
	}
}

func TestHarmOutOfRange(t *testing.T) {
	for _, imp := range []Impair{{Poison: 1.1}, {CCLoss: -1}, {Corrupt: Corrupt{Share: 2}}, {Corrupt: Corrupt{Share: 0.1, Bits: 33}}, {Corrupt: Corrupt{Share: 0.1, Region: "trailer"}}, {SetLoss: SetLoss{Share: 7}},
		{SetLoss: SetLoss{Kinds: 64}}, {Exact: Hits{{First: 2, Last: 1}}}, {Exact: Hits{{}, {First: 1, Last: 1}}}, {Exact: Hits{{First: 1, Last: 1, Do: 77}}}} {
		if imp.Validate() == nil {
			t.Errorf("%+v is valid", imp)
		}
	}
}
