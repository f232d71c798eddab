// Package pcapfile reads packets out of capture files, classic pcap and pcapng, one after the other from a stream.
//
// It takes times in micro- and nanoseconds, both byte orders, and of pcapng several sections and interfaces, the
// resolution and offset of their times, and the enhanced, simple and obsolete packet blocks; other blocks are passed over.
// It does not look into packets, write files (package capture does), seek, or unpack compressed files. What it reads is
// not trusted: no length is believed before the bytes have come.
package pcapfile

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// LinkEthernet is the link type of Ethernet frames (the LINKTYPE_ registry of pcap).
const LinkEthernet = 1

// ErrFormat says that a stream is neither pcap nor pcapng.
var ErrFormat = errors.New("neither pcap nor pcapng")

// Error says what is wrong with a capture file, and where. It wraps io.ErrUnexpectedEOF where the file is cut.
type Error struct {
	Offset int64 // in bytes, of the record or block that is wrong
	Err    error
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("capture file, offset %d: %v", e.Offset, e.Err) }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Packet is a captured packet.
type Packet struct {
	Offset   int64  // of its record or block in the file
	Iface    string // name of its interface, or ""
	LinkType uint16 // LinkEthernet, or another of the registry
	Timed    bool   // Time is known: simple packet blocks have none
	Time     int64  // ns since the epoch of the file; cut to what an int64 holds
	Len      int    // length on the wire; Data may be less
	Data     []byte // valid until the next call of Next
	Comment  string // the first comment, or ""
}

// maxRecord bounds a record or block, in bytes: beyond it a length is taken for damage.
const maxRecord = 16 << 20

// Magic numbers, as they stand in a file of the reader's byte order.
const (
	magicMicro   = 0xA1B2C3D4
	magicNano    = 0xA1B23C4D
	magicSection = 0x0A0D0D0A
)

// Is tells a capture file by its first 4 bytes.
func Is(head []byte) bool {
	if len(head) < 4 {
		return false
	}
	_, _, ok := format(head)
	return ok
}

// format finds the byte order and the magic number. The order of a pcapng section is not known yet.
func format(head []byte) (order binary.ByteOrder, magic uint32, ok bool) {
	for _, o := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		switch m := o.Uint32(head); m {
		case magicMicro, magicNano, magicSection:
			return o, m, true
		}
	}
	return nil, 0, false
}

// Reader reads a capture file. It is for one goroutine.
type Reader struct {
	in     *bufio.Reader
	off    int64 // of the next byte
	order  binary.ByteOrder
	next   func(*Packet) error
	buf    bytes.Buffer
	ifaces []iface // of the section; classic pcap has one
	err    error
}

// NewReader looks at the beginning of a file. The error wraps ErrFormat if it is not a capture, else it is an *Error or
// what r returned.
func NewReader(r io.Reader) (*Reader, error) {
	p := &Reader{in: bufio.NewReaderSize(r, 64<<10)}
	head, err := p.in.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(head) < 4 {
		return nil, fmt.Errorf("%d bytes: %w", len(head), ErrFormat)
	}
	order, magic, ok := format(head)
	if !ok {
		return nil, fmt.Errorf("begins with %x: %w", head, ErrFormat)
	}
	p.order = order
	if magic == magicSection {
		p.next = p.block
		return p, nil
	}
	return p, p.classic(magic)
}

// Next reads one packet; its Data is valid until the next call. The error is io.EOF at the end of a whole file, an *Error
// where the file is cut or damaged, or that of the stream. After an error all calls return it.
func (p *Reader) Next() (*Packet, error) {
	if p.err != nil {
		return nil, p.err
	}
	pk := &Packet{}
	if p.err = p.next(pk); p.err != nil {
		return nil, p.err
	}
	return pk, nil
}

// Interfaces are the names of the interfaces that the section has described so far, "" for one without: those that have no
// packet too.
func (p *Reader) Interfaces() []string {
	var names []string
	for i := range p.ifaces {
		names = append(names, p.ifaces[i].name)
	}
	return names
}

// read gives the next n bytes, valid until it is called again. Memory grows with what has come, not with n. at is where
// the record began.
func (p *Reader) read(at int64, n int, what string) ([]byte, error) {
	p.buf.Reset()
	got, err := io.CopyN(&p.buf, p.in, int64(n))
	p.off += got
	switch {
	case err == nil:
		return p.buf.Bytes(), nil
	case !errors.Is(err, io.EOF):
		return nil, err
	case got == 0 && p.off == at:
		return nil, io.EOF
	}
	return nil, &Error{at, fmt.Errorf("cut in a %s, %d bytes are missing: %w", what, int64(n)-got, io.ErrUnexpectedEOF)}
}

// Of classic pcap.
const (
	fileHeader   = 24
	recordHeader = 16
)

// classic reads the header of a pcap file.
func (p *Reader) classic(magic uint32) error {
	h, err := p.read(0, fileHeader, "file header")
	if err != nil {
		return err
	}
	if major := p.order.Uint16(h[4:]); major != 2 {
		return &Error{0, fmt.Errorf("pcap version %d: only 2 is known", major)}
	}
	i := iface{link: uint16(p.order.Uint32(h[20:])), unit: micro} // above the type stand bits about the FCS
	if magic == magicNano {
		i.unit = nano
	}
	p.ifaces, p.next = []iface{i}, p.record
	return nil
}

// record reads a packet of a pcap file.
func (p *Reader) record(pk *Packet) error {
	at := p.off
	h, err := p.read(at, recordHeader, "packet header")
	if err != nil {
		return err
	}
	sec, frac := p.order.Uint32(h), p.order.Uint32(h[4:])
	n, length := p.order.Uint32(h[8:]), p.order.Uint32(h[12:])
	if n > maxRecord {
		return &Error{at, fmt.Errorf("a packet of %d bytes: the length is damaged", n)}
	}
	ns := int64(frac)
	if p.ifaces[0].unit == micro {
		ns *= 1000
	}
	*pk = Packet{Offset: at, LinkType: p.ifaces[0].link, Timed: true, Time: int64(sec)*1e9 + ns, Len: int(max(length, n))}
	if n > 0 {
		pk.Data, err = p.read(at, int(n), "packet")
	}
	return err
}
