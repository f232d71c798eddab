package topology

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/uetlab/uetlab/topologies"
)

// generator turns the numbers in a name into the fabric section of a file.
type generator struct {
	form   *pattern
	usage  string // for listings
	doc    string
	fabric string // with a %s for each number
	absent string // stands for the last number when the name leaves it out
}

var generators = []generator{
	{lazily(`^fat-tree-(0|[1-9][0-9]{0,5})x(0|[1-9][0-9]{0,5})(?:x(0|[1-9][0-9]{0,5}))?$`), "fat-tree-<spines>x<leaves>[x<hosts per leaf>]", "every leaf joined to every spine, 2 end points a leaf unless said",
		"{kind: leaf-spine, spines: %s, leaves: %s, hostsPerLeaf: %s}", strconv.Itoa(defaultHostsPerLeaf)},
	{lazily(`^fat-tree-k(0|[1-9][0-9]{0,5})$`), "fat-tree-k<k>", "three tiers of k-port switches, k³/4 end points", "{kind: fat-tree, k: %s}", ""},
	{lazily(`^dumbbell-(0|[1-9][0-9]{0,5})$`), "dumbbell-<n>", "two leaves, n end points at each", "{kind: dumbbell, hosts: %s}", ""},
	{lazily(`^star-(0|[1-9][0-9]{0,5})$`), "star-<n>", "n end points on one leaf", "{kind: star, hosts: %s}", ""},
	{lazily(`^pair$`), "pair", "two end points on one wire", "{kind: pair}", ""},
}

// Generated describes a family of names that Generate understands.
type Generated struct {
	Usage string // "fat-tree-k<k>"
	Doc   string
}

// GeneratedNames lists what Generate understands.
func GeneratedNames() []Generated {
	var list []Generated
	for _, g := range generators {
		list = append(list, Generated{g.usage, g.doc})
	}
	return list
}

// Generate makes a topology from a name alone: fat-tree-2x4, fat-tree-k8, dumbbell-2, star-8, pair. The error wraps
// ErrUnknown when the name is of no such family, else it is Problems.
func Generate(name string) (*Spec, error) {
	for _, g := range generators {
		m := g.form.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		numbers := make([]any, 0, len(m)-1)
		for _, n := range m[1:] {
			if n == "" {
				n = g.absent
			}
			numbers = append(numbers, n)
		}
		return fromText(name, fmt.Sprintf(g.fabric, numbers...))
	}
	return nil, fmt.Errorf("topology (%s): %w; names are %s", name, ErrUnknown, usages())
}

// fromText parses what would be the file of a generated name, so that both ways in share every check.
func fromText(name, fabric string) (*Spec, error) {
	text := fmt.Sprintf("name: %s\nfabric: %s\ndefaults:\n  link: {rate: 400Gbps, delay: 500ns, mtu: 4500}\n  switch: {latency: 500ns, buffer: auto, hash: mix}\n", name, fabric)
	s, err := Parse("", []byte(text))
	var problems Problems
	if errors.As(err, &problems) {
		for i := range problems {
			problems[i].Line, problems[i].Col = 0, 0
			if !strings.HasPrefix(problems[i].Msg, "topology (") {
				problems[i].Msg = fmt.Sprintf("topology (%s): %s", name, problems[i].Msg)
			}
		}
	}
	if err != nil {
		return nil, err
	}
	s.where = nil
	return s, nil
}

func usages() string {
	var list []string
	for _, g := range generators {
		list = append(list, g.usage)
	}
	return strings.Join(list, ", ")
}

// Resolve takes what a user typed: the path of a file (with a / or ending in .yaml or .yml), the name of a shipped
// topology, a generated name, or a file of any other name. The error of a name that is none of them wraps
// ErrUnknown and lists near and possible names.
func Resolve(arg string) (*Spec, error) {
	if strings.ContainsRune(arg, os.PathSeparator) || strings.HasSuffix(arg, ".yaml") || strings.HasSuffix(arg, ".yml") {
		return Load(arg)
	}
	if text, ok := topologies.Read(arg); ok {
		return Parse(arg+".yaml", text)
	}
	s, err := Generate(arg)
	if err == nil || !errors.Is(err, ErrUnknown) {
		return s, err
	}
	if info, statErr := os.Stat(arg); statErr == nil && info.Mode().IsRegular() {
		return Load(arg)
	}
	hint := "shipped are " + strings.Join(topologies.Names(), ", ")
	if near := nearest(arg, topologies.Names()); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	return nil, fmt.Errorf("topology (%s): %w among files, shipped and generated topologies; %s; generated are %s", arg, ErrUnknown, hint, usages())
}
