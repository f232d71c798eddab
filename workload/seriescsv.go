package workload

import (
	"encoding/csv"
	"io"
	"strconv"
)

// SeriesColumns are the columns of WriteSeries.
var SeriesColumns = []string{"run", "time_ns", "node", "port", "link", "peer", "tc", "metric", "value", "decision"}

// WriteSeries writes the series of results as CSV in long form, one value a row: first the ports, depth_bytes and sent_bytes of each
// interval at the time at which it begins, then the contexts, cwnd_bytes, in_flight_bytes, rtt_ns and delay_ns of each point. run counts
// the results from 0, times are virtual since the start of the run. port and link are empty in rows of contexts, peer, tc and decision in
// those of ports.
func WriteSeries(w io.Writer, results []Result) error {
	out := csv.NewWriter(w)
	if err := out.Write(SeriesColumns); err != nil {
		return err
	}
	num := func(n int64) string { return strconv.FormatInt(n, 10) }
	for i := range results {
		s, run := results[i].Series, strconv.Itoa(i)
		if s == nil {
			continue
		}
		for _, p := range s.Ports {
			for k := range p.Depth {
				at := num(int64(k) * s.EveryNs)
				_ = out.Write([]string{run, at, p.Node, p.Port, p.Link, "", "", "depth_bytes", num(p.Depth[k]), ""}) // Error below tells
				_ = out.Write([]string{run, at, p.Node, p.Port, p.Link, "", "", "sent_bytes", num(p.Sent[k]), ""})
			}
		}
		for _, c := range s.Contexts {
			tc := strconv.Itoa(c.TC)
			for _, p := range c.Points {
				put := func(metric string, v int64) {
					_ = out.Write([]string{run, num(p.AtNs), c.Node, "", "", c.Peer, tc, metric, num(v), p.Decision})
				}
				put("cwnd_bytes", p.Cwnd)
				put("in_flight_bytes", p.InFlight)
				put("rtt_ns", p.RTTNs)
				put("delay_ns", p.DelayNs)
			}
		}
	}
	out.Flush()
	return out.Error()
}
