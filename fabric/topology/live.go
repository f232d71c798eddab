package topology

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/uetlab/uetlab/switchd"
)

// SwitchKey is one thing that can be set of a running switch.
type SwitchKey struct {
	Name    string // as in a topology file, sections joined by dots: ecn.kmin
	Doc     string
	Example string // an assignment: ecn.kmin=20%
}

// SwitchKeys lists what SetSwitch takes, in the order of the topology file's sections.
func SwitchKeys() []SwitchKey {
	var keys []SwitchKey
	eachLeaf(new(SwitchParams).fields(), "", func(name string, f field) {
		if isLive(name) {
			keys = append(keys, SwitchKey{Name: name, Doc: f.doc, Example: name + "=" + f.def})
		}
	})
	return keys
}

// isLive says whether a setting can change while the switch runs: its latency cannot, since the others count on it when
// they look ahead.
func isLive(name string) bool { return name != "latency" }

// eachLeaf visits every key that has a value, with the sections before it.
func eachLeaf(fields []field, prefix string, visit func(name string, f field)) {
	for _, f := range fields {
		if sub, ok := f.to.(keyed); ok {
			eachLeaf(sub.keys(), prefix+f.key+".", visit)
			continue
		}
		visit(prefix+f.key, f)
	}
}

// SetSwitch gives the settings of a switch after assignments such as "ecn.kmin=10%", "queues.data.weight=50", "weight.eth3=2"
// or "mirror.to=off" to what holds now. Names, units, bounds and rules are those of a topology file. What depends on another
// setting stays as it is unless it is assigned too: switching trimming off does not change a limit that was auto;
// add buffer=auto for that. The error names every assignment that is wrong, and why.
func (p *Plan) SetSwitch(node int, cur switchd.Settings, assignments []string) (switchd.Settings, error) {
	if node < 0 || node >= len(p.Nodes) || p.Nodes[node].Kind != KindSwitch {
		return cur, fmt.Errorf("node %d: not a switch of this lab", node)
	}
	params := new(SwitchParams)
	fields := params.fields()
	said := map[string]string{}
	var errs []error
	for _, a := range assignments {
		key, err := assign(fields, a, said)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		said[key] = a
	}
	if errs != nil {
		return cur, errors.Join(errs...)
	}
	c := settler{plan: p, node: &p.Nodes[node], p: params, s: clone(cur)}
	c.pfcWas = c.anyLossless()
	c.apply()
	for _, x := range append(c.complaints(), c.idle()...) {
		errs = append(errs, x.blame(said))
	}
	if errs != nil {
		return cur, errors.Join(errs...)
	}
	return c.s, nil
}

// clone copies settings with all that they point to.
func clone(s switchd.Settings) switchd.Settings {
	s.Trim.Trimmable, s.Trim.Disabled, s.ECMP.Fields = slices.Clone(s.Trim.Trimmable), slices.Clone(s.Trim.Disabled), slices.Clone(s.ECMP.Fields)
	return s
}

// assign reads one assignment into the parameters that fields speak of, and gives its key as the tables have it.
func assign(fields []field, a string, said map[string]string) (string, error) {
	name, text, ok := strings.Cut(a, "=")
	name, text = strings.TrimSpace(name), strings.TrimSpace(text)
	if !ok || name == "" || text == "" {
		return "", fmt.Errorf("%s: not an assignment; write it like ecn.kmin=10%%", about("setting", a))
	}
	key := canonicalKey(name)
	f, ok := find(fields, key)
	if !ok {
		return "", fmt.Errorf("%s: not a setting of a switch; %s", about("setting", name), didYouMean(name, liveNames()))
	}
	if _, isSection := f.to.(keyed); isSection {
		return "", fmt.Errorf("%s: a section of settings; %s", about("setting", name), didYouMean("", namesUnder(key)))
	}
	switch before, twice := said[key]; {
	case !isLive(key):
		return "", fmt.Errorf("%s: fixed while a lab runs, since nodes look ahead by it; change it in the topology file", about("setting", name))
	case twice:
		return "", fmt.Errorf("%s: given twice, first as %s; keep one of them", about("setting", a), before)
	}
	d := &decoder{where: map[any]position{}}
	v, why := parseValue(text, f.to)
	if why != "" {
		return "", fmt.Errorf("%s: %s", about(name, text), why)
	}
	f.to.decode(d, value{node: v, what: name})
	return key, d.problems.err()
}

