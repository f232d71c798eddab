package topology

import (
	"fmt"
	"slices"
	"strings"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/switchd"
	"github.com/uetlab/uetlab/wire"
)

// complaint is something that the settings of a switch must not be.
type complaint struct {
	keys  []string // that may have made it so, the most exact first
	value string
	why   string
	hint  string
}

// complaints lists what is wrong with the settings as a whole.
func (c *settler) complaints() []complaint {
	var all []complaint
	for _, check := range []func() []complaint{c.checkQueues, c.checkTrim, c.checkShared, c.checkPFC, c.checkPorts, c.checkRest} {
		all = append(all, check()...)
	}
	return all
}

func (c *settler) checkQueues() []complaint {
	var all []complaint
	for q := range c.s.Queues {
		s := &c.s.Queues[q]
		of := func(key string) string { return "queues." + queueName(q) + "." + key }
		from := func(key, group string) []string {
			if marks(q) {
				return []string{of(key), group}
			}
			return []string{of(key)}
		}
		if need := c.largestFrame(); s.Limit > 0 && s.Limit < need {
			all = append(all, complaint{from("limit", "buffer"), sizes.format(s.Limit), fmt.Sprintf("does not hold one full frame of %d bytes", need),
				fmt.Sprintf("write auto, or at least %dB", need)})
		}
		if s.Kmin > s.Kmax {
			all = append(all, complaint{append(from("kmin", "ecn.kmin"), from("kmax", "ecn.kmax")...), sizes.format(s.Kmin), "above kmax, which is " + sizes.format(s.Kmax),
				"marks begin at kmin and are certain from kmax on: make kmin the smaller one"})
		}
		if s.Kmax > 0 && !marks(q) {
			all = append(all, complaint{[]string{of("ecn")}, "true", "trimmed and control packets are never marked", "leave it out"})
		}
		if s.Strict && s.Weight > 0 {
			all = append(all, complaint{[]string{of("weight")}, fmt.Sprint(s.Weight), "a strict queue goes before all others and has no weight", fmt.Sprintf("leave it out, or add %s: false", of("strict"))})
		}
		if s.Lossless && s.Trim {
			all = append(all, complaint{[]string{of("trim"), of("lossless")}, "true", "a lossless queue drops nothing that could be trimmed", "switch trim or lossless off"})
		}
		if s.Lossless && s.WRED {
			all = append(all, complaint{[]string{of("wred"), of("lossless")}, "true", "a lossless queue drops nothing", "switch wred or lossless off"})
		}
		if s.Alpha > 0 && c.s.Buffer.Shared == 0 {
			all = append(all, complaint{[]string{of("alpha")}, literalOf(s.Alpha), "a threshold of shared memory, of which there is none", "add shared: {size: 4MiB}"})
		}
	}
	return all
}

func literalOf(x float64) string {
	p := &x
	v, _ := ratio{to: &p}.print()
	return string(v.(literal))
}

func (c *settler) checkTrim() []complaint {
	s := &c.s.Trim
	var all []complaint
	dscp := c.plan.DSCP
	for _, never := range []struct {
		name string
		dscp uint8
	}{{"control", dscp.Control}, {"trimmed", dscp.Trimmed}, {"lastHop", dscp.LastHop}} {
		if slices.Contains(s.Trimmable, never.dscp) {
			all = append(all, complaint{[]string{"trim.trimmable"}, fmt.Sprint(never.dscp), "the code point of " + never.name + " packets, which are never trimmed", "leave it out"})
		}
	}
	if !s.Enabled {
		return all
	}
	if limit := c.s.Queues[queueData].Limit; s.RetxLimit < limit {
		all = append(all, complaint{[]string{"trim.retxLimit", "queues.data.limit", "buffer"}, sizes.format(s.RetxLimit),
			"below the data queue's limit, which is " + sizes.format(limit), "retransmissions are trimmed later than data: write auto for trim.retxLimit, or at least " + sizes.format(limit)})
	}
	for _, d := range []uint8{s.Trimmed, s.LastHop} {
		if q := c.s.Classes[d]; c.s.Queues[q].Lossless {
			all = append(all, complaint{[]string{fmt.Sprintf("classes.%d", d), "queues." + queueName(int(q)) + ".lossless"}, queueName(int(q)),
				fmt.Sprintf("trimmed packets (DSCP %d) would go into a lossless queue", d), "give them another queue"})
			break
		}
	}
	return all
}

