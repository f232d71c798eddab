package cms

import "github.com/uetlab/uetlab/internal/vt"

// dcqcn is the rate of a source: it falls with notifications, and returns by time and by bytes.
type dcqcn struct {
	p      *DCQCN
	line   float64 // bit/s
	rate   float64 // RC
	target float64 // RT
	alpha  float64
	bytes  int64
	nTime  int // stages since the last notification
	nBytes int
	timer  vt.Time // end of the current period
	cnp    vt.Time // the last notification
	some   bool
	free   int64   // ps: when the next packet may leave
	next   vt.Time // the same
}

func newDCQCN(now vt.Time, cfg *Config) *dcqcn {
	l := float64(cfg.Net.Rate)
	return &dcqcn{p: &cfg.DCQCN, line: l, rate: l, target: l, alpha: 1, timer: now + vt.Time(cfg.DCQCN.Timer)}
}

// onCNP takes a notification. The destination paces them; a way that became shorter brings them closer together. Of a peer that does
// not, since it is set to another algorithm, one in half the time counts.
func (d *dcqcn) onCNP(now vt.Time) {
	if d.some && now-d.cnp < vt.Time(d.p.CNPEvery)/2 {
		return
	}
	d.advance(now)
	d.some, d.cnp = true, now
	d.target = d.rate
	d.rate = max(d.rate*(1-d.alpha/2), d.p.MinRate)
	d.alpha = float64((1-d.p.G)*d.alpha) + d.p.G
	d.nTime, d.nBytes, d.bytes, d.timer = 0, 0, 0, now+vt.Time(d.p.Timer)
}

// quiet is after how many periods alpha has vanished for any G that makes sense.
const quiet = 4096

// advance catches up with the periods that have ended.
func (d *dcqcn) advance(now vt.Time) {
	if now < d.timer {
		return
	}
	step := vt.Time(d.p.Timer)
	n := int64((now-d.timer)/step) + 1
	d.timer += vt.Time(n) * step
	for range min(n, quiet) {
		d.alpha *= 1 - d.p.G
		d.nTime++
		d.increase()
	}
}

func (d *dcqcn) increase() {
	lo, hi := min(d.nTime, d.nBytes), max(d.nTime, d.nBytes)
	switch {
	case lo > d.p.Fast:
		d.target += float64(float64(lo-d.p.Fast) * d.p.HAI)
	case hi > d.p.Fast:
		d.target += d.p.AI
	}
	d.target = min(d.target, d.line)
	d.rate = min((d.target+d.rate)/2, d.line)
}

func (d *dcqcn) onSend(now vt.Time, n int64) {
	d.advance(now)
	d.free = max(d.free, int64(now)*1000) + int64(float64(n)*8e12/d.rate)
	d.next = vt.Time((d.free + 999) / 1000)
	for d.bytes += n; d.bytes >= d.p.Bytes; d.bytes -= d.p.Bytes {
		d.nBytes++
		d.increase()
	}
}
