package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/experiment"
)

func compareCommand() *cli.Command {
	return verb{name: "compare", args: "FILE…|WORKLOAD", usage: "run variants of congestion management side by side", max: -1,
		text: "Runs a workload once for each variant and seed, and prints the variants with the best first: completion times of flows and how\n" +
			"they compare with the ideal, trims, drops, retransmissions, the highest queue, fairness. Either the command line says what the\n" +
			"variants are (the product of --cc, --lb and --ack) and what is run, with the flags of run; or FILE does: an experiment, which\n" +
			"also says what is expected. docs/compare.md and labs/README.md tell how to write one.\n\n" +
			"Runs go to the lab that is up, one after the other, or with --sim to the simulator, several at once; figures do not depend on\n" +
			"how many. Exit code 8 says that an expectation failed, 7 that a run did.\n\nWorkloads:\n" + workloadText(),
		examples: []string{"uetlab compare --cc nscc,swift,dcqcn --lb reps,oblivious permutation --size 2MiB", "uetlab compare labs/*.yaml --sim",
			"uetlab compare --sim fat-tree-k4 --cc nscc --lb reps,oblivious,fixed --ack packet --seeds 1,2,3 --html report.html permutation",
			"uetlab compare labs/incast.yaml --sim --format json", "uetlab compare --sim ls16.topo --cc nscc,dctcp --fep evs=256 --link 'leaf0-spine0 rate=25%' incast"},
		flags: labFlags(compareFlags()...), run: runCompare}.command()
}

// axes are the flags that list values to compare.
var axes = []string{"cc", "lb", "ack"}

// compareFlags are those of compare itself and those of runs that it does not read otherwise.
func compareFlags() []cli.Flag {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "cc", Usage: "congestion controls to compare, `LIST` with commas: nscc,swift"},
		&cli.StringFlag{Name: "lb", Usage: "load balancers to compare, `LIST`: reps,oblivious"},
		&cli.StringFlag{Name: "ack", Usage: "ways to acknowledge to compare, `LIST`: packet,coalesced"},
		&cli.StringSliceFlag{Name: "fep", Usage: "`KEY=VALUE` of a topology's fep mapping, for all variants; may stand often"},
		&cli.StringFlag{Name: "seeds", Usage: "seeds of the runs of each variant, `LIST`: 1,2,3; default that of --seed"},
		&cli.StringFlag{Name: "sim", Usage: "simulate `TOPOLOGY`; of files, where it is left out, the one that they name"},
		&cli.StringFlag{Name: "html", Usage: "write a report with charts, one page that needs no network, to `FILE`"},
		&cli.DurationFlag{Name: "every", Usage: "sample queues, rates and windows in steps of `TIME` (virtual), for --html and JSON; default for --html: some hundred steps in all"},
		&cli.IntFlag{Name: "jobs", Usage: "`N` simulations at once; default: one a processor"},
	}
	return append(flags, sharedFlags()...)
}

// sharedFlags are the flags of runs that compare hands on.
func sharedFlags() []cli.Flag {
	own := []string{"cc", "lb", "ack", "fep", "warm", "every", "series", "emit"}
	flags := append(workloadFlags(),
		&cli.StringFlag{Name: "until", Usage: "stop simulations `TIME` (virtual) after the start of a run, done or not"},
		&cli.StringSliceFlag{Name: "link", Usage: "do to a link what link set and link fail do, before or in each run: `'LINK SETTING… [from=NODE] [at=TIME]'`; may stand often"},
		&cli.StringFlag{Name: "chaos", Usage: "simulations: the script of faults in `FILE`, from the start of each run on"},
		&cli.Uint64Flag{Name: "lab-seed", Value: 1, Usage: "simulations: of every random choice of the fabric"})
	return slices.DeleteFunc(flags, func(f cli.Flag) bool { return slices.Contains(own, f.Names()[0]) })
}

func runCompare(c *call) error {
	if os.Getenv("GOGC") == "" && c.IsSet("sim") {
		defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	}
	list, err := c.experiments()
	if err != nil {
		return err
	}
	runners := make([]experiment.Runner, len(list))
	for i, e := range list { // nothing runs before all of it has been read
		if runners[i], err = c.runner(e); err != nil {
			return err
		}
		if err := e.Prepare(runners[i]); err != nil {
			return asUsage(err)
		}
	}
	if name := c.String("html"); name != "" { // told now, not after all runs
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o644)
		if err != nil {
			return usage("--html: %w", err)
		}
		if err := f.Close(); err != nil {
			return fmt.Errorf("--html: %w", err)
		}
	}
	out := &comparisons{c: c, many: len(list) > 1}
	for i, e := range list {
		if err := out.run(e, runners[i]); err != nil {
			return err
		}
	}
	return out.end()
}

// asUsage gives an error that has no code of its own that of a wrong command line.
func asUsage(err error) error {
	if e := api.AsError(err); e.Code != api.CodeFailure {
		return e
	}
	return usage("%w", err)
}

