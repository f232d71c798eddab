package topology

import (
	"fmt"
	"slices"
	"time"

	"github.com/uetlab/uetlab/fep/cms"
	"github.com/uetlab/uetlab/fep/lb"
)

// The keys of a topology file, object by object.

var (
	imageForm    = lazily(`^[a-zA-Z0-9][a-zA-Z0-9._/:@-]{0,254}$`)
	endpointForm = lazily(`^[a-z*?\[][a-z0-9*?\[\]^-]{0,63}(:eth[0-9]{1,3})?$`)
	nodeForm     = lazily(`^[a-z*?\[][a-z0-9*?\[\]^-]{0,63}$`)
)

func (s *Spec) fields() []field {
	return []field{
		{key: "name", doc: "Name of the lab when none is given: small letters, digits and -, at most 31.", required: true,
			to: text{to: &s.Name, form: labName, why: "not a lab name (small letters, digits and -, at most 31)", example: "my-lab"}},
		{key: "description", doc: "What the topology is for; shown by listings.", to: text{to: &s.Description, example: "two racks"}},
		{key: "fabric", doc: "Nodes and links by the pattern.", to: fabricObject{&s.Fabric}},
		{key: "defaults", doc: "What holds for every link and node that says nothing itself.", to: object{to: &s.Defaults}},
		{key: "routing", doc: "How the fabric reacts to failures.", to: object{to: &s.Routing}},
		{key: "dscp", doc: "Code points of the classes of traffic, each another one from 0 to 63.", to: object{to: &s.DSCP}},
		{key: "addressing", doc: "Where addresses are taken from.", to: object{to: &s.Addressing}},
		{key: "nodes", doc: "Further nodes, and changes to nodes of the fabric by name or pattern (*, ?, [0-3]).", to: nodeMap{to: &s.Nodes}},
		{key: "links", doc: "Further links, and changes to links of the fabric.", to: linkList{to: &s.Links}},
		{key: "miswired", doc: "Pairs of links whose far ends are swapped when the lab is plugged together; the nodes go on believing the rest of the file.", to: swapList{&s.Miswired}},
	}
}

func (f *Fabric) fields() []field {
	fields := []field{{key: "kind", doc: "The pattern.", required: true, to: word[FabricKind]{to: &f.Kind, valid: fabricKindNames()}}}
	for _, size := range fabricSizes {
		fields = append(fields, field{key: size.key, doc: size.doc, def: size.defText(),
			to: count{to: size.of(f), min: size.min, max: size.max, even: size.key == "k"}})
	}
	return fields
}

func (d *Defaults) fields() []field {
	return []field{
		{key: "link", doc: "For every link.", to: object{to: &d.Link}},
		{key: "switch", doc: "For every switch.", to: object{to: &d.Switch}},
		{key: "fep", doc: "For every fabric end point.", to: object{to: &d.FEP}},
		{key: "host", doc: "For every plain Linux node.", to: object{to: &d.Host}},
	}
}

func (p *LinkParams) fields() []field {
	return []field{
		{key: "lldp", doc: "LLDP on both ports: off; on, so that they negotiate llr and cbfc; or static, so that these are as configured.", def: wordOff, to: word[string]{&p.LLDP, []string{wordOff, lldpOn, lldpStatic}}},
		{key: "rate", doc: "Speed of each direction, 1Mbps to 3200Gbps.", def: "400Gbps", to: quantity[int64]{&p.Rate, rates, minRate, maxRate}},
		{key: "delay", doc: "Propagation delay, 1ns to 1s.", def: "500ns", to: quantity[time.Duration]{&p.Delay, durations, minDelay, maxDelay}},
		{key: "mtu", doc: "Largest IP packet in bytes.", def: "4500", to: count{to: &p.MTU, min: minMTU, max: maxMTU}},
		{key: "ber", doc: "Probability that a bit arrives wrong, from the start: 1e-8.", def: "0", to: chance{ratio{&p.BER, 0.5}}},
		{key: "ucr", doc: "Probability that a codeword of FEC is uncorrectable, from the start: 1e-6.", def: "0", to: chance{ratio{&p.UCR, 1}}},
		{key: "rawBer", doc: "Probability that a bit is wrong before FEC, from the start: 2e-4.", def: "0", to: chance{ratio{&p.RawBER, 0.5}}},
		{key: "fec", doc: "Forward error correction, RS(544,514).", to: object{&p.FEC, "fec"}},
		{key: "llr", doc: "Link layer retry: on, off, or on with other parameters than usual.", def: wordOff, to: either{object{&p.LLR, "llr"}, word[string]{&p.LLR.Mode, []string{wordOff, wordOn}}}},
		{key: "cbfc", doc: "Credit-based flow control: on, off, or on with other parameters than usual.", def: wordOff, to: either{object{&p.CBFC, "cbfc"}, word[string]{&p.CBFC.Mode, []string{wordOff, wordOn}}}},
	}
}

func (p *FEPParams) fields() []field { return append(p.managed(), p.semantic()...) }

