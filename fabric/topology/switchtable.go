package topology

import (
	"fmt"
	"time"

	"github.com/uetlab/uetlab/switchd"
)

// The keys of a switch: of defaults.switch, of the nodes of a file and of assignments to a running switch.

const (
	maxTimer   = 100 * time.Second
	maxQuanta  = 1<<16 - 1
	maxBuckets = 4096   // of one group
	minTPID    = 0x0600 // below are lengths
)

func (p *SwitchParams) fields() []field {
	return []field{
		{key: "latency", doc: "From a packet's last bit in to its place in a queue, 0ns to 1s.", def: "500ns", to: span{to: &p.Latency, max: maxDelay}},
		{key: "buffer", doc: "What each data queue of a port holds: auto (1 plane BDP where it trims, else 5), bytes, or a percentage of the plane BDP.", def: "auto",
			to: amount{to: &p.Buffer, auto: true}},
		{key: "hash", doc: "Short for ecmp.hash.", def: defaultHash, to: word[string]{&p.Hash, hashes}},
		{key: "shared", doc: "Memory that all queues share.", to: object{to: &p.Shared, name: "shared"}},
		{key: "ecn", doc: "Marking in the data queues; queues change it for one of them.", to: object{to: &p.ECN, name: "ecn"}},
		{key: "trim", doc: "Packet trimming.", to: object{to: &p.Trim, name: "trim"}},
		{key: "ecmp", doc: "How a port is chosen of several.", to: object{to: &p.ECMP, name: "ecmp"}},
		{key: "weight", doc: "ECMP weights of ports, e.g. {eth3: 2}, 1 to 255.", to: numbered{to: &p.Weight, name: "a port", prefix: "eth", first: 1,
			pattern: portKeyForm, item: func(to **int) binding { return number{to, 1, 255} }, itemDoc: "ECMP weight of the port.", itemDef: "1"}},
		{key: "classes", doc: "Queues of further DSCPs, e.g. {18: besteffort, 20: 6}.", to: numbered{to: &p.Classes, name: "a DSCP", first: 0,
			pattern: dscpKeyForm, item: func(to **int) binding { return queueRef{to} }, itemDoc: "Queue of the DSCP.", itemDef: "besteffort"}},
		{key: "queues", doc: "Single queues: besteffort, data, trimmed, control, roce, unreliable, or 0 to 7.", to: queueMap{&p.Queues}},
		{key: "pfc", doc: "Priority flow control, for lossless queues.", to: object{to: &p.PFC, name: "pfc"}},
		{key: "csig", doc: "In-band congestion signalling.", to: object{to: &p.CSIG, name: "csig"}},
		{key: "mirror", doc: "Copies of packets to a port.", to: object{to: &p.Mirror, name: "mirror"}},
	}
}

var hashes = []string{switchd.HashMix, switchd.HashCRC32, switchd.HashCRC32Rot, switchd.HashXOR}

func (p *SharedParams) fields() []field {
	return []field{
		{key: "size", doc: "Shared memory: none, bytes, or a percentage of the plane BDP.", def: "none", to: amount{to: &p.Size, zero: "none"}},
		{key: "reserved", doc: "Of it, what each queue of each port has for itself.", def: "0B", to: amount{to: &p.Reserved, zero: "0B"}},
	}
}

func (p *ECNParams) fields() []field {
	return []field{
		{key: "enabled", doc: "Mark ECN-capable packets when they leave a long queue.", def: "true", to: truth{&p.Enabled}},
		{key: "kmin", doc: "Depth above which marks begin.", def: "20%", to: amount{to: &p.Kmin, zero: "0B"}},
		{key: "kmax", doc: "Depth from which on every packet is marked.", def: "80%", to: amount{to: &p.Kmax}},
		{key: "pmax", doc: "Probability of a mark just below kmax, in percent.", def: "100%", to: share{&p.Pmax}},
		{key: "wred", doc: "Drop what would be marked and is not ECN-capable.", def: "false", to: truth{&p.WRED}},
		{key: "lastHop", doc: "On ports to end points: mark as on others, mark nothing, or auto: not what sources send that wait for the receiver's credit.",
			def: switchd.MarkAuto, to: word[string]{&p.LastHop, []string{switchd.MarkAuto, switchd.MarkOn, switchd.MarkOff}}},
	}
}

