package topology

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// mark stands at the end of each line that must be named by a problem.
const mark = "§"

// slips replace one line of testdata/full.yaml by each of several wrong ones. A replacement without a mark is the
// wrong line itself; with marks, it may be several lines of which the marked ones are wrong.
var slips = []struct {
	line  string
	wrong []string
}{
	{"name: full", []string{"", "name:", "name: 7", "name: Full", "name: my lab", "name: -x", "name: [a]", "name: {a: b}", "name: true", `name: ""`,
		"nmae: full", "Name: full", "name: abcdefghijklmnopqrstuvwxyz0123456", "name: full" + "\nname: twice §", "name: &a full", "name: !!str full"}},
	{`description: "all keys: at once"`, []string{"description: [a]", "description: 12", "description:", "descripton: x", "description: true"}},
	{"  kind: leaf-spine", []string{"", "  kind: leafspine", "  kind: fattree", "  kind: 3", "  kind:", "  kind: ring", "  knid: leaf-spine", "  kind: [leaf-spine]", "  kind: Leaf-Spine",
		"  kind: leaf-spine\n  kind: star §", "  kind: leaf-spine\n  color: red §"}},
	{"  spines: 2", []string{"", "  spines: 0", "  spines: -1", "  spines: 65", "  spines: two", `  spines: "2"`, "  spines: 2.5", "  spines: 2.0", "  spines:", "  spins: 2", "  spines: 99999999999999999999",
		"  spines: [2]", "  spines: 2\n  k: 4 §", "  spines: 2\n  hosts: 4 §", "  spines: true", "  spines: .inf"}},
	{"  leaves: 3", []string{"", "  leaves: 0", "  leaves: 3x", "  leafs: 3", "  leaves: 65"}},
	{"  hostsPerLeaf: 2", []string{"  hostsPerLeaf: 0", "  hostsPerLeaf: 64", "  hostsperleaf: 2", "  hostsPerLeaf: 2 hosts", "  hosts_per_leaf: 2"}},
	{"  uplinks: 2", []string{"  uplinks: 0", "  uplinks: 64", "  uplink: 2"}},
	{"    rate: 200Gbps", []string{"    rate: 200", "    rate: 200G", "    rate: 200 Gbps", "    rate: 200gbps", "    rate: 200Gbit", "    rate: 200Gb/s", "    rate: -200Gbps", "    rate: fast", "    rate:",
		"    rate: 0Gbps", "    rate: 999kbps", "    rate: 3201Gbps", "    rate: 99999999999999999999Tbps", "    rate: 1e3Gbps", "    rate: .5Gbps", "    rate: [200Gbps]", "    rate: 1.0000000000001Gbps",
		"    rate: 200Gbps200Gbps", "    speed: 200Gbps", "    rate: 200ns", "    rate: 200GiB", "    rate: 0x10Gbps", "    rate: true", "    rate: 200Gbps\n    rate: 100Gbps §", `    rate: ""`}},
	{"    delay: 1.5us", []string{"    delay: 1.5", "    delay: 0ns", "    delay: 2s", "    delay: 1.5ns", "    delay: 500", "    delay: 500nsec", "    delay: 1h", "    delay: 1m", "    delay: -1us", "    delay: soon",
		"    delay: never", "    dealy: 1us", "    delay: 1 us", "    delay: 1µs", "    delay:", "    delay: {ns: 5}"}},
	{"    mtu: 9000", []string{"    mtu: 9000B", `    mtu: "9000"`, "    mtu: 1279", "    mtu: 9217", "    mtu: 0", "    mtu: -1", "    mtu: jumbo", "    mut: 9000", "    MTU: 9000", "    mtu:"}},
	{"    latency: 0ns", []string{"    latency: 0", "    latency: 1.1s", "    latency: 500", "    latency: auto", "    latancy: 1us"}},
	{"    buffer: 150%", []string{"    buffer: 150", "    buffer: big", "    buffer: Auto", "    buffer: 0%", "    buffer: 0B", "    buffer: 2MB", "    buffer: 2M", "    buffer: 5BDP", "    buffer: 2GiB", "    buffer: -1%",
		"    buffer: 100001%", "    buffer: 0.00001%", "    buffers: 150%", "    buffer: 0.5B", "    buffer: 150 %", "    buffer:", "    buffer: none"}},
	{"    hash: crc32", []string{"    hash: crc", "    hash: CRC32", "    hash: md5", "    hash:", "    hash: 32"}},
	{"      size: 32MiB", []string{"      size: auto", "      size: 32", "      size: 0B", "      size: 100KiB", "      sise: 32MiB", "      size: nome"}},
	{"      reserved: 1KiB", []string{"      reserved: none", "      reserved: 1KB", "      reserved: 1MiB", "      reserve: 1KiB", "      reserved: 1"}},
	{"      kmin: 20KiB", []string{"      kmin: auto", "      kmin: 20", "      kmin: 80%", "      kmn: 20KiB", "      kmin: 20KiB\n      kmin: 30KiB §"}},
	{"      kmax: 75%", []string{"      kmax: 0B", "      kmax: 75", "      kmax: none", "      kmac: 75%"}},
	{"      pmax: 50%", []string{"      pmax: 0.5", "      pmax: 101%", "      pmax: auto", "      pmax: 1B"}},
	{"      size: 128B", []string{"      size: 31B", "      size: 128", "      size: 10%", "      size: auto", "      size: 9217B"}},
	{"      victim: coin", []string{"      victim: tail", "      victim: 1", "      victim:"}},
	{"      fixIP: false", []string{"      fixIP: no", "      fixIP: 0", `      fixIP: "false"`, "      fixip: false", "      fixIP:"}},
	{"      retxLimit: 200%", []string{"      retxLimit: 100%", "      retxLimit: none", "      retxLimit: 2", "      retxlimit: 200%"}},
	{"      trimmable: [11, 13]", []string{"      trimmable: 11", "      trimmable: [11, 64]", "      trimmable: [11, -1]", "      trimmable: [11, 11]", "      trimmable: [11, 48]", "      trimmable: [11, 33]", "      trimmable: [35]", "      trimmable: [data]", "      trimmable: [1.5]"}},
	{`      disable: [172.16.2.0/24, "fd00:1::/32"]`, []string{"      disable: 172.16.2.0/24", "      disable: [172.16.2.1/24]", "      disable: [172.16.2.0]", "      disable: [leaf0]", "      disable: [172.16.2.0/33]",
		"      disable: [172.16.2.0/24, 172.16.2.0/24]", "      disabled: []", "      disable: [7]"}},
	{"      fields: [src, dst, flowlabel]", []string{"      fields: []", "      fields: src", "      fields: [src, dst, flow]", "      fields: [src, src]", "      fields: [flowlabel]", "      fields: [1]", "      hash: mix"}},
	{"      group: resilient", []string{"      group: consistent", "      group: 1"}},
	{"      buckets: 512", []string{"      buckets: 0", "      buckets: 4", "      buckets: 4097", "      buckets: many", "      bucket: 512"}},
	{"      idleTimer: 50us", []string{"      idleTimer: 50", "      idleTimer: never", "      idletimer: 50us"}},
	{"      weights: rate", []string{"      weights: speed", "      weight: rate"}},
	{"      balance: flowlet", []string{"      balance: flowlets", "      balance: spray"}},
	{"      flowletGap: 3us", []string{"      flowletGap: 0ns", "      flowletGap: 3", "      flowletGap: atuo", "      flowletGap: 101s"}},
	{"      bands: 0", []string{"      bands: -1", "      bands: 0.5", "      bands: none"}},
	{"      eth2: 3", []string{"      eth2: 0", "      eth2: 256", "      eth0: 1", "      eth65: 1", "      2: 3", "      leaf0: 3", "      eth2: heavy", "      eth60: 2", "      eth02: 3"}},
	{"      18: 6", []string{"      18: 8", "      64: 6", "      -1: 6", "      18: data0", "      af21: data", "      18: -1", "      18: [6]"}},
	{"      20: roce", []string{"      20: rocee", "      20:", "      18: roce"}},
	{"      besteffort:", []string{"      best:", "      8:", "      besteffort: 3", "      roce2:"}},
	{"        strict: false", []string{"        strict: 0", "        strickt: false"}},
	{"        weight: 10", []string{"        weight: 0", "        weight: 10%", "        weight: 10001"}},
	{"        limit: none", []string{"        limit: 0B", "        limit: 1KiB", "        limit: never"}},
	{"        alpha: 0.5", []string{"        alpha: -1", "        alpha: 129", "        alpha: 1/2", "        alpha: none", "        alpha: .inf", "        alpha: .nan", "        alpha: 50%"}},
	{"        kmax: 64KiB", []string{"        kmax: 64", "        kmax: 0B"}},
	{"        pmax: 0%", []string{"        pmax: 0", "        pmax: -1%"}},
	{"        lossless: false", []string{"        lossless: maybe"}},
	{"      7:", []string{"      07:", "      0:"}},
	{"      xoff: 100KiB", []string{"      xoff: none", "      xoff: 100", "      xoff: 0B"}},
	{"      xon: 10%", []string{"      xon: 90%", "      xon: 10", "      xon: none"}},
	{"      headroom: 120KiB", []string{"      headroom: 120", "      headrom: 120KiB", "      headroom: none"}},
	{"      quanta: 1000", []string{"      quanta: 0", "      quanta: 65536", "      quanta: 1us"}},
	{"      watchdog: 50ms", []string{"      watchdog: never", "      watchdog: 0ns", "      watchdog: 999ns", "      watchdog: 50"}},
	{"      restore: 60ms", []string{"      restore: off", "      restore: 0ns"}},
	{"      action: alert", []string{"      action: warn", "      action: true"}},
	{"      compact: 0x9998", []string{"      compact: 0x05FF", "      compact: 0x10000", "      compact: vlan"}},
	{"      wide: 0x9999", []string{"      wide: 0x9998", "      wide: 9999x", `      wide: "0x9999"`}},
	{"      interval: 64us", []string{"      interval: 0ns", "      interval: 2s", "      interval: 64"}},
	{"      strip: [eth1, eth2]", []string{"      strip: eth1", "      strip: [eth1, eth1]", "      strip: [eth0]", "      strip: [1]", "      strip: [eth1, eth60]", "      strip: [leaf0]"}},
	{"      to: eth3", []string{"      to: eth60", "      to: 3", "      to: none", "      to: eth0"}},
	{"      sample: 16", []string{"      sample: 0", "      sample: 1%"}},
	{"      from: eth1", []string{"      from: off", "      from: eth60", "      from: eth3"}},
	{"    csig: wide", []string{"    csig: on", "    csig: {enabled: true}", "    csig: 1"}},
	{"    csig: off", []string{"    csig: {enabled: true}", "    csig: none", "    csig:"}},
	{"  control: 48", []string{"  control: 64", "  control: -1", "  control: ef", "  controll: 48"}},
	{"  data: 11", []string{"  data: 48", "  data: 11.5", "  dta: 11"}},
	{"  lastHop: 35", []string{"  lastHop: 33", "  lasthop: 35"}},
	{"      hash: crc32_rot", []string{"      hash: crc64", "      hash: crc32_rot\n    hash: mix §"}},
	{"    lb: fixed", []string{"    lb: repz", "    lb: sprey", "    lb: 1", "    lb:", "    lb: mp-0", "    lb: mp-257", "    lb: mp-x", "    cc: nsccc"}},
	{"    window: 1MiB", []string{"    window: 1MB", "    window: 1", "    window: 2GiB", "    window: none", "    windows: 1MiB", "    window: 1Mbps"}},
	{"    profile: [ai-base, hpc]", []string{"    profile: []", "    profile: ai", "    profile: HPC", "    profile:", "    profile: 1", "    profile: [hpc, hpc]", "    profile: [hpc, ai]", "    profile: {hpc: true}", "    profiles: hpc"}},
	{"    eager: 32KiB", []string{"    eager: 0B", "    eager: 32", "    eager: 10%", "    eager: none", "    eager: 65KiB", "    eagre: 1KiB"}},
	{"    sendThreshold: none", []string{"    sendThreshold: 0B", "    sendThreshold: auto", "    sendThreshold: 8", "    sendthreshold: 8KiB"}},
	{"    unexpected: 0B", []string{"    unexpected: none", "    unexpected: 0", "    unexpected: 5%", "    unexpect: 1MiB"}},
	{"    rtr: 16", []string{"    rtr: -1", "    rtr: 65537", "    rtr: 8B", "    rtr: none"}},
	{"    tooLong: reject", []string{"    tooLong: cut", "    tooLong: true", "    toolong: reject"}},
	{"    ackData: 64B", []string{"    ackData: 64", "    ackData: 2KiB", "    ackData: none", "    ackdata: 64B"}},
	{"    ackTrigger: 8KiB", []string{"    ackTrigger: 8", "    ackTrigger: 512B", "    ackTrigger: 2MiB", "    ackTrigger: 10%", "    acktrigger: 8KiB"}},
	{"    evs: 64", []string{"    evs: 0", "    evs: 65", "    evs: 65537", "    evs: 64B", "    evs: many", "    ev: 64", "    evs: 64.5", "    evs: 64.0", "    evs: -1"}},
	{"    rto: htsim", []string{"    rto: 1ms", "    rto: htsm", "    rto: 1"}},
	{"      ecn: off", []string{"      ecn: of", "      ecn: 0", "      ecn: none", "      enc: off"}},
	{"      trim: true", []string{"      trim: yes", "      trims: true", "      trim:"}},
	{"      variant: ewma,qa-end", []string{"      variant: ewma,qaend", "      variant: [ewma]", "      variant: spec,ewma", "      variant: 1"}},
	{"      maxWnd: 900KiB", []string{"      maxWnd: 1KiB", "      maxWnd: 900", "      maxWnd: 50%", "      maxWnd: 0B", "      maxwnd: 900KiB", "      maxWnd: auto"}},
	{"      targetQdelay: 7us", []string{"      targetQdelay: 7", "      targetQdelay: 0us", "      targetQdelay: 1ns", "      targetDelay: 7us", "      targetQdelay: 101s"}},
	{"      alpha: 3000.5", []string{"      alpha: -1", "      alpha: 2000000000", "      alpha: 1us", "      alfa: 1"}},
	{"      fastDelay: 0us", []string{"      fastDelay: 0", "      fastDelay: none"}},
	{"      eta: 0B", []string{"      eta: 0", "      eta: none", "      eta: 1.5B"}},
	{"      gamma: 0", []string{"      gamma: 1.1", "      gamma: 80%", "      gamma: off", "      gamma: [1]", "      gama: 0"}},
	{"      maxMdJump: 0.6", []string{"      maxMdJump: 0", "      maxMdJump: 2"}},
	{"      quickAdapt: off", []string{"      quickAdapt: 0", "      quickAdapt: never", "      quickadapt: off"}},
	{"      qaGate: 0", []string{"      qaGate: 31", "      qaGate: 1.5", "      qaGate: 30.0"}},
	{"      qaThreshold: none", []string{"      qaThreshold: never", "      qaThreshold: 0ns"}},
	{"      mss: 4086", []string{"      mss: 63", "      mss: 4086B"}},
	{"      grant: 16KiB", []string{"      grant: 255B", "      grant: 16"}},
	{"      share: 0.98", []string{"      share: 0", "      share: 98%"}},
	{"      cut: 0.25", []string{"      cut: 0", "      cutt: 0.25"}},
	{"      hops: 3", []string{"      hops: 256", "      hops: -1", "      hops: 0.5"}},
	{"      range: none", []string{"      range: 0", "      range: nne", "      range: never"}},
	{"      minWnd: 1KiB", []string{"      minWnd: 0B", "      minWnd: 1"}},
	{"      maxWnd: 904KiB", []string{"      maxWnd: 512B", "      maxWnd: 904"}},
	{"      ai: 10Gbps", []string{"      ai: 10", "      ai: 10GB", "      ai: 0bps"}},
	{"      freeze: never", []string{"      freeze: 0ms", "      freeze: none", "      freeze: 10"}},
	{"      explore: 0", []string{"      explore: 256", "      explore: -1", "      explore: none"}},
	{"      penaltyNack: 3", []string{"      penaltyNack: 16", "      penaltyNACK: 3"}},
	{"      reroute: 1ms", []string{"      reroute: 1us", "      reroute: 1", "      hash: mix"}},
	{"      on: nack", []string{"      on: trim", "      on: true"}},
	{"      idleRounds: 3", []string{"      idleRounds: 5", "      idleRounds: 0"}},
	{"      smallMsg: 0B", []string{"      smallMsg: 0", "      smallMsg: none"}},
	{"      paths: 12", []string{"      paths: 0", "      paths: 257"}},
	{"    image: alpine:3.22", []string{"    image: al pine", "    image: 7", "    image:", `    image: ""`, "    image: -x", "    images: alpine"}},
	{`    command: [sleep, "1000"]`, []string{"    command: sleep", "    command: []", "    command: [sleep, 1000]", "    command:", "    cmd: [sh]", "    command: [[sh]]", "    command: {a: b}"}},
	{"  convergence: 100ms", []string{"  convergence: 100", "  convergence: nver", "  convergence: 101s", "  convergence: Never", "  convergance: never", "  convergence:", "  convergence: -1ms"}},
	{"  ipv4: 172.16.0.0/12", []string{"  ipv4: 172.16.0.0", "  ipv4: 172.16.0.1/12", "  ipv4: 172.16.0.0/17", "  ipv4: 0.0.0.0/8", "  ipv4: 224.0.0.0/8", "  ipv4: 127.0.0.0/8", "  ipv4: 300.1.0.0/16", "  ipv4: 10.0.0.0/7",
		"  ipv4: fd00::/48", "  ipv4: 172.16/12", "  ipv4:", "  ip4: 10.0.0.0/8", "  ipv4: 10"}},
	{"  ipv6: fd12:3456::/48", []string{"  ipv6: fd12::/64", "  ipv6: fd12::1/48", "  ipv6: 10.0.0.0/8", "  ipv6: ff02::/16", "  ipv6: fd12:3456", "  ipv6: fd12:::/48", "  ipv6: fd12::/7", "  ipv6: ::/48x"}},
	{"  leaf*:", []string{"  leef*:", "  leaf[:", "  Leaf*:"}},
	{"    buffer: 12.5%", []string{"    buffer: 12.5", "    lb: spray", "    image: x", "    kind: fep", "    rate: 1Gbps", "    buffr: 1%", "    window: 1MiB"}},
	{"  leaf0:", []string{"  leaf9:", "  leaf-0:", "  Leaf0:", "  leaf0:eth1:", "  spin0:", "  7:", "  abcdefghijklmnopqrstuvwxyz01234567:"}},
	{"    seed: 7", []string{"    seed: -7", "    seed: 7.5", "    seed: 99999999999999999999", "    seed: 9007199254740992", `    seed: "7"`, "    seed: abc", "    seed:", "    sede: 7"}},
	{"    lb: spray", []string{"    lb: sprays", "    hash: mix", "    kind: switch", "    seed: 1", "    latency: 1us", "    buffer: auto"}},
	{"    command: [sh]", []string{"    command: sh", "    command: [1]", "    window: 1MiB", "    command: [sh]\n    command: [sh] §"}},
	{"    kind: switch", []string{"    kind: swtich", "    kind: router", "    kind:", "    kind: Switch", "    kind: [switch]", "    kind: switch\n    lb: fixed §", "    kind: switch\n    ranks: 2 §"}},
	{"    kind: fep", []string{"    kind: feb", "    kind: external", "    kind: 1", "    kind: fep\n    hash: mix §"}},
	{"    rate: 100Gbps", []string{"    rate: 100", "    rate: 100GBps", "    rat: 100Gbps", "    rate: 9Tbps", "    loss: 1%"}},
	{"  - endpoints: [leaf*, spine0]", []string{"  - endpoints: [leaf*, spine9]", "  - endpoints: [leaf*]", "  - endpoints: [leaf*, spine0, spine1]", "  - endpoints: leaf0-spine0", "  - endpoints:", "  - endpoints: [leaf*, host[45]]",
		"  - endpoints: [leaf*, leef*]", "  - endpoints: [leaf[, spine0]", "  - endpoints: [7, spine0]", "  - endpoints: {a: leaf0, b: spine0}", "  - endponts: [leaf0, spine0]", "  - ends: [leaf0, spine0]", "  - endpoints: [Leaf0, spine0]", "  - endpoints: []"}},
	{"  - endpoints: [leaf0:eth3, spine0:eth1]", []string{"  - endpoints: [leaf0:eth3, spine1:eth1]", "  - endpoints: [leaf0:3, spine0:eth1]", "  - endpoints: [leaf0:eth0, spine0:eth1]", "  - endpoints: [leaf0:eth65, spine0:eth1]",
		"  - endpoints: [leaf0:eth03, spine0:eth1]", "  - endpoints: [leaf0:eth2, spine0:eth1]", "  - endpoints: [leaf0:, spine0:eth1]", "  - endpoints: [leaf0:eth3, spine0:et1]", "  - endpoints: [leaf3:eth3, spine0:eth1]",
		"  - endpoints: [leaf0:eth3:eth4, spine0:eth1]", "  - endpoints: [leaf0, leaf0]", "  - endpoints: [leaf0.eth3, spine0.eth1]"}},
	{"  - endpoints: [extra, spine0]", []string{"  - endpoints: [extra, spine2]", "  - endpoints: [extra, extra]", "  - endpoints: [extar, spine0]", "  - endpoints: [extra, spine0:eth1]", "  - endpoints: [extra, spine0:eth2]",
		"  - endpoints: [host0, spine0]", "  - endpoints: [extra, host1]"}},
	{"  - endpoints: [extra:eth2, spine1:eth7]", []string{"  - endpoints: [extra:eth5, spine1:eth7]", "  - endpoints: [extra:eth2, spine1:eth8]", "  - endpoints: [extra:eth2, spine1:eth3]"}},
	{"    mtu: 9100", []string{"    mtu: 100", "    mtu: 9100.5", "    mtu: 9.1KiB"}},
	{"  - endpoints: [probe, extra]", []string{"  - endpoints: [probe, extras]", "  - endpoints: [probe, extra]\n  - endpoints: [probe, spine0] §", "  - endpoints: [probe, extra]\n  - endpoints: [leaf0, spine0] §",
		"  - endpoints: [probe, extra]\n  - endpoints: [leaf0, spine1:eth1] §", "  - endpoints: [probe, extra]\n  - 7 §", "  - endpoints: [probe, extra]\n  - [a, b] §", "  - endpoints: [probe, extra]\n    mtu: 1500 §",
		"  - endpoints: [probe, extra]\n  - endpoints: [host0, host1] §", "  - endpoints: [probe, extra]\ntopology: x §", "  - endpoints: [probe, extra]\nfabrik: {kind: pair} §"}},
}

