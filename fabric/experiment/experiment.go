// Package experiment compares variants of one run: what an experiment file says (a topology, a workload, seeds, the variants
// and what is expected of them), the runs that this makes, statistics of every variant over all flows and seeds, and whether
// expectations hold. It runs nothing itself: a Runner does, in the simulator or on a lab, and results do not depend on how
// many of its runs go on at once. It knows no command line; the text of a workload is the runner's to read.
package experiment

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/fabric/yamltree"
)

// Experiment is one that has been read: Parse makes it of a file, and a command line may fill it in itself.
type Experiment struct {
	File     string   // empty for one of a command line
	Name     string   // small letters, digits and -
	Claim    string   // in a sentence what is to be seen; may be empty
	Source   string   // who claims it; may be empty
	Topology string   // a file or a name; empty: the lab that runs
	Workload []string // words as run and sim take them
	Seeds    []uint64 // one run of each variant with each; empty: what Workload says
	Variants []Variant
	Expect   []*Expectation
	Every    time.Duration // virtual: all runs are sampled in steps of it, for the statistics of Sampled; 0: they are not
	Settle   Settle

	at yamltree.Place // of the topology and the workload
}

// Variant is one of the settings that are compared. What holds for all variants is in it too.
type Variant struct {
	Name   string            `json:"name"`             // as expressions write it: a letter, then letters, digits and _
	FEP    map[string]string `json:"fep,omitempty"`    // keys of a topology's fep mapping, dotted where nested, to values as in YAML
	Switch map[string]string `json:"switch,omitempty"` // those of switches
	Links  []string          `json:"links,omitempty"`  // changes of links as sim --link takes them
	Flags  []string          `json:"flags,omitempty"`  // words that follow those of the workload

	at yamltree.Place
}

// Bounds of an experiment.
const (
	MaxVariants = 256
	MaxSeeds    = 256
	MaxExpect   = 256
)

// Assign gives settings as assignments KEY=VALUE in the order of keys.
func Assign(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+"="+m[k])
	}
	return out
}

// Axes are lists whose product is variants. An empty list takes no part in it.
type Axes struct{ CC, LB, ACK []string }

// Product gives a variant for each combination, named by the values of the lists that have more than one; if none has, by all.
func (a Axes) Product() []Variant {
	list := []Variant{{FEP: map[string]string{}}}
	var names [][]string
	long := len(a.CC) > 1 || len(a.LB) > 1 || len(a.ACK) > 1
	for _, axis := range []struct {
		key    string
		values []string
	}{{"cc", a.CC}, {"lb", a.LB}, {"ack", a.ACK}} {
		if len(axis.values) == 0 {
			continue
		}
		if !long || len(axis.values) > 1 {
			names = append(names, []string{axis.key})
		}
		var next []Variant
		for _, v := range list {
			for _, value := range axis.values {
				fep := maps.Clone(v.FEP)
				fep[axis.key] = value
				next = append(next, Variant{FEP: fep})
			}
		}
		list = next
	}
	for i := range list {
		var words []string
		for _, key := range names {
			words = append(words, list[i].FEP[key[0]])
		}
		list[i].Name = identifier(strings.Join(words, "_"))
	}
	return list
}

// identifier makes a word that expressions can name a variant by.
func identifier(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '_':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '_'
	}, s)
	if s == "" || s[0] >= '0' && s[0] <= '9' {
		s = "v" + s
	}
	return s
}

// Problem makes an error of what is wrong with the variant, with its place where there is a file.
func (e *Experiment) Problem(v *Variant, err error) error {
	if e.File == "" {
		return err
	}
	at := v.at
	if at.Line == 0 {
		at = e.at
	}
	return &located{topology.Problem{File: e.File, Line: at.Line, Col: at.Col, Msg: fmt.Sprintf("variant %s: %v", v.Name, err)}, err}
}

// located is an error with a place; what it wraps still says what to do.
type located struct {
	topology.Problem
	err error
}

func (e *located) Unwrap() error { return e.err }
