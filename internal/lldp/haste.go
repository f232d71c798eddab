package lldp

import (
	"time"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// A frame of an agent may be lost like any other. Where that leaves channels held, or LLR in a handshake that nobody answers, traffic may stand still until the next frame, a second later. So
// a port that waits for its neighbour says again what it has said, and the neighbour, if it does not wait itself, answers.

const (
	firstRepeat = 100 * time.Microsecond // each of the next comes four times as late, up to Every
	// justTold is for how long an answer is not given again: two ports that have all they want would answer each other.
	justTold = firstRepeat / 2
)

// waits says whether LLR or credits are coming up or going down here, and the neighbour has not said yet that it knows.
func (a *Agent) waits() bool {
	if a.cfg.Static || a.peer == nil || a.peer.Options == nil || !a.cfg.Trailer {
		return false
	}
	g, o := &a.agreed, a.peer.Options
	if g.CBFC && !(g.PeerHeld && g.PeerReady) || g.LLR && o.LLREnabled != wire.WishBoth {
		return true
	}
	return !g.CBFC && o.CBFCEnabled != wire.WishNo || !g.LLR && o.LLREnabled != wire.WishNo
}

// pace is how long after a frame that leaves now the next one follows.
func (a *Agent) pace() time.Duration {
	if !a.waits() {
		a.hasty = 0
		return Every
	}
	d := spaced(a.hasty)
	a.hasty++
	return d
}

// spaced is how long after n frames of a kind the next one comes.
func spaced(n int) time.Duration { return min(firstRepeat<<(2*min(n, 8)), Every) }

// calm goes back to the usual pace once there is nothing to wait for.
func (a *Agent) calm(now vt.Time) {
	if a.hasty == 0 || a.waits() {
		return
	}
	a.hasty = 0
	if a.sendAt > now && a.sendAt != vt.Never {
		a.sendAt = a.told.Add(Every)
	}
}

// again follows a frame that says nothing new: one that comes sooner than a periodic one may asks for an answer.
func (a *Agent) again(now vt.Time) {
	if (a.wish.LLR || a.wish.CBFC) && !a.waits() && now.Sub(a.peer.Heard) < Every/2 && now.Sub(a.told) > justTold {
		a.answer(now)
	}
}

// answer has a frame sent at once that the neighbour may wait for.
func (a *Agent) answer(now vt.Time) {
	a.urgent = true
	a.tell(now)
}
