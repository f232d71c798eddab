package control

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/switchd"
)

// scrapeWait bounds how long a scrape waits for nodes; one that does not answer in time is left out. It is half of what Prometheus waits
// for a scrape by default: the nodes of a busy machine take their time.
const scrapeWait = 5 * time.Second

var (
	queueLabels = append(append([]string(nil), portLabels...), "queue")

	descQueue       [link.NumQueueCounters]*prometheus.Desc
	descDepth       = prometheus.NewDesc("uetlab_queue_depth_bytes", "Bytes that frames of the latest run found waiting in the egress queue when they were queued. The sum is not known.", queueLabels, nil)
	descBuffer      = prometheus.NewDesc("uetlab_switch_buffer_bytes", "Bytes that wait in a switch.", nodeLabels, nil)
	descBufferPeak  = prometheus.NewDesc("uetlab_switch_buffer_peak_bytes", "The most bytes that ever waited in a switch since the run began.", nodeLabels, nil)
	descBufferLimit = prometheus.NewDesc("uetlab_switch_buffer_size_bytes", "Memory that all queues of a switch share; 0: no shared limit.", nodeLabels, nil)
)

func init() {
	for c := range link.NumQueueCounters {
		descQueue[c] = prometheus.NewDesc("uetlab_queue_"+c.String()+suffix(c.IsGauge()), "Egress queue counter "+c.String()+".", queueLabels, nil)
	}
}

// queues asks all nodes at once for their queues and buffers.
func (c collector) queues(ch chan<- prometheus.Metric, lab string) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeWait)
	defer cancel()
	var lists [][]ctl.Queue
	live := make([]*switchd.Status, len(c.d.nodes))
	var wg sync.WaitGroup
	wg.Go(func() { lists = c.d.queues(ctx, scrapeWait) }) // these end with the nodes' answers or ctx
	for i, n := range c.d.nodes {
		if c.d.plan.Nodes[i].Kind == topology.KindSwitch && !n.isDead() {
			wg.Go(func() {
				if s, err := c.d.liveSwitch(ctx, n); err == nil {
					live[i] = s
				}
			})
		}
	}
	wg.Wait()
	for id, list := range lists {
		for i := range list {
			c.queue(ch, lab, &c.d.plan.Nodes[id], &list[i])
		}
	}
	gauge := func(desc *prometheus.Desc, v int64, node string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(v), lab, node)
	}
	for id, s := range live {
		if s != nil {
			gauge(descBuffer, s.Buffer.Used, c.d.nodes[id].name)
			gauge(descBufferPeak, s.Buffer.Peak, c.d.nodes[id].name)
			gauge(descBufferLimit, s.Buffer.Size, c.d.nodes[id].name)
		}
	}
}

func (c collector) queue(ch chan<- prometheus.Metric, lab string, p *topology.Node, q *ctl.Queue) {
	i := slices.IndexFunc(p.Ports, func(port topology.Port) bool { return port.Name == q.Port })
	if i < 0 {
		return
	}
	labels := []string{lab, p.Name, q.Port, c.d.plan.Links[p.Ports[i].Link].Name, topology.QueueName(q.Queue)}
	for k := range link.NumQueueCounters {
		ch <- prometheus.MustNewConstMetric(descQueue[k], kind(k.IsGauge()), float64(q.C[k.String()]), labels...)
	}
	var count uint64
	buckets := make(map[float64]uint64, link.DepthBuckets)
	for i, n := range q.Depth {
		count += n
		switch i {
		case 0:
			buckets[0] = count
		case link.DepthBuckets - 1: // all the rest
		default:
			buckets[float64(int64(128)<<i-1)] = count // less than 128<<i, in whole bytes
		}
	}
	ch <- prometheus.MustNewConstHistogram(descDepth, count, math.NaN(), buckets, labels...)
}
