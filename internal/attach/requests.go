package attach

import (
	"crypto/subtle"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/fep/mr"
	"github.com/uetlab/uetlab/internal/shm"
	"github.com/uetlab/uetlab/internal/vt"
)

const (
	openJob   = 1 // needs no token
	maxPID    = 1<<12 - 1
	maxJob    = 1<<24 - 1
	standardQ = 256  // submissions
	standardC = 1024 // completions
)

// answer is what a request comes to: a payload and descriptors, or a status and what to say about it.
type answer struct {
	status  shm.Status
	text    string
	payload any
	fds     []int
}

func refuse(s shm.Status, format string, args ...any) answer {
	text := s.String()
	if format != "" {
		text = fmt.Sprintf(format, args...)
	}
	return answer{status: s, text: text}
}

// message handles one control message; the descriptors that came with it are closed. A process that does not read its answers is cut off.
func (c *client) message(now vt.Time, b []byte, fds []int) {
	defer shm.CloseAll(fds)
	h, payload, err := shm.ParseHeader(b)
	if err != nil || h.ID == 0 || c.sq == nil && h.Kind != shm.ReqHello {
		c.dead = true
		return
	}
	a := c.handle(now, h.Kind, payload, fds)
	r := shm.Header{Kind: h.Kind, ID: h.ID, Status: uint16(a.status)}
	out := shm.Append(nil, r, nil)
	if a.status == shm.StatusOK {
		out = shm.Append(nil, r, a.payload)
	} else {
		out = append(out, a.text...)
	}
	err = shm.Send(c.sock, out, a.fds...)
	shm.CloseAll(a.fds)
	if err != nil {
		c.dead = true
	}
}

// parse reads a payload, or refuses the request.
func parse(b []byte, v any) (rest []byte, bad *answer) {
	rest, err := shm.Parse(b, v)
	if err != nil {
		a := refuse(shm.StatusInvalid, "%v", err)
		return nil, &a
	}
	return rest, nil
}

func with[T any](b []byte, f func(m *T, rest []byte) answer) answer {
	var m T
	rest, bad := parse(b, &m)
	if bad != nil {
		return *bad
	}
	return f(&m, rest)
}

func (c *client) handle(now vt.Time, kind shm.Request, b []byte, fds []int) answer {
	switch kind {
	case shm.ReqHello:
		return with(b, func(m *shm.Hello, _ []byte) answer { return c.hello(now, m) })
	case shm.ReqCQOpen:
		return with(b, func(m *shm.CQOpen, _ []byte) answer { return c.openCQ(m) })
	case shm.ReqAVOpen:
		return c.openAV()
	case shm.ReqAVInsert:
		return with(b, c.insert)
	case shm.ReqAVRemove:
		return with(b, func(m *shm.AVRemove, _ []byte) answer { return c.removeAddr(m) })
	case shm.ReqMemory:
		return with(b, func(m *shm.Memory, _ []byte) answer {
			id, st, text := c.addMemory(m, fds)
			if st != shm.StatusOK {
				return refuse(st, "%s", orText(text, st))
			}
			return answer{payload: &shm.Opened{ID: id}}
		})
	case shm.ReqEPOpen:
		return with(b, func(m *shm.EPOpen, _ []byte) answer { return c.openEP(m) })
	case shm.ReqSRXOpen:
		return with(b, func(m *shm.SRXOpen, _ []byte) answer { return c.openSRX(m) })
	case shm.ReqMRRegister:
		return with(b, func(m *shm.MRRegister, _ []byte) answer { return c.register(m) })
	case shm.ReqClose:
		return with(b, func(m *shm.Close, _ []byte) answer { return c.closeObject(now, m) })
	case shm.ReqReport:
		return with(b, c.takeReport)
	case shm.ReqStat:
		st := c.s.total
		return answer{payload: &st}
	}
	return refuse(shm.StatusInvalid, "request %d: not known", kind)
}

func orText(text string, st shm.Status) string {
	if text == "" {
		return st.String()
	}
	return text
}

