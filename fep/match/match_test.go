package match

import (
	"slices"
	"testing"
)

const all = ^uint64(0)

func TestFindTakesTheEldestOfAllKinds(t *testing.T) {
	exact := Recv[string]{Tag: 0x11, From: 3, V: "exact"}
	anySource := Recv[string]{Tag: 0x11, Any: true, V: "any source"}
	masked := Recv[string]{Tag: 0x10, Ignore: 0xf, From: 3, V: "masked"}
	both := Recv[string]{Tag: 0x10, Ignore: 0xf, Any: true, V: "masked, any source"}
	every := Recv[string]{Ignore: all, Any: true, V: "all"}
	other := Recv[string]{Tag: 0x99, Any: true, V: "other tag"}
	for _, c := range []struct {
		name  string
		posts []Recv[string]
		from  uint32
		tag   uint64
		want  []string // one after the other
	}{
		{"exact before wildcard", []Recv[string]{other, exact, every}, 3, 0x11, []string{"exact", "all"}},
		{"wildcard before exact", []Recv[string]{other, both, exact}, 3, 0x11, []string{"masked, any source", "exact"}},
		{"any source before exact", []Recv[string]{other, anySource, exact}, 3, 0x11, []string{"any source", "exact"}},
		{"mask with source", []Recv[string]{other, masked, anySource, exact}, 3, 0x11, []string{"masked", "any source", "exact"}},
		{"another source", []Recv[string]{exact, masked, both, anySource}, 4, 0x11, []string{"masked, any source", "any source"}},
		{"source counts with all bits ignored", []Recv[string]{{Ignore: all, From: 5}, every}, 3, 7, []string{"all"}},
		{"nothing", []Recv[string]{exact, masked, both, other}, 3, 0x21, nil},
		{"empty", nil, 3, 0x21, nil},
	} {
		p := NewPosted[string](1)
		for i := range c.posts {
			p.Post(&c.posts[i])
		}
		var got []string
		for r := p.Find(c.from, c.tag); r != nil; r = p.Find(c.from, c.tag) {
			if again := p.Find(c.from, c.tag); again != r {
				t.Errorf("%s: what was found does not stay", c.name)
			}
			got = append(got, r.V)
			p.Remove(r)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: found %q, not %q", c.name, got, c.want)
		}
	}
}

func TestUnexpectedInOrderOfArrival(t *testing.T) {
	u := NewUnexpected[string](1)
	msgs := []Msg[string]{{Tag: 0x99, From: 9, V: "a"}, {Tag: 0x12, From: 3, V: "b"}, {Tag: 0x11, From: 4, V: "c"}, {Tag: 0x11, From: 3, V: "d"}, {Tag: 0x11, From: 3, V: "e"}}
	for i := range msgs {
		u.Add(&msgs[i])
	}
	for _, c := range []struct {
		tag, ignore uint64
		from        uint32
		any         bool
		want        string
	}{
		{0x11, 0, 3, false, "d"}, {0x11, 0, 0, true, "c"}, {0x10, 0xf, 3, false, "b"}, {0x10, 0xf, 4, false, "c"}, {0x10, 0xf, 4, true, "b"},
		{0, all, 0, true, "a"}, {0, all, 3, false, "b"}, {0x11, 0, 9, false, ""}, {0x55, 0, 0, true, ""}, {0x50, 0xf, 3, false, ""},
		{0x50, 0xf, 3, true, ""}, {0, all, 77, false, ""},
	} {
		got := ""
		if m := u.Find(c.tag, c.ignore, c.from, c.any); m != nil {
			got = m.V
		}
		if got != c.want {
			t.Errorf("receive of %#x/%#x from %d (any: %v) finds %q, not %q", c.tag, c.ignore, c.from, c.any, got, c.want)
		}
	}
}

func TestElementsOfOthersAreLeftAlone(t *testing.T) {
	p, q, r := NewPosted[int](1), NewPosted[int](1), &Recv[int]{Tag: 1}
	p.Post(r)
	q.Remove(r)
	if !p.Has(r) || q.Has(r) || p.Find(0, 1) != r {
		t.Error("another queue removed the receive")
	}
	p.Remove(r)
	p.Remove(r)
	if p.Has(r) || p.Len() != 0 || p.Next(r) != nil {
		t.Error("the receive is still there, or was removed twice")
	}
	u, v, m := NewUnexpected[int](1), NewUnexpected[int](1), &Msg[int]{Tag: 1}
	u.Add(m)
	v.Remove(m)
	if !u.Has(m) || v.Has(m) || u.Find(1, 0, 0, false) != m {
		t.Error("another queue removed the message")
	}
	u.Remove(m)
	u.Remove(m)
	if u.Has(m) || u.Len() != 0 || u.Next(m) != nil {
		t.Error("the message is still there, or was removed twice")
	}
}

