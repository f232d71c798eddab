package capture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
)

func writeFile(t *testing.T, packets []Packet, stats []Stats, wall bool) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, testDirections(true), "udp", wall)
	if err != nil {
		t.Fatal(err)
	}
	for i := range packets {
		if err := w.Packet(&packets[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(stats); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestWriterIsReadByOthers(t *testing.T) {
	data := ackFrame(t, 1)
	file := writeFile(t, []Packet{
		{Iface: 0, Due: 0, Data: data},
		{Iface: 1, Due: 12345, Data: data[:33], Len: len(data)},
		{Iface: 0, Due: 1<<40 + 5, Data: nil, Comment: "an odd comment"},
	}, []Stats{{Received: 10, Dropped: 3, Delivered: 2}, {Received: 1 << 40, Delivered: 1}}, false)
	r, err := pcapgo.NewNgReader(bytes.NewReader(file), pcapgo.NgReaderOptions{WantMixedLinkType: true})
	if err != nil {
		t.Fatal(err)
	}
	if s := r.SectionInfo(); s.Application != "uetlab" || s.OS != "linux" || s.Hardware == "" {
		t.Errorf("section %+v", s)
	}
	for i, want := range []struct {
		iface, caplen, length int
		ns                    int64
	}{{0, len(data), len(data), 0}, {1, 33, len(data), 12345}, {0, 0, 0, 1<<40 + 5}} {
		got, ci, err := r.ReadPacketData()
		if err != nil {
			t.Fatal(err)
		}
		if ci.InterfaceIndex != want.iface || ci.CaptureLength != want.caplen || ci.Length != want.length ||
			ci.Timestamp.UnixNano() != want.ns || !bytes.Equal(got, data[:want.caplen]) {
			t.Errorf("packet %d: %+v", i, ci)
		}
	}
	if _, _, err := r.ReadPacketData(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last packet: %v", err)
	}
	for i, d := range testDirections(true) {
		f, err := r.Interface(i)
		if err != nil {
			t.Fatal(err)
		}
		if f.Name != d.Name() || f.Description != d.Description || f.LinkType != layers.LinkTypeEthernet ||
			f.TimestampResolution != 9 || f.Filter != "udp" {
			t.Errorf("interface %d: %+v", i, f)
		}
	}
	f, _ := r.Interface(0)
	if f.Statistics.PacketsReceived != 10 || f.Statistics.PacketsDropped != 3 {
		t.Errorf("statistics %+v", f.Statistics)
	}
	if !bytes.Contains(file, []byte("an odd comment\x00\x00")) {
		t.Error("the comment is not there")
	}
}

func TestBlocksAreClosed(t *testing.T) {
	file := writeFile(t, []Packet{{Data: make([]byte, 61), Comment: "x"}, {Data: make([]byte, 60)}}, []Stats{{}, {}}, false)
	var types []uint32
	for len(file) > 0 {
		typ, n := binary.LittleEndian.Uint32(file), binary.LittleEndian.Uint32(file[4:])
		if n%4 != 0 || int(n) > len(file) || binary.LittleEndian.Uint32(file[n-4:]) != n {
			t.Fatalf("block %#x of %d bytes is not closed by its length", typ, n)
		}
		types, file = append(types, typ), file[n:]
	}
	if want := []uint32{blockSection, 1, 1, 6, 6, 5, 5}; len(types) != len(want) || types[0] != want[0] || types[4] != 6 || types[6] != 5 {
		t.Errorf("blocks %#x", types)
	}
}

func TestWallStamps(t *testing.T) {
	at := time.Date(2026, 11, 29, 12, 0, 0, 123456789, time.UTC)
	file := writeFile(t, []Packet{{Due: 5, Wall: at.UnixNano(), Data: ackFrame(t, 1)}}, nil, true)
	r, err := pcapgo.NewNgReader(bytes.NewReader(file), pcapgo.DefaultNgReaderOptions)
	if err != nil {
		t.Fatal(err)
	}
	if _, ci, err := r.ReadPacketData(); err != nil || !ci.Timestamp.Equal(at) {
		t.Errorf("%v %v", ci.Timestamp, err)
	}
}

func TestClosedPipeIsASentinel(t *testing.T) {
	signal.Ignore(syscall.SIGPIPE)
	defer signal.Reset(syscall.SIGPIPE)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	ng, err := NewWriter(w, testDirections(true), "", false)
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	if err := ng.Packet(&Packet{Data: make([]byte, 60)}); err != nil {
		t.Fatalf("a packet that fits the buffer: %v", err)
	}
	if err := ng.Flush(); !errors.Is(err, ErrClosed) {
		t.Errorf("flush: %v", err)
	}
	if err := ng.Packet(&Packet{}); !errors.Is(err, ErrClosed) {
		t.Errorf("the packet after: %v", err)
	}
	if err := ng.Close(nil); !errors.Is(err, ErrClosed) {
		t.Errorf("close: %v", err)
	}
	if err := ng.Packet(&Packet{Iface: 2}); err == nil {
		t.Error("a packet of an interface that is not there")
	}
}