// checkShared wants what is set aside to be there.
func (c *settler) checkShared() []complaint {
	ports := int64(len(c.node.Ports))
	lossless := int64(0)
	for q := range c.s.Queues {
		if c.s.Queues[q].Lossless {
			lossless++
		}
	}
	b := &c.s.Buffer
	if c.p.Shared.Reserved.some() && b.Shared == 0 && !c.p.Shared.Size.None {
		return []complaint{{[]string{"shared.reserved"}, "", "set aside from shared memory, of which there is none", "add shared.size, e.g. 4MiB"}}
	}
	if b.Shared == 0 {
		return nil
	}
	reserved := ports * (link.NumQueues - lossless) * b.Reserved
	if reserved > b.Shared {
		return []complaint{{[]string{"shared.reserved", "shared.size"}, sizes.format(b.Reserved),
			fmt.Sprintf("%d ports with %d lossy queues each have %s reserved, and all share %s", ports, link.NumQueues-lossless, sizes.format(reserved), sizes.format(b.Shared)), "reserve less, or share more"}}
	}
	pfc := ports * lossless * (c.s.PFC.Xoff + c.s.PFC.Headroom)
	if reserved+pfc > b.Shared {
		return []complaint{{[]string{"shared.size", "pfc.xoff", "pfc.headroom", "pfc.enabled"}, sizes.format(b.Shared),
			fmt.Sprintf("less than the %s that xoff and headroom of %d ports and reserved queues set aside", sizes.format(reserved+pfc), ports), "share more, or lower pfc.xoff"}}
	}
	return nil
}

func (c *settler) checkPFC() []complaint {
	var all []complaint
	on := c.anyLossless()
	said := c.p.PFC.Enabled
	for q := range c.s.Queues {
		p := c.p.Queues[q].Lossless
		if p != nil && *p && (said == nil && !c.pfcWas || said != nil && !*said) {
			all = append(all, complaint{[]string{"queues." + queueName(q) + ".lossless"}, "true", "without PFC nothing keeps a queue from overflowing", "add pfc.enabled: true"})
		}
	}
	if said != nil && *said && !on {
		all = append(all, complaint{[]string{"pfc.enabled"}, "true", "no queue is lossless", "make one so, e.g. queues.roce.lossless: true"})
	}
	if !on {
		return all
	}
	s := &c.s.PFC
	if s.Xon > s.Xoff {
		all = append(all, complaint{[]string{"pfc.xon", "pfc.xoff"}, sizes.format(s.Xon), "above xoff, which is " + sizes.format(s.Xoff), "a sender that was paused goes on at xon: write auto, or at most " + sizes.format(s.Xoff)})
	}
	if need := c.largestFrame(); s.Xoff < need {
		all = append(all, complaint{[]string{"pfc.xoff"}, sizes.format(s.Xoff), fmt.Sprintf("does not hold one full frame of %d bytes", need), fmt.Sprintf("write auto, or at least %dB", need)})
	}
	return all
}

// checkPorts wants every port that is named to exist.
func (c *settler) checkPorts() []complaint {
	var all []complaint
	last := len(c.node.Ports)
	port := func(i int, keys ...string) {
		if i >= last {
			all = append(all, complaint{keys, fmt.Sprintf("eth%d", i+1), c.node.Name + " has no such port", fmt.Sprintf("its ports are eth1 to eth%d", last)})
		}
	}
	port(c.s.Mirror.To, "mirror.to")
	port(c.s.Mirror.From, "mirror.from")
	for i := range link.NumPorts {
		if c.s.CSIG.Strip[i] {
			port(i, "csig.strip")
		}
		if c.s.ECMP.PortWeight[i] > 0 {
			port(i, fmt.Sprintf("weight.eth%d", i+1))
		}
	}
	return all
}

