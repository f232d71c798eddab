package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/internal/link/cbfc"
)

func cbfcCommand() *cli.Command {
	return verb{name: "cbfc", args: "[LINK…]", usage: "show the credits of links by virtual channel", max: -1,
		text: "Of some links, by name or glob, or of all that the topology has credits for; a line for each direction and channel, which is a class of traffic.\n" +
			"STATE is off, held, on, or draining, where credits were turned off and frames wait that are still paid for. Of the sender: LIMIT, credits\n" +
			"that may be out (`shared`: by all channels together), USED, that are, PEAK, the most that were, CONSUMED and FREED, counts of 20 bits, BLOCKED, how\n" +
			"long frames have waited for credits in the run. HELD is of frames that the receiver stores.",
		examples: []string{"uetlab cbfc", "uetlab cbfc leaf0-spine0", "uetlab cbfc 'leaf*-spine*' --watch", "uetlab cbfc --format json"},
		flags:    labFlags(watchFlag()), run: runCBFC}.command()
}

func runCBFC(c *call) error { return watchLinks(c, (*api.Client).Credits, c.printCredits) }

func (c *call) printCredits(list []api.Credits) error {
	if c.String("format") == formatTable && len(list) == 0 {
		_, err := fmt.Fprintln(c.out, "no links with credits: they have them by `link: {cbfc: on}` in the topology file; labs with --time real have none")
		return err
	}
	return c.render(list, func() table { return creditTable(list) })
}

// creditTable has one line a direction and channel.
func creditTable(list []api.Credits) table {
	t := table{columns: []string{"LINK", "FROM", "TO", "VC", "CLASS", "STATE", "LIMIT", "USED", "PEAK", "CONSUMED", "FREED", "BLOCKED", "HELD"}}
	for i := range list {
		x := &list[i]
		t.add(x.Link, x.From.Node, x.To.Node, x.VC, x.Class, x.State, creditLimit(x), x.Used, x.Peak, x.Consumed, x.Freed, nanos(x.BlockedNs), x.RxHeld)
	}
	return t
}

func creditLimit(x *api.Credits) string {
	if x.Shared {
		return fmt.Sprintf("%d shared", x.Limit)
	}
	return fmt.Sprint(x.Limit)
}

// creditChannels is the short form for one link.
func creditChannels(list []api.Credits) []table {
	t := table{columns: []string{"CBFC", "VC", "CLASS", "STATE", "LIMIT", "USED", "PEAK", "BLOCKED", "HELD"}}
	for i := range list {
		if x := &list[i]; x.State != cbfc.Off {
			t.add(x.From.Node+" to "+x.To.Node, x.VC, x.Class, x.State, creditLimit(x), x.Used, x.Peak, nanos(x.BlockedNs), x.RxHeld)
		}
	}
	if len(t.rows) == 0 {
		return nil
	}
	return []table{t}
}