// canonicalKey writes the queue of a key as the tables have it.
func canonicalKey(name string) string {
	parts := strings.Split(name, ".")
	if len(parts) > 1 && parts[0] == "queues" {
		parts[1] = queueMap{}.canonical(parts[1])
	}
	return strings.Join(parts, ".")
}

// parseValue reads the value of an assignment; lists may be written without brackets.
func parseValue(text string, to binding) (v ast.Node, why string) {
	if _, isList := to.schema(&schemaDefs{named: schema{}})["items"]; isList && !strings.HasPrefix(text, "[") {
		text = "[" + text + "]"
	}
	if at, bad := unreadable([]byte(text)); bad != "" || at.Line > 1 || strings.ContainsAny(text, "\n\r") {
		return nil, "not a value"
	}
	defer func() {
		if recover() != nil {
			v, why = nil, "not a value"
		}
	}()
	tree, err := parser.ParseBytes([]byte(text), 0)
	if err != nil || len(tree.Docs) != 1 || tree.Docs[0].Body == nil {
		return nil, "not a value"
	}
	return tree.Docs[0].Body, ""
}

func liveNames() []string {
	var names []string
	for _, k := range SwitchKeys() {
		names = append(names, k.Name)
	}
	return names
}

func namesUnder(section string) []string {
	return slices.DeleteFunc(liveNames(), func(n string) bool { return !strings.HasPrefix(n, section+".") })
}

// blame words a complaint about the assignment that caused it.
func (x complaint) blame(said map[string]string) error {
	for _, key := range x.keys {
		if a, ok := said[key]; ok {
			name, text, _ := strings.Cut(a, "=")
			if x.keys[0] != key {
				return fmt.Errorf("%s: then %s is %s; %s", about(name, text), about(x.keys[0], x.value), x.why, x.hint)
			}
			return fmt.Errorf("%s: %s; %s", about(name, text), x.why, x.hint)
		}
	}
	return fmt.Errorf("%s: %s; %s", about(x.keys[0], x.value), x.why, x.hint)
}

// idle lists thresholds that were set of queues that do not mark.
func (c *settler) idle() []complaint {
	var all []complaint
	silent := func(s Size, key, on string, off bool) {
		if s != (Size{}) && off {
			all = append(all, complaint{[]string{key}, "", "nothing is marked here", "add " + on + "=true"})
		}
	}
	off := true
	for q := range c.s.Queues {
		p, name := &c.p.Queues[q], "queues."+queueName(q)+"."
		none := c.s.Queues[q].Kmax == 0
		off = off && (none || !marks(q))
		silent(p.Kmin, name+"kmin", name+"ecn", none)
		silent(p.Kmax, name+"kmax", name+"ecn", none)
	}
	silent(c.p.ECN.Kmin, "ecn.kmin", "ecn.enabled", off)
	silent(c.p.ECN.Kmax, "ecn.kmax", "ecn.enabled", off)
	return all
}

// KeyValue is a setting as a topology file or an assignment writes it.
type KeyValue struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// FormatSwitch writes settings in the words of the topology file. What the queues have in common is said once for all, a
// queue's own keys say where it differs. Assigned to the settings of a switch of which a file says nothing, the list makes
// them equal to s.
func (p *Plan) FormatSwitch(s switchd.Settings) []KeyValue {
	var list []KeyValue
	params := p.paramsOf(&s)
	eachLeaf(params.fields(), "", func(name string, f field) {
		if v, says := f.to.print(); says {
			list = append(list, KeyValue{name, valueText(v)})
		}
	})
	return list
}

// valueText writes a value as an assignment has it.
func valueText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case literal:
		return string(v)
	}
	return inline(v)
}
