package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/labdir"
	"github.com/uetlab/uetlab/fabric/runtime/embedded"
	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/internal/rankproc"
	"github.com/uetlab/uetlab/workload"
)

// firstPID is the PIDonFEP of the first rank on an end point that people start by hand: below are those of ranks within FEPs, which are of
// the same job.
const firstPID = workload.MaxPerNode / 2

func rankCommand() *cli.Command {
	return verb{name: "rank", args: "WORKLOAD", usage: "be one rank of a workload, as a process in a node", max: 1,
		text: "It uses the FEP of the node that it runs in, like any application, and plays what the rank of run would play: run --processes\n" +
			"starts one for each rank. By hand, uetlab exec NODE -- uetlab rank … starts one; start all with the same arguments but for --rank, in any order: they call rank 0, which\n" +
			"names the moment at which all begin. The times are virtual, counted from there. Exit code 8 says that the data was wrong.",
		examples: []string{"uetlab rank --rank 0 --hosts host0,host1 sendrecv --size 1MiB # in host0: uetlab exec host0 -- uetlab rank …",
			"uetlab rank --rank 2 --of 4 --hosts host0,host1 allreduce --check # in host1, which has ranks 2 and 3"},
		flags: append([]cli.Flag{
			&cli.IntFlag{Name: "rank", Value: -1, Usage: "`NUMBER` of this rank, from 0"},
			&cli.IntFlag{Name: "of", Usage: "how many `RANKS` there are; default one on each host"},
			&cli.StringFlag{Name: "hosts", Usage: "`NODES` or fabric addresses of all ranks, with commas between; several ranks on each if there are more of them"},
			&cli.DurationFlag{Name: "wait", Value: 5 * time.Minute, Usage: "how long to wait for the others, in wall `TIME`"},
			&cli.BoolFlag{Name: "free", Usage: "the FEP does not wait for this process; times are then those at which it happens to act"},
			&cli.StringFlag{Name: "task", Hidden: true, Usage: "`FILE` that says it all, - for the input: what run --processes uses"},
			formatFlag(),
		}, workloadFlags()...), run: beRank}.command()
}

func beRank(c *call) error {
	if c.String("task") != "" {
		return c.rankTask()
	}
	task, err := c.handTask()
	if err != nil {
		return err
	}
	r, err := rankproc.Attach(c.ctx, "", task)
	if err != nil {
		return api.Errorf(api.CodeFailure, "%w", err)
	}
	defer r.Close()
	res, err := r.Run(c.ctx, func() { c.note("rank %d of %d is attached, and waits for the others", task.Rank, task.Spec.Ranks) })
	if err != nil {
		return api.Errorf(api.CodeFailure, "%w", err)
	}
	if c.String("format") == formatTable {
		fmt.Fprint(c.out, rankText(&task, &res))
	} else if err := c.render(res, nil); err != nil {
		return err
	}
	if res.Error != "" || res.Wrong > 0 {
		return api.Errorf(api.CodeCheck, "%s", rankFault(&task, &res))
	}
	return nil
}

func rankFault(t *rankproc.Task, r *workload.RankResult) string {
	if r.Error != "" {
		return r.Error
	}
	return fmt.Sprintf("rank %d: %d of %d elements are wrong", t.Rank, r.Wrong, r.Checked)
}

// rankText is what a person is told of a rank.
func rankText(t *rankproc.Task, r *workload.RankResult) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s of %d bytes, rank %d of %d, virtual time since all began\n#%11s %14s %14s\n", t.Spec.Workload, t.Spec.Size, t.Rank, t.Spec.Ranks, "iteration", "start (ns)", "end (ns)")
	for i, s := range r.Iterations {
		fmt.Fprintf(&b, " %11d %14d %14d\n", i, s.StartNs, s.EndNs)
	}
	if t.Spec.Check {
		fmt.Fprintf(&b, "# wrong: %d of %d elements\n", r.Wrong, r.Checked)
	}
	return b.String()
}

