package experiment

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/goccy/go-yaml/ast"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/fabric/yamltree"
	"github.com/uetlab/uetlab/internal/nearest"
)

// limits of an experiment file.
var limits = yamltree.Limits{Bytes: 256 << 10, Lines: 5000, Depth: 16}

// keys of an experiment file, and of an entry of vary.
var (
	keys        = []string{"name", "claim", "source", "topology", "fep", "switch", "workload", "links", "seeds", "vary", "cc", "lb", "ack", "every", "settle", "expect"}
	variantKeys = []string{"name", "fep", "switch", "links", "flags"}
)

var (
	nameForm    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`) })
	variantForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_]{0,62}$`) })
)

// value is a YAML node, where to point when it is wrong, and what to call it.
type value struct {
	node ast.Node
	at   yamltree.Place
	what string
}

// reader walks the YAML tree of one file and collects problems.
type reader struct {
	file     string
	problems topology.Problems
	out      Experiment
	all      Variant // what holds for all
	axes     Axes
	expect   []value
	varied   *value
}

// Parse reads an experiment file's text; file is what problems call it. The error, if any, is topology.Problems: all that is
// wrong, with lines and columns. What settings and the workload mean is for a Runner to find out, in Prepare.
func Parse(file string, text []byte) (*Experiment, error) {
	r := &reader{file: file, out: Experiment{File: file, at: yamltree.Place{Line: 1, Col: 1}}}
	if root := r.root(text); root != nil {
		r.experiment(value{root, yamltree.PlaceOf(root, r.out.at), "file"})
	}
	if len(r.problems) > 0 {
		slices.SortStableFunc(r.problems, func(a, b topology.Problem) int {
			return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
		})
		return nil, r.problems
	}
	return &r.out, nil
}

func (r *reader) problem(at yamltree.Place, what, got, why, hint string) {
	if got != "" {
		const most = 60
		if c := []rune(got); len(c) > most {
			got = string(c[:most]) + "…"
		}
		what += " (" + got + ")"
	}
	r.problems = append(r.problems, topology.Problem{File: r.file, Line: at.Line, Col: at.Col, Msg: what + ": " + why, Hint: hint})
}

// root gives the root of the YAML tree, nil with a problem where there is none.
func (r *reader) root(text []byte) (root ast.Node) {
	bad := limits.Check(text)
	var docs []*ast.DocumentNode
	if bad == nil {
		docs, bad = yamltree.Parse(text)
	}
	if bad != nil {
		r.problem(yamltree.Place{Line: bad.Line, Col: bad.Col}, "file", "", bad.Msg, "")
		return nil
	}
	for _, doc := range docs {
		switch {
		case doc.Body == nil:
		case root != nil:
			r.problem(yamltree.PlaceOf(doc.Body, r.out.at), "file", "", "more than one document", "put each experiment into a file of its own")
			return nil
		default:
			root = doc.Body
		}
	}
	if root == nil {
		r.problem(r.out.at, "file", "", "empty", "labs/README.md says what an experiment is")
	}
	return root
}

func (r *reader) experiment(v value) {
	seen := r.mapping(v, "", keys, func(key string, v value) {
		switch key {
		case "name":
			if r.word(v, &r.out.Name) && !nameForm().MatchString(r.out.Name) {
				r.problem(v.at, v.what, r.out.Name, "not a name", "small letters, digits and -, for example ecmp-collisions")
			}
		case "claim":
			r.word(v, &r.out.Claim)
		case "source":
			r.word(v, &r.out.Source)
		case "topology":
			r.word(v, &r.out.Topology)
		case "workload":
			r.out.at = v.at
			r.line(v, &r.out.Workload)
		case "seeds":
			r.seeds(v)
		case "vary":
			r.varied = &v
		case "cc":
			r.words(v, &r.axes.CC)
		case "lb":
			r.words(v, &r.axes.LB)
		case "ack":
			r.words(v, &r.axes.ACK)
		case "every":
			r.duration(v, &r.out.Every)
		case "settle":
			r.settle(v)
		case "expect":
			r.expect = r.list(v)
		default:
			r.setting(&r.all, key, v)
		}
	})
	for _, key := range []string{"name", "topology", "workload"} {
		if !slices.Contains(seen, key) {
			r.problem(r.out.at, "file", "", "says no "+key, "add a line "+key+": …")
		}
	}
	r.variants(v.at)
	r.expectations()
}

