package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/internal/nearest"
	"github.com/uetlab/uetlab/wire"
)

// Where the bytes of a packet begin, and whether they end in a link trailer.
const (
	layerGuess = "guess"
	layerFrame = "frame"
	layerUET   = "udp_payload"

	trailerAuto = "auto"
	trailerOn   = "on"
	trailerOff  = "off"
)

func decodeCommand() *cli.Command {
	return verb{name: "decode", args: "[FILE|-|HEX]", usage: "take packets of a capture file or of hex apart", max: -1,
		text: "FILE is pcap or pcapng, or text: hex, one packet a line, or a dump of xxd, hexdump -C or tshark -x. - is standard input.\n" +
			"HEX may have blanks, colons and 0x. Needs no lab and no rights. A capture that is cut is shown up to the cut, with exit\n" +
			"code 1. Packets that are wrong are shown as far as they are right, with a ! at what is not, and exit code 0.\n" +
			"--format json gives an array of packets with their layers; with --flat one object a line, whose keys are field names.\n" +
			"--sequence draws who sent what to whom and when, PSNs counted from the first of their PDC; -o FILE with --format svg is a picture.",
		examples: []string{"uetlab decode link.pcapng", "uetlab decode - --summary # standard input: a capture, or hex as tshark -x prints it",
			"uetlab decode 58080000010203041122334400000000 --layer udp_payload", "uetlab decode link.pcapng --count 1 --format yaml",
			"uetlab decode link.pcapng --flat --format json",
			"uetlab decode run.pcapng --sequence --between host0,host1", "uetlab decode run.pcapng --sequence --format svg -o run.svg"},
		flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "summary", Usage: "one line a packet"},
			&cli.BoolFlag{Name: "flat", Usage: "fields only, without layers, named as in the packet vectors"},
			choiceFlag("layer", "where a packet begins", layerGuess, layerFrame, layerUET),
			choiceFlag("trailer", "whether frames end in the link trailer", trailerAuto, trailerOn, trailerOff),
			&cli.IntFlag{Name: "native", Value: wire.ProtoNative, Usage: "IP protocol `NUMBER` of UET without UDP"},
			&cli.IntFlag{Name: "count", Usage: "stop after `N` packets"},
			&cli.StringFlag{Name: "tss-sdk", Usage: "decrypt with this secure domain key, `HEX`"},
			decodeFormatFlag(),
		}, sequenceFlags()...), run: runDecode}.command()
}

// choiceFlag is a flag with a few valid words; the first is the default.
func choiceFlag(name, what string, words ...string) cli.Flag {
	all := words[0]
	for _, w := range words[1:] {
		all += ", " + w
	}
	return &cli.StringFlag{Name: name, Value: words[0], Usage: what + ": " + all, Action: func(_ *cli.Context, s string) error {
		if slices.Contains(words, s) {
			return nil
		}
		e := usage("--%s (%s): not one of its words", name, s)
		if near := nearest.Word(s, words); near != "" {
			return e.WithHint("did you mean %s?", near)
		}
		return e.WithHint("valid are %s", all)
	}}
}

// decodeOptions is what the command line says about the packets.
type decodeOptions struct {
	layer, trailer string
	native         uint8
	count          int // 0: all
}

func decodeFlags(c *call) (o decodeOptions, err error) {
	o = decodeOptions{layer: c.String("layer"), trailer: c.String("trailer"), count: c.Int("count")}
	switch n := c.Int("native"); {
	case n < 1 || n > 254 || n == wire.ProtoUDP:
		return o, usage("--native (%d): not a protocol number for UET", n).WithHint("1 to 254 without 17; the lab's default is %d", wire.ProtoNative)
	case o.count < 0 || o.count == 0 && c.IsSet("count"):
		return o, usage("--count (%d): less than one packet", o.count).WithHint("leave it out for all")
	case c.String("tss-sdk") != "":
		return o, usage("--tss-sdk: TSS is not built yet").WithHint("leave it out: the header of a TSS packet is shown, the rest as ciphertext")
	case c.Bool("summary") && (c.Bool("flat") || c.String("format") != formatTable):
		return o, usage("--summary: is one line for people, without --flat and --format").WithHint("--format json has the line of each packet as \"summary\"")
	default:
		o.native = uint8(n)
	}
	return o, nil
}