func (p *TrimParams) fields() []field {
	return []field{
		{key: "enabled", doc: "Trim packets that do not fit their queue instead of dropping them.", def: "true", to: truth{&p.Enabled}},
		{key: "size", doc: "Bytes that are left of a frame; more where the headers need it.", def: "64B", to: amount{to: &p.Size, bytesOnly: true, min: 32, max: maxMTU}},
		{key: "victim", doc: "What is trimmed: the arriving packet, or by a coin's toss it or the last in the queue.", def: "arriving", to: word[string]{&p.Victim, []string{"arriving", "coin"}}},
		{key: "fixIP", doc: "Correct IP length and checksum of a trimmed packet; some switches do not.", def: "true", to: truth{&p.FixIP}},
		{key: "retxLimit", doc: "Depth beyond which retransmissions are trimmed: auto (1.5 times the limit of the data queue), bytes, or a percentage of the plane BDP.", def: "auto",
			to: amount{to: &p.RetxLimit, auto: true}},
		{key: "trimmable", doc: "DSCPs of packets that may be trimmed; those of data, retx and unreliable when absent.", def: "[8, 10, 12]",
			to: dscpList{&p.Trimmable}},
		{key: "disable", doc: "Source prefixes whose packets are dropped instead.", def: "[]", to: prefixList(&p.Disable)},
	}
}

func (p *ECMPParams) fields() []field {
	return []field{
		{key: "hash", doc: "Hash function: mix, crc32 and xor (which polarise over several tiers), crc32_rot.", def: defaultHash, to: word[string]{&p.Hash, hashes}},
		{key: "fields", doc: "What is hashed; sport is a UET packet's entropy value.", def: "[src, dst, proto, sport, dport]", to: wordList(&p.Fields, hashFields)},
		{key: "group", doc: "What a failed member changes: threshold (RFC 2992), modulo, resilient (only its own buckets move).", def: switchd.GroupThreshold,
			to: word[string]{&p.Group, []string{switchd.GroupThreshold, switchd.GroupModulo, switchd.GroupResilient}}},
		{key: "buckets", doc: "Buckets of a resilient group.", def: "256", to: count{to: &p.Buckets, min: 1, max: maxBuckets}},
		{key: "idleTimer", doc: "How long a bucket is idle before a member that returned gets it back.", def: "100us", to: span{to: &p.IdleTimer, max: maxTimer}},
		{key: "weights", doc: "Weights of members: equal, or by the rate that each link has now.", def: switchd.WeightsEqual,
			to: word[string]{&p.Weights, []string{switchd.WeightsEqual, switchd.WeightsRate}}},
		{key: "balance", doc: "What chooses the port: hash, flowlet, adaptive, random, rr.", def: switchd.BalanceHash,
			to: word[string]{&p.Balance, []string{switchd.BalanceHash, switchd.BalanceFlowlet, switchd.BalanceAdaptive, switchd.BalanceRandom, switchd.BalanceRR}}},
		{key: "flowletGap", doc: "Pause after which a flow may change its port: auto (half the base RTT) or a time.", def: "auto",
			to: span{to: &p.FlowletGap, word: "auto", wordIs: autoTime, min: 1, max: maxTimer}},
		{key: "bands", doc: "Bands in which adaptive and flowlet compare queue depths; 0 compares exactly.", def: "8", to: number{&p.Bands, 0, 1 << 16}},
	}
}

var hashFields = []string{"src", "dst", "proto", "sport", "dport", "flowlabel"}

