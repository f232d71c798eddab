package faults

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/nearest"
)

// setting is one word that ParseSettings takes.
type setting struct {
	name, example string
	read          func(s *Set, value string) bool
	off           func(s *Set)
	flag          bool // stands without a value too
}

var dists = []link.Dist{link.Uniform, link.Normal, link.Exponential, link.Pareto}

func known(d link.Dist) bool { return slices.Contains(dists, d) }

// chance is the word for a probability, up to most.
func chance(name, example string, most float64, to func(s *Set) **float64) setting {
	return setting{name, example, func(s *Set, v string) bool {
		x, ok := share(v, 0)
		*to(s) = &x
		return ok && x <= most
	}, func(s *Set) { *to(s) = new(float64) }, false}
}

// toggle is a word for what is on or off.
func toggle(name, example string, to func(s *Set) **bool) setting {
	return setting{name, example, func(s *Set, v string) bool {
		on := true
		*to(s) = &on
		return v == "" || v == "on" || v == "true"
	}, func(s *Set) { *to(s) = new(bool) }, true}
}

// instead has other values of a word read first.
func (x setting) instead(other func(s *Set, v string) bool) setting {
	read := x.read
	x.read = func(s *Set, v string) bool { return other(s, v) || read(s, v) }
	return x
}

// settings are all words in the order in which Text writes them.
func settings() []setting {
	return append([]setting{
		toggle("down", "down or down=off", func(s *Set) **bool { return &s.Down }),
		toggle("blackhole", "blackhole or blackhole=off", func(s *Set) **bool { return &s.Blackhole }),
		chance("loss", "loss=0.1%", 1, func(s *Set) **float64 { return &s.Loss }),
		{"burst", "burst=p:1%,r:25% or burst=p:1%,r:25%,bad:100%,good:0%", readBurst, func(s *Set) { s.Burst = &link.Burst{} }, false},
		chance("ber", "ber=1e-7 (up to 0.5)", 0.5, func(s *Set) **float64 { return &s.BER }),
		chance("duplicate", "duplicate=0.1%", 1, func(s *Set) **float64 { return &s.Duplicate }),
		{"reorder", "reorder=1% or reorder=1%,2us", readReorder, func(s *Set) { s.Reorder = new(float64) }, false},
		{"delay", "delay=+2us", func(s *Set, v string) bool {
			ns, ok := duration(strings.TrimPrefix(v, "+"), maxDelay)
			s.DelayNs = &ns
			return ok
		}, func(s *Set) { s.DelayNs = new(int64) }, false},
		{"jitter", "jitter=1us or jitter=1us,normal (uniform, normal, exponential, pareto)", readJitter, func(s *Set) { s.JitterNs = new(int64) }, false},
		{"rate", "rate=25% or rate=100Gbps", readRate, func(s *Set) { whole := 1.0; s.Rate = &whole }, false},
		toggle("llr", "llr=on, llr=off or llr=reinit", func(s *Set) **bool { return &s.LLR }).instead(readReInit),
		toggle("cbfc", "cbfc=on, cbfc=off or cbfc=limit:64KiB", func(s *Set) **bool { return &s.CBFC }).instead(readLimit),
		chance("ucr", "ucr=1e-6 (up to 1)", 1, func(s *Set) **float64 { return &s.UCR }),
		chance("rawber", "rawber=2e-4 (up to 0.5)", 0.5, func(s *Set) **float64 { return &s.RawBER }),
	}, harmSettings()...)
}

func readReInit(s *Set, v string) bool {
	if v != "reinit" {
		return false
	}
	again := true
	s.ReInit = &again
	return true
}

// SettingNames are the names of all settings of a link.
func SettingNames() []string {
	var names []string
	for _, s := range settings() {
		names = append(names, s.name)
	}
	return names
}

