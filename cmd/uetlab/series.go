package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/workload"
)

// defaultEvery is the step of --series without --every.
const defaultEvery = time.Microsecond

// seriesFlags are the flags that run and sim have for time series.
func seriesFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "every", Usage: "sample queues and rates in steps of `TIME` (virtual), and congestion windows at every change: for --series or JSON"},
		&cli.StringFlag{Name: "series", Usage: "write the samples to `FILE`, CSV with one value a row (see docs/congestion.md), in steps of --every, else of 1us"},
	}
}

// askSeries reads seriesFlags into a request.
func (c *call) askSeries(req *api.RunRequest) error {
	text := c.String("every")
	switch {
	case text != "":
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return usage("--every (%s): not a step of virtual time", text).WithHint("for example 1us")
		}
		req.EveryNs = int64(d)
	case c.IsSet("every"):
		return usage("--every: empty").WithHint("for example 1us")
	case c.String("series") != "":
		req.EveryNs = int64(defaultEvery)
	}
	if text != "" && c.String("series") == "" && c.String("format") == formatTable {
		return usage("--every: a table does not show samples").WithHint("add --series FILE.csv, or --format json")
	}
	return nil
}

// seriesFile is the file of --series.
type seriesFile struct {
	c *call
	f *os.File
}

// openSeries opens it before the run, whose result would be lost if it could not be; nil where there is none.
func (c *call) openSeries() (*seriesFile, error) {
	name := c.String("series")
	if name == "" {
		return nil, nil
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, fmt.Errorf("--series: %w", err)
	}
	return &seriesFile{c, f}, nil
}

// write moves the series of results into the file.
func (s *seriesFile) write(results []workload.Result) error {
	if s == nil {
		return nil
	}
	if err := errors.Join(workload.WriteSeries(s.f, results), s.f.Close()); err != nil {
		return fmt.Errorf("--series: %w", err)
	}
	if len(results) == 0 {
		return nil
	}
	ports, points, left := 0, 0, int64(0)
	for i := range results {
		x := results[i].Series
		if x == nil {
			continue
		}
		ports, left = ports+len(x.Ports), left+x.LeftOut
		for _, c := range x.Contexts {
			points += len(c.Points)
		}
		results[i].Series = nil
	}
	s.c.note("series of %d ports and %d changes of windows written to %s", ports, points, s.c.String("series"))
	if left > 0 {
		s.c.note("%d samples found no room and are not in it: take a longer --every, or a shorter run", left)
	}
	return nil
}