// handTask reads the command line of a person.
func (c *call) handTask() (t rankproc.Task, err error) {
	if len(c.args) == 0 {
		return t, usage("rank: which workload?").WithHint("for example uetlab rank --rank 0 --hosts host0,host1 sendrecv")
	}
	req, err := runRequest(c, c.arg(0))
	switch {
	case err != nil:
		return t, err
	case len(req.Sizes) != 1:
		return t, usage("--size: a rank plays one size").WithHint("run sweeps")
	case len(req.Ranks) > 0 || req.RankCount > 0 || req.PerNode > 0 || req.Warm || req.Matrix != nil:
		return t, usage("rank: --ranks, --per-node, --warm and matrix are for run").WithHint("--of says how many ranks there are, --hosts where")
	case req.FEP != nil:
		return t, usage("rank: --cc, --lb, --ack, --evs and --fep are for run: one rank cannot set the end points of the others").
			WithHint("run --processes starts ranks for a run that has settings of its own, or put them into the topology")
	case c.String("hosts") == "":
		return t, usage("rank: where are the others?").WithHint("--hosts host0,host1")
	}
	hosts := strings.Split(c.String("hosts"), ",")
	n := c.Int("of")
	if n == 0 {
		n = len(hosts)
	}
	if n < 2 || n%len(hosts) != 0 {
		return t, usage("--of (%d): %d hosts cannot have as many ranks each", n, len(hosts)).WithHint("give a multiple of %d", len(hosts))
	}
	if t.Rank = c.Int("rank"); t.Rank < 0 || t.Rank >= n {
		return t, usage("--rank (%d): not one of %d", t.Rank, n).WithHint("give 0 to %d", n-1)
	}
	known, err := knownHosts()
	if err != nil {
		return t, err
	}
	per := n / len(hosts)
	names, sets := make([]string, n), make([]fep.Profiles, n)
	for i := range n {
		p, err := known.find(hosts[i/per])
		if err != nil {
			return t, err
		}
		p.PID = uint16(firstPID + i%per)
		names[i], sets[i] = hosts[i/per], p.Profiles
		t.Peers = append(t.Peers, p)
	}
	if err := workload.Compatible(names, sets); err != nil {
		return t, usage("rank: %w", err).WithHint(api.ProfileHint)
	}
	t.Spec = workload.Spec{Workload: req.Workload, Size: req.Sizes[0], Ranks: n, Iters: req.Iterations, Check: req.Check, Seed: req.Seed,
		Algo: req.Algo, Op: req.Op, Type: req.Type, Root: req.Root, Window: req.Window, Ordered: req.Ordered}
	t.Job, t.Meet, t.Free, t.Wait = 1, true, c.Bool("free"), c.Duration("wait")
	return t, nil
}

// hostTable has the lab's end points by name, as the lab daemon writes them for nodes to see.
type hostTable map[string]workload.Peer

func knownHosts() (hostTable, error) {
	b, err := os.ReadFile(labdir.Hosts(embedded.Dir))
	if errors.Is(err, os.ErrNotExist) {
		return hostTable{}, nil
	}
	if err != nil {
		return nil, err
	}
	return readHosts(string(b)), nil
}

func readHosts(text string) hostTable {
	t := hostTable{}
	for line := range strings.Lines(text) {
		place, note, _ := strings.Cut(line, "#")
		f := strings.Fields(place)
		if len(f) < 2 {
			continue
		}
		a, err := netip.ParseAddr(f[0])
		if err != nil || !a.Is4() {
			continue
		}
		p := workload.Peer{Addr: a}
		for _, word := range strings.Fields(note) {
			switch key, value, _ := strings.Cut(word, "="); key {
			case "profiles":
				p.Profiles = fep.ProfilesOf(strings.Split(value, ","))
			case "mtu":
				p.PayloadMTU, _ = strconv.Atoi(value) // else like ours
			}
		}
		t[f[1]] = p
	}
	return t
}

func (t hostTable) find(name string) (workload.Peer, error) {
	if p, ok := t[name]; ok {
		return p, nil
	}
	if a, err := netip.ParseAddr(name); err == nil {
		for _, p := range t {
			if p.Addr == a {
				return p, nil
			}
		}
		return workload.Peer{Addr: a}, nil
	}
	if len(t) == 0 {
		return workload.Peer{}, usage("--hosts (%s): names are known in nodes only", name).WithHint("run it in a node: uetlab exec host0 -- uetlab rank …")
	}
	return workload.Peer{}, usage("--hosts (%s): no such end point", name).WithHint("there are %s", strings.Join(slices.Sorted(maps.Keys(t)), ", "))
}

// rankTask is the process of a rank that the lab daemon has started: it is told what to play by a line on its input, says when it is
// ready, and goes when the input ends.
func (c *call) rankTask() error {
	if c.String("task") != "-" {
		return usage("--task (%s): only - is taken, the input", c.String("task"))
	}
	in := bufio.NewReader(c.in)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("rank: task: %w", err)
	}
	var task rankproc.Task
	if err := json.Unmarshal(line, &task); err != nil {
		return fmt.Errorf("rank: task: %w", err)
	}
	task.Meet = false
	ctx, cancel := context.WithCancelCause(c.ctx)
	over := make(chan struct{})
	go func() { // ends with the input
		_, _ = io.Copy(io.Discard, in)
		close(over)
		cancel(errors.New("the run was given up"))
	}()
	r, err := rankproc.Attach(ctx, "", task)
	if err != nil {
		return err
	}
	defer r.Close()
	if _, err := r.Run(ctx, func() { fmt.Fprintln(c.out, rankproc.Ready) }); err != nil {
		return err
	}
	r.Linger(func() { <-over }) // others may still write into this rank's memory
	return nil
}
