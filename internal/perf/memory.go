package perf

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/uetlab/uetlab/fep/client"
)

// layout is the memory of a side, all of it shared with the FEP: sources of what is sent, receives, and what the peer works on.
type layout struct {
	source   []byte
	receive  []byte
	target   []byte // registered
	result   []byte // of fetching atomics
	compare  []byte
	stride   int // from slot to slot
	receives int // posted at once
	slots    int // of source, target, result and compare
	rxSlots  int // of receive
}

// Without a check messages share buffers, like those of perftest; with it each that is open has one of its own.
const (
	sharedBytes = 64 << 10
	ownBytes    = 64 << 20
	receives    = 512 // posted at least, so that senders never wait for one
)

// layout makes the memory.
func (s *Spec) layout(ctx context.Context, d *client.Domain) (l layout, err error) {
	most := int64(8)
	for _, n := range s.Sizes {
		most = max(most, n)
	}
	l.stride = int(most+63) &^ 63
	l.slots = max(1, min(s.Window, sharedBytes/l.stride))
	l.rxSlots = max(1, min(receives, sharedBytes/l.stride))
	l.receives = max(receives, 2*s.Window)
	if s.Check || s.Test == Atomic {
		s.Window = min(s.Window, max(1, ownBytes/l.stride))
		l.slots = s.Window
		l.receives = min(l.receives, max(2*s.Window, ownBytes/l.stride))
		l.rxSlots = l.receives
	}
	if !s.twoSided() {
		l.receives, l.rxSlots = 0, 0
	}
	if s.Metric == Lat { // one message is under way; its answer may come before its acknowledgement
		l.receives, l.rxSlots = min(l.receives, 16), min(l.rxSlots, 16)
	}
	parts := []struct {
		at    *[]byte
		slots int
	}{{&l.source, l.slots}, {&l.receive, l.rxSlots}, {&l.target, l.slots}, {&l.result, l.slots}, {&l.compare, l.slots}}
	total := 0
	for i := range parts {
		if i > 2 && s.Test != Atomic {
			parts[i].slots = 0
		}
		total += parts[i].slots * l.stride
	}
	m, err := d.Alloc(ctx, total)
	if err != nil {
		return l, fmt.Errorf("perf: %d bytes of memory: %w", total, err)
	}
	b := m.Bytes()
	for _, p := range parts {
		n := p.slots * l.stride
		*p.at, b = b[:n:n], b[n:]
	}
	return l, nil
}

func (l *layout) at(b []byte, slot, slots, size int) []byte {
	o := slot % slots * l.stride
	return b[o : o+size : o+size]
}

// pattern fills b with the bytes of message n: its number, if there is room for it, and what follows from it.
func pattern(b []byte, n int) {
	x := uint64(n+1) * 0x9e3779b97f4a7c15
	if len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, uint64(n))
	} else {
		x = 0
	}
	for i := range words(b) {
		binary.LittleEndian.PutUint64(b[8*i+8:], x+uint64(i)*0x0101010101010101)
	}
	for i := len(b) &^ 7; i < len(b); i++ {
		b[i] = byte(x>>32) + byte(i) + 0x5a
	}
}

// words are the whole words of b that follow the first.
func words(b []byte) int { return max(0, len(b)/8-1) }

// numberIn gives the number of the message whose bytes b has; false if they are of none. Below 8 bytes all are message 0.
func numberIn(b []byte) (n int, ok bool) {
	x := uint64(0)
	if len(b) >= 8 {
		n = int(binary.LittleEndian.Uint64(b))
		x = uint64(n+1) * 0x9e3779b97f4a7c15
	}
	for i := range words(b) {
		if binary.LittleEndian.Uint64(b[8*i+8:]) != x+uint64(i)*0x0101010101010101 {
			return n, false
		}
	}
	for i := len(b) &^ 7; i < len(b); i++ {
		if b[i] != byte(x>>32)+byte(i)+0x5a {
			return n, false
		}
	}
	return n, n >= 0
}
