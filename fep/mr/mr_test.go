package mr

import (
	"errors"
	"testing"

	"github.com/uetlab/uetlab/wire"
)

const remote = RemoteRead | RemoteWrite | RemoteAtomic

// must registers a region named by a number.
func must(t testing.TB, tab *Table[int], cfg Config, mem int) *Region[int] {
	t.Helper()
	r, err := tab.Register(cfg, mem)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func code(tab *Table[int], q Request) wire.ReturnCode {
	r, rc := tab.Lookup(&q)
	if (r != nil) != (rc == wire.RCOK) {
		panic("a region and an error")
	}
	return rc
}

func TestLookupOrder(t *testing.T) {
	var tab Table[int]
	key := must(t, &tab, Config{Size: 100, Access: RemoteWrite, Job: 7, RI: 15}, 1).Key()
	safe := must(t, &tab, Config{Size: 100, Access: RemoteWrite, Idempotent: true}, 2).Key()
	const all = 1<<64 - 1
	for _, c := range []struct {
		name string
		q    Request
		want wire.ReturnCode
	}{
		{"write", Request{Key: key, Access: RemoteWrite, Job: 7, RI: 15, Length: 100}, wire.RCOK},
		{"nothing at the end", Request{Key: key, Access: RemoteWrite, Job: 7, RI: 15, Offset: 100}, wire.RCOK},
		{"last byte", Request{Key: key, Access: RemoteWrite, Job: 7, RI: 15, Offset: 99, Length: 1}, wire.RCOK},
		{"all wrong", Request{Key: key + 1<<40, Access: RemoteRead, Job: 8, RI: 14, Offset: all, Idempotent: true}, wire.RCBadMKey},
		{"all but the key", Request{Key: key, Access: RemoteRead, Job: 8, RI: 14, Offset: all, Idempotent: true}, wire.RCBadMKey},
		{"other job", Request{Key: key, Access: RemoteWrite, Job: 8, RI: 15}, wire.RCBadMKey},
		{"other job, whatever the rights", Request{Key: key, Access: remote, Job: 8, RI: 15, Offset: all}, wire.RCBadMKey},
		{"other resource index", Request{Key: key, Access: RemoteWrite, Job: 7, RI: 14}, wire.RCBadMKey},
		{"rights, bounds, mode", Request{Key: key, Access: RemoteWrite | RemoteAtomic, Job: 7, RI: 15, Offset: 101, Idempotent: true}, wire.RCPermViolation},
		{"bounds, mode", Request{Key: key, Access: RemoteWrite, Job: 7, RI: 15, Offset: 101, Idempotent: true}, wire.RCBadAddr},
		{"one byte too many", Request{Key: key, Access: RemoteWrite, Job: 7, RI: 15, Offset: 1, Length: 100}, wire.RCBadAddr},
		{"the sum wraps", Request{Key: key, Access: RemoteWrite, Job: 7, RI: 15, Offset: 50, Length: all - 10}, wire.RCBadAddr},
		{"the offset wraps", Request{Key: key, Access: RemoteWrite, Job: 7, RI: 15, Offset: all, Length: 2}, wire.RCBadAddr},
		{"mode", Request{Key: key, Access: RemoteWrite, Job: 7, RI: 15, Length: 1, Idempotent: true}, wire.RCOpViolation},
		{"idempotent", Request{Key: safe, Access: RemoteWrite, Job: 1, RI: 2, Length: 100, Idempotent: true}, wire.RCOK},
		{"idempotent key by RUD", Request{Key: safe, Access: RemoteWrite, Length: 100}, wire.RCOK},
		{"key without its flag", Request{Key: safe &^ KeyIdempotent, Access: RemoteWrite}, wire.RCBadMKey},
		{"key with a foreign flag", Request{Key: key | KeyIdempotent, Access: RemoteWrite, Job: 7, RI: 15}, wire.RCBadMKey},
		{"index alone", Request{Key: key & keyIndex, Access: RemoteWrite, Job: 7, RI: 15}, wire.RCBadMKey},
		{"no key", Request{Access: RemoteWrite}, wire.RCBadMKey},
		{"place of nobody", Request{Key: keyChosen}, wire.RCBadMKey},
		{"small key in an empty table", Request{Key: KeyOptimized | 1}, wire.RCBadMKey},
		{"all ones", Request{Key: all}, wire.RCBadMKey},
	} {
		if got := code(&tab, c.q); got != c.want {
			t.Errorf("%s: %v, not %v", c.name, got, c.want)
		}
	}
}

func TestRegisterRefuses(t *testing.T) {
	var tab Table[int]
	must(t, &tab, Config{Key: 5}, 1)
	must(t, &tab, Config{Key: 6, Idempotent: true}, 1)
	must(t, &tab, Config{Key: 7, Optimized: true}, 1)
	for _, c := range []struct {
		name string
		cfg  Config
		want error
	}{
		{"in use", Config{Key: 5}, ErrKeyInUse},
		{"index in use without the flag", Config{Key: 5, Idempotent: true}, ErrKeyInUse},
		{"index in use with the flag", Config{Key: 6}, ErrKeyInUse},
		{"small index in use", Config{Key: KeyOptimized | KeyIdempotent | 7}, ErrKeyInUse},
		{"vendor bit", Config{Key: 1 << 48}, ErrKey},
		{"vendor bits", Config{Key: 0xFF<<48 | 1}, ErrKey},
		{"reserved bits", Config{Key: 1<<61 | 1}, ErrKey},
		{"index too great for the small header", Config{Key: 4096, Optimized: true}, ErrKey},
		{"small and restricted", Config{Optimized: true, RI: 3}, ErrSmallRI},
		{"unknown rights", Config{Access: 1 << 5}, ErrAccess},
	} {
		r, err := tab.Register(c.cfg, 1)
		if !errors.Is(err, c.want) || r != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if tab.Len() != 3 {
		t.Errorf("%d regions", tab.Len())
	}
	if err := tab.Deregister(99); !errors.Is(err, ErrNoRegion) {
		t.Error(err)
	}
}

func TestKeysAsThePageHasThem(t *testing.T) {
	var tab Table[int]
	for _, c := range []struct {
		name string
		cfg  Config
		want uint64
	}{
		{"ours", Config{}, 1<<48 | 1},
		{"ours, idempotent", Config{Idempotent: true}, 1<<63 | 1<<48 | 2},
		{"ours, small", Config{Optimized: true}, 1<<62 | 1<<48},
		{"ours, both", Config{Optimized: true, Idempotent: true}, 3<<62 | 1<<48 | 1},
		{"user's", Config{Key: 1<<48 - 1}, 1<<48 - 1},
		{"user's, idempotent by flag", Config{Key: 8, Idempotent: true}, 1<<63 | 8},
		{"user's, idempotent by key", Config{Key: 1<<63 | 9}, 1<<63 | 9},
		{"user's, small", Config{Key: 4095, Optimized: true}, 1<<62 | 4095},
		{"user's, index 0", Config{Key: 1 << 63}, 1 << 63},
	} {
		r := must(t, &tab, c.cfg, 1)
		if r.Key() != c.want || r.cfg.Key != c.want || r.cfg.Idempotent != (c.want>>63 != 0) || r.cfg.Optimized != (c.want>>62&1 != 0) {
			t.Errorf("%s: key %#x, not %#x; %+v", c.name, r.Key(), c.want, r.cfg)
		}
	}
}

func TestLookupSmall(t *testing.T) {
	var tab Table[int]
	small := func(index uint64, access Access, job uint32) wire.ReturnCode {
		_, rc := tab.LookupSmall(&Request{Key: index, Access: access, Job: job, RI: uint16(index)})
		return rc
	}
	if rc := small(0, RemoteRead, 1); rc != wire.RCBadMKey {
		t.Errorf("empty table: %v", rc)
	}
	must(t, &tab, Config{Size: 1, Access: RemoteRead, Job: 1, Key: 3, Optimized: true}, 1)
	must(t, &tab, Config{Size: 1, Access: RemoteRead, Key: 4}, 2)
	for _, c := range []struct {
		index  uint64
		access Access
		job    uint32
		want   wire.ReturnCode
	}{
		{3, RemoteRead, 1, wire.RCOK}, {3 | 1<<40, RemoteRead, 1, wire.RCOK}, {3, RemoteWrite, 1, wire.RCPermViolation},
		{3, RemoteRead, 2, wire.RCBadMKey}, {4, RemoteRead, 1, wire.RCBadMKey}, {4095, RemoteRead, 1, wire.RCBadMKey},
	} {
		if rc := small(c.index, c.access, c.job); rc != c.want {
			t.Errorf("index %#x: %v, not %v", c.index, rc, c.want)
		}
	}
}

func TestRevokedKeysOpenNothing(t *testing.T) {
	var tab Table[int]
	write := func(key uint64) wire.ReturnCode { return code(&tab, Request{Key: key, Access: RemoteWrite, Length: 1}) }
	old := must(t, &tab, Config{Size: 8, Access: RemoteWrite}, 1)
	if err := tab.Deregister(old.Key()); err != nil || !old.revoked {
		t.Fatal(err)
	}
	if rc := write(old.Key()); rc != wire.RCBadMKey {
		t.Errorf("revoked: %v", rc)
	}
	again := must(t, &tab, Config{Size: 8, Access: RemoteWrite}, 2)
	if again.Key() == old.Key() || again.Key()&(1<<placeBits-1) != old.Key()&(1<<placeBits-1) {
		t.Fatalf("keys %#x and %#x: want the same place and another generation", old.Key(), again.Key())
	}
	if rc := write(old.Key()); rc != wire.RCBadMKey {
		t.Errorf("revoked, its place in use again: %v", rc)
	}
	if rc := tab.Recheck(old); rc != wire.RCBadMKey {
		t.Errorf("message that held the revoked region: %v", rc)
	}
	if err := tab.Deregister(old.Key()); !errors.Is(err, ErrNoRegion) {
		t.Errorf("revoked twice: %v", err)
	}

	user := must(t, &tab, Config{Size: 8, Access: RemoteWrite, Key: 77}, 3)
	if rc := tab.Recheck(user); rc != wire.RCOK {
		t.Error(rc)
	}
	if err := tab.Deregister(77); err != nil {
		t.Fatal(err)
	}
	must(t, &tab, Config{Size: 8, Access: RemoteRead, Key: 77}, 4)
	if rc := write(77); rc != wire.RCPermViolation {
		t.Errorf("registered again with other rights: %v", rc)
	}
	if rc := tab.Recheck(user); rc != wire.RCPermViolation {
		t.Errorf("message that held the region that the key named before: %v", rc)
	}
	if mem, ok := user.Memory(); mem != 0 || ok {
		t.Errorf("whoever held the region finds memory %d %v", mem, ok)
	}
}

func TestAPlaceWithoutKeysRests(t *testing.T) {
	var tab Table[int]
	r := must(t, &tab, Config{}, 1)
	tab.places[1].gen = maxGen - 1
	for range 2 {
		if err := tab.Deregister(r.Key()); err != nil {
			t.Fatal(err)
		}
		tab.places[1].gen = max(tab.places[1].gen, maxGen-1)
		r = must(t, &tab, Config{}, 1)
	}
	if p := r.Key() & (1<<placeBits - 1); p != 2 {
		t.Errorf("place %d was used again: its keys would repeat", p)
	}
}

func TestSmallIndicesComeInTheOrderInWhichTheyBecameFree(t *testing.T) {
	var tab Table[int]
	must(t, &tab, Config{Key: KeyOptimized | 1}, 0)
	seen := map[uint64]bool{}
	var live []*Region[int]
	for i := range small - 1 {
		r := must(t, &tab, Config{Optimized: true}, i)
		live = append(live, r)
		if seen[r.Key()] || r.Key()&(small-1) == 1 {
			t.Fatalf("key %#x again", r.Key())
		}
		seen[r.Key()] = true
	}
	if _, err := tab.Register(Config{Optimized: true}, 0); !errors.Is(err, ErrFull) {
		t.Fatalf("4097 small regions: %v", err)
	}
	for _, i := range []int{900, 3, 500} {
		if err := tab.Deregister(live[i].Key()); err != nil {
			t.Fatal(err)
		}
	}
	for _, i := range []int{900, 3, 500} {
		r := must(t, &tab, Config{Optimized: true}, 0)
		if r.Key()&(small-1) != live[i].Key()&(small-1) || seen[r.Key()] {
			t.Errorf("key %#x, want the index of %#x in a new key", r.Key(), live[i].Key())
		}
	}
	// The same index alone, over and over: 128 keys before one repeats.
	tab = Table[int]{}
	for i := 1; i < small; i++ {
		must(t, &tab, Config{Key: KeyOptimized | uint64(i)}, 0)
	}
	first := map[uint64]bool{}
	for range 128 {
		r := must(t, &tab, Config{Optimized: true}, 0)
		first[r.Key()] = true
		if err := tab.Deregister(r.Key()); err != nil {
			t.Fatal(err)
		}
	}
	if len(first) != 128 {
		t.Errorf("%d different keys of 128", len(first))
	}
}

func TestDeregisterAll(t *testing.T) {
	var tab Table[int]
	var all []*Region[int]
	for _, cfg := range []Config{{}, {}, {Optimized: true}, {Key: 5}, {Key: 3, Idempotent: true}, {Key: KeyOptimized | 9}} {
		all = append(all, must(t, &tab, cfg, 1))
	}
	if err := tab.Deregister(all[1].Key()); err != nil {
		t.Fatal(err)
	}
	if tab.DeregisterAll(); tab.Len() != 0 {
		t.Errorf("%d left", tab.Len())
	}
	for _, r := range all {
		if mem, ok := r.Memory(); mem != 0 || ok || code(&tab, Request{Key: r.Key()}) != wire.RCBadMKey {
			t.Errorf("region %#x is still there", r.Key())
		}
	}
	if r := must(t, &tab, Config{}, 1); r.Key() == all[0].Key() || r.Key() == all[1].Key() {
		t.Errorf("key %#x again", r.Key())
	}
	must(t, &tab, Config{Key: 5}, 1)
}

func TestTableFull(t *testing.T) {
	tab := Table[int]{Max: 2}
	must(t, &tab, Config{Key: 5}, 0)
	r := must(t, &tab, Config{}, 0)
	for _, cfg := range []Config{{}, {Key: 6}, {Optimized: true}} {
		if _, err := tab.Register(cfg, 0); !errors.Is(err, ErrFull) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	if err := tab.Deregister(r.Key()); err != nil {
		t.Fatal(err)
	}
	must(t, &tab, Config{}, 0)
}
