package experiment

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/uetlab/uetlab/workload"
)

// Settle are bounds whose statistics say when they began to hold. A bound of 0 is not asked for.
type Settle struct {
	Queue   int64         // bytes: the most that waits at any port of a switch
	Windows int64         // bytes: the sum of the congestion windows towards any one end point
	Rate    float64       // Gb/s: what switches send to end points, all together, with all that is on the line
	From    time.Duration // virtual time since the start of the run from which on a bound is looked at, as after a fault
}

// Sampled are the statistics of what changes during a run: those of series, over the time in which all flows run, which is from Settle.From
// until the first of them ends. Means over the runs, one a seed.
//
// Core ports are those from switch to switch that sent anything. What settles has the time since Settle.From at which its bound began to hold
// and never ceased to; infinite where it does not hold in the end.
type Sampled struct {
	QueueMean Number `json:"coreQueueMean"` // highest queue of an interval, over intervals and core ports, bytes
	QueueSD   Number `json:"coreQueueSD"`   // its standard deviation over time at one port, mean of the core ports, bytes
	QueueP99  Number `json:"coreQueueP99"`  // its 99th percentile, bytes
	Sent      Number `json:"coreRate"`      // what a core port sent, Gb/s with all that is on the line, mean
	SentLow   Number `json:"coreRateLow"`   // its 1st percentile over intervals and core ports
	Queue     Number `json:"queueSettled"`  // ns
	Windows   Number `json:"windowsSettled"`
	Rate      Number `json:"rateSettled"`
	Low       Number `json:"rateLow"` // the lowest rate of any whole interval, Gb/s
}

// sampled are the statistics that need series, and what of Settle they need.
var sampled = []struct {
	key   string
	of    func(*Sampled) *Number
	bound func(*Settle) bool
	name  string
}{
	{"coreQueueMean", func(s *Sampled) *Number { return &s.QueueMean }, nil, ""},
	{"coreQueueSD", func(s *Sampled) *Number { return &s.QueueSD }, nil, ""},
	{"coreQueueP99", func(s *Sampled) *Number { return &s.QueueP99 }, nil, ""},
	{"coreRate", func(s *Sampled) *Number { return &s.Sent }, nil, ""},
	{"coreRateLow", func(s *Sampled) *Number { return &s.SentLow }, nil, ""},
	{"queueSettled", func(s *Sampled) *Number { return &s.Queue }, func(b *Settle) bool { return b.Queue > 0 }, "queue"},
	{"windowsSettled", func(s *Sampled) *Number { return &s.Windows }, func(b *Settle) bool { return b.Windows > 0 }, "windows"},
	{"rateSettled", func(s *Sampled) *Number { return &s.Rate }, func(b *Settle) bool { return b.Rate > 0 }, "rate"},
	{"rateLow", func(s *Sampled) *Number { return &s.Low }, nil, ""},
}

// sampledOf works out the statistics of the series of a variant's runs; nil where a run has none.
func sampledOf(runs []Run, endPoints []string, bounds Settle) *Sampled {
	var out Sampled
	for i := range runs {
		r := &runs[i].Result
		if r.Series == nil || r.Series.EveryNs <= 0 {
			return nil
		}
		one := newSampler(r, endPoints, bounds).all()
		for _, x := range sampled {
			*x.of(&out) += *x.of(&one)
		}
	}
	for _, x := range sampled {
		*x.of(&out) /= Number(max(1, len(runs)))
	}
	return &out
}

// sampler reads the series of one run from one time until another.
type sampler struct {
	series      *workload.Series
	core, down  []*workload.PortSeries // ports of switches: to switches where anything was sent, and to end points
	bounds      Settle
	from, until int64 // ns
}

// newSampler looks at the time in which all flows run.
func newSampler(r *workload.Result, endPoints []string, bounds Settle) *sampler {
	s := &sampler{series: r.Series, bounds: bounds, from: int64(bounds.From), until: math.MaxInt64}
	var longest int64
	for i := range r.Series.Ports {
		p := &r.Series.Ports[i]
		longest = max(longest, int64(len(p.Sent))*r.Series.EveryNs)
		switch {
		case slices.Contains(endPoints, p.Node):
		case leadsTo(p, endPoints):
			s.down = append(s.down, p)
		case slices.ContainsFunc(p.Sent, func(n int64) bool { return n > 0 }):
			s.core = append(s.core, p)
		}
	}
	for _, f := range Flows(r) {
		s.until = min(s.until, f.EndNs)
	}
	if s.until == math.MaxInt64 { // none has ended: as long as there is anything
		s.until = longest
	}
	return s
}

// leadsTo says whether a port of a switch leads to an end point. A link is named after the nodes that it joins.
func leadsTo(p *workload.PortSeries, endPoints []string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(p.Link, func(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9') }), func(word string) bool {
		return slices.Contains(endPoints, word)
	})
}

func (s *sampler) all() (out Sampled) {
	s.held(&out)
	out.Queue = s.settled(func(i int) bool { return s.highest(i) <= s.bounds.Queue })
	out.Windows = s.windows()
	out.Low = Number(math.Inf(1))
	lo, hi := s.span()
	for i := lo; i < hi; i++ {
		out.Low = min(out.Low, Number(s.rate(i)))
	}
	out.Rate = s.settled(func(i int) bool { return s.rate(i) >= s.bounds.Rate })
	return out
}

