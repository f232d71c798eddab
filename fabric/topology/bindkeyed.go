package topology

import (
	"fmt"
	"strconv"

	"github.com/uetlab/uetlab/internal/link"
)

// keyed is a binding with keys of its own, which assignments name after a dot.
type keyed interface {
	keys() []field
	canonical(key string) string // the key of the table that is meant
}

func (b object) keys() []field             { return b.to.fields() }
func (b object) canonical(k string) string { return k }

// queueMap is the section of a switch's queues: keys are their names or numbers.
type queueMap struct{ to *[link.NumQueues]QueueParams }

func (b queueMap) pointer() any { return b.to }

func (b queueMap) keys() []field {
	fields := make([]field, link.NumQueues)
	for q := range fields {
		fields[q] = field{key: queueName(q), doc: fmt.Sprintf("Queue %d of every port.", q), to: object{to: &b.to[q], name: "queue"}}
	}
	return fields
}

func (b queueMap) canonical(key string) string {
	if q, ok := queueNumber(key); ok {
		return queueName(q)
	}
	return key
}

func (b queueMap) decode(d *decoder, v value) {
	entries, _ := d.mappingOf(v, true)
	seen := map[int]bool{}
	for _, e := range entries {
		q, ok := queueNumber(e.key)
		if !ok {
			d.form(e.at, "key", e.val.what, "not a queue", didYouMean(e.key, queueWords()))
			continue
		}
		if seen[q] {
			d.meaning(e.at, "key", e.val.what, fmt.Sprintf("queue %d is given twice, by name and by number", q), "keep one of them")
			continue
		}
		seen[q] = true
		d.where[&b.to[q]] = e.val.at
		d.object(e.val, b.to[q].fields())
	}
}

func (b queueMap) schema(defs *schemaDefs) schema {
	ref := defs.ref("queue", b.to[0].fields())
	props := schema{}
	for _, key := range queueWords() {
		props[key] = ref
	}
	return schema{"type": "object", "properties": props, "additionalProperties": false}
}

func (b queueMap) print() (any, bool) {
	if *b.to == ([link.NumQueues]QueueParams{}) { // as nearly always
		return nil, false
	}
	p := printFields(b.keys())
	return p, len(p) > 0
}

// numbered is a section whose keys are the ports or the DSCPs.
type numbered struct {
	to      *[numDSCP]*int // as many ports as DSCPs
	name    string         // "a port"
	prefix  string         // of a key, before the number
	first   int            // number of the first one
	pattern *pattern
	item    func(**int) binding
	itemDoc string
	itemDef string
}

func (b numbered) pointer() any              { return b.to }
func (b numbered) canonical(k string) string { return k }

func (b numbered) keys() []field {
	fields := make([]field, len(b.to))
	for i := range fields {
		fields[i] = field{key: b.prefix + strconv.Itoa(b.first+i), doc: b.itemDoc, def: b.itemDef, to: b.item(&b.to[i])}
	}
	return fields
}

func (b numbered) decode(d *decoder, v value) {
	entries, _ := d.mappingOf(v, b.prefix == "")
	for _, e := range entries {
		if !b.pattern.MatchString(e.key) {
			d.form(e.at, "key", e.val.what, "not "+b.name, fmt.Sprintf("valid are %s%d to %s%d", b.prefix, b.first, b.prefix, b.first+len(b.to)-1))
			continue
		}
		n, _ := strconv.Atoi(e.key[len(b.prefix):])
		to := &b.to[n-b.first]
		d.where[to] = e.val.at
		b.item(to).decode(d, e.val)
	}
}

func (b numbered) schema(defs *schemaDefs) schema {
	return schema{"type": "object", "propertyNames": schema{"pattern": b.pattern.String()}, "additionalProperties": b.item(&b.to[0]).schema(defs)}
}

func (b numbered) print() (any, bool) {
	if *b.to == ([numDSCP]*int{}) {
		return nil, false
	}
	p := printFields(b.keys())
	return p, len(p) > 0
}

// either is a key that is a section of a switch and a word of an end point.
type either struct {
	section object
	word    binding
}

func (b either) pointer() any { return b.section.pointer() }

func (b either) decode(d *decoder, v value) {
	if isMapping(v.node) {
		b.section.decode(d, v)
		return
	}
	delete(d.where, b.section.pointer())
	d.where[b.word.pointer()] = v.at
	b.word.decode(d, v)
}

func (b either) schema(defs *schemaDefs) schema {
	return schema{"anyOf": []schema{b.section.schema(defs), b.word.schema(defs)}}
}

func (b either) print() (any, bool) {
	if v, says := b.section.print(); says {
		return v, true
	}
	return b.word.print()
}

// union is a key that is a section of a switch and another one of an end point; it has the keys of both.
type union struct{ a, b object }

func (u union) pointer() any    { return u.a.pointer() }
func (u union) fields() []field { return append(u.a.to.fields(), u.b.to.fields()...) }

func (u union) decode(d *decoder, v value) {
	d.where[u.b.pointer()] = v.at
	d.object(v, u.fields())
}

func (u union) schema(defs *schemaDefs) schema { return defs.object(u.fields()) }
func (u union) print() (any, bool)             { return object{to: u}.print() }