// whole files that are wrong, with what the first problem must say.
var wrongFiles = []struct{ text, want string }{
	{"§", "empty"},
	{"# only a comment§", "empty"},
	{"- a§", "not a mapping"},
	{"just text§", "not a mapping"},
	{"name: x§", "two are needed"},
	{"name: x\nfabric:§", "nothing, not a mapping"},
	{"name: x\nfabric: pair§", "not a mapping"},
	{"name: x\nfabric: {}§", "kind is missing"},
	{"name: x\nfabric: {kind: pair, hosts: 2}§", "it takes kind alone"},
	{"name: x\nfabric: {kind: star}§", "hosts is missing"},
	{"name: x\nfabric: {kind: star, hosts: 1}\nrouting: {}", "two are needed"},
	{"name: x\nfabric: {kind: fat-tree, k: 3}§", "odd"},
	{"name: x\nfabric: {kind: fat-tree, k: 24}§", "out of range"},
	{"name: x\nfabric: {kind: dumbbell, hosts: 64}§", "65 ports"},
	{"name: x\nfabric: {kind: leaf-spine, spines: 64, leaves: 2}§", "66 ports"},
	{"name: x\nfabric: {kind: pair}\nnodes: {far0: {kind: host}}§", "has no link"},
	{"name: x\nfabric: {kind: pair}\nnodes: {far0: {kind: host}, far1: {kind: host}}§\nlinks: [{endpoints: [far0, far1]}]", "cannot be reached from host0"},
	{"name: x\nfabric: {kind: star, hosts: 3}\nlinks: [{endpoints: [host2, leaf0], mtu: 1500}]", "does not match the 4500"},
	{"name: x\nnodes: {a: {kind: fep}, b: {kind: fep}, s: {kind: switch}}\nlinks: [{endpoints: [a, s]}, {endpoints: [a, b]}]§", "has 2 links"},
	{"name: x\nfabric: {kind: pair}\ndefaults: {fep: {window: 1KiB}}§", "does not hold one packet"},
	{"name: x\nfabric: {kind: star, hosts: 2}\ndefaults: {switch: {buffer: 1KiB}}§", "does not hold one full frame"},
	{"name: x\nfabric: {kind: star, hosts: 2}\nnodes: {leaf0: {buffer: 1%}}§", "does not hold one full frame"},
	{"name: x\nfabric: {kind: star, hosts: 2}\ndefaults: {switch: {queues: {roce: {lossless: true}}}}§", "without PFC nothing keeps a queue from overflowing; add pfc.enabled: true"},
	{"name: x\nfabric: {kind: star, hosts: 2}\ndefaults: {switch: {pfc: {enabled: false}, queues: {\n roce: {lossless: true}}}}§", "without PFC"},
	{"name: x\nfabric: {kind: star, hosts: 2}\ndefaults: {switch: {queues: {roce: {lossless: false}}, pfc:\n {enabled: true}}}§", "no queue is lossless"},
	{"name: x\nfabric: {kind: star, hosts: 2}\ndefaults: {switch: {queues: {control: {weight: 5}}}}§", "a strict queue goes before all others and has no weight; leave it out, or add queues.control.strict: false"},
	{"name: x\nfabric: {kind: star, hosts: 2}\ndefaults: {switch: {queues: {trimmed: {ecn: true}}}}§", "never marked"},
	{"name: x\nfabric: {kind: star, hosts: 2}\ndefaults: {switch: {queues: {data: {alpha: 1}}}}§", "of which there is none; add shared: {size: 4MiB}"},
	{"name: x\nfabric: {kind: star, hosts: 2}\ndefaults: {switch: {shared: {reserved: 10KiB}}}§", "add shared.size"},
	{"name: x\nfabric: {kind: star, hosts: 2}\ndefaults: {switch: {pfc: {enabled: true}, queues: {data: {lossless: true, trim: true}}}}§", "drops nothing that could be trimmed"},
	{"name: x\nfabric: {kind: star, hosts: 2}\ndefaults: {switch: {pfc: {enabled: true}, queues: {roce: {wred: true}}}}§", "a lossless queue drops nothing"},
	{"name: x\nfabric: {kind: star, hosts: 2}\ndefaults: {switch: {pfc: {enabled: true}, classes: {34: roce}}}§", "would go into a lossless queue"},
	{"name: x\nfabric: {kind: star, hosts: 2}\ndefaults: {switch: {pfc: {enabled: true, xoff: 1KiB, xon: 0B}}}§", "does not hold one full frame"},
	{"name: x\nfabric: {kind: star, hosts: 2}\ndefaults: {switch: {queues: {data: {limit: 1KiB}}}}§", "write auto, or at least 4514B"},
	{"name: x\nfabric: {kind: star, hosts: 2}\ndefaults: {switch: {trim: {retxLimit: 110%}, queues: {data: {limit: 120%}}}}§", "below the data queue's limit"},
	{"name: x\nfabric: {kind: star, hosts: 2}\nnodes: {leaf0: {ecn: {kmin: 90%}}}§", "make kmin the smaller one"},
	{"name: x\nfabric: {kind: star, hosts: 2}\nnodes: {leaf0: {mirror: {to: eth3}}}§", "its ports are eth1 to eth2"},
	{"name: x\nfabric: {kind: star, hosts: 2}\nnodes: {host*: {trim: {enabled: false}}}§", "belongs to a switch, and host0 is a fep"},
	{"name: x\nfabric: {kind: star, hosts: 2}\ndscp: {data: 46}§", "also the code point of control"},
	{"name: x\nfabric: {kind: star, hosts: 2}\ndscp: {control: 10}§", "also the code point of"},
	{"name: x\nfabric: {kind: pair§\n", "not YAML"},
	{"name: x\n\tfabric: {kind: pair}§", "not YAML"},
	{"name: x\nfabric: {kind: pair}\n---\nname: y§", "document 2"},
	{"name: \"x§\nfabric: {kind: pair}", "not YAML"},
	{"name: x\nfabric: &f {kind: pair}§\n", "anchor"},
	{"name: x\nfabric: {kind: pair}\n? [a, b]\n: c§", "not"},
	{"name: x\nfabric: {kind: pair}\n1: 2§", "not a key"},
	{"name: x\nfabric: {kind: pair}\n<<: {a: 1}§", "not a key"},
	{"name: x\nfabric: {kind: pair}\nnodes: [host0]§", "not a mapping"},
	{"name: x\nfabric: {kind: pair}\nlinks: {a: b}§", "not a list"},
	{"name: x\nfabric: {kind: pair}\ndefaults: []§", "not a mapping"},
	{"name: x\nfabric: {kind: pair}\nrouting: never§", "not a mapping"},
	{"name: x\xff\nfabric: {kind: pair}", "not UTF-8"},
	{"name: x\nfabric: " + strings.Repeat("[", 100) + "§", "nested too deeply"},
	{"# x§" + strings.Repeat("\n", 16_001), "at most 16000 are read"},
	{"# x§" + strings.Repeat("x", 512<<10), "at most 524288 are read"},
	{"name: x\nlinks: [" + strings.Repeat(",", 60_001) + "]§", "more than 60000 colons"},
	{"name: x\nfabric: {kind: leaf-spine, spines: 60, leaves: 300}§", "out of range"},
	{"name: x\nfabric: {kind: star, hosts: 2}\naddressing: {ipv4: 10.0.0.0/24}§", "the wrong size"},
}

