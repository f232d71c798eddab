package docker

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"github.com/uetlab/uetlab/fabric/runtime"
	"github.com/uetlab/uetlab/fabric/topology"
)

const (
	labDir  = "/lab"        // where a node sees Spec.Dir
	logFile = "/uetlab.log" // where a node sees Spec.Log
)

// hostTrees and hostFiles are what a host node without an image sees of this machine, read-only: programs, libraries
// and the few files of /etc that programs want. Not all of /etc: it holds keys and password hashes.
var (
	hostTrees = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}
	hostFiles = []string{
		"/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/passwd", "/etc/group",
		"/etc/nsswitch.conf", "/etc/services", "/etc/protocols", "/etc/ethertypes", "/etc/iproute2", "/etc/localtime",
		"/etc/ssl/certs", "/etc/terminfo", "/etc/bash.bashrc", "/etc/inputrc",
	}
)

// containerName is the name of a node's container. Node names have no "-", so no two nodes share one.
func containerName(lab, node string) string { return "uetlab-" + lab + "-" + node }

// containerConfig says what runs in a node's container and what it may do.
func (r *Runtime) containerConfig(s runtime.Spec, image, start string) (*container.Config, *container.HostConfig, error) {
	mounts, err := nodeMounts(s)
	if err != nil {
		return nil, nil, err
	}
	labels := map[string]string{}
	for k, v := range s.Labels {
		labels[k] = v
	}
	labels[labelLab], labels[labelNode], labels[labelUID] = s.Lab, s.Name, r.uid
	labels[labelID], labels[labelVersion], labels[labelStart] = strconv.Itoa(s.ID), r.cfg.Version, start
	labels[labelKind] = string(s.Kind)
	if b := base(s); b != "" {
		labels[labelBase] = b
	}

	cfg := &container.Config{
		Hostname:   s.Name,
		Image:      image,
		Entrypoint: []string{"/uetlab"},
		Cmd:        []string{"node", "--lab", s.Lab, "--node", s.Name, "--id", strconv.Itoa(s.ID), "--dir", labDir},
		Env: []string{
			"GODEBUG=asyncpreemptoff=1", "GOMAXPROCS=1",
			fmt.Sprintf("GOMEMLIMIT=%dMiB", r.cfg.Memory/10*9>>20), // the collector works harder before the kernel kills
			"UETLAB_LAB=" + s.Lab, "UETLAB_NODE=" + s.Name, envLog + "=" + logFile,
		},
		Labels:      labels,
		WorkingDir:  "/",
		StopSignal:  "SIGKILL",
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
	}
	pids := int64(pidsLimit)
	tmpfs := map[string]string{"/tmp": "rw,nosuid,nodev,size=64m,mode=1777"}
	if s.Kind == topology.KindHost {
		cfg.User = "0:0" // an image may name another user, who could not write the node's page
		tmpfs["/run"] = "rw,nosuid,nodev,size=16m,mode=755"
	}
	host := &container.HostConfig{
		NetworkMode:    "none",
		CapDrop:        []string{"ALL"},
		CapAdd:         []string{"NET_ADMIN", "NET_RAW", "SYS_NICE"},
		SecurityOpt:    []string{"no-new-privileges:true"},
		ReadonlyRootfs: true,
		IpcMode:        "private",
		Tmpfs:          tmpfs,
		Mounts:         mounts,
		RestartPolicy:  container.RestartPolicy{Name: container.RestartPolicyDisabled},
		// What a node says before it has opened its log, and nothing else, comes here.
		LogConfig: container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "256k", "max-file": "1"}},
		Sysctls:   sysctls(s.Kind),
		Resources: container.Resources{Memory: r.cfg.Memory, PidsLimit: &pids},
	}
	return cfg, host, nil
}

// sysctls makes the settings of the node's own kernel network stack that package hostnet would make, since /proc/sys is
// read-only in a container: silent for end points and switches, which speak for themselves; for a host no
// addresses but those configured, at once.
func sysctls(k topology.Kind) map[string]string {
	out := map[string]string{}
	_, err := os.Stat("/proc/sys/net/ipv6")
	ipv6 := err == nil
	if k != topology.KindHost {
		out["net.ipv4.ip_forward"] = "0"
	}
	for _, scope := range []string{"all", "default"} {
		prefix := "net.ipv6.conf." + scope + "."
		switch {
		case !ipv6: // the engine refuses to set what the kernel has not
		case k != topology.KindHost:
			out[prefix+"disable_ipv6"] = "1"
		default:
			out[prefix+"disable_ipv6"], out[prefix+"addr_gen_mode"] = "0", "1"
			for _, s := range []string{"autoconf", "accept_ra", "accept_dad", "router_solicitations"} {
				out[prefix+s] = "0"
			}
		}
	}
	return out
}

// nodeMounts lists what a node sees of this machine's files.
func nodeMounts(s runtime.Spec) ([]mount.Mount, error) {
	for _, p := range []string{s.Dir, s.Page, s.Log} {
		if !filepath.IsAbs(p) {
			return nil, fmt.Errorf("path %q is not absolute", p)
		}
	}
	if _, err := os.Stat(s.Page); err != nil {
		return nil, fmt.Errorf("page of the node: %w", err)
	}
	rel, err := filepath.Rel(s.Dir, s.Page)
	if err != nil || !filepath.IsLocal(rel) {
		return nil, fmt.Errorf("page %s is not below %s", s.Page, s.Dir)
	}
	f, err := os.OpenFile(s.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log of the node: %w", err)
	}
	f.Close()

	// The engine mounts shorter targets first, so the writable page lands on top of the read-only directory.
	out := []mount.Mount{
		bind(s.Dir, labDir, true),
		bind(s.Page, filepath.Join(labDir, rel), false),
		bind(s.Log, logFile, false),
	}
	if s.Kind != topology.KindHost || s.Image != "" {
		return out, nil
	}
	if _, err := os.Stat("/usr/bin"); err != nil {
		return nil, fmt.Errorf("host nodes without an image need this machine's /usr: %w; name an image for it", err)
	}
	for _, p := range append(append([]string(nil), hostTrees...), hostFiles...) {
		if _, err := os.Stat(p); err == nil {
			out = append(out, bind(p, p, true))
		}
	}
	return out, nil
}

// bind mounts one directory or file, without what is mounted below it: the read-only flag would not hold there. Unlike
// the engine's short form it is an error when source is missing.
func bind(source, target string, readOnly bool) mount.Mount {
	return mount.Mount{Type: mount.TypeBind, Source: source, Target: target, ReadOnly: readOnly,
		BindOptions: &mount.BindOptions{NonRecursive: true, Propagation: mount.PropagationRPrivate}}
}
