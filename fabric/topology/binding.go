package topology

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"time"
)

// field is one key of a topology file. The tables of fields (table.go) are the one truth about keys: the decoder, the
// JSON schema and the printer all work from them.
type field struct {
	key      string
	doc      string
	required bool
	def      string // what holds when the key is absent, as it would be written
	to       binding
}

// binding ties a key to a field of a Spec.
type binding interface {
	pointer() any                   // the field, as the key of Spec.where
	decode(d *decoder, v value)     // check v and set the field
	schema(defs *schemaDefs) schema // what JSON schema says of v
	print() (any, bool)             // the field as plain YAML data; false when it says nothing
}

// text is a string of a given form.
type text struct {
	to      *string
	form    *pattern // nil: any
	why     string
	example string
}

func (b text) pointer() any       { return b.to }
func (b text) print() (any, bool) { return *b.to, *b.to != "" }

func (b text) decode(d *decoder, v value) {
	s, ok := d.text(v, b.example)
	if !ok {
		return
	}
	if b.form != nil && !b.form.MatchString(s) {
		d.form(v.at, v.what, s, b.why, "write it like "+b.example)
		return
	}
	*b.to = s
}

func (b text) schema(*schemaDefs) schema {
	s := schema{"type": "string"}
	if b.form != nil {
		s["pattern"] = b.form.String()
	}
	return s
}

// word is one of a few strings.
type word[T ~string] struct {
	to    *T
	valid []string
}

func (b word[T]) pointer() any       { return b.to }
func (b word[T]) print() (any, bool) { return string(*b.to), *b.to != "" }

func (b word[T]) decode(d *decoder, v value) {
	s, ok := d.text(v, b.valid[0])
	if !ok {
		return
	}
	for _, w := range b.valid {
		if w == s {
			*b.to = T(s)
			return
		}
	}
	d.form(v.at, v.what, s, "not one of "+strings.Join(b.valid, ", "), didYouMean(s, b.valid))
}

func (b word[T]) schema(*schemaDefs) schema { return schema{"type": "string", "enum": b.valid} }

// count is a whole number within bounds.
type count struct {
	to       *int
	min, max int
	even     bool
}

func (b count) pointer() any       { return b.to }
func (b count) print() (any, bool) { return *b.to, *b.to != 0 }

func (b count) decode(d *decoder, v value) {
	n, ok := d.integer(v)
	if !ok {
		return
	}
	if !n.IsInt64() || n.Int64() < int64(b.min) || n.Int64() > int64(b.max) {
		d.form(v.at, v.what, n.String(), "out of range", fmt.Sprintf("from %d to %d", b.min, b.max))
		return
	}
	*b.to = int(n.Int64())
	if b.even && *b.to%2 != 0 {
		d.form(v.at, v.what, n.String(), "odd; half of a switch's ports go down and half up", fmt.Sprintf("write %d or %d", *b.to-1, *b.to+1))
	}
}

func (b count) schema(*schemaDefs) schema {
	s := schema{"type": "integer", "minimum": b.min, "maximum": b.max}
	if b.even {
		s["multipleOf"] = 2
	}
	return s
}

// seed is any 64-bit number that JSON and YAML readers keep exactly.
type seed struct{ to **uint64 }

const maxSeed = 1<<53 - 1

func (b seed) pointer() any { return b.to }

func (b seed) print() (any, bool) {
	if *b.to == nil {
		return nil, false
	}
	return **b.to, true
}

func (b seed) decode(d *decoder, v value) {
	n, ok := d.integer(v)
	if !ok {
		return
	}
	if n.Sign() < 0 || !n.IsUint64() || n.Uint64() > maxSeed {
		d.form(v.at, v.what, n.String(), "out of range", fmt.Sprintf("from 0 to %d", uint64(maxSeed)))
		return
	}
	u := n.Uint64()
	*b.to = &u
}

func (b seed) schema(*schemaDefs) schema {
	return schema{"type": "integer", "minimum": 0, "maximum": uint64(maxSeed)}
}

// quantity is a number with a unit, in the measure's smallest unit.
type quantity[T ~int64] struct {
	to       *T
	measure  measure
	min, max T
}

func (b quantity[T]) pointer() any       { return b.to }
func (b quantity[T]) print() (any, bool) { return b.measure.format(int64(*b.to)), *b.to != 0 }

func (b quantity[T]) decode(d *decoder, v value) {
	if s, ok := d.text(v, b.measure.example); ok {
		if n, ok := d.quantity(v, s, b.measure, "", int64(b.min), int64(b.max)); ok {
			*b.to = T(n)
		}
	}
}

func (b quantity[T]) schema(*schemaDefs) schema {
	return schema{"type": "string", "pattern": "^" + b.measure.pattern() + "$"}
}

// span is a duration that may be zero, and may have a word for what no duration says.
type span struct {
	to       **time.Duration
	word     string // stands for wordIs; empty: none
	wordIs   time.Duration
	min, max time.Duration
}

func (b span) pointer() any { return b.to }

func (b span) print() (any, bool) {
	switch {
	case *b.to == nil:
		return nil, false
	case b.word != "" && **b.to == b.wordIs:
		return b.word, true
	}
	return durations.format(int64(**b.to)), true
}

func (b span) decode(d *decoder, v value) {
	s, ok := d.text(v, durations.example)
	if !ok {
		return
	}
	if b.word != "" && s == b.word {
		w := b.wordIs
		*b.to = &w
		return
	}
	if n, ok := d.quantity(v, s, durations, b.word, int64(b.min), int64(b.max)); ok {
		t := time.Duration(n)
		*b.to = &t
	}
}