func (p *QueueParams) fields() []field {
	return []field{
		{key: "strict", doc: "Serve it before all that is not strict.", def: "false", to: truth{&p.Strict}},
		{key: "weight", doc: "Share of what strict queues leave.", def: "25", to: count{to: &p.Weight, min: 1, max: 10_000}},
		{key: "limit", doc: "What it holds at one port: auto, none, bytes, or a percentage of the plane BDP.", def: "auto", to: amount{to: &p.Limit, auto: true, zero: "none"}},
		{key: "alpha", doc: "Dynamic threshold: alpha × free shared memory; 0 is none.", def: "1", to: ratio{&p.Alpha, maxAlpha}},
		{key: "ecn", doc: "Mark in this queue.", def: "true", to: truth{&p.ECN}},
		{key: "kmin", doc: "As ecn.kmin.", def: "20%", to: amount{to: &p.Kmin, zero: "0B"}},
		{key: "kmax", doc: "As ecn.kmax.", def: "80%", to: amount{to: &p.Kmax}},
		{key: "pmax", doc: "As ecn.pmax.", def: "100%", to: share{&p.Pmax}},
		{key: "wred", doc: "As ecn.wred.", def: "false", to: truth{&p.WRED}},
		{key: "trim", doc: "Trim what does not fit, where trimming is enabled.", def: "true", to: truth{&p.Trim}},
		{key: "lossless", doc: "PFC keeps it from overflowing.", def: "false", to: truth{&p.Lossless}},
	}
}

func (p *PFCParams) fields() []field {
	return []field{
		{key: "enabled", doc: "Pause senders of lossless queues; makes the queue roce lossless.", def: "false", to: truth{&p.Enabled}},
		{key: "xoff", doc: "Pause a sender above so much of one class from one port: auto (1 plane BDP), bytes, or a percentage of the plane BDP.", def: "auto", to: amount{to: &p.Xoff, auto: true}},
		{key: "xon", doc: "Let it send again at or below: auto (half of xoff), bytes, or a percentage of the plane BDP.", def: "auto", to: amount{to: &p.Xon, auto: true, zero: "0B"}},
		{key: "headroom", doc: "Room above xoff for what is under way when a pause takes effect: auto, bytes, or a percentage of the plane BDP.", def: "auto", to: amount{to: &p.Headroom, auto: true, zero: "0B"}},
		{key: "quanta", doc: "Length of a pause in 512 bit times.", def: fmt.Sprint(maxQuanta), to: count{to: &p.Quanta, min: 1, max: maxQuanta}},
		{key: "watchdog", doc: "How long a queue is stopped before it counts as stuck, or off.", def: "200ms", to: span{to: &p.Watchdog, word: "off", min: time.Microsecond, max: maxTimer}},
		{key: "restore", doc: "Until a stuck queue works again.", def: "200ms", to: span{to: &p.Restore, min: time.Microsecond, max: maxTimer}},
		{key: "action", doc: "What becomes of a stuck queue: drop its frames, forward them in spite of the pause, or only alert.", def: switchd.ActionDrop,
			to: word[string]{&p.Action, []string{switchd.ActionDrop, switchd.ActionForward, switchd.ActionAlert}}},
	}
}

func (p *CSIGParams) fields() []field {
	return []field{
		{key: "enabled", doc: "Update the CSIG tags of packets.", def: "false", to: truth{&p.Enabled}},
		{key: "compact", doc: "TPID of the compact tag.", def: "0xCCDD", to: tpid{&p.Compact}},
		{key: "wide", doc: "TPID of the wide tag.", def: "0xCCDE", to: tpid{&p.Wide}},
		{key: "interval", doc: "In which available bandwidth is measured.", def: "128us", to: span{to: &p.Interval, min: 1, max: maxDelay}},
		{key: "strip", doc: "Ports whose far end does not speak CSIG: tags are taken off.", def: "[]", to: portList(&p.Strip)},
	}
}

func (p *MirrorParams) fields() []field {
	return []field{
		{key: "to", doc: "Port that gets the copies, or off.", def: wordOff, to: portRef{&p.To, wordOff}},
		{key: "sample", doc: "Copy one of so many packets.", def: "1", to: count{to: &p.Sample, min: 1, max: 1_000_000}},
		{key: "from", doc: "Copy only what leaves by this port, or any.", def: wordAny, to: portRef{&p.From, wordAny}},
	}
}
