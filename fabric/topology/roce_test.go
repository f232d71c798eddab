package topology

import "testing"

// TestTransportRoCE: one key says all that RoCEv2 is, what the file says itself holds, and a run may ask for it of end points.
func TestTransportRoCE(t *testing.T) {
	for _, c := range []struct {
		name, defaults, more, cc, lb string
		ordered, lossless            bool
	}{
		{"alone", "fep: {transport: roce}", "", "dcqcn", "fixed", true, true},
		{"with cc", "fep: {transport: roce, cc: nscc}", "", "nscc", "fixed", true, true},
		{"fixed window", "fep: {transport: roce, cc: fixed, lb: ecmp}", "", "", "ecmp", true, true},
		{"without PFC", "{fep: {transport: roce}, switch: {pfc: {enabled: false}}}", "", "dcqcn", "fixed", true, false},
		{"one end point", "fep: {cc: nscc}", "nodes: {host0: {transport: roce}}\n", "nscc", "fixed", true, false},
		{"uet", "fep: {transport: uet, cc: nscc}", "", "nscc", defaultLB, false, false},
	} {
		text := "name: x\nfabric: {kind: star, hosts: 3}\ndefaults:\n  " + c.defaults + "\n" + c.more
		if c.defaults[0] == '{' {
			text = "name: x\nfabric: {kind: star, hosts: 3}\ndefaults: " + c.defaults + "\n" + c.more
		}
		spec, err := Parse("x.yaml", []byte(text))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		p, err := BuildPlan(spec)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		host, sw := nodeOf(p, "host0"), nodeOf(p, "leaf0")
		if f := host.FEP; f.CC != c.cc || f.LB != c.lb || f.Ordered != c.ordered {
			t.Errorf("%s: cc %q lb %q ordered %v, want %q %q %v", c.name, f.CC, f.LB, f.Ordered, c.cc, c.lb, c.ordered)
		}
		q := sw.Switch.Classes[p.DSCP.Data]
		if got := sw.Switch.Queues[q].Lossless; got != c.lossless || sw.Switch.Classes[p.DSCP.Retx] != q {
			t.Errorf("%s: data is in queue %d, lossless %v, want %v", c.name, q, got, c.lossless)
		}
		d, err := host.FEP.Delivery(p.Around(host.ID))
		if err != nil || d.NoInfer != c.ordered {
			t.Errorf("%s: %v, Probes off %v, want %v", c.name, err, d.NoInfer, c.ordered)
		}
		for _, over := range []struct {
			set     map[string]string
			ordered bool
			cc      string
		}{{map[string]string{"transport": "roce"}, true, "dcqcn"}, {map[string]string{"transport": "roce", "cc": "swift"}, true, "swift"}, {map[string]string{"transport": "uet", "cc": "swift"}, false, "swift"}} {
			if f, err := p.OverrideFEP(host.ID, over.set); err != nil || f.Ordered != over.ordered || f.CC != over.cc {
				t.Errorf("%s with %v: %v, %+v", c.name, over.set, err, f)
			}
		}
	}
}

func nodeOf(p *Plan, name string) *Node {
	for i := range p.Nodes {
		if p.Nodes[i].Name == name {
			return &p.Nodes[i]
		}
	}
	return nil
}