// several problems in one file: every marked line, and no other, must be named.
var manyWrong = []string{
	"name: X§\nfabric: {kind: star, hosts: 4}\ndefaults:\n  link: {rate: 400G}§\n  switch: {hsah: mix}§\nnodes:\n  host9: {}§\n  leaf0: {lb: spray}§\nlinks:\n  - {endpoints: [leaf0, hots1], rate: 1Gbps}§\n  - {endpoints: [leaf0:eth1, host1]}§\n",
	"fabric: {kind: pair} # the name is missing, which is said of line 1\nroutng: {}§\nnodes: {host0: {kind: switch}}§\n",
	"name: x\nfabric: {kind: leaf-spine, spines: 2, leafs: 3}§\nnodes:\n  leaf99: {latency: 5}§\n  leaf0: {buffer: 3KB}§\n",
	"name: x\nfabric: {kind: leaf-spine, spines: 99, uplinks: 0, hosts: 4, leavs: 2}§\n",
	"name: x\nnodes:\n  a: {kind: fep}\n  b: {kind: fpe}§\n  c: {kind: fep, hash: mix}§\nlinks:\n  - {endpoints: [a, d]}§\n  - {endpoints: [a, b]}\n",
}

func TestBrokenFiles(t *testing.T) {
	corpus := brokenCorpus(t)
	for _, b := range corpus {
		_, err := Parse("lab.yaml", []byte(b.text))
		if err == nil {
			t.Errorf("%s: accepted:\n%s", b.what, b.text)
			continue
		}
		if got := linesOf(err); !slices.Equal(got, b.lines) {
			t.Errorf("%s: lines %v, want %v:\n%v", b.what, got, b.lines, err)
		}
		if !strings.Contains(err.Error(), b.want) {
			t.Errorf("%s: %v\nwant %q", b.what, err, b.want)
		}
	}
	t.Logf("%d broken files, each refused in the line that is wrong", len(corpus))
	if len(corpus) < 200 {
		t.Errorf("only %d broken files", len(corpus))
	}
}

