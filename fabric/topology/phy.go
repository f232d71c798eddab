package topology

import (
	"strconv"

	"github.com/uetlab/uetlab/internal/link"
)

// FECParams describe the forward error correction of a link.
type FECParams struct {
	Interleave int // codewords that are sent in turn: 1, 2 or 4, -1 for auto; default auto: 1 up to 100 Gb/s, 2 up to 400 Gb/s, 4 above
}

const autoInterleave = -1

func (p *FECParams) fields() []field {
	return []field{{key: "interleave", doc: "Codewords that are sent in turn: 1, 2, 4, or auto: 1 up to 100Gbps, 2 up to 400Gbps, 4 above.", def: wordAuto, to: interleave{&p.Interleave}}}
}

// interleave is a number of codewords, or auto.
type interleave struct{ to *int }

func (b interleave) pointer() any { return b.to }

func (b interleave) print() (any, bool) {
	if *b.to == autoInterleave {
		return wordAuto, true
	}
	return *b.to, *b.to != 0
}

func (b interleave) decode(d *decoder, v value) {
	switch s := raw(v.node); s {
	case wordAuto:
		*b.to = autoInterleave
	case "1", "2", "4":
		*b.to, _ = strconv.Atoi(s)
	default:
		d.form(v.at, v.what, s, "not a number of codewords that are sent in turn", "auto, 1, 2 or 4")
	}
}

func (b interleave) schema(*schemaDefs) schema { return schema{"enum": []any{wordAuto, 1, 2, 4}} }

// phy works out what is said of FEC and of the line below it.
func (p *LinkParams) phy() (y PHY) {
	if p.UCR != nil {
		y.UCR = *p.UCR
	}
	if p.RawBER != nil {
		y.RawBER = *p.RawBER
	}
	y.Interleave = max(p.FEC.Interleave, 0)
	return y
}

// Impair is what is wrong with both directions of the link from the start.
func (l *Link) Impair() link.Impair {
	return link.Impair{BER: l.BER, UCR: l.UCR, RawBER: l.RawBER}
}

// Impair is what is wrong with what the port sends from the start.
func (q *Port) Impair() link.Impair {
	return link.Impair{BER: q.BER, UCR: q.UCR, RawBER: q.RawBER}
}