func TestTwiceQueuedPanics(t *testing.T) {
	caught := func(f func()) (v any) {
		defer func() { v = recover() }()
		f()
		return nil
	}
	p, r := NewPosted[int](1), &Recv[int]{}
	p.Post(r)
	if caught(func() { NewPosted[int](1).Post(r) }) == nil {
		t.Error("a receive was posted in two queues")
	}
	u, m := NewUnexpected[int](1), &Msg[int]{}
	u.Add(m)
	if caught(func() { u.Add(m) }) == nil {
		t.Error("a message was queued twice")
	}
}

const many = 100_000

// patterns are tags that weak hashes crowd into few slots.
var patterns = map[string]func(i uint64) (uint32, uint64){
	"counting":     func(i uint64) (uint32, uint64) { return 1, i },
	"high bits":    func(i uint64) (uint32, uint64) { return 1, i << 46 },
	"steps of 2^k": func(i uint64) (uint32, uint64) { return 1, i << 20 },
	"sources":      func(i uint64) (uint32, uint64) { return uint32(i), 5 },
	"source = tag": func(i uint64) (uint32, uint64) { return uint32(i), i | i<<32 },
	"gray":         func(i uint64) (uint32, uint64) { return uint32(i >> 8), (i ^ i>>1) * 0x1_0000_0001_0000 },
}

// farthest is the longest way from the slot that a hash says to where its ring stands.
func farthest[E any](x *index[E]) int {
	far, mask := 0, len(x.slots)-1
	for i, s := range x.slots {
		if s.ring.eldest != nil {
			far = max(far, (i-int(s.hash))&mask)
		}
	}
	return far
}

func TestHundredThousandOfEach(t *testing.T) {
	for name, key := range patterns {
		p, recvs := NewPosted[int](7), make([]Recv[int], many)
		u, msgs := NewUnexpected[int](7), make([]Msg[int], many)
		for i := range recvs {
			from, tag := key(uint64(i))
			recvs[i].From, recvs[i].Tag = from, tag
			msgs[i].From, msgs[i].Tag = from, tag
			p.Post(&recvs[i])
			u.Add(&msgs[i])
		}
		// Half full tables of this size have chains of 40 to 70 by chance.
		if far := max(farthest(&p.index), farthest(&u.index)); far > 150 {
			t.Errorf("%s: an element stands %d slots from where it belongs", name, far)
		}
		for i := many - 1; i >= 0; i-- {
			from, tag := key(uint64(i))
			r, m := p.Find(from, tag), u.Find(tag, 0, from, false)
			if r != &recvs[i] || m != &msgs[i] {
				t.Fatalf("%s: element %d is not found", name, i)
			}
			p.Remove(r)
			u.Remove(m)
		}
		if p.Len()+u.Len()+p.index.used+u.index.used != 0 {
			t.Errorf("%s: elements are left", name)
		}
	}
}

// TestHundredThousandWithOneKey: equal keys are a queue, whichever end is taken, and however many are taken from its middle.
func TestHundredThousandWithOneKey(t *testing.T) {
	for _, ignore := range []uint64{0, 0xff, all} {
		p, recvs := NewPosted[int](1), make([]Recv[int], many)
		u, msgs := NewUnexpected[int](1), make([]Msg[int], many)
		for i := range recvs {
			recvs[i].Ignore, recvs[i].Any = ignore, true
			p.Post(&recvs[i])
			u.Add(&msgs[i])
		}
		for i := 1; i < many; i += 2 {
			p.Remove(&recvs[many-i])
			u.Remove(&msgs[many-i])
		}
		for i := 0; i < many; i += 2 {
			if p.Find(9, 0) != &recvs[i] || u.Find(0, ignore, 9, true) != &msgs[i] {
				t.Fatalf("ignore %#x: not the eldest at %d", ignore, i)
			}
			p.Remove(&recvs[i])
			u.Remove(&msgs[i])
		}
	}
}

// TestSeedDecidesNothing plays the same posts and messages with many seeds.
func TestSeedDecidesNothing(t *testing.T) {
	play := func(seed uint64) (found []int) {
		p := NewPosted[int](seed)
		for i := range 300 {
			p.Post(&Recv[int]{Tag: uint64(i % 50), Ignore: uint64(i % 7), From: uint32(i % 3), Any: i%4 == 0, V: i})
		}
		for i := range 200 {
			if r := p.Find(uint32(i%3), uint64(i*7%50)); r != nil {
				found = append(found, r.V)
				p.Remove(r)
			}
		}
		for r := p.First(); r != nil; r = p.Next(r) {
			found = append(found, r.V)
		}
		return found
	}
	want := play(0)
	if len(want) < 300 || NewPosted[int](1).index.seed == NewPosted[int](2).index.seed {
		t.Fatal("the test tests nothing")
	}
	for seed := range uint64(50) {
		if got := play(seed * 0x1234_5678_9abc_def1); !slices.Equal(got, want) {
			t.Fatalf("seed %d: another order", seed)
		}
	}
}