// ParseSettings reads words like loss=0.1% or down; each may be ended by =off. Errors are *Error.
func ParseSettings(words []string) (Set, error) {
	var set Set
	all := settings()
	seen := map[string]bool{}
	for _, w := range words {
		name, value, has := strings.Cut(w, "=")
		i := slices.IndexFunc(all, func(s setting) bool { return s.name == name })
		if i < 0 {
			if near := nearest.Word(name, SettingNames()); near != "" {
				return set, problem("did you mean "+near+"?", "%s: no such setting of a link", w)
			}
			return set, problem("valid are "+strings.Join(SettingNames(), ", "), "%s: no such setting of a link", w)
		}
		s := &all[i]
		if seen[name] {
			return set, problem("keep one of them", "%s: %s is set twice", w, name)
		}
		seen[name] = true
		switch {
		case value == "off" || s.flag && value == "false":
			s.off(&set)
		case has == (value == "") || !has && !s.flag || !s.read(&set, value):
			hint := "write " + s.example
			if !strings.Contains(hint, name+"=off") {
				hint += ", or " + name + "=off"
			}
			return set, problem(hint, "%s: not what %s can be", w, name)
		}
	}
	return set, nil
}

// share reads a part of the whole: 25% or 0.25.
func share(s string, least float64) (float64, bool) {
	number, percent := strings.CutSuffix(s, "%")
	v, err := strconv.ParseFloat(number, 64)
	if percent {
		v /= 100
	}
	return v, err == nil && v >= least && v <= 1
}

func duration(s string, most time.Duration) (int64, bool) {
	d, err := time.ParseDuration(s)
	return int64(d), err == nil && d >= 0 && d <= most
}

func readBurst(s *Set, v string) bool {
	b := link.Burst{LossBad: 1}
	s.Burst = &b
	to := map[string]*float64{"p": &b.ToBad, "r": &b.ToGood, "bad": &b.LossBad, "good": &b.LossGood}
	for part := range strings.SplitSeq(v, ",") {
		key, value, _ := strings.Cut(part, ":")
		p, ok := to[key]
		if !ok {
			return false
		}
		if *p, ok = share(value, 0); !ok {
			return false
		}
		delete(to, key)
	}
	return b.ToBad > 0 && b.ToGood > 0
}

func readReorder(s *Set, v string) bool {
	v, by, has := strings.Cut(v, ",")
	x, ok := share(v, 0)
	ns := int64(0)
	if has {
		var fine bool
		ns, fine = duration(by, maxDelay)
		ok = ok && fine && ns > 0
	}
	s.Reorder, s.ReorderByNs = &x, &ns
	return ok
}

func readJitter(s *Set, v string) bool {
	v, name, has := strings.Cut(v, ",")
	ns, ok := duration(v, maxJitter)
	dist := link.Uniform
	if has {
		dist = link.Dist(name)
	}
	s.JitterNs, s.Dist = &ns, &dist
	return ok && known(dist)
}

var rateUnits = []struct {
	name string
	size float64
}{{"Tbps", 1e12}, {"Gbps", 1e9}, {"Mbps", 1e6}, {"kbps", 1e3}}

func readRate(s *Set, v string) bool {
	for _, u := range rateUnits {
		if number, ok := strings.CutSuffix(v, u.name); ok {
			x, err := strconv.ParseFloat(number, 64)
			bps := x * u.size
			if err != nil || !(bps >= 1 && bps < 1e15) {
				return false
			}
			n := int64(bps)
			s.RateBps = &n
			return true
		}
	}
	x, ok := share(v, 1e-6)
	s.Rate = &x
	return ok
}

func rateText(bps int64) string {
	for _, u := range rateUnits {
		if v := float64(bps); v >= u.size {
			return strconv.FormatFloat(v/u.size, 'g', 6, 64) + u.name
		}
	}
	return strconv.FormatInt(bps, 10) + "bps"
}

