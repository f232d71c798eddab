package perf

import (
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Row is the result of one size: of Lat the times, of BW the rates. MB are 2^20 bytes, as in perftest; Gb are 10^9 bits.
type Row struct {
	Bytes      int64    `json:"bytes"`
	Iterations int      `json:"iterations"`
	Lat        *Latency `json:"lat,omitempty"`
	BW         *Rate    `json:"bw,omitempty"`
}

// Latency is the distribution of times, in microseconds.
type Latency struct {
	Min     float64 `json:"tMinUs"`
	Max     float64 `json:"tMaxUs"`
	Typical float64 `json:"tTypicalUs"` // median
	Avg     float64 `json:"tAvgUs"`
	Stdev   float64 `json:"tStdevUs"`
	P99     float64 `json:"p99Us"`
	P999    float64 `json:"p999Us"`
}

// Rate is a bandwidth. Both directions are in it if both were sent in.
type Rate struct {
	Peak     float64 `json:"peakMBps,omitempty"` // 0: not looked for
	Average  float64 `json:"averageMBps"`
	Gbps     float64 `json:"averageGbps"`
	PeakGbps float64 `json:"peakGbps,omitempty"`
	Mpps     float64 `json:"msgRateMpps"` // messages
}

// slowest is the longest time that is told apart.
const slowest = 100 * time.Second

// times gathers durations. Up to 131 us each nanosecond counts by itself, beyond that one part in 100 000.
type times struct {
	h        *hdrhistogram.Histogram
	min, max int64
	n        int
	sum, sq  float64
}

func newTimes() *times {
	return &times{h: hdrhistogram.New(1, int64(slowest), 5), min: math.MaxInt64}
}

func (t *times) add(d time.Duration) {
	v := int64(d)
	t.min, t.max = min(t.min, v), max(t.max, v)
	t.n++
	t.sum += float64(v)
	t.sq += float64(v) * float64(v)
	_ = t.h.RecordValue(min(max(v, 0), int64(slowest))) // within its bounds
}

// latency sums up; part is how many of these times make one message.
func (t *times) latency(part float64) *Latency {
	us := func(ns float64) float64 { return ns / part / 1000 }
	at := func(q float64) float64 { return us(float64(min(max(t.h.ValueAtQuantile(q), t.min), t.max))) }
	mean := t.sum / float64(t.n)
	return &Latency{Min: us(float64(t.min)), Max: us(float64(t.max)), Typical: at(50), Avg: us(mean),
		Stdev: us(math.Sqrt(max(0, t.sq/float64(t.n)-mean*mean))), P99: at(99), P999: at(99.9)}
}

// mostForPeak is how many messages the peak is looked for among: it takes time with the square.
const mostForPeak = 20_000

// rates keeps when messages were posted, and when so many of them were done.
type rates struct{ posted, done []time.Duration }

func newRates(n int) *rates {
	return &rates{make([]time.Duration, 0, n), make([]time.Duration, 0, n)}
}

// sum gives the rates. The peak is, as in perftest, that of the fastest stretch from the posting of one message to the completion of another.
func (r *rates) sum(size int64) *Rate {
	n := len(r.done)
	out := rateOf(size, float64(n), float64(max(r.done[n-1]-r.posted[0], 1)))
	if n > mostForPeak {
		return out
	}
	best := math.Inf(1)
	for i := range n {
		for j := i; j < n; j++ {
			best = min(best, float64(r.done[j]-r.posted[i])/float64(j-i+1))
		}
	}
	peak := rateOf(size, 1, max(best, 1))
	out.Peak, out.PeakGbps = peak.Average, peak.Gbps
	return out
}

func rateOf(size int64, n, ns float64) *Rate {
	bytes := float64(size) * n
	return &Rate{Average: bytes / (1 << 20) / (ns / 1e9), Gbps: bytes * 8 / ns, Mpps: n / ns * 1000}
}

// Merge adds the rates of the other direction.
func (r *Rate) Merge(o *Rate) {
	r.Peak += o.Peak
	r.PeakGbps += o.PeakGbps
	r.Average += o.Average
	r.Gbps += o.Gbps
	r.Mpps += o.Mpps
}
