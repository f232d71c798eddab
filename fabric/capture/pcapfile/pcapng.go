package pcapfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
)

// Blocks and options of pcapng (draft-ietf-opsawg-pcapng).
const (
	blockInterface = 1
	blockObsolete  = 2
	blockSimple    = 3
	blockEnhanced  = 6
	byteOrderMagic = 0x1A2B3C4D

	blockHead = 8  // type and length
	blockMin  = 12 // with the length again at the end

	optEnd      = 0
	optComment  = 1
	optName     = 2  // of an interface
	optTSResol  = 9  // its unit of time
	optTSOffset = 14 // seconds to add
)

// A unit is if_tsresol: 10^-n seconds, or 2^-(n-128) if n is above 127.
const (
	micro = 6
	nano  = 9
)

// iface is an interface of the section.
type iface struct {
	name   string
	link   uint16
	snap   uint32 // 0: packets are whole
	unit   uint8
	offset int64 // seconds
}

// block reads blocks up to the next packet.
func (p *Reader) block(pk *Packet) error {
	for {
		at := p.off
		kind, body, err := p.body(at)
		if err != nil {
			return err
		}
		found := false
		switch kind {
		case magicSection:
			p.ifaces = nil
		case blockInterface:
			err = p.addInterface(body)
		case blockEnhanced:
			found, err = true, p.enhanced(pk, body, false)
		case blockObsolete:
			found, err = true, p.enhanced(pk, body, true)
		case blockSimple:
			found, err = true, p.simple(pk, body)
		}
		if err != nil {
			return &Error{at, err}
		}
		if found {
			pk.Offset = at
			return nil
		}
	}
}

// body reads one block; of a section header it takes the byte order.
func (p *Reader) body(at int64) (kind uint32, body []byte, err error) {
	h, err := p.read(at, blockHead, "block header")
	if err != nil {
		return 0, nil, err
	}
	head := [blockHead]byte(h)
	kind = p.order.Uint32(head[:])
	if kind == magicSection { // reads the same in both orders
		if err := p.section(at); err != nil {
			return 0, nil, err
		}
	}
	n := p.order.Uint32(head[4:])
	if n < blockMin || n%4 != 0 || n > maxRecord {
		return 0, nil, &Error{at, fmt.Errorf("a block of %d bytes: the length is damaged", n)}
	}
	b, err := p.read(at, int(n)-blockHead, "block")
	if err != nil {
		return 0, nil, err
	}
	end := len(b) - 4
	if again := p.order.Uint32(b[end:]); again != n {
		return 0, nil, &Error{at, fmt.Errorf("a block of %d bytes that ends in the length %d", n, again)}
	}
	if kind == magicSection {
		if end < 16 {
			return 0, nil, &Error{at, fmt.Errorf("a section header of %d bytes", n)}
		}
		if major := p.order.Uint16(b[4:]); major != 1 {
			return 0, nil, &Error{at, fmt.Errorf("pcapng version %d: only 1 is known", major)}
		}
	}
	return kind, b[:end], nil
}

// section finds the byte order that begins.
func (p *Reader) section(at int64) error {
	m, err := p.in.Peek(4)
	if len(m) < 4 {
		_, err = p.read(at, 4, "section header") // words the error
		return err
	}
	switch {
	case binary.LittleEndian.Uint32(m) == byteOrderMagic:
		p.order = binary.LittleEndian
	case binary.BigEndian.Uint32(m) == byteOrderMagic:
		p.order = binary.BigEndian
	default:
		return &Error{at, fmt.Errorf("a section header with byte-order magic %x", m)}
	}
	return err
}

func (p *Reader) addInterface(b []byte) error {
	if len(b) < 8 {
		return fmt.Errorf("an interface description of %d bytes", len(b))
	}
	i := iface{link: p.order.Uint16(b), snap: p.order.Uint32(b[4:]), unit: micro}
	p.options(b[8:], func(code uint16, v []byte) {
		switch {
		case code == optName:
			i.name = string(bytes.TrimRight(v, "\x00"))
		case code == optTSResol && len(v) == 1:
			i.unit = v[0]
		case code == optTSOffset && len(v) == 8:
			i.offset = int64(p.order.Uint64(v))
		}
	})
	p.ifaces = append(p.ifaces, i)
	return nil
}

