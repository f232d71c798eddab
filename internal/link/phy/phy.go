// Package phy is the arithmetic of forward error correction by RS(544,514), which is always on under UET (uet-link-switch.md 12): how
// many symbols of a codeword are wrong for a bit error rate of the line, how often that is more than the decoder corrects, and what
// bit error rate is left behind it. It knows no line, no time and no chance: errors are independent, and all figures are expectations.
package phy

import "math"

// The code: 514 symbols of data and 30 of parity, 10 bits each, of which 15 may be wrong.
const (
	Symbols     = 544
	Data        = 514
	SymbolBits  = 10
	Correctable = 15
	PayloadBits = Data * SymbolBits    // bits that a codeword carries
	LineBits    = Symbols * SymbolBits // bits that it has on the line
)

// MaxInterleave is the largest number of codewords that are sent symbol by symbol in turn.
const MaxInterleave = 4

// Interleave is how many codewords a line of rate bits per second sends in turn: 1 up to 100 Gb/s, 2 up to 400 Gb/s, 4 above.
func Interleave(rate int64) int {
	switch {
	case rate <= 100e9:
		return 1
	case rate <= 400e9:
		return 2
	}
	return MaxInterleave
}

// Dist is what becomes of codewords at one bit error rate of the line.
type Dist struct {
	Correct [Correctable + 1]float64 // share of those with so many wrong symbols among the correctable ones; the sum is 1
	Tail    float64                  // probability that a codeword is uncorrectable
	Bits    float64                  // wrong bits in a wrong symbol
}

// Of gives the distribution for a bit error rate of the line, 0 to 0.5.
func Of(raw float64) (d Dist) {
	if raw <= 0 {
		d.Correct[0] = 1
		return d
	}
	b := binomial(raw)
	most := math.Inf(-1)
	for k := range d.Correct {
		most = max(most, b.log(k))
	}
	sum := 0.0
	for k := range d.Correct { // against the likeliest, lest all be 0 where next to no codeword is correctable
		d.Correct[k] = math.Exp(b.log(k) - most)
		sum += d.Correct[k]
	}
	for k := range d.Correct {
		d.Correct[k] /= sum
	}
	d.Tail = min(b.tail(func(int) float64 { return 1 }), 1)
	d.Bits = SymbolBits * raw / b.wrong
	return d
}

// Post is the bit error rate that is left behind the decoder: that of the line in the codewords which it cannot correct.
func Post(raw float64) float64 {
	if raw <= 0 {
		return 0
	}
	b := binomial(raw)
	return raw / b.wrong * b.tail(func(k int) float64 { return float64(k) / Symbols })
}

// Raw is the bit error rate of the line that leaves a given one, 0 to 0.5, behind the decoder.
func Raw(post float64) float64 {
	if post <= 0 {
		return 0
	}
	lo, hi := math.Log(1e-12), math.Log(0.5)
	for range 60 {
		if mid := (lo + hi) / 2; Post(math.Exp(mid)) < post {
			lo = mid
		} else {
			hi = mid
		}
	}
	return math.Exp(hi)
}

// symbols is the binomial distribution of wrong symbols in a codeword.
type symbols struct {
	wrong          float64 // probability that a symbol is
	logWrong, logR float64 // logarithms of it and of its opposite
}

func binomial(raw float64) symbols {
	right := SymbolBits * math.Log1p(-raw)
	wrong := -math.Expm1(right)
	return symbols{wrong, math.Log(wrong), right}
}

// log is the logarithm of the probability of k wrong symbols.
func (s symbols) log(k int) float64 {
	lg := func(n int) float64 { v, _ := math.Lgamma(float64(n + 1)); return v }
	return lg(Symbols) - lg(k) - lg(Symbols-k) + float64(k)*s.logWrong + float64(Symbols-k)*s.logR
}

// tail sums weighted probabilities of more wrong symbols than can be corrected.
func (s symbols) tail(weight func(k int) float64) (sum float64) {
	for k := Correctable + 1; k <= Symbols; k++ {
		p := math.Exp(s.log(k)) * weight(k)
		sum += p
		if p < sum*1e-18 && float64(k) > s.wrong*Symbols { // beyond the peak terms only fall
			break
		}
	}
	return sum
}

// Spread divides n correctable codewords by their number of wrong symbols. The sum is n, and no part ever falls while n grows: parts are
// rounded down, and what is left goes to whoever has the largest claim for one more (the method of D'Hondt).
func (d *Dist) Spread(n uint64) (parts [Correctable + 1]uint64) {
	left := int64(n)
	for k, p := range d.Correct {
		parts[k] = min(uint64(p*float64(n)), n)
		left -= int64(parts[k])
	}
	for ; left != 0; left -= sign(left) {
		best := 0
		claim := func(k int) float64 { return d.Correct[k] / float64(parts[k]+1) }
		for k := range parts {
			if left > 0 && claim(k) > claim(best) || left < 0 && parts[k] > parts[best] { // less than 0: of rounding
				best = k
			}
		}
		parts[best] += uint64(sign(left))
	}
	return parts
}

func sign(n int64) int64 {
	if n < 0 {
		return -1
	}
	return 1
}
