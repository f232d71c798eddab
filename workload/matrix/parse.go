package matrix

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Units of start times: loaders and generators of htsim disagree.
const (
	Microseconds = "us"
	Picoseconds  = "ps"
)

// farStart is the start, in microseconds, above which a file may mean picoseconds.
const farStart = 1e6

// Options say how to read a file.
type Options struct {
	StartUnit string // of start times: us (default) or ps
	Lenient   bool   // let unknown keys and runs of blanks pass, with a warning
}

// Parse reads a connection matrix; name is what errors call it. Warnings tell, one each, what other readers of the file
// may understand differently. The error joins all that is wrong, as far as the first 20.
func Parse(name string, text []byte, o Options) (m *Matrix, warnings []string, err error) {
	if o.StartUnit != "" && o.StartUnit != Microseconds && o.StartUnit != Picoseconds {
		return nil, nil, fmt.Errorf("start unit (%s): no unit of a matrix; take us or ps", clip(o.StartUnit))
	}
	p := &parser{report: report{name: name}, opts: o, m: &Matrix{}, declared: map[string]declaration{}}
	for n, line := range strings.Split(string(text), "\n") {
		p.line = n + 1
		p.readLine(strings.TrimSuffix(line, "\r"))
	}
	p.finish()
	if p.count == 0 {
		p.m.check(&p.report, &p.places)
	}
	if err := p.report.err(); err != nil {
		return nil, p.warnings, err
	}
	return p.m, p.warnings, nil
}

// report collects what is wrong.
type report struct {
	name     string
	count    int
	errs     []error
	warnings []string
}

const maxErrors = 20

func (r *report) where(line int) string {
	if line > 0 {
		return fmt.Sprintf("%s:%d", r.name, line)
	}
	return r.name
}

// bad notes a problem: what (value): why; remedy.
func (r *report) bad(line int, what, value, why string) {
	r.count++
	switch {
	case r.count <= maxErrors:
		r.errs = append(r.errs, fmt.Errorf("%s: %s (%s): %s", r.where(line), what, clip(value), why))
	case r.count == maxErrors+1:
		r.errs = append(r.errs, fmt.Errorf("%s: more is wrong; mend this first", r.name))
	}
}

func (r *report) warn(line int, text string) {
	if len(r.warnings) < maxErrors {
		r.warnings = append(r.warnings, r.where(line)+": "+text)
	}
}

func (r *report) err() error { return errors.Join(r.errs...) }

// clip makes a value fit for a message.
func clip(s string) string {
	const most = 60
	if len(s) > most {
		s = s[:most] + "…"
	}
	q := strconv.Quote(s)
	return q[1 : len(q)-1]
}

type declaration struct{ line, n int }

type parser struct {
	report
	places
	opts     Options
	m        *Matrix
	line     int
	body     bool // a line that is no header has been seen
	declared map[string]declaration
	farSeen  bool
}

var headers = []string{"Nodes", "Connections", "Triggers", "Failures"}

func (p *parser) readLine(line string) {
	if strings.TrimSpace(line) == "" {
		return
	}
	if line[0] == '#' {
		if p.body {
			p.warn(p.line, "a comment after the first connection: htsim's own reader refuses it")
		}
		return
	}
	t, ok := p.tokens(line)
	if !ok {
		return
	}
	switch {
	case slices.Contains(headers, t[0]):
		p.header(t)
		return
	case strings.Contains(t[0], "->"):
		p.flow(t)
	case t[0] == "trigger":
		p.trigger(t)
	case t[0] == "failure":
		p.failure(t)
	default:
		p.bad(p.line, "line", line, "neither a header (Nodes, Connections, Triggers, Failures) nor SRC->DST, trigger or failure")
		return
	}
	p.body = true
}

// tokens cuts a line at its blanks; there is exactly one between two tokens.
func (p *parser) tokens(line string) ([]string, bool) {
	fields := strings.Fields(line)
	t := strings.Split(strings.TrimSuffix(line, " "), " ")
	if slices.Equal(fields, t) {
		return t, true
	}
	if p.opts.Lenient {
		p.warn(p.line, "tokens are not one blank apart: htsim's own reader refuses it")
		return fields, true
	}
	p.bad(p.line, "line", line, "tokens are separated by exactly one blank; remove the others, and tabs")
	return nil, false
}

