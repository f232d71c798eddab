package pds

import (
	"math/rand/v2"
	"testing"
)

// TestIDs: an id is never 0, never in use twice, and comes back as late as possible.
func TestIDs(t *testing.T) {
	for _, size := range []int{1, 3, 64, 1000, 40_000, 65_535} {
		tab := &pdcTable{}
		tab.reset(size, rand.New(rand.NewPCG(1, 2)))
		seen := map[uint16]bool{}
		n := tab.n
		for range n {
			p := &PDC{}
			if !tab.add(p) || p.id == 0 || seen[p.id] || tab.get(p.id) != p {
				t.Fatalf("size %d: id %d after %d", size, p.id, len(seen))
			}
			seen[p.id] = true
		}
		if tab.add(&PDC{}) || n < size-1 {
			t.Errorf("size %d: %d ids", size, n)
		}
		for id := range seen {
			tab.remove(tab.get(id))
		}
		again, p := 0, &PDC{}
		for ; !seen[p.id]; again++ {
			p = &PDC{}
			tab.add(p)
			tab.remove(p)
			if again == 1<<17 {
				break
			}
		}
		if want := 1<<16/2 - 2*size; again < want {
			t.Errorf("size %d: an id came back after %d", size, again)
		}
	}
}