// setting reads what variants and the whole file may both say.
func (r *reader) setting(to *Variant, key string, v value) {
	switch key {
	case "fep":
		to.FEP = map[string]string{}
		r.settings(v, "", to.FEP)
	case "switch":
		to.Switch = map[string]string{}
		r.settings(v, "", to.Switch)
	case "links":
		r.words(v, &to.Links)
	}
}

// settings flattens a mapping of settings.
func (r *reader) settings(v value, prefix string, into map[string]string) {
	r.mapping(v, prefix, nil, func(key string, v value) {
		name := prefix + key
		switch n := v.node.(type) {
		case *ast.MappingNode, *ast.MappingValueNode:
			r.settings(v, name+".", into)
		case *ast.SequenceNode:
			var words []string
			if r.words(v, &words) {
				into[name] = "[" + strings.Join(words, ", ") + "]"
			}
		default:
			text, ok := yamltree.Scalar(n)
			if !ok || text == "" {
				r.problem(v.at, name, "", "no value", "write it as in a topology file")
				return
			}
			if _, twice := into[name]; twice {
				r.problem(v.at, name, "", "given twice", "keep one of them")
			}
			into[name] = text
		}
	})
}

func (r *reader) seeds(v value) {
	for _, x := range r.list(v) {
		text, _ := yamltree.Scalar(x.node)
		n, err := strconv.ParseUint(text, 10, 64)
		switch {
		case err != nil:
			r.problem(x.at, v.what, text, "not a seed", "write them like [1, 2, 3]")
		case slices.Contains(r.out.Seeds, n):
			r.problem(x.at, v.what, text, "given twice", "keep one of them")
		case len(r.out.Seeds) == MaxSeeds:
			r.problem(x.at, v.what, "", fmt.Sprintf("more than %d", MaxSeeds), "take fewer")
			return
		default:
			r.out.Seeds = append(r.out.Seeds, n)
		}
	}
}

// variants lays the list or the product over what holds for all.
func (r *reader) variants(at yamltree.Place) {
	list := r.axes.Product()
	axes := len(r.axes.CC)+len(r.axes.LB)+len(r.axes.ACK) > 0
	switch {
	case r.varied != nil && axes:
		r.problem(r.varied.at, "vary", "", "beside a product of cc, lb and ack", "keep one of them")
		return
	case r.varied != nil:
		list = nil
		for _, v := range r.list(*r.varied) {
			list = append(list, r.variant(v))
		}
	case !axes:
		r.problem(at, "file", "", "says nothing to compare", "add vary: [{name: …, fep: {…}}], or lists cc: and lb:")
		return
	}
	if len(list) > MaxVariants {
		r.problem(at, "file", "", fmt.Sprintf("%d variants, at most %d are compared", len(list), MaxVariants), "take fewer")
		return
	}
	for i := range list {
		v := &list[i]
		if slices.ContainsFunc(list[:i], func(o Variant) bool { return o.Name == v.Name && v.Name != "" }) {
			r.problem(cmp.Or(v.at, at), "variant", v.Name, "there is one of that name before", "give each another name")
		}
		v.FEP, v.Switch = over(v.FEP, r.all.FEP), over(v.Switch, r.all.Switch)
		v.Links = append(slices.Clone(r.all.Links), v.Links...)
	}
	r.out.Variants = list
}

func over(top, base map[string]string) map[string]string {
	m := maps.Clone(base)
	if m == nil {
		m = map[string]string{}
	}
	maps.Copy(m, top)
	return m
}

