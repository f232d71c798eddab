// Package wheel keeps any number of timers in one structure: arming and cancelling cost the same however many there are, and
// each fires at its own nanosecond. It reads no clock: whoever owns it says what time it is, and asks when to come again.
package wheel

import (
	"math/bits"

	"github.com/uetlab/uetlab/internal/vt"
)

const (
	slotBits = 6
	slots    = 1 << slotBits
	levels   = 11 // 6 bits each: all 63 bits of a time
)

// scan is how many timers of a slot Next looks at for the exact time; of more it gives the beginning of the slot.
const scan = 8

// Owner is told when its timers fire.
type Owner interface {
	Fire(now vt.Time, t *Timer)
}

// Timer is one timer, part of its owner: the wheel allocates nothing. Its zero value with Owner set is ready for Arm.
type Timer struct {
	Owner Owner
	Kind  uint8 // the owner's own

	armed bool
	level uint8
	slot  uint8
	at    vt.Time
	next  *Timer
	prev  *Timer
}

// At is when the timer fires, vt.Never if it is not armed.
func (t *Timer) At() vt.Time {
	if !t.armed {
		return vt.Never
	}
	return t.at
}

// list is the timers of one slot in the order of arming.
type list struct{ head, tail *Timer }

// Wheel is a hierarchical timing wheel: level l has 64 slots of 64^l ns. The zero value stands at time 0.
type Wheel struct {
	now   vt.Time // nothing earlier is armed
	n     int
	used  [levels]uint64 // slots that are not empty
	slots [levels][slots]list
}

// Len is the number of armed timers.
func (w *Wheel) Len() int { return w.n }

// Reset forgets all timers without touching them: their owners are gone, or begin anew.
func (w *Wheel) Reset(now vt.Time) { *w = Wheel{now: now} }

// Arm sets the timer to fire at the given time, or moves it there. A time that has passed is taken as the wheel's own time.
func (w *Wheel) Arm(t *Timer, at vt.Time) {
	if t.armed {
		w.unlink(t)
	} else {
		t.armed = true
		w.n++
	}
	t.at = max(at, w.now)
	w.link(t)
}

// Cancel disarms the timer, if it is armed.
func (w *Wheel) Cancel(t *Timer) {
	if t.armed {
		w.unlink(t)
		t.armed = false
		w.n--
	}
}

func (w *Wheel) link(t *Timer) {
	level := uint8(0)
	if x := uint64(t.at ^ w.now); x != 0 {
		level = uint8((bits.Len64(x) - 1) / slotBits)
	}
	slot := uint8(uint64(t.at) >> (level * slotBits) & (slots - 1))
	t.level, t.slot = level, slot
	l := &w.slots[level][slot]
	t.prev, t.next = l.tail, nil
	if l.tail == nil {
		l.head = t
		w.used[level] |= 1 << slot
	} else {
		l.tail.next = t
	}
	l.tail = t
}

func (w *Wheel) unlink(t *Timer) {
	l := &w.slots[t.level][t.slot]
	if t.prev == nil {
		l.head = t.next
	} else {
		t.prev.next = t.next
	}
	if t.next == nil {
		l.tail = t.prev
	} else {
		t.next.prev = t.prev
	}
	if l.head == nil {
		w.used[t.level] &^= 1 << t.slot
	}
	t.next, t.prev = nil, nil
}

// first finds the slot with the earliest timers: on the lowest level that has any, since those share more leading bits with
// the wheel's time.
func (w *Wheel) first() (level int, slot uint8, start vt.Time) {
	for level := range levels {
		used := w.used[level]
		if used == 0 {
			continue
		}
		shift := uint(level * slotBits)
		slot := uint8(bits.TrailingZeros64(used)) // none lies before the wheel's own slot
		base := uint64(w.now) >> shift >> slotBits << slotBits
		return level, slot, vt.Time((base | uint64(slot)) << shift)
	}
	return 0, 0, vt.Never
}

// Next is when Advance has something to do: when the earliest timer fires, or somewhat earlier; vt.Never if none is armed.
func (w *Wheel) Next() vt.Time {
	level, slot, start := w.first()
	if level == 0 {
		return start
	}
	at, n := vt.Never, 0
	for t := w.slots[level][slot].head; t != nil; t = t.next {
		if n++; n > scan {
			return max(start, w.now)
		}
		at = min(at, t.at)
	}
	return at
}

// Advance moves the wheel to now and fires what is due, by time; at one instant in an order that depends only on the calls
// so far. Owners may arm and cancel whatever they like meanwhile; what they arm for now fires in the same call.
func (w *Wheel) Advance(now vt.Time) {
	for {
		level, slot, start := w.first()
		if start > now {
			w.now = max(w.now, now)
			return
		}
		w.now = max(w.now, start)
		l := &w.slots[level][slot]
		if level == 0 {
			t := l.head
			w.Cancel(t)
			t.Owner.Fire(t.at, t)
			continue
		}
		t := l.head
		*l = list{}
		w.used[level] &^= 1 << slot
		for t != nil {
			next := t.next
			w.link(t)
			t = next
		}
	}
}
