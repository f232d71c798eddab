package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/capture"
	"github.com/uetlab/uetlab/fabric/labdir"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/fep/cms"
	"github.com/uetlab/uetlab/fep/lb"
	"github.com/uetlab/uetlab/internal/perf"
	"github.com/uetlab/uetlab/topologies"
	"github.com/uetlab/uetlab/workload"
	"github.com/uetlab/uetlab/workload/matrix"
)

// completeName is the hidden command that the shells ask.
const completeName = "__complete"

// shells has the script of every shell: it hands the words before the cursor to this binary and offers its answer.
var shells = map[string]string{
	"bash": `_uetlab() {
	local IFS=$'\n'
	COMPREPLY=($(uetlab ` + completeName + ` -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _uetlab uetlab
`,
	"zsh": `#compdef uetlab
_uetlab() {
	local -a found
	found=("${(@f)$(uetlab ` + completeName + ` -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
	[[ -n "${found[1]}" ]] && compadd -- "${found[@]}" || _files
}
compdef _uetlab uetlab
`,
	"fish": `complete -c uetlab -f -a '(uetlab ` + completeName + ` -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
`,
}

func completionCommand() *cli.Command {
	return verb{name: "completion", args: "bash|zsh|fish", usage: "print the completion script of a shell", min: 1, max: 1,
		text: "Completes commands, flags, and the names of labs, nodes, links, topologies and workloads.",
		examples: []string{"uetlab completion bash > /etc/bash_completion.d/uetlab", "uetlab completion zsh > ~/.zsh/completions/_uetlab",
			"uetlab completion fish > ~/.config/fish/completions/uetlab.fish"},
		run: func(c *call) error {
			script, ok := shells[c.arg(0)]
			if !ok {
				return usage("completion (%s): no such shell", c.arg(0)).WithHint("valid are bash, zsh, fish")
			}
			_, err := fmt.Fprint(c.out, script)
			return err
		}}.command()
}

func completeCommand() *cli.Command {
	return verb{name: completeName, usage: "print what may stand at the end of a command line", hidden: true, max: -1,
		run: func(c *call) error {
			if len(c.args) == 0 {
				return nil
			}
			for _, s := range complete(c.ctx, c.args[:len(c.args)-1], c.args[len(c.args)-1]) {
				fmt.Fprintln(c.out, s)
			}
			return nil
		}}.command()
}

// complete gives what may stand for the word that begins with prefix, after the words before it.
func complete(ctx context.Context, before []string, prefix string) []string {
	if len(before) > 0 {
		last := before[len(before)-1]
		name := strings.TrimLeft(last, "-")
		if f := flagIndex(commands())[name]; f != nil && name != last && takesValue(f) {
			values := flagValues(ctx, f.Names()[0], before)
			if i := strings.LastIndex(prefix, ","); i >= 0 && before[0] == "compare" && slices.Contains(axes, f.Names()[0]) { // a list goes on
				for k := range values {
					values[k] = prefix[:i+1] + values[k]
				}
			}
			return matching(values, prefix)
		}
	}
	l, _ := reorder(commands(), before) // a line that is wrong so far may still be completed
	if l == nil {
		return nil
	}
	cmd := l.command()
	switch {
	case strings.HasPrefix(prefix, "-") && cmd != nil:
		return matching(append(flagNames(cmd, false), "--help"), prefix)
	case cmd == nil && len(l.args) > 0:
		return nil
	case cmd == nil:
		return matching(topNames(), prefix)
	case len(cmd.Subcommands) > 0 && len(l.args) == 0:
		words := names(cmd.Subcommands)
		if cmd.ArgsUsage != "" {
			words = append(words, argValues(ctx, l)...)
		}
		return matching(words, prefix)
	}
	return matching(argValues(ctx, l), prefix)
}

func matching(words []string, prefix string) []string {
	var out []string
	for _, w := range words {
		if strings.HasPrefix(w, prefix) {
			out = append(out, w)
		}
	}
	return out
}

// flagValues gives the values that a flag may have.
func flagValues(ctx context.Context, name string, words []string) []string {
	switch name {
	case "name":
		return labsHere()
	case "format":
		if words[0] == "perf" {
			return []string{formatTable, formatJSON, formatCSV}
		}
		return decodeFormats[slices.Contains(words, "--sequence")]
	case "runtime":
		return []string{runtimeAuto, runtimeDocker, runtimeEmbedded}
	case "time":
		return []string{"auto", "real"}
	case "layer":
		return []string{layerGuess, layerFrame, layerUET}
	case "trailer":
		return []string{trailerAuto, trailerOn, trailerOff}
	case "from":
		return nodesOf(ctx, words)
	case "links":
		return append(linksOf(ctx, words), capture.AllLinks)
	case "cm-start-unit":
		return []string{matrix.Microseconds, matrix.Picoseconds}
	case "state":
		return pdcStates()
	case "emit":
		return []string{emitHTSim}
	case "algo":
		return []string{workload.AlgoRing, workload.AlgoRD}
	case "op":
		if words[0] == "perf" {
			return perf.Atomics
		}
		return []string{workload.OpSend, workload.OpWrite}
	case "type":
		return []string{workload.Uint32, workload.Int32, workload.Float32}
	case "cc":
		return cms.Names()
	case "lb":
		return lb.Names()
	case "ack":
		return []string{"packet", "coalesced"}
	case "fep":
		return fepWords()
	case "sim":
		return topologiesHere()
	}
	return nil
}

