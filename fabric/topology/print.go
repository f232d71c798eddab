package topology

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// pairs is a mapping that keeps the order of its keys.
type pairs []pair

// literal is printed as it is.
type literal string

type pair struct {
	key string
	val any // pairs, []any, []string, []int, string, literal, bool, int or uint64
}

// printFields gives the fields that say something.
func printFields(fields []field) pairs {
	var p pairs
	for _, f := range fields {
		if v, says := f.to.print(); says {
			p = append(p, pair{f.key, v})
		}
	}
	return p
}

// YAML writes the topology as a file that Parse reads back to the same Spec. Comments of the original are lost.
func (s *Spec) YAML() []byte {
	var b strings.Builder
	for _, p := range printFields(s.fields()) {
		writePair(&b, "", p)
	}
	return []byte(b.String())
}

// writePair writes one key: in a line when nothing below it nests, else as a block.
func writePair(b *strings.Builder, indent string, p pair) {
	fmt.Fprintf(b, "%s%s:", indent, scalar(p.key))
	switch v := p.val.(type) {
	case pairs:
		if !v.flat() {
			b.WriteByte('\n')
			for _, sub := range v {
				writePair(b, indent+"  ", sub)
			}
			return
		}
	case []any:
		b.WriteByte('\n')
		for _, item := range v {
			fmt.Fprintf(b, "%s  - %s\n", indent, inline(item))
		}
		return
	}
	fmt.Fprintf(b, " %s\n", inline(p.val))
}

func (p pairs) flat() bool {
	for _, e := range p {
		switch e.val.(type) {
		case pairs, []any:
			return false
		}
	}
	return true
}

func inline(v any) string {
	switch v := v.(type) {
	case pairs:
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = scalar(e.key) + ": " + inline(e.val)
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []string:
		parts := make([]string, len(v))
		for i, s := range v {
			parts[i] = scalar(s)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case []int:
		parts := make([]string, len(v))
		for i, n := range v {
			parts[i] = strconv.Itoa(n)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case string:
		return scalar(v)
	}
	return fmt.Sprint(v)
}

var (
	plainForm = lazily(`^([A-Za-z][A-Za-z0-9._/-]*(:[A-Za-z0-9.]+)?|[0-9]+(\.[0-9]+)?(%|[A-Za-z]{1,4})|[0-9]{1,3}(\.[0-9]{1,3}){3}/[0-9]{1,2})$`)
	notPlain  = lazily(`^(?i:true|false|null|yes|no|on|off|y|n|[0-9]+e)$`)
)

// scalar quotes a string wherever YAML might read it as something else.
func scalar(s string) string {
	if plainForm.MatchString(s) && !notPlain.MatchString(s) {
		return s
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic("topology: string cannot be written: " + err.Error()) // no string fails
	}
	return strings.TrimSuffix(b.String(), "\n")
}
