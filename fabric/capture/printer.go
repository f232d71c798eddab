package capture

import (
	"bufio"
	"io"
	"strconv"
	"time"

	"github.com/uetlab/uetlab/wire"
)

// Printer writes one readable line a packet:
//
//	00.000012345 host0>leaf0 IP 10.0.0.1.52321 > 10.0.0.2.4793: UET …
//
// with the number of a frame that link layer retry protects at the end, LLR 901, or LLR 901 again, and what is wrong with the frame.
// The time is virtual, in seconds and nanoseconds since the lab came up, or the time of day with wall. It is for one
// goroutine.
type Printer struct {
	w     *bufio.Writer
	names []string
	wall  bool
	opts  wire.Options
	line  []byte
}

// NewPrinter returns a Printer for the packets of these directions. opts tells the decoder about the lab (DSCPs, CRC);
// its Trailer must be false, packets come without.
func NewPrinter(w io.Writer, dirs []Direction, opts wire.Options, wall bool) *Printer {
	p := &Printer{w: bufio.NewWriter(w), wall: wall, opts: opts}
	for _, d := range dirs {
		p.names = append(p.names, d.Short())
	}
	return p
}

// Packet prints one line. The error is ErrClosed or what the writer returned.
func (p *Printer) Packet(pk *Packet) error {
	ns := stamp(pk, p.wall)
	b := p.line[:0]
	if p.wall {
		b = time.Unix(0, ns).AppendFormat(b, "15:04:05.000000000")
	} else {
		b = appendSeconds(b, ns)
	}
	b = append(append(append(b, ' '), p.names[pk.Iface]...), ' ')
	d := wire.Decode(pk.Data, p.opts)
	b = append(b, d.Summary()...)
	if pk.LLR>>28 == wire.LLREligible {
		b = strconv.AppendUint(append(b, " LLR "...), uint64(pk.LLR&0xFFFFF), 10)
		if uint8(pk.LLR>>20)&wire.LLRFlagReplay != 0 {
			b = append(b, " again"...)
		}
	}
	if pk.Comment != "" {
		b = append(append(append(b, " ["...), pk.Comment...), ']')
	}
	p.line = append(b, '\n')
	_, err := p.w.Write(p.line)
	return pipeError(err)
}

// Flush hands the lines to the reader.
func (p *Printer) Flush() error { return pipeError(p.w.Flush()) }

// appendSeconds writes ns as seconds of at least two digits and nine decimals.
func appendSeconds(b []byte, ns int64) []byte {
	sec, frac := ns/1e9, ns%1e9
	if sec < 10 {
		b = append(b, '0')
	}
	b = append(strconv.AppendInt(b, sec, 10), '.')
	for unit := int64(1e8); unit > 0; unit /= 10 {
		b = append(b, byte('0'+frac/unit%10))
	}
	return b
}
