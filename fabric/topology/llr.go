package topology

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/uetlab/uetlab/internal/link/llr"
	"github.com/uetlab/uetlab/wire"
)

// LLRParams describe link layer retry on a link, both directions alike.
type LLRParams struct {
	Mode        string         // on or off; empty: on if anything below is said
	Window      *int           // frames without ACK; default what Buffer holds of the shortest
	Buffer      Size           // bytes without ACK; default auto: 2 round trips, at least 64 KiB
	ReplayTimer *time.Duration // default auto: 5 us, or as long as an ACK may take
	ReplayCount *int           // replays without progress, 255 for ever; default 3
	DataAge     *time.Duration // of a frame without ACK until the port gives up, 0 never; default auto: a replay timer beyond ReplayCount
	PCSLost     *time.Duration // how long the link may be down; default 50 us
	Init        string         // what becomes of frames while ports shake hands; default best_effort
	Flush       string         // the same when a port has given up; default best_effort
	ReInit      *bool          // shake hands by itself then; default true
	AckEvery    Size           // bytes for which there is an ACK; default 16 KiB
	AckDelay    *time.Duration // longest wait for one; default 1 us
	Ends        *[]string      // who wants it where that is negotiated, names or patterns; nil: both ends
}

const (
	maxRetryTimer = 4_290_000_000 * time.Nanosecond
	leastBuffer   = 64 << 10
	leastWindow   = 128

	defaultReplayTimer = 5 * time.Microsecond
	defaultDataAge     = 20 * time.Microsecond
	defaultReplayCount = 3
	defaultPCSLost     = 50 * time.Microsecond
	defaultAckEvery    = 16 << 10
	defaultAckDelay    = time.Microsecond
)

var llrBehaviors = []string{string(llr.BestEffort), string(llr.Block), string(llr.Discard)}

func (p *LLRParams) fields() []field {
	return []field{
		{key: "window", doc: "Frames that may wait for an ACK, 1 to 524288. Without it as many as the buffer holds of the shortest.", to: number{&p.Window, 1, 1 << 19}},
		{key: "buffer", doc: "Bytes that may wait for an ACK, or auto: what the line carries in two round trips.", def: wordAuto, to: amount{to: &p.Buffer, auto: true, bytesOnly: true}},
		{key: "replayTimer", doc: "Without progress for so long, all is sent again; auto: 5 us, longer on a long link.", def: wordAuto, to: span{to: &p.ReplayTimer, word: wordAuto, wordIs: autoTime, min: 1, max: maxDelay}},
		{key: "replayCount", doc: "Replays without progress before the port gives up, 0 to 255; 255: it never does.", def: "3", to: number{&p.ReplayCount, 0, llr.Unlimited}},
		{key: "dataAge", doc: "Age of a frame without ACK at which the port gives up, 0ns: at none; auto: 20 us, at least one replay timer more than the replays take.", def: wordAuto,
			to: span{to: &p.DataAge, word: wordAuto, wordIs: autoTime, max: maxRetryTimer}},
		{key: "pcsLost", doc: "How long the link may be down before the port gives up what waits.", def: "50us", to: span{to: &p.PCSLost, max: maxRetryTimer}},
		{key: "init", doc: "Frames while the ports shake hands: best_effort (sent unprotected), block, discard.", def: llrBehaviors[0], to: word[string]{&p.Init, llrBehaviors}},
		{key: "flush", doc: "Frames when the port has given up: best_effort, block, discard.", def: llrBehaviors[0], to: word[string]{&p.Flush, llrBehaviors}},
		{key: "reInit", doc: "Shake hands again by itself when it has given up.", def: "true", to: truth{&p.ReInit}},
		{key: "ackEvery", doc: "An ACK at the latest after so many bytes.", def: "16KiB", to: amount{to: &p.AckEvery, bytesOnly: true}},
		{key: "ackDelay", doc: "An ACK at the latest so long after a frame.", def: "1us", to: span{to: &p.AckDelay, min: 1, max: maxDelay}},
		endsField(&p.Ends),
	}
}

// over lays what p says over base.
func (p LLRParams) over(base LLRParams) LLRParams {
	if p == (LLRParams{}) {
		return base
	}
	base.Mode = cmp.Or(p.Mode, wordOn)
	base.Window, base.ReplayTimer, base.ReplayCount = cmp.Or(p.Window, base.Window), cmp.Or(p.ReplayTimer, base.ReplayTimer), cmp.Or(p.ReplayCount, base.ReplayCount)
	base.DataAge, base.PCSLost, base.ReInit = cmp.Or(p.DataAge, base.DataAge), cmp.Or(p.PCSLost, base.PCSLost), cmp.Or(p.ReInit, base.ReInit)
	base.Init, base.Flush, base.AckDelay = cmp.Or(p.Init, base.Init), cmp.Or(p.Flush, base.Flush), cmp.Or(p.AckDelay, base.AckDelay)
	base.Ends = cmp.Or(p.Ends, base.Ends)
	base.Buffer, base.AckEvery = cmp.Or(p.Buffer, base.Buffer), cmp.Or(p.AckEvery, base.AckEvery)
	return base
}

