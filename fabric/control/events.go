package control

import (
	"sync"
	"time"

	"github.com/uetlab/uetlab/fabric/api"
)

const keepEvents = 4096

// eventLog keeps the latest events and wakes those who follow.
type eventLog struct {
	mu   sync.Mutex
	seq  uint64
	list []api.Event
	more chan struct{} // closed and replaced at every event
}

// event records that something happened, at the lab's virtual time as far as the pages show it.
func (d *Daemon) event(kind, node, link, text string) {
	var now int64
	if d.clk != nil {
		_, hi := d.horizons()
		now = int64(hi)
	}
	e := &d.events
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seq++
	e.list = append(e.list, api.Event{Seq: e.seq, Wall: time.Now().UTC(), VirtualNs: now, Kind: kind, Node: node, Link: link, Text: text})
	if len(e.list) > keepEvents {
		e.list = append(e.list[:0], e.list[len(e.list)-keepEvents:]...)
	}
	if e.more != nil {
		close(e.more)
		e.more = nil
	}
}

// since gives the events after seq, and a channel that closes with the next one.
func (e *eventLog) since(seq uint64) ([]api.Event, <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.more == nil {
		e.more = make(chan struct{})
	}
	for i, ev := range e.list {
		if ev.Seq > seq {
			return append([]api.Event(nil), e.list[i:]...), e.more
		}
	}
	return nil, e.more
}
