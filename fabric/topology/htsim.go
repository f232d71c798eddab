package topology

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ParseHTSim reads a topology file of htsim (.topo): two tiers become leaves and spines, three become edges, aggs and
// cores, with htsim's numbering of hosts. name is what problems call the file; its last part names the lab. The error is
// Problems. Every switch has one size of queue here, so that a tier's Queue_Up and Queue_Down may not differ; where both
// are left out it is automatic, as everywhere. The mtu stays the default: its 4096 bytes of payload stand for htsim's 4150-byte
// packets.
func ParseHTSim(name string, text []byte) (*Spec, error) {
	h := &htsimFile{name: name, current: noTier, header: map[string]htsimValue{}}
	for i := range h.tiers {
		h.tiers[i] = map[string]htsimValue{}
	}
	for i, line := range strings.Split(string(text), "\n") {
		h.read(i+1, line)
	}
	if len(h.problems) == 0 {
		h.complete()
	}
	var s *Spec
	if len(h.problems) == 0 {
		s = h.spec()
	}
	if err := h.problems.err(); err != nil {
		return nil, err
	}
	if _, err := BuildPlan(s); err != nil {
		return nil, err
	}
	return s, nil
}

const (
	noTier  = -1
	badTier = -2
)

// htsimValue is what a line says.
type htsimValue struct {
	at position
	n  int64
}

// htsimFile is a file on its way to a Spec. Keys are in small letters; htsim takes either case.
type htsimFile struct {
	name     string
	about    string // the first comment
	header   map[string]htsimValue
	tiers    [3]map[string]htsimValue
	current  int // tier that lines belong to; noTier: the header, badTier: one that cannot be
	tierLine [3]int
	problems Problems
}

// htsimKey is a key with the reader of its value.
type htsimKey struct {
	name      string
	low, high int64
	measure   *measure // nil: a plain number
	unit      string   // of measure, appended to the value
	must      bool
}

var htsimHeader = []htsimKey{
	{name: "Nodes", low: 2, high: maxNodes, must: true},
	{name: "Tiers", low: 2, high: 3, must: true},
	{name: "Podsize", low: 1, high: maxNodes, must: true},
}

var htsimTier = []htsimKey{
	{name: "Downlink_speed_Gbps", low: minRate, high: maxRate, measure: &rates, unit: "Gbps", must: true},
	{name: "Radix_Down", low: 1, high: maxNodes, must: true},
	{name: "Radix_Up", low: 1, high: maxNodes},
	{name: "Downlink_Latency_ns", low: int64(minDelay), high: int64(maxDelay), measure: &durations, unit: "ns", must: true},
	{name: "Switch_Latency_ns", low: 0, high: int64(maxDelay), measure: &durations, unit: "ns"},
	{name: "Oversubscribed", low: 1, high: maxNodes},
	{name: "Bundle", low: 1, high: maxPorts},
	{name: "Queue_Up", low: 1, high: 1 << 40},
	{name: "Queue_Down", low: 1, high: 1 << 40},
}

func (h *htsimFile) problem(at position, what, value, why, hint string) {
	h.problems = append(h.problems, Problem{File: h.name, Line: at.Line, Col: at.Col, Msg: about(what, value) + ": " + why, Hint: hint})
}

func (h *htsimFile) read(n int, line string) {
	t := strings.Fields(line)
	if len(t) == 0 {
		return
	}
	at := position{Line: n, Col: 1 + strings.Index(line, t[0])}
	if t[0][0] == '#' {
		if h.about == "" {
			h.about = strings.Join(strings.Fields(strings.TrimLeft(line, "# \t")), " ")
		}
		return
	}
	if len(t) != 2 {
		h.problem(at, "line", strings.Join(t, " "), "not a key with one value", "write it like Radix_Down 4")
		return
	}
	if strings.EqualFold(t[0], "tier") {
		h.startTier(at, t[1])
		return
	}
	if h.current == badTier {
		return // the line may be right once the Tier is
	}
	keys, values := htsimHeader, h.header
	if h.current >= 0 {
		keys, values = htsimTier, h.tiers[h.current]
	}
	for _, k := range keys {
		if strings.EqualFold(k.name, t[0]) {
			if _, twice := values[k.name]; twice {
				h.problem(at, k.name, t[1], "said twice", "leave one line")
			} else if v, ok := h.value(k, at, t[1]); ok {
				values[k.name] = htsimValue{at, v}
			}
			return
		}
	}
	h.unknown(at, t[0], keys)
}

