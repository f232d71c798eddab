package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/internal/link"
)

func runSwitchQueues(c *call) error {
	cl, d, err := c.client()
	if err != nil {
		return err
	}
	queues, err := cl.Queues(c.ctx, c.arg(0))
	if err != nil {
		return explain(d, err)
	}
	if port := c.String("port"); port != "" {
		queues = slices.DeleteFunc(queues, func(q api.QueueStats) bool { return q.Port != port })
	}
	if c.String("format") != formatTable {
		return c.render(queues, nil)
	}
	ts := tables{queueTable(queues)}
	if c.Bool("hist") {
		for i := range queues {
			if t := depthTable(&queues[i]); len(t.rows) > 0 { // some have sent nothing in the latest run
				ts = append(ts, t)
			}
		}
	}
	return ts.write(c)
}

// queueTable has one line a queue.
func queueTable(queues []api.QueueStats) table {
	t := table{columns: []string{"NODE", "PORT", "QUEUE", "BYTES", "PEAK", "TX FRAMES", "MARKED", "TRIMMED", "TRIMS LOST", "DROPPED", "PAUSED", "WATCHDOG"}}
	for _, q := range queues {
		n := func(c link.QueueCounter) uint64 { return q.Counters[c.String()] }
		t.add(q.Node, q.Port, q.Class, n(link.QBytes), n(link.QPeak), n(link.QTxFrames), n(link.QMarked), n(link.QTrim), n(link.QTrimDrop),
			n(link.QDrop)-n(link.QTrim)+n(link.QWatchdogDrop), n(link.QPaused), n(link.QWatchdog))
	}
	return t
}

// depthTable draws the depth histogram of a queue up to its last bucket that counts.
func depthTable(q *api.QueueStats) table {
	t := table{columns: []string{q.Node + ":" + q.Port + " " + q.Class, "FRAMES", ""}}
	var most uint64
	last := -1
	for i, n := range q.Depth {
		if most = max(most, n); n > 0 {
			last = i
		}
	}
	for i, n := range q.Depth[:last+1] {
		t.add(bucketName(i), n, bar(n, most))
	}
	return t
}

// bar draws n as a part of most, which is not 0.
func bar(n, most uint64) string {
	const width = 40
	if s := strings.Repeat("#", int(n*width/most)); s != "" || n == 0 {
		return s
	}
	return "." // there are some
}

// bucketName says what frames of a bucket found waiting.
func bucketName(i int) string {
	switch i {
	case 0:
		return "found empty"
	case link.DepthBuckets - 1:
		return fmt.Sprintf("from %dB", 128<<(i-1))
	}
	return fmt.Sprintf("below %dB", 128<<i)
}
