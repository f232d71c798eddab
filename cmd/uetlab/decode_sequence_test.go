package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/fabric/api"
)

// pairCapture is what uetlab sim pair --trace writes of sendrecv --size 16KiB.
const pairCapture = "testdata/decode/pair.pcapng"

func TestSequenceOutput(t *testing.T) {
	for name, flags := range map[string]string{"sequence.txt": "", "sequence.mmd": "--format mermaid", "sequence.svg": "--format svg", "sequence-all.txt": "--all --absolute --pdc a"} {
		o := runLine(t, context.Background(), "decode --sequence "+pairCapture+" "+flags)
		if o.code != 0 || o.err != "" {
			t.Errorf("%s: code %d, %s", name, o.code, o.err)
		}
		golden(t, filepath.Join("testdata", "decode", name), o.out)
	}
}

// TestSequenceToFile holds the file to what goes to standard output, and the picture to be XML.
func TestSequenceToFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.svg")
	o := runLine(t, context.Background(), "decode --sequence --format svg -o "+file+" "+pairCapture)
	if o.code != 0 || o.out != "" || !strings.Contains(o.err, " rows written to ") {
		t.Errorf("%+v", o)
	}
	b, err := os.ReadFile(file)
	if err != nil || string(b) != runLine(t, context.Background(), "decode --sequence --format svg "+pairCapture).out {
		t.Errorf("%v, or the file differs from the output", err)
	}
	x := xml.NewDecoder(bytes.NewReader(b))
	for {
		if _, err := x.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if o := runLine(t, context.Background(), "decode --sequence -o "+t.TempDir()+" "+pairCapture); o.code != api.CodeFailure || !strings.Contains(o.err, "-o: ") {
		t.Errorf("a folder: %+v", o)
	}
}

func TestSequenceNames(t *testing.T) {
	o := runLine(t, context.Background(), "decode --sequence --between left,10.0.0.2 --names 10.0.0.1=left "+pairCapture)
	if o.code != 0 || !strings.Contains(o.out, "left") || !strings.Contains(o.out, "host1") || strings.Contains(o.out, "host0") {
		t.Errorf("%+v", o)
	}
}

// TestSequenceRefuses holds that what is wrong is named, with what to do.
func TestSequenceRefuses(t *testing.T) {
	whole, err := os.ReadFile(pairCapture)
	if err != nil {
		t.Fatal(err)
	}
	arp := append(bytes.Repeat([]byte{0xFF}, 12), 8, 6, 0, 1)
	file := func(b []byte) string { return fileOf(t, "in", b) }
	for _, c := range []struct {
		flags, err string
		code       int
		out        bool // a diagram, or the error as JSON
	}{
		{file(pcapOf(1)), "no UET packet to draw: 0 packets", 1, false},
		{file(pcapOf(1, arp, arp)), "no UET packet to draw: 2 packets", 1, false},
		{file(whole[:len(whole)-9000]), "cut in a block", 1, true},
		{file(whole[:40]), "cut in a block", 1, false},
		{pairCapture + " --pdc q", "the filters leave none of 16", 1, false},
		{pairCapture + " --between host0,host9", "lane (host9): no such lane; there are host0, host1", 2, false},
		{pairCapture + " --between host0", "--between (host0): not two lanes", 2, false},
		{pairCapture + " --names host0=10.0.0.1", "--names (host0=10.0.0.1): not an address with a name", 2, false},
		{pairCapture + " --format json", "--format (json): not a format of uetlab decode", 2, true},
		{pairCapture + " --format mermai", "did you mean mermaid?", 2, false},
		{pairCapture + " --flat", "is a form of its own", 2, false},
	} {
		o := runLine(t, context.Background(), "decode --sequence "+c.flags)
		if o.code != c.code || !strings.Contains(o.err, c.err) || (o.out != "") != c.out {
			t.Errorf("%s: code %d, %s\n%s", c.flags, o.code, o.err, o.out)
		}
	}
	for _, flags := range []string{"--all", "--pdc a", "-o x", "--names 10.0.0.1=a", "--format svg"} {
		if o := runLine(t, context.Background(), "decode "+pairCapture+" "+flags); o.code != api.CodeUsage || !strings.Contains(o.err, "with --sequence") {
			t.Errorf("%s without --sequence: %+v", flags, o)
		}
	}
}

func TestSequenceCountsOtherPackets(t *testing.T) {
	arp := append(bytes.Repeat([]byte{0xFF}, 12), 8, 6, 0, 1)
	o := runLine(t, context.Background(), "decode --sequence "+fileOf(t, "in", pcapOf(1, vectorBytes(t, "frames", "frame_ipv4_udp_crc"), arp)))
	if o.code != 0 || strings.Count(o.out, "1 of 2 packets are not UET over IP and not drawn\n") != 1 {
		t.Errorf("%+v", o)
	}
}

func TestSequenceFormatsComplete(t *testing.T) {
	for words, want := range map[string]string{"decode --sequence --format ": "table mermaid svg", "decode --format ": "table json yaml"} {
		w := strings.Split(words, " ")
		if got := complete(context.Background(), w[:len(w)-1], ""); strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", words, got, want)
		}
	}
}