func (p *FEPParams) semantic() []field {
	return []field{
		{key: "profile", doc: "Profiles of the standard: ai-base, ai-full with it, hpc with both, or a list of exactly those. Two end points use the highest that both have.",
			def: ProfileAIFull, to: profiles{&p.Profiles}},
		{key: "eager", doc: "HPC: what a longer send brings at once, 1B to 64KiB, or auto: what the window has room for; its target reads the rest.", def: wordAuto, to: amount{to: &p.Eager, auto: true, bytesOnly: true, max: maxEager}},
		{key: "sendThreshold", doc: "AI Full: length from which on sends are deferrable, so that their target may stop and resume them; none: never.", def: "8KiB", to: amount{to: &p.Threshold, zero: "none", bytesOnly: true}},
		{key: "unexpected", doc: "HPC: bytes kept of messages that no receive waits for, 0B to 1GiB.", def: "1MiB", to: amount{to: &p.Unexpected, zero: noBytes, bytesOnly: true}},
		{key: "rtr", doc: "AI Full: messages that may wait for a receive after a deferrable send, 0 to 65536.", def: "8", to: number{&p.RTR, 0, maxRTR}},
		{key: "tooLong", doc: "A message longer than its receive: truncate, or reject it with an error to its sender.", def: wordTruncate, to: word[string]{&p.TooLong, []string{wordTruncate, TooLongReject}}},
		{key: "ackData", doc: "Read data up to so many bytes goes with the ACK, 0B to 1KiB.", def: "16B", to: amount{to: &p.AckData, zero: noBytes, bytesOnly: true, max: maxAckData}},
	}
}

// Words of an end point's congestion management, the defaults first.
var (
	ccWords = append([]string{DefaultCC}, others(cms.Names(), DefaultCC)...)
	lbWords = append([]string{defaultLB}, others(lb.Names(), defaultLB)...)
)

func others(words []string, but ...string) []string {
	return slices.DeleteFunc(words, func(w string) bool { return slices.Contains(but, w) })
}

func fepCSIG(p *FEPParams) binding {
	return word[string]{&p.CSIG, []string{wordOff, "compact", "wide"}}
}

func (p *HostParams) fields() []field {
	return []field{
		{key: "image", doc: "Container image of the node (docker runtime).", to: text{to: &p.Image, form: imageForm, why: "not an image name", example: "alpine:3.22"}},
		{key: "command", doc: "What the node runs; it idles when absent.", to: words{&p.Command}},
	}
}

func (r *Routing) fields() []field {
	return []field{
		{key: "convergence", doc: "Time until remote switches route around a failure, 0ns to 100s, or never.", def: "500us",
			to: span{to: &r.Convergence, word: "never", wordIs: Never, max: 100 * maxDelay}},
	}
}

func (p *DSCPParams) fields() []field {
	of := func(key, doc string, def uint8, to **int) field {
		return field{key: key, doc: doc, def: fmt.Sprint(def), to: number{to, 0, numDSCP - 1}}
	}
	return []field{
		of("control", "ACKs, NACKs and other control packets.", defaultDSCP.Control, &p.Control),
		of("data", "Data, which may be trimmed.", defaultDSCP.Data, &p.Data),
		of("retx", "Retransmitted data, which is trimmed later.", defaultDSCP.Retx, &p.Retx),
		of("trimmed", "Trimmed packets on their way.", defaultDSCP.Trimmed, &p.Trimmed),
		of("lastHop", "Packets that were trimmed at the port to their destination.", defaultDSCP.LastHop, &p.LastHop),
		of("unreliable", "Data of RUDI and UUD, which may be trimmed.", defaultDSCP.Unreliable, &p.Unreliable),
		of("roce", "RoCE.", defaultDSCP.RoCE, &p.RoCE),
	}
}

func (a *Addressing) fields() []field {
	return []field{
		{key: "ipv4", doc: "IPv4 range of the lab, /8 to /16.", def: defaultIPv4.String(), to: prefix{&a.IPv4, false, minIPv4Bits, maxIPv4Bits}},
		{key: "ipv6", doc: "IPv6 range of the lab, /8 to /48.", def: defaultIPv6.String(), to: prefix{&a.IPv6, true, minIPv6Bits, maxIPv6Bits}},
	}
}

func (n *NodeSpec) fields() []field {
	fields := []field{
		{key: "kind", doc: "What runs in the node; needed for a new one.", to: word[Kind]{&n.Kind, []string{string(KindFEP), string(KindSwitch), string(KindHost)}}},
		{key: "seed", doc: "Hash seed of a switch; derived from its name when absent.", to: seed{&n.Seed}},
	}
	fields = append(fields, n.SwitchParams.fields()...)
	own := n.FEPParams.fields()
	for i := range fields {
		switch f := &fields[i]; f.key {
		case "csig":
			f.doc = "Of a switch: in-band congestion signalling. Of an end point: off, compact or wide."
			f.to = either{object{&n.SwitchParams.CSIG, "csig"}, fepCSIG(&n.FEPParams)}
		case "ecmp":
			f.doc = "Of a switch: how a port is chosen of several. Of an end point: parameters of lb ecmp."
			f.to = union{object{&n.SwitchParams.ECMP, "ecmp"}, object{ecmpKeys{n.FEPParams.params()}, "fepEcmp"}}
		}
	}
	fields = append(fields, slices.DeleteFunc(own, func(f field) bool { return f.key == "csig" || f.key == "ecmp" })...)
	fields = append(fields, n.HostParams.fields()...)
	for i := range fields {
		fields[i].def = "" // what the defaults section says
	}
	return fields
}

func (l *LinkSpec) fields() []field {
	fields := append([]field{
		{key: "endpoints", doc: "The two ends: leaf0 or leaf0:eth3, or a pattern that changes links of the fabric.", required: true, to: ends{&l.Endpoints}},
	}, l.LinkParams.fields()...)
	for i := range fields {
		fields[i].def = ""
	}
	return fields
}
