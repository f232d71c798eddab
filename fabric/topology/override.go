package topology

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// FEPKey is one thing that a run can set of end points.
type FEPKey struct {
	Name    string // as in a topology file, sections joined by dots: nscc.gamma
	Doc     string
	Default string // in words
}

// FEPKeys lists what overrides may name, in the order of the topology file's keys.
func FEPKeys() []FEPKey {
	var keys []FEPKey
	eachLeaf(new(FEPParams).managed(), "", func(name string, f field) { keys = append(keys, FEPKey{name, f.doc, f.def}) })
	return keys
}

// ReadFEP says whether overrides are well formed, whatever the topology: their keys are known, their values of the right kind.
func ReadFEP(over map[string]string) error {
	_, err := parseFEP(over)
	return err
}

// CheckFEP says whether overrides of a run make sense for every end point: keys of the mapping fep of a topology file, dotted where they
// are nested, with values as they would stand there. The error names every one that is wrong, and why.
func (p *Plan) CheckFEP(over map[string]string) error {
	if len(over) == 0 {
		return nil
	}
	params, err := parseFEP(over)
	if err != nil {
		return err
	}
	for i := range p.Nodes {
		if p.Nodes[i].FEP == nil {
			continue
		}
		if err := p.blameFEP(i, p.override(i, params), over); err != nil {
			return err
		}
	}
	return nil
}

// OverrideFEP gives what an end point is to do in a run with overrides that CheckFEP has accepted; nil for other nodes, and where nothing is
// overridden.
func (p *Plan) OverrideFEP(node int, over map[string]string) (*FEPConfig, error) {
	if len(over) == 0 || p.Nodes[node].FEP == nil {
		return nil, nil
	}
	params, err := parseFEP(over)
	if err != nil {
		return nil, err
	}
	return p.override(node, params), nil
}

func (p *Plan) override(node int, params *FEPParams) *FEPConfig {
	c := *p.Nodes[node].FEP
	params.manage(&c, p.BDP)
	return &c
}

// blameFEP words what is wrong with the configuration of an end point about the override that has made it so.
func (p *Plan) blameFEP(node int, c *FEPConfig, over map[string]string) error {
	key, value, why := c.wrong(p.Around(node))
	if why == "" {
		return nil
	}
	if said, ok := over[key]; ok {
		value = said
	}
	return fmt.Errorf("%s: %s (%s)", about("fep."+key, value), why, p.Nodes[node].Name)
}

// parseFEP reads overrides.
func parseFEP(over map[string]string) (*FEPParams, error) {
	params := new(FEPParams)
	fields := params.managed()
	d := &decoder{where: map[any]position{}}
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(over)) {
		if err := d.override(fields, key, over[key]); err != nil {
			errs = append(errs, err)
		}
	}
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	return params, d.problems.err()
}

func (d *decoder) override(fields []field, key, text string) error {
	what := about("fep key", key)
	f, ok := find(fields, key)
	if !ok {
		if _, fixed := find(new(FEPParams).semantic(), key); fixed {
			return fmt.Errorf("%s: not one that a run can change; put it into the topology", what)
		}
		return fmt.Errorf("%s: not known; %s", what, didYouMean(key, fepNames("")))
	}
	if _, section := f.to.(keyed); section {
		return fmt.Errorf("%s: a section of keys; %s", what, didYouMean("", fepNames(key+".")))
	}
	v, why := parseValue(text, f.to)
	if why != "" {
		return fmt.Errorf("%s: %s", about("fep."+key, text), why)
	}
	f.to.decode(d, value{node: v, what: "fep." + key})
	return nil
}

// IgnoredInRealTime gives the first key, in alphabetical order, that has no effect in a lab at the wall's pace; empty: there is none.
func IgnoredInRealTime(over map[string]string) string {
	works := []string{"transport", "lb", "ack", "ackTrigger", "evs", "csig", "reps", "bitmap", "ecmp", "plb", "flowlet", "uccl", "mp"}
	for _, key := range slices.Sorted(maps.Keys(over)) {
		if section, _, _ := strings.Cut(key, "."); !slices.Contains(works, section) {
			return key
		}
	}
	return ""
}

func fepNames(prefix string) []string {
	var names []string
	for _, k := range FEPKeys() {
		if strings.HasPrefix(k.Name, prefix) {
			names = append(names, k.Name)
		}
	}
	return names
}