func (b span) schema(*schemaDefs) schema {
	p := durations.pattern()
	if b.word != "" {
		p = "(" + b.word + "|" + p + ")"
	}
	return schema{"type": "string", "pattern": "^" + p + "$"}
}

// amount is a Size: bytes, a percentage of the plane BDP, or a word.
type amount struct {
	to        *Size
	auto      bool   // may be auto
	zero      string // how to write none, which is not possible when empty: none or 0B
	bytesOnly bool   // no percentage
	min, max  int64  // bytes; 0: 1 and maxBytes
}

const (
	maxBytes = int64(1) << 30
	maxPPM   = int64(1_000_000_000) // 100000%

	wordAuto = "auto"
	noBytes  = "0B"
)

func (b amount) pointer() any { return b.to }

func (b amount) print() (any, bool) {
	switch {
	case b.to.Auto:
		return wordAuto, true
	case b.to.None:
		return b.zero, true
	case b.to.PPM > 0:
		return percents.format(b.to.PPM), true
	}
	return sizes.format(b.to.Bytes), b.to.Bytes > 0
}

func (b amount) decode(d *decoder, v value) {
	s, ok := d.text(v, sizes.example)
	switch {
	case !ok:
	case b.auto && s == wordAuto:
		*b.to = Size{Auto: true}
	case b.zero != "" && s == b.zero:
		*b.to = Size{None: true}
	case strings.HasSuffix(s, "%") && !b.bytesOnly:
		if n, ok := d.quantity(v, s, percents, b.word(), b.least(0), maxPPM); ok {
			*b.to = Size{PPM: n, None: n == 0}
		}
	default:
		if n, ok := d.quantity(v, s, sizes, b.word(), b.least(b.min), cmp.Or(b.max, maxBytes)); ok {
			*b.to = Size{Bytes: n, None: n == 0}
		}
	}
}

// word is what someone may have misspelt.
func (b amount) word() string {
	if b.auto {
		return wordAuto
	}
	return strings.TrimSuffix(b.zero, noBytes)
}

func (b amount) least(lowest int64) int64 {
	if b.zero == noBytes {
		return lowest
	}
	return max(lowest, 1)
}

func (b amount) schema(*schemaDefs) schema {
	forms := []string{sizes.pattern()}
	if !b.bytesOnly {
		forms = append(forms, percents.pattern())
	}
	if b.auto {
		forms = append(forms, wordAuto)
	}
	if w := strings.TrimSuffix(b.zero, noBytes); w != "" {
		forms = append(forms, w)
	}
	return schema{"type": "string", "pattern": "^(" + strings.Join(forms, "|") + ")$"}
}

// prefix is an address range.
type prefix struct {
	to       *netip.Prefix
	v6       bool
	min, max int
}

func (b prefix) pointer() any       { return b.to }
func (b prefix) print() (any, bool) { return b.to.String(), b.to.IsValid() }

func (b prefix) example() string {
	if b.v6 {
		return defaultIPv6.String()
	}
	return defaultIPv4.String()
}

func (b prefix) pattern() string {
	if b.v6 {
		return `^[0-9a-fA-F:]+/[0-9]{1,3}$`
	}
	return `^[0-9]{1,3}(\.[0-9]{1,3}){3}/[0-9]{1,2}$`
}

func (b prefix) decode(d *decoder, v value) {
	s, ok := d.text(v, b.example())
	if !ok {
		return
	}
	if ok, _ := regexp.MatchString(b.pattern(), s); !ok {
		d.form(v.at, v.what, s, "not an address prefix", "write it like "+b.example())
		return
	}
	p, err := netip.ParsePrefix(s)
	switch {
	case err != nil || p.Addr().Is4() == b.v6 || p.Addr().Is4In6():
		d.meaning(v.at, v.what, s, "not an address prefix", "write it like "+b.example())
	case p != p.Masked():
		d.meaning(v.at, v.what, s, "has bits set beyond its length", fmt.Sprintf("did you mean %q?", p.Masked()))
	case p.Bits() < b.min || p.Bits() > b.max:
		d.meaning(v.at, v.what, s, "the wrong size", fmt.Sprintf("give a length from /%d to /%d", b.min, b.max))
	case !p.Addr().IsGlobalUnicast() || p.Addr().As16()[12] == 0 && !b.v6:
		d.meaning(v.at, v.what, s, "not unicast addresses", "write it like "+b.example())
	default:
		*b.to = p
	}
}

func (b prefix) schema(*schemaDefs) schema { return schema{"type": "string", "pattern": b.pattern()} }

// words is a list of strings.
type words struct{ to *[]string }

func (b words) pointer() any       { return b.to }
func (b words) print() (any, bool) { return *b.to, *b.to != nil }

func (b words) decode(d *decoder, v value) {
	items, ok := d.list(v, "[ip, addr]")
	if !ok {
		return
	}
	if len(items) == 0 {
		d.form(v.at, v.what, "", "empty", "leave the key out or write it like [ip, addr]")
		return
	}
	list := make([]string, 0, len(items))
	for _, item := range items {
		s, ok := d.text(item, "addr")
		if !ok {
			return
		}
		list = append(list, s)
	}
	*b.to = list
}

func (b words) schema(*schemaDefs) schema {
	return schema{"type": "array", "minItems": 1, "items": schema{"type": "string"}}
}
