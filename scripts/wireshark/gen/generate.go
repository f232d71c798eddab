package main

import (
	"bytes"
	"embed"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/uetlab/uetlab/wire"
)

// parts are the hand-written pieces in the order of their names; the tables go in front of the third.
//
//go:embed parts/*.lua
var parts embed.FS

const tablesBefore = "3-fields.lua"

// layers are those of the headers that Wireshark does not know by itself.
var layers = []string{"tss", "prologue", "pds", "ses", "ext", "csig", "trailer", "ctlos", "mac_control", "lldp_ue", "lldp_vc"}

// generate returns the whole of uet.lua.
func generate() []byte {
	var out bytes.Buffer
	list, err := parts.ReadDir("parts")
	if err != nil {
		panic(err) // it is embedded
	}
	for _, e := range list {
		if e.Name() == tablesBefore {
			writeTables(&out)
		}
		b, err := parts.ReadFile(path.Join("parts", e.Name()))
		if err != nil {
			panic(err)
		}
		out.Write(b)
		out.WriteByte('\n')
	}
	return append(bytes.TrimRight(out.Bytes(), "\n"), '\n')
}

func writeTables(out *bytes.Buffer) {
	out.WriteString("-- Tables, made from the Go codec's: do not edit here -------------------------------------------------------------------------\n\n")
	used := map[string]bool{}
	out.WriteString("-- TABLE has the headers by name; off and bits are in bits; when lists conditions {off, bits, wanted, values} on the header.\nlocal TABLE = {\n")
	by := map[string][]string{}
	for _, t := range wire.Tables() {
		if !slices.Contains(layers, t.Layer) {
			continue
		}
		fmt.Fprintf(out, "\t[%q] = { len = %d,\n", t.Name, t.Bytes)
		for i := range t.Fields {
			out.WriteString("\t\t" + entry(&t.Fields[i]) + ",\n")
			used[t.Fields[i].Enum] = true
		}
		out.WriteString("\t},\n")
		for _, c := range t.Codes {
			by[t.Layer] = append(by[t.Layer], fmt.Sprintf("[%d] = %q", c, t.Name))
		}
	}
	out.WriteString("}\n\n-- BY names the header of a code point, by layer.\nlocal BY = {\n")
	for _, layer := range layers {
		if len(by[layer]) > 0 {
			fmt.Fprintf(out, "\t%s = { %s },\n", layer, strings.Join(by[layer], ", "))
		}
	}
	out.WriteString("}\n\n-- ENUM has the names of code points, or the masks of flags.\nlocal ENUM = {\n")
	enums := wire.Enums()
	for _, name := range slices.Sorted(maps.Keys(enums)) {
		if !used[name] {
			continue
		}
		var values []string
		for _, v := range enums[name] {
			values = append(values, fmt.Sprintf("[%d] = %q", v.Value, v.Name))
		}
		fmt.Fprintf(out, "\t%s = { %s },\n", name, strings.Join(values, ", "))
	}
	out.WriteString("}\n\n")
}

// entry writes one field as a Lua table.
func entry(f *wire.Field) string {
	s := fmt.Sprintf("{ name = %q, off = %d, bits = %d", f.Name, f.Off, f.Bits)
	switch {
	case f.Kind == wire.KindBytes:
		s += ", bytes = true"
	case f.Kind == wire.KindEnum:
		s += fmt.Sprintf(", enum = %q", f.Enum)
	case f.Kind == wire.KindFlags && f.Enum != "":
		s += fmt.Sprintf(", flags = %q", f.Enum)
	}
	if f.Signed {
		s += ", signed = true"
	}
	if f.LittleEndian {
		s += ", little = true"
	}
	if len(f.When) > 0 {
		var conds []string
		for _, c := range f.When {
			var in []string
			for _, v := range c.In {
				in = append(in, fmt.Sprintf("[%d] = true", v))
			}
			conds = append(conds, fmt.Sprintf("{ %d, %d, %v, { %s } }", c.Off, c.Bits, !c.Not, strings.Join(in, ", ")))
		}
		s += ", when = { " + strings.Join(conds, ", ") + " }"
	}
	return s + fmt.Sprintf(", doc = %q }", f.Doc)
}