func (p *parser) header(t []string) {
	if p.body {
		p.bad(p.line, t[0], strings.Join(t[1:], " "), "headers come first; move the line to the top")
		return
	}
	if _, twice := p.declared[t[0]]; twice {
		p.bad(p.line, t[0], strings.Join(t[1:], " "), "said twice; leave one line")
		return
	}
	if len(t) != 2 {
		p.bad(p.line, t[0], strings.Join(t[1:], " "), "takes one number, as in "+t[0]+" 16")
		return
	}
	if n, ok := p.number(t[0], t[1], 0, math.MaxInt32); ok {
		p.declared[t[0]] = declaration{p.line, n}
	}
	if t[0] == "Nodes" {
		p.nodes = []int{p.line}
		p.m.Nodes = p.declared[t[0]].n
	}
}

// number reads a whole number.
func (p *parser) number(what, s string, low, high int) (int, bool) {
	n, err := strconv.Atoi(s)
	if err != nil || s[0] == '+' || n < low || n > high {
		p.bad(p.line, what, s, fmt.Sprintf("not a whole number from %d to %d; write one", low, high))
		return 0, false
	}
	return n, true
}

// flow reads SRC->DST key value ….
func (p *parser) flow(t []string) {
	src, dst, _ := strings.Cut(t[0], "->")
	f := Flow{}
	a, ok1 := p.number("source", src, 0, math.MaxInt32)
	b, ok2 := p.number("destination", dst, 0, math.MaxInt32)
	f.Src, f.Dst = a, b
	ok := ok1 && ok2
	seen := map[string]bool{}
	for i := 1; i < len(t); {
		key := t[i]
		if seen[key] {
			p.bad(p.line, key, t[0], "said twice; leave one")
			return
		}
		seen[key] = true
		n, good := p.flowKey(&f, t[i:])
		if n == 0 {
			return
		}
		ok = ok && good
		i += n
	}
	switch {
	case !ok:
		return
	case seen["start"] == seen["trigger"]:
		p.bad(p.line, "connection", t[0], "has exactly one of start and trigger; write start 0 to begin at once")
		return
	case !seen["size"]:
		p.bad(p.line, "connection", t[0], "has no size, and a flow without an end cannot be played; give its bytes, as in size 2000000")
		return
	}
	p.m.Flows = append(p.m.Flows, f)
	p.flows = append(p.flows, p.line)
}

// flowKey reads a key with its value from the front of t, and says how many tokens that took; 0: the line cannot be read
// on.
func (p *parser) flowKey(f *Flow, t []string) (used int, ok bool) {
	keys := map[string]*int{"id": &f.ID, "trigger": &f.Trigger, "send_done_trigger": &f.SendDone,
		"recv_done_trigger": &f.RecvDone, "prio": &f.Prio}
	key := t[0]
	if key == "msg" { // its number may be left out
		if len(t) < 2 || t[1] == "" || t[1][0] < '0' || t[1][0] > '9' {
			f.Msg = -1
			return 1, true
		}
		f.Msg, ok = p.number(key, t[1], 1, math.MaxInt32)
		return 2, ok
	}
	to, known := keys[key]
	if !known && key != "start" && key != "size" {
		if !p.opts.Lenient {
			p.bad(p.line, "key", key, "unknown; valid are start, size, id, msg, trigger, send_done_trigger, recv_done_trigger, prio; read leniently to skip it")
			return 0, false
		}
		p.warn(p.line, fmt.Sprintf("key (%s): unknown, skipped with its value", clip(key)))
		return min(2, len(t)), true
	}
	if len(t) < 2 {
		p.bad(p.line, key, "", "has no value; write one after it")
		return 0, false
	}
	switch {
	case key == "start":
		f.StartNs, ok = p.start(t[1])
	case key == "size":
		var n int
		n, ok = p.number(key, t[1], 0, math.MaxInt32)
		f.Size = int64(n)
	case key == "prio":
		*to, ok = p.number(key, t[1], 0, math.MaxInt32)
	default:
		*to, ok = p.number(key, t[1], 1, math.MaxInt32)
	}
	return 2, ok
}

