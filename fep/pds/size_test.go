package pds

import (
	"testing"
	"unsafe"
)

// TestSizes: what every packet in flight and every PDC costs.
func TestSizes(t *testing.T) {
	if n := unsafe.Sizeof(Packet{}); n > 80 {
		t.Errorf("a Packet has %d bytes, want at most 80", n)
	}
	if n := unsafe.Sizeof(PDC{}); n > 704 {
		t.Errorf("a PDC has %d bytes, want at most 704: the allocator's next size is 768", n)
	}
	t.Logf("Packet %d, source %d, dest %d, PDC %d, group %d, Response %d, ctlMsg %d", unsafe.Sizeof(Packet{}), unsafe.Sizeof(source{}),
		unsafe.Sizeof(dest{}), unsafe.Sizeof(PDC{}), unsafe.Sizeof(group{}), unsafe.Sizeof(Response{}), unsafe.Sizeof(ctlMsg{}))
}
