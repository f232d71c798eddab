package topology

import (
	"fmt"
	"strings"
)

// fielder is a part of a Spec with a table of keys.
type fielder interface{ fields() []field }

// object is a nested section.
type object struct {
	to   fielder
	name string // under which the JSON schema has it once; empty: written out
}

func (b object) pointer() any               { return b.to }
func (b object) decode(d *decoder, v value) { d.object(v, b.to.fields()) }

func (b object) schema(defs *schemaDefs) schema {
	if b.name != "" {
		return defs.ref(b.name, b.to.fields())
	}
	return defs.object(b.to.fields())
}

func (b object) print() (any, bool) {
	p := printFields(b.to.fields())
	return p, len(p) > 0
}

// fabricObject is the fabric section, whose keys depend on its kind.
type fabricObject struct{ to **Fabric }

func (b fabricObject) pointer() any { return b.to }

func (b fabricObject) decode(d *decoder, v value) {
	before := len(d.problems)
	f := new(Fabric)
	present := d.object(v, f.fields())
	if rule, ok := ruleOf(f.Kind); ok {
		d.fabricSizes(v, f, rule, present)
	}
	if len(d.problems) > before {
		d.fabricBroken = true
		return
	}
	*b.to = f
}

// fabricSizes checks that the sizes given are those that the kind takes.
func (d *decoder) fabricSizes(v value, f *Fabric, rule fabricRule, present map[string]position) {
	for _, size := range fabricSizes {
		at, there := present[size.key]
		takes := rule.takes(size.key)
		switch {
		case at.Line > 0 && !takes:
			d.form(at, "key", v.what+"."+size.key, fmt.Sprintf("a %s fabric does not take it", f.Kind), rule.hint())
		case takes && !there && size.def == 0:
			d.form(v.at, v.what, string(f.Kind), size.key+" is missing", fmt.Sprintf("add %s, from %d to %d", size.key, size.min, size.max))
		}
	}
}

func (r fabricRule) takes(key string) bool {
	for _, k := range r.keys {
		if k == key {
			return true
		}
	}
	return false
}

func (r fabricRule) hint() string {
	if len(r.keys) == 0 {
		return "it takes kind alone"
	}
	return "it takes " + strings.Join(r.keys, ", ")
}

func (b fabricObject) schema(defs *schemaDefs) schema {
	f := new(Fabric)
	s := defs.object(f.fields())
	var rules []schema
	for _, r := range fabricRules() {
		props, required := schema{"kind": true}, []string{"kind"}
		for _, size := range fabricSizes {
			if !r.takes(size.key) {
				continue
			}
			props[size.key] = true
			if size.def == 0 {
				required = append(required, size.key)
			}
		}
		rules = append(rules, schema{
			"if":   schema{"properties": schema{"kind": schema{"const": string(r.kind)}}, "required": []string{"kind"}},
			"then": schema{"properties": props, "required": required, "additionalProperties": false},
		})
	}
	s["allOf"] = rules
	return s
}

func (b fabricObject) print() (any, bool) {
	if *b.to == nil {
		return nil, false
	}
	return printFields((*b.to).fields()), true
}

// nodeMap is the nodes section: keys are names or patterns.
type nodeMap struct{ to *[]*NodeSpec }

func (b nodeMap) pointer() any { return b.to }

func (b nodeMap) decode(d *decoder, v value) {
	before := len(d.problems)
	entries, ok := d.mapping(v)
	if ok {
		for _, e := range entries {
			if !nodeForm.MatchString(e.key) {
				d.form(e.at, "node", e.key, "not a node name", "a small letter, then at most 31 small letters and digits, e.g. leaf0; or a pattern, e.g. leaf*")
				continue
			}
			n := &NodeSpec{Name: e.key}
			d.where[&n.Name] = e.at
			here := len(d.problems)
			d.object(e.val, n.fields())
			n.broken = len(d.problems) > here
			*b.to = append(*b.to, n)
		}
	}
	d.entryBroken = d.entryBroken || len(d.problems) > before
}

func (b nodeMap) schema(defs *schemaDefs) schema {
	return schema{
		"type": "object", "propertyNames": schema{"pattern": nodeForm.String()},
		"additionalProperties": defs.ref("node", new(NodeSpec).fields()),
	}
}

func (b nodeMap) print() (any, bool) {
	var p pairs
	for _, n := range *b.to {
		p = append(p, pair{n.Name, printFields(n.fields())})
	}
	return p, len(p) > 0
}

// linkList is the links section.
type linkList struct{ to *[]*LinkSpec }

func (b linkList) pointer() any { return b.to }

func (b linkList) decode(d *decoder, v value) {
	before := len(d.problems)
	items, _ := d.list(v, "[{endpoints: [leaf0, spine1], rate: 100Gbps}]")
	for _, item := range items {
		l := new(LinkSpec)
		here := len(d.problems)
		d.object(item, l.fields())
		l.broken = len(d.problems) > here
		*b.to = append(*b.to, l)
	}
	d.entryBroken = d.entryBroken || len(d.problems) > before
}

func (b linkList) schema(defs *schemaDefs) schema {
	return schema{"type": "array", "items": defs.ref("link", new(LinkSpec).fields())}
}

func (b linkList) print() (any, bool) {
	var list []any
	for _, l := range *b.to {
		list = append(list, printFields(l.fields()))
	}
	return list, len(list) > 0
}

// ends are the two endpoints of a link.
type ends struct{ to *[2]string }

func (b ends) pointer() any       { return b.to }
func (b ends) print() (any, bool) { return b.to[:], true }

func (b ends) decode(d *decoder, v value) {
	const example = "[leaf0, spine1] or [leaf0:eth3, spine1:eth1]"
	items, ok := d.list(v, example)
	if !ok {
		return
	}
	if len(items) != 2 {
		d.form(v.at, v.what, "", fmt.Sprintf("%d ends; a link has two", len(items)), "write it like "+example)
		return
	}
	for i, item := range items {
		s, ok := d.text(item, "leaf0:eth3")
		if !ok {
			continue
		}
		d.where[&b.to[i]] = item.at
		if !endpointForm.MatchString(s) {
			d.form(item.at, v.what, s, "not an endpoint", "write it like leaf0 or leaf0:eth3")
			continue
		}
		b.to[i] = s
	}
}

func (b ends) schema(*schemaDefs) schema {
	return schema{"type": "array", "minItems": 2, "maxItems": 2, "items": schema{"type": "string", "pattern": endpointForm.String()}}
}
