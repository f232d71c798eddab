package main

import (
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/topology"
)

// shortFEP are the settings of end points that have flags of their own.
var shortFEP = []string{"cc", "lb", "ack", "evs"}

// fepFlags override settings of end points for a run.
func fepFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "cc", Usage: "congestion control `NAME` of all end points for this run, as fep.cc of a topology"},
		&cli.StringFlag{Name: "lb", Usage: "load balancer `NAME` for this run, as fep.lb"},
		&cli.StringFlag{Name: "ack", Usage: "acknowledge each `packet` in this run, or coalesced, as fep.ack"},
		&cli.StringFlag{Name: "evs", Usage: "`NUMBER` of entropy values of a connection in this run, as fep.evs"},
		&cli.StringSliceFlag{Name: "fep", Usage: "any other `KEY=VALUE` of a topology's mapping fep for this run: nscc.gamma=0.5; may stand often"},
	}
}

// overrides reads fepFlags; nil where there are none. What keys and values mean is found out where the topology is known.
func (c *call) overrides() (map[string]string, error) {
	over := map[string]string{}
	for _, key := range shortFEP {
		if c.IsSet(key) {
			over[key] = c.String(key)
		}
	}
	for _, text := range c.StringSlice("fep") {
		key, value, ok := strings.Cut(text, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if !ok || key == "" || value == "" {
			return nil, usage("--fep (%s): not a setting", text).WithHint("write it like --fep nscc.gamma=0.5")
		}
		if before, twice := over[key]; twice {
			return nil, usage("--fep (%s): given twice, first as %s", text, before).WithHint("keep one of them")
		}
		over[key] = value
	}
	if len(over) == 0 {
		return nil, nil
	}
	if err := topology.ReadFEP(over); err != nil {
		return nil, usage("%w", err)
	}
	return over, nil
}
