package lb

import (
	"cmp"
	"slices"

	"github.com/uetlab/uetlab/internal/vt"
)

// State is what a balancer thinks of an EV.
type State uint8

// States of an EV.
const (
	StateNone    State = iota // nothing is kept of it
	StateCurrent              // in use: of a single path, a sub-path or a chunk
	StateCached               // came back unmarked and may be used again
	StateUsed                 // … and was; only a frozen balancer uses it again
	StateClear                // without a penalty
	StatePenalty              // passed for a while
)

func (s State) String() string {
	if s > StatePenalty {
		return "invalid"
	}
	return [...]string{"none", "current", "cached", "used", "clear", "penalty"}[s]
}

// Path is what is known of one EV.
type Path struct {
	EV    uint16
	State State
	Score int64 // bitmap, mixed: penalty 0..15; uccl: RTT in ns, 0: unknown; plb: congested rounds in a row
	Uses  int   // REPS, mixed: packets that it is still good for

	// Only a Watch fills these in.
	Packets uint64         // sent with it
	Bytes   uint64         // … of payload
	Share   float64        // … of all packets, 0..1
	Last    Kind           // feedback
	LastAt  vt.Time        // … and when
	Counts  [nKinds]uint32 // feedback by kind
}

// View is what a balancer knows at one time.
type View struct {
	Algorithm Algorithm
	Frozen    bool    // REPS uses only its ring,
	Thaw      vt.Time // … until the first feedback after this
	Explore   int     // packets that will leave with EVs of no history
	Moves     uint32  // ecmp, plb, flowlet: changes of the EV
	Packets   uint64  // sent, if a Watch counted
	Bytes     uint64  // … of payload
	Paths     []Path  // by EV

	index map[uint16]int // of Paths
}

// begin is called by every Look: it empties the view.
func (v *View) begin(a Algorithm) {
	*v = View{Algorithm: a, Paths: v.Paths[:0], index: map[uint16]int{}}
}

func (v *View) current(ev uint16, score int64) {
	p := v.path(ev)
	p.State, p.Score = StateCurrent, score
}

// path finds or adds an EV.
func (v *View) path(ev uint16) *Path {
	i, ok := v.index[ev]
	if !ok {
		i = len(v.Paths)
		v.Paths = append(v.Paths, Path{EV: ev})
		v.index[ev] = i
	}
	return &v.Paths[i]
}

// tally is what a Watch keeps of an EV.
type tally struct {
	sent   uint64
	bytes  uint64
	at     vt.Time
	counts [nKinds]uint32
	last   Kind
}

// Watch is a balancer that lets another one choose and counts what is sent with each EV and becomes of it. The other may have been in
// use before. Sent counts, not Next: what Next gives need not be what is sent.
// It takes 2 KiB, and 10 KiB for every 256 EVs in a row of which one is used: only connections that somebody looks at have one.
type Watch struct {
	Balancer // the one that chooses
	sent     uint64
	bytes    uint64
	pages    [256]*[256]tally
}

// NewWatch begins to count.
func NewWatch(b Balancer) *Watch { return &Watch{Balancer: b} }

func (w *Watch) tally(ev uint16) *tally {
	p := w.pages[ev>>8]
	if p == nil {
		p = new([256]tally)
		w.pages[ev>>8] = p
	}
	return &p[ev&0xFF]
}

// Sent counts a packet of so many bytes of payload that leaves with an EV.
func (w *Watch) Sent(ev uint16, size int) {
	t := w.tally(ev)
	t.sent++
	t.bytes += uint64(size)
	w.sent++
	w.bytes += uint64(size)
}

// Feedback counts, and tells the balancer. An EV that was not used since the count began is not kept: a peer that makes up EVs
// takes no memory.
func (w *Watch) Feedback(now vt.Time, f Feedback) {
	if p := w.pages[f.EV>>8]; p != nil && f.Kind != None && f.Kind < nKinds {
		if t := &p[f.EV&0xFF]; t.sent > 0 {
			t.last, t.at = f.Kind, now
			t.counts[f.Kind]++
		}
	}
	w.Balancer.Feedback(now, f)
}

// Look is the balancer's view, with what was counted, by EV.
func (w *Watch) Look(v *View) {
	w.Balancer.Look(v)
	v.Packets, v.Bytes = w.sent, w.bytes
	v.reindex()
	for hi, page := range w.pages {
		if page == nil {
			continue
		}
		for lo := range page {
			t, ev := &page[lo], uint16(hi<<8|lo)
			if t.sent == 0 {
				continue
			}
			p := v.path(ev)
			p.Packets, p.Bytes, p.Share = t.sent, t.bytes, float64(t.sent)/float64(w.sent)
			p.Last, p.LastAt, p.Counts = t.last, t.at, t.counts
		}
	}
	v.sort()
}

func (v *View) reindex() {
	v.index = make(map[uint16]int, len(v.Paths))
	for i, p := range v.Paths {
		v.index[p.EV] = i
	}
}

// sort ends every Look that does not add its EVs in order.
func (v *View) sort() {
	v.index = nil
	slices.SortFunc(v.Paths, func(a, b Path) int { return cmp.Compare(a.EV, b.EV) })
}
