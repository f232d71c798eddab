package fep

import (
	"testing"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vethtest"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// With UETLAB_TEST_VETH=1 each end point has a veth pair, on whose far end is whoever the test puts there: a stub, or the impairment
// behind which the other end point is. What the far end reads is what everybody sees from there on: bytes and time.

// leave takes a frame from end point i to the far end of its pair, arrive the other way; without veth they do nothing.
func leave(t testing.TB, i int, f *link.Frame)  { cross(t, 2*i, 2*i+1, f) }
func arrive(t testing.TB, i int, f *link.Frame) { cross(t, 2*i+1, 2*i, f) }

func cross(t testing.TB, from, to int, f *link.Frame) {
	if !vethtest.On {
		return
	}
	t.Helper()
	b := vethtest.Cross(t, from, to, wire.AppendTrailer(f.B, int64(f.Due), 0))
	if !wire.FCSOK(b) {
		t.Fatal("veth: the frame check sequence is wrong")
	}
	f.B, f.Due = append(f.B[:0], b[:len(b)-wire.TrailerLen]...), vt.Time(wire.TrailerOf(b).Due())
}
