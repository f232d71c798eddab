package topology

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"

	"github.com/goccy/go-yaml/ast"

	"github.com/uetlab/uetlab/internal/link"
)

// Bindings that only the keys of a switch need.

const (
	numDSCP  = 64
	maxAlpha = 128

	wordOff = "off"
	wordAny = "any"
)

var (
	portKeyForm = lazily(`^eth([1-9]|[1-5][0-9]|6[0-4])$`)
	dscpKeyForm = lazily(`^([0-9]|[1-5][0-9]|6[0-3])$`)
)

// queueNames are the queues that a class of traffic is meant for, by number.
var queueNames = []string{"besteffort", "data", "trimmed", "control", "roce", "unreliable"}

// Queues by class.
const (
	queueBestEffort = iota
	queueData
	queueTrimmed
	queueControl
	queueRoCE
	queueUnreliable
)

func queueName(q int) string {
	if q < len(queueNames) {
		return queueNames[q]
	}
	return strconv.Itoa(q)
}

// queueNumber finds a queue by name or number.
func queueNumber(s string) (int, bool) {
	if q := slices.Index(queueNames, s); q >= 0 {
		return q, true
	}
	if len(s) == 1 && s[0] >= '0' && s[0] < '0'+link.NumQueues {
		return int(s[0] - '0'), true
	}
	return 0, false
}

// queueWords are all the ways to say a queue.
func queueWords() []string {
	words := slices.Clone(queueNames)
	for q := range link.NumQueues {
		words = append(words, strconv.Itoa(q))
	}
	return words
}

// truth is true or false.
type truth struct{ to **bool }

func (b truth) pointer() any { return b.to }

func (b truth) print() (any, bool) {
	if *b.to == nil {
		return nil, false
	}
	return **b.to, true
}

func (b truth) decode(d *decoder, v value) {
	n, ok := v.node.(*ast.BoolNode)
	if !ok {
		d.form(v.at, v.what, raw(v.node), describe(v.node)+", not true or false", "write true or false")
		return
	}
	val := n.Value
	*b.to = &val
}

func (b truth) schema(*schemaDefs) schema { return schema{"type": "boolean"} }

// number is a whole number within bounds that may be zero.
type number struct {
	to       **int
	min, max int
}

func (b number) pointer() any { return b.to }

func (b number) print() (any, bool) {
	if *b.to == nil {
		return nil, false
	}
	return **b.to, true
}

func (b number) decode(d *decoder, v value) {
	n, ok := d.integer(v)
	if !ok {
		return
	}
	if !n.IsInt64() || n.Int64() < int64(b.min) || n.Int64() > int64(b.max) {
		d.form(v.at, v.what, n.String(), "out of range", fmt.Sprintf("from %d to %d", b.min, b.max))
		return
	}
	i := int(n.Int64())
	*b.to = &i
}

func (b number) schema(*schemaDefs) schema {
	return schema{"type": "integer", "minimum": b.min, "maximum": b.max}
}

// ratio is a number, not necessarily whole, from 0 to max.
type ratio struct {
	to  **float64
	max float64
}

func (b ratio) pointer() any { return b.to }

func (b ratio) print() (any, bool) {
	if *b.to == nil {
		return nil, false
	}
	return literal(strconv.FormatFloat(**b.to, 'f', -1, 64)), true
}

func (b ratio) decode(d *decoder, v value) {
	var x float64
	switch n := v.node.(type) {
	case *ast.IntegerNode:
		x = asFloat(n)
	case *ast.FloatNode:
		x = n.Value
	default:
		d.form(v.at, v.what, raw(v.node), describe(v.node)+", not a number", "write it like 0.5")
		return
	}
	if !(x >= 0 && x <= b.max) {
		d.form(v.at, v.what, raw(v.node), "out of range", fmt.Sprintf("from 0 to %g", b.max))
		return
	}
	*b.to = &x
}