func (c *client) hello(now vt.Time, m *shm.Hello) answer {
	s := c.s
	switch {
	case c.sq != nil:
		return refuse(shm.StatusInvalid, "a second hello")
	case m.Magic != shm.Magic || m.Version != shm.Version:
		return refuse(shm.StatusVersion, "version %d of the protocol: the FEP speaks %d", m.Version, shm.Version)
	case m.Job == 0 || m.Job > maxJob:
		return refuse(shm.StatusJob, "JobID %d: 1 to %d", m.Job, maxJob)
	case m.PID < -1 || m.PID > maxPID:
		return refuse(shm.StatusPID, "PIDonFEP %d: 0 to %d", m.PID, maxPID)
	}
	if token, ok := s.tokens[m.Job]; m.Job != openJob || ok {
		if !ok || subtle.ConstantTimeCompare(token[:], m.Token[:]) != 1 {
			return refuse(shm.StatusJob, "")
		}
	}
	pid, ok := s.claim(c, m.Job, int(m.PID))
	if !ok {
		return refuse(shm.StatusPID, "")
	}
	entries := shm.RingSize(m.SQEntries, standardQ)
	fd, mem, err := shm.Create("uetlab-fep", shm.SQLen(int(entries)))
	if err != nil {
		return refuse(shm.StatusOther, "%v", err)
	}
	bell, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err == nil {
		err = s.watch(bell)
	}
	var bell2 int
	if err == nil {
		bell2, err = unix.FcntlInt(uintptr(bell), unix.F_DUPFD_CLOEXEC, 0)
	}
	if err != nil {
		shm.Unmap(mem)
		shm.CloseAll([]int{fd, bell})
		return refuse(shm.StatusOther, "%v", err)
	}
	c.bell, c.job, c.process, c.free = bell, m.Job, pid, m.Flags&shm.HelloFree != 0
	c.sq, c.sqMem = shm.NewSQ(mem, entries), mem
	c.sq.Now.Store(int64(now))
	c.showTime()
	cfg := s.fep.Config()
	w := &shm.Welcome{Version: shm.Version, PID: uint32(pid), Flags: c.sq.Flags.Load(), PayloadMTU: uint32(cfg.PayloadMTU), InjectSize: fep.InjectSize,
		SQEntries: entries, MaxMessage: fep.MaxMessage, Addr: s.fep.Addr().As16(), Now: int64(now), Limits: s.cfg.Limits}
	if c.near = s.real && s.cpu >= 0 && m.Flags&shm.HelloNear != 0; c.near {
		s.near++
		w.Near = uint32(s.cpu) + 1
	}
	return answer{payload: w, fds: []int{fd, bell2}}
}

// claim reserves a PIDonFEP for a process, any if pid is -1.
func (s *Server) claim(c *client, job uint32, pid int) (uint16, bool) {
	if job == openJob && pid == 0 {
		return 0, false // is that of the ranks that the FEP itself plays
	}
	if pid < 0 {
		for pid = 1; pid <= maxPID && (s.Taken(job, uint16(pid)) || !s.yields(job, uint16(pid))); pid++ {
		}
		if pid > maxPID {
			return 0, false
		}
	}
	k := procKey{job, uint16(pid)}
	switch owner := s.procs[k]; owner {
	case c:
		return k.pid, true
	case nil:
		if !s.yields(job, k.pid) {
			return 0, false
		}
		s.procs[k] = c
		c.claimed = append(c.claimed, k)
		return k.pid, true
	}
	return 0, false
}

// Taken says whether an attached process has a PIDonFEP of a job.
func (s *Server) Taken(job uint32, pid uint16) bool { return s.procs[procKey{job, pid}] != nil }

func (s *Server) yields(job uint32, pid uint16) bool {
	return s.cfg.Yield == nil || s.cfg.Yield(s.node.Now(), job, pid)
}

func (c *client) openCQ(m *shm.CQOpen) answer {
	if c.counts.cqs >= c.s.cfg.Limits.CQs {
		return refuse(shm.StatusLimit, "more than %d completion queues", c.s.cfg.Limits.CQs)
	}
	entries := shm.RingSize(m.Entries, standardC)
	fd, mem, err := shm.Create("uetlab-cq", shm.CQLen(int(entries)))
	if err != nil {
		return refuse(shm.StatusOther, "%v", err)
	}
	c.counts.cqs++
	id := place(&c.cqs, &queue{ring: shm.NewCQ(mem, entries), mem: mem})
	return answer{payload: &shm.Opened{ID: id, Count: entries}, fds: []int{fd}}
}

// object counts an endpoint, shared receive queue or address vector in.
func (c *client) object() *answer {
	if c.counts.objects >= c.s.cfg.Limits.Endpoints {
		a := refuse(shm.StatusLimit, "more than %d endpoints, shared receive queues and address vectors", c.s.cfg.Limits.Endpoints)
		return &a
	}
	c.counts.objects++
	return nil
}

func (c *client) openAV() answer {
	if bad := c.object(); bad != nil {
		return *bad
	}
	return answer{payload: &shm.Opened{ID: place(&c.avs, &vector{})}}
}