// fepWords are the beginnings of what --fep takes.
func fepWords() (words []string) {
	for _, k := range topology.FEPKeys() {
		words = append(words, k.Name+"=")
	}
	return words
}

// argValues gives what may stand as the next positional argument.
func argValues(ctx context.Context, l *line) []string {
	first := len(l.args) == 0
	switch name := l.names(); {
	case name == "cbfc" || name == "phy" || name == "link fail" || name == "link restore" || name == "link flap" || name == "llr" || name == "llr reinit":
		return linksOf(ctx, l.flags)
	case name == "link set" && !first:
		return settingWords()
	case name == "switch set" || name == "switch reset" || first && (name == "switch show" || name == "switch queues"):
		return switchWords(ctx, l, name)
	case name == "perf":
		return perfWords(ctx, l)
	case name == "topo validate":
		return topologiesHere()
	case name == "compare":
		files, _ := filepath.Glob("*.y*ml") // the pattern is sound
		return append(workloadNames(), files...)
	case name == "sim" && len(l.args) == 1:
		return workloadNames()
	case !first:
		return nil
	case name == "up" || name == "sim" || name == "topo show" || name == "topo gen":
		return topologiesHere()
	case name == "down":
		return labsHere()
	case name == "exec" || name == "sh" || name == "restart" || name == "logs" || name == "stats" || name == "lldp":
		return nodesOf(ctx, l.flags)
	case name == "pdc":
		return endPointsOf(ctx, l.flags)
	case name == "inspect":
		return append(nodesOf(ctx, l.flags), linksOf(ctx, l.flags)...)
	case name == "wireshark":
		return append(linksOf(ctx, l.flags), installVerb)
	case name == "link set" || name == "tcpdump":
		return linksOf(ctx, l.flags)
	case name == "completion":
		return []string{"bash", "zsh", "fish"}
	case name == "run":
		return workloadNames()
	}
	return nil
}

// perfWords gives tests, then what is measured, then end points.
func perfWords(ctx context.Context, l *line) []string {
	switch len(l.args) {
	case 0:
		return perf.Tests
	case 1:
		return perf.Metrics
	}
	return endPointsOf(ctx, l.flags)
}

func workloadNames() []string {
	var out []string
	for _, w := range workload.Workloads() {
		out = append(out, w.Name)
	}
	return out
}

func topologiesHere() []string {
	out := topologies.Names()
	for _, pattern := range []string{"*.y*ml", "*" + htsimFile} {
		files, _ := filepath.Glob(pattern) // the patterns are sound
		out = append(out, files...)
	}
	return out
}

func labsHere() []string {
	dirs, _ := labdir.List() // completion has no place for errors
	var out []string
	for _, d := range dirs {
		out = append(out, d.Lab)
	}
	return out
}

// labMeant finds the lab of a command line that is not finished; nil where it is not clear.
func labMeant(flags []string) *api.Client {
	labs := labsHere()
	if name := os.Getenv(labEnv); name != "" {
		labs = []string{name}
	}
	for i, f := range flags {
		name, value, _ := strings.Cut(f, "=")
		if name != "-n" && name != "--name" {
			continue
		}
		if value == "" && i+1 < len(flags) {
			value = flags[i+1]
		}
		labs = []string{value}
	}
	if len(labs) != 1 {
		return nil
	}
	d, err := labdir.Open(labs[0])
	if err != nil {
		return nil
	}
	return api.Unix(d.Sock())
}

// planMeant is the plan of the lab that the flags mean; nil where there is none.
func planMeant(ctx context.Context, flags []string) *topology.Plan {
	cl := labMeant(flags)
	if cl == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	plan, err := cl.Plan(ctx)
	if err != nil {
		return nil
	}
	return &plan
}

func nodesOf(ctx context.Context, flags []string) []string {
	var out []string
	if plan := planMeant(ctx, flags); plan != nil {
		for _, n := range plan.Nodes {
			out = append(out, n.Name)
		}
	}
	return out
}

func endPointsOf(ctx context.Context, flags []string) []string {
	var out []string
	if plan := planMeant(ctx, flags); plan != nil {
		for _, n := range plan.Nodes {
			if n.Kind == topology.KindFEP {
				out = append(out, n.Name)
			}
		}
	}
	return out
}

func linksOf(ctx context.Context, flags []string) []string {
	var out []string
	if plan := planMeant(ctx, flags); plan != nil {
		for _, l := range plan.Links {
			out = append(out, l.Name)
		}
	}
	return out
}

// switchWords gives switches and, where settings may stand, their keys. Queues are looked into at end points too.
func switchWords(ctx context.Context, l *line, name string) []string {
	var out []string
	if plan := planMeant(ctx, l.flags); plan != nil {
		for _, n := range plan.Nodes {
			if n.Kind == topology.KindSwitch || name == "switch queues" && n.Kind == topology.KindFEP {
				out = append(out, n.Name)
			}
		}
	}
	if name == "switch set" && len(l.args) > 0 {
		for _, k := range topology.SwitchKeys() {
			out = append(out, k.Name+"=")
		}
	}
	return out
}