func asFloat(n *ast.IntegerNode) float64 {
	switch i := n.Value.(type) {
	case int64:
		return float64(i)
	case uint64:
		return float64(i)
	}
	return -1
}

func (b ratio) schema(*schemaDefs) schema {
	return schema{"type": "number", "minimum": 0, "maximum": b.max}
}

// share is a percentage of nothing but one, in millionths.
type share struct{ to **int64 }

func (b share) pointer() any { return b.to }

func (b share) print() (any, bool) {
	if *b.to == nil {
		return nil, false
	}
	return percents.format(**b.to), true
}

func (b share) decode(d *decoder, v value) {
	if s, ok := d.text(v, percents.example); ok {
		if n, ok := d.quantity(v, s, percents, "", 0, 1_000_000); ok {
			*b.to = &n
		}
	}
}

func (b share) schema(*schemaDefs) schema {
	return schema{"type": "string", "pattern": "^" + percents.pattern() + "$"}
}

// tpid is an EtherType, usually written in hexadecimal.
type tpid struct{ to *int }

func (b tpid) pointer() any       { return b.to }
func (b tpid) print() (any, bool) { return literal(fmt.Sprintf("0x%04X", *b.to)), *b.to != 0 }

func (b tpid) decode(d *decoder, v value) { count{to: b.to, min: minTPID, max: 0xffff}.decode(d, v) }
func (b tpid) schema(defs *schemaDefs) schema {
	return count{to: b.to, min: minTPID, max: 0xffff}.schema(defs)
}

// portRef is a port's name or a word for none.
type portRef struct {
	to   *string
	word string
}

func (b portRef) pointer() any       { return b.to }
func (b portRef) print() (any, bool) { return *b.to, *b.to != "" }

func (b portRef) decode(d *decoder, v value) {
	s, ok := d.text(v, "eth1")
	if !ok {
		return
	}
	if s != b.word && !portKeyForm.MatchString(s) {
		d.form(v.at, v.what, s, "not a port", "write it like eth1, or "+b.word)
		return
	}
	*b.to = s
}

func (b portRef) schema(*schemaDefs) schema {
	return schema{"type": "string", "anyOf": []schema{{"pattern": portKeyForm.String()}, {"const": b.word}}}
}

// queueRef is a queue's name or number.
type queueRef struct{ to **int }

func (b queueRef) pointer() any { return b.to }

func (b queueRef) print() (any, bool) {
	if *b.to == nil {
		return nil, false
	}
	if **b.to >= len(queueNames) {
		return **b.to, true
	}
	return queueName(**b.to), true
}

func (b queueRef) decode(d *decoder, v value) {
	if _, isInt := v.node.(*ast.IntegerNode); isInt {
		number{b.to, 0, link.NumQueues - 1}.decode(d, v)
		return
	}
	if _, isFloat := v.node.(*ast.FloatNode); isFloat {
		if n, ok := d.integer(v); ok {
			d.form(v.at, v.what, n.String(), "not a queue", didYouMean("", queueWords()))
		}
		return
	}
	s, ok := d.text(v, queueNames[0])
	if !ok {
		return
	}
	q := slices.Index(queueNames, s)
	if q < 0 {
		d.form(v.at, v.what, s, "not a queue", didYouMean(s, queueNames))
		return
	}
	*b.to = &q
}

func (b queueRef) schema(defs *schemaDefs) schema {
	return schema{"anyOf": []schema{number{b.to, 0, link.NumQueues - 1}.schema(defs), {"type": "string", "enum": queueNames}}}
}

// series is a list of strings of one kind; it may be empty unless it must not.
type series[T any] struct {
	to       *[]T
	example  string
	nonEmpty bool
	pattern  string                                        // of an item
	enum     []string                                      // or the items there are
	why      string                                        // what an item is not, when it is wrong
	parse    func(d *decoder, v value, s string) (T, bool) // of an item that has the form
	format   func(T) string
}

func (b series[T]) pointer() any { return b.to }

