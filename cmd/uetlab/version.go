package main

import (
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"
)

// release is set by the linker: -X main.release=v0.1.0.
var release = ""

// version is the release, or what the build knows of itself.
func version() string { return versionInfo().Version }

// versionView is the answer to version.
type versionView struct {
	Version  string `json:"version"`
	Revision string `json:"revision"` // of the sources, with + when they were changed
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func versionCommand() *cli.Command {
	return verb{name: "version", usage: "print the version of this binary", examples: []string{"uetlab version", "uetlab version --format json"},
		flags: []cli.Flag{formatFlag()}, run: func(c *call) error {
			v := versionInfo()
			return c.render(v, func() table {
				t := table{columns: []string{"VERSION", "REVISION", "GO", "PLATFORM"}}
				t.add(v.Version, dash(v.Revision), v.Go, v.Platform)
				return t
			})
		}}.command()
}

func versionInfo() versionView {
	v := versionView{Version: release, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if v.Version == "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			v.Revision = s.Value + v.Revision
		case s.Key == "vcs.modified" && s.Value == "true":
			v.Revision += "+"
		}
	}
	return v
}
