package topology

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// ErrUnknown is wrapped by the errors of names that a plan does not have.
var ErrUnknown = errors.New("no such name")

// Which end of a link a name spoke of, as FindLink tells.
const (
	EitherEnd = -1
	EndA      = 0
	EndB      = 1
)

// Node finds a node by name. The error wraps ErrUnknown and proposes a near name.
func (p *Plan) Node(name string) (*Node, error) {
	names := make([]string, len(p.Nodes))
	for i := range p.Nodes {
		if p.Nodes[i].Name == name {
			return &p.Nodes[i], nil
		}
		names[i] = p.Nodes[i].Name
	}
	return nil, unknown("node", name, names)
}

// FindLink finds a link by "leaf0-spine1" (either order), "leaf0-spine1#2", or one of its ports, "leaf0:eth3". end
// is EndA or EndB when a port was named, else EitherEnd. The error wraps ErrUnknown and proposes a near name.
func (p *Plan) FindLink(name string) (link, end int, err error) {
	if node, eth, found := strings.Cut(name, ":"); found {
		return p.findPort(node, eth)
	}
	swapped := name
	if a, b, found := strings.Cut(name, "-"); found {
		b, number, parallel := strings.Cut(b, "#")
		swapped = b + "-" + a
		if parallel {
			swapped += "#" + number
		}
	}
	for i, l := range p.Links {
		if l.Name == name || l.Name == swapped {
			return i, EitherEnd, nil
		}
	}
	return 0, EitherEnd, unknown("link", name, p.linkNames())
}

// FindLinks finds links by names, as FindLink takes them, and by patterns of names, leaf*-spine*: all where none is given. Each comes once, in
// the order of the plan. The error wraps ErrUnknown and is of the first that means no link.
func (p *Plan) FindLinks(names []string) (ids []int, err error) {
	meant := make([]bool, len(p.Links))
	for _, name := range names {
		found := false
		for i := range p.Links {
			if ok, err := path.Match(name, p.Links[i].Name); ok && err == nil {
				meant[i], found = true, true
			}
		}
		if found {
			continue
		}
		id, _, err := p.FindLink(name)
		if err != nil {
			return nil, err
		}
		meant[id] = true
	}
	for i := range p.Links {
		if meant[i] || len(names) == 0 {
			ids = append(ids, i)
		}
	}
	return ids, nil
}

func (p *Plan) findPort(node, eth string) (link, end int, err error) {
	n, err := p.Node(node)
	if err != nil {
		return 0, EitherEnd, err
	}
	names := make([]string, len(n.Ports))
	for i, port := range n.Ports {
		if port.Name != eth {
			names[i] = port.Name
			continue
		}
		if p.Links[port.Link].A == (End{n.ID, i}) {
			return port.Link, EndA, nil
		}
		return port.Link, EndB, nil
	}
	return 0, EitherEnd, unknown("port of "+node, eth, names)
}

func unknown(what, name string, valid []string) error {
	return fmt.Errorf("%s: %w; %s", about(what, name), ErrUnknown, didYouMean(name, valid))
}
