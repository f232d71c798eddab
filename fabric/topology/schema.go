package topology

import (
	"bytes"
	"encoding/json"
)

// SchemaID is the identity of the JSON schema that this release writes.
const SchemaID = "https://uetlab.github.io/schema/topology-v1.json"

// schema is a JSON schema or a part of one.
type schema map[string]any

// schemaDefs collects the parts that the schema refers to by name.
type schemaDefs struct{ named schema }

// Schema gives the JSON schema (draft-07) of topology files, made from the tables that the decoder works from. It
// knows the form of every key; what a file describes (names, ranges of quantities, the graph) only Parse checks.
func Schema() []byte {
	defs := &schemaDefs{named: schema{}}
	root := defs.object(new(Spec).fields())
	root["$schema"] = "http://json-schema.org/draft-07/schema#"
	root["$id"] = SchemaID
	root["title"] = "uetlab topology"
	root["description"] = "A fabric of end points and switches, as uetlab brings it up."
	root["definitions"] = defs.named
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(root); err != nil {
		panic("topology: schema cannot be written: " + err.Error()) // maps, strings and numbers only
	}
	return b.Bytes()
}

// object describes a mapping with the keys of a table and no others.
func (defs *schemaDefs) object(fields []field) schema {
	props := schema{}
	var required []string
	for _, f := range fields {
		p := f.to.schema(defs)
		doc := f.doc
		if f.def != "" {
			doc += " Default: " + f.def + "."
		}
		if ref, ok := p["$ref"]; ok { // draft-07 ignores what stands beside a $ref
			p = schema{"allOf": []schema{{"$ref": ref}}}
		}
		p["description"] = doc
		props[f.key] = p
		if f.required {
			required = append(required, f.key)
		}
	}
	s := schema{"type": "object", "properties": props, "additionalProperties": false}
	if required != nil {
		s["required"] = required
	}
	return s
}

// ref describes a mapping once under a name.
func (defs *schemaDefs) ref(name string, fields []field) schema {
	defs.named[name] = defs.object(fields)
	return schema{"$ref": "#/definitions/" + name}
}