func (c *settler) checkRest() []complaint {
	var all []complaint
	if m := &c.s.Mirror; m.To >= 0 && m.To == m.From {
		all = append(all, complaint{[]string{"mirror.from", "mirror.to"}, fmt.Sprintf("eth%d", m.From+1), "copies would go to the port that they are copies of", "name another port"})
	}
	if e := &c.s.ECMP; e.Group == switchd.GroupResilient && e.Buckets < len(c.node.Ports) {
		all = append(all, complaint{[]string{"ecmp.buckets", "ecmp.group"}, fmt.Sprint(e.Buckets), fmt.Sprintf("fewer than the %d ports of %s", len(c.node.Ports), c.node.Name), "a resilient group needs a bucket for each"})
	}
	if slices.Equal(c.s.ECMP.Fields, []string{"flowlabel"}) {
		all = append(all, complaint{[]string{"ecmp.fields"}, "flowlabel", "all of IPv4, which has no flow label, would take one path", "add src and dst"})
	}
	if s := &c.s.CSIG; s.Compact == s.Wide {
		all = append(all, complaint{[]string{"csig.wide", "csig.compact"}, fmt.Sprintf("0x%04X", s.Wide), "also the TPID of the other tag", "give each tag its own"})
	}
	for _, tag := range []struct {
		key  string
		tpid uint16
	}{{"csig.compact", c.s.CSIG.Compact}, {"csig.wide", c.s.CSIG.Wide}} {
		if slices.Contains(takenTypes, wire.EtherType(tag.tpid)) {
			all = append(all, complaint{[]string{tag.key}, fmt.Sprintf("0x%04X", tag.tpid), "what other frames have as their EtherType", "take one that is free, e.g. 0xCCDD"})
		}
	}
	return all
}

// takenTypes are EtherTypes that no CSIG tag can have.
var takenTypes = []wire.EtherType{wire.EtherIPv4, wire.EtherARP, wire.EtherVLAN, wire.EtherQinQ, wire.EtherIPv6, wire.EtherMACControl, wire.EtherExperiment, wire.EtherLLDP}

// some says whether the size is said and not none.
func (s Size) some() bool { return s != Size{} && !s.None }

// checkSwitch reports what is wrong with the settings of a switch; of several switches only the first that is wrong, since
// a wrong default would repeat for each.
func (d *draft) checkSwitch(n *draftNode, c *settler) {
	if len(d.problems) > 0 {
		return
	}
	for _, x := range c.complaints() {
		key, at := d.whereKey(n, x.keys)
		d.problem(at, n.name+"."+key, x.value, x.why, x.hint)
	}
}

// whereKey finds which of the keys was said of switch n, and where: in the entry that wins, if there are several.
func (d *draft) whereKey(n *draftNode, keys []string) (string, position) {
	said := []*SwitchParams{&d.spec.Defaults.Switch}
	for _, e := range d.entriesOf(n) {
		said = append(said, &e.SwitchParams)
	}
	slices.Reverse(said)
	for _, key := range keys {
		for _, p := range said {
			f, ok := find(p.fields(), key)
			if !ok {
				continue
			}
			if _, says := f.to.print(); says {
				return key, d.spec.at(f.to.pointer())
			}
		}
	}
	return keys[0], position{}
}

// find finds the field that a dotted key names.
func find(fields []field, key string) (field, bool) {
	first, rest, nested := strings.Cut(key, ".")
	for _, f := range fields {
		if f.key != first {
			continue
		}
		if !nested {
			return f, true
		}
		sub, ok := f.to.(keyed)
		if !ok {
			return field{}, false
		}
		next, rest, deeper := strings.Cut(rest, ".")
		next = sub.canonical(next)
		if deeper {
			next += "." + rest
		}
		return find(sub.keys(), next)
	}
	return field{}, false
}

// checkHashes wants the ECMP hash under one of its two names.
func (d *draft) checkHashes() {
	twice := func(section string, p *SwitchParams) {
		if p.Hash != "" && p.ECMP.Hash != "" {
			at := d.spec.at(&p.ECMP.Hash)
			if short := d.spec.at(&p.Hash); short.Line > at.Line {
				at = short
			}
			d.problem(at, section+".hash", p.Hash, "also given as ecmp.hash", "keep one of them")
		}
	}
	twice("defaults.switch", &d.spec.Defaults.Switch)
	for _, n := range d.spec.Nodes {
		twice(n.Name, &n.SwitchParams)
	}
}
