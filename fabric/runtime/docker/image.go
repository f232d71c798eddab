package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
)

const (
	// selfBinary is the running binary even when its file was replaced or removed by a new build.
	selfBinary = "/proc/self/exe"

	kindNode = "node"
	kindHost = "host"

	nodeRepo = "uetlab"
	hostRepo = "uetlab-host"
)

// Image makes sure that the engine has the image of the binary and returns its name, "uetlab:" and 12 hex digits of the
// binary's SHA-256. Images of other binaries that no container uses are removed. Start does all this by itself.
func (r *Runtime) Image(ctx context.Context) (string, error) {
	b, err := readBinary(r.cfg.Binary)
	if err != nil {
		return "", err
	}
	return r.ensure(ctx, b, "")
}

// executable is a static executable and its content hash.
type executable struct {
	data []byte
	sha  string
}

// readBinary reads the executable and refuses one that cannot start in an empty root.
func readBinary(path string) (executable, error) {
	if path == "" {
		path = selfBinary
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return executable{}, fmt.Errorf("docker: read the uetlab binary: %w", err)
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return executable{}, fmt.Errorf("docker: %s: not a Linux executable: %w", path, err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return executable{}, fmt.Errorf("docker: %s: %w: build it with CGO_ENABLED=0 (make build does)", path, ErrNotStatic)
		}
	}
	sum := sha256.Sum256(data)
	return executable{data: data, sha: hex.EncodeToString(sum[:])}, nil
}

// ensure returns the image of the binary alone, or for a host node the one derived from base, and builds it when it is
// missing or holds another binary.
func (r *Runtime) ensure(ctx context.Context, b executable, base string) (string, error) {
	tag, kind, from := nodeRepo+":"+b.sha[:12], kindNode, "scratch"
	if base != "" {
		// The base image may change under its name, so its name and the binary's hash identify the derived one only
		// until the next build; the engine's build cache makes a rebuild cheap.
		sum := sha256.Sum256([]byte(b.sha + "\n" + base))
		tag, kind, from = hostRepo+":"+hex.EncodeToString(sum[:6]), kindHost, base
	}
	old, err := r.cli.ImageInspect(ctx, tag)
	if err != nil && !notFound(err) {
		return "", fmt.Errorf("docker: inspect image %s: %w", tag, err)
	}
	mine := err == nil && old.Config != nil && old.Config.Labels[labelImage] == kind
	if mine && base == "" && old.Config.Labels[labelSHA256] == b.sha {
		return tag, nil
	}
	if err := r.build(ctx, b, tag, kind, from); err != nil {
		return "", fmt.Errorf("docker: build image %s from %s: %w", tag, from, err)
	}
	if now, err := r.cli.ImageInspect(ctx, tag); mine && err == nil && now.ID != old.ID {
		_, _ = r.cli.ImageRemove(ctx, old.ID, image.RemoveOptions{PruneChildren: true}) // it has lost its name; see prune
	}
	r.prune(ctx, b.sha)
	return tag, nil
}

// build has the engine build an image of base and the binary. Everything goes into the request; no file is written.
func (r *Runtime) build(ctx context.Context, b executable, tag, kind, base string) error {
	dockerfile := "FROM " + base + "\nCOPY uetlab /uetlab\nENTRYPOINT [\"/uetlab\"]\n"
	pr, pw := io.Pipe()
	go func() { pw.CloseWithError(writeContext(pw, dockerfile, b.data)) }()
	resp, err := r.cli.ImageBuild(ctx, pr, build.ImageBuildOptions{
		Tags:        []string{tag},
		Dockerfile:  "Dockerfile",
		Remove:      true,
		ForceRemove: true,
		NetworkMode: "none",
		Labels:      map[string]string{labelImage: kind, labelSHA256: b.sha},
		Version:     build.BuilderV1,
	})
	pr.CloseWithError(errors.New("build ended"))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return buildResult(resp.Body)
}

// writeContext writes the build context, a tar archive. Times are fixed so that the build cache can recognize it.
func writeContext(w io.Writer, dockerfile string, bin []byte) error {
	tw := tar.NewWriter(w)
	for _, f := range []struct {
		name string
		mode int64
		data []byte
	}{{"Dockerfile", 0o644, []byte(dockerfile)}, {"uetlab", 0o755, bin}} {
		h := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.data)), ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
		if err := tw.WriteHeader(h); err != nil {
			return err
		}
		if _, err := tw.Write(f.data); err != nil {
			return err
		}
	}
	return tw.Close()
}

// buildResult reads the engine's progress stream, in which alone it reports that a build failed.
func buildResult(body io.Reader) error {
	dec := json.NewDecoder(body)
	for {
		var m struct {
			Error       string `json:"error"`
			ErrorDetail struct {
				Message string `json:"message"`
			} `json:"errorDetail"`
		}
		switch err := dec.Decode(&m); {
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("read the engine's answer: %w", err)
		}
		if m.ErrorDetail.Message != "" {
			return errors.New(m.ErrorDetail.Message)
		}
		if m.Error != "" {
			return errors.New(m.Error)
		}
	}
}

// prune removes our images of other binaries. The engine refuses to remove one that a container uses, running or not,
// and that is as it should be; so errors are of no interest.
func (r *Runtime) prune(ctx context.Context, keep string) {
	imgs, err := r.cli.ImageList(ctx, image.ListOptions{Filters: filters.NewArgs(filters.Arg("label", labelImage))})
	if err != nil {
		return
	}
	for _, img := range imgs {
		if stale(img, keep) {
			_, _ = r.cli.ImageRemove(ctx, img.ID, image.RemoveOptions{PruneChildren: true})
		}
	}
}

// stale reports that an image was built here and holds another binary than keep. Labels are inherited, so an image that
// somebody derived from ours bears them too; it is told by its name.
func stale(img image.Summary, keep string) bool {
	var prefix string
	switch img.Labels[labelImage] {
	case kindNode:
		prefix = nodeRepo + ":"
	case kindHost:
		prefix = hostRepo + ":"
	default:
		return false
	}
	if sha := img.Labels[labelSHA256]; sha == "" || sha == keep || len(img.RepoTags) == 0 {
		return false
	}
	for _, t := range img.RepoTags {
		if !strings.HasPrefix(t, prefix) {
			return false
		}
	}
	return true
}