// span gives the whole intervals from lo to before hi in which all flows run.
func (s *sampler) span() (lo, hi int) {
	every := s.series.EveryNs
	lo = int((s.from + every - 1) / every)
	return lo, max(lo+1, int(s.until/every))
}

// held works out what core ports held.
func (s *sampler) held(out *Sampled) {
	lo, hi := s.span()
	var all, sd, rates []float64
	for _, p := range s.core {
		depths := make([]float64, 0, hi-lo)
		for i := lo; i < hi; i++ {
			depths = append(depths, float64(at(p.Depth, i)))
			rates = append(rates, float64(at(p.Sent, i))*8/float64(s.series.EveryNs))
		}
		m, squares := mean(depths), 0.0
		for _, d := range depths {
			squares += (d - m) * (d - m)
		}
		all, sd = append(all, depths...), append(sd, math.Sqrt(squares/float64(len(depths))))
	}
	if len(all) == 0 {
		none := Number(math.NaN())
		out.QueueMean, out.QueueSD, out.QueueP99, out.Sent, out.SentLow = none, none, none, none, none
		return
	}
	out.QueueMean, out.QueueSD, out.Sent = Number(mean(all)), Number(mean(sd)), Number(mean(rates))
	slices.Sort(all)
	slices.Sort(rates)
	out.QueueP99, out.SentLow = Number(percentile(all, 99)), Number(percentile(rates, 1))
}

// at is an element of a series, 0 behind its end.
func at(v []int64, i int) int64 {
	if i < len(v) {
		return v[i]
	}
	return 0
}

// highest is the most that waited at a port of a switch in an interval.
func (s *sampler) highest(i int) (most int64) {
	for _, ports := range [][]*workload.PortSeries{s.core, s.down} {
		for _, p := range ports {
			most = max(most, at(p.Depth, i))
		}
	}
	return most
}

// rate is what switches sent to end points in an interval, Gb/s.
func (s *sampler) rate(i int) float64 {
	var sum int64
	for _, p := range s.down {
		sum += at(p.Sent, i)
	}
	return float64(sum) * 8 / float64(s.series.EveryNs)
}

// settled is when ok began to hold for all intervals to come.
func (s *sampler) settled(ok func(i int) bool) Number {
	lo, hi := s.span()
	for i := hi - 1; i >= lo; i-- {
		switch {
		case ok(i):
		case i == hi-1:
			return Number(math.Inf(1))
		default:
			return Number(int64(i+1)*s.series.EveryNs - s.from)
		}
	}
	return 0
}

// windows is when the sum of the windows towards each end point began to stay within its bound.
func (s *sampler) windows() Number {
	type change struct {
		at    int64
		peer  string
		delta int64
	}
	var list []change
	for _, c := range s.series.Contexts {
		last := int64(0)
		for _, p := range c.Points {
			list = append(list, change{p.AtNs, c.Peer, p.Cwnd - last})
			last = p.Cwnd
		}
	}
	slices.SortStableFunc(list, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	sums, over, since := map[string]int64{}, 0, s.from
	for i := 0; i < len(list) && list[i].at < s.until; {
		now := list[i].at
		before := over
		for ; i < len(list) && list[i].at == now; i++ {
			was := sums[list[i].peer] > s.bounds.Windows
			sums[list[i].peer] += list[i].delta
			switch is := sums[list[i].peer] > s.bounds.Windows; {
			case is && !was:
				over++
			case was && !is:
				over--
			}
		}
		if before > 0 && over == 0 {
			since = max(since, now)
		}
	}
	if over > 0 {
		return Number(math.Inf(1))
	}
	return Number(since - s.from)
}

// missing says what an expectation needs that the experiment does not say, and what to do.
func (e *Experiment) missing(x *Expectation) (why, hint string) {
	for _, s := range sampled {
		switch {
		case !slices.Contains(x.keys, s.key):
		case e.Every == 0:
			return s.key + " needs runs that are sampled", "add a line every: 1us"
		case s.bound != nil && !s.bound(&e.Settle):
			return s.key + " needs a bound", "add it to settle: {" + s.name + ": …}"
		}
	}
	return "", ""
}

// settle reads bounds: bytes, bytes, Gb/s, and a time.
func (r *reader) settle(v value) {
	to := &r.out.Settle
	r.mapping(v, "settle.", []string{"queue", "windows", "rate", "from"}, func(key string, v value) {
		if key == "from" {
			r.duration(v, &to.From)
			return
		}
		var text string
		if !r.word(v, &text) {
			return
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n <= 0 {
			r.problem(v.at, v.what, text, "not a number of "+map[bool]string{true: "Gb/s", false: "bytes"}[key == "rate"], "write it without a unit, like 1200")
			return
		}
		switch key {
		case "queue":
			to.Queue = n
		case "windows":
			to.Windows = n
		case "rate":
			to.Rate = float64(n)
		}
	})
}

// duration reads a time that is longer than none.
func (r *reader) duration(v value, to *time.Duration) {
	var text string
	if !r.word(v, &text) {
		return
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		r.problem(v.at, v.what, text, "not a time", "write it like 1us or 500ns")
		return
	}
	*to = d
}