// enhanced takes an enhanced packet block, or the obsolete packet block, whose interface has 16 bits.
func (p *Reader) enhanced(pk *Packet, b []byte, obsolete bool) error {
	if len(b) < 20 {
		return fmt.Errorf("a packet block of %d bytes", len(b))
	}
	index := p.order.Uint32(b)
	if obsolete {
		index = uint32(p.order.Uint16(b))
	}
	if uint64(index) >= uint64(len(p.ifaces)) {
		return fmt.Errorf("a packet of interface %d, the section has %d", index, len(p.ifaces))
	}
	i := &p.ifaces[index]
	units := uint64(p.order.Uint32(b[4:]))<<32 | uint64(p.order.Uint32(b[8:]))
	n, length := p.order.Uint32(b[12:]), p.order.Uint32(b[16:])
	if uint64(n) > uint64(len(b)-20) {
		return fmt.Errorf("a packet of %d bytes in a block with room for %d", n, len(b)-20)
	}
	*pk = Packet{Iface: i.name, LinkType: i.link, Timed: true, Time: i.nanos(units), Len: int(max(length, n)), Data: b[20 : 20+n]}
	rest := b[20+n:]
	rest = rest[min(len(rest), int(-n&3)):]
	p.options(rest, func(code uint16, v []byte) {
		if code == optComment && pk.Comment == "" {
			pk.Comment = string(v)
		}
	})
	return nil
}

func (p *Reader) simple(pk *Packet, b []byte) error {
	if len(b) < 4 {
		return fmt.Errorf("a simple packet block of %d bytes", len(b))
	}
	if len(p.ifaces) == 0 {
		return fmt.Errorf("a simple packet block before any interface")
	}
	i := &p.ifaces[0]
	length := p.order.Uint32(b)
	n := length
	if i.snap > 0 {
		n = min(n, i.snap)
	}
	if uint64(n) > uint64(len(b)-4) {
		return fmt.Errorf("a packet of %d bytes in a block with room for %d", n, len(b)-4)
	}
	*pk = Packet{Iface: i.name, LinkType: i.link, Len: int(length), Data: b[4 : 4+n]}
	return nil
}

// options calls f for each whole option. What is damaged in them ends them: the packet is sound without.
func (p *Reader) options(b []byte, f func(code uint16, v []byte)) {
	for len(b) >= 4 {
		code, n := p.order.Uint16(b), int(p.order.Uint16(b[2:]))
		if code == optEnd || n > len(b)-4 {
			return
		}
		f(code, b[4:4+n])
		b = b[min(len(b), 4+(n+3)&^3):]
	}
}

// nanos turns a time of the interface into ns, rounded down and cut to an int64.
func (i *iface) nanos(units uint64) int64 {
	sec, frac := uint64(0), units
	per := uint64(1) // units in a second
	switch n := i.unit & 0x7F; {
	case i.unit > 127 && n > 63 || i.unit < 128 && n > 19:
		return i.plus(0, 0) // finer than 64 bits can count: less than a second
	case i.unit > 127:
		per <<= n
	default:
		for range n {
			per *= 10
		}
	}
	sec, frac = units/per, units%per
	hi, lo := bits.Mul64(frac, 1e9)
	ns, _ := bits.Div64(hi, lo, per) // frac < per, so the quotient is below 1e9
	return i.plus(sec, int64(ns))
}

func (i *iface) plus(sec uint64, ns int64) int64 {
	const limit = math.MaxInt64 / 1_000_000_000
	if sec > limit {
		return math.MaxInt64
	}
	if i.offset > limit || i.offset < -limit {
		return 0 // an offset of centuries is damage
	}
	if total := int64(sec) + i.offset; total > -limit && total < limit {
		return total*1e9 + ns
	}
	return math.MaxInt64
}