// experiments are those of the files, or the one of the command line.
func (c *call) experiments() ([]*experiment.Experiment, error) {
	args := c.args
	if len(args) == 0 && isFile(c.String("sim")) { // --sim FILE
		return nil, usage("compare: needs FILE or WORKLOAD").WithHint("write --sim behind it: uetlab compare %s --sim", c.String("sim"))
	}
	if len(args) == 0 {
		return nil, usage("compare: needs FILE… or WORKLOAD").WithHint("for example uetlab compare --sim fat-tree-2x4 --lb reps,oblivious permutation")
	}
	if len(args) == 1 && !strings.ContainsAny(args[0], "./") && !isFile(args[0]) {
		e, err := c.ofFlags(args[0])
		return []*experiment.Experiment{e}, err
	}
	for _, f := range append(append(slices.Clone(axes), "fep", "seeds"), flagsOf(sharedFlags())...) {
		if c.IsSet(f) {
			return nil, usage("%s: the experiment's file says what is run", dashed(f)).WithHint("leave it out, or write it into the file")
		}
	}
	var list []*experiment.Experiment
	for _, name := range args {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, usage("compare: %w", err)
		}
		e, err := experiment.Parse(name, text)
		if err != nil {
			return nil, usage("%w", err).WithHint("docs/compare.md says what an experiment may hold")
		}
		list = append(list, e)
	}
	return list, nil
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return name != "" && err == nil && !info.IsDir()
}

// flagsOf names flags.
func flagsOf(flags []cli.Flag) (out []string) {
	for _, f := range flags {
		out = append(out, f.Names()[0])
	}
	return out
}

// ofFlags makes the experiment that the command line describes.
func (c *call) ofFlags(name string) (*experiment.Experiment, error) {
	if err := knownWorkload("compare", name); err != nil {
		return nil, err
	}
	if c.IsSet("sim") && c.String("sim") == "" {
		return nil, usage("--sim: which topology?").WithHint("for example --sim fat-tree-2x4")
	}
	e := &experiment.Experiment{Name: name, Topology: c.String("sim"), Workload: c.workloadWords(name)}
	a := experiment.Axes{CC: splitList(c.String("cc")), LB: splitList(c.String("lb")), ACK: splitList(c.String("ack"))}
	if len(a.CC)+len(a.LB)+len(a.ACK) == 0 {
		return nil, usage("compare: nothing to compare").WithHint("give lists: --cc nscc,swift, --lb reps,oblivious, --ack packet,coalesced")
	}
	fep := map[string]string{}
	for _, kv := range c.StringSlice("fep") {
		key, v, ok := strings.Cut(kv, "=")
		if !ok || key == "" || v == "" {
			return nil, usage("--fep (%s): not KEY=VALUE", kv).WithHint("for example --fep evs=256")
		}
		if slices.Contains(axes, key) {
			return nil, usage("--fep (%s): has a flag of its own", kv).WithHint("write --%s %s", key, v)
		}
		fep[key] = v
	}
	for _, s := range splitList(c.String("seeds")) {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil || slices.Contains(e.Seeds, n) {
			return nil, usage("--seeds (%s): not a list of different numbers", c.String("seeds")).WithHint("for example 1,2,3")
		}
		e.Seeds = append(e.Seeds, n)
	}
	e.Variants = a.Product()
	if len(e.Variants) > experiment.MaxVariants {
		return nil, usage("compare: %d variants, at most %d are compared", len(e.Variants), experiment.MaxVariants)
	}
	for i := range e.Variants {
		v := &e.Variants[i]
		if slices.ContainsFunc(e.Variants[:i], func(o experiment.Variant) bool { return o.Name == v.Name }) {
			return nil, usage("compare: variant %s twice", v.Name).WithHint("name each value once")
		}
		v.Links = c.StringSlice("link")
		for key, value := range fep {
			v.FEP[key] = value
		}
	}
	return e, nil
}

// splitList reads a list with commas.
func splitList(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}

// workloadWords writes what the command line says of the run as words that run and sim take.
func (c *call) workloadWords(name string) []string {
	words := []string{name}
	for _, f := range flagsOf(sharedFlags()) {
		if !c.IsSet(f) || f == "link" {
			continue
		}
		switch v := c.Value(f).(type) {
		case cli.StringSlice:
			for _, s := range v.Value() {
				words = append(words, dashed(f)+"="+s)
			}
		default:
			words = append(words, fmt.Sprintf("%s=%v", dashed(f), v))
		}
	}
	return words
}

// runner makes what runs an experiment.
func (c *call) runner(e *experiment.Experiment) (experiment.Runner, error) {
	if !c.IsSet("sim") {
		return newLabRunner(c, e)
	}
	if t := c.String("sim"); t != "" {
		e.Topology = t
	}
	return newSimRunner(c, e)
}

// commandLine writes the words of the command line so that a shell reads them again.
func (c *call) commandLine() string {
	words, _ := c.App.Metadata[wordsKey].([]string)
	out := []string{program}
	for _, w := range words {
		if w == "" || strings.ContainsFunc(w, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_=./,:+%@", r))
		}) {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		out = append(out, w)
	}
	return strings.Join(out, " ")
}

// readRun reads words as the command line of run or sim, without running anything.
func (c *call) readRun(ctx context.Context, cmd *cli.Command, words []string) (*call, error) {
	var got *call
	quiet := &ui{in: c.in, out: &counter{Writer: io.Discard}, err: io.Discard, signals: c.signals}
	cmd.Action = func(x *cli.Context) error {
		got = &call{Context: x, ui: quiet, ctx: ctx, args: x.Args().Slice()}
		return nil
	}
	l, err := reorder([]*cli.Command{cmd}, append([]string{cmd.Name}, words...))
	if err != nil {
		return nil, err
	}
	if l.help {
		return nil, usage("workload: asks for help").WithHint("uetlab help %s", cmd.Name)
	}
	err = newApp(quiet, []*cli.Command{cmd}).RunContext(ctx, l.argv(program))
	return got, err
}
