package mr

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Why a region cannot be registered or deregistered.
var (
	ErrKey      = errors.New("bits of the key are set that are not the user's")
	ErrKeyInUse = errors.New("the key is in use")
	ErrFull     = errors.New("there are as many regions as there can be")
	ErrSmallRI  = errors.New("a region for the small header cannot be restricted to a resource index: that header carries the key there")
	ErrAccess   = errors.New("unknown rights")
	ErrNoRegion = errors.New("no region has this key")
)

// place is where a region with a key of the table's choice stands. Each key that it gives has another generation.
type place[M any] struct {
	r   *Region[M]
	gen uint32
}

// Table is the regions of one process. Its zero value is empty and ready.
type Table[M any] struct {
	Max int // regions at a time, of all kinds; 0: MaxRegions

	places []place[M] // key's place, from 0
	free   []uint32
	users  map[uint64]*Region[M]
	n      int

	small     []place[M] // OPTIMIZED, of the table's and the user's choice: 4096 once there is one
	smallFree []uint16   // indices in the order in which they became free
}

// Len is the number of regions that are registered.
func (t *Table[M]) Len() int { return t.n }

// find returns the region with exactly this key, nil if there is none.
func (t *Table[M]) find(key uint64) *Region[M] {
	var r *Region[M]
	switch {
	case key&KeyOptimized != 0:
		if i := key & (small - 1); i < uint64(len(t.small)) {
			r = t.small[i].r
		}
	case key&keyChosen != 0:
		if i := key & (1<<placeBits - 1); i < uint64(len(t.places)) {
			r = t.places[i].r
		}
	default:
		r = t.users[key]
	}
	if r == nil || r.cfg.Key != key {
		return nil
	}
	return r
}

// Register opens memory and returns its region, which knows its key. It fails with ErrKey, ErrKeyInUse, ErrFull, ErrSmallRI or
// ErrAccess.
func (t *Table[M]) Register(cfg Config, mem M) (*Region[M], error) {
	asked := cfg.Key
	cfg.Idempotent = cfg.Idempotent || asked&KeyIdempotent != 0
	cfg.Optimized = cfg.Optimized || asked&KeyOptimized != 0
	index := asked & keyIndex
	switch {
	case asked&^keyUser != 0, cfg.Optimized && index >= small:
		return nil, fmt.Errorf("register key %#x: %w", asked, ErrKey)
	case cfg.Optimized && cfg.RI != 0:
		return nil, fmt.Errorf("register key %#x: %w", asked, ErrSmallRI)
	case cfg.Access >= RemoteAtomic<<1:
		return nil, fmt.Errorf("register key %#x: %w: %#x", asked, ErrAccess, uint8(cfg.Access))
	}
	var flags uint64
	if cfg.Idempotent {
		flags |= KeyIdempotent
	}
	r := &Region[M]{cfg: cfg, mem: mem}
	var err error
	switch {
	case t.n >= cmp.Or(t.Max, MaxRegions):
		err = ErrFull
	case cfg.Optimized:
		err = t.addSmall(r, flags|KeyOptimized, asked != 0, int(index))
	case asked != 0:
		err = t.addUser(r, index, flags|index)
	default:
		err = t.addChosen(r, flags)
	}
	if err != nil {
		return nil, fmt.Errorf("register key %#x: %w", asked, err)
	}
	t.n++
	return r, nil
}

// addUser adds a region with a key of the user's choice. Two keys must differ in their index, not in flags alone.
func (t *Table[M]) addUser(r *Region[M], index, key uint64) error {
	if t.users[index] != nil || t.users[index|KeyIdempotent] != nil {
		return ErrKeyInUse
	}
	if t.users == nil {
		t.users = map[uint64]*Region[M]{}
	}
	r.cfg.Key = key
	t.users[key] = r
	return nil
}

// addChosen takes a free place, or a new one.
func (t *Table[M]) addChosen(r *Region[M], flags uint64) error {
	var i uint32
	switch n := len(t.free); {
	case n > 0:
		i, t.free = t.free[n-1], t.free[:n-1]
	case len(t.places) > MaxRegions:
		return ErrFull
	default:
		if len(t.places) == 0 { // index 0 is nobody's: a key without an index is a mistake, and is answered as one
			t.places = append(t.places, place[M]{})
		}
		i = uint32(len(t.places))
		t.places = append(t.places, place[M]{})
	}
	p := &t.places[i]
	p.r = r
	r.cfg.Key = flags | keyChosen | uint64(p.gen)<<placeBits | uint64(i)
	return nil
}

// addSmall takes the 12-bit index that the user chose, or the one that was free longest.
func (t *Table[M]) addSmall(r *Region[M], flags uint64, chosen bool, index int) error {
	if t.small == nil {
		t.small = make([]place[M], small)
		for i := range small {
			t.smallFree = append(t.smallFree, uint16(i))
		}
	}
	switch {
	case chosen && t.small[index].r != nil:
		return ErrKeyInUse
	case chosen:
		at := slices.Index(t.smallFree, uint16(index))
		t.smallFree = slices.Delete(t.smallFree, at, at+1)
		r.cfg.Key = flags | uint64(index)
	case len(t.smallFree) == 0:
		return ErrFull
	default:
		index, t.smallFree = int(t.smallFree[0]), t.smallFree[1:]
		p := &t.small[index]
		r.cfg.Key = flags | keyChosen | uint64(p.gen)<<smallGen | uint64(index)
		p.gen = (p.gen + 1) & 0x7F
	}
	t.small[index].r = r
	return nil
}

// Deregister revokes a key: nobody finds the region by it any more, and whoever holds the region finds no memory. It fails with
// ErrNoRegion.
func (t *Table[M]) Deregister(key uint64) error {
	r := t.find(key)
	if r == nil {
		return fmt.Errorf("deregister key %#x: %w", key, ErrNoRegion)
	}
	t.remove(r)
	return nil
}

// remove makes the key's place free, and revokes the region.
func (t *Table[M]) remove(r *Region[M]) {
	t.n--
	r.revoke()
	key := r.cfg.Key
	switch {
	case key&KeyOptimized != 0:
		i := uint16(key & (small - 1))
		t.small[i].r = nil
		t.smallFree = append(t.smallFree, i)
	case key&keyChosen != 0:
		i := uint32(key & (1<<placeBits - 1))
		p := &t.places[i]
		p.r = nil
		if p.gen < maxGen { // else the place has no key left and rests for ever
			p.gen++
			t.free = append(t.free, i)
		}
	default:
		delete(t.users, key)
	}
}

// DeregisterAll revokes all keys: the process is gone.
func (t *Table[M]) DeregisterAll() {
	for _, places := range [][]place[M]{t.places, t.small} {
		for _, p := range places {
			if p.r != nil {
				t.remove(p.r)
			}
		}
	}
	for _, r := range t.users { // in any order: nothing remembers it
		t.remove(r)
	}
}
