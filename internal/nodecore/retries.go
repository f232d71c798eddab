package nodecore

import (
	"time"

	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/link/llr"
	"github.com/uetlab/uetlab/internal/vt"
)

// Retries tells of the ports that have link layer retry, or had it since the run began, as they are at now.
func (n *Node) Retries(now vt.Time) []ctl.LLRPort {
	list := []ctl.LLRPort{}
	for i, p := range n.Ports {
		tx, rx, ok := p.RetryStatus(now)
		if !ok {
			continue
		}
		d := ctl.LLRPort{Port: n.names[i], NowNs: int64(now), On: p.LLR() != nil, Counters: map[string]uint64{}}
		c := p.C.LLR()
		for k, v := range c {
			if v != 0 {
				d.Counters[llr.Counter(k).String()] = v
			}
		}
		d.TX = ctl.LLRSender{State: tx.State.String(), Next: tx.Next, Acked: tx.Acked, Frames: tx.Frames, Bytes: tx.Bytes, Replays: tx.Replays, Draining: tx.Draining,
			NoSignal: tx.NoSignal, ReplayAtNs: deadline(tx.ReplayAt), AgeAtNs: deadline(tx.AgeAt), InitAtNs: deadline(tx.InitAt), PCSAtNs: deadline(tx.PCSAt),
			RTTNs: c[llr.RoundTrip], InNs: dwell[llr.State](tx.In[:]), Ack: latency(&tx.Latency)}
		d.RX = ctl.LLRReceiver{State: rx.State.String(), Next: rx.Next, Unacked: rx.Unacked, AckAtNs: deadline(rx.AckAt), RefreshAtNs: deadline(rx.RefreshAt),
			Spurious: rx.Spurious, InNs: dwell[llr.RXState](rx.In[:])}
		list = append(list, d)
	}
	return list
}

// deadline is 0 for a timer that does not run.
func deadline(t vt.Time) int64 {
	if t == vt.Never {
		return 0
	}
	return int64(t)
}

// dwell names the states that took time.
func dwell[S interface {
	~uint8
	String() string
}](in []time.Duration) map[string]int64 {
	m := map[string]int64{}
	for i, d := range in {
		if d > 0 {
			m[S(i).String()] = int64(d)
		}
	}
	return m
}

func latency(l *llr.Latency) ctl.LLRLatency {
	d := ctl.LLRLatency{Count: l.Count(), SumNs: int64(l.Sum), P50Ns: int64(l.Quantile(0.5)), P99Ns: int64(l.Quantile(0.99)), MaxNs: int64(l.Max)}
	for i, n := range l.N {
		if n > 0 {
			d.Buckets = append(d.Buckets, ctl.LLRBucket{BelowNs: int64(llr.Below(i)), Above: i == llr.Buckets-1, Count: n})
		}
	}
	return d
}
