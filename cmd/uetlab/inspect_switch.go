package main

import (
	"fmt"
	"strings"

	"github.com/uetlab/uetlab/fabric/api"
)

// askSwitch adds what only the daemon and the switch itself know. The queues of one that is dead are not known.
func (v *nodeView) askSwitch(c *call, cl *api.Client) error {
	list, err := cl.Switches(c.ctx, v.Plan.Name)
	if err != nil {
		return err
	}
	if len(list) != 1 {
		return fmt.Errorf("node %s: a switch in the plan, but the daemon knows nothing of it", v.Plan.Name)
	}
	v.Switch = &list[0]
	if v.Status.State != api.NodeUp {
		return nil
	}
	v.Queues, err = cl.Queues(c.ctx, v.Plan.Name)
	return err
}

// switchFacts are the settings that matter most, those that have been changed, and how full the buffer is.
func switchFacts(s *api.SwitchStatus) [][2]string {
	b := brief(*s)
	rows := [][2]string{{"buffer", b.buffer}, {"trimming", b.trim}, {"ECN", b.ecn}, {"ECMP hash", b.hash}, {"balance", b.balance}, {"PFC", b.pfc}}
	var changed []string
	for _, ch := range s.Changed {
		if ch.Value != "" {
			changed = append(changed, ch.Key+"="+ch.Value)
		}
	}
	rows = append(rows, [2]string{"changed", dash(strings.Join(changed, " "))})
	for _, p := range s.Pending {
		at := nanos(p.AtNs)
		if p.When == api.WhenNextRun {
			at = "+" + at + " in the next run"
		}
		rows = append(rows, [2]string{"ahead", at + ": " + pendingText(p)})
	}
	if s.Live != nil {
		rows = append(rows, [2]string{"buffer use", fmt.Sprintf("%d bytes now, %d at most", s.Live.Buffer.Used, s.Live.Buffer.Peak)})
	}
	return rows
}
