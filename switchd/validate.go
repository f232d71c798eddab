package switchd

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/uetlab/uetlab/internal/link"
)

// Validate checks settings for a switch of so many ports; the error says which setting, and what it may be. What concerns
// the choice of a port is checked where it is applied.
func (t *Settings) Validate(ports int) error {
	for dscp, c := range t.Classes {
		if c >= link.NumQueues {
			return fmt.Errorf("class of DSCP %d is %d: use 0 to %d", dscp, c, link.NumQueues-1)
		}
	}
	for i := range t.Queues {
		if err := t.Queues[i].validate(); err != nil {
			return fmt.Errorf("queue %d: %w", i, err)
		}
	}
	switch t.LastHop {
	case "", MarkAuto, MarkOn, MarkOff:
	default:
		return fmt.Errorf("ECN of the last hop %q: use %s, %s or %s", t.LastHop, MarkAuto, MarkOn, MarkOff)
	}
	if err := t.validateTrim(); err != nil {
		return fmt.Errorf("trim: %w", err)
	}
	if err := t.validatePFC(); err != nil {
		return fmt.Errorf("pfc: %w", err)
	}
	if t.Buffer.Shared < 0 || t.Buffer.Reserved < 0 {
		return errors.New("buffer: a size is negative")
	}
	if set := t.setAside(ports); t.Buffer.Shared > 0 && set > t.Buffer.Shared {
		return fmt.Errorf("buffer: %d bytes are fewer than the %d that reserves and PFC thresholds of %d ports set aside: make it larger or those smaller",
			t.Buffer.Shared, set, ports)
	}
	return nil
}

func (q *Queue) validate() error {
	switch {
	case q.Limit < 0 || q.Kmin < 0 || q.Kmax < 0 || q.Weight < 0:
		return errors.New("a size or weight is negative")
	case !(q.Alpha >= 0): // not a number neither
		return fmt.Errorf("alpha %v: use 0 (none) or more", q.Alpha)
	case q.Kmax > 0 && q.Kmin > q.Kmax:
		return fmt.Errorf("kmin %d is above kmax %d", q.Kmin, q.Kmax)
	case !(q.Pmax >= 0 && q.Pmax <= 1):
		return fmt.Errorf("pmax %v: use 0 to 1", q.Pmax)
	case q.Lossless && (q.Trim || q.WRED):
		return errors.New("a lossless queue neither trims nor drops by WRED: switch one off")
	}
	return nil
}

func (t *Settings) validateTrim() error {
	r := &t.Trim
	if _, err := r.prefixes(); err != nil {
		return err
	}
	if !r.Enabled {
		return nil
	}
	if r.Size < 0 || r.RetxLimit < 0 {
		return errors.New("a size is negative")
	}
	for _, d := range append([]uint8{r.Trimmed, r.LastHop, r.Retx}, r.Trimmable...) {
		if d > 63 {
			return fmt.Errorf("DSCP %d: use 0 to 63", d)
		}
	}
	for _, d := range []uint8{r.Trimmed, r.LastHop} {
		if slices.Contains(r.Trimmable, d) {
			return fmt.Errorf("DSCP %d of trimmed packets is trimmable: nothing is trimmed twice", d)
		}
		if c := t.Classes[d]; t.Queues[c].Lossless {
			return fmt.Errorf("DSCP %d of trimmed packets is in the lossless queue %d: give it another class", d, c)
		}
	}
	return nil
}

func (r *Trim) prefixes() ([]netip.Prefix, error) {
	var list []netip.Prefix
	for _, s := range r.Disabled {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, fmt.Errorf("disabled source %q: %w", s, err)
		}
		list = append(list, p.Masked())
	}
	return list, nil
}

func (t *Settings) validatePFC() error {
	p := &t.PFC
	switch {
	case t.lossless() == 0:
		return nil
	case p.Xoff <= 0 || p.Headroom < 0:
		return errors.New("a lossless queue needs xoff above 0, and headroom of 0 or more")
	case p.Xon < 0 || p.Xon > p.Xoff:
		return fmt.Errorf("xon %d: use 0 to xoff, which is %d", p.Xon, p.Xoff)
	case p.Quanta == 0:
		return errors.New("quanta 0 would pause nobody: use 1 to 65535")
	case p.Watchdog < 0 || p.Watchdog > 0 && p.Restore <= 0:
		return errors.New("the watchdog needs times above 0 to fire and to restore; 0 to fire switches it off")
	case p.Watchdog > 0 && p.Action != ActionDrop && p.Action != ActionForward && p.Action != ActionAlert:
		return fmt.Errorf("watchdog action %q: use drop, forward or alert", p.Action)
	}
	return nil
}

// lossless counts lossless queues of one port.
func (t *Settings) lossless() (n int64) {
	for i := range t.Queues {
		if t.Queues[i].Lossless {
			n++
		}
	}
	return n
}

// setAside is what of the buffer no queue can take from another: reserves, and what PFC lets in.
func (t *Settings) setAside(ports int) int64 {
	n := t.lossless()
	return int64(ports) * ((link.NumQueues-n)*t.Buffer.Reserved + n*(t.PFC.Xoff+t.PFC.Headroom))
}