func (c *client) insert(m *shm.AVInsert, rest []byte) answer {
	v := find(c.avs, m.AV)
	switch {
	case v == nil:
		return refuse(shm.StatusObject, "address vector %d: not there", m.AV)
	case uint64(m.Count)*shm.AddrLen != uint64(len(rest)):
		return refuse(shm.StatusInvalid, "%d addresses in %d bytes", m.Count, len(rest))
	case uint64(c.counts.addresses)+uint64(m.Count)*uint64(1+len(v.users)) > uint64(c.s.cfg.Limits.Addresses):
		return refuse(shm.StatusLimit, "more than %d addresses, those of each endpoint counted", c.s.cfg.Limits.Addresses)
	}
	first := len(v.addrs)
	for len(rest) > 0 {
		var w shm.Addr
		rest, _ = shm.Parse(rest, &w) // its length was checked
		v.addrs = append(v.addrs, address(&w))
	}
	c.counts.addresses += m.Count * uint32(1+len(v.users))
	for _, e := range v.users {
		e.learn(v.addrs[first:])
	}
	return answer{payload: &shm.Opened{ID: uint32(first), Count: m.Count}}
}

func (c *client) removeAddr(m *shm.AVRemove) answer {
	v := find(c.avs, m.AV)
	if v == nil || m.Index >= uint32(len(v.addrs)) {
		return refuse(shm.StatusObject, "address %d of vector %d: not there", m.Index, m.AV)
	}
	v.addrs[m.Index] = fep.Address{} // nobody can be reached there
	for _, e := range v.users {
		e.forget(int(m.Index))
	}
	return answer{}
}

func address(w *shm.Addr) fep.Address {
	return fep.Address{FA: netip.AddrFrom16(w.FA).Unmap(), PID: w.PID, RMARI: w.RMARI, SendRI: w.SendRI, TagRI: w.TagRI, Initiator: w.Initiator,
		Absolute: w.Flags&shm.AddrAbsolute != 0, SmallHeader: w.Flags&shm.AddrSmallHeader != 0, Profiles: fep.Profiles(w.Profiles), PayloadMTU: int(w.MTU)}
}

func wireAddress(a fep.Address) shm.Addr {
	w := shm.Addr{FA: a.FA.As16(), PID: a.PID, RMARI: a.RMARI, SendRI: a.SendRI, TagRI: a.TagRI, Initiator: a.Initiator, Profiles: uint8(a.Profiles), MTU: uint16(a.PayloadMTU)}
	if a.Absolute {
		w.Flags |= shm.AddrAbsolute
	}
	if a.SmallHeader {
		w.Flags |= shm.AddrSmallHeader
	}
	return w
}

func (c *client) openEP(m *shm.EPOpen) answer {
	tx, rx := find(c.cqs, m.TxCQ), find(c.cqs, m.RxCQ)
	v, x := find(c.avs, m.AV), find(c.srxs, m.SRX)
	switch {
	case tx == nil || rx == nil:
		return refuse(shm.StatusObject, "completion queues %d and %d: not there", m.TxCQ, m.RxCQ)
	case v == nil && m.AV != 0:
		return refuse(shm.StatusObject, "address vector %d: not there", m.AV)
	case x == nil && m.SRX != 0:
		return refuse(shm.StatusObject, "shared receive queue %d: not there", m.SRX)
	case m.PID < -1 || m.PID > maxPID || (m.RMARI|m.SendRI|m.TagRI)>>12 != 0:
		return refuse(shm.StatusInvalid, "PIDonFEP and resource indexes have 12 bits")
	case m.MinMultiRecv > 1<<30 || m.EagerSize > 1<<30 || m.Unexpected > 1<<26 || m.MaxRTR > 1<<12:
		return refuse(shm.StatusLimit, "an unexpected message may keep 64 MiB, eager parts and multi-receive rests have 1 GiB at most, deferred messages are 4096")
	}
	if v != nil && uint64(c.counts.addresses)+uint64(len(v.addrs)) > uint64(c.s.cfg.Limits.Addresses) {
		return refuse(shm.StatusLimit, "more than %d addresses, those of each endpoint counted", c.s.cfg.Limits.Addresses)
	}
	pid := c.process
	if m.PID >= 0 {
		var ok bool
		if pid, ok = c.s.claim(c, c.job, int(m.PID)); !ok {
			return refuse(shm.StatusPID, "")
		}
	}
	if bad := c.object(); bad != nil {
		return *bad
	}
	e := &endpoint{c: c, av: v, tx: tx, rx: rx, srx: x}
	cfg := fep.EndpointConfig{Job: c.job, PID: pid, Initiator: m.Initiator, Absolute: m.Flags&shm.EPAbsolute != 0, RMARI: m.RMARI, SendRI: m.SendRI, TagRI: m.TagRI,
		Profiles: fep.Profiles(m.Profiles), Ordered: m.Flags&shm.EPOrdered != 0, TC: m.TC, RejectTooLong: m.Flags&shm.EPRejectTooLong != 0,
		MinMultiRecv: int(m.MinMultiRecv), EagerSize: int(m.EagerSize), Unexpected: int(m.Unexpected), MaxRTR: int(m.MaxRTR)}
	if x != nil {
		cfg.Queue = x.q
	}
	var err error
	if e.ep, err = c.s.fep.Open(cfg, e.complete); err != nil {
		c.counts.objects--
		st, _ := statusOf(err)
		return refuse(st, "%v", err)
	}
	if v != nil {
		v.users = append(v.users, e)
		c.counts.addresses += uint32(len(v.addrs))
		e.learn(v.addrs)
	}
	if x != nil {
		x.users++
	}
	tx.users++
	rx.users++
	e.id = place(&c.eps, e)
	c.s.total.Endpoints++
	return answer{payload: &shm.EPOpened{ID: e.id, Addr: wireAddress(e.ep.Addr())}}
}

