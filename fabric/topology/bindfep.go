package topology

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/uetlab/uetlab/fep/cms"
	"github.com/uetlab/uetlab/fep/lb"
)

// Bindings of the keys of congestion management.

type numeric interface{ ~int | ~int64 | ~float64 }

// gauge is a number with a unit, kept in the smallest one, or a word. A word that is a zero ("0B") stands for all ways to write it.
type gauge[T numeric] struct {
	to       *T
	measure  measure
	min, max int64
	word     string // empty: none
	wordIs   T
}

func (b gauge[T]) pointer() any { return b.to }

func (b gauge[T]) print() (any, bool) {
	if b.word != "" && *b.to == b.wordIs {
		return b.word, true
	}
	return b.measure.format(int64(*b.to)), *b.to != 0
}

// none is how to write that nothing is wanted.
func (b gauge[T]) none() string {
	if b.wordIs < 0 {
		return b.word
	}
	return ""
}

func (b gauge[T]) zero() bool { return strings.HasPrefix(b.word, "0") }

func (b gauge[T]) decode(d *decoder, v value) {
	s, ok := d.text(v, b.measure.example)
	if !ok {
		return
	}
	if b.word != "" && s == b.word {
		*b.to = b.wordIs
		return
	}
	low, word := b.min, b.word
	if b.zero() {
		low, word = 0, ""
	}
	if n, ok := d.quantity(v, s, b.measure, word, low, b.max); ok {
		if *b.to = T(n); n == 0 {
			*b.to = b.wordIs
		}
	}
}

func (b gauge[T]) schema(*schemaDefs) schema {
	p := b.measure.pattern()
	if b.word != "" && !b.zero() {
		p = "(" + b.word + "|" + p + ")"
	}
	return schema{"type": "string", "pattern": "^" + p + "$"}
}

// factor is a plain number from min to max. Where it may be 0, which is kept as -1, a mechanism is off then.
type factor[T numeric] struct {
	to       *T
	min, max float64
	zero     bool
	scale    float64 // of what is kept; 0: 1
	whole    bool
}

func (b factor[T]) pointer() any { return b.to }

func (b factor[T]) print() (any, bool) {
	x := float64(*b.to)
	if b.scale != 0 {
		x /= b.scale
	}
	return literal(strconv.FormatFloat(max(x, 0), 'f', -1, 64)), x != 0
}

func (b factor[T]) decode(d *decoder, v value) {
	var x float64
	switch n := v.node.(type) {
	case *ast.IntegerNode:
		x = asFloat(n)
	case *ast.FloatNode:
		if x = n.Value; b.whole && x != math.Trunc(x) {
			d.form(v.at, v.what, raw(v.node), "not a whole number", "write digits only, e.g. 4")
			return
		}
	default:
		d.form(v.at, v.what, raw(v.node), describe(v.node)+", not a number", "write it like "+strconv.FormatFloat(max(b.min, min(b.max, 4)), 'g', -1, 64))
		return
	}
	zero := b.zero && x == 0
	if !(zero || x >= b.min && x <= b.max) {
		low := b.min
		if b.zero {
			low = 0
		}
		d.form(v.at, v.what, raw(v.node), "out of range", fmt.Sprintf("from %g to %g", low, b.max))
		return
	}
	if _, fraction := v.node.(*ast.FloatNode); fraction && b.whole {
		d.meaning(v.at, v.what, raw(v.node), "written as a fraction", fmt.Sprintf("write %g", x))
		return
	}
	if b.scale != 0 {
		x *= b.scale
	}
	if *b.to = T(x); zero {
		*b.to = -1
	}
}

func (b factor[T]) schema(*schemaDefs) schema {
	kind, low := "number", b.min
	if b.whole {
		kind = "integer"
	}
	if b.zero {
		low = 0
	}
	return schema{"type": kind, "minimum": low, "maximum": b.max}
}

// whole is a factor without fraction.
func whole[T ~int | ~int64](to *T, low, high int, zero bool) factor[T] {
	return factor[T]{to: to, min: float64(low), max: float64(high), zero: zero, whole: true}
}

// onOff is a switch, written as on or off; true and false say the same.
type onOff struct{ to **bool }

func (b onOff) pointer() any { return b.to }

func (b onOff) print() (any, bool) {
	if *b.to == nil {
		return nil, false
	}
	return map[bool]string{true: wordOn, false: wordOff}[**b.to], true
}

func (b onOff) decode(d *decoder, v value) {
	if _, isBool := v.node.(*ast.BoolNode); isBool {
		truth(b).decode(d, v)
		return
	}
	s, ok := d.text(v, wordOn)
	if !ok {
		return
	}
	on := s == wordOn
	if !on && s != wordOff {
		d.form(v.at, v.what, s, "neither on nor off", didYouMean(s, []string{wordOn, wordOff}))
		return
	}
	*b.to = &on
}

func (b onOff) schema(*schemaDefs) schema {
	return schema{"enum": []any{wordOn, wordOff, true, false}}
}

const wordOn = "on"

// balancer is the name of a load balancer: one of a few words, or mp-N.
type balancer struct{ to *string }

func (b balancer) pointer() any       { return b.to }
func (b balancer) print() (any, bool) { return *b.to, *b.to != "" }

func (b balancer) decode(d *decoder, v value) {
	s, ok := d.text(v, lbWords[0])
	if !ok {
		return
	}
	if !mpForm.MatchString(s) && !slices.Contains(lbWords, s) {
		d.form(v.at, v.what, s, "not a load balancer", didYouMean(s, lbWords))
		return
	}
	if _, err := lb.Parse(s); err != nil && !slices.Contains(lbWords, s) {
		d.meaning(v.at, v.what, s, "too few or too many paths", "from mp-1 to mp-256")
		return
	}
	*b.to = s
}

func (b balancer) schema(*schemaDefs) schema {
	return schema{"type": "string", "anyOf": []schema{{"enum": lbWords}, {"pattern": mpForm.String()}}}
}

var (
	mpForm      = lazily(`^mp-[0-9]{1,3}$`)
	variantForm = lazily(`^(` + variantSpec + `|(` + strings.Join(cms.Variants(), "|") + `)(,(` + strings.Join(cms.Variants(), "|") + `))*)$`)
)
