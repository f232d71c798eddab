package fep

import "testing"

// TestMessageIDs takes all message IDs there are: none is 0 or 0xFFFF, none is given twice, and one that is given back
// comes again.
func TestMessageIDs(t *testing.T) {
	var m midPool
	m.reset()
	seen := map[uint16]bool{}
	for range 0xFFFE {
		id := m.get()
		if id == 0 || id == 0xFFFF || seen[id] {
			t.Fatalf("message ID %#x after %d others", id, len(seen))
		}
		seen[id] = true
	}
	if id := m.get(); id != 0 {
		t.Errorf("%#x is given out although all are taken", id)
	}
	m.put(0x1234)
	if id := m.get(); id != 0x1234 {
		t.Errorf("%#x, where 0x1234 is the only one free", id)
	}
}