func (c *client) openSRX(m *shm.SRXOpen) answer {
	cq := find(c.cqs, m.CQ)
	if cq == nil || m.MinMultiRecv > 1<<30 {
		return refuse(shm.StatusObject, "completion queue %d: not there", m.CQ)
	}
	if bad := c.object(); bad != nil {
		return *bad
	}
	x := &shared{c: c, cq: cq}
	x.q = c.s.fep.OpenRecvQueue(int(m.MinMultiRecv), x.complete)
	cq.users++
	x.id = place(&c.srxs, x)
	return answer{payload: &shm.Opened{ID: x.id}}
}

func (c *client) register(m *shm.MRRegister) answer {
	e := find(c.eps, m.EP)
	if e == nil {
		return refuse(shm.StatusObject, "endpoint %d: not there", m.EP)
	}
	if c.counts.mrs >= c.s.cfg.Limits.MRs {
		return refuse(shm.StatusLimit, "more than %d registrations", c.s.cfg.Limits.MRs)
	}
	if m.Len == 0 {
		return refuse(shm.StatusInvalid, "a registration of no bytes")
	}
	buf, r, st := c.buffer(m.Region, m.Offset, m.Len, 0)
	if st != shm.StatusOK {
		return refuse(st, "")
	}
	cfg := fep.MR{Buf: buf, Key: m.Key, Job: m.Job, RI: m.RI, Idempotent: m.Flags&shm.MRIdempotent != 0, Optimized: m.Flags&shm.MROptimized != 0, Notify: m.Flags&shm.MRNotify != 0}
	for bit, right := range map[uint32]mr.Access{shm.MRRead: mr.RemoteRead, shm.MRWrite: mr.RemoteWrite, shm.MRAtomic: mr.RemoteAtomic} {
		if m.Access&bit != 0 {
			cfg.Access |= right
		}
	}
	key, err := e.ep.RegisterMR(cfg)
	if err != nil {
		return refuse(shm.StatusInvalid, "%v", err)
	}
	c.use(r, m.Len)
	c.counts.mrs++
	c.s.total.MRs++
	id := place(&c.mrs, &registration{e: e, key: key, r: r, n: m.Len})
	return answer{payload: &shm.MRRegistered{ID: id, Key: key}}
}

func (c *client) closeObject(now vt.Time, m *shm.Close) answer {
	if st := c.closeOne(now, m); st != shm.StatusOK {
		return refuse(st, "")
	}
	return answer{}
}

func (c *client) closeOne(now vt.Time, m *shm.Close) shm.Status {
	switch m.Kind {
	case shm.KindCQ:
		q := find(c.cqs, m.ID)
		if q == nil {
			return shm.StatusObject
		}
		if q.users > 0 || q.reserved > 0 {
			return shm.StatusBusy
		}
		shm.Unmap(q.mem)
		c.cqs[m.ID-1] = nil
		c.counts.cqs--
	case shm.KindAV:
		v := find(c.avs, m.ID)
		if v == nil {
			return shm.StatusObject
		}
		if len(v.users) > 0 {
			return shm.StatusBusy
		}
		c.avs[m.ID-1] = nil
		c.counts.objects--
		c.counts.addresses -= uint32(len(v.addrs))
	case shm.KindMemory:
		return c.closeMemory(m.ID)
	case shm.KindEP:
		e := find(c.eps, m.ID)
		if e == nil {
			return shm.StatusObject
		}
		e.close(now)
	case shm.KindSRX:
		x := find(c.srxs, m.ID)
		if x == nil {
			return shm.StatusObject
		}
		if x.users > 0 {
			return shm.StatusBusy
		}
		x.q.Close(now)
		x.cq.users--
		c.srxs[m.ID-1] = nil
		c.counts.objects--
	case shm.KindMR:
		g := find(c.mrs, m.ID)
		if g == nil {
			return shm.StatusObject
		}
		_ = g.e.ep.Deregister(g.key) // we have the key from it
		c.dropMR(m.ID)
	default:
		return shm.StatusInvalid
	}
	return shm.StatusOK
}