// start reads a time, which may have a fraction, and gives nanoseconds.
func (p *parser) start(s string) (int64, bool) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || strings.Trim(s, "0123456789.eE+-") != "" || v < 0 {
		p.bad(p.line, "start", s, "not a time; give a number of "+p.unit())
		return 0, false
	}
	ns := math.Round(v * 1000)
	if p.unit() == Picoseconds {
		ns = math.Round(v / 1000)
	} else if v > farStart && !p.farSeen {
		p.farSeen = true
		p.warn(p.line, fmt.Sprintf("start (%s): is beyond a second in us; if the file has ps, say so with the start unit", clip(s)))
	}
	if !(ns <= MaxStart) {
		p.bad(p.line, "start", s, fmt.Sprintf("beyond the first hour, in %s; check the unit, us or ps", p.unit()))
		return 0, false
	}
	return int64(ns), true
}

func (p *parser) unit() string {
	if p.opts.StartUnit == "" {
		return Microseconds
	}
	return p.opts.StartUnit
}

// trigger reads "trigger id T KIND [count N]".
func (p *parser) trigger(t []string) {
	if len(t) != 4 && (len(t) != 6 || t[4] != "count") || t[1] != "id" {
		p.bad(p.line, "trigger", strings.Join(t[1:], " "), "not a trigger; write it like: trigger id 3 oneshot, or trigger id 3 barrier count 4")
		return
	}
	id, ok := p.number("trigger id", t[2], 1, math.MaxInt32)
	tr := Trigger{ID: id, Kind: Kind(t[3])}
	if len(t) == 6 {
		n, good := p.number("count", t[5], 1, math.MaxInt32)
		tr.Count, ok = n, ok && good
	}
	if ok {
		p.m.Triggers = append(p.m.Triggers, tr)
		p.triggers = append(p.triggers, p.line)
	}
}

// failure reads "failure switch_type TIER switch_id S link_id L".
func (p *parser) failure(t []string) {
	if len(t) != 7 || t[1] != "switch_type" || t[3] != "switch_id" || t[5] != "link_id" {
		p.bad(p.line, "failure", strings.Join(t[1:], " "), "not a failure; write it like: failure switch_type AGG switch_id 0 link_id 1")
		return
	}
	if t[2] != "TOR" && t[2] != "AGG" && t[2] != "CORE" {
		p.bad(p.line, "switch_type", t[2], "no tier; take TOR, AGG or CORE")
		return
	}
	sw, ok1 := p.number("switch_id", t[4], 0, math.MaxInt32)
	l, ok2 := p.number("link_id", t[6], 0, math.MaxInt32)
	if ok1 && ok2 {
		p.m.Failures = append(p.m.Failures, Failure{t[2], sw, l})
	}
}

// finish compares what was declared with what was there, and gives numbers to what has none.
func (p *parser) finish() {
	if p.count > 0 {
		return // lines are missing for other reasons
	}
	for _, h := range []struct {
		key  string
		n    int
		must bool
	}{{"Nodes", p.m.Nodes, true}, {"Connections", len(p.m.Flows), true}, {"Triggers", len(p.m.Triggers), false}, {"Failures", len(p.m.Failures), false}} {
		d, ok := p.declared[h.key]
		switch {
		case !ok && (h.must || h.n > 0):
			p.bad(0, h.key, "", fmt.Sprintf("the header is missing; begin the file with %s %d", h.key, max(h.n, 2)))
		case ok && d.n != h.n:
			p.bad(d.line, h.key, fmt.Sprint(d.n), fmt.Sprintf("there are %d; write that", h.n))
		}
	}
	p.giveIDs()
}

// giveIDs gives ids to connections that have none, and numbers to messages that have none.
func (p *parser) giveIDs() {
	used := map[int]bool{}
	msgs := map[[2]int]bool{}
	for i := range p.m.Flows {
		f := &p.m.Flows[i]
		used[f.ID] = true
		msgs[[2]int{f.ID, f.Msg}] = true
	}
	next := 1
	lastMsg := map[int]int{}
	for i := range p.m.Flows {
		f := &p.m.Flows[i]
		if f.ID == 0 {
			if f.Msg != 0 {
				p.bad(p.flows[i], "msg", "", "belongs to a connection; give its id too")
				continue
			}
			for used[next] {
				next++
			}
			f.ID = next
			used[next] = true
		}
		if f.Msg < 0 {
			n := lastMsg[f.ID] + 1
			for msgs[[2]int{f.ID, n}] {
				n++
			}
			f.Msg = n
			msgs[[2]int{f.ID, n}] = true
			lastMsg[f.ID] = n
		}
	}
}