type broken struct {
	what, text, want string
	lines            []int
}

// brokenCorpus makes every broken file there is.
func brokenCorpus(t testing.TB) []broken {
	t.Helper()
	full := readFull(t)
	var all []broken
	for _, s := range slips {
		if strings.Count("\n"+full, "\n"+s.line+"\n") != 1 {
			t.Fatalf("line %q is not in the file once", s.line)
		}
		for _, w := range s.wrong {
			if w != "" && !strings.Contains(w, mark) {
				w += mark
			}
			b := unmark(strings.Replace(full, s.line+"\n", w+"\n", 1))
			b.what = fmt.Sprintf("%q for %q", w, s.line)
			if w == "" { // something is missing: its section is named
				b.lines = []int{1}
				if strings.HasPrefix(s.line, "  ") {
					b.lines = []int{4}
				}
			}
			all = append(all, b)
		}
	}
	for _, w := range wrongFiles {
		b := unmark(w.text)
		b.what, b.want = fmt.Sprintf("%.60q", w.text), w.want
		if b.lines == nil {
			b.lines = map[string][]int{"two are needed": {1}, "does not match the 4500": {3}, "not UTF-8": {1}}[w.want]
		}
		all = append(all, b)
	}
	for _, text := range manyWrong {
		b := unmark(text)
		b.what = "many"
		if !strings.HasPrefix(text, "name") {
			b.lines = append([]int{1}, b.lines...)
		}
		all = append(all, b)
	}
	return all
}

// unmark takes the marks out and notes their lines.
func unmark(text string) broken {
	var b broken
	for i, line := range strings.Split(text, "\n") {
		if strings.Contains(line, mark) {
			b.lines = append(b.lines, i+1)
		}
	}
	b.text = strings.ReplaceAll(strings.ReplaceAll(text, " "+mark, ""), mark, "")
	return b
}