func (b series[T]) print() (any, bool) {
	list := make([]string, len(*b.to))
	for i, item := range *b.to {
		list[i] = b.format(item)
	}
	return list, *b.to != nil
}

func (b series[T]) decode(d *decoder, v value) {
	items, ok := d.list(v, b.example)
	if !ok {
		return
	}
	if len(items) == 0 && b.nonEmpty {
		d.form(v.at, v.what, "", "empty", "leave the key out or write it like "+b.example)
		return
	}
	list := make([]T, 0, len(items))
	seen := map[string]bool{}
	for _, item := range items {
		s, ok := d.text(item, b.example)
		if !ok {
			return
		}
		if !b.fits(s) {
			hint := "write it like " + b.example
			if b.enum != nil {
				hint = didYouMean(s, b.enum)
			}
			d.form(item.at, item.what, s, b.why, hint)
			return
		}
		if seen[s] {
			d.meaning(item.at, item.what, s, "given twice", "keep one of them")
			return
		}
		seen[s] = true
		parsed, ok := b.parse(d, item, s)
		if !ok {
			return
		}
		list = append(list, parsed)
	}
	*b.to = list
}

func (b series[T]) fits(s string) bool {
	if b.enum != nil {
		return slices.Contains(b.enum, s)
	}
	ok, _ := regexp.MatchString(b.pattern, s)
	return ok
}

func (b series[T]) schema(*schemaDefs) schema {
	item := schema{"type": "string"}
	if b.enum != nil {
		item["enum"] = b.enum
	} else {
		item["pattern"] = b.pattern
	}
	s := schema{"type": "array", "items": item}
	if b.nonEmpty {
		s["minItems"] = 1
	}
	return s
}

func itself(s string) string { return s }

func accept(_ *decoder, _ value, s string) (string, bool) { return s, true }

func wordList(to *[]string, valid []string) series[string] {
	return series[string]{to: to, example: "[" + valid[0] + ", " + valid[1] + "]", nonEmpty: true, enum: valid, why: "not one of the words known here", parse: accept, format: itself}
}

func portList(to *[]string) series[string] {
	return series[string]{to: to, example: "[eth1]", pattern: portKeyForm.String(), why: "not a port", parse: accept, format: itself}
}

func prefixList(to *[]netip.Prefix) series[netip.Prefix] {
	const example = "[10.0.0.0/24]"
	return series[netip.Prefix]{to: to, example: example, pattern: `^[0-9a-fA-F:.]+/[0-9]{1,3}$`, why: "not an address prefix", format: netip.Prefix.String,
		parse: func(d *decoder, v value, s string) (netip.Prefix, bool) {
			p, err := netip.ParsePrefix(s)
			switch {
			case err != nil || p.Addr().Is4In6():
				d.meaning(v.at, v.what, s, "not an address prefix", "write it like "+example)
				return p, false
			case p != p.Masked():
				d.meaning(v.at, v.what, s, "has bits set beyond its length", fmt.Sprintf("did you mean %q?", p.Masked()))
				return p, false
			}
			return p, true
		}}
}

// dscpList is a list of DSCPs.
type dscpList struct{ to *[]int }

func (b dscpList) pointer() any       { return b.to }
func (b dscpList) print() (any, bool) { return *b.to, *b.to != nil }

func (b dscpList) decode(d *decoder, v value) {
	items, ok := d.list(v, "[10, 12]")
	if !ok {
		return
	}
	list := make([]int, 0, len(items))
	for _, item := range items {
		var n *int
		number{&n, 0, numDSCP - 1}.decode(d, item)
		if n == nil {
			return
		}
		if slices.Contains(list, *n) {
			d.meaning(item.at, item.what, strconv.Itoa(*n), "given twice", "keep one of them")
			return
		}
		list = append(list, *n)
	}
	*b.to = list
}

func (b dscpList) schema(*schemaDefs) schema {
	return schema{"type": "array", "items": schema{"type": "integer", "minimum": 0, "maximum": numDSCP - 1}}
}
