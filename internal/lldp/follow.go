package lldp

import (
	"fmt"

	"github.com/uetlab/uetlab/internal/link/cbfc"
	"github.com/uetlab/uetlab/internal/vt"
)

// allVCs is the set of all channels.
const allVCs = 1<<cbfc.VCs - 1

// Follow brings the CBFC of a port where an agreement says, step by step as uet-link-switch.md 3.7 has them, after a Receive, Advance
// or SetWish that returned c: was is the agreement before it, frame the longest frame without FCS. Frames that this lets go
// must leave behind the LLDP frame that is due now; the port kicks its queues. An error says that the neighbour's profile is of
// no use: the port sends without credits.
//
// CBFC that is given up stops at once, without waiting for credits that may never come: the port's frames go on as best effort.
func Follow(now vt.Time, c Change, was, is *Agreement, s *cbfc.Sender, r *cbfc.Receiver, frame int) error {
	if c&AgreementChanged == 0 {
		return nil
	}
	again := c&CreditsRestart != 0 || is.CBFC != was.CBFC
	if again {
		s.Hold(now, allVCs)
		r.Disable(allVCs)
	}
	if !is.CBFC {
		s.Release(allVCs)
		return nil
	}
	if is.PeerHeld && (again || !was.PeerHeld) {
		r.Disable(allVCs)
		r.Enable(now, r.Lossless())
	}
	switch {
	case is.Tx == nil:
		s.Hold(now, allVCs)
		s.Release(allVCs)
		return nil
	case !is.PeerReady:
		s.Hold(now, allVCs)
		return nil
	case again || !was.PeerReady || was.Tx == nil || s.On() == 0: // or the neighbour has mended a profile that was of no use
		s.Hold(now, allVCs)
		if err := s.Attach(now, is.Tx, nil, frame); err != nil {
			s.Release(allVCs)
			return fmt.Errorf("neighbour: %w", err)
		}
		return s.Enable(now, allVCs)
	case !sameCBFC(was.Tx, is.Tx):
		return retune(now, is, s, frame)
	}
	return nil
}

// retune takes changed limits while credits are out.
func retune(now vt.Time, is *Agreement, s *cbfc.Sender, frame int) error {
	if err := s.Attach(now, is.Tx, nil, frame); err != nil {
		return fmt.Errorf("neighbour: new limits are not used: %w", err)
	}
	return nil
}