func (r *reader) variant(v value) Variant {
	out := Variant{at: v.at}
	seen := r.mapping(v, "", variantKeys, func(key string, v value) {
		switch {
		case key == "flags":
			r.line(v, &out.Flags)
			return
		case key != "name":
			r.setting(&out, key, v)
			return
		case !r.word(v, &out.Name):
			return
		}
		if !variantForm().MatchString(out.Name) {
			r.problem(v.at, v.what, out.Name, "not a name of a variant", "a letter, then letters, digits and _, so that expressions can name it")
		} else if why := taken(out.Name); why != "" {
			r.problem(v.at, v.what, out.Name, why, "take another name")
		}
	})
	if _, ok := isMapping(v.node); ok && !slices.Contains(seen, "name") {
		r.problem(v.at, "variant", "", "has no name", "write it like {name: reps, fep: {lb: reps}}")
	}
	return out
}

func (r *reader) expectations() {
	if len(r.expect) > MaxExpect {
		r.problem(r.expect[0].at, "expect", "", fmt.Sprintf("more than %d", MaxExpect), "take fewer")
		return
	}
	for _, v := range r.expect {
		var text string
		if !r.word(v, &text) {
			continue
		}
		x, err := Expect(text, r.out.Variants)
		if err != nil {
			r.problem(v.at, "expect", text, err.Error(), "")
			continue
		}
		if why, hint := r.out.missing(x); why != "" {
			r.problem(v.at, "expect", text, why, hint)
			continue
		}
		r.out.Expect = append(r.out.Expect, x)
	}
}

// word expects some text in one value.
func (r *reader) word(v value, to *string) bool {
	s, ok := yamltree.Scalar(v.node)
	if s = strings.TrimSpace(s); !ok || s == "" {
		r.problem(v.at, v.what, "", "not a word or a text", "write "+v.what+": …")
		return false
	}
	*to = s
	return true
}

// line expects a text and takes it apart as a command line.
func (r *reader) line(v value, to *[]string) {
	var text string
	if r.word(v, &text) {
		*to = strings.Fields(text)
	}
}

// words expects a list of words, or takes one for a list.
func (r *reader) words(v value, to *[]string) bool {
	ok := true
	for _, x := range r.list(v) {
		var s string
		if r.word(x, &s) {
			*to = append(*to, s)
		} else {
			ok = false
		}
	}
	return ok
}

// list gives the entries of a list; a value that is none is a list of one.
func (r *reader) list(v value) []value {
	seq, ok := v.node.(*ast.SequenceNode)
	if !ok {
		return []value{v}
	}
	var out []value
	for _, n := range seq.Values {
		out = append(out, value{n, yamltree.PlaceOf(n, v.at), v.what})
	}
	if len(out) == 0 {
		r.problem(v.at, v.what, "", "an empty list", "leave it out")
	}
	return out
}

func isMapping(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

// mapping visits the entries of a mapping, those that are known where valid lists any, and gives the keys it has seen.
func (r *reader) mapping(v value, prefix string, valid []string, visit func(key string, v value)) (seen []string) {
	pairs, ok := isMapping(v.node)
	if !ok {
		got, _ := yamltree.Scalar(v.node)
		r.problem(v.at, v.what, got, "not a mapping of keys to values", "write it like {lb: reps}")
		return nil
	}
	for _, p := range pairs {
		at := yamltree.PlaceOf(p.Key, v.at)
		name, ok := yamltree.Scalar(p.Key)
		switch {
		case !ok || name == "":
			r.problem(at, v.what, "", "a key that is not a word", "")
		case slices.Contains(seen, name):
			r.problem(at, prefix+name, "", "given twice", "keep one of them")
		case valid != nil && !slices.Contains(valid, name):
			r.problem(at, name, "", "not a key here", meant(name, valid))
			seen = append(seen, name)
		default:
			seen = append(seen, name)
			to := value{p.Value, at, prefix + name}
			switch p.Value.(type) {
			case nil, *ast.NullNode, *ast.MappingNode, *ast.MappingValueNode, *ast.SequenceNode:
			default:
				to.at = yamltree.PlaceOf(p.Value, at)
			}
			visit(name, to)
		}
	}
	return seen
}

// meant proposes the nearest valid word, or lists all.
func meant(got string, valid []string) string {
	if near := nearest.Word(got, valid); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "valid are " + strings.Join(valid, ", ")
}
