package capture

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"syscall"
)

// ErrClosed says that whoever read the output has gone, as when Wireshark stops a capture or head has seen enough. It is
// the normal end of a capture. A process that writes to its standard output sees it only if it ignores SIGPIPE.
var ErrClosed = errors.New("capture: the reader of the output is gone")

// Block types and options of pcapng (draft-ietf-opsawg-pcapng).
const (
	blockSection   = 0x0A0D0D0A
	blockInterface = 1
	blockStats     = 5
	blockPacket    = 6

	byteOrderMagic = 0x1A2B3C4D
	linkEthernet   = 1
	snapLen        = 262144

	optEnd         = 0
	optComment     = 1
	optHardware    = 2 // section
	optOS          = 3
	optUserAppl    = 4
	optIfName      = 2 // interface
	optIfDesc      = 3
	optIfTSResol   = 9
	optIfFilter    = 11
	optStatRecv    = 4 // statistics
	optStatDrop    = 5
	optStatDeliver = 8

	tsNanoseconds = 9 // 10^-9
)

// Writer writes a pcapng file: little-endian, one section, one interface per direction, times in nanoseconds. It is for
// one goroutine. After an error all calls return it.
type Writer struct {
	w    *bufio.Writer
	wall bool
	buf  []byte
	n    int     // interfaces
	last []int64 // time of each one's last packet
	err  error
}

// NewWriter writes the headers. wall stamps packets with wall-clock instead of virtual time; filter is the expression to
// note with the interfaces, or "". The error is ErrClosed or what w returned.
func NewWriter(w io.Writer, dirs []Direction, filter string, wall bool) (*Writer, error) {
	p := &Writer{w: bufio.NewWriterSize(w, 256<<10), wall: wall, n: len(dirs), last: make([]int64, len(dirs))}
	p.begin(blockSection)
	p.u32(byteOrderMagic)
	p.u32(1)                  // version 1.0
	p.u64(0xffffffffffffffff) // length of the section: unknown
	p.text(optHardware, runtime.GOARCH)
	p.text(optOS, runtime.GOOS)
	p.text(optUserAppl, "uetlab")
	p.end(true)
	for _, d := range dirs {
		p.begin(blockInterface)
		p.u32(linkEthernet)
		p.u32(snapLen)
		p.text(optIfName, d.Name())
		p.text(optIfDesc, d.Description)
		p.option(optIfTSResol, tsNanoseconds)
		if filter != "" {
			p.text(optIfFilter, "\x00"+filter) // kind 0: a pcap expression
		}
		p.end(true)
	}
	return p, p.Flush()
}

// Packet writes one packet. Data is not kept.
func (p *Writer) Packet(pk *Packet) error {
	if pk.Iface < 0 || pk.Iface >= p.n {
		return fmt.Errorf("capture: packet of interface %d, the file has %d", pk.Iface, p.n)
	}
	ts := stamp(pk, p.wall)
	p.last[pk.Iface] = ts
	data := pk.Data[:min(len(pk.Data), snapLen)]
	p.begin(blockPacket)
	p.u32(uint32(pk.Iface))
	p.time(ts)
	p.u32(uint32(len(data)))
	p.u32(uint32(max(pk.Len, len(pk.Data))))
	p.buf = append(p.buf, data...)
	p.pad()
	if pk.Comment != "" {
		p.text(optComment, pk.Comment)
	}
	p.end(pk.Comment != "")
	return p.err
}

// Flush hands everything to the reader.
func (p *Writer) Flush() error {
	if p.err == nil {
		p.err = pipeError(p.w.Flush())
	}
	return p.err
}

// Close ends the file with the counters of each interface and flushes. It does not close what lies below.
func (p *Writer) Close(stats []Stats) error {
	for i, s := range stats[:min(len(stats), p.n)] {
		p.begin(blockStats)
		p.u32(uint32(i))
		p.time(p.last[i])
		p.option(optStatRecv, binary.LittleEndian.AppendUint64(nil, s.Received)...)
		p.option(optStatDrop, binary.LittleEndian.AppendUint64(nil, s.Dropped)...)
		p.option(optStatDeliver, binary.LittleEndian.AppendUint64(nil, s.Delivered)...)
		p.end(true)
	}
	return p.Flush()
}

// pipeError makes the several errors of a closed pipe one.
func pipeError(err error) error {
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) {
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return err
}

func (p *Writer) begin(block uint32) {
	p.buf = p.buf[:0]
	p.u32(block)
	p.u32(0) // total length, known at the end
}

// end closes the block, and before it the options if there are any.
func (p *Writer) end(options bool) {
	if options {
		p.u32(optEnd)
	}
	n := uint32(len(p.buf) + 4)
	p.u32(n)
	binary.LittleEndian.PutUint32(p.buf[4:], n)
	if p.err == nil {
		_, err := p.w.Write(p.buf)
		p.err = pipeError(err)
	}
}

func (p *Writer) u32(v uint32) { p.buf = binary.LittleEndian.AppendUint32(p.buf, v) }
func (p *Writer) u64(v uint64) { p.buf = binary.LittleEndian.AppendUint64(p.buf, v) }

// time writes a time stamp as pcapng has it: the upper half first.
func (p *Writer) time(ns int64) {
	p.u32(uint32(uint64(ns) >> 32))
	p.u32(uint32(ns))
}

func (p *Writer) pad() {
	for len(p.buf)%4 != 0 {
		p.buf = append(p.buf, 0)
	}
}

func (p *Writer) option(code uint16, value ...byte) {
	p.buf = binary.LittleEndian.AppendUint16(p.buf, code)
	p.buf = binary.LittleEndian.AppendUint16(p.buf, uint16(len(value)))
	p.buf = append(p.buf, value...)
	p.pad()
}

// text writes an option of text, cut to what its length field can say.
func (p *Writer) text(code uint16, s string) { p.option(code, []byte(s[:min(len(s), 1<<16-1)])...) }

// stamp is the time that a packet bears, in ns: virtual, or on the wall.
func stamp(pk *Packet, wall bool) int64 {
	if wall {
		return pk.Wall
	}
	return max(int64(pk.Due), 0)
}
