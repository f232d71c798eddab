package capture

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/uetlab/uetlab/wire"
)

func TestPrinterWritesOneLineAPacket(t *testing.T) {
	var out bytes.Buffer
	p := NewPrinter(&out, testDirections(true), wire.Options{}, false)
	data := ackFrame(t, 7)
	decoded := wire.Decode(data, wire.Options{})
	for _, pk := range []Packet{
		{Due: 12345, Data: data},
		{Iface: 1, Due: 123_000_000_007, Data: data, Comment: "damaged"},
		{Due: 9_999_999_999, Data: nil},
		{Due: 1, Data: data, LLR: wire.LLRWord(wire.LLREligible, 0, 901)},
		{Due: 2, Data: data, LLR: wire.LLRWord(wire.LLREligible, wire.LLRFlagReplay, 901), Comment: "damaged"},
	} {
		if err := p.Packet(&pk); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Flush(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	for i, want := range []string{
		"00.000012345 leaf0>spine1 " + decoded.Summary(),
		"123.000000007 spine1>leaf0 " + decoded.Summary() + " [damaged]",
		"09.999999999 leaf0>spine1 ",
		"00.000000001 leaf0>spine1 " + decoded.Summary() + " LLR 901",
		"00.000000002 leaf0>spine1 " + decoded.Summary() + " LLR 901 again [damaged]",
	} {
		if !strings.HasPrefix(lines[i], want) {
			t.Errorf("line %d: %q, want %q", i, lines[i], want)
		}
	}
	if len(lines) != 6 || !strings.Contains(lines[0], "10.0.0.1") || !strings.Contains(lines[0], "ACK") {
		t.Errorf("lines %q", lines)
	}
}

func TestPrinterWallTime(t *testing.T) {
	var out bytes.Buffer
	p := NewPrinter(&out, testDirections(false), wire.Options{}, true)
	at := time.Date(2026, 11, 29, 12, 34, 56, 789, time.Local)
	if err := errors.Join(p.Packet(&Packet{Wall: at.UnixNano(), Data: ackFrame(t, 7)}), p.Flush()); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), "12:34:56.000000789 leaf0>spine1 ") {
		t.Errorf("%q", out.String())
	}
}

func TestPrinterClosedPipe(t *testing.T) {
	r, w := io.Pipe()
	r.Close()
	p := NewPrinter(w, testDirections(false), wire.Options{}, false)
	if err := errors.Join(p.Packet(&Packet{}), p.Flush()); !errors.Is(err, ErrClosed) {
		t.Errorf("%v", err)
	}
}
