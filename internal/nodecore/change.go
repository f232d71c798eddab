package nodecore

import (
	"errors"
	"fmt"

	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/link/cbfc"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/switchd"
)

var errNotHere = errors.New("not one for this node")

// Change schedules a change; it must lie ahead of the node's horizon.
func (n *Node) Change(c ctl.Change) error {
	if err := n.schedule(&c); err != nil {
		return fmt.Errorf("change at %v: %w", c.At, err)
	}
	return nil
}

func (n *Node) schedule(c *ctl.Change) error {
	if c.Routes == nil && c.Switch == nil {
		return n.schedulePort(*c)
	}
	if n.Switch == nil {
		return errNotHere
	}
	routes, err := n.routes(c.Routes)
	if err != nil {
		return err
	}
	if c.Switch != nil {
		if err := c.Switch.Validate(len(n.Ports)); err != nil {
			return err
		}
	}
	set, isRoutes := c.Switch, c.Routes != nil
	n.Node.Change(c.At, func(now vt.Time) { n.changeSwitch(now, set, routes, isRoutes) })
	return nil
}

func (n *Node) changeSwitch(now vt.Time, set *switchd.Settings, routes []switchd.Route, isRoutes bool) {
	if set != nil {
		if err := n.Switch.Configure(now, *set); err != nil {
			panic(err) // Validate has seen them
		}
		if n.lldp != nil {
			n.lldp.describe(now)
		}
	}
	if isRoutes {
		n.Switch.SetRoutes(routes)
	}
}

// schedulePort schedules a change of a port. One that knows no trailers has no LLR and no credits, whatever is said of them.
func (n *Node) schedulePort(c ctl.Change) error {
	if c.Port < 0 || c.Port >= len(n.Ports) {
		return errNotHere
	}
	if n.plain[c.Port] {
		if c.Retry != nil || c.Wish != nil || c.Credit != nil {
			return nil
		}
	} else if err := n.expect(&c); err != nil {
		return err
	}
	n.Node.Change(c.At, func(now vt.Time) { n.changePort(now, &c) })
	return nil
}

// expect looks at what is said of LLR and credits, and has the port be prepared for their frames.
func (n *Node) expect(c *ctl.Change) error {
	if c.Retry != nil && c.Retry.LLR != nil {
		if err := c.Retry.LLR.Validate(); err != nil {
			return err
		}
		n.ExpectLLR(c.Port, c.At)
	}
	if c.ReInit != nil {
		n.reInits[reInit{c.At, c.Port}] = *c.ReInit
	}
	if c.Wish != nil {
		if err := n.checkWish(c.Port, c.Wish); err != nil {
			return err
		}
		n.ExpectLLR(c.Port, c.At)
	}
	if c.Credit != nil && c.Credit.CBFC != nil {
		if err := cbfc.CheckProfile(&c.Credit.CBFC.Profile, n.Ports[c.Port].Config().MTU+ethAndTag); err != nil {
			return err
		}
		n.Ports[c.Port].ExpectSets()
	}
	return nil
}

func (n *Node) changePort(now vt.Time, c *ctl.Change) {
	p := n.Ports[c.Port]
	if c.RxDown != nil {
		p.SetRxDown(now, *c.RxDown)
	}
	if c.Impair != nil {
		p.SetImpair(now, *c.Impair)
		if n.lldp != nil {
			n.lldp.linkChanged(now, c.Port)
		}
		if n.Switch != nil {
			n.Switch.LinksChanged()
		}
	}
	if c.Credit != nil {
		p.SetCBFC(now, c.Credit.CBFC)
	}
	if k := (reInit{now, c.Port}); c.ReInit != nil && n.reInits[k] {
		p.ReInitLLR(now)
		delete(n.reInits, k)
	}
	if c.Retry != nil {
		if err := p.SetLLR(now, c.Retry.LLR); err != nil {
			panic(err) // Validate has seen it
		}
	}
	if n.lldp == nil {
		return
	}
	if c.Wish != nil {
		n.lldp.setWish(now, c.Port, c.Wish)
	}
	if c.Retry != nil || c.Credit != nil {
		n.lldp.configured(now, c.Port, c.Retry, c.Credit)
	}
}

// reInit is a handshake that LLR of a port is to begin.
type reInit struct {
	at   vt.Time
	port int
}