// Text writes impairments as the words that ParseSettings reads, empty for a healthy direction.
func Text(i *link.Impair) string {
	var out []string
	add := func(is bool, words ...string) {
		if is {
			out = append(out, strings.Join(words, ""))
		}
	}
	add(i.Down, "down")
	add(i.Blackhole, "blackhole")
	add(i.Loss > 0, "loss=", percent(i.Loss))
	if b := i.Burst; b != (link.Burst{}) {
		w := "burst=p:" + percent(b.ToBad) + ",r:" + percent(b.ToGood)
		if b.LossBad != 1 {
			w += ",bad:" + percent(b.LossBad)
		}
		if b.LossGood != 0 {
			w += ",good:" + percent(b.LossGood)
		}
		out = append(out, w)
	}
	add(i.BER > 0, "ber=", small(i.BER))
	add(i.Duplicate > 0, "duplicate=", percent(i.Duplicate))
	by := ""
	if i.ReorderBy > 0 {
		by = "," + span1(i.ReorderBy)
	}
	add(i.Reorder > 0, "reorder=", percent(i.Reorder), by)
	add(i.Delay > 0, "delay=+", span1(i.Delay))
	dist := ""
	if i.Dist != "" && i.Dist != link.Uniform {
		dist = "," + string(i.Dist)
	}
	add(i.Jitter > 0, "jitter=", span1(i.Jitter), dist)
	add(i.Rate > 0 && i.Rate < 1, "rate=", percent(i.Rate))
	add(i.UCR > 0, "ucr=", small(i.UCR))
	add(i.RawBER > 0, "rawber=", small(i.RawBER))
	return strings.Join(append(out, harmText(i)...), " ")
}

// Text writes what is set as words, those that end an impairment with off.
func (s *Set) Text() string {
	var out []string
	i := s.over(link.Impair{}, 1)
	if s.RateBps != nil {
		i.Rate = 0
	}
	if t := Text(&i); t != "" {
		out = append(out, t)
	}
	if s.RateBps != nil {
		out = append(out, "rate="+rateText(*s.RateBps))
	}
	for _, x := range []struct {
		off  bool
		name string
	}{{s.Down != nil && !*s.Down, "down"}, {s.Blackhole != nil && !*s.Blackhole, "blackhole"}, {s.Loss != nil && *s.Loss == 0, "loss"},
		{s.Burst != nil && *s.Burst == link.Burst{}, "burst"}, {s.BER != nil && *s.BER == 0, "ber"}, {s.Duplicate != nil && *s.Duplicate == 0, "duplicate"},
		{s.Reorder != nil && *s.Reorder == 0, "reorder"}, {s.DelayNs != nil && *s.DelayNs == 0, "delay"}, {s.JitterNs != nil && *s.JitterNs == 0, "jitter"},
		{s.Rate != nil && *s.Rate == 1, "rate"},
		{s.UCR != nil && *s.UCR == 0, "ucr"}, {s.RawBER != nil && *s.RawBER == 0, "rawber"}} {
		if x.off {
			out = append(out, x.name+"=off")
		}
	}
	out = append(out, s.harmOff()...)
	if s.LLR != nil {
		out = append(out, map[bool]string{true: "llr=on", false: "llr=off"}[*s.LLR])
	}
	if s.ReInit != nil {
		out = append(out, "llr=reinit")
	}
	if s.CBFC != nil {
		out = append(out, map[bool]string{true: "cbfc=on", false: "cbfc=off"}[*s.CBFC])
	}
	if s.Limit != nil {
		out = append(out, "cbfc=limit:"+sizeText(*s.Limit))
	}
	return strings.Join(out, " ")
}

// small writes a small probability as people do: 1e-7, 0.0002 as 2e-4.
func small(v float64) string {
	if v >= 1e-2 {
		return strconv.FormatFloat(v, 'g', 6, 64)
	}
	digits, exp, _ := strings.Cut(strconv.FormatFloat(v, 'e', -1, 64), "e-")
	return digits + "e-" + strings.TrimLeft(exp, "0")
}

func percent(v float64) string { return strconv.FormatFloat(v*100, 'g', 6, 64) + "%" }

func span1(d time.Duration) string { return strings.Replace(d.String(), "µ", "u", 1) }
