package link

import (
	"math"
	"math/bits"
	"math/rand/v2"

	"github.com/uetlab/uetlab/internal/link/phy"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// codewords is the physical layer of the direction that begins at a port: RS(544,514) codewords lie on the line by virtual time since the
// run began and the line's nominal rate, whether there are frames or not, and whatever slows frames down. They come in groups of as many
// as are interleaved. What is drawn and what is counted:
//
//   - Groups with uncorrectable codewords are drawn: the distance to the next one, and how many of the group's codewords it is. Nothing
//     is drawn for good ones. A frame of which a bit lies in such a group is damaged.
//   - Wrong bits behind the decoder (BER) are drawn by damage; the codeword of each is counted as uncorrectable.
//   - Wrong symbols that the decoder corrects are expectations.
//
// State changes with frames, changes and runs alone. To read is to go on with a copy, so the moments at which somebody reads change nothing.
type codewords struct {
	rate   int64  // nominal, bits per second
	inter  uint64 // codewords in a group
	unit   uint64 // payload bits of a group, times picoseconds in a second
	origin int64  // ps at which the run began
	gen    rand.PCG
	seed   uint64 // of the places of wrong symbols

	up    bool
	prob  float64 // that a codeword is uncorrectable
	scale float64 // 1 / ln(1 - prob of a group), 0: none is
	fine  uint64  // groups in which coarse bad ones are expected
	pos   uint64  // the group up to which bad ones are counted
	next  uint64  // the next bad group
	bad   uint64  // codewords of it that are

	from uint64   // the group in which the figures last changed
	dist phy.Dist // since then
	was  PHY      // before it
	lost uint64   // uncorrectable codewords since then
	hit  [phy.MaxInterleave]uint64
	busy [2]int64 // of the frame under way: start, ps, and bits per second
}

// PHY are the statistics of a direction of a link since its node came up. Codewords are those that pass while the link is up.
type PHY struct {
	Codewords     uint64                      `json:"codewords"` // the sum of Histogram
	Corrected     uint64                      `json:"corrected"`
	Uncorrectable uint64                      `json:"uncorrectable"`
	Histogram     [phy.Correctable + 2]uint64 `json:"histogram"`     // codewords by wrong symbols: 0 to 15, and 16 or more
	SymbolErrors  uint64                      `json:"symbolErrors"`  // in codewords that were corrected
	CorrectedBits float64                     `json:"correctedBits"` // an expectation
	WrongBits     uint64                      `json:"wrongBits"`     // that frames were sent with, behind the decoder
	Flaps         uint64                      `json:"flaps"`         // how often the link went down
	Up            bool                        `json:"up"`
	Interleave    int                         `json:"interleave"` // codewords
	CodewordNs    float64                     `json:"codewordNs"` // how long one takes on the line
}

const (
	second = 1_000_000_000_000 // ps
	coarse = 1 << 14           // bad groups that are passed one by one, before they are counted in bulk
	noBad  = math.MaxUint64
	// leastWrong is how many wrong symbols an uncorrectable codeword gets. More are rare as long as few codewords are uncorrectable.
	leastWrong = phy.Correctable + 1
)

func newCodewords(cfg *Config) *codewords {
	n := cfg.Interleave
	if n == 0 {
		n = phy.Interleave(cfg.Rate)
	}
	return &codewords{rate: cfg.Rate, inter: uint64(n), unit: uint64(n) * phy.PayloadBits * second, up: true, next: noBad, dist: phy.Of(0), busy: [2]int64{0, cfg.Rate}}
}

// begin starts a run at now: the old line is counted up to here, and a new one begins.
func (c *codewords) begin(now vt.Time, gen rand.PCG) {
	c.fold(c.after(now, 0))
	c.origin, c.gen, c.pos, c.from = int64(now)*1000, gen, 0, 0
	c.seed = c.gen.Uint64()
	c.hit = [phy.MaxInterleave]uint64{}
	c.draw(0)
}

// end is the time up to which the line is taken, in ps: by what has been handled at now, and by frames.
func (c *codewords) end(now vt.Time, freePs int64) int64 {
	return max(int64(now)*1000-1000, freePs-1, c.origin) // a frame may start that little before the event
}

// after is the first group that is not begun at that time.
func (c *codewords) after(now vt.Time, freePs int64) uint64 {
	end := c.end(now, freePs)
	if end == c.origin {
		return c.from
	}
	return max(c.group(end)+1, c.from)
}

// set follows a change of the impairments at now.
func (c *codewords) set(now vt.Time, freePs int64, was, imp *Impair) {
	if imp.UCR == was.UCR && imp.RawBER == was.RawBER && imp.BER == was.BER && imp.Down == was.Down {
		return
	}
	e := c.after(now, freePs)
	c.fold(e)
	if imp.Down && !was.Down {
		c.was.Flaps++
	}
	raw := imp.RawBER
	if raw == 0 {
		raw = phy.Raw(imp.BER)
	}
	c.dist = phy.Of(raw)
	prob := imp.UCR
	if imp.RawBER > 0 {
		prob = 1 - (1-imp.UCR)*(1-c.dist.Tail)
	}
	fresh := prob != c.prob || !c.up && !imp.Down
	c.prob, c.up = prob, !imp.Down
	if fresh {
		c.chances()
		c.draw(e)
	}
}

// chances works out what follows from prob.
func (c *codewords) chances() {
	c.scale, c.fine = 0, noBad
	if group := -math.Expm1(float64(c.inter) * math.Log1p(-c.prob)); group > 0 {
		c.scale = 1 / math.Log1p(-group) // of certainty -0
		c.fine = uint64(min(coarse/group, 1<<62))
	}
}

// fold ends what is counted under the figures that hold, with group e as the first that is not.
func (c *codewords) fold(e uint64) {
	c.advance(e)
	c.was, c.from, c.lost = c.sum(e), e, 0
}

// sum gives the totals, with group e as the first that is not counted.
func (c *codewords) sum(e uint64) PHY {
	s := c.was
	if !c.up || e <= c.from {
		return s
	}
	n := (e - c.from) * c.inter
	lost := min(c.lost, n)
	symbols := uint64(0)
	for k, v := range c.dist.Spread(n - lost) {
		s.Histogram[k] += v
		symbols += uint64(k) * v
		if k > 0 {
			s.Corrected += v
		}
	}
	s.Histogram[phy.Correctable+1] += lost
	s.Codewords += n
	s.Uncorrectable += lost
	s.SymbolErrors += symbols
	s.CorrectedBits += float64(symbols) * c.dist.Bits
	return s
}

// draw draws the next bad group, from a given one on.
func (c *codewords) draw(from uint64) {
	c.pos = from
	if c.prob == 0 {
		c.next = noBad
		return
	}
	c.next = from + uint64(min(math.Log1p(-c.float())*c.scale, 1<<60))
	c.bad = 1
	if c.inter == 1 {
		return
	}
	u, n, p := c.float(), float64(c.inter), c.prob // how many of the group, one at least
	left := -math.Expm1(n * math.Log1p(-p))
	term := n * p * math.Pow(1-p, n-1)
	for u -= term / left; u >= 0 && c.bad < c.inter; u -= term / left {
		k := float64(c.bad)
		c.bad++
		if p == 1 {
			c.bad = c.inter
			return
		}
		term *= (n - k) / (k + 1) * p / (1 - p)
	}
}

func (c *codewords) float() float64 { return float64(c.gen.Uint64()>>11) / (1 << 53) }

// advance counts the bad groups before group to. Those of a long time without frames are counted in bulk, span by span, each twice as
// long as the one before: so the count follows from the time alone, and never falls.
func (c *codewords) advance(to uint64) {
	if to <= c.pos {
		return
	}
	if !c.up {
		c.pos = to
		return
	}
	start := c.pos
	fine := noBad - start
	if c.fine < fine {
		fine = c.fine
	}
	for stop := min(to, start+fine); c.next < stop; c.draw(c.next + 1) {
		c.lost += c.bad
	}
	if to-start > fine && c.next < to {
		for lo, n := start+fine, fine; lo < to; lo, n = lo+n, 2*n {
			whole := float64(n) * float64(c.inter)
			mean := whole * c.prob
			x := min(max(mean+math.Sqrt(mean*(1-c.prob))*math.Sqrt2*math.Erfinv(2*c.float()-1), 0), whole)
			if lo+n > to {
				x *= float64(to-lo) / float64(n)
			}
			c.lost += uint64(x)
		}
		c.draw(to)
	}
	c.pos = to
}

// group is the one that the line carries at ps.
func (c *codewords) group(ps int64) uint64 {
	hi, lo := bits.Mul64(uint64(max(ps-c.origin, 0)), uint64(c.rate))
	g, _ := bits.Div64(hi, lo, c.unit)
	return g
}

// start is when a group begins, in ps.
func (c *codewords) start(g uint64) int64 {
	hi, lo := bits.Mul64(g, c.unit)
	lo, carry := bits.Add64(lo, uint64(c.rate)-1, 0)
	ps, _ := bits.Div64(hi+carry, lo, uint64(c.rate))
	return c.origin + int64(ps)
}

// frame says that the line carries a frame from ps on, at so many bits per second.
func (c *codewords) frame(ps, rate int64) { c.busy = [2]int64{ps, rate} }

// at is when bit n after the frame's start begins, in ps.
func (c *codewords) at(n int64) int64 { return c.busy[0] + mulDiv(n, second, c.busy[1]) }

// bit is the one after the frame's start that the line carries at ps.
func (c *codewords) bit(ps int64) int64 { return mulDiv(ps-c.busy[0], c.busy[1], second) }

func mulDiv(a, b, by int64) int64 {
	hi, lo := bits.Mul64(uint64(max(a, 0)), uint64(b))
	q, _ := bits.Div64(hi, lo, uint64(by))
	return int64(q)
}

// wrong counts a wrong bit that has come through, n bits after the frame's start, and its codeword.
func (c *codewords) wrong(n int64) {
	c.was.WrongBits++
	ps := c.at(n)
	g := c.group(ps)
	lane := uint64(mulDiv(ps-c.start(g), c.rate, second)) / phy.SymbolBits % c.inter
	if c.hit[lane] != g+1 && c.up {
		c.hit[lane] = g + 1
		c.lost++
	}
}

// extent is the part of a frame on the line that can be damaged, in bits after its start: the frame and its FCS; of one that LLR protects
// the end of the preamble before it too, which the LLR word stands for. Ordered sets are all that the line carries of their frame.
type extent struct {
	frame       *Frame
	first, last int64
	zero        int64 // bit 0 of the frame's contents
	pad         int64 // bits of padding before the FCS
}

func extentOf(f *Frame) extent {
	if f.kind == kindSets { // nothing else is on the line
		return extent{f, 0, int64(8 * (len(f.B) - wire.EthLen)), -8 * wire.EthLen, 0}
	}
	x := extent{frame: f, zero: 64, pad: int64(8 * max(60-len(f.B), 0))} // behind the preamble
	x.first, x.last = x.zero, x.zero+int64(8*(len(f.B)+fcsLen))+x.pad
	if f.LLR != 0 {
		x.first -= preambleBits
	}
	return x
}

// content is the bit of the frame's contents that lies n bits after its start. What hits the padding shows in the FCS.
func (x *extent) content(n int64) int64 {
	n -= x.zero
	if end := int64(8 * len(x.frame.B)); n >= end && x.pad > 0 {
		n = end + max(n-end-x.pad, 0)
	}
	return n
}

// line is the way back from a bit of the contents.
func (x *extent) line(n int64) int64 {
	if n >= int64(8*len(x.frame.B)) {
		n += x.pad
	}
	return n + x.zero
}

// harm turns the bits of a frame that lie in bad groups. The frame lies on the line as said before. It is damaged then, even if turned bits
// come to nothing because a slow line, or padding, has several of them in one place.
func (c *codewords) harm(d *damage, x *extent) {
	last := c.group(c.at(x.last) - 1)
	c.advance(c.group(c.at(x.first)))
	hit := c.next <= last
	for c.next <= last {
		c.spoil(d, x)
		if c.next == last {
			break // the next frame may lie in it too
		}
		c.lost += c.bad
		c.draw(c.next + 1)
	}
	if f := x.frame; hit && f.Flip == 0 && wire.FCS(f.B) == f.FCS {
		d.turn(f, max(x.first-x.zero, 0))
	}
}

// spoil turns the bits of a frame that lie in the next bad group. Each bad codeword has its wrong symbols, one in every 34, of which one
// bit is wrong, at places that follow from seed and group; so two frames that share it see one codeword. A frame that none of them lies
// in gets one wrong bit where it overlaps the group: a decoder that fails marks all that its codewords carry.
func (c *codewords) spoil(d *damage, x *extent) {
	var gen rand.PCG
	gen.Seed(c.seed, c.next)
	begin := c.start(c.next)
	lo, hi := x.first, x.last
	if ps := c.at(x.first); ps < begin {
		lo = max(lo, c.bit(begin))
	}
	if end := c.start(c.next + 1); c.at(x.last) > end {
		hi = min(hi, c.bit(end-1)+1)
	}
	if hi <= lo {
		hi = lo + 1
	}
	skip := gen.Uint64() % c.inter
	turned := int64(-1)
	for k := range c.bad {
		lane := (skip + k) % c.inter
		for i := range uint64(leastWrong) {
			const each = phy.Symbols / leastWrong
			r := gen.Uint64()
			symbol, bit := i*each+r>>32%each, r&0xffffffff%phy.SymbolBits
			if symbol >= phy.Data {
				continue // parity: no frame sees it
			}
			n := c.bit(begin + mulDiv(int64((symbol*c.inter+lane)*phy.SymbolBits+bit), second, c.rate))
			if n >= lo && n < hi && n != turned {
				turned = n
				c.was.WrongBits++
				d.turn(x.frame, x.content(n))
			}
		}
	}
	if turned < 0 {
		c.was.WrongBits++
		d.turn(x.frame, x.content(lo+int64(gen.Uint64()%uint64(hi-lo))))
	}
}

// PHY gives the statistics of the direction that begins here, at now or when the last frame ends that has been sent: of groups that have
// passed whole, since more frames may lie in the one that has not.
func (p *Port) PHY(now vt.Time) PHY {
	c := *p.phy
	e := max(c.group(c.end(now, p.freePs)), c.from)
	for _, g := range c.hit {
		if g > e && c.lost > 0 {
			c.lost--
		}
	}
	c.advance(e)
	s := c.sum(e)
	s.Up, s.Interleave, s.CodewordNs = !p.imp.Down, int(c.inter), phy.PayloadBits*1e9/float64(c.rate)
	return s
}

// JoinLine says that the node comes up at now: its lines begin there.
func (p *Port) JoinLine(now vt.Time) {
	p.phy.origin = int64(now) * 1000
}