// runDecode leaves the work to a goroutine, which may wait for standard input when a signal comes.
func runDecode(c *call) error {
	o, err := decodeFlags(c)
	if err != nil {
		return err
	}
	opt, diagram, err := sequenceOptions(c)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		if diagram {
			done <- c.sequence(o, opt)
		} else {
			done <- c.decode(o)
		}
	}()
	select {
	case err := <-done:
		return err
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	}
}

// decode prints all packets of the input.
func (c *call) decode(o decodeOptions) error {
	in, err := c.openPackets()
	if err != nil {
		return err
	}
	defer in.close()
	out := newPacketPrinter(c)
	foreign := 0
	for n := 1; o.count == 0 || n <= o.count; n++ {
		raw, err := in.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return errors.Join(out.flush(), inputError(in.name, err))
		}
		if raw.foreign {
			foreign++
		}
		if err := out.packet(o.take(n, raw)); err != nil {
			return err
		}
	}
	if err := out.end(); err != nil {
		return err
	}
	if foreign > 0 {
		return api.Errorf(api.CodeFailure, "decode %s: %d of the packets not of Ethernet", in.name, foreign).WithHint("capture on one interface, not on any")
	}
	return nil
}

// inputError adds to an error of the input what the user can do.
func inputError(name string, err error) error {
	var bad *hexError
	switch {
	case errors.As(err, &bad):
		return usage("decode %s: %w", name, err).WithHint("a line is a packet in hex, or a line of xxd, hexdump -C or tshark -x")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return api.Errorf(api.CodeFailure, "decode %s: %w", name, err).WithHint("the packets before are whole; the capture was cut off while it was written or copied")
	}
	return fmt.Errorf("decode %s: %w", name, err)
}

// decoded is a packet taken apart.
type decoded struct {
	raw   *rawPacket
	n     int    // from 1
	layer string // layerFrame or layerUET
	p     wire.Packet
}

// take takes a packet apart.
func (o *decodeOptions) take(n int, raw *rawPacket) *decoded {
	d := &decoded{raw: raw, n: n, layer: o.layer}
	opt := wire.Options{Native: o.native}
	cut := raw.length > len(raw.data) // the capture took the end off, and a trailer with it
	_, _, trailed := wire.SplitTrailer(raw.data)
	opt.Trailer = !cut && (o.trailer == trailerOn || o.trailer == trailerAuto && trailed)
	switch {
	case raw.foreign:
		d.p = wire.Packet{Frame: raw.data}
		return d
	case d.layer != layerGuess:
	case raw.frame || opt.Trailer || looksLikeFrame(raw.data):
		d.layer = layerFrame
	default:
		d.layer = layerUET
	}
	if d.layer == layerFrame {
		d.p = wire.Decode(raw.data, opt)
	} else {
		d.p = wire.DecodeUET(raw.data, opt)
		d.p.Frame = raw.data
	}
	return d
}

// looksLikeFrame guesses whether b begins with an Ethernet header: a known type with something behind it that fits, or
// bytes that no UET packet begins with.
func looksLikeFrame(b []byte) bool {
	t, body, err := wire.Network(b)
	if err != nil {
		return false
	}
	switch t {
	case wire.EtherIPv4:
		return len(body) > 0 && body[0]>>4 == 4
	case wire.EtherIPv6:
		return len(body) > 0 && body[0]>>4 == 6
	case wire.EtherARP:
		return len(body) >= 8 && body[0] == 0 && body[1] == 1
	case wire.EtherLLDP, wire.EtherMACControl, wire.EtherExperiment:
		return b[0]&1 == 1 // these frames go to group addresses
	}
	kind := wire.PDSType(b[0] >> 3)
	return kind.HeaderLen() == 0 && kind != wire.TypeTSS
}
