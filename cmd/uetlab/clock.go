package main

import (
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/api"
)

func clockCommand() *cli.Command {
	sub := func(name, args, usage string, n int, op func(*call) (api.ClockOp, error), examples ...string) *cli.Command {
		return verb{name: name, args: args, usage: usage, examples: examples, min: n, max: n, flags: labFlags(), run: func(c *call) error {
			o, err := op(c)
			if err != nil {
				return err
			}
			return c.setClock(o)
		}}.command()
	}
	plain := func(op string) func(*call) (api.ClockOp, error) {
		return func(*call) (api.ClockOp, error) { return api.ClockOp{Op: op}, nil }
	}
	return verb{name: "clock", usage: "show and steer virtual time", flags: labFlags(), run: runClockShow,
		text: "Pausing, stepping and caps change how fast virtual time passes on the wall, never the outcome of a run.",
		examples: []string{"uetlab clock", "uetlab clock pause", "uetlab clock step 100ns", "uetlab clock resume",
			"uetlab clock cap 10000 # at most 1/10000 of the wall", "uetlab clock auto"},
		subs: []*cli.Command{
			verb{name: "show", usage: "show virtual time", examples: []string{"uetlab clock show --format json"}, flags: labFlags(), run: runClockShow}.command(),
			sub("pause", "", "stop virtual time", 0, plain(api.ClockPause), "uetlab clock pause"),
			sub("resume", "", "let virtual time pass again", 0, plain(api.ClockResume), "uetlab clock resume"),
			sub("step", "DURATION", "let that much virtual time pass, then pause", 1, stepOp, "uetlab clock step 100ns", "uetlab clock step 1.5us"),
			sub("cap", "K", "let virtual time pass at no more than 1/K of the wall", 1, capOp, "uetlab clock cap 1000"),
			sub("auto", "", "let virtual time pass as fast as the nodes can go", 0, plain(api.ClockAuto), "uetlab clock auto"),
		}}.command()
}

func stepOp(c *call) (api.ClockOp, error) {
	d, err := time.ParseDuration(c.arg(0))
	if err != nil || d <= 0 {
		return api.ClockOp{}, usage("clock step (%s): not a duration above 0", c.arg(0)).WithHint("write it like 100ns, 1.5us or 2ms")
	}
	return api.ClockOp{Op: api.ClockStep, StepNs: int64(d)}, nil
}

func capOp(c *call) (api.ClockOp, error) {
	k, err := parseCap(c.arg(0))
	if err != nil {
		return api.ClockOp{}, usage("clock cap (%s): not a number of 1 or more", c.arg(0)).WithHint("uetlab clock cap 1000 lets at most 1 ms pass in a second")
	}
	return api.ClockOp{Op: api.ClockCap, Cap: k}, nil
}

// parseCap reads K: 1000 or 1000x.
func parseCap(s string) (float64, error) {
	k, err := strconv.ParseFloat(strings.TrimSuffix(s, "x"), 64)
	if err == nil && !(k >= 1 && k <= 1e12) {
		err = strconv.ErrRange
	}
	return k, err
}

func runClockShow(c *call) error {
	cl, d, err := c.client()
	if err != nil {
		return err
	}
	ck, err := cl.Clock(c.ctx)
	if err != nil {
		return explain(d, err)
	}
	return c.printClock(ck)
}

func (c *call) setClock(op api.ClockOp) error {
	cl, d, err := c.client()
	if err != nil {
		return err
	}
	ck, err := cl.SetClock(c.ctx, op)
	if err != nil {
		return explain(d, err)
	}
	return c.printClock(ck)
}

func (c *call) printClock(ck api.Clock) error {
	return c.render(ck, func() table {
		limit, most, dilation := "none", "none", "-"
		if ck.LimitNs >= 0 {
			limit = nanos(ck.LimitNs)
		}
		if ck.Cap > 0 {
			most = "1/" + strconv.FormatFloat(ck.Cap, 'g', -1, 64)
		}
		if ck.Dilation > 0 {
			dilation = strconv.FormatFloat(ck.Dilation, 'g', 4, 64)
		}
		t := table{columns: []string{"STATE", "NOW", "LIMIT", "CAP", "HORIZON MIN", "HORIZON MAX", "DILATION"}}
		t.add(ck.State, nanos(ck.NowNs), limit, most, nanos(ck.MinHorizonNs), nanos(ck.MaxHorizonNs), dilation)
		return t
	})
}