func (h *htsimFile) unknown(at position, key string, keys []htsimKey) {
	names := []string{"Tier"}
	for _, k := range keys {
		names = append(names, k.name)
	}
	where := "in the header"
	if h.current >= 0 {
		where = fmt.Sprintf("in Tier %d", h.current)
	}
	h.problem(at, "key", key, "there is none of that name "+where, didYouMean(key, names))
}

func (h *htsimFile) startTier(at position, s string) {
	h.current = badTier
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n >= len(h.tiers) {
		h.problem(at, "Tier", s, "no such tier", "tiers go from 0, the one with the hosts, to 2")
		return
	}
	if h.tierLine[n] > 0 {
		h.problem(at, "Tier", s, "said twice", "put its keys together")
		return
	}
	h.current, h.tierLine[n] = n, at.Line
}

func (h *htsimFile) value(k htsimKey, at position, s string) (int64, bool) {
	var v int64
	ok := true
	if k.measure != nil {
		v, _, ok = k.measure.parse(s + k.unit)
	} else {
		n, err := strconv.ParseInt(s, 10, 64)
		v, ok = n, err == nil && s[0] != '+'
	}
	if !ok || v < k.low || v > k.high {
		h.problem(at, k.name, s, "out of range, or no number", k.hint())
		return 0, false
	}
	return v, true
}

func (k htsimKey) hint() string {
	if k.measure != nil {
		return fmt.Sprintf("write a number from %s to %s, without the unit", k.measure.format(k.low), k.measure.format(k.high))
	}
	return fmt.Sprintf("write a whole number from %d to %d", k.low, k.high)
}

// complete wants every key that must be there, and none that cannot be.
func (h *htsimFile) complete() {
	for _, k := range htsimHeader {
		if _, ok := h.header[k.name]; !ok {
			h.problem(position{Line: 1, Col: 1}, k.name, "", "the header lacks it", "add it above the first Tier")
		}
	}
	if len(h.problems) > 0 {
		return
	}
	top := int(h.header["Tiers"].n) - 1
	for i, values := range h.tiers {
		at := position{Line: max(1, h.tierLine[i]), Col: 1}
		if i > top {
			if h.tierLine[i] > 0 {
				h.problem(at, "Tier", strconv.Itoa(i), "there are only two tiers", "write Tiers 3, or remove it")
			}
			continue
		}
		for _, k := range htsimTier {
			if _, ok := values[k.name]; !ok && (k.must || k.name == "Radix_Up" && i < top) {
				h.problem(at, k.name, "", fmt.Sprintf("Tier %d lacks it", i), "add it")
			}
		}
		// Older readers of two tiers want a Radix_Up in Tier 1 and do not use it.
		for _, key := range []string{"Radix_Up", "Queue_Up"} {
			if v, ok := values[key]; ok && i == top && (top == 2 || key != "Radix_Up") {
				h.problem(v.at, key, fmt.Sprint(v.n), "the top tier has no links upwards", "remove it")
			}
		}
		up, down := values["Queue_Up"], values["Queue_Down"]
		if up.n > 0 && down.n > 0 && up.n != down.n {
			h.problem(down.at, "Queue_Down", fmt.Sprint(down.n), fmt.Sprintf("Queue_Up is %d, and all ports of a switch have one size here", up.n), "make them equal, or leave one out")
		}
	}
	if v := h.tiers[0]["Bundle"]; v.n > 1 {
		h.problem(v.at, "Bundle", fmt.Sprint(v.n), "a host has one link", "remove it from Tier 0")
	}
}

// count gives a tier's number, 1 where it was left out.
func (h *htsimFile) count(tier int, key string) int { return int(max(1, h.tiers[tier][key].n)) }

func (h *htsimFile) link(tier int) LinkParams {
	return LinkParams{Rate: h.tiers[tier]["Downlink_speed_Gbps"].n, Delay: time.Duration(h.tiers[tier]["Downlink_Latency_ns"].n)}
}

func (h *htsimFile) switches(tier int) SwitchParams {
	v := h.tiers[tier]
	latency := time.Duration(v["Switch_Latency_ns"].n)
	return SwitchParams{Latency: &latency, Buffer: Size{Bytes: max(v["Queue_Up"].n, v["Queue_Down"].n)}}
}
