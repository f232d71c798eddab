package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/labdir"
	"github.com/uetlab/uetlab/wire"
)

func lldpCommand() *cli.Command {
	return verb{name: "lldp", args: "[NODE]", usage: "show the neighbours that ports have heard by LLDP", max: 1,
		text: "Of one node, or of all; of ports whose links have `lldp: on` or `lldp: static` in the topology file. LLR and CBFC are what both ends have\n" +
			"agreed on, or who is in the way: wanted here, not there. WIRING says how a neighbour is not the one of the topology.\n" +
			"--detail prints what lldpctl would, and the UE TLVs. --check prints a line for each port whose neighbour is\n" +
			"not the one of the topology, or that has heard nobody, and fails if there is one. Times are virtual: a port says who it is every second, for four.",
		examples: []string{"uetlab lldp", "uetlab lldp leaf0", "uetlab lldp leaf0 --detail", "uetlab lldp --check", "uetlab lldp --format json"},
		flags:    labFlags(&cli.BoolFlag{Name: "detail", Usage: "all that each neighbour says"}, &cli.BoolFlag{Name: "check", Usage: "only what is wrong with the cables; exit code 1 if anything is"}, watchFlag()), run: runLLDP}.command()
}

func runLLDP(c *call) error {
	cl, d, err := c.client()
	if err != nil {
		return err
	}
	if c.Bool("check") {
		list, err := cl.LLDP(c.ctx, c.arg(0))
		if err != nil {
			return explain(d, err)
		}
		return c.checkWiring(list)
	}
	return c.watch(func() (func() error, error) {
		list, err := cl.LLDP(c.ctx, c.arg(0))
		if err != nil {
			return nil, explain(d, err)
		}
		return func() error { return c.printLLDP(list) }, nil
	})
}

const noLLDP = "no ports with LLDP: links have it by `link: {lldp: on}` in the topology file"

// checkWiring prints the ports whose neighbours are wrong, and fails if there are any.
func (c *call) checkWiring(list []api.LLDP) error {
	if len(list) == 0 {
		c.note("%s, so nothing was checked", noLLDP)
	}
	wrong := slices.DeleteFunc(list, func(p api.LLDP) bool { return p.Mistake == "" })
	if c.String("format") != formatTable {
		if err := c.render(wrong, nil); err != nil {
			return err
		}
	} else {
		for _, p := range wrong {
			if _, err := fmt.Fprintln(c.out, p.Mistake); err != nil {
				return err
			}
		}
	}
	if len(wrong) > 0 {
		return api.Errorf(api.CodeFailure, "lldp: the neighbours of %d ports are not those of the topology", len(wrong))
	}
	return nil
}

// hearWait is how long up gives the agents of a lab to hear each other, wall time; they need microseconds of virtual time.
const hearWait = 2 * time.Second

// noteWiring says which ports of a lab that has just come up do not hear whom the topology says.
func noteWiring(c *call, d *labdir.Dir) {
	cl := api.Unix(d.Sock())
	defer cl.Close()
	var list []api.LLDP
	deaf := func(p api.LLDP) bool { return p.Neighbour == nil && p.Mistake != "" }
	for end := time.Now().Add(hearWait); ; time.Sleep(hearWait / 40) {
		var err error
		if list, err = cl.LLDP(c.ctx, ""); err != nil || !slices.ContainsFunc(list, deaf) || time.Now().After(end) {
			break
		}
	}
	for _, p := range list {
		if p.Mistake != "" {
			c.note("wiring: %s", p.Mistake)
		}
	}
}

func (c *call) printLLDP(list []api.LLDP) error {
	asTable := c.String("format") == formatTable
	switch {
	case asTable && len(list) == 0:
		_, err := fmt.Fprintln(c.out, noLLDP)
		return err
	case asTable && c.Bool("detail"):
		_, err := fmt.Fprint(c.out, lldpDetail(list))
		return err
	}
	return c.render(list, func() table { return lldpTable(list) })
}

// lldpTable has one line a port.
func lldpTable(list []api.LLDP) table {
	t := table{columns: []string{"NODE", "PORT", "NEIGHBOUR", "ITS PORT", "CHASSIS", "HEARD", "TTL", "LLR", "CBFC", "WIRING"}}
	for _, p := range list {
		wiring := "ok"
		if p.Mistake != "" {
			_, wiring, _ = strings.Cut(p.Mistake, ": ")
		}
		n := p.Neighbour
		if n == nil {
			t.add(p.Node, p.Port, "-", "-", "-", "-", "-", agreedText(&p, p.LLR, p.WantLLR, false), agreedText(&p, p.CBFC, p.WantCBFC, false), wiring)
			continue
		}
		t.add(p.Node, p.Port, dash(n.System), n.Port, n.Chassis, nanos(n.HeardNs-n.HeardNs%int64(time.Millisecond))+" ago", fmt.Sprintf("%ds", n.TTLSec),
			agreedText(&p, p.LLR, p.WantLLR, n.UE != nil && n.UE.LLRWanted == yes), agreedText(&p, p.CBFC, p.WantCBFC, n.UE != nil && n.UE.CBFCWanted == yes), wiring)
	}
	return t
}

