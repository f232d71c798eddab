package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/fabric/runtime/embedded"
)

func kernelCheck() check {
	const oldest = 5
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return warning("kernel", err.Error(), "")
	}
	release := unix.ByteSliceToString(u.Release[:])
	var major int
	if _, err := fmt.Sscanf(release, "%d.", &major); err == nil && major < oldest {
		return warning("kernel", "Linux "+release, fmt.Sprintf("labs are tested on Linux %d and later; update the kernel if something fails", oldest))
	}
	return ok("kernel", "Linux "+release)
}

func rightsCheck(root bool) check {
	if root {
		return ok("rights", "root: both runtimes")
	}
	if reason := userNamespacesOff(); reason != "" {
		return failed("rights", "not root, and "+reason, "as root: sysctl -w user.max_user_namespaces=15000 kernel.unprivileged_userns_clone=1 (where it exists); or use sudo")
	}
	return ok("rights", "not root: embedded runtime in a user namespace")
}

// userNamespacesOff tells of a switch that keeps ordinary users from making user namespaces.
func userNamespacesOff() string {
	if readSys("/proc/sys/user/max_user_namespaces") == "0" {
		return "user.max_user_namespaces is 0"
	}
	if readSys("/proc/sys/kernel/unprivileged_userns_clone") == "0" {
		return "kernel.unprivileged_userns_clone is 0"
	}
	return ""
}

// readSys reads a one-line file of the kernel; empty where it is not there.
func readSys(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// featureChecks uses the kernel features in fresh namespaces such as a lab gets.
func featureChecks(ctx context.Context, root bool) []check {
	const name = "namespaces"
	r, err := probeInside(ctx, root)
	if err != nil {
		remedy := "the kernel needs CONFIG_NET_NS, CONFIG_UTS_NS, CONFIG_IPC_NS; in a container it takes CAP_SYS_ADMIN or user namespaces"
		if !root {
			remedy = "where AppArmor restricts user namespaces, as root: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0; or use sudo"
		}
		return []check{failed(name, err.Error(), remedy)}
	}
	out := []check{ok(name, "network, mount and IPC namespaces can be made")}
	for _, f := range []struct{ name, works, err, remedy string }{
		{"veth", "veth pairs can be made", r.Veth, "modprobe veth; the kernel needs CONFIG_VETH"},
		{"AF_PACKET", "packet sockets with a memory ring work", r.Packet, "modprobe af_packet; the kernel needs CONFIG_PACKET"},
		{"mounts", "tmpfs can be mounted in a namespace", r.Mount, "a security module forbids mounts: run outside the container, or with --security-opt apparmor=unconfined"},
	} {
		if f.err != "" {
			out = append(out, failed(f.name, f.err, f.remedy))
		} else {
			out = append(out, ok(f.name, f.works))
		}
	}
	return out
}

// probeInside runs this binary's probe as a lab's daemon and nodes would run.
func probeInside(ctx context.Context, root bool) (probeResult, error) {
	var r probeResult
	exe, err := os.Executable()
	if err != nil {
		return r, err
	}
	cmd := exec.CommandContext(ctx, exe, probeName)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC}
	if !root {
		cmd.SysProcAttr = embedded.OuterNamespaces()
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	b, err := cmd.Output()
	if err != nil {
		return r, fmt.Errorf("process in new namespaces: %w %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	return r, json.Unmarshal(b, &r)
}

// probe uses the kernel features; it changes the namespaces that it runs in.
func probe() probeResult {
	var r probeResult
	if err := probeVeth(); err != nil {
		r.Veth = err.Error()
	}
	if err := probePacket(); err != nil {
		r.Packet = err.Error()
	}
	if err := probeMount(); err != nil {
		r.Mount = err.Error()
	}
	return r
}

func probeVeth() error {
	err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "probe0"}, PeerName: "probe1"})
	if err != nil {
		return fmt.Errorf("make a veth pair: %w", err)
	}
	return nil
}

// probePacket opens a packet socket with a small receive ring.
func probePacket() error {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a packet socket: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V2); err != nil {
		return fmt.Errorf("packet socket version 2: %w", err)
	}
	const block, frame = 1 << 16, 1 << 13
	ring := unix.TpacketReq{Block_size: block, Block_nr: 2, Frame_size: frame, Frame_nr: 2 * block / frame}
	if err := unix.SetsockoptTpacketReq(fd, unix.SOL_PACKET, unix.PACKET_RX_RING, &ring); err != nil {
		return fmt.Errorf("packet ring: %w", err)
	}
	return nil
}

func probeMount() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("probe", "/tmp", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=64k"); err != nil {
		return fmt.Errorf("mount tmpfs: %w", err)
	}
	return nil
}