// plan works the parameters out for a link. The nodes add nothing to a round trip: LLR answers where the line ends.
func (p *LLRParams) plan(l *LinkParams) *llr.Config {
	given := func(d *time.Duration, auto time.Duration) time.Duration {
		if d == nil || *d == autoTime {
			return auto
		}
		return *d
	}
	c := &llr.Config{Init: llr.Behavior(cmp.Or(p.Init, llrBehaviors[0])), Flush: llr.Behavior(cmp.Or(p.Flush, llrBehaviors[0])), ReInit: p.ReInit == nil || *p.ReInit,
		PCSLost: given(p.PCSLost, defaultPCSLost), AckDelay: given(p.AckDelay, defaultAckDelay), AckEvery: cmp.Or(p.AckEvery.Bytes, defaultAckEvery), ReplayCount: defaultReplayCount}
	if p.ReplayCount != nil {
		c.ReplayCount = *p.ReplayCount
	}
	line := int64(wire.LineBytes(l.MTU + ethernetHeader))
	frame := time.Duration(mulDiv(8*line, int64(time.Second), l.Rate))
	rtt := 2*l.Delay + 2*frame // a frame may be under way when an ACK comes to the line
	c.Bytes = max(leastBuffer, mulDiv(2*l.Rate, int64(rtt+c.AckDelay), 8*int64(time.Second)), 4*line)
	c.Bytes = min(cmp.Or(p.Buffer.Bytes, c.Bytes), maxBytes)
	c.Frames = int(min(max(c.Bytes/int64(wire.LineBytes(0)), leastWindow), 1<<19))
	if p.Window != nil {
		c.Frames = *p.Window
	}
	c.ReplayTimer = given(p.ReplayTimer, min(max(defaultReplayTimer, 2*rtt+c.AckDelay), maxDelay))
	c.DataAge = given(p.DataAge, min(max(defaultDataAge, time.Duration(c.ReplayCount+2)*c.ReplayTimer), maxRetryTimer))
	if c.ReplayCount == llr.Unlimited && (p.DataAge == nil || *p.DataAge == autoTime) {
		c.DataAge = 0
	}
	return c
}

// Retry is the link layer retry of a link when it is on: that of the topology file, or else what on alone means there.
func (p *Plan) Retry(link int) *llr.Config {
	l := &p.Links[link]
	if l.LLR != nil {
		return l.LLR
	}
	return new(LLRParams).plan(&LinkParams{Rate: l.Rate, Delay: l.Delay, MTU: l.MTU})
}

// planLLR gives a link and its ports their retry. A plain host knows nothing of it.
func (p *Plan) planLLR(l *Link, lp *LinkParams) {
	a, b := &p.Nodes[l.A.Node], &p.Nodes[l.B.Node]
	if lp.BER != nil {
		l.BER = *lp.BER
	}
	l.PHY = lp.phy()
	if lp.LLR.Mode == wordOn && a.Kind != KindHost && b.Kind != KindHost {
		l.LLR = lp.LLR.plan(lp)
	}
	for _, q := range []*Port{&a.Ports[l.A.Port], &b.Ports[l.B.Port]} {
		q.LLR, q.BER, q.PHY = l.LLR, l.BER, l.PHY
	}
}

// chance is a probability from 0 to max, which YAML takes for a string where it has no decimal point: 1e-8.
type chance struct{ ratio }

func (b chance) print() (any, bool) {
	if *b.to == nil {
		return nil, false
	}
	return strconv.FormatFloat(**b.to, 'g', -1, 64), true
}

func (b chance) decode(d *decoder, v value) {
	n, ok := v.node.(*ast.StringNode)
	if !ok {
		b.ratio.decode(d, v)
		return
	}
	x, err := strconv.ParseFloat(n.Value, 64)
	if err != nil {
		d.form(v.at, v.what, raw(v.node), "not a probability", "write it like 1e-8")
		return
	}
	if !(x >= 0 && x <= b.max) {
		d.form(v.at, v.what, raw(v.node), "out of range", fmt.Sprintf("from 0 to %g", b.max))
		return
	}
	*b.to = &x
}

func (b chance) schema(defs *schemaDefs) schema {
	return schema{"anyOf": []schema{b.ratio.schema(defs), {"type": "string", "pattern": `^[0-9.]+([eE]-?[0-9]+)?$`}}}
}