// yes is the only wish that counts.
var yes = wire.WishBoth.String()

// agreedText is on, off, or who is in the way.
func agreedText(p *api.LLDP, on, here, there bool) string {
	switch {
	case on:
		return "on"
	case p.Static || here == there:
		return "off"
	case here && p.Neighbour == nil:
		return "wanted here"
	case here:
		return "wanted here, not there"
	}
	return "wanted there, not here"
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

const lldpRule = "-------------------------------------------------------------------------------\n"

// lldpDetail writes neighbours in the manner of lldpctl.
func lldpDetail(list []api.LLDP) string {
	var b strings.Builder
	b.WriteString(lldpRule + "LLDP neighbors:\n" + lldpRule)
	line := func(indent int, key, format string, a ...any) {
		text := fmt.Sprintf("%*s%-*s ", indent, "", 16-indent, key+":") + fmt.Sprintf(format, a...)
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}
	for _, p := range list {
		age := "-"
		if p.Neighbour != nil {
			s := p.Neighbour.AgeNs / int64(time.Second)
			age = fmt.Sprintf("%d day, %02d:%02d:%02d", s/86400, s/3600%24, s/60%60, s%60)
		}
		line(0, "Interface", "%s %s, via: LLDP, Time: %s", p.Node, p.Port, age)
		if p.Mistake != "" {
			line(2, "Wiring", "%s", p.Mistake)
		}
		lldpNeighbour(&p, line)
		lldpOwn(&p, line)
		b.WriteString(lldpRule)
	}
	return b.String()
}

// lldpOwn writes what the port itself wants, and what has come of it.
func lldpOwn(p *api.LLDP, line func(indent int, key, format string, a ...any)) {
	n := p.Neighbour
	ue := n != nil && n.UE != nil
	how := ""
	if p.Static {
		how = ", configured"
	}
	line(2, "This port", "")
	line(4, "LLR", "wanted %s%s, %s", onOff(p.WantLLR), how, agreedText(p, p.LLR, p.WantLLR, ue && n.UE.LLRWanted == yes))
	line(4, "CBFC", "wanted %s%s, %s", onOff(p.WantCBFC), how, agreedText(p, p.CBFC, p.WantCBFC, ue && n.UE.CBFCWanted == yes))
	if p.Limit > 0 {
		line(4, "Sends by", "%d credits", p.Limit)
	}
	if p.Problem != "" {
		line(4, "No credits", "%s", p.Problem)
	}
}

func lldpNeighbour(p *api.LLDP, line func(indent int, key, format string, a ...any)) {
	n := p.Neighbour
	if n == nil {
		line(2, "Neighbour", "none")
		return
	}
	line(2, "Chassis", "")
	line(4, "ChassisID", "mac %s", n.Chassis)
	line(4, "SysName", "%s", n.System)
	if n.SystemDesc != "" {
		line(4, "SysDescr", "%s", n.SystemDesc)
	}
	for _, a := range n.Addresses {
		line(4, "MgmtIP", "%s", a)
	}
	for _, able := range strings.Split(n.Can, ", ") {
		line(4, "Capability", "%s, %s", able, onOff(slices.Contains(strings.Split(n.Enabled, ", "), able)))
	}
	line(2, "Port", "")
	line(4, "PortID", "ifname %s", n.Port)
	if n.PortDesc != "" {
		line(4, "PortDescr", "%s", n.PortDesc)
	}
	line(4, "TTL", "%d", n.TTLSec)
	if u := n.UE; u != nil {
		line(2, "UE options", "")
		line(4, "LLR", "wanted %s, enabled %s", u.LLRWanted, u.LLREnabled)
		line(4, "CBFC", "wanted %s, enabled %s", u.CBFCWanted, u.CBFCEnabled)
		line(4, "Version", "%#x", u.Version)
		line(4, "BootID", "%d", u.BootID)
	}
	if r := n.CBFC; r != nil {
		line(2, "UE CBFC", "")
		line(4, "Credit", "%d bytes, overhead %d", r.CreditSize, r.Overhead)
		line(4, "Method", "%s, total %d, lossless %#x", r.Method, r.Total, r.Lossless)
		for _, vc := range slices.Sorted(maps.Keys(r.Limits)) {
			line(4, "Limit", "channel %d: %d", vc, r.Limits[vc])
		}
	}
	if n.Unknown > 0 {
		line(2, "Unknown TLVs", "%d", n.Unknown)
	}
}
