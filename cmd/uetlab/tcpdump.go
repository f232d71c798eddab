package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/api"
)

func tcpdumpCommand() *cli.Command {
	return verb{name: "tcpdump", args: "LINK [FILTER…]", usage: "show or save the packets of a link", min: 1, max: -1,
		text: "Prints one line a packet, with its UET fields; with -w writes pcapng, one interface per direction, that Wireshark opens.\n" +
			"Frames that link layer retry protects show their number, LLR 901, or LLR 901 again.\n" +
			"Packets are stamped with the virtual time at which their last bit arrives, and come in that order. FILTER is a pcap\n" +
			"filter expression. Ends with Ctrl-C, or after -c packets.",
		examples: []string{"uetlab tcpdump leaf0-spine0", "uetlab tcpdump leaf0-spine0 -c 20 udp port 4793", "uetlab tcpdump leaf0:eth3 -w link.pcapng",
			"uetlab tcpdump leaf0-spine0 -A -w - 'host 10.0.0.2' | tshark -r -"},
		flags: []cli.Flag{
			&cli.StringFlag{Name: "w", Usage: "write pcapng to `FILE`; - is standard output"},
			&cli.IntFlag{Name: "c", Usage: "stop after `N` packets"},
			&cli.BoolFlag{Name: "A", Usage: "only what end A of the link receives"},
			&cli.BoolFlag{Name: "B", Usage: "only what end B of the link receives"},
			&cli.BoolFlag{Name: "trailers", Usage: "with -w: leave the link trailer at the end of frames, as it passes the veth pair"},
			&cli.BoolFlag{Name: "wall", Usage: "stamp packets with wall time in place of virtual time"},
			nameFlag(),
		}, run: runTcpdump}.command()
}

func captureRequest(c *call) (api.CaptureRequest, error) {
	req := api.CaptureRequest{Link: c.arg(0), Filter: strings.Join(c.args[1:], " "), Count: c.Int("c"), Wall: c.Bool("wall"), Trailer: c.Bool("trailers"), Format: api.FormatText}
	if c.String("w") != "" {
		req.Format = api.FormatPcapng
	}
	switch a, b := c.Bool("A"), c.Bool("B"); {
	case a && !b:
		req.Side = api.SideA
	case b && !a:
		req.Side = api.SideB
	}
	if req.Trailer && c.String("w") == "" {
		return req, usage("--trailers: lines show what it says anyhow").WithHint("give a file with -w")
	}
	if req.Count < 0 {
		return req, usage("-c (%d): less than no packet", req.Count).WithHint("leave it out to go on until Ctrl-C")
	}
	if c.String("w") == "-" && terminal(c.out) {
		return req, usage("-w -: standard output is a terminal").WithHint("uetlab tcpdump %s -w - | wireshark -k -i -", req.Link)
	}
	return req, nil
}

func runTcpdump(c *call) error {
	req, err := captureRequest(c)
	if err != nil {
		return err
	}
	cl, d, err := c.client()
	if err != nil {
		return err
	}
	stream, err := cl.Capture(c.ctx, req)
	if err != nil {
		return explain(d, err)
	}
	defer stream.Close()
	if req.Format == api.FormatText {
		err = copyLines(c.out, stream)
	} else {
		err = c.save(stream)
	}
	var sig stopped
	if errors.As(context.Cause(c.ctx), &sig) { // the way to end a capture
		return nil
	}
	return err
}

// save writes a pcapng stream to the file of -w.
func (c *call) save(stream io.Reader) error {
	name := c.String("w")
	if name == "-" {
		_, err := copyBlocks(c.out, stream)
		return err
	}
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("-w: %w", err)
	}
	packets, err := copyBlocks(f, stream)
	c.note("%d packets written to %s", packets, name)
	return errors.Join(err, f.Close())
}

// copyLines copies whole lines as they come.
func copyLines(w io.Writer, r io.Reader) error {
	in := bufio.NewReader(r)
	for {
		l, err := in.ReadBytes('\n')
		if err == nil {
			_, err = w.Write(l)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Of pcapng: the block type of a packet, and bounds on a block's length.
const (
	packetBlock = 6
	minBlock    = 12
	maxBlock    = 16 << 20
)

// copyBlocks copies whole pcapng blocks as they come, so that a file is sound wherever the stream is cut, and counts
// packets.
func copyBlocks(w io.Writer, r io.Reader) (int, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	buf := make([]byte, 0, 16<<10)
	packets := 0
	for {
		head, err := in.Peek(8)
		if errors.Is(err, io.EOF) && len(head) == 0 {
			return packets, nil
		}
		if err != nil {
			return packets, fmt.Errorf("capture: stream ended: %w", err)
		}
		kind, n := binary.LittleEndian.Uint32(head), int(binary.LittleEndian.Uint32(head[4:]))
		if n < minBlock || n > maxBlock || n%4 != 0 {
			return packets, fmt.Errorf("capture: a block of %d bytes: not pcapng", n)
		}
		buf = append(buf[:0], make([]byte, n)...)
		if _, err := io.ReadFull(in, buf); err != nil {
			return packets, fmt.Errorf("capture: stream ended: %w", err)
		}
		if _, err := w.Write(buf); err != nil {
			return packets, err
		}
		if kind == packetBlock {
			packets++
		}
	}
}
